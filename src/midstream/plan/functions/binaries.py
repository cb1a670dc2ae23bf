"""Bytes and JSON documents."""

from __future__ import annotations

import re
from collections.abc import Sequence

from midstream.kernels import Kernel, quote_text
from midstream.plan.functions.model import Function, KernelRefuses, Operand, Template, function
from midstream.plan.functions.raising import raise_error
from midstream.types import Type


def _encode(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        match operands[1].literal:
            case "hex":
                return f"lower(hex({operands[0].text}))"
            case "base64":
                raise KernelRefuses("PostgreSQL breaks base64 into lines")
            case _:
                raise KernelRefuses("encode knows 'hex'")

    return text


def _decode(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        value, form = operands
        if form.literal != "hex":
            raise KernelRefuses("decode knows 'hex'")
        test = "regexp_matches" if kernel == "duckdb" else "regexp_like"
        good = f"{test}({value.text}, '^([0-9a-fA-F]{{2}})*$')"
        failure = raise_error("22023", "invalid hexadecimal data", kernel)
        return f"CASE WHEN {value.text} IS NULL OR {good} THEN unhex({value.text}) ELSE {failure} END"

    return text


_BYTES: list[Function] = [
    *[
        function(
            f"{name}(bytea) -> int",
            duckdb="CAST(octet_length({0}) AS INTEGER)",
            spark="octet_length({0})",
            examples=[f"{name}('\\x00ff'::bytea)", f"{name}(''::bytea)", f"{name}(NULL::bytea)"],
        )
        for name in ("length", "octet_length")
    ],
    function(
        "encode(bytea, text) -> text",
        duckdb=_encode("duckdb"),
        spark=_encode("spark"),
        examples=["encode('\\x00fF'::bytea, 'hex')", "encode(NULL::bytea, 'hex')"],
    ),
    function(
        "decode(text, text) -> bytea",
        duckdb=_decode("duckdb"),
        spark=_decode("spark"),
        examples=["decode('00fF', 'hex')", "decode('', 'hex')", "decode('0g', 'hex')"],
    ),
    function(
        "||(bytea, bytea) -> bytea",
        duckdb="({0} || {1})",
        spark="concat({0}, {1})",
        examples=["'\\x00'::bytea || '\\xff'::bytea"],
    ),
    function("md5(bytea) -> text", both="md5({0})", examples=["md5('\\x00'::bytea)"]),
    function(
        "sha256(bytea) -> bytea",
        duckdb="unhex(sha256({0}))",
        spark="unhex(sha2({0}, 256))",
        examples=["sha256('\\x00'::bytea)"],
    ),
]


def _step(operand: Operand) -> str:
    """One step of a path: a plain key, or an index of an array."""
    if operand.literal is None:
        raise KernelRefuses("a key of a JSON document must be a constant")
    if operand.type.is_integer:
        if int(operand.literal) < 0:
            raise KernelRefuses("an index of a JSON array must not be negative")
        return f"[{operand.literal}]"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", operand.literal):
        raise KernelRefuses("a key of a JSON document must be a plain word")
    return f".{operand.literal}"


def _json(kernel: Kernel, as_text: bool) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        value, key = operands
        path = quote_text(f"${_step(key)}", kernel)
        if kernel == "duckdb":
            name = "json_extract_string" if as_text else "json_extract"
            found = f"{name}({value.text}, {path})"
            return found if as_text else f"CAST({found} AS VARCHAR)"
        raise KernelRefuses("Spark cannot tell JSON's null from a missing key")

    return text


_DOCUMENT = """'{"a": 1, "b": "x\\u00e9y", "c": [10, null, {"d": true}], "e": null, "f": 1.50, "g": {}}'::json"""
_JSON: list[Function] = [
    *[
        function(
            f"->>(json, {kind}) -> text",
            duckdb=_json("duckdb", True),
            spark=_json("spark", True),
            examples=examples,
            note="Numbers lose zeros behind the point: 1.50 comes out as 1.5.",
        )
        for kind, examples in (
            (
                "text",
                [f"{_DOCUMENT} ->> '{key}'" for key in ("a", "b", "e", "missing")]
                + ["NULL::json ->> 'a'", "'[1]'::json ->> 'a'"],
            ),
            ("int", [f"({_DOCUMENT} -> 'c') ->> {i}" for i in (0, 1, 5)]),
        )
    ],
    *[
        function(
            f"->(json, {kind}) -> json", duckdb=_json("duckdb", False), spark=_json("spark", False), examples=examples
        )
        for kind, examples in (
            ("text", [f"{_DOCUMENT} -> '{key}'" for key in ("a", "e", "missing", "g")]),
            ("int", [f"({_DOCUMENT} -> 'c') -> {i}" for i in (0, 2, 9)]),
        )
    ],
]

FUNCTIONS: list[Function] = [*_BYTES, *_JSON]
