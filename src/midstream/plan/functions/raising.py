"""How a kernel's SQL says that a value is wrong."""

from __future__ import annotations

from midstream.kernels import Kernel, quote_text

ERROR_MARK = "midstream"


def raise_error(sqlstate: str, message: str, kernel: Kernel, value: str | None = None) -> str:
    """An expression that fails when it is computed; `value` is SQL text appended to the message in quotes."""
    text = quote_text(f"{ERROR_MARK} {sqlstate}: {message}", kernel)
    if value is not None:
        text = f"concat({text}, ': \"', {value}, '\"')"
    return f"error({text})" if kernel == "duckdb" else f"raise_error({text})"
