"""Regular expressions, where three engines agree.

PostgreSQL matches the longest text, RE2 and Java the first alternative; `$`, `.` and classes differ in corners.
So only constant patterns are taken, of a common language: characters, classes, groups, `|`, `* + ? {m,n}`, `^` in
front and `$` behind. Replacing needs one text to be matched, so its patterns have neither groups nor `|`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from midstream.kernels import Kernel, quote_text
from midstream.plan.functions.model import Function, KernelRefuses, Operand, Template, function
from midstream.types import Type

_CHARACTER = r"[^\\\[\](){}|^$*+?.]|\.|\\[dwsDWS]|\\[^A-Za-z0-9]"
_CLASS = r"\[\^?(?:[^\\\[\]&~^-]|\\[dws]|\\[^A-Za-z0-9])(?:[^\\\[\]&~^]|\\[dws]|\\[^A-Za-z0-9])*\]"
_TIMES = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?"
_ATOMS = re.compile(rf"(\^)?((?:(?:{_CHARACTER}|{_CLASS}){_TIMES})*)(\$)?", re.DOTALL)
_PIECE = re.compile(rf"(?:(?:{_CHARACTER}|{_CLASS}){_TIMES})+|\((?:\?:)?|\){_TIMES}|\||\^|\$", re.DOTALL)


def common_pattern(pattern: str) -> str:
    """The pattern for RE2 and Java, meaning what it means to PostgreSQL."""
    at, pieces, depth = 0, [], 0
    while at < len(pattern):
        match = _PIECE.match(pattern, at)
        if match is None:
            raise KernelRefuses("the pattern uses more than the regular expressions that all engines share")
        piece = match[0]
        depth += piece.startswith("(") - piece.startswith(")")
        if depth < 0 or (piece == "^" and at and pattern[at - 1] not in "(|:"):
            raise KernelRefuses("the pattern uses more than the regular expressions that all engines share")
        if piece == "$":
            if pattern[match.end() : match.end() + 1] not in ("", ")", "|"):
                raise KernelRefuses("$ may only stand at the end of a pattern")
            piece = r"\z"
        pieces.append(piece)
        at = match.end()
    if depth:
        raise KernelRefuses("the pattern has unbalanced parentheses")
    return "(?s)" + "".join(pieces)


def _constant(operand: Operand) -> str:
    if operand.literal is None:
        raise KernelRefuses("the pattern must be a constant")
    return operand.literal


def _matches(kernel: Kernel, ignore_case: bool = False) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        pattern = common_pattern(_constant(operands[1]))
        if ignore_case:
            pattern = pattern.replace("(?s)", "(?is)" if kernel == "duckdb" else "(?isu)", 1)
        test = "regexp_matches" if kernel == "duckdb" else "regexp_like"
        return f"{test}({operands[0].text}, {quote_text(pattern, kernel)})"

    return text


def _replaced(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        value, pattern, replacement = operands[:3]
        flags = operands[3].literal if len(operands) == 4 else ""
        written, new = _constant(pattern), _constant(replacement)
        if not _ATOMS.fullmatch(written) or "\\" in new or flags not in ("", "g"):
            raise KernelRefuses("regexp_replace takes simple patterns, plain replacements and the flag 'g'")
        common = common_pattern(written)
        if kernel == "duckdb":
            return f"regexp_replace({value.text}, {quote_text(common, kernel)}, {quote_text(new, kernel)}, '{flags}')"
        new = new.replace("$", "\\$")
        if not flags:
            # Java replaces all: what stands before the first match is matched with it, and put back.
            common, new = common.replace("(?s)", "(?s)^(.*?)", 1).replace("(.*?)^", "(.*?)"), f"$1{new}"
        return f"regexp_replace({value.text}, {quote_text(common, kernel)}, {quote_text(new, kernel)})"

    return text


_MATCHES = [
    ("'abc'", "'b'"),
    ("'abc'", "'^b'"),
    ("'abc'", "'c$'"),
    ("'a1'", "'^[a-z][0-9]$'"),
    ("'a.c'", "'a\\.c'"),
    ("'abc'", "'a\\.c'"),
    ("'a' || chr(10)", "'a$'"),
    ("'a' || chr(10) || 'b'", "'a.b'"),
    ("'aab'", "'^a{2}b'"),
    ("'xy'", "'^(a|xy)$'"),
    ("''", "'^$'"),
    ("'é'", "'^.$'"),
    ("NULL", "'a'"),
    ("'a b'", "'\\s'"),
    ("'ab12'", "'^\\w+\\d$'"),
    ("'ABC'", "'b'"),
    ("'a-b'", "'[^a-z]'"),
    ("'😀'", "'^.$'"),
    ("'abab'", "'^(?:ab)+$'"),
]
_REPLACEMENTS = [
    "'abcabc', 'b', 'x', 'g'",
    "'abcabc', 'b', 'x'",
    "'a1b22', '[0-9]+', '#', 'g'",
    "'abc', '^a', ''",
    "'abc', 'z', 'x'",
    "'a$b', '\\$', '$1', 'g'",
    "'aaa', 'a*', 'x'",
    "NULL, 'a', 'b'",
    "'  a  ', '\\s+', ' ', 'g'",
    "'abc', 'c$', '!'",
]

FUNCTIONS: list[Function] = [
    function(
        "~(text, text) -> boolean",
        duckdb=_matches("duckdb"),
        spark=_matches("spark"),
        examples=[f"{a} ~ {b}" for a, b in _MATCHES] + ["'abc' !~ 'b'"],
    ),
    function(
        "~*(text, text) -> boolean",
        duckdb=_matches("duckdb", True),
        spark=_matches("spark", True),
        examples=["'ABC' ~* 'b'", "'ABC' ~* '^b'", "'abc' !~* 'B'"],
    ),
    *[
        function(
            f"regexp_replace({inside}) -> text",
            duckdb=_replaced("duckdb"),
            spark=_replaced("spark"),
            examples=[
                f"regexp_replace({r})" for r in _REPLACEMENTS if r.endswith("'g'") == (inside.count("text") == 4)
            ],
        )
        for inside in ("text, text, text", "text, text, text, text")
    ],
]
