"""The upper query of a view over its partials, as a piece of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Piece, WriteParquet
from midstream.plan import BoundQuery, Scan
from midstream.plan.cut import Program, ViewPlan
from midstream.plan.cut.kept_parts import kept_parts
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView, Derived
from midstream.runtime.query import Choice, choose_kernel
from midstream.runtime.reading import Sources, add_scan
from midstream.runtime.results import Moment, Result
from midstream.runtime.states import KeptFile, as_input, main_and_rest
from midstream.runtime.store import Store

Parts = tuple[list[KeptFile], list[KeptFile]]


@dataclass(frozen=True)
class Inputs:
    """What a view has kept up to an SCN: its programs, the files of each, and those of its static inputs."""

    programs: Mapping[str, Program]
    files: Mapping[str, Sequence[KeptFile]]


@dataclass(frozen=True)
class Refresh:
    """A view whose result is to be computed: what runs, and what it will then be the result of."""

    view: ContinuousView
    kernel: Kernel
    piece: Piece
    picture: Moment
    words: Mapping[str, str]
    upper: BoundQuery
    sources: Sources
    kept: Inputs
    """The files that it reads, which stay as long as they are held."""
    beside: int = 0
    """Rows of a batch that it reads, too."""

    def result(self, answer: Answer, seconds: float) -> Result:
        state = self.picture.state
        tables = [scan.relation for scan in self.upper.scans if isinstance(scan.relation, Table)]
        return Result(
            state,
            state.scn,
            tuple(KeptFile(file.path, file.rows, file.bytes, state.scn) for file in answer.files),
            self.words,
            {table.id: state.versions[table.id] for table in tables},
            seconds,
            self.sources.rows + self.beside,
        )


@dataclass(frozen=True)
class Chosen:
    """The upper query as it would run now: its text, its inputs, and its kernel with the reason."""

    words: Mapping[str, str]
    upper: BoundQuery
    sources: Sources
    choice: Choice


def choose_upper(store: Store, plan: ViewPlan, kept: Inputs, picture: Moment, settings: Mapping[str, object]) -> Chosen:
    """The upper query over what is kept. Where one large run of partials has nearly all groups, only those that
    something new has come to are merged."""
    words = plan.words(datetime.now(timezone.utc), picture.state.scn)
    parted: dict[str, Parts] = {}
    if settings["kernel"] != "spark":
        found = {name: main_and_rest(kept.files.get(name, ())) for name in plan.mergeable}
        parted = {name: parts for name, parts in found.items() if parts is not None}
    upper = plan.upper(words, frozenset(parted))
    sources = sources_for(store, plan, upper.scans, kept, parted, picture, "duckdb")
    choice = choose_kernel(upper, sources.bytes, settings)
    if choice.kernel != "duckdb":
        upper = plan.upper(words)
        sources = sources_for(store, plan, upper.scans, kept, {}, picture, choice.kernel)
    return Chosen(words, upper, sources, choice)


def plan_refresh(
    store: Store,
    view: ContinuousView,
    plan: ViewPlan,
    kept: Inputs,
    picture: Moment,
    settings: Mapping[str, object],
    folder: str,
) -> Refresh:
    chosen = choose_upper(store, plan, kept, picture, settings)
    words, upper, sources, choice = chosen.words, chosen.upper, chosen.sources, chosen.choice
    os.makedirs(folder, exist_ok=True)
    columns = tuple((f"c{number}", output.type) for number, output in enumerate(upper.outputs))
    text = upper.sql(choice.kernel)
    if choice.kernel == "duckdb":
        text, parts = upper.over(kept_parts, choice.kernel)
        sources.views += parts
        sources.kept += [name for name, _ in parts]
    piece = sources.piece(text, WriteParquet(folder, columns, compressed=False))
    return Refresh(view, choice.kernel, piece, picture, words, upper, sources, kept)


def sources_for(
    store: Store,
    plan: ViewPlan,
    scans: Sequence[Scan],
    kept: Inputs,
    parted: Mapping[str, Parts],
    picture: Moment,
    kernel: Kernel,
) -> Sources:
    columns = {pipeline.name: dict(pipeline.relation.columns) for pipeline in plan.pipelines}
    sources = Sources(kernel)
    for scan in scans:
        name = scan.relation.name
        if scan.source == "state" and name in parted:
            _add_merged(kept.programs[name], scan, parted[name], sources)
        elif scan.source == "state":
            kinds = [(column, columns[name][column]) for column in scan.columns]
            sources.inputs[scan.name] = as_input(kept.files.get(name, ()), kinds)
        elif scan.source == "static" and isinstance(scan.relation, Derived):
            frozen = [(column, kind) for column, kind in scan.relation.columns if column in scan.columns]
            sources.inputs[scan.name] = as_input(kept.files[name], frozen)
        else:
            add_scan(store, picture, scan, sources)
    return sources


def new_parts(state: str) -> str:
    """What the files of a state beside its large run are called."""
    return f"{state}_parts"


def _add_merged(program: Program, scan: Scan, parts: Parts, sources: Sources) -> None:
    """A state with each group in one row: groups of the large run that nothing new has come to stay as they are, the
    others are merged, once for all views over the state that are read together. The large run is an input of its own,
    which a worker keeps from read to read."""
    main, new, fresh = (f"{program.name}_{part}" for part in ("main", "new", "fresh"))
    same = " AND ".join(f'n."{key}" IS NOT DISTINCT FROM m."{key}"' for key in program.keys) or "true"
    known = f'EXISTS (SELECT 1 FROM "{new}" AS n WHERE {same})'
    if fresh not in sources.shared:
        sources.inputs[main] = as_input(parts[0], program.columns)
        sources.inputs[new_parts(program.name)] = as_input(parts[1], program.columns)
        sources.views += [
            (new, f'SELECT * FROM "{new_parts(program.name)}"'),
            (program.merge_scan, f'SELECT * FROM "{new}" UNION ALL SELECT * FROM "{main}" AS m WHERE {known}'),
            (fresh, program.merge),
        ]
        sources.shared += [new, program.merge_scan, fresh]
    unchanged = f'SELECT * FROM "{main}" AS m WHERE NOT {known}'
    sources.views.append((scan.name, f'{unchanged} UNION ALL SELECT * FROM "{fresh}"'))
