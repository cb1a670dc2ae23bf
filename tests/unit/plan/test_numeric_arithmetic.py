"""Products and quotients of numerics on the DuckDB kernel: exact, of whatever size, or an error."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from midstream.plan.functions.model import Operand
from midstream.plan.functions.numbers import exact_quotient, quotient_type
from midstream.plan.render import DUCKDB_SETTINGS
from midstream.types import NUMERIC


@pytest.fixture(scope="module")
def kernel() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, value in DUCKDB_SETTINGS.items():
        connection.execute(f"SET {name} = {value!r}")
    return connection


@st.composite
def numerics(draw: st.DrawFn) -> tuple[int, int, int]:
    """Precision, scale, and a value without its point."""
    precision = draw(st.sampled_from([1, 5, 17, 18, 19, 37, 38]))
    scale = draw(st.integers(0, precision))
    most = 10 ** draw(st.integers(0, precision)) - 1
    return precision, scale, draw(st.integers(-most, most))


@settings(max_examples=300, deadline=None)
@given(dividend=numerics(), divisor=numerics())
@example(dividend=(38, 4, 10**38 - 1), divisor=(38, 4, -(10**38 - 1)))
@example(dividend=(38, 0, 1), divisor=(38, 0, 10**38 - 1))
@example(dividend=(38, 10, 25), divisor=(38, 10, 0))
@example(dividend=(17, 6, -15352366851), divisor=(3, 1, -705))
def test_quotients_are_rounded_once(
    kernel: duckdb.DuckDBPyConnection, dividend: tuple[int, int, int], divisor: tuple[int, int, int]
) -> None:
    (p1, s1, a), (p2, s2, b) = dividend, divisor
    result = quotient_type([NUMERIC(p1, s1), NUMERIC(p2, s2)])
    assert result.precision is not None and result.scale is not None
    x, y = (Operand(f"{name}", NUMERIC(p, s)) for name, p, s in (("x", p1, s1), ("y", p2, s2)))
    with localcontext() as context:
        context.prec = 200
        given = [f"CAST('{Decimal(v).scaleb(-s):f}' AS DECIMAL({p}, {s}))" for p, s, v in (dividend, divisor)]
        query = f"SELECT {exact_quotient(x, y, result)} FROM (SELECT {given[0]} AS x, {given[1]} AS y)"
        exact = Decimal(a).scaleb(-s1) / Decimal(b).scaleb(-s2) if b else None
        rounded = exact.quantize(Decimal(1).scaleb(-result.scale), ROUND_HALF_UP) if exact is not None else None
        fits = rounded is not None and abs(rounded) < Decimal(10) ** (result.precision - result.scale)
        if not fits:
            with pytest.raises(duckdb.Error):
                kernel.execute(query).fetchall()
            return
        assert kernel.execute(query).fetchall() == [(rounded,)]


def test_nothing_divided_is_nothing(kernel: duckdb.DuckDBPyConnection) -> None:
    wide = NUMERIC(38, 4)
    text = exact_quotient(Operand("x", wide), Operand("y", wide), quotient_type([wide, wide]))
    rows = "(CAST(NULL AS DECIMAL(38, 4)), CAST(2 AS DECIMAL(38, 4))), (2, NULL), (NULL, 0)"
    assert kernel.execute(f"SELECT {text} FROM (VALUES {rows}) AS t(x, y)").fetchall() == [(None,)] * 3
