"""MERGE as one query: source joined to target, the first WHEN clause that holds for each pair, and what it does.

The inner query numbers the clause; the outer one computes only that clause's values. A target row that two
source rows match comes out twice, and it is for the caller to refuse that.

    MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT …
    _row_id 7, 'U', …;  _row_id NULL, 'I', …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from midstream.errors import SqlSyntaxError, Unsupported
from midstream.plan import queries, sources
from midstream.plan.assignments import Values, bind_set, bind_value, target_columns
from midstream.plan.bound import BoundQuery, Output, assign, infer, rename_outputs, seal, top_select
from midstream.plan.calls import refuse_calls
from midstream.plan.changes import ROW_ID_OUTPUT, column_outputs, target_source
from midstream.plan.context import BindContext, Binding
from midstream.plan.expressions import bind_expression
from midstream.plan.nodes import bare, child, column, derived, name_of, named, place_of
from midstream.plan.scopes import Namespace, Scope, Source
from midstream.plan.statements import default_of, new_binding
from midstream.plan.support import refuse_arguments
from midstream.plan.trees import unique_names
from midstream.plan.typing.nodes import typed
from midstream.relations.schema import Schema
from midstream.relations.table import ROW_ID, Table
from midstream.sql.statements import Merge
from midstream.types import TEXT

Action = Literal["I", "U", "D", "-"]
ACTION_OUTPUT = Output("_action", TEXT)
_PRESENT = "source_present"


@dataclass
class _Clause:
    """One WHEN: `-` does nothing. `case` says which pairs it is for."""

    case: Literal["matched", "not in target", "not in source"]
    condition: exp.Expression | None
    action: Action
    values: Values = field(default_factory=dict)


@dataclass(frozen=True)
class _Sides:
    target: Source
    source: Namespace
    present: exp.Column
    """A column of the source that is NULL where no source row is."""


def bind_merge(statement: Merge, table: Table, schema: Schema, context: BindContext) -> BoundQuery:
    """`_row_id` (NULL for inserts), `_action` 'I', 'U' or 'D', and every column (NULL for deletes)."""
    binding, tree = new_binding(schema, context), statement.tree.tree()
    refuse_arguments(tree, ("this", "using", "on", "whens", "with_"))
    scope, ctes = queries.bind_with(binding, tree.args.get("with_"), Scope())
    item, target = target_source(binding, tree.this, table)
    using, sides = _bind_source(binding, tree.args["using"], target, scope)
    clauses = [_bind_clause(binding, when, sides, table, scope) for when in tree.args["whens"].expressions]
    _check_reachable(clauses, tree)
    both = scope.inside(Namespace.of(target).with_all_of(sides.source))
    on = bind_expression(binding, tree.args["on"], both)
    refuse_calls(on, "JOIN conditions")
    pairs = exp.Select()
    pairs.set("from_", exp.From(this=using))
    pairs.set("joins", [exp.Join(this=item, side=_join_side(clauses), on=on)])
    select = _over_pairs(binding, pairs, clauses, sides, table)
    if ctes:
        select.set("with_", exp.With(expressions=ctes))
    flat = top_select(infer(binding, select, keep_unknown=True))
    outputs = [ROW_ID_OUTPUT, ACTION_OUTPUT, *column_outputs(table)]
    return seal(binding, _assemble(flat, clauses, table), outputs)


def _bind_source(binding: Binding, node: exp.Expression, target: Source, scope: Scope) -> tuple[exp.Expression, _Sides]:
    """The source as a derived table with one more column, which is NULL where no source row is."""
    item, namespace = sources.bind_item(binding, node, scope, Namespace())
    Namespace.of(target).with_all_of(namespace)
    alias = binding.fresh_alias("source")
    names = unique_names([*(visible.name for visible in namespace.columns), _PRESENT])
    outputs = [named(visible.node.copy(), name) for visible, name in zip(namespace.columns, names, strict=False)]
    select = exp.Select(expressions=[*outputs, named(exp.true(), names[-1])])
    select.set("from_", exp.From(this=item))
    moved = {visible.node.sql(): column(alias, name) for visible, name in zip(namespace.columns, names, strict=False)}
    return derived(select, alias), _Sides(target, _moved(namespace, alias, moved), column(alias, names[-1]))


def _moved(namespace: Namespace, alias: str, moved: dict[str, exp.Column]) -> Namespace:
    """The source's names, over the derived table that now holds it."""
    [source] = namespace.all_sources if len(namespace.all_sources) == 1 else [None]
    if source is None:
        raise Unsupported("the source of MERGE must be one relation", hint="Put the join into a subquery.")
    columns = tuple(type(own)(own.name, moved[source.column(own.kernel_name).sql()].name) for own in source.columns)
    return Namespace.of(Source(source.name, alias, columns, None, source.relation_name, source.place))


# --- clauses -------------------------------------------------------------------------------------


def _bind_clause(binding: Binding, when: exp.Expression, sides: _Sides, table: Table, scope: Scope) -> _Clause:
    refuse_arguments(when, ("matched", "source", "condition", "then"))
    target, source = Namespace.of(sides.target), sides.source
    if when.args.get("matched"):
        inside = scope.inside(target.with_all_of(source))
        clause = _Clause("matched", None, "-")
    elif when.args.get("source"):
        inside, clause = scope.inside(target), _Clause("not in source", None, "-")
    else:
        inside, clause = scope.inside(source), _Clause("not in target", None, "-")
    condition = when.args.get("condition")
    if condition is not None:
        clause.condition = bind_expression(binding, condition, inside)
        refuse_calls(clause.condition, "MERGE WHEN conditions")
    _bind_action(binding, when, clause, sides, table, inside)
    return clause


def _bind_action(
    binding: Binding, when: exp.Expression, clause: _Clause, sides: _Sides, table: Table, scope: Scope
) -> None:
    then = when.args["then"]
    word = then.name.upper() if isinstance(then, exp.Var) else ""
    if word == "DO NOTHING":
        return
    if word == "DELETE" and clause.case != "not in target":
        clause.action = "D"
    elif isinstance(then, exp.Update) and clause.case != "not in target":
        clause.action = "U"
        new = bind_set(binding, then.expressions, table, scope, "MERGE")
        clause.values = {own: new.get(own) or sides.target.column(own) for own in table.column_names}
    elif isinstance(then, exp.Insert) and clause.case == "not in target":
        clause.action = "I"
        clause.values = _insert_values(binding, then, table, scope)
    else:
        raise SqlSyntaxError(
            "this WHEN clause cannot have this action",
            hint="Rows of the target are updated or deleted, rows without one are inserted.",
            position=place_of(when),
        )


def _insert_values(binding: Binding, insert: exp.Insert, table: Table, scope: Scope) -> Values:
    listed = insert.this.expressions if isinstance(insert.this, exp.Tuple) else []
    columns = target_columns([name_of(node.this if isinstance(node, exp.Column) else node) for node in listed], table)
    rows = insert.args.get("expression")
    cells = list(rows.expressions) if rows is not None else []
    if rows is not None and (len(cells) > len(columns) or (listed and len(cells) < len(columns))):
        more, fewer = (
            ("expressions", "target columns") if len(cells) > len(columns) else ("target columns", "expressions")
        )
        raise SqlSyntaxError(f"INSERT has more {more} than {fewer}", position=place_of(insert))
    values = {
        own.name: bind_value(binding, cell, own, scope, "MERGE") for own, cell in zip(columns, cells, strict=False)
    }
    return {own.name: values.get(own.name) or default_of(binding, own) for own in table.columns}


def _check_reachable(clauses: Sequence[_Clause], tree: exp.Expression) -> None:
    closed: set[str] = set()
    for clause in clauses:
        if clause.case in closed:
            raise SqlSyntaxError(
                "unreachable WHEN clause specified after unconditional WHEN clause", position=place_of(tree)
            )
        if clause.condition is None:
            closed.add(clause.case)


def _join_side(clauses: Sequence[_Clause]) -> str | None:
    """The source stands left; rows without a partner are needed only for clauses that act on them."""
    acting = {clause.case for clause in clauses if clause.action != "-"}
    sides = {
        (True, True): "FULL",
        (True, False): "LEFT",
        (False, True): "RIGHT",
    }
    return sides.get(("not in target" in acting, "not in source" in acting))


# --- the two queries -----------------------------------------------------------------------------


def _over_pairs(
    binding: Binding, pairs: exp.Select, clauses: Sequence[_Clause], sides: _Sides, table: Table
) -> exp.Select:
    """Outer query: the row id, for each clause whether it is the one, then all values of all clauses."""
    alias = binding.fresh_alias("pair")
    carried = _Carried(alias, {sides.target.alias, sides.present.table})
    row_id = carried.column(sides.target.column(ROW_ID))
    values = [carried.moved(clause.values[own]) for clause in clauses for own in clause.values]
    clause_number = _clause_number(clauses, sides)
    pairs.set("expressions", [*carried.outputs(), named(clause_number, _CLAUSE)])
    acting = [i + 1 for i, clause in enumerate(clauses) if clause.action != "-"]
    tests = [exp.EQ(this=column(alias, _CLAUSE), expression=_number(i + 1)) for i in range(len(clauses))]
    outer = exp.Select(expressions=[row_id, *tests, *values])
    outer.set("from_", exp.From(this=derived(pairs, alias)))
    chosen = exp.In(this=column(alias, _CLAUSE), expressions=[_number(i) for i in acting or [0]])
    outer.set("where", exp.Where(this=chosen))
    return outer


_CLAUSE = "clause"


def _number(value: int) -> exp.Expression:
    return exp.Literal.number(str(value))


def _clause_number(clauses: Sequence[_Clause], sides: _Sides) -> exp.Case:
    no_target = exp.Is(this=sides.target.column(ROW_ID), expression=exp.Null())
    no_source = exp.Is(this=sides.present.copy(), expression=exp.Null())
    tests = {
        "matched": exp.and_(exp.Not(this=no_target.copy()), exp.Not(this=no_source.copy())),
        "not in target": no_target,
        "not in source": no_source,
    }
    branches = []
    for number, clause in enumerate(clauses, start=1):
        parts = [tests[clause.case].copy(), *([clause.condition] if clause.condition is not None else [])]
        branches.append(exp.If(this=exp.and_(*parts, copy=False), true=_number(number)))
    return exp.Case(ifs=branches)


@dataclass
class _Carried:
    """The columns of both sides that the outer query needs, under names of their own."""

    alias: str
    sides: set[str]
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def column(self, node: exp.Column) -> exp.Column:
        name = self.names.setdefault((node.table, node.name), f"p{len(self.names)}")
        return column(self.alias, name)

    def moved(self, expression: exp.Expression) -> exp.Expression:
        holder = exp.Paren(this=expression.copy())
        for node in list(holder.find_all(exp.Column)):
            if node.table in self.sides:
                node.replace(self.column(node))
        return child(holder)

    def outputs(self) -> list[exp.Expression]:
        return [named(column(table, name), carried) for (table, name), carried in self.names.items()]


def _assemble(flat: exp.Select, clauses: Sequence[_Clause], table: Table) -> exp.Select:
    """The typed parts as result columns: a CASE over the clauses for the action and for each column."""
    parts = [bare(node) for node in flat.expressions]
    row_id, tests, rest = parts[0], parts[1 : len(clauses) + 1], iter(parts[len(clauses) + 1 :])
    values = [{own: next(rest) for own in clause.values} for clause in clauses]
    actions = [
        (test, typed(exp.Literal.string(clause.action), TEXT))
        for test, clause in zip(tests, clauses, strict=True)
        if clause.action != "-"
    ]
    columns: list[exp.Expression] = [typed(_case(actions), TEXT)] if actions else [typed(exp.Null(), TEXT)]
    for own in table.columns:
        branches = [(test, assign(given[own.name], own)) for test, given in zip(tests, values, strict=True) if given]
        columns.append(typed(_case(branches), own.type) if branches else typed(exp.Null(), own.type))
    return rename_outputs(flat, [row_id, *columns])


def _case(branches: Sequence[tuple[exp.Expression, exp.Expression]]) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=test.copy(), true=value) for test, value in branches])
