"""Where the streams of a view's query are, and whether each is grouped before anything would have to keep its rows.

A query is *raw* if its rows are rows of a stream, *grouped* if what it has of streams is grouped, else *static*. The
rules are those of Winter et al., Meet Me Halfway, section 3.2; each refusal names the rule and the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import cast

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan.context import Binding, ScanKey
from midstream.plan.cut.build import aggregates_of, derived, own_nodes
from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import bare, child, is_query, place_of, quoted, replace_item
from midstream.plan.typing.nodes import AggregateCall, Call, type_of, typed
from midstream.plan.typing.queries import output_types
from midstream.relations.stream import Stream

Node = exp.Expression


class Status(Enum):
    STATIC = "static"
    GROUPED = "grouped"
    RAW = "raw"


class Streams:
    """Tells the status of any query of one bound tree."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self.notices: list[str] = []
        """What was left out, for whoever makes the view."""

    @property
    def scans(self) -> Mapping[str, ScanKey]:
        return {name: key for key, name in self._binding.scans.items()}

    def key_of(self, table: exp.Table) -> ScanKey | None:
        return self.scans.get(table.name)

    def is_stream(self, table: exp.Table) -> bool:
        key = self.key_of(table)
        return key is not None and key.source == "stream"

    def is_windowed(self, table: exp.Table) -> bool:
        key = self.key_of(table)
        return key is not None and key.slots is not None

    def raw_tables(self, tree: Node) -> Iterator[exp.Table]:
        return (table for table in tree.find_all(exp.Table) if self.is_stream(table))

    def has_live(self, tree: Node) -> bool:
        """Whether a tree reads something that changes with streams."""
        return any(
            (key := self.key_of(table)) is not None and key.source in ("stream", "view", "state")
            for table in tree.find_all(exp.Table)
        )

    # --- statuses --------------------------------------------------------------------------------

    def of_query(self, query: Node) -> Status:
        match query:
            case exp.Select():
                return self._of_select(query)
            case exp.SetOperation():
                sides = {self.of_query(query.this), self.of_query(query.expression)}
                return Status.RAW if Status.RAW in sides else self._calm(query)
            case exp.Subquery() | exp.Paren():
                return self.of_query(child(query))
            case _:
                return self._calm(query)

    def of_item(self, item: Node) -> Status:
        """The status of an item of FROM, with the joins inside its parentheses."""
        inner = [join.this for join in item.args.get("joins") or []]
        statuses = {self._of_bare_item(item), *(self.of_item(other) for other in inner)}
        return next(status for status in (Status.RAW, Status.GROUPED, Status.STATIC) if status in statuses)

    def _of_bare_item(self, item: Node) -> Status:
        match item:
            case exp.Table() if self.is_stream(item):
                return Status.RAW
            case exp.Paren():
                return self.of_item(child(item))
            case exp.Subquery() if is_query(item.this):
                return self.of_query(item.this)
            case exp.Subquery():
                return self.of_item(item.this)
            case exp.Lateral() if isinstance(item.this, exp.Subquery):
                return self.of_query(item.this.this)
            case _:
                return self._calm(item)

    def _of_select(self, select: exp.Select) -> Status:
        if any(self.of_item(item) == Status.RAW for item in items_of(select)):
            return Status.GROUPED if is_grouping(select) else Status.RAW
        return self._calm(select)

    def _calm(self, node: Node) -> Status:
        return Status.GROUPED if self.has_live(node) else Status.STATIC

    def reads_raw(self, select: exp.Select) -> bool:
        return any(self.of_item(item) == Status.RAW for item in items_of(select))

    def name(self, tree: Node) -> tuple[str, exp.Table | None]:
        """The first stream of a tree, for a message."""
        table = next(self.raw_tables(tree), None)
        key = self.key_of(table) if table is not None else None
        return (key.relation.name if key is not None else ""), table


def items_of(select: exp.Select) -> list[Node]:
    from_ = select.args.get("from_")
    first = [from_.this] if from_ is not None else []
    return [*first, *(join.this for join in select.args.get("joins") or [])]


def is_grouping(select: exp.Select) -> bool:
    if select.args.get("group") or select.args.get("having") or select.args.get("distinct"):
        return True
    return any(aggregates_of(bare(output)) for output in select.expressions)


def refuse(rule: str, node: Node | None, *, detail: str | None = None, hint: str | None = None) -> Unsupported:
    return Unsupported(rule, detail=detail, hint=hint, position=place_of(node) if node is not None else None)


# --- what is done to the tree before it is cut -------------------------------------------------------


def prepare(binding: Binding, tree: Node, settle: Callable[[Streams], None] = lambda streams: None) -> Node:
    """The same query with every stream grouped by itself where its query is: raw WITH queries are written out where
    they are used, a raw side of UNION, EXISTS or IN is made DISTINCT. `settle` has its turn before these."""
    streams = Streams(binding)
    _write_out_ctes(binding, streams, tree)
    settle(streams)
    for operation in list(tree.find_all(exp.SetOperation)):
        _group_sides(binding, streams, operation)
    for node in list(tree.find_all(exp.Exists, exp.In)):
        _group_tested(streams, cast(Node, node))
    _refuse_raw_values(streams, tree)
    if streams.of_query(tree) == Status.RAW:
        raise ungrouped(streams, tree)
    return tree


def ungrouped(streams: Streams, tree: Node) -> Unsupported:
    name, table = streams.name(tree)
    key = streams.key_of(table) if table is not None else None
    if key is not None and isinstance(key.relation, Stream) and key.relation.is_basket:
        return refuse(
            f'the results of view "{name}" are not grouped in the view',
            table,
            detail="To another view they are a stream, and ungrouped, every row would have to be kept.",
            hint=f"Group them, put a window on them ({name} [WINDOW 10 ROWS]), or read those that are kept: "
            f"FROM {name} ALL WINDOWS.",
        )
    return refuse(
        f'stream "{name}" is not grouped in the view',
        table,
        detail="A continuous view keeps what a stream is grouped into; ungrouped, every row would have to be kept.",
        hint="Group it: GROUP BY, an aggregate, or SELECT DISTINCT. To keep its rows, create the stream "
        "WITH (retain = '7 days').",
    )


def _write_out_ctes(binding: Binding, streams: Streams, tree: Node) -> None:
    for with_ in list(tree.find_all(exp.With)):
        kept = []
        for cte in with_.expressions:
            name = cte.args["alias"].name
            if streams.of_query(cte.this) != Status.RAW:
                kept.append(cte)
                continue
            for use in [table for table in tree.find_all(exp.Table) if table.name == name]:
                replace_item(use, derived(with_fresh_aliases(binding, cte.this), use.alias))
        if kept:
            with_.set("expressions", kept)
        elif with_.parent is not None:
            with_.parent.set("with_", None)


def with_fresh_aliases(binding: Binding, tree: Node) -> Node:
    """A copy whose sources have names of their own."""
    copy = tree.copy()
    renamed = {
        alias.name: binding.fresh_alias(alias.name)
        for alias in copy.find_all(exp.TableAlias)
        if not isinstance(alias.parent, exp.CTE)
    }
    rename_aliases(copy, renamed)
    return copy


def rename_aliases(tree: Node, renamed: Mapping[str, str]) -> None:
    for alias in tree.find_all(exp.TableAlias):
        if alias.name in renamed and not isinstance(alias.parent, exp.CTE):
            alias.set("this", quoted(renamed[alias.name]))
    for column in tree.find_all(exp.Column):
        if column.table in renamed:
            column.set("table", quoted(renamed[column.table]))


def _group_sides(binding: Binding, streams: Streams, operation: exp.SetOperation) -> None:
    if streams.of_query(operation) != Status.RAW:
        return
    word = operation.key.upper()
    if not operation.args.get("distinct", True):
        if isinstance(operation, exp.Union):
            return
        name, table = streams.name(operation)
        raise refuse(
            f'stream "{name}" is not grouped before {word} ALL',
            table,
            detail=f"{word} ALL compares how often rows come, and would have to keep them all.",
            hint=f"{word} without ALL groups each side by itself.",
        )
    for key in ("this", "expression"):
        side = operation.args[key]
        if streams.of_query(side) == Status.RAW:
            operation.set(key, _distinct_rows(binding, side))


def _distinct_rows(binding: Binding, query: Node) -> exp.Select:
    """SELECT DISTINCT of all columns of a query."""
    while isinstance(query, exp.Subquery) and not query.args.get("alias"):
        query = child(query)
    if isinstance(query, exp.Select) and not query.args.get("order") and not query.args.get("limit"):
        query.set("distinct", exp.Distinct())
        return query
    alias = binding.fresh_alias("q")
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    names = [node.alias_or_name for node in first.expressions]
    columns = [
        typed(exp.Column(this=quoted(name), table=quoted(alias)), type_)
        for name, type_ in zip(names, output_types(query), strict=True)
    ]
    outputs = [
        typed(exp.Alias(this=column, alias=quoted(name)), type_of(column))
        for column, name in zip(columns, names, strict=True)
    ]
    select = exp.Select(expressions=outputs, distinct=exp.Distinct())
    select.set("from_", exp.From(this=derived(query, alias)))
    return select


def _group_tested(streams: Streams, node: Node) -> None:
    """EXISTS and IN ask only whether a row is there: its keys are enough."""
    query = node.args.get("query") if isinstance(node, exp.In) else node.this
    if isinstance(query, Node):
        _group_asked(streams, query, is_exists=isinstance(node, exp.Exists))


def _group_asked(streams: Streams, query: Node, *, is_exists: bool) -> None:
    """Each side of UNION ALL by itself. LIMIT says nothing about whether there is a row, but about which ones."""
    if streams.of_query(query) != Status.RAW:
        return
    if is_exists and _takes_some(query):
        query.set("limit", None)
    if query.args.get("limit") or query.args.get("offset"):
        return
    match query:
        case exp.Subquery():
            _group_asked(streams, child(query), is_exists=is_exists)
        case exp.Union():
            query.set("order", None)
            for side in (query.this, query.expression):
                _group_asked(streams, side, is_exists=is_exists)
        case exp.Select():
            query.set("distinct", exp.Distinct())
            query.set("order", None)
            mark_tested(query)
        case _:
            pass


def _takes_some(query: Node) -> bool:
    limit = query.args.get("limit")
    count = limit.expression if isinstance(limit, exp.Limit) else None
    return isinstance(count, exp.Literal) and str(count.this) != "0" and not query.args.get("offset")


def mark_tested(query: exp.Select) -> None:
    query.meta[_TESTED] = True


def is_tested(query: exp.Select) -> bool:
    """Whether only the existence of rows is asked for, so that it does not matter how often they are there."""
    return bool(query.meta.get(_TESTED))


_TESTED = "tested"


def _refuse_raw_values(streams: Streams, tree: Node) -> None:
    """A stream may not stand where a query gives a value."""
    for select in tree.find_all(exp.Select):
        for node in _expressions_of(select):
            for query in (found for found in node.walk(prune=is_query) if is_query(found)):
                if isinstance(query, Node) and streams.of_query(query) == Status.RAW:
                    raise ungrouped(streams, query)


def _expressions_of(select: exp.Select) -> Iterator[Node]:
    yield from select.expressions
    for key in ("where", "having", "group", "order"):
        if select.args.get(key):
            yield select.args[key]
    for join in select.args.get("joins") or []:
        if join.args.get("on"):
            yield join.args["on"]


# --- what a stream's rows may go through -------------------------------------------------------------


def check_rows(streams: Streams, select: exp.Select, *, is_top: bool) -> None:
    """Raises unless the rows of a query that reads a raw stream can be computed as they come."""
    _check_joins(streams, select)
    for item in items_of(select):
        _check_item(streams, item)
    for node in _expressions_of(select):
        for query in (found for found in node.walk(prune=is_query) if is_query(found)):
            if isinstance(query, Node) and node is not select.args.get("having") and streams.has_live(query):
                if is_top and not _is_below(node, query, select):
                    continue
                raise _live_beside(streams, query, select)
    if not is_top:
        _refuse_sorting(streams, select)
    _refuse_volatile(select, is_top)


def _is_below(node: Node, query: Node, select: exp.Select) -> bool:
    """Whether a subquery of a grouping query is asked for every row: in WHERE, a join, or inside an aggregate."""
    if node is select.args.get("where") or isinstance(node.parent, exp.Join):
        return True
    above = query.parent
    while above is not None and above is not select:
        if isinstance(above, AggregateCall):
            return True
        above = above.parent
    return False


def _live_beside(streams: Streams, query: Node, select: exp.Select) -> Unsupported:
    name, table = streams.name(select)
    return refuse(
        f'stream "{name}" is compared with something that changes before it is grouped',
        query if place_of(query) else table,
        detail="What a row of a stream meets below the first grouping must stay as it was when the view was created.",
        hint="Group the stream first, and compare the groups.",
    )


def _check_item(streams: Streams, item: Node) -> None:
    for join in item.args.get("joins") or []:
        _check_item(streams, join.this)
    match item:
        case exp.Paren():
            _check_item(streams, child(item))
        case exp.Subquery() if is_query(item.this):
            _check_query(streams, item.this)
        case exp.Subquery():
            _check_item(streams, item.this)
        case exp.Lateral() if isinstance(item.this, exp.Subquery) and streams.has_live(item.this):
            raise _live_beside(streams, item.this, exp.Select().from_(item.copy()))
        case _:
            pass


def _check_query(streams: Streams, query: Node) -> None:
    if streams.of_query(query) != Status.RAW:
        return
    match query:
        case exp.Select():
            check_rows(streams, query, is_top=False)
        case exp.SetOperation():
            _refuse_sorting(streams, query)
            for side in (query.this, query.expression):
                if streams.of_query(side) == Status.GROUPED:
                    name, table = streams.name(query)
                    raise refuse(
                        f'stream "{name}" is put together with a grouped one before it is grouped',
                        table,
                        detail="Groups change as rows come, and rows of a stream come once: they cannot be grouped "
                        "as one.",
                        hint="Group each side of UNION ALL by itself, and the groups once more above it.",
                    )
                _check_query(streams, side)
        case exp.Subquery():
            _check_query(streams, child(query))
        case _:
            pass


def _refuse_sorting(streams: Streams, query: Node) -> None:
    sorting = query.args.get("limit") or query.args.get("offset")
    name, table = streams.name(query)
    if sorting:
        raise refuse(
            f'stream "{name}" is sorted or cut off before it is grouped',
            sorting if place_of(sorting) else table,
            detail="ORDER BY with LIMIT needs all rows, and a stream has no last one.",
            hint="Group first; ORDER BY and LIMIT may then stand above.",
        )
    _drop_order(streams, query)
    for output in query.expressions if isinstance(query, exp.Select) else ():
        window = next((node for node in own_nodes(bare(output)) if isinstance(node, exp.Window)), None)
        if window is not None:
            raise refuse(
                f'a window function over the rows of stream "{name}" needs all of them',
                window if place_of(window) else table,
                detail="Rows would have to be sorted before they are grouped.",
                hint="Group first; window functions may then stand above.",
            )


def drop_orders(streams: Streams, tree: Node) -> None:
    """ORDER BY without LIMIT on the rows of a stream that are grouped above: no group depends on it, since an aggregate
    that goes by the order of its rows is kept only with an ORDER BY of its own."""
    for query in [node for node in tree.walk() if isinstance(node, exp.Select | exp.SetOperation)]:
        has_bounds = query.args.get("limit") or query.args.get("offset") or query.args.get("distinct")
        if query is tree or not query.args.get("order") or has_bounds or streams.of_query(query) != Status.RAW:
            continue
        if not any(streams.is_windowed(table) for table in streams.raw_tables(query)):
            _drop_order(streams, query)


def _drop_order(streams: Streams, query: Node) -> None:
    if query.args.get("order") is None:
        return
    query.set("order", None)
    name, _ = streams.name(query)
    streams.notices.append(
        f'ORDER BY without LIMIT on the rows of stream "{name}" is dropped: they are grouped above it, and no group '
        "depends on their order"
    )


def _refuse_volatile(select: exp.Select, is_top: bool) -> None:
    for call in select.find_all(Call):
        function = FUNCTIONS.get(str(call.this))
        if function is not None and function.volatile and not (is_top and _is_above(call, select)):
            raise refuse(
                f"function {function.name}() may not be used on the rows of a stream",
                call,
                detail="It gives another answer each time, so the result would depend on how the rows came.",
                hint="Use it above the first grouping, or store its value in a column of the stream.",
            )


def _is_above(call: Node, select: exp.Select) -> bool:
    """In the select list or HAVING of the grouping query, outside its aggregates and keys."""
    node: Node | None = call
    while node is not None and node is not select:
        if isinstance(node, AggregateCall | exp.Where | exp.Join | exp.From | exp.Group):
            return False
        parent = node.parent
        node = parent if isinstance(parent, Node) else None
    return not select.args.get("distinct")


def _check_joins(streams: Streams, select: exp.Select) -> None:
    items = items_of(select)
    if not items:
        return
    _check_chain(streams, items[0], select.args.get("joins") or [])


def _check_chain(streams: Streams, first: Node, joins: list[exp.Join]) -> Status:
    status = _status_of_side(streams, first)
    left: list[Node] = [first]
    for join in joins:
        other = _status_of_side(streams, join.this)
        both = {status, other}
        if both == {Status.RAW}:
            raise _two_streams(streams, left, join)
        if Status.RAW in both and Status.GROUPED in both:
            raise _raw_and_grouped(streams, left, join)
        side = (join.args.get("side") or "").upper()
        if Status.RAW in both and side:
            kept = {"LEFT": status, "RIGHT": other}.get(side)
            if kept != Status.RAW:
                raise _kept_side(streams, left, join, side)
        left.append(join.this)
        status = Status.RAW if Status.RAW in both else Status.GROUPED if Status.GROUPED in both else Status.STATIC
    return status


def _status_of_side(streams: Streams, item: Node) -> Status:
    if item.args.get("joins"):
        bare_item = item.copy()
        bare_item.set("joins", None)
        return _check_chain(streams, bare_item, item.args["joins"])
    if isinstance(item, exp.Paren) or (isinstance(item, exp.Subquery) and not is_query(item.this)):
        return _status_of_side(streams, child(item))
    return streams.of_item(item)


def _names(streams: Streams, left: list[Node], join: exp.Join) -> tuple[str, str, Node]:
    name = next(filter(None, (streams.name(item)[0] for item in left)), "")
    other, table = streams.name(join.this)
    place = next((node for node in (table, *(streams.name(item)[1] for item in left)) if node is not None), join)
    return name, other, place


def _two_streams(streams: Streams, left: list[Node], join: exp.Join) -> Unsupported:
    name, other, place = _names(streams, left, join)
    return refuse(
        f'streams "{name}" and "{other}" are joined before they are grouped',
        place,
        detail="Every row of each would have to be kept for those of the other that are still to come.",
        hint="Group each of them in a WITH query or a subquery, and join the groups.",
    )


def _raw_and_grouped(streams: Streams, left: list[Node], join: exp.Join) -> Unsupported:
    raw = next((item for item in (*left, join.this) if _status_of_side(streams, item) == Status.RAW), join.this)
    name, place = streams.name(raw)
    return refuse(
        f'stream "{name}" is joined with a window, a grouped stream or a continuous view before it is grouped',
        place,
        detail="What it is joined with changes as rows come, so every row would have to be kept to be joined again.",
        hint="Group the stream first, and join the groups, or put a window on it, too.",
    )


def _kept_side(streams: Streams, left: list[Node], join: exp.Join, side: str) -> Unsupported:
    name, other, place = _names(streams, left, join)
    return refuse(
        f'stream "{name or other}" is on the side of a {side} JOIN that may stay without a match',
        place,
        detail="Whether a row of the other side has no match is known only when the stream has ended.",
        hint="Put the stream on the kept side, use an inner join, or group the stream first.",
    )
