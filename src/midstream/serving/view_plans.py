"""EXPLAIN, SHOW and DESCRIBE of continuous views: what runs when, what is shared, what is kept, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

from midstream.maintenance.engine import Cancellation
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
from midstream.runtime.refreshing import Chosen, choose_upper, sources_for
from midstream.runtime.trials import Trial
from midstream.runtime.views import how_to_cut
from midstream.runtime.window_job import inputs_of
from midstream.runtime.windows import ANEW, PAIRS
from midstream.serving.session import Session
from midstream.sql.statements import CreateView

Readers = Sequence[tuple[ReaderEntry, PipelineReader]]


def explain_new(session: Session, statement: CreateView, state: CatalogState, context: BindContext) -> list[str]:
    """A view that does not exist yet: what would be kept, and what would run at a read."""
    maintenance = str(statement.options.get("maintenance", "auto")).lower()
    how = how_to_cut(str(session.settings["kernel"]), maintenance)
    plan, unit = session.store.views.cut_new(statement.query, state, context, how, session.settings)
    kind = "over windows" if plan.windows else "continuous"
    lines = [f'View "{statement.name}" would be {kind}: {_when(plan)}.']
    lines += [line for window in plan.windows for line in _window_lines(window)]
    lines += _maintenance_lines(maintenance, plan) if plan.windows else []
    for pipeline in plan.pipelines:
        is_pair = pipeline in plan.pairs
        lines += _pair_lines(pipeline) if is_pair else _pipeline_lines(pipeline, fold([pipeline]), (), state, None)
    return [*lines, *_upper_lines(session, plan, state, (), "auto"), *_notices(plan)]


def explain_view(session: Session, view: ContinuousView, state: CatalogState) -> list[str]:
    views = session.store.views
    plan, readers = views.plan(view, state), views.readers_of(view.id)
    lines = [f'View "{view.name}" is {"over windows" if plan.windows else "continuous"}: {_when(plan)}.']
    lines += [line for window in plan.windows for line in _window_lines(window)]
    lines += _maintenance_lines(view.maintenance, plan, views.windows.trials.get(view.id)) if plan.windows else []
    for pipeline in plan.pipelines:
        if pipeline in plan.pairs:
            lines += _pair_lines(pipeline)
            continue
        own = [(entry, reader) for entry, reader in readers if reader.state.program.name == pipeline.name]
        folded = fold([pipeline], own[0][1].kernel if own else None)
        lines += _pipeline_lines(pipeline, folded, own, state, _frozen_at(plan, readers))
        lines += _work_lines(session, own, state)
    lines += _upper_lines(session, plan, state, readers, view.kernel)
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


def _maintenance_lines(maintenance: str, plan: ViewPlan, trial: Trial | None = None) -> list[str]:
    if maintenance == "reevaluate":
        return ["Maintenance: every window is evaluated anew over its rows, since the view says 'reevaluate'"]
    if maintenance == "auto" and plan.pairs:
        return [_tried(trial)]
    why = "as long as the view does not say 'reevaluate'"
    if maintenance == "incremental":
        why = "as the view says"
    elif len(plan.windows) == 1:
        why = (
            "since no row of one stream needs to be kept for it, and evaluating anew took as long for small windows "
            "and longer for large ones"
        )
    return [f"Maintenance: incremental, {why}: each row is absorbed once"]


def _tried(trial: Trial | None) -> str:
    """What was measured of a join of windows."""
    ways = {PAIRS: "by pairs of basic windows", ANEW: "anew over all rows"}
    both = "by pairs of basic windows, or anew over the rows of both sides, whichever takes less time"
    if trial is None or not trial.is_over:
        return f"Maintenance: {both}: that is being measured"
    measured = ", ".join(f"{ways[way]}: {seconds * 1000:,.0f} ms" for way, seconds in trial.seconds.items())
    return (
        f"Maintenance: {ways[trial.way]}, since that took less time ({measured}); measured again when the load changes"
    )


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
    failure = windows.failure(view.id)
    if failure is not None:
        yield f"It goes no further: {failure.message}. {failure.detail or ''}".rstrip()
    if log.totals:
        groups = sum(total.file.rows for total in log.totals.values() if total.file is not None)
        yield (
            f"What the {groups:,} groups of the last window come to is kept: the next adds the newest basic window and "
            "takes the oldest away"
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


def _pipeline_lines(
    pipeline: Pipeline, folded: Folded, readers: Readers, state: CatalogState, frozen_at: int | None
) -> Iterator[str]:
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
            yield "  Groups that no later read can ask for go when partials are merged, and from large files in between"
    yield f"  Keeps: {len(program.columns) - len(program.keys)} columns of partials, {len(program.keys)} of keys"
    yield from _sharing(readers, state)
    yield from _static_lines(folded, readers, frozen_at)
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


def _frozen_at(plan: ViewPlan, readers: Readers) -> int | None:
    """The SCN of all tables that a view reads below its groupings: that of the last static input that was computed for
    it. Those that it shares are older, and were found unchanged by then."""
    own = {(pipeline.name, static.relation.name) for pipeline in plan.pipelines for static in pipeline.rows.statics}
    return max(
        (
            kept.scn
            for _, reader in readers
            for name, kept in reader.state.statics.items()
            if (reader.state.program.name, name) in own
        ),
        default=None,
    )


def _static_lines(folded: Folded, readers: Readers, frozen_at: int | None) -> Iterator[str]:
    for static in folded.statics:
        tables = ", ".join(f'"{scan.relation.name}"' for scan in static.query.scans)
        if not readers:
            yield f"  Static input {static.relation.name} from {tables}: computed at CREATE, and frozen from then on"
            continue
        rows = sum(file.rows for file in readers[0][1].state.statics[static.relation.name].files)
        yield f"  Static input {static.relation.name} from {tables}: {rows:,} rows, frozen as of SCN {frozen_at}"
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


def _work_lines(session: Session, readers: Readers, state: CatalogState) -> Iterator[str]:
    """Rows in and out of a pipeline, and what each step took, since the database was opened."""
    streams = {r.id: r.name for r in state.relations.values() if isinstance(r, Stream)}
    for entry, reader in readers:
        work, rate = session.store.streams.work_of(entry.id)
        of = f' of "{streams[entry.stream_id]}"' if entry.stream_id in streams and len(readers) > 1 else ""
        yield (
            f"  Absorbed since the database was opened{of}: {work.rows:,} rows in {work.batches:,} batches, "
            f"{work.made:,} rows of partials out; {_ms(work.computing)} in jobs, which all readers of a batch share, "
            f"and {_ms(work.keeping)} to keep what they made; {rate:,.0f} rows/s lately"
        )
        merges = session.store.views.merger.spent.get(reader.id)
        if merges is not None:
            yield (
                f"  Merged in the background{of}: {merges.jobs:,} times, {merges.rows_in:,} rows of partials in, "
                f"{merges.rows_out:,} out, {_ms(merges.seconds)}"
            )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


_FORCED = {
    "spark": "the view was created under SET kernel = 'spark'",
    "duckdb": "pairs of windows are joined there",
}
"""Why the windows of a view are computed on one kernel and never on the other."""


def _chosen(session: Session, plan: ViewPlan, state: CatalogState, readers: Readers, kernel: str) -> Chosen:
    """The upper query over what is kept now. That of windows is told by the first one."""
    views = session.store.views
    picture = views.known(plan.reads, state)
    if not plan.windows:
        return choose_upper(session.store, plan, views.kept_of(readers, state), picture, session.settings)
    kept = inputs_of(readers, state.scn)
    # A view that does not exist yet has frozen nothing.
    unmade = {static.relation.name: () for pipeline in plan.pipelines for static in pipeline.rows.statics}
    kept = replace(kept, files={**unmade, **kept.files})
    now = datetime.now(timezone.utc)
    words, upper = plan.words(now, state.scn), plan.shown(now, state.scn)
    sources = sources_for(session.store, plan, upper.scans, kept, {}, picture, "duckdb")
    forced = "spark" if kernel == "spark" else "duckdb" if plan.pairs else "auto"
    choice = choose_kernel(upper, sources.bytes, {**session.settings, "kernel": forced})
    reason = _FORCED.get(forced, choice.reason)
    return Chosen(words, upper, sources, replace(choice, reason=reason))


def _upper_lines(session: Session, plan: ViewPlan, state: CatalogState, readers: Readers, kernel: str) -> Iterator[str]:
    chosen = _chosen(session, plan, state, readers, kernel)
    words, upper, choice = chosen.words, chosen.upper, chosen.choice
    yield ""
    when = (
        "when windows are complete, all that are due in one job,"
        if plan.windows
        else "at a read when something has changed,"
    )
    yield f"Upper query: runs {when} now on the {choice.kernel} kernel: {choice.reason}"
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


def measure_view(session: Session, view: ContinuousView, stop: Cancellation | None) -> list[str]:
    """EXPLAIN (ANALYZE): a refresh, and what its steps took. A view over windows computes what is due."""
    views, started = session.store.views, time.perf_counter()
    if view.is_windowed:
        result = views.moment([view], session.settings, stop).results[view.id]
        took = _ms(time.perf_counter() - started)
        return ["", f"Analyzed: everything up to SCN {result.scn} was absorbed and windows were computed in {took}"]
    measured = views.measured(view, session.settings, stop)
    result = measured.result
    lines = [f"Analyzed: a refresh at SCN {result.scn} took {_ms(time.perf_counter() - started)}"]
    lines.append(f"  {_ms(measured.waited)} until the stream pipelines had absorbed every acknowledged row")
    if views.inner_views(view):
        lines.append(f"  {_ms(measured.inner)} until the views that it reads had their results")
    lines.append(
        f"  {_ms(measured.computed)} for the upper query on the {measured.kernel} kernel: {result.rows_in:,} rows of "
        f"partials and tables in, {result.rows:,} rows out"
    )
    return ["", *lines]


def frozen_tables(session: Session, view: ContinuousView) -> list[str]:
    """For DESCRIBE: the tables that the view reads as they were when it was created."""
    plan, readers = session.store.views.plan(view), session.store.views.readers_of(view.id)
    scn = _frozen_at(plan, readers)
    statics = [static for pipeline in plan.pipelines for static in pipeline.rows.statics]
    names = dict.fromkeys(scan.relation.name for static in statics for scan in static.query.scans)
    return [f'table "{name}" is read as of SCN {scn}, when the view was created' for name in names]


@dataclass(frozen=True)
class ViewFacts:
    """For SHOW VIEWS and SHOW STATUS: where a continuous view stands."""

    lag_rows: int
    """Acknowledged rows that its pipelines have yet to absorb: those of the one that is furthest behind,"""
    lag_seconds: float
    """and how old the oldest of them is."""
    rows_per_second: float
    """What its pipelines have absorbed of its streams over the last seconds."""
    state_bytes: int
    refreshes: int
    last_refresh_seconds: float | None
    result_age: float | None
    rows: int | None


def facts_of(session: Session, view: ContinuousView) -> ViewFacts:
    views, streams = session.store.views, session.store.streams
    own = views.readers_of(view.id)
    feeding = [pair for id in views.with_inner([view]) for pair in views.readers_of(id)]
    rates: dict[int, float] = {}
    for entry, _ in feeding:
        _, rate = streams.work_of(entry.id)
        rates[entry.stream_id] = max(rate, rates.get(entry.stream_id, 0.0))
    return ViewFacts(
        max((streams.rows_behind(entry) for entry, _ in feeding), default=0),
        max((streams.seconds_behind(entry) for entry, _ in feeding), default=0.0),
        sum(rates.values()),
        sum(reader.state.bytes for _, reader in own),
        *_last_refresh(session, view),
    )


def _last_refresh(session: Session, view: ContinuousView) -> tuple[int, float | None, float | None, int | None]:
    """Refreshes, seconds of the last, age of its result, and its rows."""
    views = session.store.views
    if view.is_windowed:
        log, spent = views.windows.log_of(view), views.windows.spent.get(view.id)
        jobs, seconds = (spent.jobs, spent.last_seconds) if spent is not None else (0, None)
        newest = log.results[-1] if log.results else None
        return (jobs, seconds, None, None) if newest is None else (jobs, seconds, time.time() - newest.at, newest.rows)
    count, _ = views.refreshes.get(view.id, (0, 0.0))
    result = views.last(view.id)
    if result is None:
        return count, None, None, None
    return count, result.seconds, time.monotonic() - result.at, result.rows
