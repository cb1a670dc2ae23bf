"""Grouping, sorting, limits, set operations, parameters: their meaning and their errors."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from small_shop import NOW, bind, complaint, fails, names, rows, types

from midstream.plan import explain_query

# --- GROUP BY ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        (
            "SELECT name, count(*) FROM users GROUP BY region",
            'column "users.name" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 8),
        ),
        (
            "SELECT count(*), u.age + 1 FROM users u",
            'column "u.age" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 18),
        ),
        (
            "SELECT count(*), * FROM users",
            'column "users.id" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 18),
        ),
        (
            "SELECT region, u.* FROM users u GROUP BY region",
            'column "u.id" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 16),
        ),
        (
            "SELECT region FROM users GROUP BY region HAVING age > 1",
            'column "users.age" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 49),
        ),
        (
            "SELECT region FROM users GROUP BY region ORDER BY age",
            'column "users.age" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 51),
        ),
        (
            "SELECT region, (SELECT o.oid FROM orders o WHERE o.id = users.age) FROM users GROUP BY region",
            'subquery uses ungrouped column "users.age" from outer query',
            (1, 57),
        ),
        (
            "SELECT sum(age) OVER (PARTITION BY name) FROM users GROUP BY age",
            'column "users.name" must appear in the GROUP BY clause or be used in an aggregate function',
            (1, 36),
        ),
        ("SELECT 1 FROM users WHERE sum(age) > 1", "aggregate functions are not allowed in WHERE", (1, 27)),
        (
            "SELECT 1 FROM users u JOIN orders o ON count(*) > 1",
            "aggregate functions are not allowed in JOIN conditions",
            (1, 40),
        ),
        ("SELECT sum(count(*)) FROM users", "aggregate function calls cannot be nested", (1, 12)),
        (
            "SELECT grouping(age) FROM users GROUP BY region",
            "arguments to GROUPING must be grouping expressions of the associated query level",
            (1, 17),
        ),
        ("SELECT count(*) FROM users GROUP BY max(age)", "aggregate functions are not allowed in GROUP BY", (1, 37)),
    ],
)
def test_what_is_neither_grouped_nor_aggregated_is_refused(text: str, message: str, position: tuple[int, int]) -> None:
    assert complaint(text) == ("42803", message, position)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1 FROM users WHERE row_number() OVER () = 1", "window functions are not allowed in WHERE"),
        ("SELECT 1 FROM users GROUP BY rank() OVER ()", "window functions are not allowed in GROUP BY"),
        ("SELECT count(*) FROM users HAVING rank() OVER () = 1", "window functions are not allowed in HAVING"),
        ("SELECT sum(rank() OVER ()) OVER () FROM users", "window function calls cannot be nested"),
    ],
)
def test_window_functions_stand_in_the_select_list_and_order_by(text: str, message: str) -> None:
    assert complaint(text)[:2] == ("42P20", message)


def test_a_window_function_needs_over() -> None:
    assert complaint("SELECT lag(age) FROM users")[:2] == (
        "42809",
        "window function lag requires an OVER clause",
    )


def test_a_primary_key_determines_the_other_columns() -> None:
    text = (
        "SELECT u.name, u.age, count(o.oid) FROM users u LEFT JOIN orders o ON o.id = u.id GROUP BY u.id ORDER BY u.id"
    )
    assert rows(text) == [("ann", 30, 2), ("bob", 17, 1), ("cid", None, 0), ("dan", 44, 1)]
    assert complaint("SELECT day FROM orders GROUP BY oid")[0] == "42803"
    assert complaint("SELECT name FROM users GROUP BY ROLLUP (id)")[0] == "42803"


def test_group_by_prefers_the_input_column_and_order_by_the_output() -> None:
    swapped = "SELECT region AS name, count(*) FROM users GROUP BY name"
    assert complaint(swapped)[0] == "42803"
    assert rows("SELECT upper(region) AS r, count(*) FROM users GROUP BY r ORDER BY r") == [
        ("NORTH", 2), ("SOUTH", 1), (None, 1),
    ]  # fmt: skip
    assert rows("SELECT -id AS age, age AS id FROM users ORDER BY age LIMIT 1") == [(-4, 44)]


def test_numbers_stand_for_the_select_list() -> None:
    assert rows("SELECT region, count(*) FROM users GROUP BY 1 ORDER BY 2 DESC, 1") == [
        ("north", 2), ("south", 1), (None, 1),
    ]  # fmt: skip
    assert complaint("SELECT id FROM users ORDER BY 2") == (
        "42P10",
        "ORDER BY position 2 is not in select list",
        (1, 31),
    )
    assert complaint("SELECT id FROM users GROUP BY 0")[:2] == ("42P10", "GROUP BY position 0 is not in select list")
    assert complaint("SELECT id FROM users ORDER BY 'x'")[:2] == ("42601", "non-integer constant in ORDER BY")


def test_constants_group_without_being_taken_for_numbers() -> None:
    assert rows("SELECT 5 AS k, count(*) FROM users GROUP BY k") == [(5, 4)]
    assert rows("SELECT 5 AS k, count(*) FROM users WHERE false GROUP BY k") == []
    assert rows("SELECT region, 7 AS k, count(*) FROM users WHERE id = 2 GROUP BY region, k") == [("south", 7, 1)]
    assert rows("SELECT 1 FROM users WHERE false GROUP BY ()") == [(1,)]
    assert rows("SELECT 1 FROM users HAVING true") == [(1,)]


def test_grouping_sets() -> None:
    text = (
        "SELECT region, grouping(region), count(*) FROM users WHERE region IS NOT NULL GROUP BY "
        "ROLLUP (region) ORDER BY 2, 1"
    )
    assert rows(text) == [("north", 0, 2), ("south", 0, 1), (None, 1, 3)]
    sets = "SELECT region, age, count(*) FROM users GROUP BY GROUPING SETS ((region), (age), ()) ORDER BY 1, 2, 3"
    assert len(rows(sets)) == 3 + 4 + 1


def test_aggregates_may_feed_window_functions() -> None:
    text = "SELECT region, sum(count(*)) OVER (ORDER BY region) FROM users GROUP BY region ORDER BY 1"
    assert [(region, int(str(total))) for region, total in rows(text)] == [("north", 2), ("south", 3), (None, 4)]


def test_an_aggregate_of_the_outer_query_is_refused() -> None:
    assert complaint("SELECT (SELECT max(u.age) FROM orders) FROM users u")[:2] == (
        "0A000",
        "an aggregate over columns of an outer query alone is not supported",
    )


def test_named_windows() -> None:
    text = "SELECT id, row_number() OVER (w ORDER BY id DESC) FROM users WINDOW w AS (PARTITION BY region) ORDER BY id"
    assert rows(text) == [(1, 2), (2, 1), (3, 1), (4, 1)]


# --- ORDER BY, LIMIT, DISTINCT -------------------------------------------------------------------


def test_nulls_sort_as_the_largest() -> None:
    assert rows("SELECT age FROM users ORDER BY age") == [(17,), (30,), (44,), (None,)]
    assert rows("SELECT age FROM users ORDER BY age DESC LIMIT 2") == [(None,), (44,)]
    assert rows("SELECT age FROM users ORDER BY age NULLS FIRST LIMIT 1") == [(None,)]


def outside_parentheses(text: str) -> str:
    depth, kept = 0, []
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        kept.append(letter if depth == 0 else "")
    return "".join(kept)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM users ORDER BY age",
        "SELECT DISTINCT id FROM users ORDER BY id",
        "SELECT count(*) FROM users GROUP BY region ORDER BY max(age)",
        "SELECT id FROM users UNION SELECT oid FROM orders ORDER BY 1",
        "SELECT DISTINCT ON (region) id FROM users ORDER BY region",
        "(SELECT id FROM users) ORDER BY id",
    ],
)
def test_order_by_stays_outermost(text: str) -> None:
    assert " ORDER BY " in outside_parentheses(bind(text).sql("duckdb"))


def test_order_by_takes_expressions_over_sources_and_aggregates() -> None:
    assert rows("SELECT name FROM users ORDER BY -id LIMIT 2") == [("dan",), ("cid",)]
    assert rows("SELECT region FROM users GROUP BY region ORDER BY count(*) DESC, max(id) LIMIT 1") == [("north",)]
    assert rows("SELECT id FROM users ORDER BY row_number() OVER (ORDER BY id DESC) LIMIT 1") == [(4,)]
    assert rows("SELECT name, 'k' AS k FROM users ORDER BY lower(name) || 'x', k LIMIT 1") == [("ann", "k")]


def test_clauses_behind_parentheses_belong_to_the_query_in_them() -> None:
    assert rows("(SELECT name FROM users) ORDER BY -id LIMIT 1") == [("dan",)]
    assert rows("(SELECT name FROM users LIMIT 1) ORDER BY age DESC NULLS LAST") == [("dan",)]
    assert complaint("(SELECT 1 LIMIT 1) LIMIT 2")[:2] == ("42601", "multiple LIMIT clauses not allowed")


def test_parentheses_do_not_make_another_expression() -> None:
    assert rows("SELECT ((age) + 1), count(*) FROM users WHERE id = 1 GROUP BY age + 1") == [(31, 1)]
    assert rows("SELECT DISTINCT (region) AS r FROM users ORDER BY region LIMIT 1") == [("north",)]


def test_order_by_an_ambiguous_output_is_refused() -> None:
    assert complaint("SELECT id AS x, age AS x FROM users ORDER BY x")[0] == "42702"
    assert rows("SELECT id AS x, id AS x FROM users ORDER BY x LIMIT 1") == [(1, 1)]


def test_select_distinct_sorts_by_what_it_selects() -> None:
    assert rows("SELECT DISTINCT region FROM users ORDER BY region DESC") == [(None,), ("south",), ("north",)]
    assert complaint("SELECT DISTINCT region FROM users ORDER BY age") == (
        "42P10",
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        (1, 44),
    )


def test_distinct_on_keeps_the_first_row_of_each() -> None:
    assert rows("SELECT DISTINCT ON (region) region, name FROM users ORDER BY region, id DESC") == [
        ("north", "cid"), ("south", "bob"), (None, "dan"),
    ]  # fmt: skip
    assert rows("SELECT DISTINCT ON (age > 20) 'c', count(*) OVER () FROM users WHERE age = 30") == [("c", 1)]
    assert rows("SELECT DISTINCT ON (c) 7 AS c, id FROM users ORDER BY c, id DESC") == [(7, 4)]
    assert complaint("SELECT DISTINCT ON (region) id FROM users ORDER BY id")[:2] == (
        "42P10",
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
    )


def test_limits_are_whole_numbers_or_parameters() -> None:
    assert rows("SELECT id FROM users ORDER BY id LIMIT ? OFFSET ?", 2, 1) == [(2,), (3,)]
    assert rows("SELECT id FROM users ORDER BY id LIMIT NULL OFFSET 3") == [(4,)]
    assert rows("SELECT id FROM users ORDER BY id FETCH FIRST ROW ONLY") == [(1,)]
    assert complaint("SELECT 1 LIMIT -1") == ("2201W", "LIMIT must not be negative", (1, 16))
    assert complaint("SELECT 1 OFFSET $1", -2)[:2] == ("2201X", "OFFSET must not be negative")
    assert complaint("SELECT 1 LIMIT 1 + 1")[0] == "0A000"
    assert complaint("SELECT 1 LIMIT ?", "x")[0] == "0A000"


# --- set operations ------------------------------------------------------------------------------


def test_set_operations_take_the_first_names_and_sort_the_whole() -> None:
    text = "SELECT id AS k FROM users UNION ALL SELECT oid FROM orders ORDER BY k DESC LIMIT 2"
    assert names(text) == ["k"]
    assert rows(text) == [(14,), (13,)]
    assert types(text) == ["bigint"]
    ends = "(SELECT id FROM users ORDER BY id LIMIT 1) UNION ALL (SELECT id FROM users ORDER BY id DESC LIMIT 1)"
    assert rows(ends) == [(1,), (4,)]


def test_intersect_binds_tighter() -> None:
    assert sorted(rows("SELECT 1 UNION SELECT 2 INTERSECT SELECT 3")) == [(1,)]
    assert rows("(SELECT 1 UNION SELECT 2) INTERSECT SELECT 2") == [(2,)]
    assert rows("SELECT 1 EXCEPT SELECT 1 UNION ALL SELECT 5") == [(5,)]


def test_set_operations_need_equal_widths() -> None:
    error = fails("SELECT 1, 2 UNION SELECT 3")
    assert (error.sqlstate, error.message) == ("42601", "each UNION query must have the same number of columns")
    assert error.detail == "The first has 2, the second 1."
    assert complaint("SELECT 1 INTERSECT SELECT 3, 4")[1] == "each INTERSECT query must have the same number of columns"


def test_set_operations_sort_by_result_columns_only() -> None:
    assert complaint("SELECT id FROM users UNION SELECT 1 ORDER BY id + 1")[:2] == (
        "0A000",
        "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
    )
    assert complaint("SELECT id FROM users UNION SELECT 1 ORDER BY age")[:2] == ("42703", 'column "age" does not exist')


def test_subqueries_have_the_width_that_their_place_needs() -> None:
    assert complaint("SELECT (SELECT 1, 2)")[:2] == ("42601", "subquery must return only one column")
    assert complaint("SELECT 1 IN (SELECT 1, 2)")[:2] == ("42601", "subquery has too many columns")
    assert complaint("SELECT (1, 2) IN (SELECT 1)")[:2] == ("42601", "subquery has too few columns")
    assert rows("SELECT id FROM users WHERE (id, name) IN (SELECT 2, 'bob')") == [(2,)]


# --- values known when binding -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (7, "int"),
        (-7, "int"),
        (2**40, "bigint"),
        (-(2**63), "bigint"),
        (1.5, "double precision"),
        (Decimal("12.50"), "numeric(4,2)"),
        (Decimal("-3"), "numeric(1,0)"),
        (True, "boolean"),
        ("it's", "text"),
        (None, "text"),
        (datetime.date(2027, 1, 31), "date"),
        (datetime.datetime(2027, 1, 31, 1, 2, 3, 4), "timestamp"),
        (b"\x00\xff", "bytea"),
        ([1, None, 3], "int[]"),
    ],
)
def test_parameters_are_typed_literals(value: object, type_: str) -> None:
    bound = bind("SELECT ?", value)
    assert str(bound.outputs[0].type) == type_
    assert rows("SELECT $1", value) == [(value,)]


def test_a_moment_with_a_zone_is_a_timestamptz() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(2027, 1, 31, 12, 0, tzinfo=zone)
    assert str(bind("SELECT ?", moment).outputs[0].type) == "timestamptz"
    assert rows("SELECT ? = timestamptz '2027-01-31 10:00:00+00'", moment) == [(True,)]


def test_a_text_parameter_takes_the_type_of_its_place() -> None:
    assert rows("SELECT id FROM users WHERE age = ?", "30") == [(1,)]
    assert rows("SELECT oid FROM orders WHERE day = $1 AND amount > $2", "2027-01-02", "5") == [(12,)]


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("SELECT ?, ?", (1,), "the statement has 2 parameters, but 1 value was given"),
        ("SELECT 1", (1, 2), "the statement has no parameters, but 2 values were given"),
        ("SELECT $3", (1,), "the statement has 3 parameters, but 1 value was given"),
        ("SELECT ?", (), "the statement has 1 parameter, but no values were given"),
    ],
)
def test_a_wrong_number_of_parameters_names_both_numbers(text: str, given: tuple[object, ...], message: str) -> None:
    assert complaint(text, *given)[:2] == ("08P01", message)


def test_parameters_are_counted_in_the_order_of_the_text() -> None:
    assert rows("SELECT ? FROM users WHERE id = ? LIMIT ?", "a", 2, 5) == [("a",)]


def test_a_value_that_is_none_of_sqls_is_refused() -> None:
    assert complaint("SELECT ?", object())[0] == "22023"
    assert complaint("SELECT ?", Decimal("NaN"))[0] == "22003"
    assert complaint("SELECT ?", "a\x00b")[0] == "22021"


def test_the_moment_is_one_for_the_statement() -> None:
    text = (
        "SELECT now() = current_timestamp, now() = transaction_timestamp(), current_date, "
        "localtimestamp, current_scn(), current_week()"
    )
    naive = NOW.replace(tzinfo=None)
    assert rows(text) == [(True, True, NOW.date(), naive, 41, 202704)]
    assert types(text)[3:] == ["timestamp", "bigint", "int"]


# --- EXPLAIN -------------------------------------------------------------------------------------


class _Input:
    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.bytes = rows, size


def test_explain_tells_the_kernel_the_inputs_and_the_text() -> None:
    bound = bind("SELECT o.nick, n.name FROM users AS OF SCN 7 AS o JOIN users n ON n.id = o.id")
    inputs = {"scan_0": _Input(1000, 34_000), "scan_1_base": _Input(2, 10), "scan_1_new": _Input(3, 11)}
    lines = explain_query(bound, "duckdb", "its inputs fit one task", inputs)
    assert lines[:4] == [
        "Kernel: duckdb (its inputs fit one task)",
        'Scan scan_0: table "users" at SCN 7 (id, nick); 1,000 rows; 34 kB',
        'Scan scan_1: table "users" (id, name); 5 rows; 21 bytes',
        "SQL:",
    ]
    assert lines[4] == "  " + bound.sql("duckdb")


def test_explain_names_the_kernel_that_cannot() -> None:
    bound = bind("SELECT g FROM generate_series(1, 3) g")
    lines = explain_query(bound, "duckdb", "only it can")
    assert lines[1].startswith("Not spark: ")
