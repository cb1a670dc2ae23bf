"""The change of a query, computed from the changes of its tables, is the query after less the query before."""

from __future__ import annotations

from random import Random

import pytest
from choices import Choices
from random_changes import SHAPES as RANDOM_SHAPES
from random_changes import DeltaQueryMaker
from random_transactions import ChangingTable, Field
from tests.laws.difference_world import CONTEXT, SHAPES, TABLES, Image, Judge, Schema, Shop, changed_between

from midstream.plan.difference import KEPT, NEWER, Changed, Difference, bind_backing, bind_difference
from midstream.sql import parse_query

KINDS = ("i", "d", "iud", "iu", "ii")
DENSE = (
    ChangingTable("orders", (Field("oid", "bigint", False), Field("uid", "bigint"), Field("x", "int")), ("oid",)),
    ChangingTable("lines", (Field("oid", "bigint"), Field("item", "int"), Field("price", "int"))),
    ChangingTable("other", (Field("a", "int"), Field("b", "int"), Field("c", "text"))),
)
"""Tables of the shop whose numbers often meet, for random queries."""
WITH_SUBQUERIES = ("nested_subquery", "outer_join_on_subquery", "having_subquery", "windowed_subquery")


def commits(seed: int, count: int) -> list[Image]:
    """A shop with some rows, and what it is after each commit."""
    random = Random(seed)
    shop = Shop(random)
    for _ in range(8):
        shop.commit("iiiu")
    images = [shop.image()]
    for _ in range(count):
        shop.commit(random.choice(KINDS))
        images.append(shop.image())
    return images


def check_change(query: str, before: Image, after: Image, seed: object) -> None:
    judge = Judge()
    want = judge.true_change(query, before, after)
    for how in ({}, {"same_constraints": False}, {"uses_units": "both"}, {"in_full": True}):
        found = judge.change(query, [before, after], **how)
        assert found is not None
        rows, plan = found
        got = {row[:-1]: row[-1] for row in rows}
        assert got == want, f"{query}\nseed {seed}, {how}, {changed_between(before, after)}\n{plan.steps}"


@pytest.mark.parametrize("query", SHAPES)
def test_a_change_is_the_answer_after_less_the_answer_before(query: str) -> None:
    images = commits(7, 2)
    for before, after in zip(images, images[1:], strict=False):
        check_change(query, before, after, 7)


@pytest.mark.parametrize("query", SHAPES)
def test_commits_that_can_be_told_apart_are_each_computed_right(query: str) -> None:
    for seed in (1,):
        images = commits(seed, 3)
        found = Judge().change(query, images, by_commit=True)
        if found is None:
            continue
        rows, _ = found
        for number, (before, after) in enumerate(zip(images, images[1:], strict=False), 1):
            got = {row[:-2]: row[-1] for row in rows if row[-2] == number}
            assert got == Judge().true_change(query, before, after), f"{query}\nseed {seed}, commit {number}"


def test_changes_by_what_is_kept_are_the_same() -> None:
    """Some of them; the others are in the long tests."""
    for query in [query for query in SHAPES if is_kept(query)][::3]:
        assert check_kept(query, 9, 5), f"it was never enough: {query}"


def is_kept(query: str) -> bool:
    return bind_backing(parse_query(query), Schema(), CONTEXT, {}, same_constraints=True) is not None


def check_kept(query: str, seed: int, count: int) -> int:
    """Goes on from commit to commit with what is kept, in any number of parts; how often it was enough."""
    random, images, parts, enough = Random(seed), commits(seed, count), None, 0
    for number, (before, after) in enumerate(zip(images, images[1:], strict=False)):
        judge, kinds = Judge(), changed_between(before, after)
        plan = bind_backing(parse_query(query), Schema(), CONTEXT, kinds, same_constraints=True)
        if plan is None:
            parts = None
            continue
        if parts is None:
            parts = [judge.kept(plan.whole, [after], {})]
            continue
        for by_commit in (False, True):
            kept = {KEPT: [row for part in parts for row in part]}
            found = judge.change(query, [before, after], kept, has_backing=True, by_commit=by_commit)
            if found is None:
                continue
            enough += not any(step.kind == "recompute" for step in found[1].steps)
            got = {row[: -2 if by_commit else -1]: row[-1] for row in found[0]}
            assert got == judge.true_change(query, before, after), f"{query}\nseed {seed}, {number}\n{found[1].steps}"
        if plan.fold is not None:
            stay = random.randint(0, len(parts)) if plan.what != "rows" else 0
            newer = [row for part in parts[stay:] for row in part]
            parts = [*parts[:stay], judge.kept(plan.fold, [before, after], {NEWER: newer})]
    return enough


def test_of_which_queries_something_is_kept() -> None:
    kept = {query for query in SHAPES if is_kept(query)}
    assert "SELECT count(*) FROM lines" in kept
    assert "SELECT loc, at, lag(temp) OVER (PARTITION BY loc ORDER BY at) FROM ticks" in kept
    assert sum("GROUP BY" in query for query in kept) >= 8 and sum("OVER" in query for query in kept) >= 4
    assert not any("DISTINCT" in query or "LIMIT" in query for query in kept)
    assert not any("min(" in query and "OVER" not in query for query in kept)


def test_commits_that_only_insert_are_told_apart_in_a_join_by_foreign_keys() -> None:
    shop = Shop(Random(3))
    images = [shop.image()]
    for _ in range(4):
        shop.commit("i")
        images.append(shop.image())
    query = "SELECT l.item, o.oid, u.name FROM lines l, orders o, users u WHERE l.oid = o.oid AND u.id = o.uid"
    found = Judge().change(query, images, by_commit=True)
    assert found is not None
    steps = found[1].steps
    assert [step.kind for step in steps].count("empty") == 2
    assert any('foreign key "lines_oid_fkey"' in step.reason for step in steps)


@pytest.mark.parametrize(
    ("kinds", "empty"),
    [({"users": "i", "orders": "i", "lines": "i"}, 2), ({"users": "d", "orders": "d", "lines": "d"}, 2)],
)
def test_foreign_keys_leave_one_term_of_a_chain(kinds: dict[str, str], empty: int) -> None:
    """Q16 and Q23 of the paper: rows that came to a parent, or went from it, need no term of their own."""
    shop = Shop(Random(5))
    for _ in range(30):
        shop.commit("i")
    before = shop.image()
    for _ in range(30):
        shop.commit(next(iter(kinds.values())))
    after = shop.image()
    changed = changed_between(before, after)
    if not {1, 2, 3} <= set(changed):
        pytest.fail("the commits should have changed all three tables")
    query = "SELECT l.item, o.oid, u.name FROM lines l, orders o, users u WHERE l.oid = o.oid AND u.id = o.uid"
    found = Judge().change(query, [before, after])
    assert found is not None
    assert [step.kind for step in found[1].steps].count("empty") == empty
    check_change(query, before, after, 5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_changes_of_every_shape_in_many_shops(seed: int) -> None:
    images = commits(seed, 6)
    for query in SHAPES:
        if is_kept(query):
            check_kept(query, seed, 6)
        for before, after in zip(images, images[1:], strict=False):
            check_change(query, before, after, seed)


@pytest.mark.parametrize("shape", WITH_SUBQUERIES)
def test_changes_of_random_queries_with_subqueries_are_right(shape: str) -> None:
    for seed in range(20):
        check_random(shape, seed)


@pytest.mark.long
@pytest.mark.parametrize("shape", WITH_SUBQUERIES)
def test_changes_of_many_random_queries_with_subqueries_are_right(shape: str) -> None:
    for seed in range(1000, 1400):
        check_random(shape, seed)


@pytest.mark.long
@pytest.mark.parametrize("shape", RANDOM_SHAPES)
def test_changes_of_random_queries_of_every_shape_are_right(shape: str) -> None:
    for seed in range(5000, 5040):
        check_random(shape, seed)


def check_random(shape: str, seed: int) -> None:
    """A commit to each table alone, and one to all of them."""
    query = DeltaQueryMaker(Choices(seed), DENSE).query(shape).plain
    random, names = Random(seed), [table.name for table in DENSE]
    shop, judge = Shop(random), Judge()
    for _ in range(12):
        shop.commit("iiiu", names)
    read = [[name] for name in names if name in query]
    for changed in [*read, names]:
        before = shop.image()
        shop.commit(random.choice(["i", "d", "iud"]), changed)
        after = shop.image()
        found = judge.change(query, [before, after])
        assert found is not None
        rows, plan = found
        got = {row[:-1]: row[-1] for row in rows}
        want = judge.true_change(query, before, after)
        assert got == want, f"{query}\nseed {seed}, {changed_between(before, after)}\n{plan.steps}"


@pytest.mark.parametrize(
    ("rule", "query"),
    [
        ("blocks.dependents_of", "SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.oid = o.oid)"),
        (
            "terms.conditions_that_watch",
            "SELECT (SELECT count(*) FROM lines), count(*) OVER (PARTITION BY x) FROM orders",
        ),
    ],
)
def test_what_a_rule_forgets_is_compared_and_not_lost(rule: str, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that leaves a table out is a fault of ours; it must not cost a change."""
    monkeypatch.setattr(f"midstream.plan.difference.{rule}", lambda *_: [])
    before: Image = {name: {} for name in TABLES} | {"orders": {1: (7, None, 0)}}
    after = before | {"lines": {2: (7, 1, 1)}}
    judge = Judge()
    found = judge.change(query, [before, after])
    assert found is not None
    rows, plan = found
    assert {row[:-1]: row[-1] for row in rows} == judge.true_change(query, before, after) != {}
    assert [(step.kind, step.reason) for step in plan.steps] == [
        ("recompute", "no rule accounts for all that it reads")
    ]


def test_rows_that_came_with_the_rows_they_refer_to_meet_these_alone() -> None:
    """Q17 of the paper: the parent's table is not read at all."""
    before: Image = {"users": {1: (1, "a", 10), 2: (2, "b", 20)}, "orders": {3: (7, 1, 0)}, "lines": {}, "other": {}}
    after: Image = {name: dict(rows) for name, rows in before.items()}
    after["orders"] |= {4: (8, 1, 0), 5: (9, 2, 0)}
    after["lines"] |= {6: (8, 1, 1), 7: (8, 2, 2), 8: (9, 3, 3), 9: (None, 4, 4)}
    query = "SELECT l.item, o.oid, u.name FROM lines l, orders o, users u WHERE l.oid = o.oid AND u.id = o.uid"
    judge = Judge()
    found = judge.change(query, [before, after], uses_units="near")
    assert found is not None
    rows, plan = found
    assert {row[:-1]: row[-1] for row in rows} == judge.true_change(query, before, after)
    assert [(unit.child.name, unit.parent.name) for unit in plan.units] == [("lines", "orders")]
    assert scans(plan) == {("delta", "lines"), ("delta", "orders"), ("table", "users")}


CHAIN = "SELECT l.item, o.oid, u.name FROM lines l, orders o, users u WHERE l.oid = o.oid AND u.id = o.uid"


def test_rows_that_went_with_the_rows_they_referred_to_meet_these_alone() -> None:
    """Q24 of the paper: orders go with their lines, and the table of orders is not read at all."""
    after: Image = {
        "users": {1: (1, "a", 10), 2: (2, "b", 20)},
        "orders": {3: (7, 1, 0)},
        "lines": {10: (7, 5, 5)},
        "other": {},
    }
    before: Image = {name: dict(rows) for name, rows in after.items()}
    before["orders"] |= {4: (8, 1, 0), 5: (9, 2, 0)}
    before["lines"] |= {6: (8, 1, 1), 7: (8, 2, 2), 8: (9, 3, 3), 9: (None, 4, 4)}
    judge = Judge()
    found = judge.change(CHAIN, [before, after], uses_units="near")
    assert found is not None
    rows, plan = found
    assert {row[:-1]: row[-1] for row in rows} == judge.true_change(CHAIN, before, after)
    assert [(unit.child.name, unit.parent.name, unit.went) for unit in plan.units] == [("lines", "orders", True)]
    assert scans(plan) == {("delta", "lines"), ("delta", "orders"), ("table", "users")}


def test_lines_that_went_from_orders_that_stay_meet_these_as_they_are_now() -> None:
    """Q24 with both branches: nothing is needed as it was but what lies beyond the unit."""
    shop = Shop(Random(11))
    for _ in range(40):
        shop.commit("i")
    before = shop.image()
    for _ in range(40):
        shop.commit("d")
    after = shop.image()
    changed = changed_between(before, after)
    assert [changed[id].kind for id in (1, 2, 3)] == ["delete"] * 3
    judge = Judge()
    found = judge.change(CHAIN, [before, after], uses_units="both")
    assert found is not None
    rows, plan = found
    assert {row[:-1]: row[-1] for row in rows} == judge.true_change(CHAIN, before, after) != {}
    assert scans(plan) == {("delta", "lines"), ("delta", "orders"), ("table", "orders"), ("before", "users")}


def scans(plan: Difference) -> set[tuple[str, str]]:
    assert plan.query is not None
    return {(scan.source, getattr(scan.relation, "name", "")) for scan in plan.query.scans}


@pytest.mark.parametrize("large", ["lines", "other"])
def test_what_is_needed_as_it_was_is_the_smaller_table(large: str) -> None:
    rows = {"lines": 10, "other": 10} | {large: 1000}
    [small] = {"lines", "other"} - {large}
    changed = {TABLES[name].id: Changed("mixed", count) for name, count in rows.items()}
    query = parse_query("SELECT l.item, t.b FROM lines l, other t WHERE l.item = t.a")
    plan = bind_difference(query, Schema(), CONTEXT, changed)
    assert plan is not None
    assert [step.text for step in plan.steps] == [f"dlt({large}) >< pre({small})", f"pst({large}) >< dlt({small})"]
