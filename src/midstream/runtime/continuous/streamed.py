"""A continuous query over a stream at work: a reader of the stream that turns each batch into a file of changes.

The reader records its files together with the SCN that they cover; the query then takes them over into its log,
together with what they do to its destination. So a row counts once, whatever happens between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace

from midstream.kernels import Kernel
from midstream.log.batches import POSITION, SCN, Batch
from midstream.maintenance.engine import Answer, Piece, WriteParquet
from midstream.plan import BindContext
from midstream.plan.difference.streamed import StreamedRows, bind_streamed
from midstream.relations.catalog import ReaderEntry
from midstream.relations.query import ContinuousQuery
from midstream.relations.schema import Schema
from midstream.relations.stream import Stream
from midstream.runtime.continuous.log import log_columns
from midstream.runtime.continuous.texts import streamed_text
from midstream.runtime.pipelines import kept_files
from midstream.runtime.readers import BATCH, Absorbed, batch_source
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.sql.change_items import row_query
from midstream.sql.statements import Sql
from midstream.types import parse_type

STREAMED = "query"


def rows_of_stream(query: Sql, schema: Schema, context: BindContext) -> StreamedRows:
    return bind_streamed(row_query(query), schema, context, SCN, POSITION)


class StreamedReader:
    stores_rows = False
    needs_places = True
    clock: str | None = None

    def __init__(self, store: Store, stream: Stream, entry: ReaderEntry) -> None:
        self._store = store
        self._stream = stream
        value = json.loads(entry.state)
        self.query_id: int = value["query"]
        self.kernel: Kernel = value["kernel"]
        self._plan = {key: value[key] for key in ("query", "kernel", "sql", "scan", "types")}
        self._folder = store.queries.folder(self.query_id)
        self.files = [KeptFile(os.path.join(self._folder, name), *rest) for name, *rest in value["files"]]
        self.columns = frozenset(stream.column_names)

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        return [self._piece(batch) for batch in batches]

    def _piece(self, batch: Batch) -> Piece:
        source = batch_source(batch, self._stream, self._stream.column_names, marked=True, kernel=self.kernel)
        types = [parse_type(text) for text in self._plan["types"]]
        os.makedirs(self._folder, exist_ok=True)
        return replace(
            source,
            sql=streamed_text(self._plan["sql"], len(types), self.kernel),
            views=(*source.views, (self._plan["scan"], f"SELECT * FROM {BATCH}")),
            output=WriteParquet(self._folder, log_columns(types), compressed=False),
        )

    def absorb(self, state: str, answers: Sequence[Answer], batch: Batch) -> Absorbed:
        new = [file for file in kept_files(self._store, answers, batch.upto) if file.rows]
        taken = self._store.queries.position_of(self.query_id)
        files = [*(file for file in self.files if file.upto > taken), *new]

        def settle() -> None:
            self.files = files
            self._store.queries.wake()

        return Absorbed(self._written(files), settle=settle)

    def _written(self, files: Sequence[KeptFile]) -> str:
        return json.dumps({**self._plan, "files": [file.written() for file in files]})


def first_state(query: ContinuousQuery, rows: StreamedRows) -> str:
    kernel: Kernel = "spark" if query.kernel == "spark" or "duckdb" in rows.query.refusals else "duckdb"
    return json.dumps(
        {
            "query": query.id,
            "kernel": kernel,
            "sql": rows.query.sql(kernel),
            "scan": rows.scan,
            "types": [str(type_) for _, type_ in query.columns],
            "files": [],
        }
    )
