"""The nodes that our SQL has beyond sqlglot's: how a relation in FROM is read.

An `exp.Table` whose rows are not simply all rows of now has one more argument, `table.args["reading"]`, a
`Reading`. Whoever reads a table must look at it, or refuse it: `tree.find(Reading)` finds any of them.

    FROM users AS OF SCN 41 AS u              AsOf(scn=41)
    FROM mv CHANGES FROM SCN 40 TO SCN 52     Changes(first=40, last=52)
    FROM v ALL WINDOWS                        AllWindows()
    FROM s [WINDOW 10 ROWS SLIDE 2 ROWS]      StreamWindow(kind='sliding', rows=True, size=10, slide=2)
    FROM s [WINDOW 60 MINUTES]                StreamWindow(kind='sliding', rows=False, size=3600000000)
    FROM TUMBLE(s, ts, INTERVAL '1 hour')     StreamWindow(…, size=3600000000, column=ts)
    FROM s [LANDMARK SLIDE 5 ROWS]            StreamWindow(kind='landmark', rows=True, slide=5)
    FROM s [SESSION 30 SECONDS BY a]          StreamWindow(kind='session', rows=False, size=30000000, by=[a])
    FROM m[j-1]                               PartReference(this=j - 1)
    FROM m[i*60-59 .. i*60]                   PartReference(this=i * 60 - 59, last=i * 60)
    FROM m PATTERN [a, d+]                    Pattern(elements=[PatternElement(a), PatternElement(d, '+')])
    FROM m MATCH_RECOGNIZE (…)                MatchRecognize(…, elements=[…])

Other conventions of our trees, where sqlglot leaves a choice:

- Names are lower-cased unless they were quoted; `public.` is gone; a parameter is
  `exp.Parameter(this=Literal(n))`, whether it was written `?` or `$n`.
- DEFAULT in VALUES, SET and MERGE is `exp.Var(this="DEFAULT")`.
- `FETCH FIRST n ROWS ONLY` is an `exp.Limit`; `x = SOME (…)` is an `exp.Any`; a row is an `exp.Tuple`.
- `interval '90 minutes'` has a number and a unit; any other text, such as `interval '1 day 02:00'`, has no unit.
- Array subscripts are kept as written, counted from 1: `a[i]` is `Bracket(a, [i], offset=1)`.
- An operand that other dialects might bind otherwise stands in an `exp.Paren`, so a tree prints safely in each.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

READING = "reading"
"""The argument of `exp.Table` that holds a `Reading`."""


class Reading(exp.Expression):
    """How a relation in FROM is read, where that is not "all its rows of now"."""


class AsOf(Reading):
    """AS OF SCN n: the relation as it was then. `this` is a number or a parameter."""

    arg_types = {"this": True}


class Changes(Reading):
    """CHANGES FROM SCN first TO SCN last, both included."""

    arg_types = {"first": True, "last": True}


class AllWindows(Reading):
    """ALL WINDOWS: every kept result of a window view."""

    arg_types: ClassVar[dict[str, bool]] = {}


class StreamWindow(Reading):
    """A window over a stream. Sizes are rows, or microseconds of time, by `rows`.

    `kind` is 'sliding' (no `slide`: tumbling), 'landmark' (`reset`: when it starts anew) or 'session' (`size` is
    the gap). `column` is the timestamp column where a table function named one."""

    arg_types = {
        "kind": True,
        "rows": True,
        "size": False,
        "slide": False,
        "reset": False,
        "by": False,
        "column": False,
    }


class PartReference(Reading):
    """m[this], or m[this .. last]: parts of a relation by number."""

    arg_types = {"this": True, "last": False}


class PatternElement(exp.Expression):
    """One step of a pattern; `quantifier` is '', '+', '*' or '?'."""

    arg_types = {"this": True, "quantifier": True}


class Pattern(Reading):
    """PATTERN [a, b, d+]: the rows that match, one after the other."""

    arg_types = {"elements": True}


class MatchRecognize(Reading):
    """MATCH_RECOGNIZE (…): the standard's words for a pattern."""

    arg_types = {
        "partition_by": False,
        "order": False,
        "measures": False,
        "rows": False,
        "after": False,
        "elements": True,
        "define": True,
    }


def reading_of(table: exp.Expression) -> Reading | None:
    """How this item of FROM is read, if not plainly."""
    reading = table.args.get(READING)
    return reading if isinstance(reading, Reading) else None
