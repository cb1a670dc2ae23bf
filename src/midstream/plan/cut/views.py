"""A view's query, cut: pipelines that keep partials of streams, and the upper query over them.

    SELECT a, avg(b) FROM s WHERE c > 0 GROUP BY a HAVING count(*) > 2
    pipeline   keys a; sum(b), count(b), count(*), each over rows with c > 0
    upper      SELECT a, sum(p1) / sum(p2) FROM state WHERE p3 > 0 GROUP BY a HAVING sum(p3) > 2

The upper query merges the partials itself, so it may read them from any number of files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlglot import exp

from midstream.kernels import Kernel
from midstream.plan import queries
from midstream.plan.bound import BoundQuery, Output, infer, kernel_names, seal
from midstream.plan.context import BindContext, Binding, ScanKey
from midstream.plan.cut.aggregates import (
    StateColumn,
)
from midstream.plan.cut.build import (
    Node,
    digest,
    number,
    text_of,
)
from midstream.plan.cut.frozen import FROZEN, freeze_tables
from midstream.plan.cut.groupings import Grouping
from midstream.plan.cut.kept_parts import mark_kept_parts
from midstream.plan.cut.pipelines import Key, Pipeline, guards_of, shared_rows
from midstream.plan.cut.programs import PairProgram, pair_program, pair_query, slot_key
from midstream.plan.cut.rewriting import READ_OFF, read_off
from midstream.plan.cut.rows import RowPart, Static, identity, take_rows
from midstream.plan.cut.streams import Streams, check_rows, drop_orders, is_grouping, is_tested, prepare, refuse
from midstream.plan.cut.together import NUMBER, all_windows_query
from midstream.plan.cut.windowed import RowPairs, row_keepers, settle_windows, take_pairs
from midstream.plan.moments import at_moment, kinds_in, moment_of, moments_in, stand_ins, with_words, words_of
from midstream.plan.nodes import column, conjuncts, named
from midstream.plan.pruning import prune
from midstream.plan.scopes import Scope
from midstream.plan.statements import new_binding
from midstream.plan.trees import name_outputs, projections
from midstream.plan.typing.nodes import type_of
from midstream.plan.windows import WINDOW_MOMENT, key_text, window_words
from midstream.relations.schema import Schema
from midstream.relations.stream import Stream
from midstream.relations.view import ContinuousView
from midstream.relations.window import PLACE, SLOT, Window
from midstream.sql.statements import Sql
from midstream.types import BIGINT


@dataclass(frozen=True)
class ViewPlan:
    outputs: tuple[Output, ...]
    pipelines: tuple[Pipeline, ...]
    notices: tuple[str, ...]
    reads: tuple[ContinuousView, ...]
    """Other continuous views that the upper query reads."""
    moments: tuple[str, ...]
    """What the upper query takes from the moment of reading, or from a window."""
    windows: tuple[Window, ...]
    """The windows that the view reads streams by: window k of all of them together gives result k."""
    window_streams: tuple[frozenset[int], ...]
    times: tuple[BoundQuery, ...]
    """Of sessions: when rows came, each time once, and for which keys, over a state of their own."""
    pairs: tuple[Pipeline, ...]
    """Those of `pipelines` that take pairs of rows of two windows, from the states that keep the rows."""
    _binding: Binding = field(repr=False, compare=False)
    _upper: Node = field(repr=False, compare=False)
    _sealed: dict[str, BoundQuery] = field(default_factory=dict, repr=False, compare=False)
    _pair_programs: dict[str, PairProgram] = field(default_factory=dict, repr=False, compare=False)

    def words(self, now: datetime, scn: int) -> dict[str, str]:
        """With equal words and inputs, the answer of the upper query is the same."""
        clock = [kind for kind in self.moments if not kind.startswith(WINDOW_MOMENT)]
        return words_of(clock, now, scn) if clock else {}

    def window_words(self, number: int, first_slots: Mapping[int, int]) -> dict[str, str]:
        """What the query takes from window `number`."""
        return window_words(self.windows, number, first_slots)

    def window_texts(self, words: Mapping[str, str], windows: Sequence[Mapping[str, str]], kernel: Kernel) -> list[str]:
        """The upper query with the words of each of these windows. It is written once, with words that stand nowhere
        else in it, unless they are texts, which every kernel quotes in its own way."""
        if any(" key " in kind for kind in windows[0]):
            return [self.upper({**words, **own}).sql(kernel) for own in windows]
        blanks = stand_ins(windows[0])
        text = self.upper({**words, **blanks}).sql(kernel)
        return [with_words(text, blanks, own) for own in windows]

    def pair_program(self, pipeline: Pipeline) -> PairProgram:
        """What runs for one of the pairs."""
        if pipeline.name not in self._pair_programs:
            self._pair_programs[pipeline.name] = pair_program(pipeline)
        return self._pair_programs[pipeline.name]

    def upper(self, words: Mapping[str, str], merged: frozenset[str] = frozenset()) -> BoundQuery:
        """The upper query at a moment, over states, tables as of the read, and other views. Of the pipelines that are
        named as merged, each group comes in one row."""
        key = repr([sorted(words.items()), sorted(merged)])
        if key not in self._sealed:
            if len(self._sealed) > 8:
                self._sealed.clear()
            tree = read_off(at_moment(self._upper, dict(words)).copy(), merged)
            self._sealed[key] = seal(self._binding, tree, self.outputs)
        return self._sealed[key]

    def shown(self, now: datetime, scn: int) -> BoundQuery:
        """The upper query at a moment, of the first window if it has any; a refusal if no kernel can run it."""
        windows = self.window_words(0, {}) if not self.times else {}
        return self.upper({**self.words(now, scn), **windows})

    def at_any_moment(self, words: Mapping[str, str]) -> BoundQuery:
        """The upper query as it was last asked for, or with these words: what it reads is always the same."""
        return next(iter(list(self._sealed.values())), None) or self.upper(words)

    def all_windows(self) -> BoundQuery | None:
        """The upper query for any number of windows at once, if it is simple enough."""
        if len(self.windows) != 1 or self.windows[0].size is None or self.pairs or len(self.pipelines) != 1:
            return None
        if "all windows" not in self._sealed:
            kinds = [type_of(literal) for literal in moments_in(self._upper) if _is_shown(literal)]
            bound = next(iter(kinds), BIGINT)
            tree = all_windows_query(self._binding, self._upper, slot_key(self.pipelines[0]), bound)
            if tree is None or any(kind != bound for kind in kinds):
                return None
            outputs = (Output(NUMBER, BIGINT), *self.outputs)
            self._sealed["all windows"] = seal(self._binding, tree, outputs)
        return self._sealed["all windows"]

    @property
    def mergeable(self) -> frozenset[str]:
        """Pipelines whose groups can be read off as they are once each is one row."""
        return frozenset(str(s.meta[READ_OFF]) for s in self._upper.find_all(exp.Select) if READ_OFF in s.meta)


def _is_shown(literal: exp.Literal) -> bool:
    return moment_of(literal).startswith(WINDOW_MOMENT) and moment_of(literal).endswith((" start", " end"))


def cut_view(
    query: Sql,
    schema: Schema,
    context: BindContext,
    *,
    keep_rows: bool = False,
    pairs: bool = True,
    unit: int | None = None,
) -> ViewPlan:
    """Binds a view's query and cuts it, or refuses it, saying which rule it breaks and where. With `keep_rows`, windows
    are evaluated anew each time, over the rows that are in them. `pairs` says whether joins of windows are kept by
    pairs. `unit` is the size of basic windows, if it is not the largest possible."""
    binding = new_binding(schema, context)
    binding.takes_streams, binding.unit = True, unit
    bound = queries.bind_query_tree(binding, query.tree(), Scope())
    notices = _drop_order(bound.tree)
    tree = infer(binding, name_outputs(bound, kernel_names(len(bound.names))).tree)
    outputs = tuple(Output(n, type_of(node)) for n, node in zip(bound.names, projections(tree), strict=True))
    prune(tree)
    sources = Streams(binding)
    drop_orders(sources, tree)
    paired: list[RowPairs] = []
    frozen: list[Static] = []

    def settle(streams: Streams) -> None:
        joins = settle_windows(binding, streams, tree, keep_rows=keep_rows)
        frozen.extend(freeze_tables(binding, streams, row_keepers(tree)))
        for grouping, items in joins:
            if pairs:
                paired.append(take_pairs(grouping, items))

    prepare(binding, tree, settle)
    cutter = Cutter(binding, sources, frozen)
    for grouping in cutter.groupings(tree):
        cutter.cut(grouping)
    made = tuple(cutter.cut_pairs(rows) for rows in paired)
    times = [_cut_times(cutter, key) for key in list(binding.scans) if _has_sessions(binding, key)]
    _complete_states(binding, cutter.pipelines)
    if any("duckdb" in pair_query(pipeline, {}).refusals for pipeline in made):
        return cut_view(query, schema, context, keep_rows=keep_rows, pairs=False, unit=unit)
    views = tuple(key.relation for key in binding.scans if isinstance(key.relation, ContinuousView))
    if not binding.windows:
        mark_kept_parts(Streams(binding), tree)
    return ViewPlan(
        outputs,
        tuple(cutter.pipelines),
        tuple(dict.fromkeys([*notices, *sources.notices])),
        views,
        kinds_in(tree),
        tuple(binding.windows),
        tuple(map(frozenset, binding.window_streams)),
        tuple(seal(binding, query, outs) for query, outs in times),
        tuple(p for p in cutter.pipelines if p.name in {pipeline.name for pipeline in made}),
        binding,
        tree,
    )


def _has_sessions(binding: Binding, key: ScanKey) -> bool:
    return key.source == "stream" and key.slots is not None and any(w.gap for w in binding.windows)


def _cut_times(cutter: Cutter, key: ScanKey) -> tuple[exp.Select, tuple[Output, ...]]:
    """Where sessions begin and end is told by all rows of the stream, also those that conditions let go."""
    binding = cutter.binding
    alias = binding.fresh_alias("times")
    assert isinstance(key.relation, Stream)
    keys = [key_text(key.relation, alias, name) for name in binding.windows[0].by]
    nodes = [column(alias, SLOT), *keys]
    query = exp.Select(
        expressions=[named(node, name) for node, name in zip(nodes, kernel_names(len(nodes)), strict=True)]
    )
    query.set("from_", exp.From(this=binding.scan(key, alias)))
    query.set("distinct", exp.Distinct())
    infer(binding, query)
    outputs = tuple(Output(f"c{place}", type_of(node)) for place, node in enumerate(query.expressions))
    cutter.cut(query)
    return query, outputs


def _complete_states(binding: Binding, pipelines: Sequence[Pipeline]) -> None:
    """Scans of states were made before all columns of the states were known."""
    relations = {pipeline.name: pipeline.relation for pipeline in pipelines}
    binding.scans = {
        replace(key, relation=relations[key.relation.name]) if key.source == "state" else key: name
        for key, name in binding.scans.items()
    }


def _drop_order(tree: Node) -> list[str]:
    if tree.args.get("order") is None or tree.args.get("limit") or tree.args.get("offset"):
        return []
    tree.set("order", None)
    return ["ORDER BY without LIMIT is dropped: a view has no order, the query that reads it may have one"]


class Cutter:
    """Cuts the groupings of one tree, and collects the pipelines."""

    def __init__(self, binding: Binding, streams: Streams, frozen: Sequence[Static] = ()) -> None:
        self.binding = binding
        self.streams = streams
        self.frozen = {static.relation.name: static for static in frozen}
        self.pipelines: list[Pipeline] = []

    def groupings(self, tree: Node) -> list[exp.Select]:
        """The queries that group raw streams."""
        found = [query for query in tree.find_all(exp.Select) if self.streams.reads_raw(query)]
        return [query for query in found if is_grouping(query)]

    def cut(self, query: exp.Select) -> None:
        check_rows(self.streams, query, is_top=True)
        rows = take_rows(self.binding, self.streams, query)
        rows.statics += [self.frozen[name] for name in query.meta.get(FROZEN, ())]
        Grouping(self, query, rows).cut()
        if is_tested(query):
            query.set("distinct", None)

    def cut_pairs(self, pairs: RowPairs) -> Pipeline:
        """A pipeline over the rows that two others keep."""
        query = pairs.query
        filters = conjuncts(query.args["where"].this if query.args.get("where") else None)
        source = exp.Select(joins=query.args.get("joins") or [])
        source.set("from_", query.args["from_"])
        for part in ("from_", "joins", "where"):
            query.set(part, None)
        before = len(self.pipelines)
        Grouping(self, query, RowPart(source, filters, pairs.late, [])).cut()
        [made] = self.pipelines[before:]
        return made

    def pipeline(
        self, rows: RowPart, keys: Sequence[Key], columns: Sequence[StateColumn], dead: Node | None
    ) -> Pipeline:
        """The pipeline of these keys, with further columns if it is there already."""
        if not any(isinstance(key.node, exp.Column) and key.node.name == PLACE for key in keys):
            for key in keys:
                _refuse_interval(key)
        parts = [identity(self.binding, _selected(rows.source)), *(key.name for key in keys)]
        parts += guards_of(rows, keys)
        name = "state_" + digest("; ".join(parts))
        unique = tuple({column.name: column for column in columns}.values())
        known = next((i for i, pipeline in enumerate(self.pipelines) if pipeline.name == name), None)
        if known is None:
            self.pipelines.append(Pipeline(name, self.binding, rows, tuple(keys), unique, dead))
            return self.pipelines[-1]
        before = self.pipelines[known]
        shared = shared_rows(before.rows, rows)
        more = tuple({column.name: column for column in (*before.columns, *unique)}.values())
        same_dead = dead is not None and before.dead is not None and text_of(dead) == text_of(before.dead)
        self.pipelines[known] = replace(before, rows=shared, columns=more, dead=dead if same_dead else None)
        return self.pipelines[known]


def _selected(source: exp.Select) -> exp.Select:
    copy = source.copy()
    copy.set("expressions", [number(1)])
    return copy


def _refuse_interval(key: Key) -> None:
    """Rows that are told apart by their place are never taken for equal, whatever their intervals."""
    if key.type.name == "interval" or (key.type.element is not None and key.type.element.name == "interval"):
        if key.is_hidden:
            raise refuse(
                "a condition on the moment of reading cannot be kept by an interval",
                key.node,
                detail="What a row contributes to it becomes a key of the state, and equal intervals may be written in "
                "different ways.",
                hint="Let the row contribute a time: ts + duration > now() rather than ts > now() - duration.",
            )
        raise refuse(
            "a stream cannot be grouped by an interval",
            key.node,
            detail="Equal intervals may be written in different ways.",
            hint="Group by its length: extract(epoch FROM …).",
        )
