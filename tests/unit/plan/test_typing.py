"""Types of expressions are PostgreSQL's, or Spark's for results; what has none is refused, with a place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

import pytest
from sqlglot import exp

from midstream.errors import DataError, Error, Forbidden, TypeMismatch, UndefinedName, Unsupported
from midstream.plan.bound import BoundQuery
from midstream.plan.context import BindContext
from midstream.plan.statements import bind_query
from midstream.plan.typing import cast_for_assignment, infer_types, type_of
from midstream.relations.table import Column, Table
from midstream.sql import parse
from midstream.sql.statements import Select
from midstream.types import parse_type

COLUMNS = {
    "s": "smallint",
    "i": "int",
    "b": "bigint",
    "r": "real",
    "f": "double precision",
    "n": "numeric(10,2)",
    "m": "numeric(38,10)",
    "o": "boolean",
    "t": "text",
    "v": "varchar(5)",
    "c": "char(3)",
    "d": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "iv": "interval",
    "y": "bytea",
    "j": "json",
    "a": "int[]",
    "ta": "text[]",
}
TABLE = Table(1, "x", tuple(Column(name, parse_type(type)) for name, type in COLUMNS.items()))


class OneTable:
    def relation(self, name: str, as_of: int | None = None) -> Table | None:
        return TABLE if name == "x" else None

    def names(self) -> list[str]:
        return ["x"]


def bind(sql: str) -> BoundQuery:
    [statement] = parse(sql)
    assert isinstance(statement, Select)
    return bind_query(statement.query, OneTable(), BindContext(scn=1, now=datetime(2024, 1, 1, tzinfo=timezone.utc)))


def type_in_x(expression: str) -> str:
    return str(bind(f"SELECT {expression} FROM x").outputs[0].type)


@pytest.mark.parametrize(
    ("expression", "type"),
    [
        ("1", "int"),
        ("2147483648", "bigint"),
        ("-2147483648", "int"),
        ("9223372036854775808", "numeric(19,0)"),
        ("1.50", "numeric(3,2)"),
        ("0.05", "numeric(2,2)"),
        ("1e3", "numeric(4,0)"),
        ("1e300", "double precision"),
        ("'a'", "text"),
        ("NULL", "text"),
        ("true", "boolean"),
        ("s + s", "smallint"),
        ("s + i", "int"),
        ("i + b", "bigint"),
        ("i + n", "numeric(13,2)"),
        ("n + f", "double precision"),
        ("r + r", "real"),
        ("r + f", "double precision"),
        ("i / 2", "int"),
        ("n * n", "numeric(21,4)"),
        ("n / 3", "numeric(14,6)"),
        ("m + m", "numeric(38,10)"),
        ("m * m", "numeric(38,20)"),
        ("n % 2", "numeric(10,2)"),
        ("i ^ 2", "double precision"),
        ("- s", "smallint"),
        ("t || v", "text"),
        ("t || 1", "text"),
        ("c || 'x'", "text"),
        ("d + 1", "date"),
        ("d - d", "int"),
        ("d + interval '1 day'", "timestamp"),
        ("ts - ts", "interval"),
        ("tz + iv", "timestamptz"),
        ("ts + interval '1 day'", "timestamp"),
        ("iv + iv", "interval"),
        ("i = '5'", "boolean"),
        ("i IN (1, 2.5)", "boolean"),
        ("coalesce(i, b)", "bigint"),
        ("coalesce(NULL, n)", "numeric(10,2)"),
        ("CASE WHEN o THEN i ELSE n END", "numeric(12,2)"),
        ("nullif(i, 1)", "int"),
        ("greatest(i, f)", "double precision"),
        ("a[1]", "int"),
        ("a[1:2]", "int[]"),
        ("ARRAY[1, b]", "bigint[]"),
        ("a || 1", "int[]"),
        ("cardinality(a)", "int"),
        ("sum(i)", "bigint"),
        ("sum(b)", "bigint"),
        ("sum(n)", "numeric(20,2)"),
        ("sum(r)", "double precision"),
        ("avg(i)", "double precision"),
        ("avg(n)", "numeric(14,6)"),
        ("count(*)", "bigint"),
        ("min(d)", "date"),
        ("max(v)", "text"),
        ("array_agg(n)", "numeric(10,2)[]"),
        ("string_agg(t, ',')", "text"),
        ("bool_and(o)", "boolean"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY i)", "double precision"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY d)", "date"),
        ("mode() WITHIN GROUP (ORDER BY t)", "text"),
        ("row_number() OVER ()", "bigint"),
        ("lag(n, 1) OVER (ORDER BY i)", "numeric(10,2)"),
        ("sum(i) OVER ()", "bigint"),
        ("extract(year from ts)", "int"),
        ("extract(second from ts)", "numeric(8,6)"),
        ("date_trunc('day', ts)", "timestamp"),
        ("i::text", "text"),
        ("'12'::int", "int"),
        ("f::numeric(5,1)", "numeric(5,1)"),
        ("i::numeric", "numeric(10,0)"),
        ("substr(t, 2)", "text"),
        ("length(c)", "int"),
        ("(SELECT max(i) FROM x)", "int"),
        ("EXISTS (SELECT 1)", "boolean"),
        ("j ->> 'a'", "text"),
        ("j -> 'a'", "json"),
        ("encode(y, 'hex')", "text"),
        ("1 = ANY(a)", "boolean"),
    ],
)
def test_expressions_have_these_types(expression: str, type: str) -> None:
    assert type_in_x(expression) == type


@pytest.mark.parametrize(
    ("expression", "error", "sqlstate", "words"),
    [
        ("sum(t)", UndefinedName, "42883", "function sum(text) does not exist"),
        ("t + 1", UndefinedName, "42883", "operator does not exist: text + int"),
        ("t = 1", UndefinedName, "42883", "operator does not exist: text = int"),
        ("j = j", UndefinedName, "42883", "operator does not exist: json = json"),
        ("min(o)", UndefinedName, "42883", "function min(boolean) does not exist"),
        ("lenth(t)", UndefinedName, "42883", "function lenth(text) does not exist"),
        ("json_agg(i)", UndefinedName, "42883", "function json_agg(int) does not exist"),
        ("json_object_agg(t, i)", UndefinedName, "42883", "function json_object_agg(text, int) does not exist"),
        ("abs(t)", UndefinedName, "42883", "function abs(text) does not exist"),
        ("i = 'abc'", DataError, "22P02", 'invalid input syntax for type integer: "abc"'),
        ("'2020-02-30'::date", DataError, "22008", "out of range"),
        ("99999999999::int + '99999999999'::int", DataError, "22003", "out of range for type integer"),
        ("CASE WHEN o THEN i ELSE t END", TypeMismatch, "42804", "CASE types int and text cannot be matched"),
        ("CASE WHEN i THEN 1 END", TypeMismatch, "42804", "must be type boolean, not type int"),
        ("d::int", TypeMismatch, "42846", "cannot cast type date to int"),
        ("o::numeric(3,1)", TypeMismatch, "42846", "cannot cast type boolean to numeric(3,1)"),
        ("i[1]", TypeMismatch, "42804", "cannot subscript type int"),
        ("ARRAY[1, 'x'::text]", TypeMismatch, "42804", "ARRAY types int and text cannot be matched"),
        ("percentile_cont(0.5)", TypeMismatch, "42809", "WITHIN GROUP is required"),
        ("percentile_cont(1.5) WITHIN GROUP (ORDER BY i)", DataError, "22003", "1.5 is not between 0 and 1"),
        ("percentile_disc(-0.1) WITHIN GROUP (ORDER BY t)", DataError, "22003", "-0.1 is not between 0 and 1"),
        ("approx_percentile(i, 1 + 1)", DataError, "22003", "2 is not between 0 and 1"),
        ("approx_percentile(i, s)", Unsupported, "0A000", "must be a constant"),
        ("percentile_cont(NULL) WITHIN GROUP (ORDER BY i)", Unsupported, "0A000", "must be a constant"),
        ("percentile_cont(1 / 0) WITHIN GROUP (ORDER BY i)", Unsupported, "0A000", "must be a constant"),
        ("mode() WITHIN GROUP (ORDER BY i, s)", UndefinedName, "42883", "function mode(int, smallint) does not exist"),
        ("sum() WITHIN GROUP (ORDER BY i)", TypeMismatch, "42809", "sum is not an ordered-set aggregate"),
        ("mode(DISTINCT) WITHIN GROUP (ORDER BY i)", Error, "42601", ""),
        ("string_agg(t, coalesce(t, '-') ORDER BY i)", Unsupported, "0A000", "the separator of string_agg"),
        ("java_method('a', 'b')", Forbidden, "42501", "java_method"),
        ("sum(DISTINCT i) OVER ()", Unsupported, "0A000", "DISTINCT is not implemented for window functions"),
        ("histogram_numeric(i, 3)", Unsupported, "0A000", "aggregate histogram_numeric is not supported"),
    ],
)
def test_what_has_no_meaning_is_refused(expression: str, error: type[Error], sqlstate: str, words: str) -> None:
    with pytest.raises(error) as caught:
        bind(f"SELECT {expression} FROM x")
    assert caught.value.sqlstate == sqlstate
    assert words in caught.value.message


def test_an_error_points_at_its_place() -> None:
    with pytest.raises(UndefinedName) as caught:
        bind("SELECT i,\n  t + 1 FROM x")
    assert caught.value.position == (2, 5)


def test_a_misspelt_function_gets_a_hint() -> None:
    with pytest.raises(UndefinedName) as caught:
        bind("SELECT lenght(t) FROM x")
    assert caught.value.hint == 'Did you mean "length"?'


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT i FROM x UNION ALL SELECT b FROM x", ["bigint"]),
        ("SELECT NULL UNION ALL SELECT i FROM x", ["int"]),
        ("SELECT 1 UNION SELECT 2.5 UNION SELECT NULL", ["numeric(11,1)"]),
        ("SELECT '1' UNION SELECT i FROM x", ["int"]),
        ("SELECT d FROM x EXCEPT SELECT ts FROM x", ["timestamp"]),
        ("VALUES (1, 'a'), (2.5, NULL)", ["numeric(11,1)", "text"]),
        ("WITH q AS (SELECT i + 1 AS z FROM x) SELECT z, z / 2.0 FROM q", ["int", "numeric(17,6)"]),
        ("SELECT u.v FROM x, unnest(x.a) AS u(v)", ["int"]),
        ("SELECT g FROM generate_series(1, 3) AS g", ["int"]),
    ],
)
def test_queries_have_these_types(sql: str, types: list[str]) -> None:
    assert [str(output.type) for output in bind(sql).outputs] == types


def test_sides_that_do_not_match_are_refused() -> None:
    with pytest.raises(TypeMismatch, match="UNION types int and text cannot be matched"):
        bind("SELECT i FROM x UNION SELECT t FROM x")


def assigned(expression: exp.Expression, to: str) -> exp.Expression:
    typed = infer_types(expression, {"": {name: parse_type(type) for name, type in COLUMNS.items()}})
    return cast_for_assignment(typed, parse_type(to), 'column "z"')


@pytest.mark.parametrize(
    ("make", "to"),
    [
        (lambda: exp.column("i"), "bigint"),
        (lambda: exp.column("b"), "int"),
        (lambda: exp.column("f"), "numeric(5,2)"),
        (lambda: exp.column("i"), "text"),
        (lambda: exp.column("ts"), "date"),
        (lambda: exp.column("t"), "varchar(3)"),
        (lambda: exp.column("a"), "bigint[]"),
    ],
)
def test_assignment_casts(make: Callable[[], exp.Expression], to: str) -> None:
    assert str(type_of(assigned(make(), to))) == to


@pytest.mark.parametrize(
    ("name", "to"), [("t", "int"), ("i", "boolean"), ("f", "date"), ("ta", "int[]"), ("i", "bytea")]
)
def test_assignments_that_postgresql_refuses(name: str, to: str) -> None:
    with pytest.raises(TypeMismatch, match='column "z" is of type'):
        assigned(exp.column(name), to)
