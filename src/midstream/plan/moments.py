"""Constants that stand for the moment of a statement: now(), current_date, current_week(), current_scn().

They are bound to literals, and each literal remembers which moment it is. A query that is kept, such as a view's, is
so brought to another moment by writing the literals anew; the words of the moment tell whether that would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone

from sqlglot import exp

_KEY = "moment"
_WORDS: dict[str, Callable[[datetime, int], str]] = {
    "now": lambda now, scn: now.astimezone(timezone.utc).isoformat(" "),
    "local": lambda now, scn: now.replace(tzinfo=None).isoformat(" "),
    "date": lambda now, scn: now.date().isoformat(),
    "week": lambda now, scn: str(now.isocalendar()[0] * 100 + now.isocalendar()[1]),
    "scn": lambda now, scn: str(scn),
}


def mark_moment(node: exp.Expression, kind: str) -> exp.Expression:
    """Notes on the literal in a node which moment it is."""
    literal = node if isinstance(node, exp.Literal) else node.find(exp.Literal)
    assert literal is not None
    literal.meta[_KEY] = kind
    return node


def moment_of(literal: exp.Literal) -> str:
    return str(literal.meta[_KEY])


def rename_moment(literal: exp.Literal, kind: str) -> None:
    literal.meta[_KEY] = kind


def keep_moment(new: exp.Expression, old: exp.Expression) -> None:
    """A literal that replaces another is the same moment."""
    if _KEY in old.meta and isinstance(new, exp.Literal):
        new.meta[_KEY] = old.meta[_KEY]


def moments_in(tree: exp.Expression) -> Iterator[exp.Literal]:
    return (node for node in tree.find_all(exp.Literal) if _KEY in node.meta)


def has_moment(tree: exp.Expression) -> bool:
    return next(moments_in(tree), None) is not None


def kinds_in(tree: exp.Expression) -> tuple[str, ...]:
    """Which moments a tree asks for."""
    return tuple(sorted({str(node.meta[_KEY]) for node in moments_in(tree)}))


def words_of(kinds: Iterable[str], now: datetime, scn: int) -> dict[str, str]:
    """What these moments are: equal words, equal query."""
    return {kind: _WORDS[kind](now, scn) for kind in kinds}


def at_moment(tree: exp.Expression, words: dict[str, str]) -> exp.Expression:
    """The same query at another moment."""
    if not words:
        return tree
    moved = tree.copy()
    for node in moments_in(moved):
        word = words.get(node.meta[_KEY])
        if word is not None:
            node.set("this", _as_literal(word, node))
    return moved


def _as_literal(word: str, node: exp.Literal) -> str:
    """A typed literal of a moment with a time zone is written without it, in UTC."""
    return word if not node.args.get("is_string") else word.removesuffix("+00:00")


_STAND_IN = 7_386_150_942_718
"""The beginning of numbers that no query has by chance."""


def stand_ins(words: Mapping[str, str]) -> dict[str, str]:
    """Words that stand nowhere else in a text, which is so written once for many moments."""
    return {kind: _stand_in(place, word) for place, (kind, word) in enumerate(sorted(words.items()))}


def with_words(text: str, stand_ins: Mapping[str, str], words: Mapping[str, str]) -> str:
    """A text with the words of one moment."""
    for kind, word in words.items():
        text = text.replace(stand_ins[kind], word)
    return text


def _stand_in(place: int, word: str) -> str:
    is_number = word.lstrip("-").isdigit()
    return f"{_STAND_IN}{place:03}" if is_number else f"9998-12-31 23:59:59.{_STAND_IN % 1000}{place:03}"
