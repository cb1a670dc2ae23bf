"""What names mean, and what is said when they mean nothing."""

from __future__ import annotations

import pytest
from small_shop import Shop, bind, complaint, context, fails, names, rows, scans

from midstream.plan import freeze_stars
from midstream.plan.context import CHANGE_COLUMNS
from midstream.sql import parse_query


def test_star_hides_the_row_id_and_keeps_the_order() -> None:
    assert names("SELECT * FROM users") == ["id", "name", "region", "age"]


def test_the_row_id_has_no_name() -> None:
    assert complaint("SELECT _row_id FROM users") == ("42703", 'column "_row_id" does not exist', (1, 8))
    assert complaint("SELECT users._row_id FROM users") == ("42703", "column users._row_id does not exist", (1, 8))


@pytest.mark.parametrize(
    ("text", "sqlstate", "message", "position"),
    [
        ("SELECT nam FROM users", "42703", 'column "nam" does not exist', (1, 8)),
        ("SELECT id,\n  u.nam FROM users u", "42703", "column u.nam does not exist", (2, 3)),
        ("SELECT * FROM user_s", "42P01", 'relation "user_s" does not exist', (1, 15)),
        ("SELECT x.id FROM users", "42P01", 'missing FROM-clause entry for table "x"', (1, 8)),
        ("SELECT x.* FROM users", "42P01", 'missing FROM-clause entry for table "x"', (1, 8)),
        (
            "SELECT users.id FROM users u",
            "42P01",
            'invalid reference to FROM-clause entry for table "users"',
            (1, 8),
        ),
        ("SELECT id FROM users, orders", "42702", 'column reference "id" is ambiguous', (1, 8)),
        ("SELECT 1 FROM users, users", "42712", 'table name "users" specified more than once', (1, 22)),
        ("SELECT 1 FROM users u JOIN orders u ON true", "42712", 'table name "u" specified more than once', (1, 35)),
        ("SELECT s.x FROM (SELECT 1 AS x, 2 AS x) s", "42702", 'column reference "x" is ambiguous', (1, 8)),
        ("SELECT *", "42601", "SELECT * with no tables specified is not valid", (1, 8)),
        (
            "SELECT 1 FROM users JOIN tags USING (name)",
            "42703",
            'column "name" specified in USING clause does not exist in right table',
            (1, 38),
        ),
        (
            "SELECT 1 FROM users u(a, b, c, d, e)",
            "42P10",
            'table "u" has 4 columns available but 5 columns specified',
            (1, 23),
        ),
        ("SELECT 1 FROM users, tags JOIN orders ON users.id = 1", "42P01",
         'missing FROM-clause entry for table "users"', (1, 42)),
        ("SELECT sum(age) OVER w FROM users", "42704", 'window "w" does not exist', (1, 22)),
        ("WITH a AS (SELECT 1), a AS (SELECT 2) SELECT 1", "42712",
         'WITH query name "a" specified more than once', (1, 23)),
    ],
)  # fmt: skip
def test_a_wrong_name_is_named_with_its_place(
    text: str, sqlstate: str, message: str, position: tuple[int, int]
) -> None:
    assert complaint(text) == (sqlstate, message, position)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT nme FROM users", 'Did you mean "name"?'),
        ("SELECT u.regon FROM users u", 'Did you mean "region"?'),
        ("SELECT * FROM usrs", 'Did you mean "users"?'),
        ("SELECT orderz.id FROM orders", 'Did you mean "orders"?'),
        ("SELECT users.id FROM users u", 'Perhaps you meant to reference the table alias "u".'),
        ("SELECT tags FROM tags t", 'Did you mean "Tags"?'),
        ("SELECT zzz FROM users", None),
    ],
)
def test_the_hint_says_what_was_probably_meant(text: str, hint: str | None) -> None:
    assert fails(text).hint == hint


def test_names_fold_to_lower_case_unless_quoted() -> None:
    assert names('SELECT ID, "Tags", t."Tags" AS "X" FROM Tags T') == ["id", "Tags", "X"]
    assert complaint('SELECT "ID" FROM users')[0] == "42703"


def test_a_whole_row_is_no_value() -> None:
    error = fails("SELECT users FROM users")
    assert (error.sqlstate, error.message) == ("0A000", '"users" is a table here, and a whole row cannot be a value')
    assert fails("SELECT count(u.*) FROM users u").sqlstate == "0A000"


def test_a_column_wins_over_a_table_of_its_name() -> None:
    assert rows("SELECT name FROM users AS name WHERE id = 1") == [("ann",)]


# --- joins ---------------------------------------------------------------------------------------


def test_using_merges_the_columns_and_puts_them_first() -> None:
    assert names("SELECT * FROM orders JOIN users USING (id)") == [
        "id", "oid", "amount", "day", "name", "region", "age",
    ]  # fmt: skip
    assert names("SELECT users.*, id FROM orders JOIN users USING (id)") == ["id", "name", "region", "age", "id"]


def test_the_merged_column_follows_the_side_that_is_kept() -> None:
    left = "SELECT id FROM orders LEFT JOIN users USING (id) ORDER BY 1"
    assert rows(left) == [(1,), (1,), (2,), (4,), (None,)]
    right = "SELECT id FROM orders RIGHT JOIN users USING (id) ORDER BY 1"
    assert rows(right) == [(1,), (1,), (2,), (3,), (4,)]
    full = "SELECT id FROM orders FULL JOIN users USING (id) ORDER BY 1"
    assert rows(full) == [(1,), (1,), (2,), (3,), (4,), (None,)]


def test_using_chains_over_merged_columns() -> None:
    text = 'SELECT id, name, "Tags" FROM orders FULL JOIN users USING (id) FULL JOIN tags USING (id) WHERE id = 3'
    assert rows(text) == [(3, "cid", None)]


def test_natural_join_takes_the_common_names() -> None:
    assert rows("SELECT count(*) FROM users NATURAL JOIN orders") == [(4,)]
    assert rows("SELECT count(*) FROM (SELECT 1 AS x) a NATURAL JOIN (SELECT 2 AS y) b") == [(1,)]


def test_a_comma_binds_looser_than_a_join() -> None:
    text = (
        "SELECT u.id, o.oid, t.id FROM users u, orders o RIGHT JOIN tags t ON o.id = t.id WHERE u.id = 1 ORDER BY 2, 3"
    )
    assert rows(text) == [(1, 10, 1), (1, 11, 1), (1, 12, 2), (1, None, 3)]
    nothing = "SELECT count(*) FROM (SELECT * FROM users WHERE false) u, orders o RIGHT JOIN tags t ON o.id = t.id"
    assert rows(nothing) == [(0,)]


def test_joins_nest() -> None:
    text = (
        "SELECT u.id, o.oid, t.id FROM users u LEFT JOIN (orders o JOIN tags t ON t.id = o.id) ON "
        "u.id = o.id ORDER BY 1, 2"
    )
    assert rows(text) == [(1, 10, 1), (1, 11, 1), (2, 12, 2), (3, None, None), (4, None, None)]
    aliased = "SELECT j.name, j.oid FROM (users JOIN orders USING (id)) AS j WHERE j.id = 2"
    assert rows(aliased) == [("bob", 12)]
    assert complaint("SELECT users.id FROM (users JOIN orders USING (id)) AS j")[0] == "42P01"


# --- scopes --------------------------------------------------------------------------------------


def test_an_inner_name_hides_the_outer_one_only_where_it_is_meant() -> None:
    text = "SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM (SELECT 5 AS z) u WHERE age > 40 AND u.z = 5)"
    assert rows(text) == [(4,)]
    assert complaint("SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM orders u WHERE u.age > 1)")[0] == "42703"


def test_correlated_subqueries_see_the_queries_around_them() -> None:
    text = "SELECT name, (SELECT sum(amount) FROM orders o WHERE o.id = u.id) FROM users u ORDER BY u.id"
    assert [(n, None if s is None else float(str(s))) for n, s in rows(text)] == [
        ("ann", 10.0), ("bob", 7.0), ("cid", None), ("dan", 2.0),
    ]  # fmt: skip
    nested = (
        "SELECT name FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = u.id AND EXISTS "
        "(SELECT 1 FROM tags t WHERE t.id = o.id AND u.age > 20))"
    )
    assert rows(nested) == [("ann",)]


def test_lateral_sees_what_stands_before_it() -> None:
    text = (
        "SELECT u.id, x.oid FROM users u, LATERAL (SELECT oid FROM orders o WHERE o.id = u.id "
        "ORDER BY oid DESC LIMIT 1) x"
    )
    assert sorted(rows(text)) == [(1, 11), (2, 12), (4, 14)]
    left = (
        "SELECT u.id, x.n FROM users u LEFT JOIN LATERAL (SELECT 1 AS n FROM tags t WHERE t.id = "
        "u.id) x ON true ORDER BY 1"
    )
    assert rows(left) == [(1, 1), (2, 1), (3, 1), (4, None)]
    assert complaint("SELECT 1 FROM users u, (SELECT u.id) x")[0] == "42P01"


def test_a_derived_table_needs_no_alias() -> None:
    assert rows("SELECT x + y FROM (SELECT 1 AS x), (SELECT 2 AS y)") == [(3,)]


def test_with_queries_are_used_several_times_and_hide_tables() -> None:
    text = (
        "WITH users AS (SELECT 7 AS id), b(k) AS (SELECT id FROM users) SELECT p.k, q.k, users.id FROM b p, b q, users"
    )
    assert rows(text) == [(7, 7, 7)]
    inner = "WITH c AS (SELECT 1 AS x) SELECT (WITH c AS (SELECT 2 AS x) SELECT x FROM c), x FROM c"
    assert rows(inner) == [(2, 1)]
    assert fails("SELECT (WITH c AS (SELECT 2 AS x) SELECT x FROM c), x FROM c").sqlstate == "42P01"


def test_a_recursive_query_is_refused_only_if_it_is_one() -> None:
    assert rows("WITH RECURSIVE c AS (SELECT 1 AS x) SELECT x FROM c") == [(1,)]
    error = fails("WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c) SELECT x FROM c")
    assert error.sqlstate == "0A000"
    assert error.message == 'WITH query "c" refers to itself, and recursive queries are not supported'


# --- output names --------------------------------------------------------------------------------


def test_result_columns_have_postgresqls_names() -> None:
    text = (
        "SELECT age, count(*), age::bigint, 1, 'x'::text, age + 1, CASE WHEN age > 1 THEN 2 END, coalesce(age, 1), "
        "(SELECT max(oid) FROM orders), EXISTS (SELECT 1), sum(age) OVER (), upper(min(name)), now() "
        "FROM users GROUP BY age"
    )
    assert names(text) == [
        "age", "count", "age", "?column?", "text", "?column?", "case", "coalesce",
        "max", "exists", "sum", "upper", "now",
    ]  # fmt: skip


def test_a_function_names_its_column_also_where_an_operator_does_the_same() -> None:
    text = "SELECT power(2, 3), pow(2, 3), 2 ^ 3, mod(5, 2), 5 % 2, corr(age, id), true FROM users"
    assert names(text) == ["power", "pow", "?column?", "mod", "?column?", "corr", "bool"]
    trims = (
        "SELECT trim(name), trim(LEADING 'a' FROM name), trim(TRAILING FROM name), btrim(name), ltrim(name) FROM users"
    )
    assert names(trims) == ["btrim", "ltrim", "rtrim", "btrim", "ltrim"]


def test_an_unknown_function_is_called_as_it_was_written() -> None:
    assert complaint("SELECT gen_random_uuid()") == ("42883", "function gen_random_uuid() does not exist", (1, 8))


def test_result_columns_may_share_a_name() -> None:
    assert names("SELECT id, id, name AS id FROM users") == ["id", "id", "id"]
    assert rows("SELECT * FROM (SELECT id, name AS id FROM users) s WHERE 1 = 1 ORDER BY 1 LIMIT 1") == [(1, "ann")]


def test_names_that_differ_only_in_case_stay_apart() -> None:
    assert rows('SELECT s."X", s.x FROM (SELECT 1 AS x, 2 AS "X") s') == [(2, 1)]


@pytest.mark.parametrize(
    ("text", "frozen"),
    [
        ("SELECT * FROM tags", 'SELECT id, "Tags" FROM tags'),
        ("SELECT t.*, 1 FROM tags t", 'SELECT t.id, t."Tags", 1 FROM tags t'),
        (
            "SELECT * FROM tags, users u WHERE EXISTS (SELECT * FROM spending)",
            'SELECT tags.id, "Tags", u.id, name, region, age FROM tags, users u '
            "WHERE EXISTS (SELECT who, total, orders FROM spending)",
        ),
        (
            "SELECT * FROM tags JOIN users USING (id)",
            'SELECT id, "Tags", name, region, age FROM tags JOIN users USING (id)',
        ),
        ("SELECT count(*), 2 * 3 FROM tags", "SELECT count(*), 2 * 3 FROM tags"),
        ("SELECT * FROM (SELECT id, id FROM users) s", "SELECT * FROM (SELECT id, id FROM users) s"),
        (
            "SELECT 'a\nb' AS k, * FROM (SELECT * FROM tags) s",
            "SELECT 'a\nb' AS k, id, \"Tags\" FROM (SELECT id, \"Tags\" FROM tags) s",
        ),
    ],
)  # fmt: skip
def test_a_star_can_be_written_out(text: str, frozen: str) -> None:
    result = freeze_stars(parse_query(text), Shop(), context())
    assert result.text == frozen
    assert names(result.text) == names(text)


# --- what is read --------------------------------------------------------------------------------


def test_each_relation_is_read_once_with_the_columns_in_use() -> None:
    assert scans(bind("SELECT a.name FROM users a JOIN users b ON a.id = b.age")) == [
        ("users", "table", None, ("id", "name", "age"))
    ]
    assert scans(bind("SELECT count(*) FROM users")) == [("users", "table", None, ("_row_id",))]


def test_columns_that_no_one_uses_are_not_read() -> None:
    assert scans(bind("SELECT who FROM adults")) == [("users", "table", None, ("name", "age"))]
    assert scans(bind("SELECT n FROM (SELECT *, 1 AS n FROM (SELECT * FROM users) a) b")) == [
        ("users", "table", None, ("_row_id",))
    ]
    union = "SELECT x FROM (SELECT id AS x, name AS y FROM users UNION ALL SELECT oid, 'z' FROM orders) s"
    assert scans(bind(union)) == [("users", "table", None, ("id",)), ("orders", "table", None, ("oid",))]
    exists = "SELECT 1 FROM users WHERE EXISTS (SELECT * FROM orders WHERE orders.id = users.id)"
    assert scans(bind(exists)) == [("users", "table", None, ("id",)), ("orders", "table", None, ("id",))]


def test_columns_that_decide_rows_are_kept() -> None:
    assert rows("SELECT count(*) FROM (SELECT DISTINCT region FROM users) s") == [(3,)]
    assert rows("SELECT count(*) FROM (SELECT max(age) FROM users) s") == [(1,)]
    assert rows("SELECT count(*) FROM (SELECT region FROM users UNION SELECT name FROM users) s") == [(7,)]
    assert rows('SELECT count(*) FROM (SELECT unnest("Tags") FROM tags) s') == [(2,)]


def test_views_are_their_queries_under_their_own_names() -> None:
    assert names("SELECT * FROM adults") == ["key", "who"]
    assert rows("SELECT who, orders FROM spending ORDER BY who") == [("ann", 2), ("dan", 1)]
    assert rows("SELECT a FROM adults AS x(a) ORDER BY a") == [(1,), (4,)]
    assert complaint("SELECT name FROM adults") == ("42703", 'column "name" does not exist', (1, 8))


def test_the_change_log_has_its_own_columns() -> None:
    bound = bind("SELECT name, old_new_mark, dml_type, trans_scn FROM clog_users c WHERE trans_scn > 3")
    assert scans(bound) == [("users", "changes", None, ("name", *CHANGE_COLUMNS.values()))]
    assert [str(output.type) for output in bound.outputs] == ["text", "text", "text", "bigint"]
    assert names("SELECT * FROM clog_tags")[-3:] == ["old_new_mark", "dml_type", "trans_scn"]
    assert complaint("SELECT * FROM clog_adults")[0] == "42809"
    assert complaint("SELECT * FROM clog_nothing") == ("42P01", 'relation "clog_nothing" does not exist', (1, 15))


def test_the_past_has_the_columns_of_then() -> None:
    bound = bind("SELECT o.nick, n.name FROM users AS OF SCN 7 AS o JOIN users n ON n.id = o.id")
    assert scans(bound) == [("users", "table", 7, ("id", "nick")), ("users", "table", None, ("id", "name"))]
    assert scans(bind("SELECT who FROM adults AS OF SCN 12")) == [("users", "table", 12, ("name", "age"))]
    assert scans(bind("SELECT id FROM users AS OF SCN ?", 12))[0][2] == 12
    assert complaint("SELECT 1 FROM users AS OF SCN 42")[:2] == ("72000", "SCN 42 has not happened yet")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT * FROM users [WINDOW 10 ROWS]", '"users" is not a stream, and only a stream has windows'),
        (
            "SELECT * FROM TUMBLE(users, age, INTERVAL '1 hour')",
            '"users" is not a stream, and only a stream has windows',
        ),
        ("SELECT * FROM adults ALL WINDOWS", '"adults" is not a view over windows, and has no windows to read'),
    ],
)
def test_only_streams_have_windows(text: str, what: str) -> None:
    error = fails(text)
    assert (error.sqlstate, error.message) == ("42809", what)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM users[j-1]",
        "SELECT * FROM users PATTERN [a, b+]",
        "SELECT * FROM parts('users')",
    ],
)
def test_what_comes_later_says_so(text: str) -> None:
    error = fails(text)
    assert error.sqlstate == "0A000"
    assert error.message.endswith("cannot be used yet")
    assert error.detail and error.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('x')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT java_method('java.lang.System', 'exit', 1)",
        "SELECT reflect('java.lang.System', 'getenv', 'x')",
        "SELECT getenv('HOME')",
        "SELECT current_setting('x')",
        "SELECT input_file_name() FROM users",
    ],
)
def test_nothing_reaches_outside(text: str) -> None:
    assert fails(text).sqlstate == "42501"


def test_functions_in_from_give_tables() -> None:
    assert rows("SELECT g FROM generate_series(1, 3) g ORDER BY g") == [(1,), (2,), (3,)]
    assert rows('SELECT id, x FROM tags, unnest("Tags") AS u(x) ORDER BY x') == [(1, "x"), (1, "y")]
    assert rows("SELECT t.id, u.x, u.n FROM tags t CROSS JOIN LATERAL unnest(t.\"Tags\") WITH ORDINALITY AS u(x, n) "
                "ORDER BY n") == [(1, "x", 1), (1, "y", 2)]  # fmt: skip
    assert rows('SELECT id, unnest("Tags") AS t FROM tags ORDER BY t DESC') == [(1, "y"), (1, "x")]
    assert complaint("SELECT * FROM upper('x')")[0] == "42883"


def test_values_of_an_outer_row_are_a_table() -> None:
    text = "SELECT u.id, x.v FROM users u, LATERAL (VALUES (u.age), (-u.id)) AS x(v) WHERE u.id = 1 ORDER BY v"
    assert rows(text) == [(1, -1), (1, 30)]


def test_a_kernel_is_refused_for_shapes_that_it_reads_differently() -> None:
    far = (
        "SELECT 1 FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE EXISTS "
        "(SELECT 1 FROM tags t WHERE t.id = o.id AND u.age > 20))"
    )
    assert set(bind(far).refusals) == {"spark"}
    assert set(bind("SELECT id IN (SELECT id FROM orders) FROM users").refusals) == {"spark"}
    assert set(bind("SELECT 1 FROM users WHERE (id IN (SELECT id FROM orders)) IS NULL").refusals) == {"spark"}
    assert not bind("SELECT 1 FROM users WHERE age > 3 AND id NOT IN (SELECT id FROM orders)").refusals
    assert not bind("SELECT 1 FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = u.id)").refusals


def test_values_are_a_table() -> None:
    assert rows("VALUES (2, 'b'), (1, 'a') ORDER BY column1") == [(1, "a"), (2, "b")]
    assert rows("SELECT v.b FROM (VALUES (1, 'x'), (2, 'y')) AS v(a, b) WHERE a = 2") == [("y",)]
