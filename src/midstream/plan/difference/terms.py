"""The change of a query as terms: SELECTs whose rows have a weight, and whose sum is the change.

Rules, the cheapest first; each has the form  dlt(Q) = sum of terms:

    filter, projection     dlt(SELECT e FROM T WHERE p)    =  SELECT e FROM dlt(T) WHERE p
    inner joins            dlt(A, B)                       =  dlt(A), pre(B)  +  pst(A), dlt(B)
    UNION ALL              the terms of both sides
    EXISTS, IN, LEFT JOIN  what the rows on the left give, after less before, where a key of the change meets them
    GROUP BY, DISTINCT     groups that a change touches, after less before
    OVER (PARTITION BY k)  partitions that a change touches, after less before
    anything else          all of it, after less before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from midstream.plan.context import COMMIT, WEIGHT
from midstream.plan.cut.build import aggregates_of, derived, number, own_nodes, plain_column, select, text_of
from midstream.plan.cut.streams import is_grouping, items_of
from midstream.plan.difference import algebraic, blocks
from midstream.plan.difference.dependents import conditions_that_watch
from midstream.plan.difference.images import Images
from midstream.plan.difference.keys import add_where, aliases_in, restrict
from midstream.plan.difference.moving import Moving
from midstream.plan.difference.running import Running
from midstream.plan.difference.steps import NotSeparable, Step, Unit, Units
from midstream.plan.difference.ties import with_ties_broken
from midstream.plan.nodes import bare, child, is_query, named, quoted
from midstream.plan.typing.nodes import type_of, typed
from midstream.types import Type

Node = exp.Expression


@dataclass
class Terms:
    """Makes terms, and notes what it did for EXPLAIN."""

    images: Images
    uses_units: Units = "none"
    by_commit: bool = False
    """Whether each row says which commit it is a change of: only rows that came and went tell that."""
    has_backing: bool = False
    """Whether what can be kept of the query's groups or frames is kept, and can be read."""
    steps: list[Step] = field(default_factory=list)
    shared: list[exp.CTE] = field(default_factory=list)
    """What several terms read, computed once: WITH queries of the whole."""
    units: list[Unit] = field(default_factory=list)
    """What must hold where rows are joined with what came alone."""

    def note(self, step: Step) -> None:
        if self.by_commit and step.kind in ("keyed", "recompute"):
            raise NotSeparable
        if step not in self.steps:
            self.steps.append(step)

    def share(self, name: str, query: Node) -> Callable[[], exp.Select]:
        """Has a query computed once; what it returns makes queries that read it."""
        alias = self.images.binding.fresh_alias(name)
        columns = [(node.alias_or_name, type_of(node)) for node in first_select(query).expressions]
        self.shared.append(exp.CTE(this=query, alias=exp.TableAlias(this=quoted(alias))))

        def read() -> exp.Select:
            source = self.images.binding.fresh_alias(name)
            item = exp.Table(this=quoted(alias), alias=exp.TableAlias(this=quoted(source)))
            return select([(column, plain_column(source, column, kind)) for column, kind in columns], item)

        return read

    def with_shared(self, query: exp.Select) -> exp.Select:
        """A query that reads what is shared."""
        if self.shared:
            query.set("with_", exp.With(expressions=self.shared))
        return query

    def named(self, query: Node) -> str:
        """The tables that a query reads, for EXPLAIN."""
        tables = [self.images.table_of(table) for table in query.find_all(exp.Table)]
        return ", ".join(dict.fromkeys(table.name for table in tables if table is not None))

    # --- by shape --------------------------------------------------------------------------------

    def of_query(self, query: Node) -> list[exp.Select]:
        """Terms with the query's columns and a weight; none: it did not change.

        The terms account for every place where the query reads a table that changed. Where a rule left one out, its
        change would be lost without a trace; so then all is computed before and after."""
        query = unwrapped(query)
        own = query.copy()
        if not own.args.get("limit") and not own.args.get("offset"):
            own.set("order", None)
        places = self.images.places_in(own)
        if not places:
            return []
        earlier, steps, shared, units = set(self.images.watched), [*self.steps], [*self.shared], [*self.units]
        self.images.watched.clear()
        found = self._by_shape(own)
        if not places <= self.images.watched:
            self.steps, self.shared, self.units = steps, shared, units
            found = self.recomputed(query, "no rule accounts for all that it reads")
        self.images.watched.update(earlier)
        return found

    def _by_shape(self, query: Node) -> list[exp.Select]:
        if query.args.get("limit") or query.args.get("offset"):
            return self.recomputed(query, "LIMIT takes some of all rows")
        if isinstance(query, exp.SetOperation):
            return self._of_set_operation(query)
        if not isinstance(query, exp.Select):
            return self.recomputed(query, "VALUES of a table that changed")
        if is_grouping(query):
            return self._of_grouping(query)
        if windows_of(query):
            return self._of_windows(query)
        return blocks.terms_of(self, query)

    def recomputed(self, query: Node, reason: str) -> list[exp.Select]:
        """All of it, after less before: what always holds."""
        self.images.watch(query)
        self.note(Step("recompute", self.named(query), reason))
        return self.after_less_before(query, query)

    def after_less_before(self, after: Node, before: Node) -> list[exp.Select]:
        new, old = (self.images.fresh(with_ties_broken(self.images.binding, query)) for query in (after, before))
        self.images.put_before(old)
        return [self._weighted(new, 1), self._weighted(old, -1)]

    def _weighted(self, query: Node, weight: int) -> exp.Select:
        alias = self.images.binding.fresh_alias("q")
        outputs: list[tuple[str, Node]] = [(name, plain_column(alias, name, kind)) for name, kind in outputs_of(query)]
        return select([*outputs, (WEIGHT, number(weight))], derived(query, alias))

    # --- set operations --------------------------------------------------------------------------

    def _of_set_operation(self, query: exp.SetOperation) -> list[exp.Select]:
        names = [name for name, _ in outputs_of(query)]
        if isinstance(query, exp.Union) and not query.args.get("distinct", True):
            terms = [term for side in (query.this, query.expression) for term in self.of_query(side)]
            return [_renamed(term, names) for term in terms]
        word = query.key.upper()
        keys = self.keys_touched([query.this, query.expression])
        if keys is None:
            return []
        self.note(Step("keyed", self.named(query), f"{word}: rows that a change touches, after less before"))
        both_sides = query.copy()
        for side in ("this", "expression"):
            both_sides.set(side, self._rows_among(child_of(both_sides, side), keys))
        return self.after_less_before(both_sides, both_sides)

    def _rows_among(self, query: Node, keys: exp.Select) -> Node:
        """The rows of a query that are among the keys."""
        alias = self.images.binding.fresh_alias("q")
        columns = [(name, plain_column(alias, name, kind)) for name, kind in outputs_of(query)]
        rows = select(columns, derived(unwrapped(query).copy(), alias))
        self.restrict(rows, keys, [node for _, node in columns], nulls=True)
        return exp.Subquery(this=rows)

    # --- groups ----------------------------------------------------------------------------------

    def _of_grouping(self, query: exp.Select) -> list[exp.Select]:
        if query.args.get("distinct"):
            return self._of_distinct(query)
        above = [*query.expressions, *([query.args["having"]] if query.args.get("having") else [])]
        if any(self.images.reads_change(found) for node in above for found in _queries_in(node)):
            return self.recomputed(query, "a query above the grouping changed")
        if any(windows_of(query)):
            return self.recomputed(query, "a window function over groups")
        elements = group_elements(query)
        if elements is None:
            return self.recomputed(query, "GROUPING SETS, ROLLUP and CUBE have no rule")
        found = algebraic.terms_of(self, query, elements)
        if found is not None:
            return found
        if not elements:
            changed = blocks_rows(query, [number(1)])
            if not self.of_query(changed):
                return []
            return self.recomputed(query, "an aggregate without GROUP BY is one group of all rows")
        keys = self.keys_touched([blocks_rows(query, elements)])
        if keys is None:
            return []
        self.note(Step("keyed", self.named(query), "GROUP BY: groups that a change touches, after less before"))
        self.restrict(query, keys, elements, nulls=True)
        return self.after_less_before(query, query)

    def _of_distinct(self, query: exp.Select) -> list[exp.Select]:
        inner = query.copy()
        inner.set("distinct", None)
        keys = self.keys_touched([inner])
        if keys is None:
            return []
        self.note(Step("keyed", self.named(query), "DISTINCT: rows that a change touches, after less before"))
        rows = self._rows_among(inner, keys).this
        rows.set("distinct", exp.Distinct())
        return self.after_less_before(rows, rows)

    def _of_windows(self, query: exp.Select) -> list[exp.Select]:
        if self.is_backed(query):
            kept = Moving.of(self, query) or Running.of(self, query)
            if kept is not None:
                return kept.terms()
        shared = _shared_partition(windows_of(query))
        if not shared:
            return self.recomputed(query, "a window function without PARTITION BY sees all rows")
        rows = blocks_rows(query, shared)
        watched = conditions_that_watch(self.images, query.expressions, aliases_in(rows))
        if watched is None:
            return self.recomputed(query, "a query beside a window function changed")
        add_where(rows, watched)
        keys = self.keys_touched([rows])
        if keys is None:
            return []
        self.note(Step("keyed", self.named(query), "OVER: partitions that a change touches, after less before"))
        self.restrict(query, keys, shared, nulls=True)
        return self.after_less_before(query, query)

    def is_backed(self, query: exp.Select) -> bool:
        """Whether what was before is kept of this part of the query."""
        return self.has_backing and bool(query.meta.get(BACKED))

    # --- keys ------------------------------------------------------------------------------------

    def keys_touched(self, queries: Sequence[Node]) -> exp.Select | None:
        """The rows of queries that came or went, each once, as k0, k1, …; None: there are none."""
        terms = [term for query in queries for term in self.of_query(query)]
        if not terms:
            return None
        kinds = [kind for _, kind in outputs_of(queries[0])]
        names = [f"k{place}" for place in range(len(kinds))]
        alias = self.images.binding.fresh_alias("k")
        union = united([_renamed(term, names) for term in terms])
        keys = select(
            [(name, plain_column(alias, name, kind)) for name, kind in zip(names, kinds, strict=True)],
            derived(union, alias),
        )
        keys.set("distinct", exp.Distinct())
        self.images.settle(keys)
        return keys

    def restrict(self, query: exp.Select, keys: exp.Select, outside: Sequence[Node], *, nulls: bool) -> None:
        fresh = self.images.fresh(keys)
        assert isinstance(fresh, exp.Select)
        restrict(query, fresh, self.images.binding.fresh_alias("k"), outside, nulls=nulls)


BACKED = "backed"
"""Marks the part of a query of which something may be kept."""


def backed_part(tree: Node) -> exp.Select | None:
    """The grouping, or the window functions, that a query is but for filters and expressions above."""
    query = unwrapped(tree)
    while isinstance(query, exp.Select) and not query.args.get("limit") and not query.args.get("offset"):
        if is_grouping(query) or windows_of(query):
            return query
        items = items_of(query)
        if len(items) != 1 or not isinstance(items[0], exp.Subquery):
            return None
        query = unwrapped(child(items[0]))
    return None


# --- pieces of trees ----------------------------------------------------------------------------------


def unwrapped(query: Node) -> Node:
    while isinstance(query, exp.Subquery) and not query.args.get("alias"):
        query = child(query)
    return query


def child_of(node: Node, key: str) -> Node:
    found = node.args[key]
    assert isinstance(found, Node)
    return found


def first_select(query: Node) -> exp.Select:
    while not isinstance(query, exp.Select):
        query = child(query)
    return query


def outputs_of(query: Node) -> list[tuple[str, Type]]:
    first = first_select(query)
    hidden = (WEIGHT, COMMIT)
    return [(node.alias_or_name, type_of(node)) for node in first.expressions if node.alias_or_name not in hidden]


def united(terms: Sequence[Node]) -> Node:
    union = terms[0]
    for term in terms[1:]:
        union = exp.Union(this=union, expression=term, distinct=False)
    return union


def group_elements(query: exp.Select) -> list[Node] | None:
    """What a query groups by, all of it one key; None: there are several sets of keys."""
    group = query.args.get("group")
    elements = list(group.expressions) if group is not None else []
    several = (exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple)
    return None if any(isinstance(node, several) for node in elements) else elements


def blocks_rows(query: exp.Select, values: Sequence[Node]) -> exp.Select:
    """Values of each row of a query below its grouping."""
    rows = exp.Select(
        expressions=[typed(named(node.copy(), f"k{place}"), type_of(node)) for place, node in enumerate(values)],
        joins=[join.copy() for join in query.args.get("joins") or []],
    )
    for key in ("from_", "where"):
        if query.args.get(key):
            rows.set(key, query.args[key].copy())
    return rows


def windows_of(query: exp.Select) -> list[exp.Window]:
    return [found for node in query.expressions for found in own_nodes(bare(node)) if isinstance(found, exp.Window)]


def _shared_partition(windows: Sequence[exp.Window]) -> list[Node]:
    first = list(windows[0].args.get("partition_by") or [])
    others = [{text_of(node) for node in window.args.get("partition_by") or []} for window in windows[1:]]
    return [node for node in first if all(text_of(node) in texts for texts in others) and not aggregates_of(node)]


def _queries_in(node: Node) -> list[Node]:
    return [found for found in node.walk(prune=is_query) if is_query(found) and isinstance(found, Node)]


def _renamed(term: exp.Select, names: Sequence[str]) -> exp.Select:
    outputs, marks = term.expressions[: len(names)], term.expressions[len(names) :]
    kept = [typed(named(bare(node), name), type_of(node)) for node, name in zip(outputs, names, strict=True)]
    term.set("expressions", [*kept, *marks])
    return term
