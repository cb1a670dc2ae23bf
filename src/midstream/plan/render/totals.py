"""The grand total over no rows, on Spark.

ROLLUP, CUBE and GROUPING SETS with an empty set give one row also when there are no rows. Spark gives none, so its
text gets that row from a second query, which is there only when the first has no rows to read:

    SELECT a, count(*) FROM t GROUP BY ROLLUP (a)
    UNION ALL SELECT * FROM (SELECT NULL, count(*) FROM t WHERE false) WHERE NOT EXISTS (SELECT 1 FROM t)
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.functions.model import KernelRefuses
from midstream.plan.typing.conversion import null_of
from midstream.plan.typing.nodes import AggregateCall, Call, type_of, typed
from midstream.plan.typing.queries import over_query
from midstream.types import BIGINT, BOOLEAN, INT

_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


def has_sets(select: exp.Select) -> bool:
    group = select.args.get("group")
    return group is not None and any(isinstance(element, _SETS) for element in group.expressions)


def empty_sets(select: exp.Select) -> int:
    """How many of the grouping sets have no key at all."""
    if not has_sets(select):
        return 0
    group = select.args["group"]
    count = 1
    for element in group.expressions:
        count *= _empty_sets_of(element)
    return count


def _empty_sets_of(element: exp.Expression) -> int:
    if isinstance(element, (exp.Rollup, exp.Cube)):
        return 1
    if isinstance(element, exp.GroupingSets):
        return sum(_empty_sets_of(part) for part in element.expressions)
    return int(isinstance(element, exp.Tuple) and not element.expressions)


def total_over_no_rows(select: exp.Select) -> exp.Select:
    """The row of one empty set, where the query reads no rows; KernelRefuses where it cannot be written apart."""
    if select.find(exp.Window) or select.args.get("distinct") or select.args.get("order") or _is_correlated(select):
        raise KernelRefuses("Spark gives no grand total over no rows")
    keys = _keys(select.args["group"])
    total = select.copy()
    for clause in ("group", "limit", "offset", "with_"):
        total.set(clause, None)
    total.set("expressions", [_without_keys(output, keys) for output in total.expressions])
    _make_one_group(total, _without_keys(total.args["having"].this, keys) if total.args.get("having") else None)
    total.set("where", exp.Where(this=typed(exp.Boolean(this=False), BOOLEAN)))
    result = over_query(total)
    result.set("where", exp.Where(this=typed(exp.Not(this=_has_rows(select)), BOOLEAN)))
    return result


def has_keys(select: exp.Select) -> bool:
    return bool(_keys(select.args["group"]))


def only_total(select: exp.Select) -> exp.Select:
    """The row of one empty set, where no set has a key: there is one for all rows, and over no rows too."""
    total = select.copy()
    total.set("group", None)
    _make_one_group(total, total.args["having"].this if total.args.get("having") else None)
    return total


def _make_one_group(total: exp.Select, own: exp.Expression | None) -> None:
    """Where no output is an aggregate, this condition makes the query one of one group."""
    condition: exp.Expression = typed(Call(this=">=(comparable, comparable)", expressions=_count_and_zero()), BOOLEAN)
    if own is not None:
        condition = typed(exp.And(this=condition, expression=own), BOOLEAN)
    total.set("having", exp.Having(this=condition))


def _count_and_zero() -> list[exp.Expression]:
    zero = typed(exp.Literal.number("0"), BIGINT)
    return [typed(AggregateCall(this="count()", expressions=[]), BIGINT), zero]


def _has_rows(select: exp.Select) -> exp.Expression:
    one = typed(exp.Alias(this=typed(exp.Literal.number("1"), INT), alias=exp.to_identifier("one", quoted=True)), INT)
    source = exp.Select(expressions=[one])
    for clause in ("from_", "joins", "where"):
        value = select.args.get(clause)
        if value:
            source.set(clause, [part.copy() for part in value] if isinstance(value, list) else value.copy())
    return typed(exp.Exists(this=source), BOOLEAN)


def _keys(group: exp.Expression) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    stack = list(group.expressions)
    while stack:
        element = stack.pop()
        if isinstance(element, (*_SETS, exp.Tuple)):
            stack += element.expressions
        else:
            found.append(element)
    return found


def _without_keys(node: exp.Expression, keys: list[exp.Expression]) -> exp.Expression:
    """In the grand total all keys are NULL, and grouping() of them says so."""
    if node in keys:
        return null_of(type_of(node))
    if isinstance(node, AggregateCall):
        if node.this != "grouping":
            return node
        return typed(exp.Literal.number(str(2 ** len(node.expressions) - 1)), INT)
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            node.set(key, _without_keys(value, keys))
        elif isinstance(value, list):
            node.set(key, [_without_keys(v, keys) if isinstance(v, exp.Expression) else v for v in value])
    return node


def _is_correlated(select: exp.Select) -> bool:
    """Whether it uses columns of a query around it."""
    own = {alias.name for alias in select.find_all(exp.TableAlias)} | {
        table.alias_or_name for table in select.find_all(exp.Table)
    }
    return any(column.table and column.table not in own for column in select.find_all(exp.Column))
