"""What runs for a pipeline, as text: a query for the rows of each stream, and one that merges partials.

Pipelines of one name, from however many views, fold into one program: it passes over a batch once, and has the
columns of all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from sqlglot import exp

from midstream.kernels import KERNELS, Kernel
from midstream.plan.bound import BoundQuery, Output, Scan, seal
from midstream.plan.context import ScanKey
from midstream.plan.cut.aggregates import StateColumn
from midstream.plan.cut.build import Node, both, select, stored_column, text_of
from midstream.plan.cut.pipelines import Key, Pipeline, shared_rows
from midstream.plan.cut.rewriting import unconverted
from midstream.plan.cut.rows import Static, restricted, take_static
from midstream.plan.cut.streams import Streams
from midstream.plan.moments import at_moment, stand_ins, with_words
from midstream.plan.nodes import conjuncts, is_constant, quoted, table_alias
from midstream.plan.render import render
from midstream.plan.typing.nodes import AggregateCall, type_of
from midstream.plan.windows import pair_words
from midstream.relations.window import PLACE, SLOT, Slots
from midstream.types import Type, parse_type

STATE = "state"
"""The alias of the partials in the text that merges them."""


@dataclass(frozen=True)
class Feed:
    """The partials of a batch of one stream: a query, and what it reads."""

    sql: str
    stream_scan: str
    columns: tuple[str, ...]
    """Those of the stream that it reads."""
    statics: tuple[tuple[str, str], ...]
    """Names in the text, and the static inputs that they stand for."""
    slots: Slots | None = None
    """The basic windows of the stream, if it is windowed."""


@dataclass(frozen=True)
class Program:
    name: str
    kernel: Kernel
    columns: tuple[tuple[str, Type], ...]
    keys: tuple[str, ...]
    feeds: dict[int, Feed]
    """By stream; 0 is what comes from tables alone, once."""
    merge: str
    merge_scan: str
    """What the text that merges calls the partials."""
    slot_key: str | None = None
    """The key that is the number of a basic window."""
    keeps_rows: bool = False
    """Whether every row is a group for itself."""
    adds: bool = False
    """Whether all partials are exact sums."""

    def written(self) -> dict[str, object]:
        columns = [[name, str(type_)] for name, type_ in self.columns]
        feeds = {str(id): asdict(feed) for id, feed in self.feeds.items()}
        return {**self.__dict__, "columns": columns, "feeds": feeds}

    @staticmethod
    def read(value: dict[str, object]) -> Program:
        loaded = json.loads(json.dumps(value))
        columns = tuple((name, parse_type(type_)) for name, type_ in loaded["columns"])
        feeds = {
            int(id): Feed(
                feed["sql"],
                feed["stream_scan"],
                tuple(feed["columns"]),
                tuple((a, b) for a, b in feed["statics"]),
                Slots(**feed["slots"]) if feed["slots"] else None,
            )
            for id, feed in loaded["feeds"].items()
        }
        return Program(
            loaded["name"],
            loaded["kernel"],
            columns,
            tuple(loaded["keys"]),
            feeds,
            loaded["merge"],
            loaded["merge_scan"],
            loaded["slot_key"],
            loaded["keeps_rows"],
            loaded.get("adds", False),
        )


@dataclass(frozen=True)
class Folded:
    program: Program
    statics: tuple[Static, ...]


def fold(pipelines: Sequence[Pipeline], kernel: Kernel | None = None) -> Folded:
    """One program for pipelines of one name. The kernel is the first that can run it, unless one is asked for."""
    first = pipelines[0]
    rows = first.rows
    for other in pipelines[1:]:
        rows = shared_rows(rows, other.rows)
    for static in rows.statics:
        take_static(first.binding, static)
    columns = list({column.name: column for pipeline in pipelines for column in pipeline.columns}.values())
    common = {text_of(node) for node in rows.filters}
    outputs = [(key.name, key.node) for key in first.keys]
    outputs += [(column.name, _without(column.first, common)) for column in columns]
    described = [Output(name, type_of(node)) for name, node in outputs]
    streams = Streams(first.binding)
    scans = {table.name for table in streams.raw_tables(rows.source)}
    feeds = {0: _feed(first, rows.source, None, outputs, described, rows.filters)}
    for scan in sorted(scans):
        key = streams.scans[scan]
        feeds[key.relation.id] = _feed(first, rows.source, scan, outputs, described, rows.filters)  # type: ignore[union-attr]
    bound = {id: feed for id, feed in feeds.items() if feed is not None}
    merge = _merge(first, columns)
    wanted = (kernel, *KERNELS) if kernel is not None else KERNELS
    chosen = next(k for k in wanted if _can(k, [*bound.values(), merge]))
    program = Program(
        first.name,
        chosen,
        tuple((output.name, output.type) for output in described),
        tuple(key.name for key in first.keys),
        {id: _written(query, chosen) for id, query in bound.items()},
        merge.sql(chosen),
        merge.scans[0].name,
        slot_key(first),
        any(isinstance(key.node, exp.Column) and key.node.name == PLACE for key in first.keys),
        all(column.adds for column in columns),
    )
    return Folded(program, tuple(rows.statics))


def slot_key(pipeline: Pipeline) -> str | None:
    """The key that is the number of a basic window: of a row, or of the older of two rows."""
    for key in pipeline.keys:
        columns = {column.name for column in key.node.find_all(exp.Column)}
        if columns == {SLOT}:
            return key.name
    return None


NEWER = "~newer"
"""Of a pair of rows: the newer of their two basic windows."""


def pair_query(pipeline: Pipeline, words: dict[str, str]) -> BoundQuery:
    """The partials of the pairs that some basic windows of each side make, over the states of both sides. They are told
    apart by the newer basic window, too, since a window does not have those that came after it."""
    older = next(key.node for key in pipeline.keys if key.name == slot_key(pipeline))
    newer = older.copy()
    newer.set("this", str(newer.this).replace("least", "greatest"))
    wider = replace(pipeline, keys=(*pipeline.keys, Key(NEWER, newer)))
    passing = {text_of(node) for node in pipeline.rows.filters}
    outputs = [(key.name, key.node) for key in wider.keys]
    outputs += [(column.name, _without(column.first, passing)) for column in pipeline.columns]
    described = [Output(name, type_of(node)) for name, node in outputs]
    source = at_moment(pipeline.rows.source, words)
    query = _feed(wider, source, None, outputs, described, pipeline.rows.filters)  # type: ignore[arg-type]
    assert query is not None
    return query


@dataclass(frozen=True)
class PairProgram:
    """What runs for pairs of rows, written once for all spans of basic windows."""

    program: Program
    scans: tuple[Scan, ...]
    text: str
    blanks: Mapping[str, str]

    def sql(self, first: tuple[int, int], second: tuple[int, int]) -> str:
        """The pairs of some basic windows of the first side with some of the second."""
        return with_words(self.text, self.blanks, pair_words(first, second))


def pair_program(pipeline: Pipeline) -> PairProgram:
    blanks = stand_ins(pair_words((0, 0), (0, 0)))
    query = pair_query(pipeline, blanks)
    return PairProgram(fold([pipeline], "duckdb").program, tuple(query.scans), query.sql("duckdb"), blanks)


def _without(node: Node, conditions: set[str]) -> Node:
    """Aggregates without those conditions of their FILTER that every row satisfies."""
    copy = node.copy()
    for call in copy.find_all(AggregateCall):
        left = [part for part in conjuncts(call.args.get("filter")) if text_of(part) not in conditions]
        call.set("filter", both(left))
    return copy


def dead_rows(pipelines: Sequence[Pipeline], words: dict[str, str], kernel: Kernel) -> str | None:
    """The condition on rows of the state that no view will ask for again; None: there are none."""
    texts = set()
    for pipeline in pipelines:
        if pipeline.dead is None:
            return None
        texts.add(render(_named_state(at_moment(pipeline.dead, words)), kernel))
    return texts.pop() if len(texts) == 1 else None


def _named_state(node: Node) -> Node:
    copy = node.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", exp.to_identifier(STATE, quoted=True))
    return copy


def _can(kernel: Kernel, queries: Sequence[BoundQuery]) -> bool:
    return all(kernel not in query.refusals for query in queries)


def _feed(
    pipeline: Pipeline,
    source: exp.Select,
    scan: str | None,
    outputs: Sequence[tuple[str, Node]],
    described: Sequence[Output],
    filters: Sequence[Node],
) -> BoundQuery | None:
    streams = Streams(pipeline.binding)
    rows = restricted(streams, source, scan)
    if rows is None or (scan is None and next(streams.raw_tables(rows), None) is not None):
        return None
    # A constant would be read as the number of a column; it groups nothing anyway.
    keys = [key.node for key in pipeline.keys if not is_constant(unconverted(key.node))]
    query = select(
        outputs, rows.args["from_"].this, joins=rows.args.get("joins") or [], where=both(filters), group=keys
    )
    return seal(pipeline.binding, query, described)


def _merge(pipeline: Pipeline, columns: Sequence[StateColumn]) -> BoundQuery:
    keys = [(key.name, stored_column(STATE, key.name, key.type)) for key in pipeline.keys]
    merged = [(column.name, column.merge(STATE)) for column in columns]
    relation = pipeline.relation
    for column in columns:
        if column.name not in dict(relation.columns):
            relation = type(relation)(relation.name, (*relation.columns, (column.name, column.type)))
    name = pipeline.binding.scans.setdefault(
        ScanKey(type(relation)(f"partials of {relation.name}", relation.columns), "state", None), f"all_{relation.name}"
    )
    item = exp.Table(this=quoted(name), alias=table_alias(STATE))
    outputs = [Output(name, type_of(node)) for name, node in (*keys, *merged)]
    query = select([*keys, *merged], item, group=[node for _, node in keys])
    return seal(pipeline.binding, query, outputs)


def _written(query: BoundQuery, kernel: Kernel) -> Feed:
    stream = next((scan for scan in query.scans if scan.source == "stream"), None)
    statics = tuple((scan.name, scan.relation.name) for scan in query.scans if scan.source == "static")
    return Feed(
        query.sql(kernel),
        stream.name if stream is not None else "",
        tuple(stream.columns) if stream is not None else (),
        statics,
        stream.slots if stream is not None else None,
    )
