"""GROUP BY: what its keys mean, and that nothing else is used outside aggregates.

A key is a number of the select list, a column of the sources, or else a name of the select list, in this
order. Columns that a primary key among the keys determines may be used too; they become keys themselves.

    SELECT u.name, count(*) FROM users u, orders GROUP BY u.id      GROUP BY u.id, u.name
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from midstream.errors import InvalidQuery, Unsupported
from midstream.plan.calls import has_aggregate, is_aggregate, refuse_calls, windowed_function
from midstream.plan.nodes import bare, count_rows, is_constant, is_query, place_of, without_parentheses
from midstream.plan.ordering import ordinal, output_named, plain_name
from midstream.plan.scopes import Scope, Source
from midstream.plan.support import refuse_arguments

_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


@dataclass
class Grouping:
    """The keys of one query. `elements` is what stands behind GROUP BY, `keys` all expressions in it."""

    elements: list[exp.Expression] = field(default_factory=list)
    keys: list[exp.Expression] = field(default_factory=list)
    has_sets: bool = False

    def columns(self, alias: str) -> set[str]:
        return {key.name for key in self.keys if isinstance(key, exp.Column) and key.table == alias}


@dataclass(frozen=True)
class _Resolver:
    names: Sequence[str]
    outputs: Sequence[exp.Expression]
    scope: Scope
    bind: Callable[[exp.Expression], exp.Expression]

    def key(self, node: exp.Expression) -> exp.Expression:
        node = without_parentheses(node)
        index = ordinal(node, len(self.outputs), "GROUP BY")
        name = plain_name(node)
        if index is None and name is not None and not self.scope.namespace.named(name):
            index = output_named(name, self.names, self.outputs, node)
        bound = bare(self.outputs[index]).copy() if index is not None else self.bind(node)
        refuse_calls(bound, "GROUP BY")
        return bound


def resolve_grouping(
    group: exp.Expression | None,
    names: Sequence[str],
    outputs: Sequence[exp.Expression],
    scope: Scope,
    bind: Callable[[exp.Expression], exp.Expression],
) -> Grouping | None:
    """The keys of GROUP BY; None: there is no such clause."""
    if group is None:
        return None
    refuse_arguments(group, ("expressions", "grouping_sets", "rollup", "cube"))
    resolver, grouping = _Resolver(names, outputs, scope, bind), Grouping()
    written = [
        *group.expressions,
        *(part for key in ("grouping_sets", "rollup", "cube") for part in group.args.get(key) or []),
    ]
    for element in written:
        grouping.elements += _resolve_element(element, resolver, grouping)
    return grouping


def _resolve_element(element: exp.Expression, resolver: _Resolver, grouping: Grouping) -> list[exp.Expression]:
    if isinstance(element, _SETS):
        grouping.has_sets = True
        return [_resolve_sets(element, resolver, grouping)]
    if isinstance(element, exp.Tuple):
        return [_add_key(part, resolver, grouping) for part in element.expressions]
    return [_add_key(element, resolver, grouping)]


def _resolve_sets(sets: exp.Expression, resolver: _Resolver, grouping: Grouping) -> exp.Expression:
    """GROUPING SETS, ROLLUP or CUBE; each member is a key, a list of keys, or again one of these."""
    members: list[exp.Expression] = []
    for member in sets.expressions:
        if isinstance(member, _SETS):
            members.append(_resolve_sets(member, resolver, grouping))
        elif isinstance(member, exp.Tuple):
            members.append(exp.Tuple(expressions=[_add_key(part, resolver, grouping) for part in member.expressions]))
        else:
            members.append(exp.Tuple(expressions=[_add_key(member, resolver, grouping)]))
    return type(sets)(expressions=members)


def _add_key(node: exp.Expression, resolver: _Resolver, grouping: Grouping) -> exp.Expression:
    key = resolver.key(node)
    if key not in grouping.keys:
        grouping.keys.append(key)
    return key.copy()


# --- what may be used ----------------------------------------------------------------------------


def check_grouped(expressions: Iterable[exp.Expression], grouping: Grouping, sources: Sequence[Source]) -> None:
    """Raises for a column that is neither a key nor inside an aggregate."""
    by_alias = {source.alias: source for source in sources}
    for expression in expressions:
        _check_grouped(expression, grouping, by_alias)


def _check_grouped(expression: exp.Expression, grouping: Grouping, sources: dict[str, Source]) -> None:
    stack: list[tuple[exp.Expression, bool]] = [(bare(expression), False)]
    while stack:
        node, in_subquery = stack.pop()
        if node in grouping.keys:
            continue
        if isinstance(node, exp.Column):
            if node.table in sources:
                _check_column(node, grouping, sources[node.table], in_subquery)
        elif not in_subquery and _is_aggregate_call(node):
            continue
        elif not in_subquery and isinstance(node, exp.Grouping):
            _check_grouping_call(node, grouping)
        else:
            in_subquery = in_subquery or is_query(node)
            stack += [(child, in_subquery) for child in _parts(node)]


def _check_grouping_call(call: exp.Grouping, grouping: Grouping) -> None:
    wrong = next((argument for argument in call.expressions if argument not in grouping.keys), None)
    if wrong is not None:
        raise InvalidQuery(
            "arguments to GROUPING must be grouping expressions of the associated query level",
            position=place_of(wrong),
        )
    constant = next((argument for argument in call.expressions if is_constant(argument)), None)
    if constant is not None:
        raise Unsupported("GROUPING of a constant is not supported", detail="It would be 0.", position=place_of(call))


def _is_aggregate_call(node: exp.Expression) -> bool:
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    return is_aggregate(node)


def _parts(node: exp.Expression) -> list[exp.Expression]:
    """The children; for a window function those of its arguments, since it is no aggregate of this query."""
    if not isinstance(node, exp.Window):
        return list(node.iter_expressions())
    function = windowed_function(node)
    parts = list(function.iter_expressions())
    wrapper = node.this
    while wrapper is not function:
        parts += [child for child in wrapper.iter_expressions() if child is not wrapper.this]
        wrapper = wrapper.this
    return parts + [child for child in node.iter_expressions() if child is not node.this]


def _check_column(node: exp.Column, grouping: Grouping, source: Source, in_subquery: bool) -> None:
    if _is_determined(source, grouping):
        grouping.keys.append(node.copy())
        grouping.elements.append(node.copy())
        return
    written = next((c.name for c in source.columns if c.kernel_name == node.name), node.name)
    name = f"{source.name}.{written}" if source.name else written
    if in_subquery:
        raise InvalidQuery(f'subquery uses ungrouped column "{name}" from outer query', position=place_of(node))
    raise InvalidQuery(
        f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate function',
        hint=_hint_of_hidden(source, written),
        position=place_of(node),
    )


def _hint_of_hidden(source: Source, name: str) -> str | None:
    if not any(hidden.name == name for hidden in source.hidden):
        return None
    return (
        f'This is a column of "{source.relation_name}", which hides the bound of the window that has the same name. '
        f'Give it another name in "{source.relation_name}".'
    )


def _is_determined(source: Source, grouping: Grouping) -> bool:
    """Whether the keys hold the primary key of the source's table."""
    if grouping.has_sets or source.table is None or source.table.primary_key is None:
        return False
    return set(source.table.primary_key.columns) <= grouping.columns(source.alias)


# --- as a clause ---------------------------------------------------------------------------------


def group_clause(grouping: Grouping) -> tuple[exp.Group | None, exp.Expression | None]:
    """GROUP BY for the kernels, and a condition that HAVING needs beside it.

    A constant key would be read as a column's number, so constants go. Where nothing is left, one group of
    all rows remains, which must not be there when there are no rows, unless GROUP BY () asked for just that."""
    has_rows = exp.GT(this=count_rows(), expression=exp.Literal.number("0"))
    if grouping.has_sets:
        constants = [key for key in grouping.keys if is_constant(key)]
        for constant in constants:
            _check_in_every_set(constant, grouping)
        elements = [_without_constants(element) for element in grouping.elements if not is_constant(element)]
        return exp.Group(expressions=elements), has_rows if constants else None
    elements = [element for element in grouping.elements if not is_constant(element)]
    if elements:
        return exp.Group(expressions=elements), None
    at_all = exp.GTE(this=count_rows(), expression=exp.Literal.number("0"))
    return None, has_rows if grouping.elements else at_all


def _check_in_every_set(constant: exp.Expression, grouping: Grouping) -> None:
    """Where some sets have it and others do not, it is NULL in those, and so no constant."""
    if not any(_always_has(element, constant) for element in grouping.elements):
        raise Unsupported(
            "a constant in some of the GROUPING SETS, or in ROLLUP or CUBE, is not supported",
            detail="The bounds of a window are constants, too.",
            hint="Put it into every set, or before them: GROUP BY window_start, ROLLUP (a, b).",
            position=place_of(constant),
        )


def _always_has(element: exp.Expression, key: exp.Expression) -> bool:
    """Whether all sets that an element of GROUP BY stands for have a key."""
    if isinstance(element, exp.GroupingSets):
        return all(_always_has(member, key) for member in element.expressions)
    if isinstance(element, exp.Tuple):
        return key in element.expressions
    return element == key


def _without_constants(element: exp.Expression) -> exp.Expression:
    if isinstance(element, exp.Tuple):
        return exp.Tuple(expressions=[part for part in element.expressions if not is_constant(part)])
    if isinstance(element, _SETS):
        return type(element)(expressions=[_without_constants(member) for member in element.expressions])
    return element


def is_grouped(grouping: Grouping | None, having: exp.Expression | None, expressions: Iterable[exp.Expression]) -> bool:
    return grouping is not None or having is not None or any(has_aggregate(e) for e in expressions)
