"""Texts. Characters are code points; ordering is by code point; letters change case one for one."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.kernels import Kernel, quote_text
from midstream.plan.functions.model import Function, KernelRefuses, Operand, Template, function
from midstream.plan.functions.raising import raise_error
from midstream.types import Type

_ANY_NULL = "{0} IS NULL OR {1} IS NULL OR {2} IS NULL"


def _substr3(kernel: Kernel) -> str:
    """PostgreSQL's window may begin before the text: substr('hello', -1, 3) is 'h'."""
    failure = raise_error("22011", "negative substring length not allowed", kernel)
    start, length = "CAST({1} AS BIGINT)", "CAST({2} AS BIGINT)"
    begin = f"greatest({start}, 1)"
    count = f"greatest({start} + {length} - {begin}, 0)"
    if kernel == "spark":
        begin, count = f"CAST({begin} AS INT)", f"CAST(least({count}, 2147483647) AS INT)"
    return f"CASE WHEN {_ANY_NULL} THEN NULL WHEN {{2}} < 0 THEN {failure} ELSE substr({{0}}, {begin}, {count}) END"


def _overlaid(kernel: Kernel) -> Template:
    """What stands before the place, the new text, and what is left of the old one."""

    def text(operands: Sequence[Operand], result: Type) -> str:
        old, new, start = (operand.text for operand in operands[:3])
        taken = operands[3].text if len(operands) == 4 else f"length({new})"
        failure = raise_error("22011", "negative substring length not allowed", kernel)
        made = f"concat(substr({old}, 1, {start} - 1), {new}, substr({old}, {start} + {taken}))"
        nulls = " OR ".join(f"{value} IS NULL" for value in (old, new, start, taken))
        return f"CASE WHEN {nulls} THEN NULL WHEN {start} <= 0 THEN {failure} ELSE {made} END"

    return text


def _split_part(kernel: Kernel) -> str:
    zero = raise_error("22023", "field position must not be zero", kernel)
    return (
        f"CASE WHEN {_ANY_NULL} THEN NULL WHEN {{2}} = 0 THEN {zero} "
        f"WHEN {{1}} = '' THEN CASE WHEN {{2}} IN (1, -1) THEN {{0}} ELSE '' END "
        f"ELSE split_part({{0}}, {{1}}, {{2}}) END"
    )


def _chr(kernel: Kernel) -> str:
    """Spark's chr knows one byte only."""
    null = raise_error("22023", "null character not permitted", kernel)
    negative = raise_error("22023", "character number must be positive", kernel)
    character = "chr({0})" if kernel == "duckdb" else "decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32')"
    return f"CASE WHEN {{0}} = 0 THEN {null} WHEN {{0}} < 0 THEN {negative} ELSE {character} END"


def _like(word: str, kernel: Kernel) -> Template:
    escape = " ESCAPE '\\'" if kernel == "duckdb" else ""
    return f"({{0}} {word} {{1}}{escape})"


def _like_escape(word: str, kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        escape = operands[2].literal
        if escape is None or len(escape) != 1:
            raise KernelRefuses("the escape character must be one constant character")
        return f"({operands[0].text} {word} {operands[1].text} ESCAPE {quote_text(escape, kernel)})"

    return text


def _each_coalesced(operands: Sequence[Operand], result: Type) -> str:
    return "concat(" + ", ".join(f"coalesce({operand.text}, '')" for operand in operands) + ")"


_LETTERS = ("ÉÀäöü", "straße", "İstanbul", "ΑΣ Σ", "ŉﬀ", "ᾀὐ", "😀ßé")
_MANY = "".join(chr(c) for c in range(0x80, 0x10000) if len(chr(c).upper()) > 1)
"""Letters whose upper case is more than one letter: they stay, or take the one letter that Unicode gives for it."""
_ONE = "".join(c.title() if len(c.title()) == 1 else c for c in _MANY)
_MANY_PATTERN = "[" + "".join(_MANY) + "]"
_UPPER_DUCKDB = (
    "CASE WHEN contains({0}, 'ß') THEN "
    "array_to_string(list_transform(string_split({0}, 'ß'), lambda p_: upper(p_)), 'ß') ELSE upper({0}) END"
)
_UPPER_SPARK = (
    f"CASE WHEN regexp_like({{0}}, '{_MANY_PATTERN}') THEN array_join(transform(split({{0}}, ''), c_ -> "
    f"CASE WHEN regexp_like(c_, '{_MANY_PATTERN}') THEN translate(c_, '{_MANY}', '{_ONE}') ELSE upper(c_) END), '') "
    f"ELSE upper({{0}}) END"
)


def _judged(name: str, text: str) -> str:
    """PostgreSQL's answer where letters beyond ASCII have cases."""
    return f"{name}('{text}') == {name}('{text}' COLLATE \"C.utf8\")"


_LIKES = [
    ("'abc'", "'a%'"),
    ("'abc'", "'a_c'"),
    ("'abc'", "'B%'"),
    ("'a%c'", "'a\\%c'"),
    ("'axc'", "'a\\%c'"),
    ("'a\\c'", "'a\\\\c'"),
    ("'a.c'", "'a.c'"),
    ("'axc'", "'a.c'"),
    ("''", "''"),
    ("''", "'%'"),
    ("NULL", "'a'"),
    ("'a'", "NULL"),
    ("'é'", "'_'"),
    ("'a' || chr(10) || 'b'", "'a%b'"),
    ("'aXbXc'", "'a%b%c'"),
    ("'abc'", "'%b%'"),
]

FUNCTIONS: list[Function] = [
    *[
        function(
            f"{word.lower()}(text, text) -> boolean",
            duckdb=_like(word, "duckdb"),
            spark=_like(word, "spark"),
            examples=[f"{a} {word} {b}" for a, b in _LIKES] + [f"'abc' NOT {word} 'a%'"],
        )
        for word in ("LIKE", "ILIKE")
    ],
    *[
        function(
            f"{word.lower()} escape(text, text, text) -> boolean",
            duckdb=_like_escape(word, "duckdb"),
            spark=_like_escape(word, "spark"),
            examples=[f"'a%c' {word} 'a!%c' ESCAPE '!'", f"'abc' {word} 'a!%c' ESCAPE '!'"],
        )
        for word in ("LIKE", "ILIKE")
    ],
    function(
        "||(text, text) -> text",
        both="({0} || {1})",
        examples=["'a' || 'b'", "'a' || NULL", "'' || 'é'", "'ab'::char(4) || 'c'"],
    ),
    function(
        "length(text) -> int",
        duckdb="CAST(length({0}) AS INTEGER)",
        spark="length({0})",
        examples=["length('abc')", "length('é😀')", "length('')", "length(NULL::text)", "length('ab'::char(5))"],
    ),
    function(
        "char_length(text) -> int",
        duckdb="CAST(length({0}) AS INTEGER)",
        spark="length({0})",
        examples=["char_length('é😀')"],
    ),
    function(
        "octet_length(text) -> int",
        duckdb="CAST(strlen({0}) AS INTEGER)",
        spark="octet_length({0})",
        examples=["octet_length('é😀')", "octet_length('')"],
    ),
    function(
        "bit_length(text) -> int",
        duckdb="CAST(strlen({0}) * 8 AS INTEGER)",
        spark="bit_length({0})",
        examples=["bit_length('é')"],
    ),
    function(
        "lower(text) -> text",
        duckdb="lower({0})",
        spark="lower(translate({0}, 'İΣ', 'iσ'))",
        examples=["lower('ABC')", "lower(NULL)", "lower('a1-B')"] + [_judged("lower", t) for t in _LETTERS],
    ),
    function(
        "upper(text) -> text",
        duckdb=_UPPER_DUCKDB,
        spark=_UPPER_SPARK,
        examples=["upper('abc')", "upper('')", "upper('a1-b')"] + [_judged("upper", t) for t in _LETTERS],
    ),
    function(
        "substr(text, int) -> text",
        both="substr({0}, greatest({1}, 1))",
        examples=[
            "substr('hello', 2)",
            "substr('hello', -1)",
            "substr('hello', 0)",
            "substr('hello', 9)",
            "substring('hello' from 3)",
            "substr(NULL, 1)",
        ],
    ),
    function(
        "substr(text, int, int) -> text",
        duckdb=_substr3("duckdb"),
        spark=_substr3("spark"),
        examples=[
            "substr('hello', 2, 2)",
            "substr('hello', -1, 3)",
            "substr('hello', 0, 2)",
            "substr('hello', 4, 99)",
            "substr('hello', 2, -1)",
            "substring('hello' from 2 for 3)",
            "substr('hello', 2, 2147483647)",
            "substr('é😀x', 2, 1)",
            "substr('abc', NULL, 2)",
        ],
    ),
    function(
        "left(text, int) -> text",
        duckdb="left({0}, {1})",
        spark="CASE WHEN {1} >= 0 THEN substr({0}, 1, {1}) ELSE substr({0}, 1, greatest(length({0}) + {1}, 0)) END",
        examples=[
            "left('abc', 2)",
            "left('abc', -1)",
            "left('abc', 0)",
            "left('abc', 9)",
            "left('abc', -9)",
            "left(NULL, 1)",
        ],
    ),
    function(
        "right(text, int) -> text",
        duckdb="right({0}, {1})",
        spark="CASE WHEN {1} >= 0 THEN substr({0}, greatest(length({0}) - {1} + 1, 1)) ELSE substr({0}, 1 - {1}) END",
        examples=["right('abc', 2)", "right('abc', -1)", "right('abc', 0)", "right('abc', 9)", "right('abc', -9)"],
    ),
    function(
        "btrim(text) -> text", both="trim({0})", examples=["trim('  a b ')", "btrim(' a ')", "trim(both from ' a')"]
    ),
    function("ltrim(text) -> text", both="ltrim({0})", examples=["ltrim('  a ')", "trim(leading from ' a ')"]),
    function("rtrim(text) -> text", both="rtrim({0})", examples=["rtrim(' a  ')", "trim(trailing from ' a ')"]),
    function(
        "btrim(text, text) -> text",
        duckdb="trim({0}, {1})",
        spark="trim(BOTH {1} FROM {0})",
        examples=["btrim('xyaxy', 'yx')", "trim(both 'x' from 'xax')", "btrim('a', '')", "btrim('a', NULL)"],
    ),
    function(
        "ltrim(text, text) -> text",
        duckdb="ltrim({0}, {1})",
        spark="trim(LEADING {1} FROM {0})",
        examples=["ltrim('xxa', 'x')", "ltrim('é😀a', 'é😀')"],
    ),
    function(
        "rtrim(text, text) -> text",
        duckdb="rtrim({0}, {1})",
        spark="trim(TRAILING {1} FROM {0})",
        examples=["rtrim('axx', 'x')"],
    ),
    function(
        "replace(text, text, text) -> text",
        duckdb="replace({0}, {1}, {2})",
        spark="CASE WHEN {1} = '' THEN {0} ELSE replace({0}, {1}, {2}) END",
        examples=["replace('abcabc', 'b', 'xy')", "replace('abc', '', 'x')", "replace('abc', 'b', NULL)"],
    ),
    function(
        "strpos(text, text) -> int",
        duckdb="CAST(strpos({0}, {1}) AS INTEGER)",
        spark="instr({0}, {1})",
        examples=[
            "strpos('hello', 'l')",
            "strpos('hello', '')",
            "strpos('hello', 'z')",
            "position('é' in 'aé')",
            "strpos(NULL, 'a')",
        ],
    ),
    *[
        function(
            f"overlay({inside}) -> text",
            duckdb=_overlaid("duckdb"),
            spark=_overlaid("spark"),
            examples=[f"overlay({example})" for example in examples],
        )
        for inside, examples in (
            ("text, text, int", ["'abcdef' placing 'XY' from 2", "'abc', 'XYZ', 3", "'abc' placing 'x' from 9"]),
            (
                "text, text, int, int",
                ["'abcdef' placing 'XY' from 2 for 3", "'abc', 'x', 2, 0", "'aéc' placing 'é' from 1 for 1"]
                + ["NULL placing 'x' from 1 for 1", "'abc' placing 'x' from 2 for 9", "'abc' placing 'x' from 0 for 1"],
            ),
        )
    ],
    function(
        "reverse(text) -> text", duckdb="reverse({0})", spark="reverse({0})", examples=["reverse('abc')", "reverse('')"]
    ),
    function(
        "repeat(text, int) -> text",
        both="repeat({0}, greatest({1}, 0))",
        examples=["repeat('ab', 3)", "repeat('ab', 0)", "repeat('ab', -1)", "repeat(NULL, 2)"],
    ),
    function(
        "starts_with(text, text) -> boolean",
        duckdb="starts_with({0}, {1})",
        spark="startswith({0}, {1})",
        examples=["starts_with('abc', 'ab')", "starts_with('abc', '')", "starts_with('abc', NULL)"],
    ),
    function(
        "lpad(text, int) -> text",
        duckdb="lpad({0}, greatest({1}, 0), ' ')",
        spark="lpad({0}, greatest({1}, 0), ' ')",
        examples=["lpad('ab', 4)", "lpad('abc', 2)", "lpad('abc', -1)"],
    ),
    function(
        "rpad(text, int) -> text", both="rpad({0}, greatest({1}, 0), ' ')", examples=["rpad('ab', 4)", "rpad('abc', 2)"]
    ),
    *[
        function(
            f"{name}(text, int, text) -> text",
            both="CASE WHEN {2} = '' THEN left({0}, greatest({1}, 0)) ELSE "
            + name
            + "({0}, greatest({1}, 0), {2}) END",
            examples=[
                f"{name}('ab', 5, 'xy')",
                f"{name}('abc', 2, 'x')",
                f"{name}('abc', 5, '')",
                f"{name}('é', 3, '😀')",
                f"{name}('a', -3, 'x')",
                f"{name}(NULL, 3, 'x')",
                f"{name}('a', 3, NULL)",
            ],
        )
        for name in ("lpad", "rpad")
    ],
    function(
        "split_part(text, text, int) -> text",
        duckdb=_split_part("duckdb"),
        spark=_split_part("spark"),
        examples=[
            "split_part('a,b,c', ',', 2)",
            "split_part('a,b', ',', 3)",
            "split_part('a,b', ',', -1)",
            "split_part('a,b', ',', 0)",
            "split_part('abc', '', 1)",
            "split_part('abc', '', 2)",
            "split_part('a.b', '.', 2)",
            "split_part(NULL, ',', 1)",
            "split_part(NULL, ',', 0)",
            "split_part('a,b', NULL, 0)",
            "split_part(NULL, '', 2)",
            "split_part('abc', '', NULL)",
            "split_part('', ',', 1)",
        ],
    ),
    function(
        "ascii(text) -> int",
        duckdb="ascii({0})",
        spark="CASE WHEN {0} = '' THEN 0 ELSE CAST(conv(hex(encode(substr({0}, 1, 1), 'UTF-32')), 16, 10) AS INT) END",
        examples=["ascii('a')", "ascii('')", "ascii('é')", "ascii('😀')", "ascii(NULL)"],
    ),
    function(
        "chr(int) -> text",
        duckdb=_chr("duckdb"),
        spark=_chr("spark"),
        examples=["chr(65)", "chr(233)", "chr(-1)"],
    ),
    function(
        "translate(text, text, text) -> text",
        both="translate({0}, {1}, {2})",
        examples=[
            "translate('abcabc', 'ab', 'x')",
            "translate('abc', '', 'x')",
            "translate('é😀', 'é', 'e')",
            "translate('aab', 'aa', 'xy')",
        ],
    ),
    function("md5(text) -> text", both="md5({0})", examples=["md5('abc')", "md5('é')", "md5(NULL)"]),
    function("||(text, astext) -> text", both="({0} || {1})", examples=["'a' || 1", "'a' || 1.50", "'a' || true"]),
    function("||(astext, text) -> text", both="({0} || {1})", examples=["1 || 'a'", "date '2020-01-02' || 'a'"]),
    function(
        "concat(astext, ...) -> text",
        duckdb="concat({all})",
        spark=_each_coalesced,
        examples=["concat('a', NULL, 1)", "concat('a')", "concat(NULL)"],
    ),
    function(
        "concat_ws(text, astext, ...) -> text",
        duckdb="concat_ws({all})",
        spark="concat_ws({all})",
        examples=["concat_ws(',', 'a', NULL, 'b')", "concat_ws(NULL, 'a', 'b')", "concat_ws('', 'a', 1)"],
    ),
]
