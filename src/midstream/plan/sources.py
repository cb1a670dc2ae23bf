"""Binding of the FROM clause: each item becomes a scan, a subquery or a table function, and offers its names.

FROM v JOIN clog_t USING (id), LATERAL (SELECT …) AS s
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from midstream.errors import (
    AmbiguousName,
    Forbidden,
    HistoryGone,
    InternalError,
    InvalidDefinition,
    Position,
    SqlSyntaxError,
    TransactionError,
    UndefinedName,
    Unsupported,
    WrongObject,
)
from midstream.plan import queries
from midstream.plan.calls import function_name, refuse_calls
from midstream.plan.context import CHANGE_COLUMNS, Binding, ScanKey
from midstream.plan.expressions import bind_expression, refuse_outside
from midstream.plan.nodes import (
    child,
    derived,
    forget_places,
    is_query,
    keep_place,
    name_of,
    named,
    outside_subqueries,
    place_of,
    quoted,
    table_alias,
    without_parentheses,
)
from midstream.plan.scopes import Cte, Namespace, Scope, Source, SourceColumn, VisibleColumn, did_you_mean
from midstream.plan.support import not_yet, refuse_arguments
from midstream.plan.trees import BoundTree, as_derived, rename_columns, source_columns, with_names
from midstream.plan.windows import windowed_item
from midstream.relations.query import ComputedView, ContinuousQuery, MaterializedView, Queue, Trigger
from midstream.relations.schema import Relation
from midstream.relations.stream import Stream
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView, View
from midstream.sql.nodes import AllWindows, AsOf, Changes, MatchRecognize, PartReference, Pattern, Reading, StreamWindow
from midstream.sql.text import quote_name as written_name

CHANGE_LOG_PREFIX, LATE_PREFIX = "clog_", "late_"
_WINDOW_FUNCTIONS = frozenset(["tumble", "hop", "session", "table"])
_PATH_FORMATS = frozenset("parquet csv json orc avro text delta binaryfile jdbc iceberg".split())
_READINGS: dict[type[Reading], str] = {
    PartReference: "a part reference",
    Pattern: "PATTERN",
    MatchRecognize: "MATCH_RECOGNIZE",
}

Item = tuple[exp.Expression, Namespace]


def bind_from(
    binding: Binding, query: exp.Expression, outer: Scope
) -> tuple[exp.From | None, list[exp.Join], Namespace]:
    """FROM and the joins behind it. Commas bind loosest: `a, b JOIN c ON …` cannot see a in its condition."""
    from_ = query.args.get("from_")
    if from_ is None:
        return None, [], Namespace()
    return bind_from_list(binding, from_.this, query.args.get("joins") or [], outer)


def bind_from_list(
    binding: Binding, first: exp.Expression, joins: Sequence[exp.Join], outer: Scope
) -> tuple[exp.From, list[exp.Join], Namespace]:
    groups = _comma_groups(first, joins)
    item, bound, namespace = _bind_group(binding, *groups[0], outer, Namespace())
    for next_first, next_joins in groups[1:]:
        right, inner, more = _bind_group(binding, next_first, next_joins, outer, namespace)
        if any(join.args.get("side") in ("RIGHT", "FULL") for join in inner):
            right, inner = _nested(right, inner), []
        bound += [exp.Join(this=right), *inner]
        namespace = namespace.with_all_of(more)
    return exp.From(this=item), bound, namespace


def _comma_groups(first: exp.Expression, joins: Sequence[exp.Join]) -> list[tuple[exp.Expression, list[exp.Join]]]:
    groups: list[tuple[exp.Expression, list[exp.Join]]] = [(first, [])]
    for join in joins:
        if _is_comma(join):
            groups.append((join.this, []))
        else:
            groups[-1][1].append(join)
    return groups


def _bind_group(
    binding: Binding, first: exp.Expression, joins: Sequence[exp.Join], outer: Scope, before: Namespace
) -> tuple[exp.Expression, list[exp.Join], Namespace]:
    item, namespace = bind_item(binding, first, outer, before)
    bound: list[exp.Join] = []
    for join in joins:
        node, namespace = _bind_join(binding, join, outer, before, namespace)
        bound.append(node)
    return item, bound, namespace


def _nested(item: exp.Expression, joins: Sequence[exp.Join]) -> exp.Expression:
    """(a JOIN b ON …): joined before whatever stands around it."""
    item.set("joins", list(joins))
    return exp.Paren(this=item)


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(key) for key in ("side", "kind", "method", "on", "using"))


# --- joins ---------------------------------------------------------------------------------------


def _bind_join(
    binding: Binding, join: exp.Join, outer: Scope, before: Namespace, left: Namespace
) -> tuple[exp.Join, Namespace]:
    refuse_arguments(join, ("this", "side", "kind", "method", "on", "using"))
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if kind not in ("", "INNER", "OUTER", "CROSS") or (join.args.get("method") or "NATURAL").upper() != "NATURAL":
        raise Unsupported(f"{kind or join.args['method']} JOIN is not supported", position=place_of(join))
    item, right = bind_item(binding, join.this, outer, before.with_all_of(left))
    node = exp.Join(this=item)
    if side:
        node.set("side", side)
    if kind == "CROSS":
        node.set("kind", "CROSS")
        return node, left.with_all_of(right)
    names = _using_names(join, left, right)
    if names is not None:
        return _join_using(node, side, names, left, right, join)
    namespace = left.with_all_of(right)
    node.set("on", _join_condition(binding, join, outer.inside(namespace)))
    return node, namespace


def _join_condition(binding: Binding, join: exp.Join, scope: Scope) -> exp.Expression:
    on = join.args.get("on")
    if on is None:
        raise SqlSyntaxError(
            "a JOIN needs ON or USING", hint="Use CROSS JOIN to pair all rows.", position=place_of(join)
        )
    condition = bind_expression(binding, on, scope)
    refuse_calls(condition, "JOIN conditions")
    return condition


def _using_names(join: exp.Join, left: Namespace, right: Namespace) -> list[str] | None:
    if (join.args.get("method") or "").upper() == "NATURAL":
        right_names = {column.name for column in right.columns}
        return list(dict.fromkeys(column.name for column in left.columns if column.name in right_names))
    using = join.args.get("using")
    return [name_of(node) for node in using] if using else None


def _join_using(
    node: exp.Join, side: str, names: list[str], left: Namespace, right: Namespace, join: exp.Join
) -> tuple[exp.Join, Namespace]:
    """USING merges each pair of columns into one, which comes first in `*`."""
    merged, conditions = [], []
    for name in names:
        one, other = _joined_column(name, left, "left", join), _joined_column(name, right, "right", join)
        conditions.append(exp.EQ(this=one.copy(), expression=other.copy()))
        merged.append(VisibleColumn(name, _merged(side, one, other)))
    if conditions:
        node.set("on", exp.and_(*conditions, copy=False))
    elif side:
        node.set("on", exp.true())
    else:
        node.set("kind", "CROSS")
    rest = tuple(c for part in (left, right) for c in part.columns if c.name not in names)
    return node, left.joined(right, (*merged, *rest))


def _merged(side: str, left: exp.Expression, right: exp.Expression) -> exp.Expression:
    if side == "FULL":
        return exp.Coalesce(this=left, expressions=[right])
    return right if side == "RIGHT" else left


def _joined_column(name: str, namespace: Namespace, where: str, join: exp.Join) -> exp.Expression:
    found = namespace.named(name)
    place = place_of(next((n for n in join.args.get("using") or [] if name_of(n) == name), join))
    if len(found) > 1:
        raise AmbiguousName(f'common column name "{name}" appears more than once in {where} table', position=place)
    if not found:
        raise UndefinedName(
            f'column "{name}" specified in USING clause does not exist in {where} table',
            sqlstate="42703",
            hint=did_you_mean(name, (column.name for column in namespace.columns)),
            position=place,
        )
    return found[0].node.copy()


# --- items ---------------------------------------------------------------------------------------


def bind_item(binding: Binding, node: exp.Expression, outer: Scope, left: Namespace) -> Item:
    """One item of FROM; `left` is what stands before it, for LATERAL."""
    joins = node.args.get("joins")
    if joins:
        node.set("joins", None)
        return _bind_nested_join(binding, node, joins, outer)
    if isinstance(node, exp.Lateral):
        return _bind_lateral(binding, node, outer.inside(left))
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
        return _bind_function(binding, child(node), node, outer.inside(left))
    if isinstance(node, exp.Table):
        return _bind_named(binding, node, outer)
    if isinstance(node, exp.Unnest):
        return _bind_function(binding, node, node, outer.inside(left))
    if isinstance(node, exp.Values):
        return _bind_values(binding, node, outer)
    if isinstance(node, exp.Subquery):
        return _bind_derived(binding, node, outer)
    raise Unsupported("this kind of FROM item is not supported", position=place_of(node))


def _bind_nested_join(binding: Binding, first: exp.Expression, joins: Sequence[exp.Join], outer: Scope) -> Item:
    """(a JOIN b ON …), as one side of another join."""
    from_, bound, namespace = bind_from_list(binding, first, joins, outer)
    return _nested(from_.this, bound), namespace


def _bind_derived(binding: Binding, node: exp.Subquery, outer: Scope) -> Item:
    alias = node.args.get("alias")
    inner = node.this
    if not is_query(inner) or (isinstance(inner, exp.Subquery) and inner.args.get("joins")):
        return _bind_parenthesized_join(binding, node, outer)
    node.set("alias", None)
    return _derived_item(binding, queries.bind_query_tree(binding, node, outer), alias, node)


def _bind_parenthesized_join(binding: Binding, node: exp.Subquery, outer: Scope) -> Item:
    alias = node.args.get("alias")
    if alias is None:
        return bind_item(binding, node.this, outer, Namespace())
    node.set("alias", None)
    query = exp.Select(expressions=[exp.Star()]).from_(node.this, copy=False)
    return _derived_item(binding, queries.bind_query_tree(binding, query, outer), alias, node)


def _derived_item(binding: Binding, bound: BoundTree, alias: exp.Expression | None, node: exp.Expression) -> Item:
    name = name_of(alias.this) if alias is not None and alias.this else ""
    names = rename_columns(bound.names, alias, name)
    item, kernel_alias, columns = as_derived(binding, with_names(bound, names), name or "q")
    return item, Namespace.of(Source(name, kernel_alias, columns, place=place_of(alias or node)))


def _bind_lateral(binding: Binding, node: exp.Lateral, scope: Scope) -> Item:
    refuse_arguments(node, ("this", "alias", "ordinality"))
    inner, alias = node.this, node.args.get("alias")
    if isinstance(inner, exp.Subquery) and is_query(inner.this):
        item, namespace = _derived_item(binding, queries.bind_query_tree(binding, inner, scope), alias, node)
        return exp.Lateral(this=exp.Subquery(this=item.this), alias=item.args["alias"]), namespace
    return _bind_function(binding, inner, node, scope)


def _bind_values(binding: Binding, node: exp.Values, outer: Scope) -> Item:
    refuse_arguments(node, ("expressions", "alias"))
    alias = node.args.get("alias")
    rows = [
        list(row.expressions) if isinstance(row, exp.Tuple) else [without_parentheses(row)] for row in node.expressions
    ]
    if any(len(row) != len(rows[0]) for row in rows):
        raise SqlSyntaxError("VALUES lists must all be the same length", position=place_of(node))
    bound = [[_bind_cell(binding, cell, outer) for cell in row] for row in rows]
    name = name_of(alias.this) if alias is not None and alias.this else ""
    columns = source_columns(rename_columns([f"column{i + 1}" for i in range(len(rows[0]))], alias, name))
    kernel_alias = binding.fresh_alias(name or "values")
    item = _values_item(bound, kernel_alias, [c.kernel_name for c in columns])
    return item, Namespace.of(Source(name, kernel_alias, columns, place=place_of(alias or node)))


def _values_item(rows: list[list[exp.Expression]], alias: str, names: Sequence[str]) -> exp.Expression:
    """VALUES, or a UNION ALL where a value comes from a query around: Spark takes only constants in VALUES."""
    cells = [cell for row in rows for cell in row]
    if not any(isinstance(node, exp.Column) or is_query(node) for cell in cells for node in outside_subqueries(cell)):
        return exp.Values(expressions=[exp.Tuple(expressions=row) for row in rows], alias=table_alias(alias, names))
    union: exp.Expression = _row_select(rows[0], names)
    for row in rows[1:]:
        union = exp.Union(this=union, expression=_row_select(row, names), distinct=False)
    return derived(union, alias)


def _row_select(row: Sequence[exp.Expression], names: Sequence[str]) -> exp.Select:
    return exp.Select(expressions=[named(cell, name) for cell, name in zip(row, names, strict=True)])


def _bind_cell(binding: Binding, cell: exp.Expression, outer: Scope) -> exp.Expression:
    if isinstance(cell, exp.Var) and cell.name.upper() == "DEFAULT":
        raise SqlSyntaxError("DEFAULT is not allowed in this context", position=place_of(cell))
    bound = bind_expression(binding, cell, outer)
    refuse_calls(bound, "VALUES")
    return bound


# --- table functions -----------------------------------------------------------------------------


def _bind_function(binding: Binding, call: exp.Expression, item: exp.Expression, scope: Scope) -> Item:
    """unnest and generate_series; whatever else reads files, streams or settings is not for queries."""
    _refuse_function(call)
    alias, with_ordinality = _function_alias(call, item)
    name = name_of(alias.this) if alias is not None and alias.this else ""
    only = name or function_name(call)
    if with_ordinality and not isinstance(call, exp.Unnest):
        raise Unsupported(
            f"WITH ORDINALITY is not supported for {function_name(call)}",
            hint="Use row_number().",
            position=place_of(item),
        )
    bound = bind_expression(binding, call, scope)
    width = len(bound.expressions) if isinstance(bound, exp.Unnest) else 1
    names = [only if width == 1 else "unnest"] * width + (["ordinality"] if with_ordinality else [])
    columns = source_columns(rename_columns(names, alias, only))
    kernel_alias = binding.fresh_alias(only)
    node = table_function(bound, kernel_alias, [c.kernel_name for c in columns], with_ordinality)
    return node, Namespace.of(Source(only, kernel_alias, columns, place=place_of(alias or item)))


def _function_alias(call: exp.Expression, item: exp.Expression) -> tuple[exp.Expression | None, bool]:
    """The alias with all its columns, and whether there is WITH ORDINALITY. Takes both off the call."""
    alias, offset = item.args.get("alias"), call.args.get("offset") if isinstance(call, exp.Unnest) else None
    with_ordinality = bool(offset or item.args.get("ordinality"))
    if isinstance(offset, exp.Identifier) and alias is not None:
        alias.append("columns", offset)
    if isinstance(call, exp.Unnest):
        call.set("offset", None)
        call.set("alias", None)
    return alias, with_ordinality


def _refuse_function(call: exp.Expression) -> None:
    if isinstance(call, exp.Unnest | exp.Explode | exp.GenerateSeries | exp.ExplodingGenerateSeries):
        return
    name = function_name(call)
    if name in ("unnest", "generate_series"):
        return
    if name in _WINDOW_FUNCTIONS:
        raise not_yet(f"{name.upper()} over a stream", call)
    if name == "parts":
        raise not_yet(f"{name}()", call)
    if name == "dequeue":
        raise Unsupported(
            "dequeue() may stand only in a SELECT of its own", detail="It takes what it gives.", position=place_of(call)
        )
    if name.startswith(
        ("read_", "parquet_", "duckdb_", "pg_", "glob", "query", "sniff_", "pragma_", "iceberg_", "delta_")
    ):
        refuse_outside(name, call)
    raise UndefinedName(
        f"function {name} cannot stand in FROM",
        detail="The functions that give tables are unnest and generate_series.",
        sqlstate="42883",
        hint=did_you_mean(name, ["unnest", "generate_series"]),
        position=place_of(call),
    )


def table_function(
    call: exp.Expression, alias: str, columns: Sequence[str], with_ordinality: bool = False
) -> exp.Expression:
    """A bound call as a FROM item: `Unnest`, or a `Table` of the call; the last column is the ordinality's."""
    if isinstance(call, exp.Explode):
        call = exp.Unnest(expressions=[call.this])
    if isinstance(call, exp.Unnest):
        return exp.Unnest(expressions=call.expressions, alias=table_alias(alias, columns), offset=with_ordinality)
    return exp.Table(this=call, alias=table_alias(alias, columns), ordinality=with_ordinality)


# --- relations -----------------------------------------------------------------------------------


def _bind_named(binding: Binding, node: exp.Table, outer: Scope) -> Item:
    refuse_arguments(node, ("this", "alias", "db", "catalog", "reading", "joins"))
    _refuse_foreign(node)
    name, alias = name_of(node.this), node.args.get("alias")
    reading = node.args.get("reading")
    if isinstance(reading, StreamWindow | AllWindows):
        if name in outer.ctes and not node.args.get("db"):
            raise _cte_has_no_windows(name, node)
        return _window_item(binding, name, reading, alias, node)
    if isinstance(reading, Changes):
        return _changes_item(binding, name, reading, alias, node, outer)
    as_of = _as_of(binding, node, outer)
    cte = outer.ctes.get(name) if node.args.get("reading") is None and not node.args.get("db") else None
    if cte is not None:
        return _cte_item(binding, cte, alias, node)
    relation = _relation_at(binding, name, as_of, node) if as_of is not None else binding.schema.relation(name)
    if relation is None:
        return _change_log_item(binding, name, alias, node, as_of)
    if isinstance(relation, MaterializedView) and relation.when == "on commit" and as_of is not None:
        # At an SCN it is what its query is then, whether or not it was refreshed just there.
        return _view_item(binding, relation.as_view, alias, node, as_of)
    if isinstance(relation, Table):
        return _scan_item(binding, ScanKey(relation, "table", as_of), alias, node, relation)
    if isinstance(relation, Stream):
        return _stream_item(binding, relation, alias, node, as_of)
    if isinstance(relation, ContinuousView):
        return _continuous_item(binding, relation, alias, node, as_of)
    if not isinstance(relation, View):
        raise _not_readable(relation, node)
    return _view_item(binding, relation, alias, node, as_of)


def _not_readable(relation: ContinuousQuery | Queue | Trigger, node: exp.Table) -> WrongObject:
    kind = {ContinuousQuery: "continuous query", Queue: "queue", Trigger: "trigger"}[type(relation)]
    hints = {
        "continuous query": "Read its destination, or subscribe to it.",
        "queue": f"Read it with dequeue('{relation.name}', 'subscriber', 100).",
    }
    return WrongObject(
        f'"{relation.name}" is a {kind}, which has no rows to read', hint=hints.get(kind), position=place_of(node)
    )


def _cte_has_no_windows(name: str, node: exp.Table) -> WrongObject:
    return WrongObject(
        f'"{name}" is a WITH query, and only a stream has windows',
        hint=f'Write the window in "{name}", behind its stream.',
        position=place_of(node),
    )


def _window_item(
    binding: Binding, name: str, reading: StreamWindow | AllWindows, alias: exp.Expression | None, node: exp.Table
) -> Item:
    relation = binding.schema.relation(name)
    if relation is None and _late_stream(binding, name) is not None:
        raise WrongObject(f'"{name}" is a log, and only a stream has windows', position=place_of(node))
    if relation is None:
        raise undefined_relation(binding, name, node)
    if isinstance(reading, StreamWindow):
        if isinstance(relation, ContinuousView) and relation.is_windowed:
            return windowed_item(binding, relation.basket, reading, alias, node)
        if not isinstance(relation, Stream):
            raise WrongObject(f'"{name}" is not a stream, and only a stream has windows', position=place_of(node))
        return windowed_item(binding, relation, reading, alias, node)
    if not isinstance(relation, ContinuousView) or not relation.is_windowed:
        raise WrongObject(f'"{name}" is not a view over windows, and has no windows to read', position=place_of(node))
    return _scan_item(binding, ScanKey(relation, "view", None, all_windows=True), alias, node, None)


def _continuous_item(
    binding: Binding, view: ContinuousView, alias: exp.Expression | None, node: exp.Table, as_of: int | None
) -> Item:
    if as_of is not None:
        raise Unsupported(
            f'"{view.name}" is a continuous view, whose past is not kept',
            hint="A table that its result is copied into keeps its past.",
            position=place_of(node),
        )
    if binding.takes_streams and view.is_windowed:
        return _scan_item(binding, ScanKey(view.basket, "stream", None), alias, node, None)
    return _scan_item(binding, ScanKey(view, "view", None), alias, node, None)


def _stream_item(
    binding: Binding, stream: Stream, alias: exp.Expression | None, node: exp.Table, as_of: int | None
) -> Item:
    """A stream that keeps its history reads like a table; another one has no rows to read."""
    if binding.takes_streams:
        if as_of is not None:
            raise Unsupported(
                "a continuous view reads a stream as it comes, not AS OF an SCN",
                detail="It begins with the rows that come after it was created.",
                hint="Leave AS OF out. WITH (backfill = true), it begins with the rows that the stream has kept.",
                position=place_of(node),
            )
        return _scan_item(binding, ScanKey(stream, "stream", None), alias, node, None)
    if stream.history is None:
        raise WrongObject(
            f'stream "{stream.name}" keeps no rows that could be read',
            detail="Its rows go to the views over it as they come.",
            hint="Create it WITH (retain = '7 days') to keep them, or WITH (ring = 1000000) to scan the newest, "
            "or read a view over it.",
            position=place_of(node),
        )
    return _scan_item(binding, ScanKey(stream, "history", as_of), alias, node, None)


def _refuse_foreign(node: exp.Table) -> None:
    schema = name_of(node.args.get("db"))
    if not schema or schema == "public":
        return
    if schema.lower() in _PATH_FORMATS:
        raise Forbidden(
            f'"{schema}"."{node.name}" names a file, and a query reads relations only',
            hint="Load the file with COPY.",
            position=place_of(node),
        )
    raise UndefinedName(
        f'schema "{schema}" does not exist',
        hint="A database has one schema: write the name alone.",
        sqlstate="3F000",
        position=place_of(node),
    )


def _as_of(binding: Binding, node: exp.Table, outer: Scope) -> int | None:
    """The SCN of AS OF; any other special reading is refused."""
    reading = node.args.get("reading")
    if reading is None:
        return outer.as_of
    if not isinstance(reading, AsOf):
        raise not_yet(_READINGS.get(type(reading), "this reading of a relation"), node)
    return _scn(binding, reading.this, node, place_of(reading))


def _scn(binding: Binding, value: exp.Expression, node: exp.Table, place: Position | None = None) -> int:
    value = without_parentheses(value)
    place = place or place_of(node)
    if isinstance(value, exp.Parameter):
        value = binding.parameter(value)
    if not (isinstance(value, exp.Literal) and value.is_int):
        raise SqlSyntaxError("SCN needs a whole number", hint="current_scn() tells the newest.", position=place)
    scn = int(value.name)
    if scn > binding.context.scn:
        raise HistoryGone(
            f"SCN {scn} has not happened yet", detail=f"The newest is {binding.context.scn}.", position=place
        )
    return scn


def _cte_item(binding: Binding, definition: Cte, alias: exp.Expression | None, node: exp.Table) -> Item:
    if not definition.is_complete:
        raise Unsupported(
            f'WITH query "{definition.name}" refers to itself, and recursive queries are not supported',
            hint="Write its steps out as WITH queries of their own, one over the other.",
            position=place_of(node),
        )
    name = name_of(alias.this) if alias is not None else definition.name
    names = rename_columns([c.name for c in definition.columns], alias, name)
    columns = _renamed(names, [c.kernel_name for c in definition.columns])
    kernel_alias = binding.fresh_alias(name)
    item = exp.Table(this=quoted(definition.alias), alias=table_alias(kernel_alias))
    return item, Namespace.of(
        Source(name, kernel_alias, columns, relation_name=definition.name, place=place_of(alias or node))
    )


def _renamed(names: Sequence[str], kernel_names: Sequence[str]) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(name, kernel) for name, kernel in zip(names, kernel_names, strict=True))


def _scan_item(
    binding: Binding, key: ScanKey, alias: exp.Expression | None, node: exp.Table, keys_of: Table | None
) -> Item:
    relation_name = name_of(node.this)
    name = name_of(alias.this) if alias is not None else relation_name
    own, marks = key.relation.column_names, CHANGE_COLUMNS if key.source == "changes" else {}
    columns = _renamed(rename_columns([*own, *marks], alias, name), [*own, *marks.values()])
    kernel_alias = binding.fresh_alias(name)
    source = Source(name, kernel_alias, columns, keys_of, relation_name, place_of(alias or node))
    return keep_place(binding.scan(key, kernel_alias), node), Namespace.of(source)


def _late_stream(binding: Binding, name: str) -> Stream | None:
    """The stream whose late rows have this name."""
    found = binding.schema.relation(name.removeprefix(LATE_PREFIX)) if name.startswith(LATE_PREFIX) else None
    return found if isinstance(found, Stream) else None


def _change_log_item(
    binding: Binding, name: str, alias: exp.Expression | None, node: exp.Table, as_of: int | None
) -> Item:
    """clog_<table>: every change of the table, old and new images; late_<stream>: rows that were too late."""
    late = _late_stream(binding, name)
    if late is not None and as_of is None:
        return _scan_item(binding, ScanKey(late, "late", None), alias, node, None)
    table = (
        binding.schema.relation(name.removeprefix(CHANGE_LOG_PREFIX)) if name.startswith(CHANGE_LOG_PREFIX) else None
    )
    if table is None:
        raise undefined_relation(binding, name, node)
    _refuse_computed(table, node)
    if not isinstance(table, Table):
        kind = "stream" if isinstance(table, Stream) else "view"
        raise WrongObject(f'"{table.name}" is a {kind}, and only tables have a change log', position=place_of(node))
    if node.args.get("reading") is not None:
        raise Unsupported(
            "a change log has no AS OF",
            hint="Filter on trans_scn.",
            position=place_of(node),
        )
    return _scan_item(binding, ScanKey(table, "changes", as_of), alias, node, None)


_CHANGE_TYPE = (
    "CASE WHEN dml_type = 'I' THEN 'insert' WHEN dml_type = 'D' THEN 'delete' "
    "WHEN old_new_mark = 'O' THEN 'update_preimage' ELSE 'update_postimage' END"
)


def _changes_item(
    binding: Binding, name: str, reading: Changes, alias: exp.Expression | None, node: exp.Table, outer: Scope
) -> Item:
    """t CHANGES FROM SCN a TO SCN b: its change log of these commits, in the words of Spark and Delta."""
    table = binding.schema.relation(name)
    if table is None:
        raise undefined_relation(binding, name, node)
    _refuse_computed(table, node)
    if not isinstance(table, Table):
        raise WrongObject(
            f'"{name}" has no changes to read', hint="Tables and materialized views have.", position=place_of(node)
        )
    first, last = (_scn(binding, reading.args[key], node) for key in ("first", "last"))
    if first > last:
        raise SqlSyntaxError("CHANGES goes from a commit to a later one", position=place_of(node))
    _check_changes_from(binding, table, first, node)
    numbers = range(len(table.columns))
    listed = ", ".join(f"c{number} AS {written_name(table.column_names[number])}" for number in numbers)
    names = ", ".join([*(f"c{number}" for number in numbers), *CHANGE_COLUMNS])
    text = (
        f"SELECT {listed}, {_CHANGE_TYPE} AS _change_type, trans_scn AS _commit_version "
        f"FROM {written_name(CHANGE_LOG_PREFIX + name)} AS log ({names}) WHERE trans_scn BETWEEN {first} AND {last}"
    )
    bound = queries.bind_query_tree(binding, forget_places(binding.parse_query(text)), Scope())
    given = alias if alias is not None else exp.TableAlias(this=quoted(name))
    return _derived_item(binding, bound, given, node)


def _check_changes_from(binding: Binding, table: Table, first: int, node: exp.Table) -> None:
    """Changes are told of one relation, not of another that had its name before."""
    name, there = table.name, _relation_at(binding, table.name, first, node)
    if there is None:
        raise HistoryGone(f'"{name}" was not there at SCN {first}', position=place_of(node))
    if there.id != table.id:
        raise HistoryGone(
            f'"{name}" was made anew after SCN {first}',
            detail="How the rows of the old one became those of the new one is in no change log.",
            hint=f"Begin at a later SCN: {CHANGE_LOG_PREFIX}{name} has all commits of the new one.",
            position=place_of(node),
        )


def _relation_at(binding: Binding, name: str, scn: int, node: exp.Table) -> Relation | None:
    try:
        return binding.schema.relation(name, scn)
    except HistoryGone as gone:
        gone.position = gone.position or place_of(node)
        raise


def _refuse_computed(relation: Relation, node: exp.Table) -> None:
    if isinstance(relation, ComputedView):
        raise TransactionError(
            f'the changes of "{relation.name}" cannot be read inside a transaction',
            detail="There the view is its query, with what the transaction itself has changed.",
            hint="Read them before BEGIN, or after COMMIT.",
            sqlstate="25001",
            position=place_of(node),
        )


def undefined_relation(binding: Binding, name: str, node: exp.Expression) -> UndefinedName:
    return UndefinedName(
        f'relation "{name}" does not exist',
        hint=did_you_mean(name, binding.schema.names()),
        position=place_of(node),
    )


def _view_item(binding: Binding, view: View, alias: exp.Expression | None, node: exp.Table, as_of: int | None) -> Item:
    """An ordinary view is its query, under the view's column names."""
    if view.name in binding.views_open:
        raise InternalError(f'view "{view.name}" reads itself')
    tree = forget_places(binding.parse_query(view.query))
    opened, binding.views_open = binding.views_open, (*binding.views_open, view.name)
    bound = queries.bind_query_tree(binding, tree, Scope(as_of=as_of))
    binding.views_open = opened
    if len(bound.names) != len(view.columns):
        raise InvalidDefinition(
            f'view "{view.name}" has {len(view.columns)} columns, but its query now gives {len(bound.names)}',
            hint="Create the view again.",
            position=place_of(node),
        )
    given = alias if alias is not None else exp.TableAlias(this=quoted(view.name))
    item, namespace = _derived_item(binding, with_names(bound, [name for name, _ in view.columns]), given, node)
    return item, namespace
