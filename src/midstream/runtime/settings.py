"""Settings: what SET and `connect` can say, with their kinds and defaults.

A setting of a session lasts as long as the session; `retain_history` belongs to the database and is kept.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from midstream.errors import InvalidParameter


@dataclass(frozen=True)
class Setting:
    name: str
    default: object
    read: Callable[[object], object]
    about: str
    of_database: bool = False


_UNITS = {"ms": 0.001, "millisecond": 0.001, "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_UNITS |= {"d": 86400, "day": 86400, "week": 604800}
_BYTES = {"": 1, "b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def read_duration(value: object) -> float:
    """'7 days', '500 ms' or a number of seconds, as seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*?)s?\s*", str(value).lower())
    unit = match[2] if match else ""
    if match is None or (unit and unit not in _UNITS and unit + "s" not in _UNITS):
        raise ValueError("a duration such as '7 days' or '500 ms'")
    scale = _UNITS.get(unit) or _UNITS.get(unit + "s") or 1
    return float(match[1]) * scale


def read_bytes(value: object) -> int:
    """'64 MB' or a number of bytes."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmg]?i?b)?\s*", str(value).lower())
    if match is None:
        raise ValueError("a size such as '512 MB'")
    return int(match[1]) * _BYTES[match[2] or ""]


def read_count(value: object) -> int:
    if not str(value).strip().isdigit():
        raise ValueError("a whole number")
    return int(str(value))


def _one_of(*words: str) -> Callable[[object], object]:
    def read(value: object) -> object:
        if str(value).lower() not in words:
            raise ValueError(" or ".join(f"'{word}'" for word in words))
        return str(value).lower()

    return read


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("kernel", "auto", _one_of("auto", "duckdb", "spark"), "which kernel runs queries"),
        Setting("kernel_limit", 4 * 2**30, read_bytes, "the most that one DuckDB task reads; more runs as Spark SQL"),
        Setting(
            "max_backlog", 2**30, read_bytes, "the most that a stream's readers may have to absorb; inserts then wait"
        ),
        Setting("insert_timeout", 30.0, read_duration, "how long an insert waits for the readers of its stream"),
        Setting("max_staleness", 0.0, read_duration, "how old a continuous view's result may be that a read takes"),
        Setting(
            "idle",
            0.0,
            read_duration,
            "windows of a stream's own time close when nothing has come so long; 0: never",
            True,
        ),
        Setting(
            "max_queue",
            10_000_000,
            read_count,
            "the most changes that wait for the slowest subscriber of a queue",
            True,
        ),
        Setting(
            "preimage",
            "auto",
            _one_of("auto", "as of", "anti-join", "kept"),
            "how a change reads what was: tables as of that SCN, or less what the log has; or sums that are kept",
            True,
        ),
        Setting(
            "foreign_key_units",
            "auto",
            _one_of("auto", "on", "off"),
            "whether rows that came with the row that they refer to are joined with what came alone",
            True,
        ),
        Setting("retain_history", 7 * 86400.0, read_duration, "how long AS OF and the change logs reach back", True),
    )
}


DEFAULTS = {name: setting.default for name, setting in SETTINGS.items()}


def read_setting(name: str, value: object) -> object:
    """A value for a setting, or a clear no."""
    setting = SETTINGS.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, SETTINGS, 1)
        raise InvalidParameter(
            f'unrecognized setting "{name}"',
            detail="The settings are " + ", ".join(SETTINGS) + ".",
            hint=f'Did you mean "{near[0]}"?' if near else None,
            sqlstate="42704",
        )
    try:
        return setting.read(value)
    except ValueError as error:
        raise InvalidParameter(f'invalid value for setting "{name}": {value!r}', hint=f"It takes {error}.") from None
