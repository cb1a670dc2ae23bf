"""Binding of scalar expressions: every name resolved, every subquery bound, every known value a literal.

x + now()  over t      "t"."x" + CAST('2027-01-31 12:00:00+00:00' AS TIMESTAMPTZ)
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from midstream.errors import Forbidden, InvalidQuery, SqlSyntaxError, UndefinedName, Unsupported
from midstream.plan import queries
from midstream.plan.calls import is_aggregate
from midstream.plan.context import Binding
from midstream.plan.literals import date_literal, integer_literal, timestamp_literal
from midstream.plan.moments import mark_moment
from midstream.plan.nodes import child, is_query, keep_place, name_of, outside_subqueries, place_of, without_parentheses
from midstream.plan.scopes import Scope, resolve
from midstream.plan.trees import name_outputs, unique_names

_OUTSIDE = frozenset(
    """java_method reflect try_reflect input_file_name input_file_block_start input_file_block_length
    current_setting set_config getenv getvariable read_files read_csv read_csv_auto read_parquet parquet_scan
    read_json read_json_auto read_ndjson read_text read_blob glob which_secret pg_read_file pg_read_binary_file
    pg_ls_dir lo_import lo_export query query_table""".split()
)
"""Functions of PostgreSQL, Spark or DuckDB that read files, settings, secrets or code. Whatever else is not in
the table of functions does not exist here; these get an error that says why."""


def bind_expression(binding: Binding, node: exp.Expression, scope: Scope) -> exp.Expression:
    """The expression over the scope's sources. The node given is used up."""
    holder = exp.Paren(this=node)
    for found in list(holder.walk(prune=_is_bound_whole)):
        if found is not holder and isinstance(found, exp.Expression):
            _bind_node(binding, found, scope)
    return child(holder)


def _is_bound_whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Parameter | exp.DataType) or is_query(node)


def _bind_node(binding: Binding, node: exp.Expression, scope: Scope) -> None:
    if isinstance(node, exp.Column):
        _bind_column(node, scope)
    elif isinstance(node, exp.Parameter):
        node.replace(binding.parameter(node))
    elif is_query(node):
        _bind_subquery(binding, node, scope)
    elif isinstance(node, exp.Window):
        _name_window(node, scope)
    elif isinstance(node, exp.Paren):
        # The tree says what belongs together; without them, (a) + 1 and a + 1 are the same key.
        node.replace(child(node))
    elif isinstance(node, exp.Dot):
        raise Unsupported("a field of a value cannot be selected", position=place_of(node))
    elif isinstance(node, exp.Func):
        _bind_call(binding, node)


def _bind_column(node: exp.Column, scope: Scope) -> None:
    if isinstance(node.this, exp.Star):
        if not isinstance(node.parent, exp.Count):
            raise SqlSyntaxError('row expansion via "*" is not supported here', position=place_of(node))
        raise Unsupported(
            f"count({name_of(node.args.get('table'))}.*) counts whole rows, which cannot be values",
            hint="Use count(*), or count of a column.",
            position=place_of(node),
        )
    node.replace(resolve(node, scope))


# --- calls ---------------------------------------------------------------------------------------


def _bind_call(binding: Binding, call: exp.Expression) -> None:
    known = _KNOWN_NOW.get(type(call)) or _KNOWN_BY_NAME.get(call.name.lower() if _is_plain(call) else "")
    if known is not None:
        call.replace(keep_place(known(binding), call))
        return
    if _is_plain(call) and call.name.lower() in _OUTSIDE:
        refuse_outside(call.name.lower(), call)


def _is_plain(call: exp.Expression) -> bool:
    return isinstance(call, exp.Anonymous | exp.AnonymousAggFunc)


def refuse_outside(name: str, node: exp.Expression) -> None:
    raise Forbidden(
        f"function {name} is not allowed",
        detail="It reaches outside the database.",
        hint="Load files with COPY." if name.startswith(("read_", "parquet_", "glob")) else None,
        position=place_of(node),
    )


def _now(binding: Binding) -> exp.Expression:
    return mark_moment(timestamp_literal(binding.context.now), "now")


def _local_now(binding: Binding) -> exp.Expression:
    return mark_moment(timestamp_literal(binding.context.now.replace(tzinfo=None)), "local")


def _today(binding: Binding) -> exp.Expression:
    return mark_moment(date_literal(binding.context.now.date()), "date")


def _week(binding: Binding) -> exp.Expression:
    year, week, _ = binding.context.now.isocalendar()
    return mark_moment(integer_literal(year * 100 + week), "week")


def _scn(binding: Binding) -> exp.Expression:
    literal = mark_moment(integer_literal(binding.context.scn), "scn")
    return exp.Cast(this=literal, to=exp.DataType.build("BIGINT"))


_Known = Callable[[Binding], exp.Expression]
_KNOWN_NOW: dict[type[exp.Expression], _Known] = {
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _today,
    exp.Localtimestamp: _local_now,
}
_KNOWN_BY_NAME: dict[str, _Known] = {
    "now": _now,
    "current_timestamp": _now,
    "transaction_timestamp": _now,
    "statement_timestamp": _now,
    "localtimestamp": _local_now,
    "current_date": _today,
    "current_scn": _scn,
    "current_week": _week,
}


# --- windows -------------------------------------------------------------------------------------


def _name_window(window: exp.Window, scope: Scope) -> None:
    """OVER w, and OVER (w ORDER BY …), with the definition of w filled in."""
    reference = window.args.get("alias") or window.args.get("first_window_name")
    if not isinstance(reference, exp.Identifier):
        return
    name = name_of(reference)
    if name not in scope.windows:
        raise UndefinedName(f'window "{name}" does not exist', sqlstate="42704", position=place_of(reference))
    window.set("alias", None)
    for key, value in scope.windows[name].args.items():
        if key in ("partition_by", "order", "spec") and value and not window.args.get(key):
            window.set(key, [part.copy() for part in value] if isinstance(value, list) else value.copy())


# --- subqueries ----------------------------------------------------------------------------------


def _bind_subquery(binding: Binding, query: exp.Expression, scope: Scope) -> None:
    place, user = place_of(query), _user_of(query)
    bound = queries.bind_query_tree(binding, query.copy(), scope)
    width = len(bound.names)
    if isinstance(user, exp.In):
        wanted = _width(user.this)
        if width != wanted:
            few_or_many = "many" if width > wanted else "few"
            raise SqlSyntaxError(f"subquery has too {few_or_many} columns", position=place)
    elif not isinstance(user, exp.Exists) and width != 1:
        raise SqlSyntaxError("subquery must return only one column", position=place)
    tree = name_outputs(bound, unique_names(bound.names)).tree
    query.replace(exp.Subquery(this=tree) if isinstance(query, exp.Subquery) else tree)


def _user_of(query: exp.Expression) -> exp.Expression | None:
    parent = query.parent
    while isinstance(parent, exp.Subquery | exp.Paren):
        parent = parent.parent
    return parent if isinstance(parent, exp.Expression) else None


def _width(node: exp.Expression) -> int:
    node = without_parentheses(node)
    return len(node.expressions) if isinstance(node, exp.Tuple) else 1


def refuse_outer_aggregates(node: exp.Expression, own_aliases: set[str]) -> None:
    """An aggregate over columns of an outer query alone would belong to that query."""
    for call in outside_subqueries(node):
        if not is_aggregate(call):
            continue
        tables = {column.table for column in call.find_all(exp.Column)}
        if tables and not tables & own_aliases:
            raise InvalidQuery(
                "an aggregate over columns of an outer query alone is not supported",
                hint="Compute the aggregate in the outer query.",
                sqlstate="0A000",
                position=place_of(call),
            )
