"""INSERT, UPDATE and DELETE as queries: which rows change, and what they become.

UPDATE t SET a = 1 WHERE b > 2      SELECT _row_id, 1, b FROM t WHERE b > 2
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from midstream.errors import SqlSyntaxError
from midstream.plan import queries, sources
from midstream.plan.assignments import bind_set, bind_value, target_columns
from midstream.plan.bound import BoundQuery, Output, assign, infer, kernel_names, rename_outputs, seal, top_select
from midstream.plan.calls import refuse_calls
from midstream.plan.context import BindContext, Binding, ScanKey
from midstream.plan.expressions import bind_expression
from midstream.plan.nodes import (
    bare,
    column,
    derived,
    is_constant,
    is_query,
    name_of,
    named,
    outside_subqueries,
    place_of,
    table_alias,
    without_parentheses,
)
from midstream.plan.scopes import Namespace, Scope, Source, SourceColumn
from midstream.plan.statements import default_of, new_binding
from midstream.plan.support import refuse_arguments
from midstream.plan.trees import BoundTree, as_derived
from midstream.plan.typing.nodes import typed
from midstream.relations.schema import RowHolder, Schema
from midstream.relations.table import ROW_ID, ROW_ID_TYPE, Column, Table
from midstream.sql.statements import Delete, InsertQuery, Update

ROW_ID_OUTPUT = Output(ROW_ID, ROW_ID_TYPE)


def column_outputs(table: RowHolder) -> list[Output]:
    return [Output(own.name, own.type) for own in table.columns]


# --- INSERT --------------------------------------------------------------------------------------


def bind_insert(statement: InsertQuery, table: RowHolder, schema: Schema, context: BindContext) -> BoundQuery:
    """The rows to insert: exactly the table's columns, in order, with defaults filled in."""
    binding = new_binding(schema, context)
    columns = target_columns(statement.columns, table)
    if statement.query is None:
        tree = _infer_row(binding, {}, table)
    else:
        query = statement.query.tree()
        has_list = bool(statement.columns)
        if isinstance(query, exp.Values) and not any(query.args.get(k) for k in queries.MODIFIERS):
            tree = _insert_values(binding, query, columns, table, has_list)
        else:
            tree = _insert_query(binding, query, columns, table, has_list)
    return seal(binding, tree, column_outputs(table))


def _check_width(given: int, columns: Sequence[Column], has_list: bool, node: exp.Expression) -> None:
    if given > len(columns):
        raise SqlSyntaxError("INSERT has more expressions than target columns", position=place_of(node))
    if given < len(columns) and has_list:
        raise SqlSyntaxError("INSERT has more target columns than expressions", position=place_of(node))


def _row(binding: Binding, values: dict[str, exp.Expression], table: RowHolder) -> list[exp.Expression]:
    """One value for each column of the table."""
    return [values[own.name] if own.name in values else default_of(binding, own) for own in table.columns]


def _infer_row(binding: Binding, values: dict[str, exp.Expression], table: RowHolder) -> exp.Select:
    select = top_select(infer(binding, exp.Select(expressions=_row(binding, values, table)), keep_unknown=True))
    return _assigned(select, table)


def _assigned(select: exp.Select, table: RowHolder) -> exp.Select:
    values = [assign(node, own) for node, own in zip(select.expressions, table.columns, strict=True)]
    return rename_outputs(select, values)


def _insert_query(
    binding: Binding, query: exp.Expression, columns: Sequence[Column], table: RowHolder, has_list: bool
) -> exp.Select:
    place = query.copy()
    bound = queries.bind_query_tree(binding, query, Scope())
    _check_width(len(bound.names), columns, has_list, place)
    select = bound.tree
    if not isinstance(select, exp.Select) or select.args.get("distinct"):
        select = _select_from(binding, bound)
    values = {own.name: bare(node) for own, node in zip(columns, select.expressions, strict=False)}
    select.set("expressions", _row(binding, values, table))
    return _assigned(top_select(infer(binding, select, keep_unknown=True)), table)


def _select_from(binding: Binding, bound: BoundTree) -> exp.Select:
    item, alias, columns = as_derived(binding, bound, "q")
    select = exp.Select(expressions=[column(alias, own.kernel_name) for own in columns])
    select.set("from_", exp.From(this=item))
    return select


def _insert_values(
    binding: Binding, values: exp.Values, columns: Sequence[Column], table: RowHolder, has_list: bool
) -> exp.Select:
    """Each value is cast by itself: rows of one VALUES list may have different types in one column."""
    rows = [
        list(row.expressions) if isinstance(row, exp.Tuple) else [without_parentheses(row)]
        for row in values.expressions
    ]
    if any(len(row) != len(rows[0]) for row in rows):
        raise SqlSyntaxError("VALUES lists must all be the same length", position=place_of(values))
    _check_width(len(rows[0]), columns, has_list, values)
    bound = [_bind_values_row(binding, row, columns, table) for row in rows]
    flat = top_select(
        infer(binding, exp.Select(expressions=[cell for row in bound for cell in row]), keep_unknown=True)
    )
    cells = [bare(cell) for cell in flat.expressions]
    width = len(table.columns)
    stored = [
        [assign(cell, own) for cell, own in zip(cells[i : i + width], table.columns, strict=True)]
        for i in range(0, len(cells), width)
    ]
    return _rows_as_select(binding, stored, table)


def _bind_values_row(
    binding: Binding, row: list[exp.Expression], columns: Sequence[Column], table: RowHolder
) -> list[exp.Expression]:
    given = {
        own.name: bind_value(binding, cell, own, Scope(), "VALUES") for own, cell in zip(columns, row, strict=False)
    }
    return _row(binding, given, table)


def _rows_as_select(binding: Binding, rows: list[list[exp.Expression]], table: RowHolder) -> exp.Select:
    if len(rows) == 1:
        return rename_outputs(exp.Select(), rows[0])
    alias, names = binding.fresh_alias("values"), kernel_names(len(table.columns))
    has_subqueries = any(is_query(node) for row in rows for cell in row for node in outside_subqueries(cell))
    item = _union_of(rows, alias) if has_subqueries else _values_of(rows, alias, names)
    select = exp.Select()
    select.set("from_", exp.From(this=item))
    return rename_outputs(
        select, [typed(column(alias, name), own.type) for name, own in zip(names, table.columns, strict=True)]
    )


def _values_of(rows: list[list[exp.Expression]], alias: str, names: list[str]) -> exp.Expression:
    return exp.Values(expressions=[exp.Tuple(expressions=row) for row in rows], alias=table_alias(alias, names))


def _union_of(rows: list[list[exp.Expression]], alias: str) -> exp.Expression:
    union: exp.Expression = rename_outputs(exp.Select(), rows[0])
    for row in rows[1:]:
        union = exp.Union(this=union, expression=rename_outputs(exp.Select(), row), distinct=False)
    return derived(union, alias)


# --- UPDATE and DELETE ---------------------------------------------------------------------------


def target_source(binding: Binding, node: exp.Expression, table: Table) -> tuple[exp.Table, Source]:
    """The changed table as a FROM item, and its names."""
    refuse_arguments(node, ("this", "alias", "db", "catalog"))
    alias = node.args.get("alias")
    name = name_of(alias.this) if alias is not None else table.name
    kernel_alias = binding.fresh_alias(name)
    columns = tuple(SourceColumn(own, own) for own in table.column_names)
    source = Source(name, kernel_alias, columns, table, table.name, place_of(node))
    return binding.scan(ScanKey(table, "table", None), kernel_alias), source


def bind_update(statement: Update, table: Table, schema: Schema, context: BindContext) -> BoundQuery:
    """`_row_id` and every column's new value, one row for each row that changes."""
    binding, tree = new_binding(schema, context), statement.tree.tree()
    refuse_arguments(tree, ("this", "expressions", "from_", "where", "with_"))
    scope, ctes = queries.bind_with(binding, tree.args.get("with_"), Scope())
    item, source = target_source(binding, tree.this, table)
    from_ = tree.args.get("from_")
    select, namespace = _over_target(binding, item, source, from_.this if from_ is not None else None, scope)
    inner = scope.inside(namespace)
    values = bind_set(binding, tree.expressions, table, inner, "UPDATE")
    _set_where(binding, select, tree, inner)
    select.set("expressions", [source.column(ROW_ID), *_new_values(values, source, table)])
    if from_ is not None:
        select = _one_match_each(binding, select)
    _set_ctes(select, ctes)
    return seal(
        binding,
        _assigned_update(infer(binding, select, keep_unknown=True), table),
        [ROW_ID_OUTPUT, *column_outputs(table)],
    )


def _new_values(values: dict[str, exp.Expression], source: Source, table: Table) -> list[exp.Expression]:
    return [values[own] if own in values else source.column(own) for own in table.column_names]


def _assigned_update(tree: exp.Expression, table: Table) -> exp.Select:
    select = top_select(tree)
    row_id, *values = [bare(node) for node in select.expressions]
    return rename_outputs(select, [row_id, *(assign(v, own) for v, own in zip(values, table.columns, strict=True))])


def _over_target(
    binding: Binding, item: exp.Table, source: Source, others: exp.Expression | None, scope: Scope
) -> tuple[exp.Select, Namespace]:
    """FROM target, others …"""
    select, namespace = exp.Select(), Namespace.of(source)
    select.set("from_", exp.From(this=item))
    if others is not None:
        joins = others.args.get("joins") or []
        others.set("joins", None)
        more, bound, found = sources.bind_from_list(binding, others, joins, scope)
        select.set("joins", [exp.Join(this=more.this), *bound])
        namespace = namespace.with_all_of(found)
    return select, namespace


def _set_where(binding: Binding, select: exp.Select, tree: exp.Expression, scope: Scope) -> None:
    where = tree.args.get("where")
    if where is not None:
        condition = bind_expression(binding, where.this, scope)
        refuse_calls(condition, "WHERE")
        select.set("where", exp.Where(this=condition))


def _set_ctes(select: exp.Select, ctes: list[exp.CTE]) -> None:
    if ctes:
        select.set("with_", exp.With(expressions=ctes))


def _one_match_each(binding: Binding, select: exp.Select) -> exp.Select:
    """Of several matches of one row, the first; constants stay outside, where they can still take any type."""
    alias, number = binding.fresh_alias("q"), "match_number"
    outputs = select.expressions
    names = kernel_names(len(outputs))
    inside = [named(node, name) for node, name in zip(outputs, names, strict=True) if not is_constant(node)]
    refs = [node if is_constant(node) else column(alias, name) for node, name in zip(outputs, names, strict=True)]
    row_id = bare(outputs[0])
    window = exp.Window(this=exp.RowNumber(), partition_by=[row_id.copy()], over="OVER")
    window.set("order", exp.Order(expressions=[exp.Ordered(this=row_id.copy(), nulls_first=False)]))
    select.set("expressions", [*inside, named(window, number)])
    outer = exp.Select(expressions=refs)
    outer.set("from_", exp.From(this=derived(select, alias)))
    first = exp.EQ(this=column(alias, number), expression=exp.Literal.number("1"))
    outer.set("where", exp.Where(this=first))
    return outer


def bind_delete(statement: Delete, table: Table, schema: Schema, context: BindContext) -> BoundQuery:
    """The `_row_id` of each row that goes, once."""
    binding, tree = new_binding(schema, context), statement.tree.tree()
    refuse_arguments(tree, ("this", "using", "where", "with_"))
    scope, ctes = queries.bind_with(binding, tree.args.get("with_"), Scope())
    item, source = target_source(binding, tree.this, table)
    using = tree.args.get("using") or []
    select, namespace = _over_target(binding, item, source, _as_one_item(using), scope)
    _set_where(binding, select, tree, scope.inside(namespace))
    select.set("expressions", [source.column(ROW_ID)])
    if using:
        select.set("distinct", exp.Distinct())
    _set_ctes(select, ctes)
    typed_select = top_select(infer(binding, select, keep_unknown=True))
    return seal(binding, rename_outputs(typed_select, [bare(typed_select.expressions[0])]), [ROW_ID_OUTPUT])


def _as_one_item(using: list[exp.Expression]) -> exp.Expression | None:
    if not using:
        return None
    first, *rest = using
    for item in rest:
        first.append("joins", exp.Join(this=item))
    return first
