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

from midstream.sql import nodes


def _as_of(printer: PostgresGenerator, node: nodes.AsOf) -> str:
    return f"AS OF SCN {printer.sql(node, 'this')}"


def _changes(printer: PostgresGenerator, node: nodes.Changes) -> str:
    return f"CHANGES FROM SCN {printer.sql(node, 'first')} TO SCN {printer.sql(node, 'last')}"


def _all_windows(printer: PostgresGenerator, node: nodes.AllWindows) -> str:
    return "ALL WINDOWS"


def _stream_window(printer: PostgresGenerator, node: nodes.StreamWindow) -> str:
    rows, by = bool(node.args["rows"]), printer.expressions(node, key="by", flat=True)
    size, slide, reset = (_size(node.args.get(key), rows) for key in ("size", "slide", "reset"))
    words = {"sliding": "WINDOW", "landmark": "LANDMARK", "session": "SESSION"}[node.args["kind"]]
    for word, text in (("", size), ("SLIDE ", slide), ("RESET ", reset), ("BY ", by)):
        words += f" {word}{text}" if text else ""
    return f"[{words}]"


def _size(size: int | None, rows: bool) -> str:
    return "" if size is None else f"{size} {'ROWS' if rows else 'MICROSECONDS'}"


def _window_function(printer: PostgresGenerator, table: exp.Table, window: nodes.Reading) -> str:
    lengths = [window.args.get("slide"), window.args["size"]]
    texts = "".join(f", INTERVAL '{length} microseconds'" for length in lengths if length is not None)
    function = "SESSION" if window.args["kind"] == "session" else "TUMBLE" if lengths[0] is None else "HOP"
    name, column = printer.table_parts(table), printer.sql(window, "column")
    by = printer.expressions(window, key="by", flat=True)
    if by:
        return f"{function}(TABLE {name} PARTITION BY {by}, DESCRIPTOR({column}){texts})"
    return f"{function}({name}, {column}{texts})"


def _part_reference(printer: PostgresGenerator, node: nodes.PartReference) -> str:
    last = printer.sql(node, "last")
    return f"[{printer.sql(node, 'this')}{f' .. {last}' if last else ''}]"


def _pattern(printer: PostgresGenerator, node: nodes.Pattern) -> str:
    return f"PATTERN [{printer.expressions(node, key='elements', flat=True)}]"


def _pattern_element(printer: PostgresGenerator, node: nodes.PatternElement) -> str:
    return f"{printer.sql(node, 'this')}{node.args['quantifier']}"


def _match_recognize(printer: PostgresGenerator, node: nodes.MatchRecognize) -> str:
    define = ", ".join(f"{printer.sql(d, 'alias')} AS {printer.sql(d, 'this')}" for d in node.args["define"])
    parts = [
        ("PARTITION BY ", printer.expressions(node, key="partition_by", flat=True)),
        ("", printer.sql(node, "order").strip()),
        ("MEASURES ", printer.expressions(node, key="measures", flat=True)),
        ("", node.args.get("rows")),
        ("AFTER MATCH SKIP ", node.args.get("after")),
        ("PATTERN ", "(" + " ".join(printer.sql(element) for element in node.args["elements"]) + ")"),
        ("DEFINE ", define),
    ]
    return f"MATCH_RECOGNIZE ({' '.join(word + text for word, text in parts if text)})"


class MidstreamGenerator(PostgresGenerator):
    """Prints our nodes; everything else as PostgreSQL."""

    TRANSFORMS = {
        **PostgresGenerator.TRANSFORMS,
        nodes.AsOf: _as_of,
        nodes.Changes: _changes,
        nodes.AllWindows: _all_windows,
        nodes.StreamWindow: _stream_window,
        nodes.PartReference: _part_reference,
        nodes.Pattern: _pattern,
        nodes.PatternElement: _pattern_element,
        nodes.MatchRecognize: _match_recognize,
    }

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        reading = nodes.reading_of(expression)
        if reading is None:
            return super().table_sql(expression, sep)
        if reading.args.get("column") is not None:
            text = _window_function(self, expression, reading)
        else:
            space = "" if isinstance(reading, nodes.PartReference) else " "
            text = f"{self.table_parts(expression)}{space}{self.sql(reading)}"
        alias = self.sql(expression, "alias")
        joins = self.expressions(expression, key="joins", sep="", flat=True)
        return text + (f"{sep}{alias}" if alias else "") + joins


class Midstream(Postgres):
    """PostgreSQL's dialect with our FROM items. A text is read by `midstream.sql`, by the same strict rules."""

    Generator = MidstreamGenerator

    def parse(self, sql: str, **opts: Any) -> list[exp.Expr | None]:
        from midstream.sql import parse_query

        return [parse_query(sql).tree()]
