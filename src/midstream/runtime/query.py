"""Running a bound query: which kernel, over which files, as one job.

A query whose inputs fit one task runs there on DuckDB; a larger one, or one with functions that only
Spark has, runs as Spark SQL over the same files. The choice and its reason are values, so that EXPLAIN
prints what would run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.errors import BadFile, StorageError, Unsupported
from midstream.kernels import Kernel, quote_name
from midstream.maintenance.engine import Cancellation, Piece, Rows
from midstream.plan import BoundQuery
from midstream.relations.view import ContinuousView
from midstream.runtime.reading import Picture, Sources, sources_of
from midstream.runtime.results import Moment, Result
from midstream.runtime.store import Store

SMALL_RESULT = 16 << 20
"""A result of a view of so many bytes is looked at in the driver."""
MANY_ANSWERS = 32


@dataclass(frozen=True)
class Choice:
    kernel: Kernel
    reason: str


def choose_kernel(bound: BoundQuery, input_bytes: int, settings: Mapping[str, object]) -> Choice:
    """The user's choice if there is one, else the faster kernel that can run the query."""
    forced, limit = settings["kernel"], int(str(settings["kernel_limit"]))
    if forced != "auto":
        return _forced("spark" if forced == "spark" else "duckdb", bound)
    if len(bound.refusals) > 1:
        raise Unsupported(
            "no kernel can run this query", detail="; ".join(dict.fromkeys(bound.refusals.values())) + "."
        )
    if "duckdb" in bound.refusals:
        return Choice("spark", bound.refusals["duckdb"])
    if "spark" in bound.refusals:
        return Choice("duckdb", bound.refusals["spark"])
    if input_bytes <= limit:
        return Choice("duckdb", f"its inputs, {megabytes(input_bytes)}, fit one task")
    return Choice("spark", f"its inputs, {megabytes(input_bytes)}, are more than kernel_limit, {megabytes(limit)}")


def _forced(kernel: Kernel, bound: BoundQuery) -> Choice:
    if kernel in bound.refusals:
        raise Unsupported(
            f"the {kernel} kernel cannot run this query",
            detail=bound.refusals[kernel],
            hint="SET kernel = 'auto' lets the database choose.",
        )
    return Choice(kernel, f"SET kernel = '{kernel}'")


def megabytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MB"


def prepare(
    store: Store, picture: Picture, bound: BoundQuery, settings: Mapping[str, object]
) -> tuple[Choice, Sources]:
    """The kernel and the inputs that a query will run with."""
    sources = sources_of(store, picture, bound, "duckdb")
    choice = choose_kernel(bound, sources.bytes, settings)
    if choice.kernel != sources.kernel:
        sources = sources_of(store, picture, bound, choice.kernel)
    return choice, sources


def run_query(
    store: Store,
    picture: Picture,
    bound: BoundQuery,
    settings: Mapping[str, object],
    cancellation: Cancellation | None = None,
) -> pa.Table:
    """The rows, with the columns named as the user named them."""
    result = _only_result(picture, bound)
    if result is not None and (known := result.answers.get(bound.text)) is not None:
        return known
    choice, sources = prepare(store, picture, bound, settings)
    piece = sources.piece(bound.sql(choice.kernel))
    try:
        if result is not None and choice.kernel == "duckdb" and sources.bytes <= SMALL_RESULT:
            answer = store.engine.look_up(piece)
        else:
            [answer] = store.engine.run(choice.kernel, [piece], label="query", cancellation=cancellation)
    except BadFile as error:
        # A query reads no files of the user's: this one is a table's.
        raise StorageError("a file of the database is damaged", detail=error.message) from error
    assert answer.table is not None
    table = answer.table.rename_columns([output.name for output in bound.outputs])
    if result is not None and table.nbytes <= SMALL_RESULT and len(result.answers) < MANY_ANSWERS:
        result.answers[bound.text] = table
    return table


def _only_result(picture: Picture, bound: BoundQuery) -> Result | None:
    """The result of a continuous view, if a query reads just that: what is small is then answered at once."""
    if not isinstance(picture, Moment) or len(bound.scans) != 1 or bound.scans[0].source != "view":
        return None
    if bound.scans[0].all_windows:
        return None
    relation = bound.scans[0].relation
    return picture.results[relation.id] if isinstance(relation, ContinuousView) else None


def renamed(bound: BoundQuery, kernel: Kernel, names: Sequence[str]) -> str:
    """The query's text with other names for its columns, which it calls c0, c1, …"""
    pairs = (f"{quote_name(f'c{i}', kernel)} AS {quote_name(name, kernel)}" for i, name in enumerate(names))
    return f"SELECT {', '.join(pairs)} FROM ({bound.sql(kernel)}) AS input"


def data_frame(store: Store, picture: Picture, bound: BoundQuery, table: pa.Table) -> object:
    """The query as a Spark DataFrame over the same files; where only DuckDB can run it, over its rows."""
    if "spark" in bound.refusals:
        return store.engine.data_frame(Piece("SELECT * FROM `rows`", {"rows": Rows(table)}))
    sources = sources_of(store, picture, bound, "spark")
    names = [output.name for output in bound.outputs]
    return store.engine.data_frame(sources.piece(renamed(bound, "spark", names)))
