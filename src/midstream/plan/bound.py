"""What binding gives: a query that the kernels can run, and what it reads.

`BoundQuery.sql("duckdb")` and `.sql("spark")` are one tree in two dialects, over inputs called `scan_0`,
`scan_1`, …; the result's columns are called `c0`, `c1`, … and have exactly the types of `outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from midstream.errors import InternalError, Position, Unsupported
from midstream.kernels import KERNELS, Kernel
from midstream.plan.aliases import separate_aliases
from midstream.plan.context import Binding, SourceKind
from midstream.plan.limits import shape_refusal
from midstream.plan.moments import has_moment, moments_in
from midstream.plan.nodes import bare, is_query, named, place_of
from midstream.plan.pruning import column_uses, prune
from midstream.plan.render import refusal, render
from midstream.plan.typing import cast_for_assignment
from midstream.plan.typing.queries import infer_query
from midstream.plan.typing.scopes import Scope
from midstream.relations.schema import RowHolder
from midstream.relations.table import ROW_ID, Column
from midstream.relations.view import ContinuousView, Derived
from midstream.relations.window import Slots
from midstream.types import Type


@dataclass(frozen=True)
class Output:
    name: str
    type: Type


@dataclass(frozen=True)
class Scan:
    """A base input of a bound query."""

    name: str
    relation: RowHolder | ContinuousView | Derived
    source: SourceKind
    """`changes` is the table's change log: its columns, old_new_mark, dml_type, trans_scn; `before` is what the table
    was before some commits, `delta` what they changed, with a weight for each row; `history` is what a stream has kept,
    `late` what came too late for windows, `stream` what comes of it; `view` is the result of a continuous view, `state`
    the partials of one, and `static` what was computed once for it."""
    as_of: int | None
    columns: tuple[str, ...]
    """What must be read."""
    slots: Slots | None = None
    all_windows: bool = False


Divide = Callable[[exp.Expression], tuple[exp.Expression, list[tuple[str, exp.Expression]]]]


@dataclass(frozen=True)
class BoundQuery:
    outputs: tuple[Output, ...]
    scans: tuple[Scan, ...]
    refusals: Mapping[Kernel, str]
    """Why a kernel cannot run it; a kernel that is not in here can."""
    _tree: exp.Expression = field(repr=False, compare=False)
    _texts: dict[Kernel, str] = field(default_factory=dict, repr=False, compare=False)

    def sql(self, kernel: Kernel) -> str:
        _raise_refusal(self.refusals, kernel)
        if kernel not in self._texts:
            self._texts[kernel] = render(self._tree, kernel)
        return self._texts[kernel]

    def over(self, divide: Divide, kernel: Kernel) -> tuple[str, list[tuple[str, str]]]:
        """Its text over parts of it that have names, and the texts of these."""
        _raise_refusal(self.refusals, kernel)
        tree, parts = divide(self._tree)
        return render(tree, kernel), [(name, render(part, kernel)) for name, part in parts]

    @property
    def text(self) -> str:
        """Of the first kernel that can run it."""
        return self.sql(next(kernel for kernel in KERNELS if kernel not in self.refusals))

    @property
    def is_timeless(self) -> bool:
        """Whether it is the same query at every moment."""
        return not has_moment(self._tree)

    @property
    def place_of_moment(self) -> Position | None:
        """Where it first asks for the moment."""
        return min((place for node in moments_in(self._tree) if (place := _place_around(node))), default=None)


def _place_around(node: exp.Expression) -> Position | None:
    """A moment is a literal within what was written: now() may be a cast of one."""
    around: exp.Expression | None = node
    while around is not None and not is_query(around):
        place = place_of(around)
        if place is not None:
            return place
        around = around.parent if isinstance(around.parent, exp.Expression) else None
    return None


@dataclass(frozen=True)
class BoundScalar:
    """An expression over a table's columns, which its text names without the table, or over nothing."""

    type: Type
    columns: tuple[str, ...]
    """The columns that it uses."""
    refusals: Mapping[Kernel, str]
    _tree: exp.Expression = field(repr=False, compare=False)

    def sql(self, kernel: Kernel) -> str:
        _raise_refusal(self.refusals, kernel)
        return render(self._tree, kernel)


def _raise_refusal(refusals: Mapping[Kernel, str], kernel: Kernel) -> None:
    if kernel in refusals:
        raise Unsupported(f"this cannot run on the {kernel} kernel", detail=refusals[kernel])


# --- from trees ----------------------------------------------------------------------------------


def infer(binding: Binding, tree: exp.Expression, keep_unknown: bool = False) -> exp.Expression:
    """The bound tree with a type on every node. Parameters are counted first: a missing one has no type.

    With `keep_unknown`, an untyped literal in the select list stays so, for the column that it is assigned to."""
    binding.check_parameters()
    scans = {name: key.columns() for key, name in binding.scans.items()}
    infer_query(tree, Scope(scans), keep_unknown)
    return tree


def seal(binding: Binding, tree: exp.Expression, outputs: Sequence[Output]) -> BoundQuery:
    """A typed tree, whose result columns are called c0, c1, …, as a value."""
    prune(tree)
    separate_aliases(tree)
    scans = _scans(binding, tree)
    return BoundQuery(tuple(outputs), scans, refusals_of(tree, scans), tree)


def kernel_names(width: int) -> list[str]:
    return [f"c{i}" for i in range(width)]


def refusals_of(tree: exp.Expression, scans: Sequence[Scan] = ()) -> dict[Kernel, str]:
    columns = [scan.columns for scan in scans]
    reads_changes = any(scan.source == "delta" for scan in scans)
    reasons = {
        kernel: refusal(tree, kernel) or shape_refusal(tree, kernel, columns, reads_changes=reads_changes)
        for kernel in KERNELS
    }
    found = {kernel: reason for kernel, reason in reasons.items() if reason is not None}
    if len(found) == len(KERNELS):
        raise Unsupported(
            "no kernel can run this", detail="; ".join(dict.fromkeys(found.values())) + ".", position=place_of(tree)
        )
    return found


def _scans(binding: Binding, tree: exp.Expression) -> tuple[Scan, ...]:
    """The inputs that the tree still reads, and the columns of each that it uses."""
    uses, used = column_uses(tree), dict[str, set[str]]()
    for table in tree.find_all(exp.Table):
        used.setdefault(table.name, set()).update(uses[table.alias])
    scans = []
    for key, name in binding.scans.items():
        if name in used:
            columns = tuple(c for c in key.columns() if c in used[name]) or (ROW_ID,)
            scans.append(Scan(name, key.relation, key.source, key.as_of, columns, key.slots, key.all_windows))
    return tuple(scans)


def assign(node: exp.Expression, column: Column) -> exp.Expression:
    """A typed value as it is stored in a column."""
    return cast_for_assignment(bare(node), column.type, f'column "{column.name}"')


def top_select(tree: exp.Expression) -> exp.Select:
    if not isinstance(tree, exp.Select):
        raise InternalError("the statement was not bound to a SELECT")
    return tree


def rename_outputs(select: exp.Select, values: Sequence[exp.Expression]) -> exp.Select:
    """The select list replaced by these values, called c0, c1, …"""
    select.set("expressions", [named(v, n) for v, n in zip(values, kernel_names(len(values)), strict=True)])
    return select
