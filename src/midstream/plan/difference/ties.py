"""Rows that are equal by ORDER BY come in the order of their ids in an answer whose changes are handed out.

SQL lets them come in any order. But the answer before a commit must be the one that there was after the last, or rows
would go that never came:

    row_number() OVER (PARTITION BY g ORDER BY day)   →   row_number() OVER (PARTITION BY g ORDER BY day, t._row_id)
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.context import Binding
from midstream.plan.cut import build
from midstream.plan.cut.build import own_nodes, plain_column
from midstream.plan.cut.streams import is_grouping, items_of
from midstream.plan.difference.images import table_of
from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import bare
from midstream.plan.typing.nodes import AggregateCall, typed
from midstream.relations.table import ROW_ID, ROW_ID_TYPE
from midstream.types import BOOLEAN

Node = exp.Expression
_BY_PLACE = frozenset(["row_number", "lag", "lead", "ntile"])
"""Functions that go by the place of a row, whatever the frame."""
_LISTS = frozenset(["array_agg", "string_agg", "first", "last"])
_BY_KEY = {"max_by": True, "min_by": False}
"""Aggregates that take the first row by a key; whether the largest comes first."""


def with_ties_broken(binding: Binding, tree: Node) -> Node:
    """A copy; queries over subqueries stay as they are, since those have no ids."""
    tree = tree.copy()
    for query in list(tree.find_all(exp.Select)):
        ids = _row_ids(binding, query)
        if ids:
            _break_ties(query, ids)
    return tree


def _row_ids(binding: Binding, query: exp.Select) -> list[Node]:
    tables = [item for item in items_of(query) if isinstance(item, exp.Table) and table_of(binding, item) is not None]
    return [plain_column(table.alias, ROW_ID, ROW_ID_TYPE) for table in tables]


def _break_ties(query: exp.Select, ids: list[Node]) -> None:
    for place in _places(query):
        if isinstance(place, AggregateCall) and _name_of(place) in _BY_KEY:
            _take_the_first(place)
        given = place.args["order"].expressions if place.args.get("order") else []
        last = [exp.Ordered(this=id.copy(), desc=False, nulls_first=False) for id in ids]
        place.set("order", exp.Order(expressions=[*given, *last]))


def _places(query: exp.Select) -> list[Node]:
    """Where the order of rows makes a difference."""
    own = [found for node in query.expressions for found in own_nodes(bare(node))]
    if is_grouping(query):
        return [node for node in own if isinstance(node, AggregateCall) and _is_list(node)]
    limited: list[Node] = [query] if query.args.get("limit") or query.args.get("offset") else []
    return [*limited, *(node for node in own if isinstance(node, exp.Window) and _goes_by_place(node))]


def _is_list(call: AggregateCall) -> bool:
    return (_name_of(call) in _LISTS or _name_of(call) in _BY_KEY) and not call.args.get("distinct")


def _take_the_first(call: AggregateCall) -> None:
    """max_by(x, y)   →   first(x ORDER BY y DESC) FILTER (WHERE y IS NOT NULL)"""
    descending = _BY_KEY[_name_of(call)]
    value, key = call.expressions
    there = typed(exp.Not(this=build.call("is null(any)", key.copy(), type_=BOOLEAN)), BOOLEAN)
    given = call.args.get("filter")
    call.set("this", "first(any)")
    call.set("expressions", [value])
    call.set("order", exp.Order(expressions=[exp.Ordered(this=key, desc=descending, nulls_first=False)]))
    call.set("filter", there if given is None else typed(exp.And(this=given, expression=there), BOOLEAN))


def _goes_by_place(window: exp.Window) -> bool:
    spec = window.args.get("spec")
    return _name_of(window.this) in _BY_PLACE or (spec is not None and spec.args["kind"] == "ROWS")


def _name_of(call: Node) -> str:
    function = FUNCTIONS.get(str(call.this)) if isinstance(call, AggregateCall) else None
    return function.name if function is not None else ""
