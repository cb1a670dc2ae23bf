"""EXPLAIN of a query: which kernel runs it and why, what it reads, and the SQL text that runs.

Kernel: duckdb (2 inputs with 1,204 rows fit one task)
Not spark: percentile_disc has no exact counterpart there
Scan scan_0: table "users" at SCN 41: id, name; 1,000 rows, 34 kB
SQL:
  SELECT …
"""

from __future__ import annotations

from collections.abc import Mapping

from midstream.kernels import Kernel
from midstream.plan.bound import BoundQuery, Scan

_SOURCES = {"table": "table", "changes": "change log of table", "history": "stream", "view": "continuous view"}


def explain_query(
    bound: BoundQuery, kernel: Kernel, reason: str, inputs: Mapping[str, object] | None = None
) -> list[str]:
    """One line for each thing to know. `inputs` are what the scans read, by name: `scan_0`, or parts of it such
    as `scan_0_base`, each with `rows` and `bytes` where they are known."""
    lines = [f"Kernel: {kernel} ({reason})"]
    lines += [f"Not {other}: {why}" for other, why in bound.refusals.items() if other != kernel]
    lines += [_scan_line(scan, inputs or {}) for scan in bound.scans]
    lines.append("SQL:")
    lines += [f"  {line}" for line in bound.sql(kernel).splitlines()]
    return lines


def _scan_line(scan: Scan, inputs: Mapping[str, object]) -> str:
    what = _SOURCES[scan.source]
    at = "" if scan.as_of is None else f" at SCN {scan.as_of}"
    parts = [part for name, part in inputs.items() if name == scan.name or name.startswith(f"{scan.name}_")]
    amounts = [_rows(parts), _bytes(parts)] if parts else []
    columns = ", ".join(scan.columns)
    return "; ".join([f'Scan {scan.name}: {what} "{scan.relation.name}"{at} ({columns})', *filter(None, amounts)])


def _total(parts: list[object], attribute: str) -> int | None:
    amounts = [getattr(part, attribute, None) for part in parts]
    return sum(amount for amount in amounts if amount is not None) if all(a is not None for a in amounts) else None


def _rows(parts: list[object]) -> str:
    rows = _total(parts, "rows")
    return "" if rows is None else f"{rows:,} row{'' if rows == 1 else 's'}"


def _bytes(parts: list[object]) -> str:
    count = _total(parts, "bytes")
    if count is None:
        return ""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
