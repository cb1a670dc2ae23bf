"""What tests of windows share: rows at minutes of one day, the windows of a view in minutes, and a plan as one text."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

DAY = datetime(2024, 1, 1)
COUNTED = "SELECT window_start, window_end, count(*) AS n FROM"


def at(minute: float) -> datetime:
    return DAY + timedelta(minutes=minute)


def feed(db: Any, *numbers: int, stream: str = "s") -> None:
    db.sql(f"INSERT INTO {stream} VALUES " + ", ".join(f"({number})" for number in numbers))


def feed_at(db: Any, *minutes: float, stream: str = "e") -> None:
    """One insert, with a row at each of some minutes; its number is the minute."""
    db.sql(f"INSERT INTO {stream} VALUES " + ", ".join(f"('{at(minute)}', {int(minute)})" for minute in minutes))


def spans(db: Any, view: str = "v") -> list[tuple[Any, ...]]:
    """All windows of a view that begins with window_start and window_end, in minutes where they are times."""
    found = db.sql(f"SELECT * FROM {view} ALL WINDOWS").fetchall()
    return sorted((_minutes(start), _minutes(end), *rest) for start, end, *rest in found)


def _minutes(bound: Any) -> Any:
    return (bound - DAY) / timedelta(minutes=1) if isinstance(bound, datetime) else bound


def plan_of(db: Any, view: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall())
