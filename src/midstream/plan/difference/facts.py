"""What can be said of a query without running it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan.bound import BoundQuery
from midstream.plan.cut.build import text_of
from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import bare, place_of
from midstream.plan.typing.nodes import Call
from midstream.relations.table import Table


def key_holds(bound: BoundQuery, key: Sequence[str]) -> bool:
    """Whether the query by itself makes a key unique: it has all that the query groups by."""
    tree = bound._tree
    if not key or not isinstance(tree, exp.Select) or tree.args.get("limit"):
        return False
    names = [output.name for output in bound.outputs]
    mine = {text_of(bare(tree.expressions[names.index(name)])) for name in key}
    group = tree.args.get("group")
    if group is None:
        return bool(tree.args.get("distinct")) and set(key) == set(names)
    plain = [node for node in group.expressions if not isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube)]
    return len(plain) == len(group.expressions) and {text_of(node) for node in plain} <= mine


def increasing_tables(bound: BoundQuery) -> tuple[str, ...]:
    """Tables that window functions go through in the order of a column that increases in them."""
    tree = bound._tree
    scans = {scan.name: scan.relation for scan in bound.scans if isinstance(scan.relation, Table)}
    items = {table.alias: scans[table.name] for table in tree.find_all(exp.Table) if table.name in scans}
    found: list[str] = []
    for window in tree.find_all(exp.Window):
        for column in window.args["order"].find_all(exp.Column) if window.args.get("order") else ():
            table = items.get(column.table)
            if table is not None and any(column.name == constraint.column for constraint in table.increasing):
                found.append(table.name)
    return tuple(dict.fromkeys(found))


def refuse_volatile(bound: BoundQuery) -> None:
    for node in bound._tree.find_all(Call):
        function = FUNCTIONS.get(str(node.this))
        if function is not None and function.volatile:
            raise Unsupported(
                f"{str(node.this).partition('(')[0]}() gives another answer every time, and changes could not be told",
                hint="Store its value in a column of the table.",
                position=place_of(node),
            )
