"""Typed nodes, made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import md5

from sqlglot import exp

from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import column, is_query, named, quoted
from midstream.plan.render import KERNELS, refusal, render
from midstream.plan.typing.nodes import AggregateCall, Call, Raw, typed
from midstream.types import BIGINT, BOOLEAN, Type

Node = exp.Expression
EQUAL, NOT_DISTINCT = "=(comparable, comparable)", "is not distinct from(comparable, comparable)"
GREATER, AT_LEAST = ">(comparable, comparable)", ">=(comparable, comparable)"
LESS, AT_MOST = "<(comparable, comparable)", "<=(comparable, comparable)"


def stored_column(alias: str, name: str, type_: Type) -> Node:
    """A column that is read from files."""
    node = typed(column(alias, name), type_)
    return typed(Raw(this=node), type_) if type_.name == "interval" else node


def plain_column(alias: str, name: str, type_: Type) -> Node:
    """A column of a query."""
    return typed(column(alias, name), type_)


def call(signature: str, *arguments: Node, type_: Type | None = None) -> Node:
    result = FUNCTIONS[signature].result if type_ is None else type_
    assert isinstance(result, Type)
    return typed(Call(this=signature, expressions=list(arguments)), result)


def aggregate(
    signature: str,
    arguments: Sequence[Node],
    type_: Type,
    *,
    where: Node | None = None,
    order: Sequence[exp.Ordered] = (),
) -> AggregateCall:
    node = AggregateCall(
        this=signature,
        expressions=[argument.copy() for argument in arguments],
        distinct=False,
        order=exp.Order(expressions=[part.copy() for part in order]) if order else None,
        filter=where.copy() if where is not None else None,
    )
    return typed(node, type_)


def count_of_rows(where: Node | None = None) -> AggregateCall:
    return aggregate("count()", [], BIGINT, where=where)


def number(value: int, type_: Type = BIGINT) -> Node:
    return typed(exp.Literal(this=str(value), is_string=False), type_)


def both(conditions: Sequence[Node | None]) -> Node | None:
    """All of the conditions as one."""
    found = [condition.copy() for condition in conditions if condition is not None]
    result: Node | None = None
    for condition in found:
        result = condition if result is None else typed(exp.And(this=result, expression=condition), BOOLEAN)
    return result


def equated(condition: Node) -> Iterator[tuple[Node, Node]]:
    """The two sides of an equality, either way round; of any other condition none."""
    if isinstance(condition, Call) and condition.this == EQUAL:
        left, right = condition.expressions
        yield left, right
        yield right, left


def equated_columns(condition: Node) -> Iterator[tuple[exp.Column, exp.Column]]:
    for one, other in equated(condition):
        if isinstance(one, exp.Column) and isinstance(other, exp.Column):
            yield one, other


def select(
    outputs: Sequence[tuple[str, Node]],
    item: Node | None = None,
    *,
    joins: Sequence[exp.Join] = (),
    where: Node | None = None,
    group: Sequence[Node] = (),
) -> exp.Select:
    query = exp.Select(expressions=[output(node, name) for name, node in outputs])
    if item is not None:
        query.set("from_", exp.From(this=item))
    query.set("joins", list(joins))
    if where is not None:
        query.set("where", exp.Where(this=where))
    if group:
        query.set("group", exp.Group(expressions=[key.copy() for key in group]))
    return query


def output(node: Node, name: str) -> Node:
    alias = named(node.copy(), name)
    return alias


def derived(query: Node, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=quoted(alias)))


def text_of(node: Node) -> str:
    """One text for equal nodes: of the first kernel that can run it."""
    for kernel in KERNELS:
        if refusal(node, kernel) is None:
            return render(node, kernel)
    return repr(node)


def digest(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()[:10]


def own_nodes(node: Node) -> Iterator[Node]:
    """All nodes that belong to the query of an expression, subqueries and the function of a window left out."""
    stack = [node]
    while stack:
        found = stack.pop()
        if is_query(found):
            continue
        yield found
        if isinstance(found, exp.Window):
            function = found.this
            stack += [part for part in found.iter_expressions() if part is not function]
            stack += list(function.iter_expressions())
        else:
            stack += list(found.iter_expressions())


def aggregates_of(node: Node) -> list[AggregateCall]:
    """The aggregates of the query that an expression stands in."""
    return [found for found in own_nodes(node) if isinstance(found, AggregateCall) and found.this != "grouping"]
