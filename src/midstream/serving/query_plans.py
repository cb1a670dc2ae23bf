"""EXPLAIN and SHOW of continuous queries and materialized views: by which terms they are kept, what was proved, what it
cost, and why anything is computed anew."""

from __future__ import annotations

import time
from collections.abc import Iterator

from midstream.plan import BindContext
from midstream.plan.difference import Kind, Step, Unit
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.runtime.continuous import defining, stored_views
from midstream.runtime.continuous.computing import Kept, Plans, database_setting
from midstream.runtime.continuous.log import Backing
from midstream.runtime.continuous.stepping import Spent
from midstream.runtime.transaction import Transaction
from midstream.runtime.writing import Writer
from midstream.serving.result import Row
from midstream.serving.session import Session
from midstream.sql.statements import CreateContinuousQuery, CreateView
from midstream.types import BIGINT, DOUBLE, TEXT, Type

_CASES: tuple[tuple[str, Kind], ...] = (
    ("When rows only came to its tables", "insert"),
    ("When rows only went from its tables", "delete"),
    ("When anything happened to its tables", "mixed"),
)
_WORDS = {
    "term": "computed",
    "empty": "proved empty",
    "groups": "sums of groups that a change touches, with what came and without what went",
    "frames": "rows that came, with those before them that are kept",
    "keyed": "computed for what a change touches",
    "recompute": "computed before and after, and compared",
}


def explain_kept(session: Session, query: Kept, state: CatalogState) -> list[str]:
    """One that is there."""
    log, plans = session.store.queries.log_of(query), session.store.queries.plans_of(query)
    over_views = bool(plans.views(state))
    lines = [_header(query, over_views), f"It is {log.status}, and has come to SCN {log.position} of {state.scn}."]
    if log.error is not None:
        lines.append(f"It was suspended: {log.error}")
    if log.last_full is not None:
        lines.append(f"The last time that all of it was computed anew: {log.last_full}.")
    if log.backing is not None:
        lines.append(_kept(log.backing, plans, state))
    if plans.by_log:
        lines.append(_by_log(plans))
    spent = session.store.queries.spent.get(query.id)
    if spent is not None and spent.jobs:
        lines.append(_cost(spent))
    return [*lines, *_terms(session, query, state, log.backing is not None)]


def explain_new_kept(
    session: Session, statement: CreateContinuousQuery | CreateView, context: BindContext
) -> list[str]:
    """One that is not there yet."""
    transaction = Transaction(session.store)
    try:
        writer = Writer(transaction, context, session.settings)
        if isinstance(statement, CreateView):
            query: Kept = stored_views.defined_view(writer, statement)
        else:
            query = defining.defined_query(writer, statement)
        return [_header(query), *_terms(session, query, transaction.state)]
    finally:
        transaction.end()


def _header(query: Kept, over_views: bool = False) -> str:
    if isinstance(query, MaterializedView):
        when = {"on commit": "on commit", "on demand": "on demand"}.get(
            query.when, f"every {query.period_seconds or 0:g} s"
        )
        return f'Materialized view "{query.name}": a stored answer, refreshed {when}, over {", ".join(query.reads)}.'
    when = query.when if query.when != "periodic" else f"every {query.period_seconds} s"
    how = "commit by commit" if query.transactional else "the net change of all commits since the last time"
    how = how if not over_views else "by comparing answers"
    target = f", to {'queue ' if query.is_queue else ''}{query.destination}" if query.destination else ""
    return f'Continuous query "{query.name}": computed {when}, {how}, over {", ".join(query.reads)}{target}.'


def _cost(spent: Spent) -> str:
    return (
        f"Since the database was opened: {spent.computed:,} times computed in {spent.jobs:,} jobs, "
        f"{spent.changes:,} changes, {spent.seconds:,.2f} s; the last took {spent.last_seconds * 1000:,.0f} ms."
    )


def _kept(backing: Backing, plans: Plans, state: CatalogState) -> str:
    plan = plans.backing(state, {}, True)
    what = "Rows that its frames may reach" if plan is not None and plan.what == "rows" else "Sums of its groups"
    if plan is not None and plan.what == "partitions":
        what = "Sums of its partitions"
    files = f"{len(backing.files):,} file{'s' if len(backing.files) != 1 else ''}"
    return f"{what} are kept: {backing.rows:,} in {files}, {backing.bytes / 1024:,.0f} kB."


def _by_log(plans: Plans) -> str:
    wanted = database_setting(plans.store, "preimage")
    why = "there were more and smaller files then" if wanted == "auto" else f"preimage = '{wanted}'"
    tables = ", ".join(plans.by_log)
    return f"What {tables} had before the last change was taken from what is there now and the log: {why}."


def _terms(session: Session, query: Kept, state: CatalogState, has_backing: bool = False) -> Iterator[str]:
    plans = Plans(session.store, query)
    has_backing = has_backing or plans.keeps_frames(state)
    if plans.stream is not None:
        yield f"Rows that come to stream {plans.stream}, filtered and mapped, are its changes: a reader of the stream."
        return
    if plans.views(state):
        yield "It reads a continuous view: its answer is computed when that may have changed, and compared."
        return
    if query.refresh == "full":
        yield "refresh = 'full': the query is computed before and after, and compared."
        return
    cases = []
    for title, kind in _CASES:
        changed = plans.possible(state, kind)
        found = plans.difference(state, changed, True, has_backing=has_backing)
        cases.append((title, [_line(step) for step in found.steps] if found is not None else []))
        near = plans.difference(state, changed, True, units="near")
        cases[-1][1].extend(map(_unit, near.units if near is not None else ()))
    if all(lines == cases[0][1] for _, lines in cases):
        cases = [("Whatever happened to its tables", cases[0][1])]
    for title, lines in cases:
        yield f"{title}:"
        yield from lines
    if query.refresh != "incremental":
        yield "Only the terms of tables that changed are computed."


def _unit(unit: Unit) -> str:
    child, parent = unit.child.name, unit.parent.name
    those = f"went from {child} referred to rows that went" if unit.went else f"came to {child} refer to rows that came"
    return f"  dlt({parent}) is enough of {parent} where all rows that {those} with them"


def _line(step: Step) -> str:
    reason = f" ({step.reason})" if step.reason else ""
    return f"  {step.text}: {_WORDS[step.kind]}{reason}"


# --- SHOW ----------------------------------------------------------------------------------------------

COLUMNS: list[tuple[str, Type]] = [
    ("name", TEXT),
    ("state", TEXT),
    ("compute", TEXT),
    ("destination", TEXT),
    ("scn", BIGINT),
    ("lag_commits", BIGINT),
    ("changes", BIGINT),
    ("jobs", BIGINT),
    ("seconds", DOUBLE),
    ("last_ms", DOUBLE),
    ("error", TEXT),
    ("query", TEXT),
]


def rows_of(session: Session, state: CatalogState) -> list[Row]:
    queries = sorted((r for r in state.relations.values() if isinstance(r, ContinuousQuery)), key=lambda q: q.name)
    return [_row(session, query, state) for query in queries]


def _row(session: Session, query: ContinuousQuery, state: CatalogState) -> Row:
    hub = session.store.queries
    log, spent = hub.log_of(query), hub.spent.get(query.id) or Spent()
    ids = [table.id for table in hub.plans_of(query).tables(state)]
    behind = len(session.store.catalog.commits_that_changed(ids, log.position, state.scn)) if ids else 0
    costs = (spent.jobs, round(spent.seconds, 3), round(spent.last_seconds * 1000, 1))
    target = f"queue {query.destination}" if query.is_queue else query.destination
    return (
        query.name,
        log.status.upper(),
        _compute_text(query),
        target,
        *(log.position, behind, log.rows, *costs),
        log.error,
        query.query,
    )


def _compute_text(query: ContinuousQuery) -> str:
    mode = "TRANSACTIONAL" if query.transactional else "BATCHED"
    if query.when == "on commit":
        return "ON COMMIT"
    if query.when == "on demand":
        return f"{mode} DELTA ON DEMAND"
    next_one = (
        f" START WITH '{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(query.start_at))}'" if query.start_at else ""
    )
    return f"{mode} DELTA{next_one} PERIOD {query.period_seconds} SECONDS"
