"""Calls that do something: SELECT cq_recompute('name'), SELECT unsubscribe('queue', 'subscriber'), and
dequeue('queue', 'subscriber', 100) in FROM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from midstream.errors import InvalidParameter, Position, SqlSyntaxError
from midstream.sql.positions import position_of
from midstream.sql.statements import Sql

RECOMPUTE, DEQUEUE, UNSUBSCRIBE = "cq_recompute", "dequeue", "unsubscribe"
PROCEDURES = {
    RECOMPUTE: "Call it by itself: SELECT cq_recompute('query').",
    DEQUEUE: "It stands in FROM: SELECT * FROM dequeue('queue', 'subscriber').",
    UNSUBSCRIBE: "Call it by itself: SELECT unsubscribe('queue', 'subscriber').",
}
"""How each is called."""


@dataclass(frozen=True)
class ProcedureCall:
    name: str
    """What its column or its rows are called."""
    arguments: tuple[object, ...]
    position: Position | None
    highest_parameter: int = 0
    """The largest n of the $n among its arguments."""


def procedure_call(query: Sql, parameters: Sequence[object], name: str) -> ProcedureCall | None:
    """SELECT name(…); None: it is another query."""
    if name not in query.text.lower():
        return None
    tree = query.tree()
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or tree.args.get("from_"):
        return None
    [item] = tree.expressions
    call = item.this if isinstance(item, exp.Alias) else item
    if not _is_call(call, name):
        return None
    return ProcedureCall(item.alias or name, _arguments(call, parameters), position_of(call))


def take_dequeues(query: Sql, parameters: Sequence[object]) -> tuple[Sql, list[ProcedureCall]]:
    """The query with names in place of its calls of dequeue(), and these."""
    if DEQUEUE not in query.text.lower():
        return query, []
    tree, calls = query.tree(), list[ProcedureCall]()
    for node in [table for table in tree.find_all(exp.Table) if _is_call(table.this, DEQUEUE)]:
        name = f"~dequeued {len(calls) + 1}"
        numbers = [int(parameter.name) for parameter in node.this.find_all(exp.Parameter)]
        values = _arguments(node.this, parameters)
        calls.append(ProcedureCall(name, values, position_of(node.this), max(numbers, default=0)))
        node.set("this", exp.to_identifier(name, quoted=True))
        if not node.args.get("alias"):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(DEQUEUE, quoted=True)))
    return Sql(tree, query.text), calls


def _is_call(node: object, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == name


def _arguments(call: exp.Expression, parameters: Sequence[object]) -> tuple[object, ...]:
    return tuple(_value(node, parameters) for node in call.expressions)


def _value(node: exp.Expression, parameters: Sequence[object]) -> object:
    if isinstance(node, exp.Parameter):
        number = int(node.name)
        if not 1 <= number <= len(parameters):
            raise InvalidParameter(f"there is no value for ${number}")
        return parameters[number - 1]
    if isinstance(node, exp.Literal):
        return node.name if node.is_string else int(node.name)
    raise SqlSyntaxError("a value is needed here, not an expression", position=position_of(node))
