"""INSERT, UPDATE, DELETE and MERGE as queries; CHECK conditions and DEFAULTs as expressions."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from small_shop import ORDERS, USERS, bind_change, complaint, context, evaluate, fails, run, scans

from midstream.errors import Error
from midstream.plan import bind_condition, bind_default
from midstream.relations.table import Column
from midstream.types import BIGINT, BOOLEAN, INT, TEXT, Type

TODAY = datetime.date(2027, 1, 31)


def changed(text: str, *parameters: object) -> list[tuple[object, ...]]:
    return sorted(run(bind_change(text, *parameters)), key=lambda row: [(v is None, str(v)) for v in row])


def outputs(text: str) -> list[tuple[str, str]]:
    return [(output.name, str(output.type)) for output in bind_change(text).outputs]


def refused(text: str, *parameters: object) -> tuple[str, str]:
    sqlstate, message, _ = complaint(text, *parameters, change=True)
    return sqlstate, message


# --- INSERT --------------------------------------------------------------------------------------


def test_insert_gives_exactly_the_tables_columns() -> None:
    text = "INSERT INTO orders (amount, oid) SELECT age, id FROM users WHERE id = 1"
    assert outputs(text) == [("oid", "bigint"), ("id", "int"), ("amount", "numeric(10,2)"), ("day", "date")]
    assert changed(text) == [(1, None, Decimal("30.00"), TODAY)]


def test_insert_fills_in_defaults() -> None:
    assert changed("INSERT INTO orders (oid, day) VALUES (1 + 1, DEFAULT)") == [(2, None, Decimal("0.00"), TODAY)]
    assert changed("INSERT INTO orders DEFAULT VALUES") == [(None, None, Decimal("0.00"), TODAY)]
    assert changed("INSERT INTO users VALUES (?)", 9) == [(9, None, "north", None)]


def test_each_value_of_a_list_is_cast_by_itself() -> None:
    text = (
        "INSERT INTO orders (oid, amount, day) VALUES (1, '2.5', '2020-02-29'), ($1, 7, now()), (3 "
        "* 3, NULL, current_date)"
    )
    assert changed(text, "5") == [
        (1, None, Decimal("2.50"), datetime.date(2020, 2, 29)),
        (5, None, Decimal("7.00"), TODAY),
        (9, None, None, TODAY),
    ]


def test_values_may_hold_subqueries() -> None:
    text = "INSERT INTO users (id, name) VALUES ((SELECT max(id) FROM users), 'm'), (0, (SELECT min(name) FROM users))"
    assert changed(text) == [(0, "ann", "north", None), (4, "m", "north", None)]


def test_an_untyped_literal_of_a_select_takes_the_columns_type() -> None:
    text = "INSERT INTO orders (oid, day) SELECT id, '2020-01-01' FROM users WHERE id < 3 ORDER BY name || 'x'"
    assert changed(text) == [
        (1, None, Decimal("0.00"), datetime.date(2020, 1, 1)),
        (2, None, Decimal("0.00"), datetime.date(2020, 1, 1)),
    ]


def test_insert_from_distinct_and_set_operations() -> None:
    assert changed("INSERT INTO users (id) SELECT DISTINCT age / age FROM users WHERE age > 0") == [
        (1, None, "north", None)
    ]
    assert [row[0] for row in changed("INSERT INTO users (id) SELECT id FROM users UNION ALL SELECT 9 ORDER BY 1")] == [
        1, 2, 3, 4, 9,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("INSERT INTO users SELECT 1, 'a', 'b', 2, 3", "42601", "INSERT has more expressions than target columns"),
        ("INSERT INTO users (id, name) SELECT 1", "42601", "INSERT has more target columns than expressions"),
        ("INSERT INTO users (id) VALUES (1 + 1, 2)", "42601", "INSERT has more expressions than target columns"),
        ("INSERT INTO users (id, id) SELECT 1, 2", "42701", 'column "id" specified more than once'),
        ("INSERT INTO users (nick) SELECT 'x'", "42703", 'column "nick" of relation "users" does not exist'),
        ("INSERT INTO users (_row_id) SELECT 1", "42703", 'column "_row_id" of relation "users" does not exist'),
        ("INSERT INTO users (id) SELECT name FROM users", "42804",
         'column "id" is of type int but expression is of type text'),
    ],
)  # fmt: skip
def test_an_insert_that_does_not_fit_is_refused(text: str, sqlstate: str, message: str) -> None:
    assert refused(text) == (sqlstate, message)


# --- UPDATE --------------------------------------------------------------------------------------


def test_update_gives_the_row_id_and_every_column() -> None:
    text = "UPDATE users AS u SET age = u.age + 1, region = DEFAULT WHERE u.region IS NULL"
    assert outputs(text) == [
        ("_row_id", "bigint"), ("id", "int"), ("name", "text"), ("region", "text"), ("age", "int"),
    ]  # fmt: skip
    assert changed(text) == [(4, 4, "dan", "north", 45)]


def test_update_swaps_from_the_old_row() -> None:
    assert changed("UPDATE users SET name = region, region = name WHERE id = 2") == [(2, 2, "south", "bob", 17)]


def test_update_from_keeps_one_of_several_matches() -> None:
    found = changed("UPDATE users SET age = o.oid, name = '7' FROM orders o WHERE o.id = users.id")
    assert [(row[0], row[2]) for row in found] == [(1, "7"), (2, "7"), (4, "7")]
    assert found[0][4] in (10, 11)


def test_update_of_several_columns_at_once() -> None:
    assert changed("UPDATE users SET (name, age) = ('x', 1 + 1), region = 'r' WHERE id = 1") == [(1, 1, "x", "r", 2)]
    text = (
        "UPDATE users u SET (name, age) = (SELECT 'o' || max(oid)::text, count(*) FROM orders o "
        "WHERE o.id = u.id) WHERE id < 3"
    )
    assert changed(text) == [(1, 1, "o11", "north", 2), (2, 2, "o12", "south", 1)]


def test_update_reads_what_it_needs() -> None:
    assert scans(bind_change("UPDATE users SET name = 'x', region = 'y', age = 1")) == [
        ("users", "table", None, ("id", "_row_id"))
    ]


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("UPDATE users SET nick = 1", "42703", 'column "nick" of relation "users" does not exist'),
        ("UPDATE users SET _row_id = 1", "42703", 'column "_row_id" of relation "users" does not exist'),
        ("UPDATE users SET age = 1, age = 2", "42601", 'multiple assignments to same column "age"'),
        ("UPDATE users SET (age, name) = (1, 'x', 2)", "42601", "number of columns does not match number of values"),
        ("UPDATE users SET (age, name) = (SELECT 1)", "42601", "number of columns does not match number of values"),
        ("UPDATE users SET age = max(age)", "42803", "aggregate functions are not allowed in UPDATE"),
        ("UPDATE users SET age = rank() OVER ()", "42P20", "window functions are not allowed in UPDATE"),
        ("UPDATE users SET age = name", "42804", 'column "age" is of type int but expression is of type text'),
        ("UPDATE users SET age = 1 FROM users", "42712", 'table name "users" specified more than once'),
        ("UPDATE users u SET age = users.id", "42P01", 'invalid reference to FROM-clause entry for table "users"'),
    ],
)
def test_an_update_that_does_not_fit_is_refused(text: str, sqlstate: str, message: str) -> None:
    assert refused(text) == (sqlstate, message)


def test_an_unknown_column_is_pointed_at_and_guessed() -> None:
    error = fails("UPDATE users SET\n  regon = 'x'", change=True)
    assert (error.position, error.hint) == ((2, 3), 'Did you mean "region"?')


# --- DELETE --------------------------------------------------------------------------------------


def test_delete_gives_each_row_id_once() -> None:
    assert outputs("DELETE FROM users") == [("_row_id", "bigint")]
    assert changed("DELETE FROM users WHERE age IS NULL OR id = $1", 1) == [(1,), (3,)]
    assert changed("DELETE FROM users u USING orders o, tags t WHERE o.id = u.id AND t.id = u.id") == [(1,), (2,)]
    assert changed("DELETE FROM orders WHERE id IN (SELECT id FROM users WHERE name = 'ann')") == [(1,), (2,)]


# --- MERGE ---------------------------------------------------------------------------------------


def test_merge_takes_the_first_clause_that_holds() -> None:
    text = """
        MERGE INTO users u USING (VALUES (1, 'new'), (2, NULL), (4, 'keep'), (9, 'nine'), (8, NULL)) AS s(k, v)
        ON u.id = s.k
        WHEN MATCHED AND s.v IS NULL THEN DELETE
        WHEN MATCHED AND s.v = 'keep' THEN DO NOTHING
        WHEN MATCHED THEN UPDATE SET name = s.v, age = DEFAULT
        WHEN NOT MATCHED AND s.v IS NOT NULL THEN INSERT (id, name) VALUES (s.k, s.v)"""
    assert outputs(text)[:3] == [("_row_id", "bigint"), ("_action", "text"), ("id", "int")]
    assert changed(text) == [
        (1, "U", 1, "new", "north", None),
        (2, "D", None, None, None, None),
        (None, "I", 9, "nine", "north", None),
    ]


def test_merge_shows_a_row_that_is_matched_twice() -> None:
    text = "MERGE INTO users USING orders o ON o.id = users.id WHEN MATCHED THEN UPDATE SET age = o.oid"
    assert [row[0] for row in changed(text)] == [1, 1, 2, 4]


def test_merge_acts_on_rows_that_the_source_lacks() -> None:
    text = """MERGE INTO users u USING tags t ON t.id = u.id
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'gone ' || u.name WHEN MATCHED AND u.id = 3 THEN DELETE"""
    assert changed(text) == [(3, "D", None, None, None, None), (4, "U", 4, "gone dan", None, 44)]
    both = """MERGE INTO users u USING (SELECT 9 AS id) s ON s.id = u.id
        WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id)"""
    assert [(row[0], row[1]) for row in changed(both)] == [(1, "D"), (2, "D"), (3, "D"), (4, "D"), (None, "I")]


def test_merge_takes_any_column_names_of_the_source() -> None:
    text = """MERGE INTO users u USING (SELECT 9 AS source_present, 1 AS clause, 2 AS p0) AS source ON u.id = source.p0
        WHEN MATCHED THEN UPDATE SET age = source_present + clause"""
    assert changed(text) == [(2, "U", 2, "bob", "south", 10)]


def test_merge_computes_only_the_clause_that_is_taken() -> None:
    text = (
        "MERGE INTO users u USING tags t ON t.id = u.id WHEN MATCHED AND u.id <> 1 THEN UPDATE SET "
        "age = 10 / (u.id - 1)"
    )
    assert [(row[0], row[5]) for row in changed(text)] == [(2, 10), (3, 5)]


def test_merge_inserts_with_subqueries_and_defaults() -> None:
    text = """MERGE INTO orders o USING users u ON o.id = u.id
        WHEN NOT MATCHED THEN INSERT (oid, id, amount, day)
        VALUES ((SELECT max(oid) FROM orders) + u.id, u.id, '1', DEFAULT)"""
    assert changed(text) == [(None, "I", 17, 3, Decimal("1.00"), TODAY)]


@pytest.mark.parametrize(
    ("clauses", "sqlstate"),
    [
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING", "42601"),
        ("WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)", "42P01"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET age = t.id", "42P01"),
        ("WHEN MATCHED THEN UPDATE SET nick = 1", "42703"),
        ("WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)", "42601"),
        ("WHEN NOT MATCHED THEN INSERT (id, name) VALUES (1)", "42601"),
        ("WHEN MATCHED AND count(*) > 1 THEN DELETE", "42803"),
        ("WHEN MATCHED THEN UPDATE SET age = u.name", "42804"),
    ],
)
def test_a_merge_that_does_not_fit_is_refused(clauses: str, sqlstate: str) -> None:
    assert refused(f"MERGE INTO users u USING tags t ON t.id = u.id {clauses}")[0] == sqlstate


def test_merge_sides_need_different_names() -> None:
    assert refused("MERGE INTO users USING users ON true WHEN MATCHED THEN DELETE")[0] == "42712"


# --- CHECK and DEFAULT ---------------------------------------------------------------------------


def check(condition: str, values: str) -> object:
    text = bind_condition(condition, USERS, context()).sql("duckdb")
    return evaluate(f"SELECT {text} FROM (VALUES {values}) AS t(id, name, region, age)")


def test_a_condition_names_columns_without_the_table() -> None:
    bound = bind_condition("age > 0 AND users.name <> 'x'", USERS, context())
    assert (bound.type, bound.columns) == (BOOLEAN, ("age", "name"))
    assert check("age > 0 AND users.name <> 'x'", "(1, 'a', 'b', 5)") is True
    assert check("age > 0", "(1, 'a', 'b', -5)") is False


@pytest.mark.parametrize(
    ("condition", "sqlstate", "message"),
    [
        ("age", "42804", "argument of CHECK must be type boolean, not type int"),
        ("agge > 1", "42703", 'column "agge" does not exist'),
        ("age > (SELECT 1)", "0A000", "cannot use subquery in check constraint"),
        ("sum(age) > 1", "42803", "aggregate functions are not allowed in check constraints"),
        ("row_number() OVER () > 1", "42P20", "window functions are not allowed in check constraints"),
    ],
)
def test_a_condition_that_is_none_is_refused(condition: str, sqlstate: str, message: str) -> None:
    with pytest.raises(Error) as caught:
        bind_condition(condition, USERS, context())
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)


def default(text: str | None, type_: Type) -> object:
    column = Column("x", type_, default=text)
    return evaluate(f"SELECT {bind_default(column, context()).sql('duckdb')}")


def test_a_default_has_its_columns_type() -> None:
    assert default("'7'", BIGINT) == 7
    assert default("1 + 1", TEXT) == "2"
    assert default(None, INT) is None
    assert default("current_date", ORDERS.columns[3].type) == TODAY


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [("a + 1", "0A000"), ("(SELECT 1)", "0A000"), ("count(*)", "42803"), ("'x'", "22P02"), ("true", "42804")],
)
def test_a_default_that_does_not_fit_is_refused(text: str, sqlstate: str) -> None:
    with pytest.raises(Error) as caught:
        default(text, INT)
    assert caught.value.sqlstate == sqlstate
