"""Random views over windowed streams: what any view may be, with a window behind every stream, and what only windows
allow: selects without a grouping, joins of windows, and the bounds of the window.

Names are marked as in random_views.py. A windowed stream is `‹stream s0›`; `s0x` is s0 once more, in a window of its
own. `‹start s0 a1›` is the window_start of s0, which has the alias a1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from choices import Choices
from random_queries import RandomQuery, Source, Term, _distinct, _select
from random_tables import RandomTable
from random_views import STREAM_COLUMNS, ViewMaker
from window_model import Session, Span

SECOND = 1_000_000
STREAM = re.compile(r"‹stream (\w+)›")
BOUND = re.compile(r"‹(start|end) (\w+) (\w+)›")
MARKED = ("s0", "s1", "s2", "s0x")
UNTIMED = "s2"
"""Has no time of its own, so windows by time name the column: as table functions."""


@dataclass(frozen=True)
class WindowView:
    query: RandomQuery
    spans: Mapping[str, Span | Session]
    """The windows of the marked streams that it reads; a session stands alone."""
    functions: frozenset[str]
    """Those that are written as table functions."""

    def text_of(self, mark: str) -> str:
        """A windowed stream as it is written, without an alias."""
        span, stream = self.spans[mark], mark.removesuffix("x")
        if isinstance(span, Session):
            if mark in self.functions:
                return f"SESSION({stream}, at, INTERVAL '{span.gap // 1000} milliseconds')"
            by = f" BY {span.by}" if span.by else ""
            return f"{stream} [SESSION {span.gap // 1000} MILLISECONDS{by}]"
        if mark in self.functions and span.size is not None:
            size, slide = (f"INTERVAL '{length // 1000} milliseconds'" for length in (span.size, span.slide))
            if size == slide:
                return f"TUMBLE({stream}, at, {size})"
            return f"TABLE(HOP(TABLE {stream}, DESCRIPTOR(at), {slide}, {size}))"
        if span.size is None:
            reset = f" RESET {_length(span, span.reset)}" if span.reset else ""
            return f"{stream} [LANDMARK SLIDE {_length(span, span.slide)}{reset}]"
        slide = f" SLIDE {_length(span, span.slide)}" if span.slide != span.size else ""
        return f"{stream} [WINDOW {_length(span, span.size)}{slide}]"


def _has_unread(query: RandomQuery) -> bool:
    """Whether it has a CTE that nothing reads: its windows hold nobody up."""
    return any(len(re.findall(rf"\b{name}\b", query.sql)) == 1 for name in re.findall(r"WITH (\w+) AS", query.sql))


def _with_bounds(query: RandomQuery, bound: str) -> RandomQuery:
    """The bounds of windows by rows are numbers, by time moments."""
    return replace(query, types=tuple(bound if type_ == "bound" else type_ for type_ in query.types))


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
        super().__init__(choices, MARKED, tables)
        self.scale = scale
        """How many times larger windows are than small ones; large ones are not joined with each other."""

    def window_view(self) -> WindowView:
        kinds = [self._of_one, self._of_one, self._ungrouped]
        kinds += [self._join_of_windows, self.view] if self.scale == 1 else []
        while _has_unread(query := self.choices.pick(kinds)()):
            pass
        by_time = self.choices.chance(2)
        marks = sorted(set(STREAM.findall(query.sql)))
        if by_time and len(marks) == 1 and self.choices.chance(4):
            return self._in_sessions(query, marks[0])
        slide = self._slide(by_time)
        spans = {mark: self._span(by_time, slide, by_time and mark == UNTIMED) for mark in marks}
        if len(marks) > 1 and UNTIMED not in marks and self.choices.chance(3):
            spans = dict.fromkeys(marks, spans[marks[0]])
        if len(marks) > 1 and "‹start" in query.sql:
            spans = {mark: _with_start(span) for mark, span in spans.items()}
        functions = {mark for mark in marks if mark == UNTIMED or self.choices.chance(5)} if by_time else set()
        bound = "timestamp" if by_time else "bigint"
        return WindowView(_with_bounds(query, bound), spans, frozenset(functions))

    def _in_sessions(self, query: RandomQuery, mark: str) -> WindowView:
        by = self.choices.pick([None, "k", "s"]) if mark != UNTIMED else None
        session = Session(self.choices.pick([2, 1, 3, 5]) * SECOND * self.scale, by)
        is_function = mark == UNTIMED or (by is None and self.choices.chance(3))
        return WindowView(_with_bounds(query, "timestamp"), {mark: session}, frozenset([mark] if is_function else []))

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
        sources, text = [Source(alias, STREAM_COLUMNS)], f"‹stream {mark}› AS {alias}"
        if self.choices.chance(3):
            source, text = self._join_table(sources, text)
            sources.append(source)
        bounds = [bound for bound in self._bounds(mark, alias) if self.choices.chance(2)]
        keys = _distinct([self._below_key(sources) for _ in range(self.choices.between(0, 2))])
        aggregates = [self._aggregate(sources, 1) for _ in range(self.choices.between(1, 4))]
        by = keys + [bound for bound in bounds if keys or self.choices.chance(3)]
        if keys and self.choices.chance(2):
            by = keys
        tail = f" FROM {text}{self._below_where(sources)}"
        tail += " GROUP BY " + ", ".join(key.sql for key in by) if by else ""
        tail += f" HAVING {self._having(sources)}" if self.choices.chance(4) else ""
        return _select("", bounds + keys + aggregates, tail)

    def _bounds(self, mark: str, alias: str) -> list[Term]:
        return [Term(f"‹{which} {mark} {alias}›", "bound") for which in ("start", "end")]

    def _ungrouped(self) -> RandomQuery:
        """Rows as they are, without a grouping."""
        alias, mark = self._alias("a"), self.choices.pick(MARKED)
        sources, text = [Source(alias, STREAM_COLUMNS)], f"‹stream {mark}› AS {alias}"
        if self.choices.chance(3):
            source, text = self._join_table(sources, text)
            sources.append(source)
        terms = [self._any_column(sources) for _ in range(self.choices.between(1, 3))]
        terms += [bound for bound in self._bounds(mark, alias) if self.choices.chance(3)]
        distinct = "DISTINCT " if self.choices.chance(5) else ""
        made = _select(distinct, terms, f" FROM {text}{self._below_where(sources)}")
        return replace(self._sorted(made), ordered=False) if self.choices.chance(5) else made

    def _join_of_windows(self) -> RandomQuery:
        marks = [self.choices.pick(MARKED), self.choices.pick(MARKED)]
        aliases = [self._alias("a"), self._alias("a")]
        sources = [Source(alias, STREAM_COLUMNS) for alias in aliases]
        one, two = (f"‹stream {mark}› AS {alias}" for mark, alias in zip(marks, aliases, strict=True))
        kind = self.choices.pick(["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", ","])
        on = f"{aliases[0]}.{self.choices.pick('ik')} = {aliases[1]}.{self.choices.pick('ik')}"
        if kind == "JOIN" and self.choices.chance(4):
            on = f"{aliases[0]}.i {self.choices.pick(['<', '>', '<>'])} {aliases[1]}.i"
        text = f" FROM {one}, {two} WHERE {on}" if kind == "," else f" FROM {one} {kind} {two} ON {on}"
        bounds = [bound for bound in self._bounds(marks[0], aliases[0]) if self.choices.chance(3)]
        if self.choices.chance(3):
            return _select("", bounds + [self._any_column(sources) for _ in range(3)], text)
        keys = _distinct([self._any_basic_column(sources) for _ in range(self.choices.between(0, 2))])
        by = keys + bounds if keys else []
        text += " GROUP BY " + ", ".join(key.sql for key in by) if by else ""
        return _select("", bounds + keys + [self._aggregate(sources, 1) for _ in range(2)], text)
