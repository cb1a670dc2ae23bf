"""A windowed stream in FROM: its rows, as long as they are in the window.

    FROM s [WINDOW 60 MINUTES SLIDE 10 MINUTES]
    FROM (SELECT … FROM s WHERE "~slot" >= first AND "~slot" < last) AS s

The bounds are constants that stand for the moment, like now(): which window it is, is known when a result is computed.
`window_start` and `window_end` are such constants, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone

from sqlglot import exp

from midstream.errors import InvalidDefinition, Unsupported, WrongObject
from midstream.plan.context import Binding, ScanKey
from midstream.plan.literals import timestamp_literal
from midstream.plan.moments import mark_moment, moments_in
from midstream.plan.nodes import column, derived, keep_place, name_of, named, place_of
from midstream.plan.scopes import Namespace, Source, SourceColumn, VisibleColumn, did_you_mean
from midstream.plan.trees import rename_columns
from midstream.plan.typing.nodes import typed
from midstream.relations.stream import Stream
from midstream.relations.window import EVER, SLOT, Slots, Window
from midstream.sql.nodes import StreamWindow
from midstream.types import BIGINT

WINDOWED = "windowed"
"""The mark of a windowed stream in a bound tree, with the number of its window."""
WINDOW_MOMENT = "window "
"""What the names of these moments begin with."""
_EPOCH = datetime(1970, 1, 1)
_TIMES = ("timestamp", "timestamptz", "date")


def windowed_item(
    binding: Binding, stream: Stream, reading: StreamWindow, alias: exp.Expression | None, node: exp.Table
) -> tuple[exp.Expression, Namespace]:
    if not binding.takes_streams:
        raise WrongObject(
            "a window over a stream stands in the query of a view",
            detail="A window's result is computed when the window is complete.",
            hint="CREATE VIEW … AS SELECT …, and read the view.",
            position=place_of(reading) or place_of(node),
        )
    window = window_of(stream, reading, node).cut_by(binding.unit)
    if window not in binding.windows:
        _check_together(binding.windows, window, reading, node)
        binding.windows.append(window)
        binding.window_streams.append(set())
    number = binding.windows.index(window)
    binding.window_streams[number].add(stream.id)
    if window.gap is not None and len(binding.window_streams[number]) > 1:
        raise Unsupported(
            "sessions of two streams cannot stand in one view", position=place_of(reading) or place_of(node)
        )
    name = name_of(alias.this) if alias is not None else stream.name
    inner, outer = binding.fresh_alias(name), binding.fresh_alias(name)
    scan = keep_place(binding.scan(ScanKey(stream, "stream", None, window.slots), inner), node)
    query = exp.Select(expressions=[named(column(inner, c), c) for c in stream.column_names])
    query.set("from_", exp.From(this=scan))
    low = exp.GTE(this=column(inner, SLOT), expression=_position(number, "first"))
    high = exp.LT(this=column(inner, SLOT), expression=_position(number, "last"))
    condition: exp.Expression = exp.And(this=low, expression=high)
    for place, name_by in enumerate(window.by):
        same = exp.EQ(this=key_text(stream, inner, name_by), expression=_key_word(number, place))
        condition = exp.And(this=condition, expression=same)
    query.set("where", exp.Where(this=condition))
    item = derived(query, outer)
    item.meta[WINDOWED] = number
    columns = tuple(
        SourceColumn(shown, own)
        for shown, own in zip(rename_columns(list(stream.column_names), alias, name), stream.column_names, strict=True)
    )
    hidden = tuple(
        VisibleColumn(f"window_{which}", _bound(number, which, stream, window.slots)) for which in ("start", "end")
    )
    source = Source(name, outer, columns, None, stream.name, place_of(alias or node), hidden)
    return keep_place(item, node), Namespace.of(source)


def window_of(stream: Stream, reading: StreamWindow, node: exp.Expression) -> Window:
    """The window that was written, measured as the stream is."""
    kind = str(reading.args["kind"])
    slots = _slots(stream, reading, node)
    size, slide, reset = (reading.args.get(key) for key in ("size", "slide", "reset"))
    if kind == "landmark":
        return Window.landmark(slots, int(str(slide)), reset)
    if kind == "session":
        return Window.session(slots, int(str(size)), _session_keys(stream, reading))
    return Window.sliding(slots, int(str(size)), slide)


def _session_keys(stream: Stream, reading: StreamWindow) -> tuple[str, ...]:
    names = [(name_of(node), node) for node in reading.args.get("by") or []]
    for name, node in names:
        found, place = stream.column(name), place_of(node) or place_of(reading)
        if found is None:
            raise InvalidDefinition(
                f'stream "{stream.name}" has no column "{name}"',
                hint=did_you_mean(name, stream.column_names),
                sqlstate="42703",
                position=place,
            )
        if "interval" in str(found.type):
            raise Unsupported(
                "sessions cannot be told apart by an interval",
                detail="Equal intervals may be written in different ways.",
                hint="Keep its length in a column: extract(epoch FROM …).",
                position=place,
            )
    return tuple(name for name, _ in names)


def _slots(stream: Stream, reading: StreamWindow, node: exp.Expression) -> Slots:
    if reading.args["rows"]:
        return Slots("rows", 0)
    given = reading.args.get("column")
    name = name_of(given) if given is not None else stream.timestamp
    if name is None:
        return Slots("arrival", 0)
    found = stream.column(name)
    place = place_of(given) if given is not None else None
    if found is None:
        raise InvalidDefinition(
            f'stream "{stream.name}" has no column "{name}"',
            hint=did_you_mean(name, stream.column_names),
            sqlstate="42703",
            position=place or place_of(node),
        )
    if found.type.name not in _TIMES:
        raise InvalidDefinition(
            f'column "{name}" is {found.type}, and a window by time needs a timestamp',
            sqlstate="42804",
            position=place or place_of(node),
        )
    if stream.timestamp is not None and name != stream.timestamp:
        raise InvalidDefinition(
            f'the time of stream "{stream.name}" is its column "{stream.timestamp}", not "{name}"',
            hint=f"Leave the column out, or create the stream WITH (timestamp = '{name}').",
            position=place or place_of(node),
        )
    return Slots("column", 0, name)


def _check_together(known: list[Window], window: Window, reading: StreamWindow, node: exp.Expression) -> None:
    """Windows of one view go on together: window k of each is one result."""
    for other in known:
        place = place_of(reading) or place_of(node)
        if other.gap is not None or window.gap is not None:
            raise Unsupported("a session stands alone: no other window may be in the same view", position=place)
        if other.slots.is_time != window.slots.is_time:
            raise Unsupported("windows by rows and by time cannot stand in one view", position=place)
        if window.slots.is_time and other.slide != window.slide:
            raise Unsupported(
                "windows by time in one view must slide by the same time",
                hint="Give both the same SLIDE; their sizes may differ.",
                position=place,
            )


# --- constants of the moment -------------------------------------------------------------------------


def _position(number: int, which: str) -> exp.Expression:
    literal = mark_moment(exp.Literal.number(str(number)), _kind(number, which))
    return exp.Cast(this=literal, to=exp.DataType.build("BIGINT"))


def key_text(stream: Stream, alias: str, name: str) -> exp.Expression:
    """A key of sessions as a text that tells NULL, too. 0.0 and -0.0 are one key, and have one text when 0 is added."""
    node: exp.Expression = column(alias, name)
    found = stream.column(name)
    if found is not None and found.type.name in ("real", "double precision"):
        node = exp.Add(this=node, expression=exp.Literal.number("0"))
    text = exp.Cast(this=node, to=exp.DataType.build("TEXT"))
    marked = exp.DPipe(this=exp.Literal.string("="), expression=text)
    return exp.Coalesce(this=marked, expressions=[exp.Literal.string("")])


def _key_word(number: int, place: int) -> exp.Expression:
    literal = mark_moment(exp.Literal.string(f"{number} {place}"), _kind(number, f"key {place}"))
    return exp.Cast(this=literal, to=exp.DataType.build("TEXT"))


def session_words(number: int, start: int, end: int, keys: Sequence[str], slots: Slots) -> dict[str, str]:
    """What the constants are in a session."""
    words = {_kind(number, "first"): str(start), _kind(number, "last"): str(end)}
    words |= {_kind(number, "start"): _shown(start, slots), _kind(number, "end"): _shown(end, slots)}
    return words | {_kind(number, f"key {place}"): key for place, key in enumerate(keys)}


def _bound(number: int, which: str, stream: Stream, slots: Slots) -> exp.Expression:
    """window_start or window_end. What it holds until a window is known tells the bounds of all windows apart."""
    held = 2 * number + (which == "end")
    if not slots.is_time:
        literal = mark_moment(exp.Literal.number(str(held)), _kind(number, which))
        return exp.Cast(this=literal, to=exp.DataType.build("BIGINT"))
    zone = timezone.utc if _has_zone(stream, slots) else None
    return mark_moment(timestamp_literal(_EPOCH.replace(microsecond=held, tzinfo=zone)), _kind(number, which))


def _has_zone(stream: Stream, slots: Slots) -> bool:
    found = stream.column(slots.column) if slots.column is not None else None
    return found is not None and found.type.name == "timestamptz"


def _kind(number: int, which: str) -> str:
    return f"{WINDOW_MOMENT}{number} {which}"


def bound_literal(number: int, which: str) -> exp.Expression:
    """A bound of a window in basic windows, typed."""
    literal = typed(exp.Literal.number(str(number)), BIGINT)
    return mark_moment(literal, _kind(number, which))


def pair_moment(side: int, which: str) -> str:
    """Which basic windows of one side of a join are taken."""
    return f"{WINDOW_MOMENT}pair {side} {which}"


def pair_words(*spans: tuple[int, int]) -> dict[str, str]:
    return {
        pair_moment(side, which): str(position)
        for side, span in enumerate(spans)
        for which, position in zip(("first", "last"), span, strict=True)
    }


def is_window_bound(node: exp.Expression) -> bool:
    """Whether a node is window_start or window_end."""
    kinds = [str(literal.meta["moment"]) for literal in moments_in(node)]
    return bool(kinds) and all(kind.startswith(WINDOW_MOMENT) for kind in kinds) and node.find(exp.Column) is None


def window_words(windows: Sequence[Window], number: int, first_slots: Mapping[int, int]) -> dict[str, str]:
    """What the constants are in window `number`; a landmark by time begins with the first slide that rows came to,
    however small its basic windows are."""
    words: dict[str, str] = {}
    for index, window in enumerate(windows):
        start, end = window.span(number)
        first, last = window.slots_of(number)
        if start == EVER and index in first_slots:
            # What is before is no basic window: sums of them have such numbers.
            first = first_slots[index]
            start = first * window.slots.unit // window.slide * window.slide
        words[_kind(index, "first")], words[_kind(index, "last")] = str(first), str(last)
        words[_kind(index, "start")] = _shown(start, window.slots)
        words[_kind(index, "end")] = _shown(end, window.slots)
    return words


def _shown(position: int, slots: Slots) -> str:
    if not slots.is_time:
        return str(position)
    try:
        return (_EPOCH + timedelta(microseconds=position)).isoformat(" ")
    except OverflowError:
        return "0001-01-01 00:00:00"
