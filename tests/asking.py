"""What many tests ask of a session: its rows, its commit number, an error that changes nothing, and all at once; and
what they wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import midstream


def rows(session: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(session.sql(query).fetchall(), key=repr)


def scn_now(session: Any) -> int:
    """As SHOW knows it, which takes no job."""
    return int(dict(session.sql("SHOW STATUS").fetchall())["current_scn"])


def fault(work: Callable[[], Any]) -> midstream.Error:
    with pytest.raises(midstream.Error) as caught:
        work()
    assert caught.value.sqlstate != "XX000", caught.value
    return caught.value


def refusal(session: Any, refused: str | Callable[[], Any]) -> midstream.Error:
    """The error of a statement, or of a call, that leaves everything as it was."""
    before = _state_of(session)
    error = fault(lambda: session.sql(refused).fetchall() if isinstance(refused, str) else refused())
    assert _state_of(session) == before
    return error


def refuses(session: Any, statement: str, *words: str) -> midstream.Error:
    """The error of a statement; each word is in its text, and no view or query was made or lost by it."""
    before = _kept_by(session)
    error = fault(lambda: session.sql(statement).fetchall())
    assert _kept_by(session) == before
    for word in words:
        assert word in str(error), f"{word!r} is not in: {error}"
    return error


def _kept_by(session: Any) -> list[str]:
    shown = [session.sql(f"SHOW {what}").fetchall() for what in ("VIEWS", "CONTINUOUS QUERIES")]
    return sorted(name for rows in shown for name, *_ in rows)


def _state_of(session: Any) -> list[Any]:
    streams = [(row["name"], row["rows"]) for row in session.sql("SHOW STREAMS").arrow().to_pylist()]
    return [streams, sorted(name for name, *_ in session.sql("SHOW VIEWS").fetchall()), scn_now(session)]


def in_threads(works: list[Callable[[], Any]], patience: float = 120) -> None:
    """Runs all at once; the first error of any is raised."""
    wrong: list[BaseException] = []

    def guarded(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=patience)
    assert not any(thread.is_alive() for thread in threads)
    if wrong:
        raise wrong[0]


def wait_for(claim: Callable[[], bool], seconds: float = 60) -> None:
    """Asks until it is so."""
    until = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)
