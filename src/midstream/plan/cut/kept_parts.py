"""What an upper query takes from tables alone: parts that are the same at every read until a table changes.

    FROM partsupp, groups … WHERE partsupp.part IN (SELECT id FROM part WHERE name LIKE 'forest%') AND …
    FROM (SELECT … FROM partsupp WHERE part IN (SELECT id FROM part WHERE name LIKE 'forest%')) AS partsupp, groups …

The query stays what it was. Such a part has a name, by which a worker that has computed it may know it again. Groups
that a subquery looks up for rows of such a part need not be merged unless the part has their key:

    … WHERE avail > (SELECT sum(n) FROM state WHERE state.part = partsupp.part)
    … WHERE avail > (SELECT sum(n) FROM state WHERE state.part = partsupp.part AND state.part IN (SELECT part FROM …))
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from midstream.plan.cut.build import Node, both, derived, equated_columns, select, stored_column, text_of
from midstream.plan.cut.streams import Streams, is_grouping, items_of
from midstream.plan.functions import FUNCTIONS
from midstream.plan.moments import has_moment
from midstream.plan.nodes import column, conjuncts, is_query, quoted, table_alias
from midstream.plan.pruning import column_uses
from midstream.plan.typing.nodes import Call, type_of, typed
from midstream.types import BOOLEAN

_KEPT = "kept"


def mark_kept_parts(streams: Streams, tree: Node) -> None:
    """Puts tables together with the conditions on them alone, and marks what can be kept; inner queries first, since
    conditions are copied with the queries in them."""
    for query in reversed([found for found in tree.find_all(exp.Select) if streams.has_live(found)]):
        for item in _inner_items(query):
            if isinstance(item, exp.Table):
                _mark_table(streams, tree, query, item)
            elif isinstance(item, exp.Subquery) and is_query(item.this) and _is_fixed(streams, item.this, set()):
                item.meta[_KEPT] = True
        for item in [item for item in _inner_items(query) if item.meta.get(_KEPT)]:
            _narrow_lookups(query, item)


def kept_parts(tree: Node) -> tuple[Node, list[tuple[str, Node]]]:
    """The query over its kept parts, and these by name."""
    copy, parts = tree.copy(), dict[str, tuple[str, Node]]()
    for item in [found for found in copy.find_all(exp.Subquery) if found.meta.get(_KEPT)]:
        name, _ = parts.setdefault(text_of(item.this), (f"kept_{len(parts)}", item.this))
        item.replace(exp.Table(this=quoted(name), alias=table_alias(item.alias)))
    return copy, list(parts.values())


def _inner_items(query: exp.Select) -> Iterator[Node]:
    """Those whose rows are joined as they are: a condition on them may hold before."""
    joins = query.args.get("joins") or []
    if any((join.args.get("side") or "") not in ("", "LEFT") for join in joins):
        return
    optional = {id(join.this) for join in joins if join.args.get("side")}
    yield from (item for item in items_of(query) if id(item) not in optional and not item.args.get("joins"))


def _mark_table(streams: Streams, tree: Node, query: exp.Select, item: exp.Table) -> None:
    key, where = streams.key_of(item), query.args.get("where")
    if key is None or key.source != "table" or where is None:
        return
    conditions = conjuncts(where.this)
    own = [node for node in conditions if _is_fixed(streams, node, {item.alias})]
    rest = [node for node in conditions if not any(node is taken for taken in own)]
    types, used = key.columns(), column_uses(tree)[item.alias]
    names = [name for name in types if name in used] or [next(iter(types))]
    if not own or any("interval" in str(types[name]) for name in names):
        return
    outputs = [(name, stored_column(item.alias, name, types[name])) for name in names]
    part = derived(select(outputs, item.copy(), where=both(own)), item.alias)
    part.meta[_KEPT] = True
    item.replace(part)
    condition = both(rest)
    query.set("where", exp.Where(this=condition) if condition is not None else None)


def _narrow_lookups(query: exp.Select, part: Node) -> None:
    """Subqueries that look up groups by a column of a kept part read those groups only."""
    where = query.args.get("where")
    for inner in [found for found in where.find_all(exp.Select) if is_grouping(found)] if where else ():
        own = {item.alias for item in items_of(inner)}
        found = [_looked_up(node, own, part.alias) for node in conjuncts(_condition(inner))]
        for mine, theirs in [pair for pair in found if pair is not None]:
            rows = select([(theirs.name, typed(column(part.alias, theirs.name), type_of(theirs)))], part.copy())
            among = typed(exp.In(this=mine.copy(), query=exp.Subquery(this=rows)), BOOLEAN)
            inner.set("where", exp.Where(this=both([_condition(inner), among])))


def _condition(query: exp.Select) -> Node | None:
    return query.args["where"].this if query.args.get("where") else None


def _looked_up(node: Node, own: set[str], alias: str) -> tuple[exp.Column, exp.Column] | None:
    """The column of a query that has to be equal to one of a part outside."""
    for mine, theirs in equated_columns(node):
        if mine.table in own and theirs.table == alias:
            return mine, theirs
    return None


def _is_fixed(streams: Streams, node: Node, around: set[str]) -> bool:
    """Whether a part depends on tables alone, and of what stands around it on no more than is said."""
    inner = {alias.name for alias in node.find_all(exp.TableAlias)}
    tables = {column.table for column in node.find_all(exp.Column)}
    if streams.has_live(node) or has_moment(node) or not tables <= around | inner or (around and not tables & around):
        return False
    if _reads_a_cte_around(streams, node):
        return False
    return not any(FUNCTIONS[str(call.this)].volatile for call in node.find_all(Call) if str(call.this) in FUNCTIONS)


def _reads_a_cte_around(streams: Streams, node: Node) -> bool:
    """Whether a part has no meaning without a WITH query that stands around it, and may be of streams."""
    own = {cte.alias for cte in node.find_all(exp.CTE)}
    named = [table for table in node.find_all(exp.Table) if not isinstance(table.this, exp.Func)]
    return any(table.name not in own and streams.key_of(table) is None for table in named)
