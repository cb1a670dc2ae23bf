"""ORDER BY, LIMIT and OFFSET.

A sort key is a column of the result, by number or by name, or else an expression over the sources; the
result's name wins (in GROUP BY it is the other way round).

    SELECT a AS b, b AS a FROM t ORDER BY a       sorts by the second column
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from midstream.errors import AmbiguousName, DataError, InvalidQuery, SqlSyntaxError, UndefinedName, Unsupported
from midstream.plan.context import Binding
from midstream.plan.nodes import bare, name_of, place_of, without_parentheses
from midstream.plan.scopes import did_you_mean
from midstream.plan.support import refuse_arguments


@dataclass(frozen=True)
class SortKey:
    """One key: the number of a result column (from 0), or an expression."""

    output: int | None
    expression: exp.Expression
    descending: bool
    nulls_first: bool

    def ordered(self, expression: exp.Expression) -> exp.Ordered:
        return exp.Ordered(this=expression, desc=self.descending, nulls_first=self.nulls_first)


def ordinal(node: exp.Expression, width: int, clause: str) -> int | None:
    """The result column, from 0, that a number in ORDER BY or GROUP BY means; None: it is no constant."""
    if not isinstance(node, exp.Literal | exp.Null | exp.Boolean):
        return None
    if not (isinstance(node, exp.Literal) and node.is_int):
        raise SqlSyntaxError(f"non-integer constant in {clause}", position=place_of(node))
    number = int(node.name)
    if not 1 <= number <= width:
        raise InvalidQuery(
            f"{clause} position {number} is not in select list", sqlstate="42P10", position=place_of(node)
        )
    return number - 1


def output_named(
    name: str, names: Sequence[str], outputs: Sequence[exp.Expression], node: exp.Expression
) -> int | None:
    """The result column of that name. Several are the same one if they are the same expression."""
    found = [i for i, candidate in enumerate(names) if candidate == name]
    if any(bare(outputs[i]) != bare(outputs[found[0]]) for i in found):
        raise AmbiguousName(f'"{name}" is ambiguous: several result columns have this name', position=place_of(node))
    return found[0] if found else None


def plain_name(node: exp.Expression) -> str | None:
    """The name, if the expression is nothing but a name without a table."""
    if isinstance(node, exp.Column) and not node.args.get("table") and not isinstance(node.this, exp.Star):
        return name_of(node.this)
    return None


def sort_keys(
    order: exp.Expression | None,
    names: Sequence[str],
    outputs: Sequence[exp.Expression],
    bind: Callable[[exp.Expression], exp.Expression],
) -> list[SortKey]:
    """The keys of a query's ORDER BY; `outputs` are its bound select list."""
    return [_sort_key(ordered, names, outputs, bind) for ordered in (order.expressions if order is not None else [])]


def _sort_key(
    ordered: exp.Expression,
    names: Sequence[str],
    outputs: Sequence[exp.Expression],
    bind: Callable[[exp.Expression], exp.Expression],
) -> SortKey:
    refuse_arguments(ordered, ("this", "desc", "nulls_first"))
    node = without_parentheses(ordered.this)
    descending = bool(ordered.args.get("desc"))
    given = ordered.args.get("nulls_first")
    nulls_first = descending if given is None else bool(given)
    index = ordinal(node, len(outputs), "ORDER BY")
    name = plain_name(node)
    if index is None and name is not None:
        index = output_named(name, names, outputs, node)
    if index is None:
        node = bind(node)
        index = next((i for i, output in enumerate(outputs) if bare(output) == node), None)
    expression = node if index is None else bare(outputs[index])
    return SortKey(index, expression, descending, nulls_first)


def resolve_output_keys(
    order: exp.Expression | None, names: Sequence[str], outputs: Sequence[exp.Expression]
) -> list[exp.Ordered]:
    """The keys where only result columns can be meant: over a set operation."""

    def refuse(node: exp.Expression) -> exp.Expression:
        name = plain_name(node)
        if name is not None:
            raise UndefinedName(
                f'column "{name}" does not exist',
                sqlstate="42703",
                hint=did_you_mean(name, names),
                position=place_of(node),
            )
        raise Unsupported(
            "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
            detail="Only result column names can be used, not expressions or functions.",
            hint="Add the expression to every SELECT, or move the UNION into a FROM clause.",
            position=place_of(node),
        )

    return [key.ordered(key.expression.copy()) for key in sort_keys(order, names, outputs, refuse)]


# --- LIMIT ---------------------------------------------------------------------------------------


def limit_and_offset(binding: Binding, query: exp.Expression) -> dict[str, exp.Expression]:
    """LIMIT and OFFSET as whole numbers; NULL and ALL mean none."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    found: dict[str, exp.Expression] = {}
    if limit is not None:
        count = _row_count(binding, _limit_count(limit), "LIMIT", "2201W")
        if count is not None:
            found["limit"] = exp.Limit(expression=exp.Literal.number(str(count)))
    if offset is not None:
        count = _row_count(binding, offset.expression, "OFFSET", "2201X")
        if count:
            found["offset"] = exp.Offset(expression=exp.Literal.number(str(count)))
    return found


def _limit_count(limit: exp.Expression) -> exp.Expression:
    refuse_arguments(limit, ("expression",))
    count = limit.expression
    assert isinstance(count, exp.Expression)
    return count


def _row_count(binding: Binding, node: exp.Expression, word: str, sqlstate: str) -> int | None:
    place = place_of(node)
    value = without_parentheses(node)
    if isinstance(value, exp.Parameter):
        value = binding.parameter(value)
    if isinstance(value, exp.Null) or (isinstance(value, exp.Var | exp.Column) and value.name.lower() == "all"):
        return None
    negative = isinstance(value, exp.Neg)
    number = value.this if negative else value
    if not (isinstance(number, exp.Literal) and number.is_int):
        raise Unsupported(
            f"{word} must be a whole number",
            hint="Write a number, or pass it as a parameter.",
            position=place,
        )
    if negative and int(number.name):
        raise DataError(f"{word} must not be negative", sqlstate=sqlstate, position=place)
    return int(number.name)
