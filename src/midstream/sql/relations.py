"""The items of FROM: tables and how they are read, subqueries, functions, joins.

The ways to read a table that are ours (windows, parts, patterns, the past, changes) become the `reading` of
an `exp.Table`; see nodes.py.
"""

from __future__ import annotations

from sqlglot import exp

from midstream.errors import InvalidParameter, SqlSyntaxError
from midstream.sql.calls import CallReader
from midstream.sql.durations import microseconds_of, unit_of
from midstream.sql.lexer import Token
from midstream.sql.nodes import (
    READING,
    AllWindows,
    AsOf,
    Changes,
    MatchRecognize,
    PartReference,
    Pattern,
    PatternElement,
    Reading,
    StreamWindow,
)

_UNITS = "A window is measured in ROWS, or in MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS."
_WINDOW_FUNCTIONS = {"tumble": 3, "hop": 4, "session": 3}


class RelationReader(CallReader):
    def from_items(self) -> tuple[exp.Expression, list[exp.Join]]:
        """The list behind FROM: its first item, and all the others as joins."""
        first = self._from_item()
        joins = list(self._joins())
        while True:
            token = self.token
            if not self.take(","):
                return first, joins
            joins.append(self.placed(exp.Join(this=self._from_item()), token))
            joins.extend(self._joins())

    # --- joins -----------------------------------------------------------------------------------

    def _joins(self) -> list[exp.Join]:
        joins = []
        while (join := self._join()) is not None:
            joins.append(join)
        return joins

    def _join(self) -> exp.Join | None:
        start = self.token
        if not self._sees_join():
            return None
        natural = self.take("natural")
        cross = not natural and self.take("cross")
        side = None if cross else self.take_any("left", "right", "full")
        outer = side is not None and self.take("outer")
        inner = not cross and side is None and self.take("inner")
        self.expect("join")
        join = exp.Join(
            this=self._joined_item(natural or cross),
            method="NATURAL" if natural else None,
            side=side.upper() if side else None,
            kind="CROSS" if cross else "OUTER" if outer else "INNER" if inner else None,
        )
        if not natural and not cross:
            self._join_condition(join)
        return self.placed(join, start)

    def _sees_join(self) -> bool:
        if self.token.kind != "word":
            return False
        if self.sees_any("left", "right", "full"):
            return self.peek().value in ("join", "outer")
        return self.sees_any("natural", "cross", "inner", "join")

    def _joined_item(self, unconditional: bool) -> exp.Expression:
        """`a JOIN b JOIN c ON … ON …`: what comes before the second ON is joined first."""
        item = self._from_item()
        while not unconditional and self._sees_join():
            item.append("joins", self._join())
        return item

    def _join_condition(self, join: exp.Join) -> None:
        if self.take("on"):
            join.set("on", self.expression())
        else:
            self.expect("using")
            join.set("using", self.in_parentheses(self.identifier))
            if self.sees("as"):
                self.refuse("an alias for JOIN … USING")

    # --- items -----------------------------------------------------------------------------------

    def _from_item(self) -> exp.Expression:
        self.enter()
        item = self._unnested_item()
        if self.sees("tablesample"):
            self.refuse("TABLESAMPLE", hint="Use WHERE random() < 0.1.")
        self.leave()
        return item

    def _unnested_item(self) -> exp.Expression:
        token = self.token
        if self.take("lateral"):
            return self.placed(self._lateral(), token)
        if self.sees("("):
            return self.placed(self._parenthesized_item(), token)
        if self.sees("only"):
            self.refuse("ONLY", detail="Tables do not inherit from one another.")
        if self.sees("rows", "from", "("):
            self.refuse("ROWS FROM")
        if self.sees("table", "("):
            return self.placed(self._table_of_function(), token)
        if self.sees("unnest", "("):
            return self.placed(self._unnest(), token)
        if self._sees_call():
            return self.placed(self._function_item(), token)
        return self._table(token)

    def _sees_call(self) -> bool:
        ahead = 2 if self.peek().value == "." and self.peek(2).kind in ("word", "quoted") else 0
        opening = self.peek(ahead + 1)
        return self.token.kind in ("word", "quoted") and opening.kind == "operator" and opening.value == "("

    def _lateral(self) -> exp.Lateral:
        if self.sees("view"):
            self.refuse("LATERAL VIEW", hint="Use CROSS JOIN LATERAL unnest(…) AS alias (column).")
        if self.sees("("):
            self.expect("(")
            this: exp.Expression = exp.Subquery(this=self.query())
            self.expect(")")
            ordinality = False
        else:
            this, ordinality = self._call_item()
        return exp.Lateral(this=this, alias=self.alias(), ordinality=ordinality or None)

    def _call_item(self) -> tuple[exp.Expression, bool]:
        if self.sees("unnest", "("):
            name = self.advance()
            arguments = self.in_parentheses(self.expression)
            call: exp.Expression = self.placed(exp.Unnest(expressions=arguments), name)
        else:
            if self.sees_any("pg_catalog", "public") and self.peek().value == ".":
                self.index += 2
            call = self.call(self.function_name())
        return call, self.take("with", "ordinality")

    def _parenthesized_item(self) -> exp.Expression:
        opening = self.expect("(")
        if self.sees_query():
            query = self.query()
            self.expect(")")
            return self._derived_table(query, opening)
        inner, joins = self._from_item(), self._joins()
        if not joins and not isinstance(inner, (exp.Subquery, exp.Values)):
            self.fail_here()
        for join in joins:
            inner.append("joins", join)
        self.expect(")")
        return exp.Subquery(this=inner, alias=self.alias())

    def _derived_table(self, query: exp.Expression, opening: Token) -> exp.Expression:
        alias = self.alias()
        if isinstance(query, exp.Values) and not any(query.args.get(key) for key in ("order", "limit", "offset")):
            query.set("alias", alias)
            return query
        return exp.Subquery(this=query, alias=alias)

    def _unnest(self) -> exp.Unnest:
        self.advance()
        arguments = self.in_parentheses(self.expression)
        ordinality = self.take("with", "ordinality")
        alias = self.alias()
        offset: exp.Expression | bool | None = ordinality or None
        columns = alias.args.get("columns") if alias is not None else None
        if ordinality and columns and len(columns) > len(arguments):
            offset = columns.pop()
        return exp.Unnest(expressions=arguments, alias=alias, offset=offset)

    def _function_item(self) -> exp.Expression:
        if self.token.kind == "word" and self.token.value in _WINDOW_FUNCTIONS:
            return self._window_function()
        call, ordinality = self._call_item()
        return exp.Table(this=call, ordinality=ordinality or None, alias=self.alias())

    def alias(self) -> exp.TableAlias | None:
        token = self.token
        if self.sees_any("cluster", "distribute", "sort") and self.peek().value == "by":
            self.refuse(f"{token.value.upper()} BY", hint="Use ORDER BY.")
        if self.sees_any("pivot", "unpivot") and self.peek().value == "(":
            self.refuse(token.value.upper(), hint="Use aggregates with FILTER (WHERE …).")
        if not self.take("as") and (not self.sees_name() or self._sees_clause()):
            return None
        name = self.identifier()
        columns = self._alias_columns() if self.sees("(") else None
        return self.placed(exp.TableAlias(this=name, columns=columns), token)

    def _sees_clause(self) -> bool:
        """Whether a word that could be an alias begins the next clause instead."""
        if self.sees("set") or self.sees("partition", "length"):
            return True
        return self.sees("update") and _is_bracket(self.peek(2))

    def _alias_columns(self) -> list[exp.Identifier]:
        return self.in_parentheses(self._alias_column)

    def _alias_column(self) -> exp.Identifier:
        column = self.identifier()
        if not self.sees_any(",", ")"):
            self.refuse("a column definition list", hint="Name the columns only, and cast them in the select list.")
        return column

    # --- tables and how they are read ------------------------------------------------------------

    def _table(self, token: Token) -> exp.Table:
        if self.token.kind == "string":
            self.fail_here(
                SqlSyntaxError(
                    f"syntax error at or near \"'{self.token.value}'\"",
                    hint="Files are read with COPY table FROM 'path'.",
                )
            )
        table = self.placed(exp.Table(this=self.relation_identifier()), token)
        if self.token.kind == "operator" and self.token.value == "*":
            self.advance()
        reading = self._reading()
        if reading is not None:
            table.set(READING, reading)
        table.set("alias", self.alias())
        if table.args.get("alias") and self.sees("["):
            self.fail_here(hint="The alias stands behind the bracket: FROM stream [WINDOW …] AS alias.")
        return table

    def _reading(self) -> Reading | None:
        token = self.token
        if self.take("as", "of", "scn"):
            return self.placed(AsOf(this=self._scn()), token)
        if self.sees("as", "of") or self.sees("for", "system_time"):
            self.refuse("time travel other than AS OF SCN", hint="Write AS OF SCN n; SELECT current_scn() gives n.")
        if self.take("changes", "from", "scn"):
            first = self._scn()
            self.expect("to", "scn")
            return self.placed(Changes(first=first, last=self._scn()), token)
        if self.take("all", "windows"):
            return self.placed(AllWindows(), token)
        if self.sees("pattern", "["):
            return self.placed(self._pattern(), token)
        if self.sees("match_recognize", "("):
            return self.placed(self._match_recognize(), token)
        if self.sees("["):
            return self.placed(self._bracket(), token)
        return None

    def _scn(self) -> exp.Expression:
        token = self.token
        if token.kind == "parameter":
            self.advance()
            return self.placed(exp.Parameter(this=exp.Literal.number(token.value)), token)
        return self.placed(exp.Literal.number(self.integer()), token)

    def _bracket(self) -> Reading:
        self.expect("[")
        if self.sees_any("window", "landmark", "session"):
            reading: Reading = self._window_words()
        else:
            first = self.expression()
            reading = PartReference(this=first, last=self.expression() if self.take("..") else None)
        self.expect("]")
        return reading

    def _window_words(self) -> StreamWindow:
        kind = self.advance().value
        if kind == "landmark":
            if not self.take("slide"):
                self.fail_here(hint="A landmark says how often it gives a result: [LANDMARK SLIDE 1 HOUR].")
            slide, rows = self._size()
            reset = self._same_measure(rows) if self.take("reset") else None
            return StreamWindow(kind="landmark", rows=rows, slide=slide, reset=reset)
        start = self.token
        size, rows = self._size()
        if kind == "session":
            if rows:
                self.fail_at(start, SqlSyntaxError("a session ends after a time, not after a number of rows"))
            by = self.list_of(self.identifier) if self.take("by") else None
            return StreamWindow(kind="session", rows=False, size=size, by=by)
        slide_ = self._same_measure(rows) if self.take("slide") else None
        return StreamWindow(kind="sliding", rows=rows, size=size, slide=slide_)

    def _same_measure(self, rows: bool) -> int:
        token = self.token
        size, in_rows = self._size()
        if in_rows != rows:
            self.fail_at(token, SqlSyntaxError("a window is measured either in rows or in time, not in both"))
        return size

    def _size(self) -> tuple[int, bool]:
        """A number of rows, or a length of time in microseconds; which of the two."""
        token = self.token
        if token.kind != "number":
            self.fail_here(hint="Write a number and a unit: 10 MINUTES, or 1000 ROWS.")
        number = self.integer()
        unit = self.token
        if self.take_any("rows", "row"):
            size, rows = number, True
        else:
            factor = unit_of(unit.value) if unit.kind == "word" else None
            if factor is None:
                self.fail_here(hint=_UNITS)
            self.advance()
            size, rows = number * factor, False
        if size == 0:
            self.fail_at(token, InvalidParameter("the size of a window must be greater than 0"))
        return size, rows

    def _pattern(self) -> Pattern:
        self.expect("pattern", "[")
        elements = self.list_of(self._pattern_element)
        self.expect("]")
        return Pattern(elements=elements)

    def _pattern_element(self) -> PatternElement:
        token = self.token
        name = self.identifier()
        quantifier = self.take_any("+", "*") or ""
        if not quantifier and self.token.kind == "parameter":
            self.advance()
            quantifier = "?"
        return self.placed(PatternElement(this=name, quantifier=quantifier), token)

    def _match_recognize(self) -> MatchRecognize:
        self.expect("match_recognize", "(")
        partition = self.list_of(self.expression) if self.take("partition", "by") else None
        order = self.order_by()
        measures = self.list_of(self._measure) if self.take("measures") else None
        rows = self._rows_per_match()
        after = self._after_match()
        self.expect("pattern", "(")
        elements = []
        while not self.sees(")"):
            if self.token.kind == "operator":
                self.refuse(
                    f'"{self.token.value}" in the PATTERN of MATCH_RECOGNIZE', hint="Write a sequence: (a b c+)."
                )
            elements.append(self._pattern_element())
        if not elements:
            self.fail_here()
        self.expect(")", "define")
        define = self.list_of(self._definition)
        self.expect(")")
        return MatchRecognize(
            partition_by=partition,
            order=order,
            measures=measures,
            rows=rows,
            after=after,
            elements=elements,
            define=define,
        )

    def _measure(self) -> exp.Alias:
        token = self.token
        value = self.expression()
        self.expect("as")
        return self.placed(exp.Alias(this=value, alias=self.label_identifier()), token)

    def _definition(self) -> exp.Alias:
        token = self.token
        name = self.identifier()
        self.expect("as")
        return self.placed(exp.Alias(this=self.expression(), alias=name), token)

    def _rows_per_match(self) -> str | None:
        for words in (("one", "row", "per", "match"), ("all", "rows", "per", "match")):
            if self.take(*words):
                return " ".join(words).upper()
        return None

    def _after_match(self) -> str | None:
        if not self.take("after", "match", "skip"):
            return None
        for words in (("past", "last", "row"), ("to", "next", "row")):
            if self.take(*words):
                return " ".join(words).upper()
        self.fail_here()

    # --- windows as table functions --------------------------------------------------------------

    def _table_of_function(self) -> exp.Expression:
        """TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10 minutes'))"""
        self.expect("table", "(")
        if self.token.value not in _WINDOW_FUNCTIONS:
            self.refuse("TABLE(…) of a function other than TUMBLE, HOP and SESSION")
        table = self._window_function(with_alias=False)
        self.expect(")")
        table.set("alias", self.alias())
        return table

    def _window_function(self, with_alias: bool = True) -> exp.Table:
        function = self.advance()
        self.expect("(")
        self.take("table")
        start = self.token
        table = self.placed(exp.Table(this=self.relation_identifier()), start)
        by = self._session_keys() if function.value == "session" else None
        self.expect(",")
        column = None if self._sees_length() else self._descriptor()
        lengths = [self._interval_length()] if column is None else []
        while self.take(","):
            lengths.append(self._interval_length())
        self.expect(")")
        if len(lengths) != _WINDOW_FUNCTIONS[function.value] - 2:
            self.fail_at(function, SqlSyntaxError(f"{function.value.upper()} has {_SIGNATURES[function.value]}"))
        table.set(READING, self.placed(_function_window(function.value, lengths, column, by), function))
        table.set("alias", self.alias() if with_alias else None)
        return table

    def _session_keys(self) -> list[exp.Identifier] | None:
        """SESSION(TABLE s PARTITION BY a, b, DESCRIPTOR(ts), …): DESCRIPTOR and lengths are no keys."""
        if not self.take("partition", "by"):
            return None
        keys = [self.identifier()]
        while self.sees(",") and self.peek().value != "descriptor" and not self._sees_length(1):
            self.advance()
            keys.append(self.identifier())
        return keys

    def _sees_length(self, ahead: int = 0) -> bool:
        first, second = self.peek(ahead), self.peek(ahead + 1)
        return first.kind == "string" or (first.value == "interval" and second.kind == "string")

    def _descriptor(self) -> exp.Identifier:
        if not self.take("descriptor", "("):
            return self.identifier()
        column = self.identifier()
        self.expect(")")
        return column

    def _interval_length(self) -> int:
        token = self.token
        self.take("interval")
        text = self.string()
        units = ("second", "minute", "hour", "day", "week")
        unit = self.take_any(*units, *(f"{unit}s" for unit in units))
        length = microseconds_of(f"{text} {unit}" if unit else text)
        if not length:
            self.fail_at(token, InvalidParameter(f'"{text}" is not a length of time that a window can have'))
        return length


def _is_bracket(token: Token) -> bool:
    return token.kind == "operator" and token.value == "["


_SIGNATURES = {
    "tumble": "the arguments (stream, column, size)",
    "hop": "the arguments (stream, column, slide, size)",
    "session": "the arguments (stream, column, gap)",
}


def _function_window(
    function: str, lengths: list[int], column: exp.Identifier | None, by: list[exp.Identifier] | None
) -> StreamWindow:
    if function == "session":
        return StreamWindow(kind="session", rows=False, size=lengths[0], column=column, by=by)
    slide = lengths[0] if function == "hop" else None
    return StreamWindow(kind="sliding", rows=False, size=lengths[-1], slide=slide, column=column)
