"""cq_delta() and cq_old_value(column) in the select list of a continuous query: what it hands out beside the row.

SELECT acct, sum(amt) AS amt, cq_delta() AS kind, cq_old_value(amt) AS was FROM …
the row: SELECT acct, sum(amt) AS amt FROM …      beside it: what happened, as kind; the old amt, as was
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from midstream.errors import InvalidQuery, Position, UndefinedName
from midstream.sql.positions import position_of
from midstream.sql.statements import Sql

DELTA, OLD_VALUE = "cq_delta", "cq_old_value"
Node = exp.Expression


@dataclass(frozen=True)
class Item:
    """An item of the select list: of the row (`function` is None), or one of the two functions."""

    function: str | None
    alias: str | None = None
    argument: Node | None = None
    node: Node | None = None


def row_query(query: Sql) -> Sql:
    """The query of the row alone."""
    return Sql(row_tree(query.tree()), query.text)


def row_tree(tree: Node) -> Node:
    for select in _outermost(tree):
        place = position_of(select.expressions[0])
        select.set("expressions", [node for node in select.expressions if _function(node) is None])
        if not select.expressions:
            raise InvalidQuery(
                "a continuous query needs a column of its own in the select list",
                hint="cq_delta() and cq_old_value() tell how a row changed; name the columns of the row beside them.",
                position=place,
            )
    for node in tree.find_all(exp.Anonymous):
        if node.name.lower() in (DELTA, OLD_VALUE):
            raise InvalidQuery(
                f"{node.name.lower()}() may stand only in the outermost select list, by itself",
                hint="Write it as a column of its own, and compute with it in a view over the destination.",
                position=position_of(node),
            )
    return tree


def items_of(query: Sql) -> list[Item]:
    """The outermost select list of a query without stars; branches of UNION ALL agree on it. VALUES have none."""
    lists = _lists_of(query)
    for other in lists[1:]:
        if [item.function for item in other] != [item.function for item in lists[0]]:
            raise InvalidQuery(f"every branch of UNION ALL needs {DELTA}() and {OLD_VALUE}() at the same places")
    return lists[0] if lists else []


def arguments_of(query: Sql) -> list[Node]:
    """What the old values are of, as it was written, with its stars."""
    return [item.argument for items in _lists_of(query)[:1] for item in items if item.argument is not None]


def _lists_of(query: Sql) -> list[list[Item]]:
    tree = query.tree()
    return [[_item(node) for node in select.expressions] for select in _outermost(tree) or _leading(tree)]


def place_of_old(item: Item, items: Sequence[Item], names: Sequence[str], position: Position | None) -> int:
    """Which column of the row an old value is of: the one of that name, or that is the same expression."""
    argument = item.argument
    assert argument is not None
    if isinstance(argument, exp.Column) and argument.name in names:
        return list(names).index(argument.name)
    rows = [other.node for other in items if other.function is None]
    for place, node in enumerate(rows):
        if node is not None and (node.this if isinstance(node, exp.Alias) else node) == argument:
            return place
    raise UndefinedName(
        f"{OLD_VALUE}() takes a column of the select list",
        detail="Its columns are " + ", ".join(names) + ".",
        sqlstate="42703",
        position=position,
    )


def _item(node: Node) -> Item:
    function = _function(node)
    if function is None:
        return Item(None, node=node)
    call = node.this if isinstance(node, exp.Alias) else node
    wanted = 0 if function == DELTA else 1
    if len(call.expressions) != wanted:
        raise InvalidQuery(
            f"{function}() takes {'no argument' if not wanted else 'one column'}", position=position_of(call)
        )
    return Item(function, node.alias or function, call.expressions[0] if wanted else None, node)


def _function(node: Node) -> str | None:
    call = node.this if isinstance(node, exp.Alias) else node
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    return name if name in (DELTA, OLD_VALUE) else None


def _leading(tree: Node | None) -> list[exp.Select]:
    while tree is not None and not isinstance(tree, exp.Select):
        tree = tree.this
    return [] if tree is None else [tree]


def _outermost(tree: Node) -> list[exp.Select]:
    if isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.Union) and not tree.args.get("distinct", True):
        return _outermost(tree.this) + _outermost(tree.expression)
    if isinstance(tree, exp.Subquery):
        return _outermost(tree.this)
    return []
