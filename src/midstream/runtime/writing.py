"""INSERT, UPDATE, DELETE and MERGE: from a bound statement to the rows that it changes.

The user's expressions run as a job that leaves the new images as Parquet, named by row id; constraints
look at them; the transaction takes them in. Nothing of a statement that fails stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from midstream.errors import ConstraintViolation, Error, TransactionConflict
from midstream.ingest.conform import conform
from midstream.ingest.sources import ArrowSource, RowSource, source_to_arrow
from midstream.ingest.values import values_to_arrow
from midstream.kernels import Kernel, quote_name
from midstream.log.records import BulkFile
from midstream.maintenance.engine import Answer, Cancellation, Piece, WriteParquet
from midstream.plan import BindContext, BoundQuery, bind_default
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID, Column, Table
from midstream.runtime.constraints import check_changed
from midstream.runtime.constraints.single_rows import check_rows, raise_for, row_checks
from midstream.runtime.query import prepare, renamed
from midstream.runtime.rows import FEW_ROWS, RowSet, as_stored, physical_schema, stored_columns
from midstream.runtime.store import ID_BLOCK
from midstream.runtime.stored_schema import ComputedSchema, StateSchema, stored_answers
from midstream.runtime.transaction import ID_COLUMNS, StatementChange, Transaction, discard
from midstream.types import TEXT, Type

ACTION = "_action"
_SPARK_BLOCK = 1 << 45
"""Spark numbers the rows of each partition from partition << 33."""


@dataclass(frozen=True)
class Writer:
    """One statement that writes: its transaction, the moment, and who may stop it."""

    transaction: Transaction
    context: BindContext
    settings: Mapping[str, object]
    cancellation: Cancellation | None = None
    goes_on: bool = False
    """Whether its transaction is one that a session has begun, and not the statement's own."""

    def bound(self, bind: Callable[[StateSchema], BoundQuery]) -> BoundQuery:
        """A query bound to what the transaction sees. Stored answers are those of its picture; where there is none
        of just that SCN, a view is its query."""
        transaction = self.transaction
        catalog = transaction.store.catalog
        if not self.goes_on:
            found = bind(StateSchema(catalog, transaction.state))
            stored = stored_answers(found)
            if not stored:
                return found
            with suppress(TransactionConflict):
                transaction.store.queries.materialized.bring_to_base(transaction, stored)
                return found
        return bind(ComputedSchema(catalog, transaction.state))

    # --- INSERT ----------------------------------------------------------------------------------

    def insert_values(self, table: RowHolder, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> int:
        """Literal rows, which need no job: the columns that are not listed get their defaults."""
        listed = values_to_arrow(rows, columns, relation=table.name)
        defaults = self.defaults(table, {column.name for column in columns})
        return self.insert_checked(table, conform(listed, table.columns, relation=table.name, defaults=defaults))

    def insert_source(self, table: RowHolder, source: ArrowSource | RowSource) -> int:
        """Rows that the driver has, matched by name."""
        rows = source_to_arrow(source, table.columns, relation=table.name, defaults=self.defaults(table, set()))
        return self.insert_checked(table, rows)

    def insert_checked(self, table: RowHolder, rows: pa.Table) -> int:
        """Rows that fit the columns."""
        if not rows.num_rows:
            return 0
        check_rows(self.transaction.store, table, rows, self.context, nulls_known=True)
        if isinstance(table, Stream):
            self.transaction.stream(table, [self.transaction.store.streams.prepared(table, rows)])
            return int(rows.num_rows)
        first = self.transaction.reserve_row_ids(table, rows.num_rows)
        ids = pa.arange(first, first + rows.num_rows)
        stored = rows.add_column(0, ROW_ID, ids).cast(physical_schema(stored_columns(table)))
        self._take(StatementChange.insert(table, RowSet.of(stored_columns(table), stored)))
        return int(rows.num_rows)

    def defaults(self, table: RowHolder, given: set[str]) -> dict[str, object]:
        """What the columns that are not given get, where they have a DEFAULT."""
        missing = [c for c in table.columns if c.name not in given and c.default is not None]
        return {column.name: self.default_value(column) for column in missing}

    def default_value(self, column: Column) -> object:
        """What a DEFAULT expression gives for this statement."""
        bound = bind_default(column, self.context)
        text = f'SELECT {bound.sql("duckdb")} AS "value"'
        table = self.transaction.store.engine.look_up(Piece(text)).table
        assert table is not None
        return table.column(0)[0].as_py()

    def insert_query(self, table: RowHolder, bound: BoundQuery) -> int:
        """The rows of a query go to files of the table's folder, where COMMIT will find them."""
        choice, sources = prepare(self.transaction.store, self.transaction, bound, self.settings)
        if isinstance(table, Stream):
            text = renamed(bound, choice.kernel, table.column_names)
            answers = self.write_pieces(choice.kernel, [sources.piece(text)], table)
            self.take_written(table, answers)
            return sum(file.rows for answer in answers for file in answer.files)
        block = _SPARK_BLOCK if choice.kernel == "spark" else ID_BLOCK
        first = self.transaction.reserve_row_ids(table, block)
        text = self._numbered(bound, table, choice.kernel, first)
        answers = self.write_pieces(choice.kernel, [sources.piece(text)], table)
        rows = sum(file.rows for answer in answers for file in answer.files)
        if choice.kernel == "duckdb":
            self.transaction.store.return_row_ids(table.id, first, block, rows)
        self.take_written(table, answers)
        return rows

    def take_written(self, table: RowHolder, answers: Sequence[Answer]) -> None:
        """Files with new rows that a job has left in the table's folder."""
        files = tuple(file for answer in answers for file in answer.files if file.rows)
        if isinstance(table, Stream):
            bulk = [BulkFile(f"bulk/{Path(file.path).name}", file.rows, file.bytes) for file in files]
            self.transaction.stream(table, bulk)
            return
        self._take(StatementChange.insert(table, RowSet(stored_columns(table), files=files)))

    def _numbered(self, bound: BoundQuery, table: Table, kernel: Kernel, first: int) -> str:
        """The query's rows with their ids, in the order in which they come."""
        number = "monotonically_increasing_id()" if kernel == "spark" else "row_number() OVER () - 1"
        rows = renamed(bound, kernel, table.column_names)
        return f"SELECT {number} + {first} AS {quote_name(ROW_ID, kernel)}, rows.* FROM ({rows}) AS rows"

    # --- UPDATE, DELETE, MERGE -------------------------------------------------------------------

    def update(self, table: Table, bound: BoundQuery, assigned: frozenset[str]) -> int:
        rows = self._images(table, bound, stored_columns(table), checks=True)
        self._take(StatementChange.update(table, rows, assigned))
        return rows.rows

    def delete(self, table: Table, bound: BoundQuery) -> int:
        ids = self._images(table, bound, ID_COLUMNS)
        self._take(StatementChange.delete(table, ids))
        return ids.rows

    def merge(self, table: Table, bound: BoundQuery) -> int:
        """One job finds what to do; its rows are then parted by what is to be done with them."""
        columns = (*ID_COLUMNS, (ACTION, TEXT), *stored_columns(table)[1:])
        everything = self._images(table, bound, columns)
        self._check_once(everything)
        self._take_actions(table, everything)
        return everything.rows

    def take_actions(self, table: Table, rows: RowSet, refused: str) -> bool:
        """Rows that say what is done with them; False: one of them says that it cannot be done, and nothing is."""
        if rows.is_small:
            found = rows.read()
            if refused in found.column(ACTION).to_pylist():
                return False
            rows = RowSet.of(rows.columns, found)
        elif self._part(rows, stored_columns(table), refused):
            return False
        self._take_actions(table, rows)
        return True

    def _take_actions(self, table: Table, everything: RowSet) -> None:
        updated = self._part(everything, stored_columns(table), "U")
        deleted = self._part(everything, ID_COLUMNS, "D")
        inserted = self._numbered_inserts(table, self._part(everything, stored_columns(table), "I"))
        change = StatementChange(table, inserted, updated, deleted, frozenset(table.column_names))
        for rows in (inserted, updated):
            self._check_images(table, rows)
        self._take(change)

    def _images(
        self, table: Table, bound: BoundQuery, columns: tuple[tuple[str, Type], ...], checks: bool = False
    ) -> RowSet:
        """The rows of a bound statement as files in the transaction's staging folder."""
        choice, sources = prepare(self.transaction.store, self.transaction, bound, self.settings)
        text = renamed(bound, choice.kernel, [name for name, _ in columns])
        output = WriteParquet(str(self.transaction.staging()), columns)
        wanted = row_checks(table, self.context, choice.kernel) if checks else ()
        piece = sources.piece(text, output, wanted)
        answers = self._run(choice.kernel, [piece])
        raise_for(table, answers)
        return RowSet(columns, files=tuple(file for answer in answers for file in answer.files if file.rows))

    def _check_once(self, rows: RowSet) -> None:
        inputs = rows.inputs("rows")
        if not inputs:
            return
        everything = " UNION ALL ".join(f'SELECT {ROW_ID} FROM "{name}"' for name in inputs)
        known = f"SELECT {ROW_ID} FROM ({everything}) WHERE {ROW_ID} IS NOT NULL"
        text = f"SELECT {ROW_ID} FROM ({known}) GROUP BY {ROW_ID} HAVING count(*) > 1 LIMIT 1"
        found = self.transaction.store.engine.look_up(Piece(text, inputs)).table
        if found is not None and found.num_rows:
            raise Error(
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
                sqlstate="21000",
            )

    def _part(self, rows: RowSet, columns: tuple[tuple[str, Type], ...], action: str) -> RowSet:
        if rows.table is not None and not rows.files:
            chosen = rows.table.filter(pc.equal(rows.table.column(ACTION), action))
            return RowSet.of(columns, as_stored(chosen.select([name for name, _ in columns]), columns))
        inputs = rows.inputs("rows")
        if not inputs:
            return RowSet(columns)
        names = ", ".join(quote_name(name, "duckdb") for name, _ in columns)
        text = " UNION ALL ".join(f"SELECT {names} FROM \"{name}\" WHERE {ACTION} = '{action}'" for name in inputs)
        return self._computed(Piece(text, inputs), columns, rows.rows)

    def _numbered_inserts(self, table: Table, rows: RowSet) -> RowSet:
        if not rows:
            return rows
        first = self.transaction.reserve_row_ids(table, rows.rows)
        inputs = rows.inputs("rows")
        everything = " UNION ALL ".join(f'SELECT * EXCLUDE ({ROW_ID}) FROM "{name}"' for name in inputs)
        text = f"SELECT row_number() OVER () - 1 + {first} AS {ROW_ID}, * FROM ({everything})"
        return self._computed(Piece(text, inputs), rows.columns, rows.rows)

    def _computed(self, piece: Piece, columns: tuple[tuple[str, Type], ...], rows: int) -> RowSet:
        if rows <= FEW_ROWS:
            table = self.transaction.store.engine.look_up(piece).table
            assert table is not None
            return RowSet.of(columns, as_stored(table, columns))
        output = WriteParquet(str(self.transaction.staging()), columns)
        [answer] = self._run("duckdb", [replace(piece, output=output)])
        return RowSet(columns, files=answer.files)

    def _check_images(self, table: Table, rows: RowSet) -> None:
        if rows.is_small and rows:
            check_rows(self.transaction.store, table, rows.read(), self.context)
        elif rows:
            inputs = rows.inputs("output")
            everything = " UNION ALL ".join(f'SELECT * FROM "{name}"' for name in inputs)
            for name, text in row_checks(table, self.context):
                piece = Piece(text, inputs, views=(("output", everything),))
                [answer] = self._run("duckdb", [piece])
                raise_for(table, [Answer(checks={name: answer.table} if answer.table is not None else {})])

    # --- running ---------------------------------------------------------------------------------

    def write_pieces(self, kernel: Kernel, pieces: Sequence[Piece], table: RowHolder) -> list[Answer]:
        """Pieces that leave new rows in the folder of a table or stream, checked row by row on the way."""
        output = self._output(table)
        checks = row_checks(table, self.context, kernel)
        answers = self._run(kernel, [replace(piece, output=output, checks=checks) for piece in pieces])
        try:
            raise_for(table, answers)
        except ConstraintViolation:
            for answer in answers:
                discard(RowSet(output.columns, files=answer.files))
            raise
        return answers

    def _output(self, table: RowHolder) -> WriteParquet:
        store = self.transaction.store
        if isinstance(table, Stream):
            own = tuple((column.name, column.type) for column in table.columns)
            return WriteParquet(store.streams.bulk_folder(table), own, compressed=False)
        return WriteParquet(str(store.folder(table.id).path), stored_columns(table))

    def _run(self, kernel: Kernel, pieces: Sequence[Piece]) -> list[Answer]:
        engine = self.transaction.store.engine
        return engine.run(kernel, pieces, label="write", cancellation=self.cancellation)

    def _take(self, change: StatementChange) -> None:
        """The change joins the transaction if the constraints allow it, else it was never there."""
        if not change.rows:
            return
        transaction = self.transaction
        before, changes, maxima = transaction.glimpse(), dict(transaction.changes), dict(transaction.maxima)
        try:
            transaction.apply(change)
            check_changed(transaction, change, before)
        except BaseException:
            transaction.changes, transaction.maxima = changes, maxima
            discard(change.inserted)
            raise
