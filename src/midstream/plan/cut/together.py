"""The results of many windows as one query: the window's number is one more key.

    SELECT a, sum(p) FROM state WHERE slot >= first AND slot < last GROUP BY a
    SELECT number, a, sum(p) FROM windows JOIN state ON state.slot = windows.slot GROUP BY number, start, end, a

It is for upper queries that are one grouping over one state. `windows` has a row for each basic window of each window.
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.context import Binding, ScanKey
from midstream.plan.cut.build import EQUAL, Node, both, call, output, plain_column, stored_column
from midstream.plan.moments import moment_of, moments_in
from midstream.plan.nodes import conjuncts, is_query
from midstream.plan.typing.nodes import Convert, type_of
from midstream.plan.windows import WINDOW_MOMENT
from midstream.relations.view import Derived
from midstream.types import BIGINT, Type

WINDOWS, NUMBER, WINDOW_SLOT, START, END = "windows", "number", "slot", "start", "end"


def all_windows_query(binding: Binding, upper: Node, slot: str | None, bound: Type) -> exp.Select | None:
    """The upper query for all windows at once, each with its number first; None: it has to run for each. `bound` is the
    type of window_start."""
    if not isinstance(upper, exp.Select) or slot is None or not _is_flat(binding, upper):
        return None
    query = upper.copy()
    state = query.args["from_"].this
    # Which basic windows are in scope is in `windows`.
    kept = [node for node in conjuncts(query.args["where"].this) if not _is_scope(node)]
    relation = Derived(WINDOWS, ((NUMBER, BIGINT), (WINDOW_SLOT, BIGINT), (START, bound), (END, bound)))
    item = binding.scan(ScanKey(relation, "static", None), WINDOWS)
    same = call(EQUAL, stored_column(state.alias, slot, BIGINT), plain_column(WINDOWS, WINDOW_SLOT, BIGINT))
    group = query.args.get("group")
    join = exp.Join(this=state, on=both([same, *kept]))
    if group is None:
        # A window without rows has a result all the same.
        join.set("side", "LEFT")
    query.set("from_", exp.From(this=item))
    query.set("joins", [join])
    query.set("where", None)
    keys = [plain_column(WINDOWS, name, kind) for name, kind in relation.columns if name != WINDOW_SLOT]
    query.set("group", exp.Group(expressions=[*keys, *(group.expressions if group is not None else [])]))
    _name_bounds(query, bound)
    query.set("expressions", [output(plain_column(WINDOWS, NUMBER, BIGINT), NUMBER), *query.expressions])
    return query


def _is_flat(binding: Binding, query: exp.Select) -> bool:
    if any(query.args.get(key) for key in ("joins", "distinct", "order", "limit", "offset", "with_")):
        return False
    source = query.args["from_"].this if query.args.get("from_") else None
    scans = {name: key for key, name in binding.scans.items()}
    if not isinstance(source, exp.Table) or (key := scans.get(source.name)) is None or key.source != "state":
        return False
    group = query.args.get("group")
    if group is not None and any(group.args.get(kind) for kind in ("grouping_sets", "rollup", "cube")):
        return False
    if query.args.get("where") is None or query.find(exp.Window, exp.GroupingSets, exp.Rollup, exp.Cube):
        return False
    nodes = [*query.expressions, *([query.args["having"]] if query.args.get("having") else [])]
    nodes += [node for node in conjuncts(query.args["where"].this) if not _is_scope(node)]
    if any(is_query(part) for node in nodes for part in node.walk()):
        return False
    moments = [literal for node in nodes for literal in moments_in(node)]
    return all(moment_of(literal) in _BOUNDS for literal in moments)


_BOUNDS = {f"{WINDOW_MOMENT}0 start": START, f"{WINDOW_MOMENT}0 end": END}
_SCOPE = {f"{WINDOW_MOMENT}0 first", f"{WINDOW_MOMENT}0 last"}


def _is_scope(condition: Node) -> bool:
    """Whether a condition says which basic windows make up the window."""
    return any(moment_of(literal) in _SCOPE for literal in moments_in(condition))


def _name_bounds(query: exp.Select, bound: Type) -> None:
    """window_start and window_end are columns now."""
    parts = [*query.expressions, *query.args["joins"], *([query.args["having"]] if query.args.get("having") else [])]
    for part in parts:
        for literal in list(moments_in(part)):
            top: Node = literal
            while isinstance(top.parent, exp.Cast | Convert) and type_of(top.parent) == bound:
                top = top.parent
            top.replace(plain_column(WINDOWS, _BOUNDS[moment_of(literal)], bound))
