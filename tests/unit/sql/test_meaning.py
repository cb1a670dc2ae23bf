"""What a text means: PostgreSQL's precedence, names, literals; and sqlglot's own trees for ordinary SQL."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from midstream.errors import Error, Unsupported
from midstream.sql import nodes, parse_expression, parse_one, parse_query, print_expression
from midstream.sql.dialect import Midstream


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a < b IS NULL", "(a < b) IS NULL"),
        ("a = b IS NOT TRUE", "NOT ((a = b) IS TRUE)"),
        ("a || b + c", "a || (b + c)"),
        ("a -> 'x' = 'y'", "(a -> 'x') = 'y'"),
        ("a & b + c", "a & (b + c)"),
        ("-2 ^ 2", "(-2) ^ 2"),
        ("- a::int", "-(a::int)"),
        ("2 ^ 3 ^ 2", "(2 ^ 3) ^ 2"),
        ("a - b - c", "(a - b) - c"),
        ("a % b * c", "(a % b) * c"),
        ("NOT a = b", "NOT (a = b)"),
        ("NOT a IS NULL", "NOT (a IS NULL)"),
        ("NOT a AND b", "(NOT a) AND b"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("a BETWEEN b + 1 AND c AND d", "(a BETWEEN (b + 1) AND c) AND d"),
        ("a LIKE b || 'x'", "a LIKE (b || 'x')"),
        ("a IN (1) = b", "(a IN (1)) = b"),
        ("a IS DISTINCT FROM b + 1", "a IS DISTINCT FROM (b + 1)"),
        ("~ a + b", "~(a + b)"),
        ("a AT TIME ZONE 'UTC' + b", "(a AT TIME ZONE 'UTC') + b"),
        ("a<-1", "a < (-1)"),
        ("a.b[1]::int", "((a.b)[1])::int"),
    ],
)
def test_operators_bind_as_in_postgresql(written: str, meant: str) -> None:
    assert _bare(parse_expression(written).tree()) == _bare(parse_expression(meant).tree())


@pytest.mark.parametrize(
    "text",
    ["a < b < c", "a = b <> c", "a LIKE b LIKE c", "a BETWEEN 1 AND 2 BETWEEN 3 AND 4", "a IS DISTINCT FROM b IS NULL"],
)
def test_what_does_not_chain_in_postgresql_does_not_chain_here(text: str) -> None:
    with pytest.raises(Error, match="syntax error"):
        parse_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, t.b AS c, count(*), sum(DISTINCT d) FILTER (WHERE e) FROM t WHERE a IN (1, 2) GROUP BY 1",
        "SELECT DISTINCT ON (a) * FROM a JOIN b USING (x) LEFT JOIN c ON c.x = a.x, LATERAL (SELECT 1) AS l",
        "SELECT CASE WHEN a THEN 1 ELSE 2 END, CAST(a AS NUMERIC(10, 2)), a::TEXT, INTERVAL '1 day', DATE '2020-01-01'",
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t ORDER BY 1 LIMIT 2 OFFSET 1",
        "SELECT 1 UNION SELECT 2 INTERSECT SELECT 3 EXCEPT ALL (SELECT 4 ORDER BY 1)",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND NOT b AND c IS NOT NULL",
        "SELECT extract(YEAR FROM a), substring(a FROM 1 FOR 2), trim(BOTH 'x' FROM b), position('a' IN b) FROM t",
        "SELECT string_agg(a, ',' ORDER BY b), percentile_cont(0.5) WITHIN GROUP (ORDER BY c) FROM t",
        "SELECT a FROM t GROUP BY ROLLUP (a, b), GROUPING SETS ((a), ())",
        "SELECT * FROM (VALUES (1, 2)) AS v(a, b), generate_series(1, 3) AS s(n), unnest(x) WITH ORDINALITY AS u(p, q)",
        "SELECT coalesce(a, b), date_trunc('day', a), round(a, 2), to_char(a, 'YYYY'), now(), foo(a) FROM t",
        "UPDATE t AS x SET a = 1, b = x.b + 1 FROM u WHERE x.id = u.id",
        "DELETE FROM t AS x USING u, v WHERE x.id = u.id",
        "VALUES (1, 'a'), (2, 'b')",
    ],
)
def test_ordinary_sql_becomes_the_tree_that_sqlglot_makes(text: str) -> None:
    statement = parse_one(text)
    sql = getattr(statement, "query", None) or getattr(statement, "tree")  # noqa: B009
    assert _bare(sql.tree()) == _bare(sqlglot.parse_one(text, dialect="postgres"))


def test_names_are_folded_unless_they_are_quoted() -> None:
    tree = parse_query('SELECT Foo.BAR, "Foo"."BAR" AS "X" FROM Public.Foo, "Foo"').tree()
    assert [identifier.name for identifier in tree.find_all(exp.Identifier, bfs=False)] == (
        ["bar", "foo", "BAR", "Foo", "X", "foo", "Foo"]
    )


def test_some_is_a_quantifier_behind_an_operator_and_an_aggregate_elsewhere() -> None:
    text = (
        "SELECT SOME(a), count(b) FILTER (WHERE c = SOME (d)) FROM t HAVING some (DISTINCT a) = (e LIKE SOME ('{x}'))"
    )
    tree = parse_query(text).tree()
    assert [type(node.this) for node in tree.find_all(exp.LogicalOr, bfs=False)] == [exp.Column, exp.Distinct]
    assert len(list(tree.find_all(exp.Any))) == 2
    for wrong in ("some", "SELECT some (SELECT true)", "SELECT a AS b FROM some(c)"):
        with pytest.raises(Error, match="syntax error"):
            parse_query(wrong)


def test_strings_stand_for_what_they_stand_for_in_postgresql() -> None:
    text = r"""SELECT 'it''s', 'back\slash', E'tab\t\x41\101\u00e9\\\'', $$a'b$$, $tag$ $$ $tag$, 'one'
      'two'"""
    values = [literal.name for literal in parse_query(text).tree().expressions]
    assert values == ["it's", "back\\slash", "tab\tAAé\\'", "a'b", " $$ ", "onetwo"]


def test_comments_are_white_space_and_nest() -> None:
    assert parse_one("SELECT/* a /* b */ c */1 -- d\n").query.text == "SELECT 1"  # type: ignore[attr-defined]


def test_parameters_are_numbered_from_left_to_right() -> None:
    tree = parse_query("SELECT ? FROM t WHERE a = ? AND b IN (SELECT c FROM u WHERE d = ?)").tree()
    assert [int(p.this.name) for p in tree.find_all(exp.Parameter, bfs=False)] == [1, 2, 3]
    assert [p.this.name for p in parse_query("SELECT $2, $1").tree().find_all(exp.Parameter)] == ["2", "1"]


def test_group_by_ordinals_are_kept() -> None:
    group = parse_query("SELECT a FROM t GROUP BY 1").tree().args["group"]
    assert group.expressions == [exp.Literal.number(1)]


def test_an_interval_of_several_units_stays_whole() -> None:
    whole = parse_expression("interval '3 days 04:05:06'").tree()
    assert (whole.this.name, whole.args.get("unit")) == ("3 days 04:05:06", None)
    single = parse_expression("interval '90 minutes'").tree()
    assert (single.this.name, single.args["unit"].name) == ("90", "MINUTES")


def test_a_plain_char_has_one_character_and_a_plain_numeric_has_no_bounds() -> None:
    assert parse_expression("a::char").tree().args["to"].sql() == "CHAR(1)"
    assert parse_expression("a::numeric").tree().args["to"].sql() == "DECIMAL"


@pytest.mark.parametrize(
    ("item", "reading"),
    [
        ("users AS OF SCN 41 AS u", nodes.AsOf(this=exp.Literal.number(41))),
        ("v ALL WINDOWS", nodes.AllWindows()),
        ("s [WINDOW 10 ROWS]", nodes.StreamWindow(kind="sliding", rows=True, size=10)),
        (
            "s [WINDOW 60 MINUTES SLIDE 10 MINUTES] AS x",
            nodes.StreamWindow(kind="sliding", rows=False, size=3_600_000_000, slide=600_000_000),
        ),
        ("s [LANDMARK SLIDE 5 ROWS]", nodes.StreamWindow(kind="landmark", rows=True, slide=5)),
        (
            "HOP(s, ts, interval '1 minute', interval '1' hour)",
            nodes.StreamWindow(
                kind="sliding", rows=False, size=3_600_000_000, slide=60_000_000, column=exp.to_identifier("ts")
            ),
        ),
        ("m[j]", nodes.PartReference(this=exp.column("j"))),
    ],
)
def test_how_a_relation_is_read_hangs_on_its_table(item: str, reading: nodes.Reading) -> None:
    tree = parse_query(f"SELECT * FROM {item}").tree()
    found = nodes.reading_of(tree.args["from_"].this)
    assert found == reading
    assert tree.find(nodes.Reading) == reading


def test_a_plain_table_is_read_plainly() -> None:
    tree = parse_query("SELECT * FROM changes, pattern AS landmark, windows session").tree()
    assert tree.find(nodes.Reading) is None


def test_the_dialect_reads_by_the_same_rules() -> None:
    tree = sqlglot.parse_one("SELECT a FROM S [WINDOW 5 ROWS]", dialect=Midstream)
    assert tree.sql(dialect=Midstream) == "SELECT a FROM s [WINDOW 5 ROWS]"


def test_a_changed_expression_is_written_down_only_if_it_reads_back() -> None:
    tree = parse_expression("a > 0 AND length(b) < 5").tree()
    for column in tree.find_all(exp.Column):
        column.set("this", exp.to_identifier("New " + column.name, quoted=True))
    assert print_expression(tree) == '"New a" > 0 AND LENGTH("New b") < 5'
    with pytest.raises(Unsupported, match="cannot be written down again"):
        print_expression(parse_expression("sha2(a, 256) = 'x'").tree())


def _bare(tree: exp.Expr) -> exp.Expr:
    """Without parentheses and without the flags that say what is absent."""
    bare = tree.copy()
    while (paren := next((node for node in bare.walk() if isinstance(node, exp.Paren)), None)) is not None:
        bare = paren.this if paren is bare else bare
        paren.replace(paren.this)
    for node in bare.walk():
        for key in [k for k, value in node.args.items() if value is False and k not in ("is_string", "this")]:
            if key != "nulls_first":
                node.args.pop(key)
    return bare.copy()
