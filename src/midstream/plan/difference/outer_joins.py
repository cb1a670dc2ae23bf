"""RIGHT and FULL joins as blocks that have none, whose rows together are the same.

    X RIGHT JOIN R ON c    =    X JOIN R ON c         UNION ALL    NULLs for X, R WHERE NOT EXISTS (X WHERE c)
    X FULL JOIN R ON c     =    X LEFT JOIN R ON c    UNION ALL    NULLs for X, R WHERE NOT EXISTS (X WHERE c)

X is all that stands before the join; what stands behind it joins both parts alike.
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.cut.build import number, output
from midstream.plan.difference.keys import add_where, aliases_in
from midstream.plan.nodes import child, conjuncts
from midstream.plan.typing.conversion import null_of
from midstream.plan.typing.nodes import type_of, typed
from midstream.types import BOOLEAN

Node = exp.Expression


def parts_of(query: exp.Select) -> tuple[exp.Select, exp.Select] | None:
    """Two blocks in place of one whose last RIGHT or FULL join is gone; None: it has none."""
    joins: list[exp.Join] = query.args.get("joins") or []
    places = [place for place, join in enumerate(joins) if join.args.get("side") in ("RIGHT", "FULL")]
    return (_with_matches(query, places[-1]), _without_match(query, places[-1])) if places else None


def _with_matches(query: exp.Select, place: int) -> exp.Select:
    copy = query.copy()
    join = copy.args["joins"][place]
    join.set("side", "LEFT" if join.args["side"] == "FULL" else None)
    return copy


def _without_match(query: exp.Select, place: int) -> exp.Select:
    copy = query.copy()
    joins: list[exp.Join] = copy.args["joins"]
    join, before, behind = joins[place], joins[:place], joins[place + 1 :]
    gone = aliases_in(copy.args["from_"]) | {name for other in before for name in aliases_in(other)}
    inner = exp.Select(expressions=[output(number(1), "one")], joins=before)
    inner.set("from_", copy.args["from_"])
    add_where(inner, conjuncts(join.args.get("on")))
    copy.set("from_", None)
    copy.set("joins", None)
    _set_null(copy, gone)
    for other in behind:
        _set_null(other, gone)
    copy.set("from_", exp.From(this=child(join)))
    copy.set("joins", behind)
    add_where(copy, [typed(exp.Not(this=typed(exp.Exists(this=inner), BOOLEAN)), BOOLEAN)])
    return copy


def _set_null(tree: Node, aliases: set[str]) -> None:
    for column in [found for found in tree.find_all(exp.Column) if found.table in aliases]:
        column.replace(null_of(type_of(column)))
