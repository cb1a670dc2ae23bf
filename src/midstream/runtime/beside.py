"""A query over partials as they will be when a batch has been absorbed, to run in the job that absorbs it.

    state after  =  state  UNION ALL  the pipeline over the batch

An answer would else take two jobs, one after the other. Nothing depends on it but speed: what is not computed beside a
batch is computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from midstream.kernels import kernel_type, quote_name
from midstream.log.batches import Batch
from midstream.maintenance.engine import Files, Input, Piece
from midstream.plan import Scan
from midstream.plan.cut import Program
from midstream.runtime.pipelines import PipelineReader
from midstream.runtime.refreshing import new_parts

FEW_ROWS = 100_000
"""Of a larger batch, a pipeline takes too long to run twice."""


Taking = tuple[PipelineReader, Batch]
"""A pipeline, and a batch that it absorbs."""


def over_batches(plain: Piece, scans: Sequence[Scan], takings: Sequence[Taking]) -> Piece:
    """A piece over states, as if all these pipelines had absorbed their batches."""
    inputs, made = dict(plain.inputs), list[tuple[str, str]]()
    after: dict[str, list[str]] = {}
    for reader, batch in takings:
        program, own = reader.state.program, reader.piece_of(batch)
        tag = f"batch_{batch.stream_id}_{program.name}"
        inputs |= {f"{tag}_{name}": given for name, given in own.inputs.items()}
        made.append((tag, _partials(own, program, tag)))
        for scan in (scan for scan in scans if scan.relation.name == program.name):
            name = next(name for name in _names(scan) if name in inputs or name in after)
            if name in inputs:
                inputs[f"{name}_before"] = inputs.pop(name)
                after[name] = [f"{name}_before"]
            if tag not in after[name]:
                after[name].append(tag)
    views = [(name, _united(inputs[f"{name}_before"], sources)) for name, sources in after.items()]
    return replace(plain, inputs=inputs, views=(*made, *views, *plain.views))


def _united(before: Input, sources: Sequence[str]) -> str:
    assert isinstance(before, Files)
    listed = ", ".join(_quoted(column.name) for column in before.columns)
    return " UNION ALL ".join(f"SELECT {listed} FROM {_quoted(source)}" for source in sources)


def has_interval(program: Program) -> bool:
    """Intervals are stored in another form than a query has them in."""
    return any("interval" in str(kind) for _, kind in program.columns)


def _names(scan: Scan) -> tuple[str, ...]:
    """What a state may be called: where a large run of it is told apart, the rest are parts, and all of it is all."""
    return scan.name, new_parts(scan.relation.name), f"{scan.name}_all"


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
