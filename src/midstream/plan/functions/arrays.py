"""Arrays of one dimension, counted from 1; what lies beyond the ends is NULL."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.kernels import Kernel, kernel_type
from midstream.plan.functions.casts import cast_text
from midstream.plan.functions.model import Function, KernelRefuses, Operand, Template, function
from midstream.types import TEXT, Type, array_of

_EMPTY = {"duckdb": "[]", "spark": "array()"}


def _empty(type: Type, kernel: Kernel) -> str:
    return f"CAST({_EMPTY[kernel]} AS {kernel_type(type, kernel)})"


def _subscript(operands: Sequence[Operand], result: Type) -> str:
    array, index = operands
    if index.literal is not None and int(index.literal) > 0:
        return f"{array.text}[{index.text}]"
    return f"CASE WHEN {index.text} > 0 THEN {array.text}[{index.text}] END"


def _slice(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        array, low, high = operands
        first = f"greatest({low.text}, 1)"
        if kernel == "duckdb":
            part = f"list_slice({array.text}, {first}, {high.text})"
        else:
            part = f"slice({array.text}, {first}, greatest(least({high.text}, size({array.text})) - {first} + 1, 0))"
        return (
            f"CASE WHEN {array.text} IS NULL OR {low.text} IS NULL OR {high.text} IS NULL THEN NULL "
            f"WHEN {high.text} < {first} THEN {_empty(result, kernel)} ELSE {part} END"
        )

    return text


def _length(size: str) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        array, dimension = operands
        count = size.format(array.text)
        if dimension.literal == "1":
            return f"nullif({count}, 0)"
        return f"CASE WHEN {dimension.text} = 1 THEN nullif({count}, 0) END"

    return text


def _appended(kernel: Kernel, swapped: bool = False) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        array, item = reversed(operands) if swapped else operands
        known = f"coalesce({array.text}, {_empty(result, kernel)})"
        one = f"[{item.text}]" if kernel == "duckdb" else f"array({item.text})"
        join = "list_concat" if kernel == "duckdb" else "concat"
        return f"{join}({one}, {known})" if swapped else f"{join}({known}, {one})"

    return text


def _joined(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        left, right = (operand.text for operand in operands)
        join = "list_concat" if kernel == "duckdb" else "concat"
        return (
            f"CASE WHEN {left} IS NULL THEN {right} WHEN {right} IS NULL THEN {left} ELSE {join}({left}, {right}) END"
        )

    return text


def _as_text(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        array, separator = operands[:2]
        items = cast_text(array, array_of(TEXT), kernel)
        if len(operands) == 3:
            null = operands[2].text
            if kernel == "duckdb":
                items = f"list_transform({items}, lambda x_: coalesce(x_, {null}))"
            else:
                items = f"transform({items}, x_ -> coalesce(x_, {null}))"
        if kernel == "duckdb":
            kept = f"list_filter({items}, lambda x_: x_ IS NOT NULL)"
            written = f"array_to_string({kept}, {separator.text})"
            return f"CASE WHEN len({kept}) = 0 AND {separator.text} IS NOT NULL THEN '' ELSE {written} END"
        return f"array_join({items}, {separator.text})"

    return text


def _split(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        value, separator = operands
        one = f"[{value.text}]" if kernel == "duckdb" else f"array({value.text})"
        if separator.literal is None:
            raise KernelRefuses("the separator must be a constant")
        if kernel == "duckdb":
            parts = f"string_split({value.text}, {separator.text})"
        else:
            parts = f"split({value.text}, concat('\\\\Q', {separator.text}, '\\\\E'), -1)"
        whole = one if separator.literal == "" else parts
        return (
            f"CASE WHEN {value.text} = '' THEN {_empty(result, kernel)} WHEN {value.text} IS NOT NULL THEN {whole} END"
        )

    return text


def _member(kernel: Kernel, negated: bool) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        value, array = (operand.text for operand in operands)
        if kernel == "duckdb":
            found = f"list_contains({array}, {value})"
            unknown = f"{value} IS NULL OR len(list_filter({array}, lambda x_: x_ IS NULL)) > 0"
            empty = f"len({array}) = 0"
        else:
            found = f"array_contains({array}, {value})"
            unknown = f"{value} IS NULL OR exists({array}, x_ -> x_ IS NULL)"
            empty = f"size({array}) = 0"
        yes, no = ("false", "true") if negated else ("true", "false")
        return (
            f"CASE WHEN {array} IS NULL THEN NULL WHEN {empty} THEN {no} WHEN {found} THEN {yes} "
            f"WHEN {unknown} THEN NULL ELSE {no} END"
        )

    return text


def _contains(kernel: Kernel, swapped: bool = False) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        whole, part = (operand.text for operand in (reversed(operands) if swapped else operands))
        if kernel == "duckdb":
            missing = f"list_filter({part}, lambda x_: NOT coalesce(list_contains({whole}, x_), false))"
            return f"CASE WHEN {whole} IS NOT NULL AND {part} IS NOT NULL THEN len({missing}) = 0 END"
        each = f"forall({part}, x_ -> coalesce(array_contains({whole}, x_), false))"
        return f"CASE WHEN {whole} IS NOT NULL AND {part} IS NOT NULL THEN {each} END"

    return text


def _overlaps(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        left, right = (operand.text for operand in operands)
        if kernel == "duckdb":
            common = f"len(list_filter({left}, lambda x_: coalesce(list_contains({right}, x_), false))) > 0"
        else:
            common = f"coalesce(exists({left}, x_ -> coalesce(array_contains({right}, x_), false)), false)"
        return f"CASE WHEN {left} IS NOT NULL AND {right} IS NOT NULL THEN {common} END"

    return text


def _position(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        array, value = (operand.text for operand in operands)
        if kernel == "duckdb":
            return f"CAST(nullif(list_position({array}, {value}), 0) AS INTEGER)"
        return f"CAST(nullif(array_position({array}, {value}), 0) AS INT)"

    return text


FUNCTIONS: list[Function] = [
    function(
        "[](anyarray, int) -> anyelement",
        duckdb=_subscript,
        spark="get({0}, {1} - 1)",
        examples=[
            "(ARRAY[1,2,3])[2]",
            "(ARRAY[1,2,3])[0]",
            "(ARRAY[1,2,3])[4]",
            "(ARRAY[1,2,3])[-1]",
            "(NULL::int[])[1]",
            "(ARRAY['a',NULL])[2]",
            "(ARRAY[1,2])[1 + 1]",
            "(ARRAY[1,2])[NULL]",
        ],
    ),
    function(
        "[:](anyarray, int, int) -> anyarray",
        duckdb=_slice("duckdb"),
        spark=_slice("spark"),
        examples=[
            "(ARRAY[1,2,3])[2:3]",
            "(ARRAY[1,2,3])[0:2]",
            "(ARRAY[1,2,3])[2:]",
            "(ARRAY[1,2,3])[3:2]",
            "(ARRAY[1,2,3])[2:9]",
            "(ARRAY[1,2,3])[NULL:2]",
            "(ARRAY[1,2,3])[5:9]",
        ],
    ),
    function(
        "array_length(anyarray, int) -> int",
        duckdb=_length("CAST(len({0}) AS INTEGER)"),
        spark=_length("array_size({0})"),
        examples=[
            "array_length(ARRAY[1,2], 1)",
            "array_length(ARRAY[1,2], 2)",
            "array_length('{}'::int[], 1)",
            "array_length(NULL::int[], 1)",
        ],
    ),
    function(
        "cardinality(anyarray) -> int",
        duckdb="CAST(len({0}) AS INTEGER)",
        spark="array_size({0})",
        examples=["cardinality(ARRAY[1,NULL])", "cardinality('{}'::int[])", "cardinality(NULL::int[])"],
    ),
    function(
        "array_append(anyarray, anyelement) -> anyarray",
        duckdb=_appended("duckdb"),
        spark=_appended("spark"),
        examples=["array_append(ARRAY[1,2], 3)", "array_append(NULL::int[], 3)", "array_append(ARRAY[1], NULL)"],
    ),
    function(
        "array_prepend(anyelement, anyarray) -> anyarray",
        duckdb=_appended("duckdb", True),
        spark=_appended("spark", True),
        examples=["array_prepend(3, ARRAY[1,2])", "array_prepend(3, NULL::int[])"],
    ),
    *[
        function(
            f"{name}(anyarray, anyarray) -> anyarray",
            duckdb=_joined("duckdb"),
            spark=_joined("spark"),
            examples=examples,
        )
        for name, examples in (
            (
                "array_cat",
                [
                    "array_cat(ARRAY[1], ARRAY[2,3])",
                    "array_cat(NULL::int[], ARRAY[2])",
                    "array_cat(ARRAY[2], NULL::int[])",
                    "array_cat(NULL::int[], NULL::int[])",
                ],
            ),
            ("||", ["ARRAY[1] || ARRAY[2,NULL]", "ARRAY['a'] || '{b}'::text[]"]),
        )
    ],
    function(
        "||(anyarray, anyelement) -> anyarray",
        duckdb=_appended("duckdb"),
        spark=_appended("spark"),
        examples=["ARRAY[1] || 2"],
    ),
    function(
        "||(anyelement, anyarray) -> anyarray",
        duckdb=_appended("duckdb", True),
        spark=_appended("spark", True),
        examples=["1 || ARRAY[2]"],
    ),
    function(
        "array_position(anyarray, anyelement) -> int",
        duckdb=_position("duckdb"),
        spark=_position("spark"),
        examples=[
            "array_position(ARRAY['a','b'], 'b')",
            "array_position(ARRAY[1,2], 9)",
            "array_position(NULL::int[], 1)",
        ],
    ),
    function(
        "array_to_string(anyarray, text) -> text",
        duckdb=_as_text("duckdb"),
        spark=_as_text("spark"),
        examples=[
            "array_to_string(ARRAY['a',NULL,'b'], ',')",
            "array_to_string(ARRAY[1,2], '-')",
            "array_to_string('{}'::text[], ',')",
            "array_to_string(ARRAY[1.50], ',')",
            "array_to_string(NULL::text[], ',')",
        ],
    ),
    function(
        "array_to_string(anyarray, text, text) -> text",
        duckdb=_as_text("duckdb"),
        spark=_as_text("spark"),
        examples=["array_to_string(ARRAY['a',NULL], ',', '*')"],
    ),
    function(
        "string_to_array(text, text) -> text[]",
        duckdb=_split("duckdb"),
        spark=_split("spark"),
        examples=[
            "string_to_array('a,b,', ',')",
            "string_to_array('', ',')",
            "string_to_array('a.b', '.')",
            "string_to_array('abc', '')",
            "string_to_array(NULL, ',')",
            "string_to_array('a||b', '||')",
        ],
    ),
    function(
        "= any(anyelement, anyarray) -> boolean",
        duckdb=_member("duckdb", False),
        spark=_member("spark", False),
        examples=[
            "1 = ANY('{1,2}'::int[])",
            "3 = ANY('{1,2}'::int[])",
            "3 = ANY('{1,NULL}'::int[])",
            "1 = ANY('{1,NULL}'::int[])",
            "NULL = ANY('{1}'::int[])",
            "1 = ANY('{}'::int[])",
            "1 = ANY(NULL::int[])",
            "'a' = ANY(string_to_array('a,b', ','))",
        ],
    ),
    function(
        "<> all(anyelement, anyarray) -> boolean",
        duckdb=_member("duckdb", True),
        spark=_member("spark", True),
        examples=[
            "1 <> ALL('{1,2}'::int[])",
            "3 <> ALL('{1,2}'::int[])",
            "3 <> ALL('{1,NULL}'::int[])",
            "3 <> ALL('{}'::int[])",
        ],
    ),
    function(
        "@>(anyarray, anyarray) -> boolean",
        duckdb=_contains("duckdb"),
        spark=_contains("spark"),
        examples=[
            "ARRAY[1,2,3] @> ARRAY[1,3]",
            "ARRAY[1,2] @> ARRAY[4]",
            "ARRAY[1,NULL] @> ARRAY[NULL]::int[]",
            "ARRAY[1] @> '{}'::int[]",
            "ARRAY[1] <@ ARRAY[1,2]",
            "NULL::int[] @> ARRAY[1]",
        ],
    ),
    function(
        "&&(anyarray, anyarray) -> boolean",
        duckdb=_overlaps("duckdb"),
        spark=_overlaps("spark"),
        examples=[
            "ARRAY[1,2] && ARRAY[2,3]",
            "ARRAY[1] && ARRAY[2]",
            "ARRAY[1,NULL] && ARRAY[NULL]::int[]",
            "ARRAY[1] && '{}'::int[]",
        ],
    ),
]
