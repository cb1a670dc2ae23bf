"""New continuous views: their pipelines are made, or those of other views are shared.

Everything that takes time is done first. Then, while nobody inserts, all readers of the view begin at one SCN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from uuid import uuid4

from midstream.errors import InvalidDefinition
from midstream.kernels import Kernel
from midstream.maintenance.engine import Cancellation, Input, Piece, WriteParquet
from midstream.plan.cut import Pipeline, ViewPlan
from midstream.plan.cut.programs import Folded, fold
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.stream import Stream
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView
from midstream.runtime.clocks import Clock
from midstream.runtime.history import HISTORY
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.lateness import LATE, follow
from midstream.runtime.pipelines import PIPELINE, PipelineReader, kept_files, static_inputs
from midstream.runtime.query import prepare
from midstream.runtime.reading import Picture, history_view
from midstream.runtime.states import KeptFile, State, StaticFiles, hold_folder
from midstream.runtime.store import Store

MOST_PARTS = 64
"""A basic window may be made of so many smaller ones that another view keeps: to merge more costs more than to share
saves."""

FEW_PARTS = 8
"""Where both have to be cut smaller for that, so many."""

Readers = list[tuple[ReaderEntry, PipelineReader]]


@dataclass(frozen=True)
class _Joining:
    """A pipeline of other views that the new one will share, with what it then is."""

    folded: Folded
    readers: Readers
    states: Mapping[int, State]


@dataclass(frozen=True)
class _Making:
    """What one CREATE VIEW asks for."""

    view: ContinuousView
    picture: Picture
    settings: Mapping[str, object]
    cancellation: Cancellation | None


class Maker:
    def __init__(
        self,
        store: Store,
        plan: Callable[[ContinuousView], ViewPlan],
        cut_by: Callable[[ContinuousView, CatalogState, int], ViewPlan],
        forget_plan: Callable[[int], None],
        readers: Callable[[], Readers],
        attend: Callable[[PipelineReader], None],
    ) -> None:
        self._store = store
        self._plan = plan
        self._cut_by = cut_by
        self._forget_plan = forget_plan
        self._readers = readers
        self._attend_to = attend

    def make(
        self,
        view: ContinuousView,
        plan: ViewPlan,
        picture: Picture,
        settings: Mapping[str, object],
        cancellation: Cancellation | None,
    ) -> None:
        """All pipelines of a view. Sharing is given up if rows come to a pipeline meanwhile."""
        making = _Making(view, picture, settings, cancellation)
        if not self._make(making, plan, sharing=not view.backfill):
            self._make(making, plan, sharing=False)

    def _make(self, making: _Making, plan: ViewPlan, *, sharing: bool) -> bool:
        joined: list[_Joining] = []
        new: list[tuple[Stream, State]] = []
        kernel = "spark" if making.view.kernel == "spark" else "duckdb"
        for pipeline in plan.pipelines:
            folded = fold([pipeline], "spark" if kernel == "spark" else "duckdb")
            joining = self._joining(making, pipeline, folded) if sharing else None
            if joining is not None:
                joined.append(joining)
            else:
                new += self._new(making, folded)
        with self._store.streams.journal.alone():
            if any(not self._still(making, joining) for joining in joined):
                return False
            self._begin(making.view, joined, new)
        return True

    def _begin(self, view: ContinuousView, joined: Sequence[_Joining], new: Sequence[tuple[Stream, State]]) -> None:
        streams = self._store.streams
        for joining in joined:
            for id, state in joining.states.items():
                self._attend(streams.renew(id, state.written()))
                for member in state.views:
                    self._forget_plan(member)
        for stream, state in new:
            slots = state.program.feeds[stream.id].slots
            if slots is not None and slots.column is not None:
                follow(self._store, stream, slots.column)

            def begun(scn: int, state: State = state, stream: Stream = stream, windowed: bool = bool(slots)) -> str:
                for file in state.files:
                    file.upto = scn
                clock = Clock(origin=streams.journal.standing(stream.id).rows) if windowed else None
                return replace(state, start=scn, backfill=scn if view.backfill else None, clock=clock).written()

            self._attend(streams.reader(streams.register(stream, view.name, PIPELINE, begun).id))

    def _attend(self, reader: object) -> None:
        assert isinstance(reader, PipelineReader)
        self._attend_to(reader)

    # --- sharing ---------------------------------------------------------------------------------

    def _joining(self, making: _Making, pipeline: Pipeline, folded: Folded) -> _Joining | None:
        """A pipeline of the same name that no row has come to yet, together with this one."""
        found = self._joinable(making, folded) if pipeline.is_safe else []
        if not found:
            return None
        views = [v for v in making.picture.state.relations.values() if isinstance(v, ContinuousView)]
        members = [v for v in views if v.id in found[0][1].state.views]
        unit, state = making.view.unit, making.picture.state
        is_anew = unit is not None and found[0][1].state.program.name != pipeline.name
        others = [self._cut_by(v, state, unit) if is_anew and unit is not None else self._plan(v) for v in members]
        pipelines = [p for plan in others for p in plan.pipelines if p.name == pipeline.name]
        if not all(other.is_safe for other in pipelines):
            return None
        joint = fold([*pipelines, pipeline], folded.program.kernel)
        states = {}
        for entry, reader in found:
            known = reader.state.statics
            fresh = replace(joint, statics=tuple(s for s in joint.statics if s.relation.name not in known))
            statics = known | self._statics(making, fresh, reader.state.folder)
            together = (*reader.state.views, making.view.id)
            states[entry.id] = replace(reader.state, program=joint.program, views=together, statics=statics)
        return _Joining(folded, found, states)

    def _still(self, making: _Making, joining: _Joining) -> bool:
        now = self._joinable(making, joining.folded)
        return [(entry.id, reader) for entry, reader in now] == [
            (entry.id, reader) for entry, reader in joining.readers
        ]

    def _joinable(self, making: _Making, folded: Folded) -> Readers:
        """The readers of a pipeline that a new view may share: nothing has come to them, their tables are as now."""
        program, picture = folded.program, making.picture
        same = [
            (entry, reader)
            for entry, reader in self._readers()
            if reader.state.program.name == program.name and reader.state.program.kernel == program.kernel
        ]
        if not same and making.view.unit is not None:
            others = self._cut_anew(program.name, making.view.unit, picture.state)
            same = [(entry, reader) for entry, reader in others if reader.kernel == program.kernel]
        newest = max((reader.state.start for _, reader in same), default=0)
        found = [(entry, reader) for entry, reader in same if reader.state.start == newest]
        if sorted(entry.stream_id for entry, _ in found) != sorted(id for id in program.feeds if id):
            return []
        return found if all(self._is_untouched(entry, reader, picture.state) for entry, reader in found) else []

    def _is_untouched(self, entry: ReaderEntry, reader: PipelineReader, now: CatalogState) -> bool:
        state, streams = reader.state, self._store.streams
        if state.files or state.backfill is not None:
            return False
        if streams.has_news(entry.stream_id, state.start, streams.journal.last_scn):
            return False
        tables = [pair for static in state.statics.values() for pair in static.tables]
        return all(now.versions.get(table) == version for table, version in tables)

    def _cut_anew(self, name: str, unit: int, now: CatalogState) -> Readers:
        """Readers of views that would have a pipeline of this name if they were cut by smaller basic windows. No row
        has come to them, so they can be."""
        views = {v.id: v for v in now.relations.values() if isinstance(v, ContinuousView)}
        found: Readers = []
        for entry, reader in self._readers():
            slots, members = reader.feed.slots, [views[id] for id in reader.state.views if id in views]
            if slots is None or slots.unit % unit or not 1 < slots.unit // unit <= MOST_PARTS:
                continue
            if (
                len(members) < len(reader.state.views)
                or not self._is_untouched(entry, reader, now)
                or any(self._has_others(view, entry) for view in members)
            ):
                continue
            plans = [self._cut_by(view, now, unit) for view in members]
            if all(len(p.windows) == 1 and [one.name for one in p.pipelines] == [name] for p in plans):
                found.append((entry, reader))
        return found

    def _has_others(self, view: ContinuousView, entry: ReaderEntry) -> bool:
        """Whether a view has a reader beside this one."""
        return any(view.id in reader.state.views and other.id != entry.id for other, reader in self._readers())

    def common_units(self, plan: ViewPlan, now: CatalogState) -> list[int]:
        """The sizes of basic windows that those of a new view and of another one can be made of, largest first."""
        found = set[int]()
        for entry, reader in self._readers():
            there = reader.feed.slots
            for window, streams in zip(plan.windows, plan.window_streams, strict=True):
                own = window.slots
                if there is None or entry.stream_id not in streams or replace(there, unit=own.unit) != own:
                    continue
                if window.gap is not None:
                    continue
                unit, most = gcd(own.unit, there.unit), max(own.unit, there.unit)
                parts = MOST_PARTS if unit in (own.unit, there.unit) else FEW_PARTS
                if own.unit != there.unit and most // unit <= parts and self._is_untouched(entry, reader, now):
                    found.add(unit)
        return sorted(found, reverse=True)

    def would_share(self, plan: ViewPlan, now: CatalogState, unit: int) -> bool:
        """Whether a pipeline of a new view is there already, or would be if another one were cut by these units."""
        there = {r.state.program.name for entry, r in self._readers() if self._is_untouched(entry, r, now)}
        names = [pipeline.name for pipeline in plan.pipelines]
        return any(name in there or self._cut_anew(name, unit, now) for name in names)

    # --- new pipelines ---------------------------------------------------------------------------

    def _new(self, making: _Making, folded: Folded) -> list[tuple[Stream, State]]:
        """A state for each stream of a pipeline; the first has what comes from tables alone."""
        program, view = folded.program, making.view
        relations = making.picture.state.relations.values()
        by_id = {r.id: r for r in relations if isinstance(r, Stream)}
        by_id |= {r.id: r.basket for r in relations if isinstance(r, ContinuousView) and r.is_windowed}
        found: list[tuple[Stream, State]] = []
        for stream in (by_id[id] for id in program.feeds if id):
            if view.backfill and stream.history is None:
                raise InvalidDefinition(
                    f'stream "{stream.name}" keeps no history to begin with',
                    hint="Create it WITH (retain = '7 days'), or leave backfill out.",
                )
            folder: Path = self._store.path / "views" / uuid4().hex
            hold_folder(str(folder))
            state = State(program, (view.id,), 0, str(folder))
            state.statics = self._statics(making, folded, state.folder)
            if not found and 0 in program.feeds:
                state.files = self._initial(making, state)
            found.append((stream, state))
        return found

    def _statics(self, making: _Making, folded: Folded, folder: str) -> dict[str, StaticFiles]:
        """What the pipeline takes from tables, computed once, in one job, as one SCN shows them."""
        wanted: list[tuple[Kernel, Piece]] = []
        for static in folded.statics:
            choice, sources = prepare(self._store, making.picture, static.query, making.settings)
            output = WriteParquet(folder, static.relation.columns)
            wanted.append((choice.kernel, sources.piece(static.query.sql(choice.kernel), output)))
        answers = run_by_kernel(self._store, wanted, label="static inputs", cancellation=making.cancellation)
        found = {}
        for static, answer in zip(folded.statics, answers, strict=True):
            tables = [scan.relation for scan in static.query.scans if isinstance(scan.relation, Table)]
            found[static.relation.name] = StaticFiles(
                static.relation.columns,
                tuple(kept_files(self._store, [answer], 0)),
                tuple((table.id, making.picture.state.versions[table.id]) for table in tables),
                making.picture.state.scn,
            )
        return found

    def _initial(self, making: _Making, state: State) -> list[KeptFile]:
        """The rows of tables that are put together with those of a stream: they count once."""
        feed = state.program.feeds[0]
        inputs: dict[str, Input] = static_inputs(state, feed.statics)
        piece = Piece(feed.sql, inputs, output=WriteParquet(state.folder, state.program.columns))
        kernel, stop = state.program.kernel, making.cancellation
        [answer] = self._store.engine.run(kernel, [piece], label="first rows", cancellation=stop)
        return kept_files(self._store, [answer], 0)


def fill(
    store: Store, entry: ReaderEntry, reader: PipelineReader, upto: int, cancellation: Cancellation | None
) -> None:
    """What a stream had kept when a view began becomes partials, too."""
    state, stream, feed = reader.state, reader.stream, reader.feed
    for kind in (HISTORY, LATE):
        other = store.streams.reader_of(stream.id, kind)
        if other is not None:
            store.streams.wait(other.id, upto, cancellation=cancellation)
    is_windowed = feed.slots is not None
    columns = reader.feed_columns() if is_windowed else feed.columns
    inputs, text = history_view(store, stream, columns, upto, state.program.kernel, marked=is_windowed)
    views, checks = reader.history_pieces(text)
    piece = Piece(
        feed.sql,
        {**inputs, **static_inputs(state, feed.statics)},
        views,
        WriteParquet(state.folder, state.program.columns),
        checks,
    )
    [answer] = store.engine.run(state.program.kernel, [piece], label="backfill", cancellation=cancellation)
    files = kept_files(store, [answer], upto)
    store.streams.rewrite(entry.id, lambda: reader.filled(files, answer, upto))
