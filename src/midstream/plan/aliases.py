"""Aliases of FROM items that no column is called by.

Spark reads `dept.id` as a field of a column `dept` before it looks for a relation of that name, so an
alias that is also a column's name gets another one:

    FROM emp AS emp WHERE emp.dept = dept.id   ->   FROM … AS dept_ … emp.dept = dept_.id
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.nodes import quoted


def separate_aliases(tree: exp.Expression) -> None:
    """Renames, in place, the aliases that a column of the tree shares its name with."""
    columns = list(tree.find_all(exp.Column))
    sources = [alias for alias in tree.find_all(exp.TableAlias) if not isinstance(alias.parent, exp.CTE)]
    named = {column.name.lower() for column in columns} | {node.alias.lower() for node in tree.find_all(exp.Alias)}
    named |= {name.name.lower() for alias in sources for name in alias.columns}
    renamed = _renamed({alias.name for alias in sources}, named)
    for alias in sources:
        if alias.name in renamed:
            alias.set("this", quoted(renamed[alias.name]))
    for column in columns:
        if column.table in renamed:
            column.set("table", quoted(renamed[column.table]))


def _renamed(aliases: set[str], named: set[str]) -> dict[str, str]:
    taken = named | {alias.lower() for alias in aliases}
    renamed = {}
    for alias in sorted(alias for alias in aliases if alias.lower() in named):
        name = alias + "_"
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        renamed[alias] = name
    return renamed
