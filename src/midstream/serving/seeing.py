"""What a query of a session sees: tables, stored answers and results of continuous views, all of one SCN."""

from __future__ import annotations

from midstream.maintenance.engine import Cancellation
from midstream.plan import BoundQuery
from midstream.runtime.reading import Picture
from midstream.runtime.seeing import seen_alone, seen_within
from midstream.runtime.transaction import Transaction
from midstream.serving.session import Session


def seen_by(session: Session, transaction: Transaction, bound: BoundQuery, cancellation: Cancellation) -> Picture:
    seen = seen_within if session.in_transaction else seen_alone
    return seen(transaction, bound, session.settings, cancellation)
