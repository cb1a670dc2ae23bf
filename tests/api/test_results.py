"""What comes back: values, forms, statuses, parameters."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import midstream

TYPES = {
    "a": ("smallint", "1", 1),
    "b": ("int", "-2", -2),
    "c": ("bigint", "9007199254740993", 9007199254740993),
    "d": ("real", "0.5", 0.5),
    "e": ("double precision", "0.1", 0.1),
    "f": ("numeric(12,3)", "1234.500", Decimal("1234.500")),
    "g": ("boolean", "true", True),
    "h": ("text", "'ü😀'", "ü😀"),
    "i": ("varchar(10)", "'x'", "x"),
    "k": ("date", "'2024-02-29'", dt.date(2024, 2, 29)),
    "l": ("timestamp", "'2024-02-29 12:34:56.789012'", dt.datetime(2024, 2, 29, 12, 34, 56, 789012)),
    "m": ("timestamptz", "'2024-02-29 12:00:00+02'", dt.datetime(2024, 2, 29, 10, tzinfo=dt.timezone.utc)),
    "n": ("bytea", "'\\x00ff'", b"\x00\xff"),
    "o": ("int[]", "ARRAY[1, NULL]", [1, None]),
    "p": ("json", "'{\"a\": [1, null]}'", '{"a": [1, null]}'),
}


@pytest.fixture
def typed(session: Any) -> Any:
    session.sql(f"CREATE TABLE typed ({', '.join(f'{name} {t[0]}' for name, t in TYPES.items())})")
    session.sql(f"INSERT INTO typed VALUES ({', '.join(t[1] for t in TYPES.values())})")
    session.sql("INSERT INTO typed (a) VALUES (NULL)")
    return session


def test_values_are_plain_python_values(typed: Any) -> None:
    result = typed.sql("SELECT * FROM typed WHERE a IS NOT NULL")
    assert result.columns == list(TYPES)
    assert [str(type_) for type_ in result.types] == [t[0] for t in TYPES.values()]
    (row,) = result.fetchall()
    assert row == tuple(t[2] for t in TYPES.values())
    assert [type(value) for value in row] == [type(t[2]) for t in TYPES.values()]


def test_nulls_are_none_in_every_type(typed: Any) -> None:
    assert typed.sql("SELECT * FROM typed WHERE a IS NULL").fetchall() == [(None,) * len(TYPES)]


def test_every_form_has_the_same_rows(session: Any) -> None:
    session.sql("CREATE TABLE t (id int, name text, price numeric(6,2))")
    session.sql("INSERT INTO t VALUES (1, 'a', 1.5), (2, NULL, 2)")
    query = "SELECT id, name, price FROM t ORDER BY id"
    rows = [(1, "a", Decimal("1.50")), (2, None, Decimal("2.00"))]
    result = session.sql(query)
    assert result.fetchall() == rows
    table = session.sql(query).arrow()
    assert isinstance(table, pa.Table)
    assert table.schema.field("price").type == pa.decimal128(6, 2)
    assert table.to_pylist() == [dict(zip(result.columns, row, strict=True)) for row in rows]
    assert session.sql(query).pl().rows() == rows
    frame = session.sql(query).df()
    assert list(frame.columns) == ["id", "name", "price"]
    assert frame["id"].tolist() == [1, 2]
    assert [tuple(row) for row in session.sql(query).spark().orderBy("id").collect()] == rows


def test_fetchone_goes_on_and_ends_with_none(db: Any) -> None:
    result = db.sql("SELECT x FROM (VALUES (1), (2)) AS v (x) ORDER BY x")
    assert [result.fetchone(), result.fetchone(), result.fetchone(), result.fetchone()] == [(1,), (2,), None, None]


def test_show_prints_a_table(db: Any, capsys: pytest.CaptureFixture[str]) -> None:
    db.sql("SELECT 42 AS answer, NULL AS nothing, 'ü' AS word").show()
    printed = capsys.readouterr().out
    for word in ("answer", "42", "nothing", "ü"):
        assert word in printed


def test_show_prints_values_as_sql_writes_them(db: Any, capsys: pytest.CaptureFixture[str]) -> None:
    db.sql(r"SELECT true AS a, '\x00ff'::bytea AS b, ARRAY[1.10, NULL] AS c, interval '-1 hour' AS d").show()
    assert capsys.readouterr().out.splitlines()[2].split() == "true | \\x00ff | {1.10,NULL} | -01:00:00".split()


@pytest.mark.parametrize("query", ["SELECT 1 AS a, 2 AS a", "SELECT interval '1 mon' AS a"])
def test_what_polars_cannot_hold_is_an_error_of_ours(db: Any, query: str) -> None:
    with pytest.raises(midstream.Error, match="polars") as caught:
        db.sql(query).pl()
    assert (caught.value.sqlstate, caught.value.hint) == ("0A000", "Use .arrow().")


def test_an_empty_result_has_its_columns(session: Any) -> None:
    result = session.sql("SELECT 1 AS a, 'x' AS b WHERE false")
    assert (result.columns, result.fetchall()) == (["a", "b"], [])
    assert result.arrow().num_rows == 0


def test_columns_may_have_one_name(session: Any) -> None:
    result = session.sql("SELECT 1 AS a, 2 AS a")
    assert result.columns == ["a", "a"]
    assert result.fetchall() == [(1, 2)]


def test_changes_have_a_status_and_a_commit(db: Any) -> None:
    created = db.sql("CREATE TABLE t (a int)")
    assert created.status == "CREATE TABLE"
    inserted = db.sql("INSERT INTO t VALUES (1), (2), (3)")
    assert (inserted.status, inserted.scn) == ("INSERT 0 3", db.sql("SELECT current_scn()").fetchone()[0])
    updated = db.sql("UPDATE t SET a = a + 1 WHERE a > 1")
    assert (updated.status, updated.scn) == ("UPDATE 2", inserted.scn + 1)
    assert db.sql("DELETE FROM t").status == "DELETE 3"
    assert db.sql("SELECT 1").status == "SELECT 1"


def test_the_result_of_a_select_is_at_one_scn(db: Any) -> None:
    db.sql("CREATE TABLE t (a int)")
    scn = db.sql("INSERT INTO t VALUES (1)").scn
    assert db.sql("SELECT * FROM t").scn == scn
    assert db.sql(f"SELECT * FROM t AS OF SCN {scn - 1}").fetchall() == []


def test_a_fetched_result_does_not_change_later(db: Any) -> None:
    db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    result = db.sql("SELECT * FROM t")
    db.sql("DELETE FROM t")
    assert result.fetchall() == [(1,)]


def test_several_statements_give_the_last_result(db: Any) -> None:
    assert db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT sum(a) FROM t;").fetchall() == [(3,)]


def test_several_statements_stop_at_the_first_error(db: Any) -> None:
    with pytest.raises(midstream.Error):
        db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1); SELECT nothing FROM t; INSERT INTO t VALUES (2)")
    assert "t" not in str(db.sql("SHOW TABLES").fetchall()) or (2,) not in db.sql("SELECT * FROM t").fetchall()


PARAMETERS = [
    1,
    -(2**63),
    2**62,
    0.1,
    True,
    None,
    "it's; -- ? $1",
    "",
    b"\x00\xff",
    Decimal("12.50"),
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12, 30, 0, 5),
    dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.timezone.utc),
    [1, 2, None],
    ["a", "ü"],
]


@pytest.mark.parametrize("value", PARAMETERS, ids=repr)
def test_a_parameter_comes_back(session: Any, value: Any) -> None:
    (row,) = session.sql("SELECT $1 AS x, $1 AS again", [value]).fetchall()
    assert row == (value, value)
    assert type(row[0]) is type(value)


def test_parameters_stand_by_place_or_number(session: Any) -> None:
    assert session.sql("SELECT ? + ?, ?", [1, 2, "x"]).fetchall() == [(3, "x")]
    assert session.sql("SELECT $2 || $1", ["a", "b"]).fetchall() == [("ba",)]
    session.sql("CREATE TABLE t (id int, name text)")
    session.sql("INSERT INTO t VALUES (?, ?), (?, ?)", [1, "x", 2, None])
    assert session.sql("SELECT name FROM t WHERE id = ?", [1]).fetchall() == [("x",)]
    session.sql("UPDATE t SET name = ? WHERE name IS NULL", ["new"])
    session.sql("DELETE FROM t WHERE id = $1", [1])
    assert session.sql("SELECT * FROM t").fetchall() == [(2, "new")]
    assert session.sql("SELECT '?' AS a, ? AS b", [5]).fetchall() == [("?", 5)]


def test_a_wrong_number_of_parameters_is_an_error(db: Any) -> None:
    for sql, parameters in [("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT $2", [1]), ("SELECT ?", None)]:
        with pytest.raises(midstream.Error):
            db.sql(sql, parameters) if parameters is not None else db.sql(sql)


def test_errors_have_class_and_sqlstate_and_leave_everything_as_it_was(db: Any) -> None:
    db.sql("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
    before = db.sql("SELECT current_scn()").fetchone()
    with pytest.raises(midstream.Error) as caught:
        db.sql("INSERT INTO t VALUES (2), (1)")
    assert caught.value.sqlstate == "23505"
    assert caught.value.detail
    assert db.sql("SELECT * FROM t").fetchall() == [(1,)]
    assert db.sql("SELECT current_scn()").fetchone() == before


def test_a_result_is_true_whatever_it_gave(db: Any) -> None:
    assert db.sql("CREATE TABLE t (a int)")
    assert db.sql("SELECT * FROM t")
    assert len(db.sql("SELECT * FROM t")) == 0
