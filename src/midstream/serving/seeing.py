"""What a query of a session sees: tables, stored answers and results of continuous views, all of one SCN."""

from __future__ import annotations

from midstream.errors import TransactionConflict, Unsupported
from midstream.maintenance.engine import Cancellation
from midstream.plan import BoundQuery
from midstream.relations.catalog import CatalogState
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView
from midstream.runtime.reading import Picture
from midstream.runtime.results import Moment
from midstream.runtime.stored_schema import stored_answers
from midstream.runtime.transaction import Glimpse, Transaction
from midstream.serving.session import Session


def seen_by(session: Session, transaction: Transaction, bound: BoundQuery, cancellation: Cancellation) -> Picture:
    """What a query sees. With continuous views in it, all that it reads is of the SCN of their results; in a
    transaction its tables stay as they were when that began, since streams take no part in it; what it sees of these is
    never older than its tables."""
    views = [scan.relation for scan in bound.scans if isinstance(scan.relation, ContinuousView)]
    if not views:
        return _with_stored(session, transaction, bound, cancellation)
    new = next((view for view in views if view.id in transaction.defined), None)
    if new is not None:
        raise Unsupported(
            f'view "{new.name}" can be read after COMMIT',
            detail="A continuous view begins with the commit that creates it.",
        )
    if not session.in_transaction:
        return session.store.queries.materialized.moment(views, stored_answers(bound), session.settings, cancellation)
    moment = session.store.views.moment(views, session.settings, cancellation, transaction.state.scn)
    return Moment(transaction.state, moment.results, transaction.changes)


def _with_stored(session: Session, transaction: Transaction, bound: BoundQuery, cancellation: Cancellation) -> Picture:
    """Materialized views that are kept on commit have the answers of the SCN at which everything is read."""
    stored = stored_answers(bound)
    if session.in_transaction or not stored:
        return transaction
    materialized = session.store.queries.materialized
    state = materialized.bring(stored, cancellation)
    _check_same(bound, transaction.state, state)
    return Glimpse(state, dict(transaction.changes))


def _check_same(bound: BoundQuery, before: CatalogState, after: CatalogState) -> None:
    """A query is bound to what was there before stored answers were brought up to date, and reads what is there now."""
    names = {scan.relation.name for scan in bound.scans if isinstance(scan.relation, Table) and scan.as_of is None}
    changed = next((name for name in names if before.relations.get(name) != after.relations.get(name)), None)
    if changed is not None:
        raise TransactionConflict(f'"{changed}" was changed meanwhile', hint="Run the statement again.")
