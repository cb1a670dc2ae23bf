"""EXPLAIN, SHOW and DESCRIBE of continuous views: what runs when, what is shared, what is kept, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from midstream.plan import BindContext
from midstream.plan.cut import Pipeline, ViewPlan
from midstream.plan.cut.build import text_of
from midstream.plan.cut.programs import Folded, fold, pair_query
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.stream import Stream
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView
from midstream.relations.window import Window
from midstream.runtime.pipelines import PipelineReader
from midstream.runtime.query import choose_kernel
from midstream.runtime.results import Result
from midstream.runtime.views import how_to_cut
from midstream.serving.session import Session
from midstream.sql.statements import CreateView

Readers = Sequence[tuple[ReaderEntry, PipelineReader]]


def explain_new(session: Session, statement: CreateView, state: CatalogState, context: BindContext) -> list[str]:
    """A view that does not exist yet: what would be kept, and what would run at a read."""
    maintenance = str(statement.options.get("maintenance", "auto")).lower()
    how = how_to_cut(str(session.settings["kernel"]), maintenance)
    plan, unit = session.store.views.cut_new(statement.query, state, context, how)
    kind = "over windows" if plan.windows else "continuous"
    lines = [f'View "{statement.name}" would be {kind}: {_when(plan)}.']
    lines += [line for window in plan.windows for line in _window_lines(window)]
    lines += _maintenance_lines(maintenance, plan) if plan.windows else []
    for pipeline in plan.pipelines:
        is_pair = pipeline in plan.pairs
        lines += _pair_lines(pipeline) if is_pair else _pipeline_lines(pipeline, fold([pipeline]), (), state)
    return [*lines, *_upper_lines(session, plan, state, context), *_notices(plan)]


def explain_view(session: Session, view: ContinuousView, state: CatalogState, context: BindContext) -> list[str]:
    views = session.store.views
    plan, readers = views.plan(view, state), views.readers_of(view.id)
    lines = [f'View "{view.name}" is {"over windows" if plan.windows else "continuous"}: {_when(plan)}.']
    lines += [line for window in plan.windows for line in _window_lines(window)]
    lines += _maintenance_lines(view.maintenance, plan) if plan.windows else []
    for pipeline in plan.pipelines:
        if pipeline in plan.pairs:
            lines += _pair_lines(pipeline)
            continue
        own = [(entry, reader) for entry, reader in readers if reader.state.program.name == pipeline.name]
        lines += _pipeline_lines(pipeline, fold([pipeline], own[0][1].kernel if own else None), own, state)
    lines += _upper_lines(session, plan, state, context)
    lines += _results_lines(session, view) if plan.windows else _refresh_lines(session, view)
    return [*lines, *_notices(plan)]


def _when(plan: ViewPlan) -> str:
    rest = "when a window is complete" if plan.windows else "at a read"
    return f"partials are kept as rows come, the rest runs {rest}"


def _window_lines(window: Window) -> Iterator[str]:
    measure = {"rows": "by the number of rows", "arrival": "by when rows arrive"}.get(
        window.slots.by, f'by the time in column "{window.slots.column}"'
    )
    length = partial(_length, window)
    yield ""
    if window.gap is not None:
        by = f" of each {', '.join(window.by)}" if window.by else ""
        yield f"Sessions{by}, {measure}: one ends when nothing has come for {length(window.gap)}"
        yield "  When rows came is kept apart: the rows tell where a session begins and ends"
        return
    if window.size is None:
        again = f", anew every {length(window.reset)}" if window.reset is not None else ""
        yield f"Landmark windows {measure}{again}: a result every {length(window.slide)}"
        yield "  Basic windows that are complete are merged into one partial"
        return
    kind = "Tumbling" if window.size == window.slide else "Sliding" if window.size > window.slide else "Hopping"
    slides = "" if window.size == window.slide else f", every {length(window.slide)}"
    yield f"{kind} windows of {length(window.size)} {measure}{slides}"
    shared = ", since another view keeps these" if window.slots.unit < window.largest_unit else ""
    yield f"  Basic windows of {length(window.slots.unit)}{shared}: {window.basic_windows} make up a window"


def _maintenance_lines(maintenance: str, plan: ViewPlan) -> list[str]:
    if maintenance == "reevaluate":
        return ["Maintenance: every window is evaluated anew over its rows, since the view says 'reevaluate'"]
    why = "as long as the view does not say 'reevaluate'"
    if maintenance == "incremental":
        why = "as the view says"
    elif len(plan.windows) == 1:
        why = "which took less time than evaluating anew whenever that was measured, for windows of one stream"
    return [f"Maintenance: incremental, {why}: each row is absorbed once"]


def _length(window: Window, size: int) -> str:
    return f"{size / 1e6:,g} s" if window.slots.is_time else f"{size:,} rows"


def _results_lines(session: Session, view: ContinuousView) -> Iterator[str]:
    windows = session.store.views.windows
    log, spent = windows.log_of(view), windows.spent.get(view.id)
    yield ""
    if not log.results:
        yield "Results: none yet, no window is complete"
    else:
        kept, newest = len(log.results), log.results[-1]
        yield (
            f"Results: {log.handed_out:,} windows so far, the last {kept:,} are kept; the newest, window "
            f"{newest.number}, has {newest.rows:,} rows"
        )
    search = windows.chunking.get(view.id)
    if search is not None:
        tried = ", ".join(f"{chunks}: {seconds * 1000:,.0f} ms" for chunks, seconds in search.history) or "nothing yet"
        state = "found" if search.settled is not None else "being looked for"
        yield f"The newest basic window is absorbed in {search.chunks} chunks ({state}; answers by chunks: {tried})"
    if spent is not None and spent.foreseen:
        yield f"Since the database was opened: {spent.foreseen:,} windows in the jobs that absorbed their last rows"
    if spent is not None and spent.jobs:
        yield (
            f"Since the database was opened: {spent.windows:,} windows in {spent.jobs:,} jobs of their own, on average "
            f"{spent.seconds / spent.jobs * 1000:,.0f} ms a job; the last had {spent.last_windows} in "
            f"{spent.last_seconds * 1000:,.0f} ms"
        )


def _notices(plan: ViewPlan) -> list[str]:
    return [f"Note: {notice}." for notice in plan.notices]


def _pipeline_lines(pipeline: Pipeline, folded: Folded, readers: Readers, state: CatalogState) -> Iterator[str]:
    program = readers[0][1].state.program if readers else folded.program
    streams = {r.id: r.name for r in state.relations.values() if isinstance(r, Stream)}
    named = ", ".join(f'"{streams.get(id, id)}"' for id in program.feeds if id)
    yield ""
    yield f"Stream pipeline {program.name} over {named}: runs on every batch, on the {program.kernel} kernel"
    if program.kernel != "duckdb":
        yield "  Why not duckdb: the view was created under SET kernel = 'spark', or needs a function of Spark's"
    keys = ", ".join(text_of(key.node) for key in pipeline.keys) or "none: one group of all rows"
    yield f"  Groups by: {keys}"
    if program.slot_key is not None:
        yield "  The number of the basic window is a key; those that no window needs go when partials are merged"
    elif pipeline.rows.late:
        yield "  Conditions on the moment of reading, or on a query around, are asked then: what they need is a key"
        if pipeline.dead is not None:
            yield "  Groups that no later read can ask for go when partials are merged"
    yield f"  Keeps: {len(program.columns) - len(program.keys)} columns of partials, {len(program.keys)} of keys"
    yield from _sharing(readers, state)
    yield from _static_lines(folded, readers, state)
    for id, feed in program.feeds.items():
        what = f'of "{streams.get(id, id)}"' if id else "of tables alone, once"
        yield f"  SQL for the rows {what}:"
        yield f"    {feed.sql}"
    yield from _state_lines(readers)


def _pair_lines(pipeline: Pipeline) -> Iterator[str]:
    yield ""
    yield f"Pairs {pipeline.name} of the rows that two windows keep: computed when basic windows are complete"
    yield "  Only pairs that these bring are computed; what they come to is kept by the older basic window of a pair"
    yield "  SQL for the pairs:"
    yield f"    {pair_query(pipeline, {}).sql('duckdb')}"


def _sharing(readers: Readers, state: CatalogState) -> Iterator[str]:
    views = {r.id: r.name for r in state.relations.values() if isinstance(r, ContinuousView)}
    members = sorted({views[id] for _, reader in readers for id in reader.state.views if id in views})
    if len(members) > 1:
        yield f"  Shared by views {', '.join(members)}: one pass over each batch, one state"


def _static_lines(folded: Folded, readers: Readers, state: CatalogState) -> Iterator[str]:
    for static in folded.statics:
        tables = ", ".join(f'"{scan.relation.name}"' for scan in static.query.scans)
        if not readers:
            yield f"  Static input {static.relation.name} from {tables}: computed at CREATE, and frozen from then on"
            continue
        kept = readers[0][1].state.statics[static.relation.name]
        rows = sum(file.rows for file in kept.files)
        yield f"  Static input {static.relation.name} from {tables}: {rows:,} rows, frozen as of SCN {kept.scn}"
    if folded.statics and folded.program.keeps_rows:
        yield "  Why frozen: it is below a grouping; the answer is that of a view that keeps no rows"
    elif folded.statics:
        yield "  Why frozen: rows that came before were joined with it as it was, and are gone"


def _state_lines(readers: Readers) -> Iterator[str]:
    for entry, reader in readers:
        state = reader.state
        if entry.absorbed <= state.start and not state.files:
            yield f"  State: empty, no row has come since SCN {state.start}"
            continue
        levels = sorted({file.level for file in state.files})
        yield (
            f"  State: {len(state.files)} files of {len(levels)} levels, {state.rows:,} rows of partials, "
            f"{state.bytes:,} bytes; has SCN {state.start + 1} to {entry.absorbed}"
        )


def _upper_lines(session: Session, plan: ViewPlan, state: CatalogState, context: BindContext) -> Iterator[str]:
    words = plan.words(context.now, state.scn)
    upper = plan.upper({**words, **(plan.window_words(0, {}) if plan.windows and not plan.times else {})})
    choice = choose_kernel(upper, 0, session.settings)
    yield ""
    when = (
        "when windows are complete, all that are due in one job,"
        if plan.windows
        else "at a read when something has changed,"
    )
    yield f"Upper query: runs {when} on the {choice.kernel} kernel while its inputs fit"
    for scan in upper.scans:
        if isinstance(scan.relation, Table):
            yield f'  Reads table "{scan.relation.name}" as of {"the result" if plan.windows else "the read"}'
        elif isinstance(scan.relation, ContinuousView):
            yield f'  Reads view "{scan.relation.name}" at the same SCN'
        elif scan.source == "static":
            yield f"  Reads {scan.relation.name} as it was when the view was created"
        else:
            yield f"  Merges {scan.relation.name}"
    if words:
        yield "  Takes from the moment of reading: " + ", ".join(f"{kind} {word}" for kind, word in words.items())
    yield "  SQL:"
    yield f"    {upper.sql(choice.kernel)}"


def _refresh_lines(session: Session, view: ContinuousView) -> Iterator[str]:
    views = session.store.views
    count, seconds = views.refreshes.get(view.id, (0, 0.0))
    yield ""
    result = views.last(view.id)
    if result is None:
        yield "Result: none is kept; the next read computes it"
        return
    yield (
        f"Result: {result.rows:,} rows of SCN {result.scn}, from {result.rows_in:,} rows of inputs in "
        f"{result.seconds * 1000:,.0f} ms, {time.monotonic() - result.at:,.1f} s ago"
    )
    yield f"Refreshes since the database was opened: {count}, on average {seconds / max(count, 1) * 1000:,.0f} ms"


def frozen_tables(session: Session, view: ContinuousView) -> list[str]:
    """For DESCRIBE: the tables that the view reads as they were when it was created."""
    plan, readers = session.store.views.plan(view), session.store.views.readers_of(view.id)
    found: dict[str, int | None] = {}
    for pipeline in plan.pipelines:
        own = next((r.state.statics for _, r in readers if r.state.program.name == pipeline.name), {})
        for static in pipeline.rows.statics:
            kept = own.get(static.relation.name)
            found |= {scan.relation.name: kept.scn if kept is not None else None for scan in static.query.scans}
    return [f'table "{name}" is read as of SCN {scn}, when the view was created' for name, scn in found.items()]


def facts_of(session: Session, view: ContinuousView) -> tuple[int, int, float | None, int, float | None, int | None]:
    """For SHOW VIEWS: rows behind, state's bytes, seconds of the last refresh, refreshes, age of the result, rows."""
    views, streams = session.store.views, session.store.streams
    readers = views.readers_of(view.id)
    behind = max((streams.rows_behind(entry) for entry, _ in readers), default=0)
    size = sum(reader.state.bytes for _, reader in readers)
    result: Result | None = views.last(view.id)
    count, _ = views.refreshes.get(view.id, (0, 0.0))
    if view.is_windowed:
        log, spent = views.windows.log_of(view), views.windows.spent.get(view.id)
        newest = log.results[-1] if log.results else None
        seconds = spent.last_seconds if spent is not None else None
        jobs = spent.jobs if spent is not None else 0
        if newest is None:
            return behind, size, seconds, jobs, None, None
        return behind, size, seconds, jobs, time.time() - newest.at, newest.rows
    if result is None:
        return behind, size, None, count, None, None
    return behind, size, result.seconds, count, time.monotonic() - result.at, result.rows
