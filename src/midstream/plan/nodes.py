"""Small pieces of syntax trees: how binding reads a name, and how it writes one.

Every name that binding writes is quoted, so that a kernel takes it letter by letter.

    >>> column("t", "a").sql()
    '"t"."a"'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from midstream.errors import Position
from midstream.sql.positions import mark, position_of


def name_of(identifier: exp.Expression | str | None) -> str:
    """The name that an identifier stands for: lower case unless it was quoted."""
    if identifier is None:
        return ""
    if isinstance(identifier, str):
        return identifier
    text = identifier.name
    return text if identifier.args.get("quoted") else text.lower()


def quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def column(source: str, name: str) -> exp.Column:
    return exp.Column(this=quoted(name), table=quoted(source))


def table_alias(name: str, columns: Sequence[str] = ()) -> exp.TableAlias:
    return exp.TableAlias(this=quoted(name), columns=[quoted(c) for c in columns])


def named(expression: exp.Expression, name: str) -> exp.Alias:
    return exp.Alias(this=bare(expression), alias=quoted(name))


def bare(expression: exp.Expression) -> exp.Expression:
    """The expression without the name given to it by AS."""
    return child(expression) if isinstance(expression, exp.Alias) else expression


def child(node: exp.Expression) -> exp.Expression:
    """What stands in `this`, where that is known to be a node."""
    inner = node.this
    assert isinstance(inner, exp.Expression)
    return inner


def without_parentheses(expression: exp.Expression) -> exp.Expression:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def derived(query: exp.Expression, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=table_alias(alias))


def count_rows() -> exp.Count:
    return exp.Count(this=exp.Star(), big_int=True)


def place_of(node: exp.Expression | None) -> Position | None:
    return None if node is None else position_of(node)


def keep_place(new: exp.Expression, old: exp.Expression) -> exp.Expression:
    """A node that replaces another stands where that one stood."""
    place = position_of(old)
    if place is not None:
        mark(new, place)
    return new


def replace_item(item: exp.Expression, new: exp.Expression) -> None:
    """Puts another item in the place of one of FROM; what it is joined with in its parentheses stays."""
    if item.args.get("joins"):
        new.set("joins", item.args["joins"])
    item.replace(new)


def forget_places(tree: exp.Expression) -> exp.Expression:
    """For a view's text: its places mean nothing in the statement that reads the view."""
    for node in tree.walk():
        for key in ("position", "operator_position"):
            node.meta.pop(key, None)
    return tree


def is_query(node: object) -> bool:
    return isinstance(node, exp.Select | exp.SetOperation | exp.Values | exp.Subquery)


def outside_subqueries(node: exp.Expression) -> Iterator[exp.Expression]:
    """All nodes of an expression that belong to its own query; a subquery is handed out, what is in it is not."""
    return (found for found in node.walk(prune=is_query) if isinstance(found, exp.Expression))


def subqueries(node: exp.Expression) -> Iterator[exp.Expression]:
    return (found for found in outside_subqueries(node) if is_query(found))


def is_constant(node: exp.Expression) -> bool:
    """A literal, or a cast of one: the same in every row."""
    node = without_parentheses(bare(node))
    if isinstance(node, exp.Cast | exp.Neg):
        return is_constant(node.this)
    return isinstance(node, exp.Literal | exp.Null | exp.Boolean)


def conjuncts(condition: exp.Expression | None) -> list[exp.Expression]:
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return [part for side in (condition.this, condition.expression) for part in conjuncts(side)]
    return [condition]
