"""Types: what people write, what the catalog keeps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import TypeMismatch
from midstream.types import BIGINT, DOUBLE, NUMERIC, SIMPLE_NAMES, TEXT, TIMESTAMPTZ, Type, array_of, parse_type

_plain = st.one_of(
    st.sampled_from(sorted(SIMPLE_NAMES)).map(Type),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda scale: NUMERIC(p, scale))),
    st.builds(Type, st.sampled_from(["varchar", "char"]), st.one_of(st.none(), st.integers(1, 1000))),
)
_types = st.recursive(_plain, lambda inner: inner.map(array_of), max_leaves=3)


@settings(deadline=None)
@given(_types)
def test_the_text_of_a_type_reads_back(type_: Type) -> None:
    assert parse_type(str(type_)) == type_
    assert parse_type(f"  {str(type_).upper()} ") == type_


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("INT8", BIGINT),
        ("double  precision", DOUBLE),
        ("float8", DOUBLE),
        ("character varying(20)", Type("varchar", 20)),
        ("timestamp with time zone", TIMESTAMPTZ),
        ("decimal(10, 2)", NUMERIC(10, 2)),
        ("numeric(5)", NUMERIC(5, 0)),
        ("numeric", NUMERIC(38, 10)),
        ("string", TEXT),
        ("bigint[][]", array_of(array_of(BIGINT))),
    ],
)
def test_other_spellings_mean_the_same_type(written: str, type_: Type) -> None:
    assert parse_type(written) == type_


@pytest.mark.parametrize(
    "written", ["foo", "", "int(3)", "numeric(39)", "numeric(5, 6)", "numeric(0)", "1", "[]", "time"]
)
def test_what_is_no_type_is_refused(written: str) -> None:
    with pytest.raises(TypeMismatch):
        parse_type(written)


def test_types_know_what_they_are() -> None:
    assert BIGINT.is_integer and BIGINT.is_number and not BIGINT.is_float
    assert DOUBLE.is_float and NUMERIC(3, 1).is_number and not NUMERIC(3, 1).is_integer
    assert TEXT.is_text and Type("char", 3).is_text and TIMESTAMPTZ.is_time
    with pytest.raises(TypeMismatch):
        Type("array")
