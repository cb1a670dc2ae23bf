"""Random views over streams: whatever may stand below the first grouping, every aggregate, and any SQL above it.

Names of relations are marked, because a view and its judge read different ones: `‹stream s0›` is the stream in the
view and all of its rows so far for the judge, `‹frozen t0›` is a table below a grouping, which the judge reads as of
the view's creation, `‹view v1›` is another view, which the judge has as its query. Tables above a grouping have no
mark. Every row of every stream has a number of its own, so what is ordered by it has one answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from choices import Choices
from random_queries import BASIC, ORDERED_OPERATORS, QueryMaker, RandomQuery, Source, Term, _distinct, _select
from random_tables import Column, RandomTable

NAME = re.compile(r"‹(stream|frozen|view) (\w+)›")
STREAM_COLUMNS = (
    Column("id", "bigint", True),
    Column("k", "int", True),
    Column("i", "int", True),
    Column("s", "text", True),
    Column("b", "bigint", False),
    Column("n", "numeric(10,2)", True),
    Column("d", "double precision", True),
    Column("w", "double precision", False),
    Column("t", "text", False),
    Column("o", "boolean", True),
    Column("day", "date", True),
    Column("ts", "timestamp", True),
    Column("xs", "int[]", True),
    Column("tags", "text[]", True),
)
STATISTICS = ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp")
PAIRED = (
    "corr covar_pop covar_samp regr_slope regr_intercept regr_r2 regr_avgx regr_avgy regr_sxx regr_syy regr_sxy"
).split()
CONSTANT_ORDER = re.compile(r"ORDER BY (CAST\(|\d|-\d|')")
"""An order by a constant is none, so what it gives would depend on how the rows came."""
ORDERABLE = ("int", "bigint", "numeric(10,2)", "text", "date", "timestamp")
MOMENTS = (
    "{0}.ts > now() - interval '1 hour'",
    "{0}.ts >= now() - interval '3 hours'",
    "{0}.ts < now()",
    "{0}.ts < now() + interval '1000 years'",
    "{0}.day = current_date",
    "{0}.day >= current_date - 1",
    "date_trunc('day', {0}.ts) = current_date",
    "date_trunc('hour', {0}.ts) > now() - interval '2 days'",
    "extract(isoyear FROM {0}.ts) * 100 + extract(week FROM {0}.ts) = ⟪current_week()|"
    "extract(isoyear FROM now()) * 100 + extract(week FROM now())⟫",
)
"""Conditions on when a view is read. Streams have rows on both sides of each, far enough from it for a test to end."""


@dataclass(frozen=True)
class RandomView:
    """A query that a view was made of, with the names marked."""

    name: str
    query: RandomQuery

    @property
    def source(self) -> str:
        return f"‹view {self.name}›"


def named(text: str, name_of: Callable[[str, str], str]) -> str:
    """The text with every mark replaced: name_of("stream", "s0")."""
    return NAME.sub(lambda mark: name_of(mark[1], mark[2]), text)


class ViewMaker(QueryMaker):
    """Makes queries that are allowed as views; with `adhoc`, statements over views and tables."""

    stream_columns = STREAM_COLUMNS

    def __init__(
        self,
        choices: Choices,
        streams: tuple[str, ...],
        tables: tuple[RandomTable, ...],
        views: tuple[RandomView, ...] = (),
        *,
        adhoc: bool = False,
    ) -> None:
        super().__init__(choices, tables)
        self.views, self.adhoc = views, adhoc
        self.streams = [Source(f"‹stream {stream}›", self.stream_columns) for stream in streams]
        self.counts: dict[str, frozenset[int]] = {}

    # what stands above the first grouping

    def view(self) -> RandomQuery:
        """A query with a stream, or another view, in it."""
        while "‹" not in (made := self._any_view()).sql:
            pass
        return made

    def _any_view(self) -> RandomQuery:
        kinds = [lambda: self._body(1), lambda: self._body(1), lambda: self._with(1)]
        kinds += [self._with_stream, self._sorted_view, self._with_named] if not self.adhoc else []
        return self.choices.pick(kinds)()

    def _sorted_view(self) -> RandomQuery:
        """A view without LIMIT loses its order, so no view is compared by it."""
        return replace(self._sorted(self._body(1)), ordered=False)

    def _with_stream(self) -> RandomQuery:
        """A stream under another name, not yet grouped, which several groupings may read."""
        name, inner = self._alias("w"), Source(self._alias("p"), self.stream_columns)
        types, sql = self._projected(inner, self.choices.pick(self.streams).alias, None)
        self.streams.append(Source(name, _projected_columns(types, numbered=True)))
        body = self._body(1)
        self.streams.pop()
        return replace(body, sql=f"WITH {name} AS ({sql}) {body.sql}")

    def _with_named(self) -> RandomQuery:
        """What subqueries may ask, too, under a name: groups, or rows of tables."""
        name = self._alias("w")
        columns, sql = self._few_groups() if self.choices.chance(2) else self._rows_of_tables("")
        self.named.append(Source(name, columns))
        body = self._body(1)
        self.named.pop()
        return replace(body, sql=f"WITH {name} AS ({sql}) {body.sql}")

    def _body(self, depth: int, *, basic: bool = False) -> RandomQuery:
        kinds = [] if self.adhoc else [self._stream_grouped] * (3 if depth > 0 else 1)
        if depth > 0 or self.adhoc:
            kinds += [self._plain, self._grouped, self._plain, self._windowed, self._grouping_sets]
            kinds += [self._set_operation, self._joined_twice]
        if depth > 0 and not self.adhoc:
            kinds += [self._union_of_streams, self._from_a_table, self._looked_up, self._looked_up]
        return self.choices.pick(kinds)(depth, basic)

    def _source(self, depth: int) -> tuple[Source, str]:
        alias = self._alias("a")
        if self.named and self.choices.chance(2):
            source = self.choices.pick(self.named)
            return Source(alias, source.columns), f"{source.alias} AS {alias}"
        if self.views and (self.adhoc != self.choices.chance(5)):
            view = self.choices.pick(self.views)
            return Source(alias, self._columns(view.query)), f"{view.source} AS {alias}"
        if self.adhoc or self.choices.chance(4):
            if self.choices.chance(3):
                columns, sql = self._rows_of_tables("")
                return Source(alias, columns), f"({sql}) AS {alias}"
            table = self.choices.pick(self.tables)
            return Source(alias, table.columns), f"{table.name} AS {alias}"
        inner = self._body(depth - 1, basic=True) if depth > 0 and self.choices.chance(4) else self._stream_grouped()
        return Source(alias, self._columns(inner)), f"({inner.sql}) AS {alias}"

    def _inner(self) -> tuple[Source, str]:
        """What a subquery reads: tables, a stream that was grouped, or a stream, grouped by the subquery itself."""
        alias = self._alias("q")
        asked = [source for source in self.named if {"k", "i"} <= {column.name for column in source.columns}]
        if asked and self.choices.chance(2):
            source = self.choices.pick(asked)
            return Source(alias, source.columns), f"FROM {source.alias} AS {alias}"
        match self.choices.draw(4 if self.adhoc else 6):
            case 0 | 1:
                return super()._inner()
            case 2:
                columns, sql = self._rows_of_tables("")
                return Source(alias, columns), f"FROM ({sql}) AS {alias}"
            case 3:
                return self._inner_join(alias)
            case 4:
                return Source(alias, self.stream_columns), f"FROM {self._whole_stream()} AS {alias}"
            case _:
                columns, sql = self._few_groups()
                return Source(alias, columns), f"FROM ({sql}) AS {alias}"

    def _inner_join(self, alias: str) -> tuple[Source, str]:
        """Rows of a table that is joined with another."""
        one, two = self.choices.pick(self.tables), self.choices.pick(self.tables)
        source, other = Source(alias, one.columns), Source(f"{alias}x", two.columns)
        kind = self.choices.pick(["JOIN", "LEFT JOIN"])
        linked = self._link(source, two, other)
        return source, f"FROM {one.name} AS {alias} {kind} {two.name} AS {other.alias} ON {linked}"

    def _few_groups(self) -> tuple[tuple[Column, ...], str]:
        columns = (Column("k", "int", True), Column("i", "int", True), Column("many", "bigint", True))
        return columns, f"SELECT r.k, r.i, count(*) AS many FROM {self._whole_stream()} AS r GROUP BY r.k, r.i"

    def _rows_of_tables(self, mark: str) -> tuple[tuple[Column, ...], str]:
        """A query over tables alone that has columns k and i; the tables have a mark if they are below a grouping."""
        one, two = self.choices.pick(self.tables), self.choices.pick(self.tables)
        relation, other = (f"‹{mark} {table.name}›" if mark else table.name for table in (one, two))
        whole = (Column("k", "int", True), Column("i", "int", True), Column("s", "text", True))
        counted = (Column("k", "int", True), Column("i", "int", False), Column("many", "bigint", True))
        linked = self._link(Source("x", one.columns), two, Source("y", two.columns))
        match self.choices.draw(5):
            case 0:
                return counted, f"SELECT x.k, max(x.i) AS i, count(*) AS many FROM {relation} AS x GROUP BY x.k"
            case 1:
                return whole, f"SELECT DISTINCT x.k, x.i, x.s FROM {relation} AS x WHERE x.i IS NOT NULL"
            case 2:
                return whole, f"SELECT x.k, y.i, y.s FROM {relation} AS x JOIN {other} AS y ON x.k = y.i"
            case 3:
                kind = self.choices.pick(["JOIN", "LEFT JOIN", "FULL JOIN"])
                linked = linked if kind != "FULL JOIN" else "x.k = y.k"
                return whole, f"SELECT y.k, x.i, y.s FROM {relation} AS x {kind} {other} AS y ON {linked}"
            case _:
                sql = f"SELECT y.k, min(x.i) AS i, count(*) AS many FROM {relation} AS x JOIN {other} AS y ON {linked}"
                return counted, f"{sql} GROUP BY y.k HAVING count(*) < 4"

    def _link(self, one: Source, table: RandomTable, other: Source) -> str:
        """A condition by which rows meet those of a table: one of them at most, along a key, or any."""
        if not table.keys or self.choices.chance(3):
            return self._flat_condition([one], other)
        types = {column.name: column.type for column in table.columns}
        pairs = [(name, self._typed_column(types[name], one)) for name in self.choices.pick(table.keys).columns]
        return " AND ".join(f"{value} = {other.alias}.{name}" for name, value in pairs)

    def _typed_column(self, type_: str, source: Source) -> str:
        return f"{source.alias}." + self.choices.pick([c.name for c in source.columns if c.type == type_])

    def _from(self, depth: int) -> tuple[list[Source], str]:
        sources, text = super()._from(depth)
        if self.choices.chance(6):
            source, join = self._lateral_above(sources)
            return [*sources, source], text + join
        return sources, text

    def _lateral_above(self, sources: list[Source]) -> tuple[Source, str]:
        """What a row looks up, or the elements of a list that it has."""
        alias = self._alias("l")
        lists = [f"{s.alias}.{c.name}" for s in sources for c in s.columns if c.type == "int[]"]
        if lists and self.choices.chance(2):
            opened = f" CROSS JOIN LATERAL unnest({self.choices.pick(lists)}) AS {alias}(x)"
            return Source(alias, (Column("x", "int", False),)), opened
        inner, from_ = self._inner()
        asked = f"SELECT max({inner.alias}.i) AS x, count(*) AS n {from_}{self._correlation(inner, sources)}"
        columns = (Column("x", "int", False), Column("n", "bigint", True))
        return Source(alias, columns), f" LEFT JOIN LATERAL ({asked}) AS {alias} ON true"

    def _whole_stream(self) -> str:
        return self.choices.pick([source.alias for source in self.streams if source.columns == self.stream_columns])

    def _columns(self, query: RandomQuery) -> tuple[Column, ...]:
        """Counts are small, so that arithmetic may take them."""
        small = self.counts.get(query.sql, frozenset())
        return tuple(
            Column(f"c{place}", type_ or "?", type_ in ("text", "boolean") or place in small)
            for place, type_ in enumerate(query.types)
        )

    def _plain(self, depth: int, basic: bool) -> RandomQuery:
        """Columns more often than expressions: what a view counted is what it shows."""
        sources, from_ = self._from(depth)
        terms = [self._plain_term(sources, depth) for _ in range(self.choices.between(1, 4))]
        distinct = "DISTINCT " if self.choices.chance(6) else ""
        return _select(distinct, terms, f"{from_}{self._where(sources, depth)}")

    def _plain_term(self, sources: list[Source], depth: int) -> Term:
        if self.choices.chance(3):
            return self._term(self.choices.pick(BASIC), sources, depth)
        return self._any_column(sources) if self.choices.chance(3) else self._any_basic_column(sources)

    def _set_operation(self, depth: int, basic: bool) -> RandomQuery:
        first, from_ = self._source(depth - 1)
        shown = [self._any_basic_column([first]) for _ in range(self.choices.between(1, 3))]
        other = self._typed([str(term.type) for term in shown], depth - 1)
        operator = self.choices.pick(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        one = _select("", shown, f" FROM {from_}{self._where([first], 0)}")
        return RandomQuery(f"({one.sql}) {operator} ({other.sql})", one.types)

    def _typed(self, wanted: list[str], depth: int) -> RandomQuery:
        sources, from_ = self._from(depth)
        terms = [self._leaf(type_, sources, tame=False) for type_ in wanted]
        return _select("", terms, f"{from_}{self._where(sources, depth)}")

    def _leaf(self, type_: str, sources: list[Source], *, tame: bool = True) -> Term:
        """Hardly ever a literal where there is a column."""
        for _ in range(2):
            found = super()._leaf(type_, sources, tame=tame)
            if "." in found.sql and found.sql[0].islower():
                break
        return found

    def _where(self, sources: list[Source], depth: int) -> str:
        """Not too often, or nothing is left to compare."""
        return super()._where(sources, depth) if self.choices.chance(3) else ""

    def _joined_twice(self, depth: int, basic: bool) -> RandomQuery:
        """One grouped relation twice in one query, as a CTE or as a view."""
        first, text = self._source(0)
        second = Source(self._alias("a"), first.columns)
        sources = [first, second]
        name = self._alias("w")
        condition = self._join_condition([first], second, full=False)
        kind = self.choices.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        terms = [self._any_basic_column(sources) for _ in range(self.choices.between(1, 3))]
        from_ = f" FROM {name} AS {first.alias} {kind} {name} AS {second.alias} ON {condition}"
        made = _select("", terms, f"{from_}{self._where(sources, 0)}")
        return replace(made, sql=f"SELECT * FROM (WITH {name} AS (SELECT * FROM {text}) {made.sql}) AS {name}x")

    def _union_of_streams(self, depth: int, basic: bool) -> RandomQuery:
        """Without ALL, each side is grouped by all of its columns by itself."""
        wanted = [self.choices.pick(BASIC) for _ in range(self.choices.between(1, 2))]
        sides = []
        for _ in range(2):
            alias = self._alias("a")
            source = Source(alias, self.stream_columns)
            terms = [Term(self._flat(type_, [source], 1), type_) for type_ in wanted]
            stream = f" FROM {self._whole_stream()} AS {alias}"
            sides.append(_select("", terms, f"{stream}{self._below_where([source])}"))
        if self.choices.chance(3):
            sides.reverse()
            sides[0] = self._typed(wanted, 0)
        operator = self.choices.pick(["UNION", "INTERSECT", "EXCEPT"])
        return RandomQuery(f"({sides[0].sql}) {operator} ({sides[1].sql})", sides[1].types)

    def _from_a_table(self, depth: int, basic: bool) -> RandomQuery:
        """Rows of a table for which a stream has, or has not, a row."""
        table, alias, other = self.choices.pick(self.tables), self._alias("a"), self._alias("q")
        outer, inner = Source(alias, table.columns), Source(other, self.stream_columns)
        stream = f"FROM {self._whole_stream()} AS {other}"
        if self.choices.chance(3):
            stream += f" JOIN ‹frozen {self.choices.pick(self.tables).name}› AS {other}x ON {other}x.k = {other}.i"
        negated = self.choices.pick(["", "NOT "])
        key, also = self.choices.pick(["k", "i"]), f" AND {self._flat('boolean', [inner], 1)}"
        also = also if self.choices.chance(2) else ""
        if self.choices.chance(2):
            test = f"{alias}.k {negated}IN (SELECT {other}.{key} {stream} WHERE true{also})"
        else:
            test = f"{negated}EXISTS (SELECT 1 {stream} WHERE {other}.{key} = {alias}.k{also})"
        terms = [self._any_basic_column([outer]) for _ in range(self.choices.between(1, 3))]
        if self.choices.chance(3):
            terms = [Term("count(*)", "bigint")]
        return _select("", terms, f" FROM {table.name} AS {alias} WHERE {test}")

    def _looked_up(self, depth: int, basic: bool) -> RandomQuery:
        """Rows of tables, with conditions on them alone, and what a stream has for each."""
        table, alias = self.choices.pick(self.tables), self._alias("a")
        outer, text = Source(alias, table.columns), f"{table.name} AS {alias}"
        sources, tests = [outer], [self._own_test(outer)]
        if self.choices.chance(2):
            second = self.choices.pick(self.tables)
            other = Source(self._alias("a"), second.columns)
            kind = self.choices.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
            text += f" {kind} {second.name} AS {other.alias} ON {self._link(outer, second, other)}"
            sources.append(other)
            tests += [self._own_test(other)] if self.choices.chance(2) else []
        if self.choices.chance(3):
            columns, sql = self._few_groups()
            groups = Source(self._alias("a"), columns)
            text += (
                f" {self.choices.pick(['JOIN', 'LEFT JOIN'])} ({sql}) AS {groups.alias} ON {groups.alias}.k = {alias}.k"
            )
            sources.append(groups)
        operator = self.choices.pick(ORDERED_OPERATORS)
        tests.append(f"{self._leaf('int', sources).sql} {operator} ({self._lookup(self.choices.pick(sources))})")
        terms = [self._any_basic_column(sources) for _ in range(self.choices.between(1, 3))]
        if self.choices.chance(2):
            terms.append(Term(f"({self._lookup(self.choices.pick(sources))})", "bigint"))
        return _select("", terms, f" FROM {text} WHERE {' AND '.join(tests)}")

    def _own_test(self, source: Source) -> str:
        """A condition on a table alone; it may ask other tables."""
        negated, alias = self.choices.pick(["", "NOT "]), self._alias("q")
        match self.choices.draw(4):
            case 0:
                return f"{source.alias}.i {self.choices.pick(['<', '>', '<>'])} {self.choices.between(0, 2)}"
            case 1:
                columns, sql = self._rows_of_tables("")
                return f"{source.alias}.k {negated}IN (SELECT {alias}.i FROM ({sql}) AS {alias})"
            case 2:
                inner, from_ = self._inner_join(alias)
                return f"{negated}EXISTS (SELECT 1 {from_} WHERE {alias}.k = {source.alias}.i)"
            case _:
                return self._flat("boolean", [source], 2)

    def _lookup(self, source: Source) -> str:
        """What a stream has for a row of a table, by one key or two; counted, so that there is always an answer."""
        alias = self._alias("q")
        columns, sql = (self.stream_columns, self._whole_stream())
        if self.choices.chance(3):
            columns, sql = self._few_groups()
            sql = f"({sql})"
        by = self.choices.pick([("k",), ("i",), ("k", "i")])
        tests = [f"{alias}.{name} = {self._typed_column('int', source)}" for name in by]
        tests += [self._flat("boolean", [Source(alias, columns)], 1)] if self.choices.chance(4) else []
        value = self.choices.pick(["count(*)", f"sum({alias}.i)", f"count({alias}.i)", f"sum({alias}.k) + count(*)"])
        return f"SELECT {value} FROM {sql} AS {alias} WHERE {' AND '.join(tests)}"

    # the first grouping of a stream

    def _stream_grouped(self, depth: int = 0, basic: bool = True) -> RandomQuery:
        form = self.choices.pick(["GROUP BY", "GROUP BY", "GROUP BY", "", "DISTINCT", "SETS"])
        sources, from_ = self._stream_from()
        tail = f"{from_}{self._at_a_moment(sources, self._below_where(sources))}"
        if form == "DISTINCT":
            terms = [Term(self._flat(t, sources, 1), t) for t in self._some_types(1, 3)]
            return _select("DISTINCT ", terms, tail)
        keys = [] if form == "" else _distinct([self._below_key(sources) for _ in range(self.choices.between(1, 2))])
        aggregates = [self._kept_aggregate(sources) for _ in range(self.choices.between(1, 3))]
        extra: list[Term] = []
        if form == "SETS":
            aggregates += [self._values_of(self.choices.pick(keys))] if self.choices.chance(2) else []
            extra, by = self._sets([key.sql for key in keys])
            tail += by
        elif keys:
            tail += " GROUP BY " + ", ".join(key.sql for key in keys)
        if self.choices.chance(6):
            tail += f" HAVING {self._having(sources)}"
        made = _select("", keys + extra + aggregates, tail)
        terms = keys + extra + aggregates
        self.counts[made.sql] = frozenset(n for n, term in enumerate(terms) if term.sql.startswith("count("))
        return made

    def _at_a_moment(self, sources: list[Source], where: str) -> str:
        """Now and then a condition on the moment of reading."""
        timed = [source for source in sources if source.columns == self.stream_columns]
        if not timed or not self.choices.chance(5):
            return where
        test = self.choices.pick(MOMENTS).format(self.choices.pick(timed).alias)
        return f"{where} AND {test}" if where else f" WHERE {test}"

    def _some_types(self, low: int, high: int) -> list[str]:
        return [self.choices.pick(BASIC) for _ in range(self.choices.between(low, high))]

    def _below_key(self, sources: list[Source]) -> Term:
        if self.choices.chance(3):
            type_ = self.choices.pick(("int", "text", "boolean", "date"))
            return Term(f"({self._flat(type_, sources, 1)} IS NULL)", "boolean")
        return self._any_basic_column(sources)

    def _sets(self, names: list[str]) -> tuple[list[Term], str]:
        form = self.choices.pick(["ROLLUP", "CUBE", "SETS", "KEY AND ROLLUP"])
        grouping = [Term(f"grouping({', '.join(names)})", None)] if self.choices.chance(2) else []
        if form == "KEY AND ROLLUP":
            return grouping, f" GROUP BY {self.choices.pick(names)}, ROLLUP ({', '.join(names)})"
        if form != "SETS":
            return grouping, f" GROUP BY {form} ({', '.join(names)})"
        groups = [", ".join(n for n in names if self.choices.chance(2)) for _ in range(self.choices.between(1, 2))]
        return grouping, f" GROUP BY GROUPING SETS ({', '.join(f'({g})' for g in groups)}, ({', '.join(names)}))"

    def _values_of(self, key: Term) -> Term:
        """An aggregate that keeps the values of a key, which is NULL in some sets."""
        forms = [Term(f"count(DISTINCT {key.sql})", "bigint")]
        if key.type in ("int", "text"):
            forms.append(Term(f"array_agg({key.sql} ORDER BY {key.sql})", f"{key.type}[]"))
        if key.type in ORDERABLE:
            forms.append(Term(f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {key.sql})", key.type))
            forms.append(Term(f"mode() WITHIN GROUP (ORDER BY {key.sql})", key.type))
        return self.choices.pick(forms)

    def _having(self, sources: list[Source]) -> str:
        if self.choices.chance(3):
            value = self._leaf("int", sources).sql
            return f"max({value}) {self.choices.pick(ORDERED_OPERATORS)} {self.choices.between(0, 3)}"
        return f"count(*) {self.choices.pick(['>', '>=', '<', '<>'])} {self.choices.between(1, 4)}"

    # what stands below it

    def _stream_from(self) -> tuple[list[Source], str]:
        source, text = self._stream_source()
        sources = [source]
        joins = [
            self._join_table,
            self._unnest,
            self._lateral,
            self._join_two_tables,
            self._join_linked,
            self._join_linked,
        ]
        first = [self._right_join, self._after_a_table, self._after_linked, self._after_linked]
        for number in range(self.choices.pick([0, 0, 1, 1, 2])):
            join = self.choices.pick([*joins, *first] if number == 0 else joins)
            source, text = join(sources, text)
            sources.append(source)
        if self.choices.chance(8):
            source, text = self._comma(sources, text)
            sources.append(source)
        return sources, f" FROM {text}"

    def _stream_source(self) -> tuple[Source, str]:
        alias, stream = self._alias("a"), self.choices.pick(self.streams)
        kind = self.choices.draw(9)
        if kind < 5:
            return Source(alias, stream.columns), f"{stream.alias} AS {alias}"
        if kind == 8:
            return self._outer_joined(alias)
        if kind == 5:
            inner = Source(self._alias("p"), self.stream_columns)
            types, sql = self._projected(inner, self._whole_stream(), None)
            return Source(alias, _projected_columns(types, numbered=True)), f"({sql}) AS {alias}"
        return self._union_all(alias)

    def _projected(
        self, inner: Source, relation: str, wanted: list[str] | None, side: int = 0
    ) -> tuple[list[str], str]:
        """Rows of a stream that stands on both sides of a union get numbers of their own on each."""
        types = wanted if wanted is not None else ["int", *self._some_types(1, 3)]
        terms = ", ".join(f"{self._flat(type_, [inner], 1)} AS c{n}" for n, type_ in enumerate(types))
        number = f"{inner.alias}.id * 4 + {side}" if "stream" in relation else "CAST(NULL AS bigint)"
        return types, f"SELECT {number} AS id, {terms} FROM {relation} AS {inner.alias}{self._below_where([inner])}"

    def _outer_joined(self, alias: str) -> tuple[Source, str]:
        """A stream that keeps all of its rows in a join with a table, as a subquery."""
        inner, (static, other) = Source(self._alias("p"), self.stream_columns), self._static()
        stream, condition = f"{self._whole_stream()} AS {inner.alias}", self._flat_condition([inner], static)
        types, is_left = ["int", *self._some_types(1, 2)], self.choices.chance(3)
        joined = f"{stream} LEFT JOIN {other}" if is_left else f"{other} RIGHT JOIN {stream}"
        terms = ", ".join(f"{self._flat(type_, [inner, static], 1)} AS c{n}" for n, type_ in enumerate(types))
        sql = f"SELECT {terms} FROM {joined} ON {condition}{self._below_where([inner, static])}"
        return Source(alias, _projected_columns(types, numbered=False)), f"({sql}) AS {alias}"

    def _union_all(self, alias: str) -> tuple[Source, str]:
        """Rows of a table have no number: they count once, as of the view's creation."""
        types = ["int", *self._some_types(1, 2)]
        table = self.choices.pick(self.tables) if self.choices.chance(3) else None
        sides = []
        for side in range(3 if self.choices.chance(3) else 2):
            inner = Source(self._alias("p"), self.stream_columns)
            sides.append(self._projected(inner, self._whole_stream(), types, side)[1])
        if table:
            inner = Source(self._alias("p"), table.columns)
            sides[-1] = self._projected(inner, f"‹frozen {table.name}›", types)[1]
        columns = _projected_columns(types, numbered=table is None)
        return Source(alias, columns), f"({' UNION ALL '.join(sides)}) AS {alias}"

    def _static(self) -> tuple[Source, str]:
        """A table, or a query over tables."""
        alias, table = self._alias("b"), self.choices.pick(self.tables)
        relation = f"‹frozen {table.name}›"
        if self.choices.chance(2):
            return Source(alias, table.columns), f"{relation} AS {alias}"
        columns, sql = self._rows_of_tables("frozen")
        return Source(alias, columns), f"({sql}) AS {alias}"

    def _join_table(self, sources: list[Source], text: str) -> tuple[Source, str]:
        static, other = self._static()
        kind = self.choices.pick(["JOIN", "LEFT JOIN", "JOIN", "LEFT JOIN", "CROSS JOIN"])
        if kind == "CROSS JOIN":
            return static, f"{text} {kind} {other}"
        return static, f"{text} {kind} {other} ON {self._flat_condition(sources, static)}"

    def _join_two_tables(self, sources: list[Source], text: str) -> tuple[Source, str]:
        """Two tables, joined in parentheses; `sources` gets the first of them."""
        (first, one), (second, two) = self._static(), self._static()
        inside = self.choices.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        pair = f"({one} {inside} {two} ON {self._flat_condition([first], second)})"
        condition = self._flat_condition(sources, self.choices.pick([first, second]))
        kind = self.choices.pick(["JOIN", "LEFT JOIN"])
        sources.append(first)
        return second, f"{text} {kind} {pair} ON {condition}"

    def _join_linked(self, sources: list[Source], text: str) -> tuple[Source, str]:
        """Tables that are joined with each other, along keys or not; `sources` gets all but the last."""
        before, kinds = list(sources), ["JOIN", "LEFT JOIN"] if self.choices.chance(3) else ["JOIN"]
        for number in range(self.choices.between(2, 3)):
            table, new = self._linked()
            condition = self._flat_condition(before, new)
            if number:
                condition = self._link(sources[-1], table, new) + (
                    f" AND {condition}" if self.choices.chance(4) else ""
                )
            text += f" {self.choices.pick(kinds)} ‹frozen {table.name}› AS {new.alias} ON {condition}"
            sources.append(new)
        return sources.pop(), text

    def _after_linked(self, sources: list[Source], text: str) -> tuple[Source, str]:
        """Tables first, and what they have to do with each other in the condition of the stream."""
        tables = [self._linked() for _ in range(self.choices.between(2, 3))]
        tests = [self._flat_condition(sources, self.choices.pick(tables)[1])]
        for (_, one), (table, other) in pairwise(tables):
            tests.append(self._link(one, table, other))
            tests += [self._flat("boolean", [other], 1)] if self.choices.chance(4) else []
        items = [f"‹frozen {table.name}› AS {source.alias}" for table, source in tables]
        sources += [source for _, source in tables[:-1]]
        return tables[-1][1], f"{' CROSS JOIN '.join(items)} JOIN {text} ON {' AND '.join(tests)}"

    def _linked(self) -> tuple[RandomTable, Source]:
        table = self.choices.pick(self.tables)
        return table, Source(self._alias("b"), table.columns)

    def _after_a_table(self, sources: list[Source], text: str) -> tuple[Source, str]:
        static, other = self._static()
        if self.choices.chance(3):
            return static, f"{other} CROSS JOIN {text}"
        return static, f"{other} JOIN {text} ON {self._flat_condition(sources, static)}"

    def _right_join(self, sources: list[Source], text: str) -> tuple[Source, str]:
        static, other = self._static()
        return static, f"{other} RIGHT JOIN {text} ON {self._flat_condition(sources, static)}"

    def _flat_condition(self, sources: list[Source], static: Source) -> str:
        condition = self._join_condition(sources, static, full=False)
        return condition if "SELECT" not in condition else f"{static.alias}.k = 1"

    def _comma(self, sources: list[Source], text: str) -> tuple[Source, str]:
        static, other = self._static()
        return static, f"{text}, {other}"

    def _unnest(self, sources: list[Source], text: str) -> tuple[Source, str]:
        alias = self._alias("u")
        array = self._leaf(self.choices.pick(["int[]", "text[]"]), sources)
        type_ = str(array.type).removesuffix("[]")
        opened = f"unnest({array.sql}) AS {alias}(x)"
        if self.choices.chance(2):
            return Source(alias, (Column("x", type_, False),)), f"{text} LEFT JOIN LATERAL {opened} ON true"
        return Source(alias, (Column("x", type_, False),)), f"{text} CROSS JOIN LATERAL {opened}"

    def _lateral(self, sources: list[Source], text: str) -> tuple[Source, str]:
        alias, types = self._alias("l"), self._some_types(1, 2)
        if self.choices.chance(3):
            relation, outer = f"‹frozen {self.choices.pick(self.tables).name}›", self._leaf("int", sources).sql
            shown = self.choices.pick(["e.i AS x", "count(*) AS x"])
            asked = f"SELECT {shown} FROM {relation} AS e WHERE e.k = {outer}"
            type_ = "int" if shown.startswith("e") else "bigint"
            return Source(alias, (Column("x", type_, True),)), f"{text} LEFT JOIN LATERAL ({asked}) AS {alias} ON true"
        terms = ", ".join(f"{self._flat(type_, sources, 2)} AS c{n}" for n, type_ in enumerate(types))
        columns = tuple(Column(f"c{n}", type_, type_ in ("text", "boolean")) for n, type_ in enumerate(types))
        return Source(alias, columns), f"{text} CROSS JOIN LATERAL (SELECT {terms}) AS {alias}"

    def _below_where(self, sources: list[Source]) -> str:
        tests = [self._below_test(sources) for _ in range(self.choices.pick([0, 0, 1, 0, 1, 2]))]
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def _below_test(self, sources: list[Source]) -> str:
        alias, table = self._alias("e"), self.choices.pick(self.tables)
        outer = self._asked_with(sources)
        negated = self.choices.pick(["", "NOT "])
        match self.choices.draw(10):
            case 0 | 1 | 2:
                test = self._flat("boolean", sources, 2)
                return f"({test} OR {self._leaf('int', sources).sql} > 0)" if self.choices.chance(2) else test
            case 3:
                also = f" AND {alias}.i > {outer}" if self.choices.chance(3) else ""
                return (
                    f"{negated}EXISTS (SELECT 1 FROM ‹frozen {table.name}› AS {alias} WHERE {alias}.k = {outer}{also})"
                )
            case 4:
                where = f" WHERE {alias}.k IS NOT NULL" if self.choices.chance(2) else ""
                return f"{outer} {negated}IN (SELECT {alias}.k FROM ‹frozen {table.name}› AS {alias}{where})"
            case 5:
                columns, sql = self._rows_of_tables("frozen")
                return f"{outer} {negated}IN (SELECT {alias}.i FROM ({sql}) AS {alias})"
            case 6:
                columns, sql = self._rows_of_tables("frozen")
                return f"{negated}EXISTS (SELECT 1 FROM ({sql}) AS {alias} WHERE {alias}.k = {outer})"
            case 7:
                where = f" WHERE {alias}.k = {self._leaf('int', sources).sql}" if self.choices.chance(2) else ""
                operator = self.choices.pick(ORDERED_OPERATORS)
                asked = f"SELECT max({alias}.i) FROM ‹frozen {table.name}› AS {alias}{where}"
                return f"{outer} {operator} ({asked})"
            case 8:
                other, every = self._leaf("int", sources).sql, self.choices.pick(["ANY", "ALL"])
                if self.choices.chance(2):
                    return f"{outer} > {every} (SELECT {alias}.k FROM ‹frozen {table.name}› AS {alias})"
                rows = f"SELECT {alias}.k, {alias}.i FROM ‹frozen {table.name}› AS {alias}"
                return f"({outer}, {other}) {negated}IN ({rows})"
            case _:
                operator = self.choices.pick(ORDERED_OPERATORS)
                return f"EXISTS (SELECT 1 FROM ‹frozen {table.name}› AS {alias} WHERE {alias}.i {operator} {outer})"

    def _asked_with(self, sources: list[Source]) -> str:
        """What a row asks a table with."""
        return self._leaf("int", sources).sql

    # aggregates

    def _aggregate(self, sources: list[Source], depth: int) -> Term:
        if self.choices.chance(2):
            while CONSTANT_ORDER.search((term := super()._aggregate(sources, depth)).sql):
                pass
            return term
        keep = f" FILTER (WHERE {self._leaf('boolean', sources).sql})" if self.choices.chance(5) else ""
        numbered = [source for source in sources if source.columns[0].name == "id"]
        makers = [self._bits, self._distinct_sum, self._quantile, self._statistic, self._paired, self._most_frequent]
        makers += [self._by_number] * 3 if numbered else []
        maker = self.choices.pick(makers)
        return maker(numbered if maker == self._by_number else sources, keep)

    def _kept_aggregate(self, sources: list[Source]) -> Term:
        """Of estimates, a view keeps what is exact for few values of few digits; a query above it estimates anew."""
        return self._estimate(sources) if self.choices.chance(10) else self._aggregate(sources, 1)

    def _estimate(self, sources: list[Source]) -> Term:
        keep = f" FILTER (WHERE {self._leaf('boolean', sources).sql})" if self.choices.chance(3) else ""
        if self.choices.chance(2):
            value = self._leaf(self.choices.pick(["int", "text", "boolean"]), sources).sql
            return Term(f"⟪approx_count_distinct({value})|count(DISTINCT {value})⟫{keep}", "bigint")
        value = self._leaf(self.choices.pick(["int", "double precision"]), sources).sql
        fraction = self.choices.pick(["0.5", "0.25", "0.9", "0", "1"])
        theirs = f"CAST(percentile_disc({fraction}) WITHIN GROUP (ORDER BY {value}){keep} AS double precision)"
        return Term(f"⟪approx_percentile({value}, {fraction}){keep}|{theirs}⟫", "double precision")

    def _bits(self, sources: list[Source], keep: str) -> Term:
        if self.choices.chance(3):
            function = self.choices.pick(["every", "⟪some|bool_or⟫"])
            return Term(f"{function}({self._leaf('boolean', sources).sql}){keep}", "boolean")
        type_ = self.choices.pick(["int", "bigint"])
        function = self.choices.pick(["bit_and", "bit_or", "bit_xor"])
        return Term(f"{function}({self._leaf(type_, sources, tame=False).sql}){keep}", type_)

    def _distinct_sum(self, sources: list[Source], keep: str) -> Term:
        match self.choices.draw(4):
            case 0:
                return Term(f"sum(DISTINCT {self._leaf('int', sources).sql}){keep}", "bigint")
            case 1:
                return Term(f"sum(DISTINCT {self._leaf('numeric(10,2)', sources).sql}){keep}", "numeric(10,2)")
            case 2:
                return Term(f"avg(DISTINCT {self._leaf('double precision', sources).sql}){keep}", "double precision")
            case _:
                element = self._leaf(self.choices.pick(["int", "text"]), sources, tame=False)
                return Term(f"array_agg(DISTINCT {element.sql} ORDER BY {element.sql}){keep}", f"{element.type}[]")

    def _quantile(self, sources: list[Source], keep: str) -> Term:
        fraction = self.choices.pick(["0.5", "0.25", "0.9", "0", "1"])
        value = self._leaf(self.choices.pick(["int", "double precision"]), sources).sql
        match self.choices.draw(3):
            case 0:
                theirs = f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {value}){keep}"
                return Term(f"⟪median({value}){keep}|{theirs}⟫", "double precision")
            case 1:
                return Term(f"percentile_cont({fraction}) WITHIN GROUP (ORDER BY {value}){keep}", "double precision")
            case _:
                some = self._leaf(self.choices.pick(ORDERABLE), sources, tame=False)
                direction = self.choices.pick(["", " DESC"])
                sql = f"percentile_disc({fraction}) WITHIN GROUP (ORDER BY {some.sql}{direction}){keep}"
                return Term(sql, some.type)

    def _statistic(self, sources: list[Source], keep: str) -> Term:
        value = self._leaf(self.choices.pick(["double precision", "int"]), sources).sql
        distinct = "DISTINCT " if self.choices.chance(4) else ""
        return Term(f"{self.choices.pick(STATISTICS)}({distinct}⟪|CAST(⟫{value}⟪| AS double precision)⟫){keep}", None)

    def _paired(self, sources: list[Source], keep: str) -> Term:
        one, two = (self._leaf("double precision", sources).sql for _ in range(2))
        if self.choices.chance(6):
            return Term(f"regr_count({one}, {two}){keep}", "bigint")
        return Term(f"{self.choices.pick(PAIRED)}({one}, {two}){keep}", None)

    def _most_frequent(self, sources: list[Source], keep: str) -> Term:
        value = self._leaf(self.choices.pick(ORDERABLE), sources, tame=False)
        direction = self.choices.pick(["", " DESC"])
        return Term(f"mode() WITHIN GROUP (ORDER BY {value.sql}{direction}){keep}", value.type)

    def _by_number(self, sources: list[Source], keep: str) -> Term:
        """What depends on the order of rows, ordered by their number; PostgreSQL takes an end of an array."""
        source = self.choices.pick(sources)
        column = self.choices.pick([column for column in source.columns if column.type in BASIC])
        value, number = f"{source.alias}.{column.name}", f"{source.alias}.id"
        match self.choices.draw(6):
            case 0:
                return Term(f"array_agg({value} ORDER BY {number} DESC){keep}", f"{column.type}[]")
            case 1:
                text = self._leaf("text", [source], tame=False).sql
                return Term(f"string_agg({text}, '/' ORDER BY {number}){keep}", "text")
            case 2:
                ours, direction = f"first({value} ORDER BY {number})", ""
            case 3:
                ours, direction = f"last({value} ORDER BY {number})", " DESC"
            case 4:
                ours, direction = f"min_by({value}, {number})", ""
            case _:
                # It passes over rows without a number, which outer joins make.
                ours, direction = f"max_by({value}, {number})", " DESC NULLS LAST"
        theirs = f"(array_agg({value} ORDER BY {number}{direction}){keep})[1]"
        return Term(f"⟪{ours}{keep}|{theirs}⟫", column.type)


def _projected_columns(types: list[str], *, numbered: bool) -> tuple[Column, ...]:
    """Nothing that was computed is tame but what cannot overflow; the first is the key of joins."""
    columns = tuple(Column(f"c{n}", type_, n == 0 or type_ in ("text", "boolean")) for n, type_ in enumerate(types))
    return (Column("id", "bigint", True), *columns) if numbered else columns
