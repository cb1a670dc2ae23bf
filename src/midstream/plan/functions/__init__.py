"""The table of functions: what may be called, with which types, and its text on each kernel.

A function that is not here does not exist. `docs/functions.md` is printed from this table, and every example
in it runs on both kernels and on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable

from midstream.kernels import KERNELS, Kernel
from midstream.plan.functions import (
    aggregates,
    arrays,
    binaries,
    casts_table,
    numbers,
    operators,
    partials,
    patterns,
    spark_only,
    texts,
    times,
    windows,
)
from midstream.plan.functions.model import Function, Refusal

FAMILIES: dict[str, list[Function]] = {
    "Comparison and choice": operators.FUNCTIONS,
    "Numbers": numbers.FUNCTIONS,
    "Texts": texts.FUNCTIONS,
    "Regular expressions": patterns.FUNCTIONS,
    "Casts": casts_table.FUNCTIONS,
    "Dates and times": times.FUNCTIONS,
    "Arrays": arrays.FUNCTIONS,
    "Bytes and JSON": binaries.FUNCTIONS,
    "Aggregates": aggregates.FUNCTIONS,
    "Window functions": windows.FUNCTIONS,
    "More of Spark's": spark_only.FUNCTIONS,
}
_CALLABLE = [f for family in FAMILIES.values() for f in family]
FUNCTIONS: dict[str, Function] = {f.signature: f for f in [*_CALLABLE, *partials.FUNCTIONS]}


def _by_name(functions: Iterable[Function]) -> dict[str, list[Function]]:
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    return named


FUNCTIONS_BY_NAME: dict[str, list[Function]] = _by_name(_CALLABLE)
FORBIDDEN = frozenset(
    """java_method reflect try_reflect input_file_name input_file_block_start input_file_block_length read_files
    read_csv read_csv_auto read_parquet parquet_scan read_json read_json_auto read_ndjson read_text read_blob glob
    getenv getvariable current_setting set_config query query_table pg_read_file pg_ls_dir lo_import lo_export
    from_substrait spark_partition_id monotonically_increasing_id""".split()
)


_WORD_OPERATORS = frozenset(
    ["like", "ilike", "like escape", "ilike escape", "similar to", "is null", "is true", "is false"]
    + ["is distinct from", "is not distinct from"]
)


def is_operator(name: str) -> bool:
    return not name[0].isalpha() or name in _WORD_OPERATORS


def is_aggregate_name(name: str) -> bool:
    """Aggregates and window functions: what may stand before OVER."""
    return any(function.shape in ("aggregate", "window") for function in FUNCTIONS_BY_NAME.get(name, ()))


__all__ = [
    "FAMILIES",
    "FORBIDDEN",
    "FUNCTIONS",
    "FUNCTIONS_BY_NAME",
    "KERNELS",
    "Function",
    "Kernel",
    "Refusal",
    "is_aggregate_name",
    "is_operator",
]
