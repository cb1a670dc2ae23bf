"""Our SQL as a dialect of sqlglot: PostgreSQL's, read by our grammar and printed with our nodes.

>>> from midstream.sql import parse_query
>>> parse_query("SELECT * FROM users AS OF SCN 41 AS u").tree().sql(dialect=Midstream)
'SELECT * FROM users AS OF SCN 41 AS u'
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator

from midstream.sql.nodes import (
    AllWindows,
    AsOf,
    MatchRecognize,
    PartReference,
    Pattern,
    PatternElement,
    StreamWindow,
    reading_of,
)


class MidstreamGenerator(PostgresGenerator):
    """Prints our nodes; everything else as PostgreSQL."""

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        reading = reading_of(expression)
        if reading is None:
            return super().table_sql(expression, sep)
        name = self.table_parts(expression)
        alias = self.sql(expression, "alias")
        joins = self.expressions(expression, key="joins", sep="", flat=True)
        return self._read(name, reading) + (f"{sep}{alias}" if alias else "") + joins

    def _read(self, name: str, reading: exp.Expression) -> str:
        column = reading.args.get("column")
        if column is not None:
            return _window_function(reading, name, self.sql(column))
        space = "" if isinstance(reading, PartReference) else " "
        return f"{name}{space}{self.sql(reading)}"

    def asof_sql(self, expression: AsOf) -> str:
        return f"AS OF SCN {self.sql(expression, 'this')}"

    def changes_sql(self, expression: exp.Expression) -> str:
        return f"CHANGES FROM SCN {self.sql(expression, 'first')} TO SCN {self.sql(expression, 'last')}"

    def allwindows_sql(self, expression: AllWindows) -> str:
        return "ALL WINDOWS"

    def streamwindow_sql(self, expression: StreamWindow) -> str:
        args, rows = expression.args, bool(expression.args["rows"])
        if args["kind"] == "landmark":
            reset = f" RESET {_size(args['reset'], rows)}" if args.get("reset") is not None else ""
            return f"[LANDMARK SLIDE {_size(args['slide'], rows)}{reset}]"
        if args["kind"] == "session":
            by = f" BY {self.expressions(expression, key='by', flat=True)}" if args.get("by") else ""
            return f"[SESSION {_size(args['size'], rows)}{by}]"
        slide = f" SLIDE {_size(args['slide'], rows)}" if args.get("slide") is not None else ""
        return f"[WINDOW {_size(args['size'], rows)}{slide}]"

    def partreference_sql(self, expression: PartReference) -> str:
        last = self.sql(expression, "last")
        return f"[{self.sql(expression, 'this')}{f' .. {last}' if last else ''}]"

    def pattern_sql(self, expression: Pattern) -> str:
        return f"PATTERN [{self.expressions(expression, key='elements', flat=True)}]"

    def patternelement_sql(self, expression: PatternElement) -> str:
        return f"{self.sql(expression, 'this')}{expression.args['quantifier']}"

    def matchrecognize_sql(self, expression: exp.Expression) -> str:
        if not isinstance(expression, MatchRecognize):
            return super().matchrecognize_sql(expression)  # type: ignore[arg-type]
        elements = self.expressions(expression, key="elements", sep=" ", flat=True)
        define = ", ".join(f"{self.sql(d, 'alias')} AS {self.sql(d, 'this')}" for d in expression.args["define"])
        parts = [
            ("PARTITION BY ", self.expressions(expression, key="partition_by", flat=True)),
            ("", self.sql(expression, "order").strip()),
            ("MEASURES ", self.expressions(expression, key="measures", flat=True)),
            ("", expression.args.get("rows")),
            ("AFTER MATCH SKIP ", expression.args.get("after")),
            ("PATTERN ", f"({elements})"),
            ("DEFINE ", define),
        ]
        return f"MATCH_RECOGNIZE ({' '.join(word + text for word, text in parts if text)})"

    def parameter_sql(self, expression: exp.Parameter) -> str:
        return f"${self.sql(expression, 'this')}"


def _size(size: int, rows: bool) -> str:
    return f"{size} ROWS" if rows else f"{size} MICROSECONDS"


def _window_function(reading: exp.Expression, name: str, column: str) -> str:
    lengths = [reading.args.get("slide"), reading.args["size"]]
    texts = "".join(f", INTERVAL '{length} microseconds'" for length in lengths if length is not None)
    function = "SESSION" if reading.args["kind"] == "session" else "TUMBLE" if lengths[0] is None else "HOP"
    return f"{function}({name}, {column}{texts})"


class Midstream(Postgres):
    """PostgreSQL's dialect with our FROM items. Texts are read by `midstream.sql`, so by the same strict rules."""

    Generator = MidstreamGenerator

    def parse(self, sql: str, **opts: Any) -> list[exp.Expr | None]:
        from midstream.sql import parse_query

        return [parse_query(sql).tree()]
