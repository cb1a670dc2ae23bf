"""What the query of a statement sees: everything at one SCN.

A statement by itself sees the SCN of its continuous views' results, with the stored answers of the same SCN, and one
that writes begins there. In a transaction tables stay as they were when it began, with its own changes on top. Streams
take no part in it: views over them have every row acknowledged so far, over the tables that the transaction sees.

    BEGIN;  UPDATE prices …;  SELECT * FROM sales_at_prices;     -- all sales, at the new prices
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from midstream.errors import TransactionConflict, Unsupported
from midstream.maintenance.engine import Cancellation
from midstream.plan import BoundQuery
from midstream.relations.catalog import CatalogState
from midstream.relations.query import MaterializedView
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView
from midstream.runtime.reading import Picture
from midstream.runtime.stored_schema import ComputedSchema, StateSchema, stored_answers
from midstream.runtime.transaction import Transaction
from midstream.runtime.writing import Writer


def schema_seen(transaction: Transaction, *, is_alone: bool) -> StateSchema:
    """What names stand for: inside of a transaction, a view that is kept on commit is its query."""
    kind = StateSchema if is_alone else ComputedSchema
    return kind(transaction.store.catalog, transaction.state)


def seen_alone(
    transaction: Transaction, bound: BoundQuery, settings: Mapping[str, object], cancellation: Cancellation | None
) -> Picture:
    """What the query of a statement by itself sees."""
    views, stored = views_in(bound), stored_answers(bound)
    materialized = transaction.store.queries.materialized
    if views:
        _bring_below(transaction, views, cancellation)
        return materialized.moment(views, stored, settings, cancellation)
    if stored:
        state = materialized.bring(stored, cancellation)
        _check_same(bound, transaction.state, state)
        return transaction.glimpse(state)
    return transaction


def _check_same(bound: BoundQuery, before: CatalogState, after: CatalogState) -> None:
    """A query is bound to what was there before stored answers were brought up to date, and reads what is there now."""
    names = {scan.relation.name for scan in bound.scans if isinstance(scan.relation, Table) and scan.as_of is None}
    changed = next((name for name in names if before.relations.get(name) != after.relations.get(name)), None)
    if changed is not None:
        raise TransactionConflict(f'"{changed}" was changed meanwhile', hint="Run the statement again.")


def _bring_below(transaction: Transaction, views: Iterable[ContinuousView], stop: Cancellation | None) -> None:
    """Stored answers that views read have all that was committed so far."""
    store = transaction.store
    tables = [table for view in views for table in store.views.tables_above(view)]
    below = [table for table in tables if isinstance(table, MaterializedView) and table.when == "on commit"]
    if below:
        store.queries.materialized.bring(below, stop)


def seen_within(
    transaction: Transaction, bound: BoundQuery, settings: Mapping[str, object], cancellation: Cancellation | None
) -> Picture:
    """What a query inside of a transaction sees."""
    views = views_in(bound)
    if not views:
        return transaction
    new = next((view for view in views if view.id in transaction.defined), None)
    if new is not None:
        raise Unsupported(
            f'view "{new.name}" can be read after COMMIT',
            detail="A continuous view begins with the commit that creates it.",
        )
    return transaction.store.views.moment_within(views, transaction.glimpse(), settings, cancellation)


def seeing(writer: Writer, bound: BoundQuery) -> Writer:
    """A writer whose query sees everything at one SCN."""
    transaction, stop = writer.transaction, writer.cancellation
    if not writer.is_alone:
        return replace(writer, picture=seen_within(transaction, bound, writer.settings, stop))
    # What is written now may not come from an answer that is older than the table.
    picture = seen_alone(transaction, bound, {**writer.settings, "max_staleness": 0.0}, stop)
    if picture is transaction:
        return writer
    if picture.state.relations is not transaction.base.relations:
        raise TransactionConflict("definitions were changed meanwhile", hint="Run the statement again.")
    transaction.see(picture.state)
    return replace(writer, picture=picture)


def views_in(bound: BoundQuery) -> list[ContinuousView]:
    return [scan.relation for scan in bound.scans if isinstance(scan.relation, ContinuousView)]
