"""Constants as text that means exactly that value and type, whatever it holds."""

from __future__ import annotations

from midstream.kernels import Kernel, kernel_type, quote_text
from midstream.types import INTERVAL, Type


def render_constant(text: str, type: Type, kernel: Kernel) -> str:
    """`text` is the canonical form that typing gave the value."""
    if type.name == "int" and 0 <= int(text) < 2**31:
        return text
    if type.is_number:
        spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text)
        return f"CAST('{spelled}' AS {kernel_type(type, kernel)})"
    if type.name == "boolean":
        return text
    if type.is_time:
        return _moment(text, type, kernel)
    if type.name == "interval":
        return _interval(text, kernel)
    if type.name == "bytea":
        return f"unhex('{text}')" if kernel == "duckdb" else f"X'{text}'"
    return quote_text(text, kernel)


def _moment(text: str, type: Type, kernel: Kernel) -> str:
    if type.name == "date":
        return f"DATE '{text}'"
    if type.name == "timestamp":
        return f"{'TIMESTAMP' if kernel == 'duckdb' else 'TIMESTAMP_NTZ'} '{text}'"
    return f"TIMESTAMPTZ '{text}+00'" if kernel == "duckdb" else f"TIMESTAMP_LTZ '{text}+00:00'"


def _interval(text: str, kernel: Kernel) -> str:
    months, days, microseconds = text.split()
    if kernel == "duckdb":
        return f"INTERVAL '{months} months {days} days {microseconds} microseconds'"
    parts = f"named_struct('months', {months}, 'days', {days}, 'microseconds', CAST('{microseconds}' AS BIGINT))"
    # The cast makes the fields nullable, so that a column can hold such a value beside NULL.
    return f"CAST({parts} AS {kernel_type(INTERVAL, kernel)})"


def render_null(type: Type, kernel: Kernel) -> str:
    return f"CAST(NULL AS {kernel_type(type, kernel)})"
