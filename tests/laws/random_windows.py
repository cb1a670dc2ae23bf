"""Random views over windowed streams: what any view may be, with a window behind every stream, and what only windows
allow: selects without a grouping, joins of windows, and the bounds of the window.

Names are marked as in random_views.py. A windowed stream is `‹stream s0›`; `s0x` is s0 once more, in a window of its
own. In half of the views, the bounds of windows are columns like others, and stand wherever these do: in conditions,
keys, joins, aggregates, and subqueries that give them another name. `‹frozen t0›` is a table below a grouping; tables
without a mark, and the continuous view `w_c`, are read when a window's result is computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from choices import Choices
from random_queries import ORDERED_OPERATORS, RandomQuery, Source, Term, _distinct, _select
from random_tables import Column, RandomTable
from random_views import STREAM_COLUMNS, ViewMaker, named
from window_model import Session, Span

SECOND = 1_000_000
STREAM = re.compile(r"‹stream (\w+)›")
ALIASED = re.compile(r"‹stream (\w+)› AS (\w+)")
BOUND = re.compile(r"\b(\w+)\.window_(start|end)\b")
MARKED = ("s0", "s1", "s2", "s0x", "s3")
UNTIMED = "s2"
"""Has no time of its own, so windows by time name the column: as table functions."""
ARRIVING = "s3"
"""Has no time of its own, so windows by time go by when its rows arrive. It stands alone there."""
COUNTED = RandomTable("w_c", (Column("k", "int", True), Column("i", "int", True), Column("many", "bigint", True)), ())
"""A continuous view, which windowed streams are joined with."""
SPELLINGS = (
    "{kind}({s}, at, {lengths})",
    "TABLE({kind}(TABLE {s}, DESCRIPTOR(at), {lengths}))",
    "{kind}({s}, {lengths})",
)
"""Of table functions; the last leaves out the column, which is the stream's own time."""


@dataclass(frozen=True)
class WindowView:
    query: RandomQuery
    spans: Mapping[str, Span | Session]
    """The windows of the marked streams that it reads; a session stands alone."""
    functions: Mapping[str, str]
    """Those that are written as table functions, and how."""

    def text_of(self, mark: str) -> str:
        """A windowed stream as it is written, without an alias."""
        span, stream = self.spans[mark], mark.removesuffix("x")
        spelling = self.functions.get(mark)
        if isinstance(span, Session):
            if spelling is not None and span.by is not None:
                gap = _interval(span.gap)
                return f"SESSION(TABLE {stream} PARTITION BY {span.by}, DESCRIPTOR(at), {gap})"
            if spelling is not None:
                return spelling.format(kind="SESSION", s=stream, lengths=_interval(span.gap))
            by = f" BY {span.by}" if span.by else ""
            return f"{stream} [SESSION {span.gap // 1000} MILLISECONDS{by}]"
        if spelling is not None and span.size == span.slide:
            return spelling.format(kind="TUMBLE", s=stream, lengths=_interval(span.slide))
        if spelling is not None and span.size is not None:
            lengths = f"{_interval(span.slide)}, {_interval(span.size)}"
            return spelling.format(kind="HOP", s=stream, lengths=lengths)
        if span.size is None:
            reset = f" RESET {_length(span, span.reset)}" if span.reset else ""
            return f"{stream} [LANDMARK SLIDE {_length(span, span.slide)}{reset}]"
        slide = f" SLIDE {_length(span, span.slide)}" if span.slide != span.size else ""
        return f"{stream} [WINDOW {_length(span, span.size)}{slide}]"


def _interval(length: int) -> str:
    return f"INTERVAL '{length // 1000} milliseconds'"


def _has_unread(query: RandomQuery) -> bool:
    """Whether it has a CTE that nothing reads: its windows hold nobody up."""
    return any(len(re.findall(rf"\b{name}\b", query.sql)) == 1 for name in re.findall(r"WITH (\w+) AS", query.sql))


def _marks(query: RandomQuery) -> list[str]:
    return sorted(set(STREAM.findall(query.sql)))


def _unfrozen(query: RandomQuery) -> RandomQuery:
    """Without a grouping, tables are read when a result is computed."""
    return replace(query, sql=named(query.sql, lambda kind, name: name if kind == "frozen" else f"‹{kind} {name}›"))


def _with_start(span: Span) -> Span:
    """A landmark that never ends begins with the first row of its stream; which of two streams, is left open."""
    endless = span.by == "time" and span.size is None and span.reset is None
    return replace(span, reset=4 * span.slide) if endless else span


def _length(span: Span, length: int) -> str:
    if span.by == "rows":
        return f"{length} ROWS"
    return f"{length // SECOND} SECONDS" if length % SECOND == 0 else f"{length // 1000} MILLISECONDS"


class WindowMaker(ViewMaker):
    def __init__(self, choices: Choices, tables: tuple[RandomTable, ...], scale: int = 1) -> None:
        self.by_time = choices.chance(2)
        self.bound = "timestamp" if self.by_time else "bigint"
        self.bounds = (Column("window_start", self.bound, True), Column("window_end", self.bound, True))
        if choices.chance(2):
            self.stream_columns = (*STREAM_COLUMNS, Column("at", "timestamp", True), *self.bounds)
        super().__init__(choices, MARKED, tables)
        self.scale = scale
        """How many times larger windows are than small ones; large ones are not joined with each other."""

    def window_view(self) -> WindowView:
        kinds = [self._of_one, self._of_one, self._ungrouped]
        kinds += [self._join_of_windows, self.view, self._beside_a_view] if self.scale == 1 else []
        while _has_unread(query := self.choices.pick(kinds)()) or self._has_two_clocks(query):
            pass
        marks, by_time = _marks(query), self.by_time
        if by_time and len(marks) == 1 and self.choices.chance(4):
            return self._in_sessions(query, marks[0])
        slide = self._slide(by_time)
        is_wide = len(marks) > 2
        spans = {mark: self._span(by_time, slide, (by_time and mark == UNTIMED) or is_wide) for mark in marks}
        if len(marks) > 1 and UNTIMED not in marks and self.choices.chance(3):
            spans = dict.fromkeys(marks, spans[marks[0]])
        if len(marks) > 1 and "window_start" in query.sql:
            spans = {mark: _with_start(span) for mark, span in spans.items()}
        named_so = [mark for mark in marks if by_time and (mark == UNTIMED or self.choices.chance(4))]
        functions = {mark: self._spelling(mark) for mark in named_so if mark != ARRIVING}
        return WindowView(query, spans, functions)

    def _has_two_clocks(self, query: RandomQuery) -> bool:
        marks = _marks(query)
        return self.by_time and ARRIVING in marks and len(marks) > 1

    def _spelling(self, mark: str) -> str:
        return self.choices.pick(SPELLINGS[:-1] if mark == UNTIMED else SPELLINGS)

    def sibling(self, view: WindowView) -> WindowView:
        """The same query over other windows, whose basic windows can be made of the same smaller ones."""
        factor = self.choices.pick([1, 2, 3])
        return replace(view, spans={mark: self._resized(span, factor) for mark, span in view.spans.items()})

    def _resized(self, span: Span | Session, factor: int) -> Span | Session:
        if isinstance(span, Session):
            return replace(span, gap=span.gap * factor)
        slide = span.slide * factor
        if span.size is None:
            return replace(span, slide=slide, reset=span.reset and slide * 2)
        return replace(span, slide=slide, size=slide * self.choices.pick([1, 2, 4]))

    def _in_sessions(self, query: RandomQuery, mark: str) -> WindowView:
        by = self.choices.pick([None, "k", "s"])
        session = Session(self.choices.pick([2, 1, 3, 5]) * SECOND * self.scale, by)
        is_function = mark == UNTIMED or (mark != ARRIVING and self.choices.chance(3))
        functions = {mark: self._spelling(mark)} if is_function else {}
        return WindowView(query, {mark: session}, functions)

    # windows

    def _slide(self, by_time: bool) -> int:
        slide = self.choices.pick([2, 1, 3, 5, 7, 10]) * self.scale
        return slide * self.choices.pick([SECOND, SECOND, SECOND * 3 // 2]) if by_time else slide

    def _span(self, by_time: bool, slide: int, sliding: bool) -> Span:
        """By time, all windows of a view have one slide; by rows, each its own. `sliding`: it is no landmark."""
        if not by_time:
            slide = self.choices.pick([slide, slide, self._slide(by_time)])
        unit = SECOND // 2 if by_time else 1
        match self.choices.draw(5 if sliding else 7):
            case 0:
                size, reset = slide, None
            case 1 | 2:
                size, reset = slide * self.choices.between(2, 6), None
            case 3:
                size, reset = slide + unit * self.choices.between(1, 9), None
            case 4:
                size, reset = max(unit, slide // 2 // unit * unit), None
            case 5:
                size, reset = None, None
            case _:
                size, reset = None, self.choices.pick([slide * self.choices.between(2, 4), slide + 3 * unit])
        return Span("time" if by_time else "rows", slide, size, reset)

    # queries that only windows allow

    def _of_one(self) -> RandomQuery:
        """Groups of one windowed stream, perhaps with a table, perhaps by the window's bounds."""
        alias, mark = self._alias("a"), self.choices.pick(MARKED)
        sources, text = [Source(alias, self.stream_columns)], f"‹stream {mark}› AS {alias}"
        if self.choices.chance(3):
            source, text = self._join_table(sources, text)
            sources.append(source)
        bounds = [bound for bound in self._bounds(alias) if self.choices.chance(2)]
        shown = [*bounds, self._of_bounds(self.bound, alias)] if self.choices.chance(3) else bounds
        keys = _distinct([self._below_key(sources) for _ in range(self.choices.between(0, 2))])
        aggregate = self._kept_aggregate if self.scale == 1 else lambda sources: self._aggregate(sources, 1)
        aggregates = [aggregate(sources) for _ in range(self.choices.between(1, 4))]
        tail = f" FROM {text}{self._at_a_moment(sources, self._below_where(sources))}"
        if keys and self.choices.chance(5):
            extra, sets = self._sets([key.sql for key in keys])
            return _select("", shown + keys + extra + aggregates, f"{tail}{sets}")
        by = keys + [bound for bound in bounds if keys or self.choices.chance(3)]
        if keys and self.choices.chance(2):
            by = keys
        tail += " GROUP BY " + ", ".join(key.sql for key in by) if by else ""
        tail += f" HAVING {self._having_bounds(sources, alias)}" if self.choices.chance(4) else ""
        return _select("", shown + keys + aggregates, tail)

    def _bounds(self, alias: str) -> list[Term]:
        return [Term(f"{alias}.{column.name}", column.type) for column in self.bounds]

    def _of_bounds(self, type_: str, alias: str) -> Term:
        """What is made of the bounds of a window alone, and so needs no GROUP BY."""
        return Term(self._flat(type_, [Source(alias, self.bounds)], 2), type_)

    def _having_bounds(self, sources: list[Source], alias: str) -> str:
        match self.choices.draw(4):
            case 0:
                return self._of_bounds("boolean", alias).sql
            case 1:
                largest = f"max({self._leaf(self.bound, sources, tame=False).sql})"
                return f"{largest} {self.choices.pick(ORDERED_OPERATORS)} {self._of_bounds(self.bound, alias).sql}"
            case _:
                return self._having(sources)

    def _asked_with(self, sources: list[Source]) -> str:
        bounds = [f"{s.alias}.{c.name}" for s in sources for c in s.columns if c in self.bounds]
        if not bounds or not self.choices.chance(4):
            return super()._asked_with(sources)
        bound = self.choices.pick(bounds)
        return f"extract(minute FROM {bound}) - 1" if self.by_time else f"({self._leaf('int', sources).sql} + {bound})"

    def _sets(self, names: list[str]) -> tuple[list[Term], str]:
        """The bounds of a window cannot be left out of a set."""
        if any(BOUND.search(name) for name in names):
            return [], f" GROUP BY {', '.join(names)}"
        return super()._sets(names)

    def _ungrouped(self) -> RandomQuery:
        """Rows as they are, without a grouping."""
        alias, mark = self._alias("a"), self.choices.pick(MARKED)
        sources, text = [Source(alias, self.stream_columns)], f"‹stream {mark}› AS {alias}"
        if self.choices.chance(3):
            source, text = self._join_table(sources, text)
            sources.append(source)
        terms = [self._any_column(sources) for _ in range(self.choices.between(1, 3))]
        terms += [bound for bound in self._bounds(alias) if self.choices.chance(3)]
        terms += [self._of_bounds("boolean", alias)] if self.choices.chance(6) else []
        distinct = "DISTINCT " if self.choices.chance(5) else ""
        made = _select(distinct, terms, f" FROM {text}{self._below_where(sources)}")
        made = made if distinct else _unfrozen(made)
        return replace(self._sorted(made), ordered=False) if self.choices.chance(5) else made

    def _beside_a_view(self) -> RandomQuery:
        """A windowed stream, joined with a continuous view, as it is or grouped."""
        alias, other, mark = self._alias("a"), self._alias("b"), self.choices.pick(MARKED)
        sources = [Source(alias, self.stream_columns), Source(other, COUNTED.columns)]
        kind = self.choices.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        on = f"{alias}.{self.choices.pick('ik')} = {other}.k"
        text = f" FROM ‹stream {mark}› AS {alias} {kind} {COUNTED.name} AS {other} ON {on}"
        bounds = [bound for bound in self._bounds(alias) if self.choices.chance(3)]
        return self._shown(sources, bounds, text)

    def _join_of_windows(self) -> RandomQuery:
        """Two or three, perhaps with a table."""
        marks = [self.choices.pick(MARKED) for _ in range(self.choices.pick([2, 2, 3]))]
        aliases = [self._alias("a") for _ in marks]
        sources = [Source(alias, self.stream_columns) for alias in aliases]
        texts = [f"‹stream {mark}› AS {alias}" for mark, alias in zip(marks, aliases, strict=True)]
        text, tests = f" FROM {texts[0]}", []
        for place in range(1, len(marks)):
            kind = self.choices.pick(["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN" if place == 1 else "JOIN", ","])
            by_keys = place > 1 or kind == "FULL JOIN"
            on = self._pairing(aliases[self.choices.draw(place)], aliases[place], by_keys=by_keys)
            if kind == "," and place == len(marks) - 1:
                text, tests = f"{text}, {texts[place]}", [on]
            else:
                text += f" {kind.replace(',', 'JOIN')} {texts[place]} ON {on}"
        if not tests and self.choices.chance(4):
            static, other = self._static()
            text += f" {self.choices.pick(['JOIN', 'LEFT JOIN'])} {other} ON {static.alias}.k = {aliases[0]}.k"
            sources.append(static)
        text += f" WHERE {' AND '.join(tests)}" if tests else ""
        bounds = [bound for bound in self._bounds(aliases[0]) if self.choices.chance(3)]
        return self._shown(sources, bounds, text)

    def _pairing(self, one: str, two: str, *, by_keys: bool) -> str:
        """Two windows may meet otherwise, too; pairs of three would be too many, and FULL JOIN needs keys."""
        if by_keys:
            return f"{one}.k = {two}.k AND {one}.i = {two}.i"
        if self.choices.chance(4):
            theta = f"{one}.i {self.choices.pick(['<', '>', '<>'])} {two}.i"
            return f"{theta} AND {one}.k = {two}.k" if self.choices.chance(2) else theta
        return f"{one}.{self.choices.pick('ik')} = {two}.{self.choices.pick('ik')}"

    def _shown(self, sources: list[Source], bounds: list[Term], text: str) -> RandomQuery:
        """Rows as they are, or in groups."""
        if self.choices.chance(3):
            return _unfrozen(_select("", bounds + [self._any_column(sources) for _ in range(3)], text))
        keys = _distinct([self._any_basic_column(sources) for _ in range(self.choices.between(0, 2))])
        by = keys + bounds if keys else []
        text += " GROUP BY " + ", ".join(key.sql for key in by) if by else ""
        text += f" HAVING {self._having(sources)}" if self.choices.chance(6) else ""
        return _select("", bounds + keys + [self._aggregate(sources, 1) for _ in range(2)], text)
