"""A query over partials as they will be when a batch has been absorbed, to run in the job that absorbs it.

    state after  =  state  UNION ALL  the pipeline over the batch

An answer would else take two jobs, one after the other. Nothing depends on it but speed: what is not computed beside a
batch is computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.kernels import kernel_type, quote_name
from midstream.log.batches import Batch
from midstream.maintenance.engine import Files, Piece
from midstream.plan import Scan
from midstream.plan.cut import Program
from midstream.runtime.pipelines import PipelineReader

FEW_ROWS = 100_000
"""Of a larger batch, a pipeline takes too long to run twice."""


def over_batch(plain: Piece, scans: Sequence[Scan], readers: Sequence[PipelineReader], batch: Batch) -> Piece:
    """A piece over states, as if these pipelines had absorbed the batch."""
    inputs, views = dict(plain.inputs), list[tuple[str, str]]()
    for number, reader in enumerate(readers):
        program, own, tag = reader.state.program, reader.piece_of(batch), f"batch_{number}"
        inputs |= {f"{tag}_{name}": given for name, given in own.inputs.items()}
        views.append((tag, _partials(own, program, tag)))
        for scan in scans:
            if scan.relation.name == program.name:
                name = next(name for name in _names(scan) if name in inputs)
                given = inputs.pop(name)
                assert isinstance(given, Files)
                inputs[f"{name}_before"] = given
                listed = ", ".join(_quoted(column.name) for column in given.columns)
                views.append(
                    (name, f"SELECT {listed} FROM {_quoted(f'{name}_before')} UNION ALL SELECT {listed} FROM {tag}")
                )
    return Piece(plain.sql, inputs, (*views, *plain.views), plain.output, plain.checks)


def has_interval(program: Program) -> bool:
    """Intervals are stored in another form than a query has them in."""
    return any("interval" in str(kind) for _, kind in program.columns)


def _names(scan: Scan) -> tuple[str, ...]:
    """What a state may be called: where parts of it are told apart, what comes is new, and all of it is all."""
    return scan.name, f"{scan.name}_new", f"{scan.name}_all"


def _partials(own: Piece, program: Program, tag: str) -> str:
    """A batch as the partials that it will leave; the names that its pipeline uses are its own business."""
    listed = ", ".join(
        f"CAST(#{place} AS {kernel_type(kind, 'duckdb')}) AS {_quoted(name)}"
        for place, (name, kind) in enumerate(program.columns, 1)
    )
    texts = [(name, f"SELECT * FROM {_quoted(f'{tag}_{name}')}") for name in own.inputs]
    named = ", ".join(f"{_quoted(name)} AS NOT MATERIALIZED ({text})" for name, text in [*texts, *own.views])
    return f"WITH {named} SELECT {listed} FROM ({own.sql}) AS made"


def _quoted(name: str) -> str:
    return quote_name(name, "duckdb")
