"""The change of a query between two SCNs, as a piece for the engine.

How it is computed depends on which tables changed and in which way; each way is planned once and kept for as long as
definitions are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import pyarrow.parquet as pq

from midstream.errors import Error
from midstream.kernels import Kernel, quote_name
from midstream.maintenance.engine import Piece
from midstream.plan import BindContext, BoundQuery, Scan
from midstream.plan.difference import (
    KEPT,
    BackingPlan,
    Changed,
    Difference,
    Kind,
    Unit,
    Units,
    bind_answer,
    bind_backing,
    bind_difference,
)
from midstream.relations.catalog import CatalogState, ChangeFile
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.schema import Relation
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView, View
from midstream.runtime.query import prepare
from midstream.runtime.reading import Between, Sources, add_scan
from midstream.runtime.rows import FEW_ROWS
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import StateSchema
from midstream.sql import parse_query
from midstream.sql.change_items import row_query
from midstream.sql.statements import Sql

Kept = ContinuousQuery | MaterializedView


def context_at(state: CatalogState) -> BindContext:
    return BindContext(scn=state.scn, now=datetime.now(timezone.utc))


@dataclass(frozen=True)
class Change:
    """A query's change between two SCNs, ready to run."""

    kernel: Kernel
    sources: Sources
    net: str
    difference: Difference

    def piece(self, text: str) -> Piece:
        return self.sources.piece(text)


class WasReplaced(Error):
    """A view that a query reads is another one than at the query's position."""

    default_sqlstate = "55000"


class Unchanged:
    """That nothing changed."""


UNCHANGED = Unchanged()


@dataclass
class Plans:
    """The plans of one query, by what changed."""

    store: Store
    query: Kept
    by_log: tuple[str, ...] = ()
    """The tables of which the last change took what was before from what is there now and the log."""
    _seen: object = None
    """The relations that were there the last time,"""
    _relations: Mapping[str, object] | None = None
    """and of them those that the query reads."""
    _bound: BoundQuery | None = None
    _known: dict[object, Difference | None] = field(default_factory=dict)
    _known_backing: dict[object, BackingPlan | None] = field(default_factory=dict)

    def bound(self, state: CatalogState) -> BoundQuery:
        """The query itself, over what is there."""
        if self._bound is not None and self._seen is state.relations:
            return self._bound
        relations = self.read_from(state)
        if self._bound is None or self._relations != relations:
            schema = StateSchema(self.store.catalog, state)
            self._bound = bind_answer(self._sql(), schema, context_at(state))
            self._relations, self._known, self._known_backing = relations, {}, {}
        self._seen = state.relations
        return self._bound

    def read_from(self, state: CatalogState) -> dict[str, Relation]:
        """What it reads, through views as well. Whatever else is made or dropped, its plans stay."""
        found, todo = dict[str, Relation](), list(self.query.reads)
        while todo:
            relation = state.relations.get(name := todo.pop())
            if relation is not None and name not in found:
                found[name] = relation
                todo += relation.reads if isinstance(relation, View) else ()
        return found

    def _sql(self) -> Sql:
        query = parse_query(self.query.query)
        return row_query(query) if isinstance(self.query, ContinuousQuery) else query

    def tables(self, state: CatalogState) -> list[Table]:
        """The tables that it reads, through ordinary views as well."""
        if self.stream is not None:
            return []
        scans = self.bound(state).scans
        found = {
            scan.relation.id: scan.relation
            for scan in scans
            if isinstance(scan.relation, Table) and scan.source == "table" and scan.as_of is None
        }
        return list(found.values())

    def stored(self, state: CatalogState) -> list[MaterializedView]:
        """The materialized views among them."""
        return [table for table in self.tables(state) if isinstance(table, MaterializedView)]

    @property
    def stream(self) -> str | None:
        return self.query.stream if isinstance(self.query, ContinuousQuery) else None

    def views(self, state: CatalogState) -> list[ContinuousView]:
        if self.stream is not None:
            return []
        return [scan.relation for scan in self.bound(state).scans if isinstance(scan.relation, ContinuousView)]

    def is_same(self, before: CatalogState, after: CatalogState) -> bool:
        """Whether the names that it reads, through views as well, stand for the same relations."""
        return self.meant(before) == self.meant(after)

    def check_same(self, between: Between) -> None:
        if not self.is_same(between.before, between.state):
            raise WasReplaced(
                f'what "{self.query.name}" reads was replaced',
                detail="What changed because of that cannot be told from the changes of tables.",
                hint="DEACTIVATE and ACTIVATE it: it then begins anew.",
            )

    def meant(self, state: CatalogState) -> dict[str, object]:
        """What these names stand for: of queries their texts, of all else what it is known by for good."""
        return {
            name: relation if isinstance(relation, View) and not isinstance(relation, ContinuousView) else relation.id
            for name, relation in self.read_from(state).items()
        }

    def difference(
        self,
        state: CatalogState,
        changed: Mapping[int, Changed],
        same_constraints: bool,
        by_commit: bool = False,
        units: Units = "none",
        has_backing: bool = False,
        in_full: bool = False,
    ) -> Difference | None:
        """None: commits cannot be told apart in it. `in_full`: all of it before and after, compared."""
        self.bound(state)
        # In which order the terms are depends on which tables are large, roughly.
        sizes = tuple((id, len(str(change.rows))) for id, change in sorted(changed.items()))
        key = (_kinds_of(changed), sizes, same_constraints, units, by_commit, has_backing, in_full)
        if key not in self._known:
            self._known[key] = bind_difference(
                self._sql(),
                StateSchema(self.store.catalog, state),
                context_at(state),
                changed,
                same_constraints=same_constraints,
                uses_units=units,
                in_full=in_full or self.query.refresh == "full",
                by_commit=by_commit,
                has_backing=has_backing,
            )
        return self._known[key]

    def backing(
        self, state: CatalogState, changed: Mapping[int, Changed], same_constraints: bool
    ) -> BackingPlan | None:
        """What is kept of it; None: nothing can be."""
        if self.query.refresh == "full":
            return None
        self.bound(state)
        key = (_kinds_of(changed), same_constraints)
        if key not in self._known_backing:
            schema = StateSchema(self.store.catalog, state)
            self._known_backing[key] = bind_backing(
                self._sql(), schema, context_at(state), changed, same_constraints=same_constraints
            )
        return self._known_backing[key]

    def can_be_backed(self, state: CatalogState) -> bool:
        """Whether something can be kept of it that a change is computed with."""
        return self.backing(state, {}, True) is not None

    def keeps_frames(self, state: CatalogState) -> bool:
        """Whether what its frames reach is kept, which is so from the first change on."""
        if database_setting(self.store, "preimage") not in ("auto", "kept"):
            return False
        plan = self.backing(state, {}, True)
        return plan is not None and plan.what != "groups"

    def possible(self, state: CatalogState, kind: Kind) -> dict[int, Changed]:
        """What may have happened to its tables: rows only come to those whose order it goes by."""
        tables = self.tables(state)
        only_grow = {table.id for table in tables if table.increasing and table.name in self.query.append_only}
        return {
            table.id: Changed("insert" if table.id in only_grow else kind, rows_of(self.store, table, state))
            for table in tables
        }

    def changed(self, between: Between) -> tuple[dict[int, Changed], bool]:
        """Which of its tables changed, and whether they had their constraints before, too."""
        tables = self.tables(between.state)
        same_constraints = all(between.before.relations.get(table.name) == table for table in tables)
        return changes_between(self.store, tables, between), same_constraints

    def change(
        self,
        between: Between,
        *,
        by_commit: bool = False,
        kept: Sequence[KeptFile] | None = None,
        in_full: bool = False,
    ) -> Change | Unchanged | None:
        """`kept`: what was kept of it before. None: with `by_commit`, that commits cannot be told
        apart."""
        changed, same_constraints = self.changed(between)
        if not changed:
            return UNCHANGED
        self.check_same(between)
        if in_full:
            difference = self.difference(between.state, changed, same_constraints, by_commit, in_full=True)
        else:
            difference = self._best(between, changed, same_constraints, by_commit, kept is not None)
        if difference is None:
            return None
        if difference.query is None:
            return UNCHANGED
        settings = {**DEFAULTS, "kernel": self.query.kernel}
        wanted = database_setting(self.store, "preimage")
        between = replace(between, preimage=wanted if wanted in ("auto", "anti-join") else "as of")
        if kept is not None:
            between = replace(between, kept={KEPT: kept})
        choice, sources = prepare(self.store, between, difference.query, settings)
        self.by_log = tuple(dict.fromkeys(sources.by_log))
        return Change(choice.kernel, sources, difference.query.sql(choice.kernel), difference)

    def _best(
        self,
        between: Between,
        changed: Mapping[int, Changed],
        same_constraints: bool,
        by_commit: bool,
        has_backing: bool,
    ) -> Difference | None:
        """Rows that came, or went, together with the rows that they refer to need not meet the whole table of these."""
        wanted = database_setting(self.store, "foreign_key_units")
        if wanted != "off" and same_constraints:
            near = self.difference(between.state, changed, same_constraints, by_commit, "near", has_backing)
            if near is not None and near.units and (wanted == "on" or self._are_worth_it(near.units, changed)):
                if all(self._holds(unit, between) for unit in near.units):
                    return near
                if wanted == "on":
                    return self.difference(between.state, changed, same_constraints, by_commit, "both", has_backing)
        return self.difference(between.state, changed, same_constraints, by_commit, has_backing=has_backing)

    def _are_worth_it(self, units: Sequence[Unit], changed: Mapping[int, Changed]) -> bool:
        return any(changed[unit.parent.id].rows >= LARGE for unit in units)

    def _holds(self, unit: Unit, between: Between) -> bool:
        """Whether all rows that came refer to rows that came, or went; asked only while these are few."""
        if sum(self._rows_changed(table, between) for table in (unit.child, unit.parent)) > FEW_ROWS:
            return False
        sources = Sources("duckdb")
        add_scan(self.store, between, Scan("child", unit.child, "delta", None, unit.columns), sources)
        add_scan(self.store, between, Scan("parent", unit.parent, "delta", None, unit.referred), sources)
        pairs = list(zip(unit.columns, unit.referred, strict=True))
        same = " AND ".join(f"parent.{quote_name(b, 'duckdb')} = child.{quote_name(a, 'duckdb')}" for a, b in pairs)
        known = " AND ".join(f"child.{quote_name(a, 'duckdb')} IS NOT NULL" for a, _ in pairs)
        text = f"SELECT 1 FROM child WHERE {known} AND NOT EXISTS (SELECT 1 FROM parent WHERE {same}) LIMIT 1"
        found = self.store.engine.look_up(sources.piece(text)).table
        return found is None or not found.num_rows

    def _rows_changed(self, table: Table, between: Between) -> int:
        """The log does not say of rows that went how many they are, but their files do."""
        folder = self.store.folder(table.id).path
        return sum(
            file.rows if file.kind == "insert" else int(pq.read_metadata(str(folder / file.path)).num_rows)
            for file in self.store.catalog.changes(table.id, *between.range)
        )


LARGE = 100_000
"""A parent of so many rows is worth a look at whether its children came with its new rows alone."""


def database_setting(store: Store, name: str) -> str:
    return str(store.catalog.setting(name) or DEFAULTS[name])


def changes_between(store: Store, tables: Sequence[Table], between: Between) -> dict[int, Changed]:
    """Which tables changed between two SCNs, and how."""
    found = {}
    for table in tables:
        files = store.catalog.changes(table.id, *between.range)
        if files:
            found[table.id] = Changed(_kind_of(files), rows_of(store, table, between.state))
    return found


def rows_of(store: Store, table: Table, state: CatalogState) -> int:
    """Which of the tables are large is all that counts: the newest picture says it as well as any."""
    version = store.catalog.state.versions.get(table.id, state.versions[table.id])
    return sum(file.rows for file in store.folder(table.id).files(version))


def _kinds_of(changed: Mapping[int, Changed]) -> tuple[tuple[int, Kind], ...]:
    return tuple(sorted((id, change.kind) for id, change in changed.items()))


def _kind_of(files: Sequence[ChangeFile]) -> Kind:
    kinds = {file.kind for file in files}
    return "insert" if kinds == {"insert"} else "delete" if kinds == {"delete"} else "mixed"
