"""The rows of windows that have been computed, window by window. Those that lie in one file are read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from midstream.ingest.arrow_types import arrow_schema
from midstream.ingest.conform import conform
from midstream.kernels import quote_name
from midstream.maintenance.engine import FileColumn, Piece
from midstream.relations.view import ContinuousView
from midstream.runtime.results import WINDOW
from midstream.runtime.states import as_input
from midstream.runtime.store import Store
from midstream.runtime.window_log import WindowResult
from midstream.types import BIGINT

_AT_ONCE = 100_000
"""So many rows are read at a time, if windows are not larger."""


def rows_of(
    store: Store, view: ContinuousView, results: Sequence[WindowResult]
) -> Iterator[tuple[WindowResult, pa.Table]]:
    """Each result with its rows, in the order of the results."""
    for _, same in groupby(results, lambda result: tuple(map(id, result.files))):
        for some in _parted(list(same)):
            yield from zip(some, _read(store, view, some), strict=True)


def _parted(results: Sequence[WindowResult]) -> Iterator[list[WindowResult]]:
    part: list[WindowResult] = []
    for result in results:
        if part and sum(known.rows for known in part) + result.rows > _AT_ONCE:
            yield part
            part = []
        part.append(result)
    yield part


def _read(store: Store, view: ContinuousView, results: Sequence[WindowResult]) -> Iterator[pa.Table]:
    kept = results[0].files
    if not kept:
        empty = arrow_schema(view.basket.columns).empty_table()
        yield from (empty for _ in results)
        return
    columns = [FileColumn(name, kind, f"c{place}") for place, (name, kind) in enumerate(view.columns)]
    files = replace(as_input(kept, ()), columns=(*columns, FileColumn(WINDOW, BIGINT)))
    listed = ", ".join(quote_name(name, "duckdb") for name in (*view.column_names, WINDOW))
    numbers = ", ".join(str(result.number) for result in results)
    answer = store.engine.look_up(Piece(f'SELECT {listed} FROM kept WHERE "{WINDOW}" IN ({numbers})', {"kept": files}))
    assert answer.table is not None
    places, rows = answer.table.column(len(columns)), answer.table.drop_columns([WINDOW])
    for result in results:
        own = rows if len(results) == 1 else rows.filter(pc.equal(places, result.number))
        yield conform(own, view.basket.columns, relation=view.name)
