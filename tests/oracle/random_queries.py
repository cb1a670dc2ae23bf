"""Random queries over random tables, each in two spellings: ours and PostgreSQL's.

Where sql.md decides otherwise than PostgreSQL (avg of integers is a double, the sum of bigints a bigint), the text
has a mark `⟪ours|theirs⟫`, and `spelled` takes one side. Every query has one answer as a multiset: LIMIT stands only
behind an order by all columns, window functions that see single rows order by all columns of their source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from choices import Choices
from random_tables import TAME, Column, RandomTable

MARK = re.compile(r"⟪([^|⟫]*)\|([^⟫]*)⟫")
BASIC = ("int", "bigint", "double precision", "numeric(10,2)", "text", "boolean", "date", "timestamp")
COMPARABLE = (
    ("int", "bigint"),
    ("int", "double precision"),
    ("int", "numeric(10,2)"),
    ("date", "timestamp"),
    ("numeric(10,2)", "double precision"),
)
FRAMES = (
    "1 PRECEDING AND 1 FOLLOWING",
    "UNBOUNDED PRECEDING AND CURRENT ROW",
    "CURRENT ROW AND UNBOUNDED FOLLOWING",
)
ORDERED_OPERATORS = ("=", "<", ">", "<=", ">=", "<>")


def spelled(text: str, *, postgres: bool) -> str:
    return MARK.sub(r"\2" if postgres else r"\1", text)


def _theirs(before: str, sql: str, after: str) -> str:
    """Text that only PostgreSQL gets around an expression."""
    return f"⟪|{before}⟫{sql}⟪|{after}⟫"


@dataclass(frozen=True)
class Source:
    """Something in FROM: its alias and what it has."""

    alias: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Term:
    """An expression with its type; None where sql.md leaves the type open."""

    sql: str
    type: str | None


@dataclass(frozen=True)
class RandomQuery:
    sql: str
    types: tuple[str | None, ...]
    ordered: bool = False


class QueryMaker:
    def __init__(self, choices: Choices, tables: tuple[RandomTable, ...]) -> None:
        self.choices, self.tables, self.aliases = choices, tables, 0
        self.named: list[Source] = []

    # queries

    def query(self) -> RandomQuery:
        body = self._with(2) if self.choices.chance(6) else self._body(2)
        if not self.choices.chance(3):
            return body
        return self._sorted(body)

    def _sorted(self, body: RandomQuery) -> RandomQuery:
        keys = ", ".join(f"{place}{self._direction()}" for place in range(1, len(body.types) + 1))
        limit = f" LIMIT {self.choices.between(0, 6)}" if self.choices.chance(2) else ""
        limit += f" OFFSET {self.choices.between(0, 3)}" if limit and self.choices.chance(3) else ""
        return RandomQuery(f"SELECT * FROM ({body.sql}) AS sorted ORDER BY {keys}{limit}", body.types, ordered=True)

    def _direction(self) -> str:
        return self.choices.pick(["", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"])

    def _with(self, depth: int) -> RandomQuery:
        first = self._body(1, basic=True)
        name = self._alias("w")
        source = Source(name, _columns_of(first.types))
        self.named.append(source)
        rest = self._body(depth)
        self.named.pop()
        return replace(rest, sql=f"WITH {name} AS ({first.sql}) {rest.sql}")

    def _body(self, depth: int, *, basic: bool = False) -> RandomQuery:
        kinds = [self._plain, self._grouped, self._plain, self._windowed, self._grouping_sets]
        if depth > 0:
            kinds += [self._set_operation, self._set_operation]
        return self.choices.pick(kinds)(depth, basic)

    def _plain(self, depth: int, basic: bool) -> RandomQuery:
        sources, from_ = self._from(depth)
        wanted = [self.choices.pick(BASIC) for _ in range(self.choices.between(1, 4))]
        terms = [self._term(type_, sources, depth) for type_ in wanted]
        if not basic and self.choices.chance(4):
            terms.append(self._any_column(sources))
        distinct = "DISTINCT " if self.choices.chance(6) else ""
        return _select(distinct, terms, f"{from_}{self._where(sources, depth)}")

    def _grouped(self, depth: int, basic: bool) -> RandomQuery:
        sources, from_ = self._from(depth)
        keys = [self._group_key(sources, depth) for _ in range(self.choices.between(0, 2))]
        aggregates = [self._aggregate(sources, depth) for _ in range(self.choices.between(1, 3))]
        tail = f"{from_}{self._where(sources, depth)}"
        if keys:
            ordinals = self.choices.chance(4)
            tail += " GROUP BY " + ", ".join(str(n) if ordinals else key.sql for n, key in enumerate(keys, 1))
        if self.choices.chance(5):
            tail += f" HAVING count(*) {self.choices.pick(ORDERED_OPERATORS)} {self.choices.between(0, 3)}"
        return _select("", keys + aggregates, tail)

    def _grouping_sets(self, depth: int, basic: bool) -> RandomQuery:
        sources, from_ = self._from(depth)
        keys = _distinct([self._any_basic_column(sources) for _ in range(self.choices.between(1, 3))])
        names = [key.sql for key in keys]
        form = self.choices.pick(["ROLLUP", "CUBE", "SETS"])
        if form == "SETS":
            groups = [", ".join(n for n in names if self.choices.chance(2)) for _ in range(self.choices.between(1, 3))]
            by = f"GROUPING SETS ({', '.join(f'({group})' for group in groups)}, ({', '.join(names)}))"
        else:
            by = f"{form} ({', '.join(names)})"
        aggregates = [self._aggregate(sources, depth) for _ in range(self.choices.between(1, 2))]
        grouping = [Term(f"grouping({', '.join(names)})", None)] if self.choices.chance(2) else []
        return _select("", keys + grouping + aggregates, f"{from_}{self._where(sources, depth)} GROUP BY {by}")

    def _windowed(self, depth: int, basic: bool) -> RandomQuery:
        sources, from_ = self._from(depth)
        terms = [self._any_basic_column(sources) for _ in range(self.choices.between(0, 2))]
        terms += [self._over(sources) for _ in range(self.choices.between(1, 2))]
        return _select("", terms, f"{from_}{self._where(sources, depth)}")

    def _set_operation(self, depth: int, basic: bool) -> RandomQuery:
        wanted = [self.choices.pick(BASIC) for _ in range(self.choices.between(1, 3))]
        sides = [self._typed(wanted, depth - 1) for _ in range(2)]
        operator = self.choices.pick(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        return RandomQuery(f"({sides[0].sql}) {operator} ({sides[1].sql})", sides[0].types)

    def _typed(self, wanted: list[str], depth: int) -> RandomQuery:
        sources, from_ = self._from(depth)
        terms = [self._term(type_, sources, 0) for type_ in wanted]
        return _select("", terms, f"{from_}{self._where(sources, depth)}")

    # FROM and WHERE

    def _from(self, depth: int) -> tuple[list[Source], str]:
        source, text = self._source(depth)
        sources = [source]
        for number in range(self.choices.pick([0, 1, 0, 1, 2])):
            source, other = self._source(depth - 1)
            kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
            kind = self.choices.pick(kinds if number else [*kinds, "CROSS JOIN"])
            text += f" {kind} {other}"
            if kind != "CROSS JOIN":
                text += f" ON {self._join_condition(sources, source, full=kind == 'FULL JOIN')}"
            sources.append(source)
        return sources, f" FROM {text}"

    def _source(self, depth: int) -> tuple[Source, str]:
        alias = self._alias("a")
        if self.named and self.choices.chance(2):
            named = self.choices.pick(self.named)
            return Source(alias, named.columns), f"{named.alias} AS {alias}"
        if depth > 0 and self.choices.chance(4):
            inner = self._body(depth - 1, basic=True)
            return Source(alias, _columns_of(inner.types)), f"({inner.sql}) AS {alias}"
        table = self.choices.pick(self.tables)
        return Source(alias, table.columns), f"{table.name} AS {alias}"

    def _join_condition(self, before: list[Source], new: Source, *, full: bool) -> str:
        pairs = [
            (f"{source.alias}.{left.name}", f"{new.alias}.{right.name}")
            for source in before
            for left in source.columns
            for right in new.columns
            if left.type == right.type and left.type in BASIC
        ]
        if not pairs:
            return "false" if full else "1 = 1"
        left, right = self.choices.pick(pairs)
        condition = f"{left} = {right}"
        if full:
            return condition
        if self.choices.chance(4):
            condition = f"{left} {self.choices.pick(ORDERED_OPERATORS)} {right}"
        if self.choices.chance(4):
            condition += f" AND {self._term('boolean', [*before, new], 0).sql}"
        return condition

    def _where(self, sources: list[Source], depth: int) -> str:
        return f" WHERE {self._term('boolean', sources, depth).sql}" if self.choices.chance(2) else ""

    # expressions

    def _term(self, type_: str, sources: list[Source], depth: int) -> Term:
        """A column, a literal or something larger of exactly this type, safe in arithmetic."""
        if depth <= 0 or not self.choices.chance(2):
            return self._leaf(type_, sources)
        maker = getattr(self, "_" + re.sub(r"\W.*", "", type_) + "_term")
        return Term(f"({maker(sources, depth - 1)})", type_)

    def _leaf(self, type_: str, sources: list[Source], *, tame: bool = True) -> Term:
        columns = [
            f"{source.alias}.{column.name}"
            for source in sources
            for column in source.columns
            if column.type == type_ and (column.tame or not tame)
        ]
        if columns and not self.choices.chance(4):
            return Term(self.choices.pick(columns), type_)
        return Term(self._literal(type_), type_)

    def _literal(self, type_: str) -> str:
        if self.choices.chance(12):
            return f"CAST(NULL AS {type_})"
        text = self.choices.pick(TAME[type_])
        return text if type_ in ("int", "boolean", "int[]", "text[]") else f"CAST({text} AS {type_})"

    def _any_column(self, sources: list[Source]) -> Term:
        source = self.choices.pick(sources)
        column = self.choices.pick(source.columns)
        return Term(f"{source.alias}.{column.name}", column.type if column.type != "?" else None)

    def _any_basic_column(self, sources: list[Source]) -> Term:
        options = [Term(f"{s.alias}.{c.name}", c.type) for s in sources for c in s.columns if c.type in BASIC]
        return (
            self.choices.pick(options)
            if options
            else Term(f"({sources[0].alias}.{sources[0].columns[0].name} IS NULL)", "boolean")
        )

    def _group_key(self, sources: list[Source], depth: int) -> Term:
        if not self.choices.chance(3):
            return self._any_basic_column(sources)
        column = self._any_basic_column(sources)
        return Term(f"({column.sql} IS NULL)", "boolean")

    def _either(self, type_: str, sources: list[Source], depth: int) -> str:
        """What every type has: CASE, coalesce, nullif, greatest, least, a scalar subquery."""
        one, two = (self._term(type_, sources, depth).sql for _ in range(2))
        match self.choices.draw(5):
            case 0:
                return f"coalesce({one}, {two})"
            case 1:
                return f"CASE WHEN {self._term('boolean', sources, depth).sql} THEN {one} ELSE {two} END"
            case 2:
                return f"nullif({one}, {two})"
            case 3 if type_ != "boolean":
                return f"{self.choices.pick(['greatest', 'least'])}({one}, {two})"
            case _:
                return self._scalar_subquery(type_, sources) if type_ != "boolean" else f"{one} IS TRUE"

    def _scalar_subquery(self, type_: str, sources: list[Source]) -> str:
        inner, from_ = self._inner()
        function = self.choices.pick(["max", "min"])
        return f"SELECT {function}({self._leaf(type_, [inner]).sql}) {from_}{self._correlation(inner, sources)}"

    def _inner(self) -> tuple[Source, str]:
        table = self.choices.pick(self.tables)
        alias = self._alias("q")
        return Source(alias, table.columns), f"FROM {table.name} AS {alias}"

    def _correlation(self, inner: Source, sources: list[Source]) -> str:
        outer = [f"{s.alias}.{c.name}" for s in sources for c in s.columns if c.type == "int"]
        if not outer or not self.choices.chance(2):
            return f" WHERE {self._term('boolean', [inner], 0).sql}" if self.choices.chance(2) else ""
        return f" WHERE {inner.alias}.{self.choices.pick(['k', 'i'])} = {self.choices.pick(outer)}"

    def _int_term(self, sources: list[Source], depth: int) -> str:
        def make(type_: str) -> str:
            return self._term(type_, sources, depth).sql

        match self.choices.draw(13):
            case 0:
                return f"{make('int')} + {make('int')}"
            case 1:
                return f"{make('int')} - {make('int')}"
            case 2:
                return f"{make('int')} * {self._leaf('int', sources).sql}"
            case 3:
                return f"{make('int')} / nullif({make('int')}, 0)"
            case 4:
                return f"{make('int')} % nullif({make('int')}, 0)"
            case 5:
                return f"length({make('text')})"
            case 6:
                return f"abs({make('int')})"
            case 7:
                return f"{make('date')} - {make('date')}"
            case 8:
                return f"CAST({make('numeric(10,2)')} AS int)"
            case 9:
                return f"CAST({self._leaf('double precision', sources).sql} AS int)"
            case 10:
                part = self.choices.pick(["year", "month", "day", "dow", "isodow", "doy", "week", "quarter"])
                return f"CAST(extract({part} FROM {make(self.choices.pick(['date', 'timestamp']))}) AS int)"
            case 11:
                array = self._leaf("int[]", sources).sql
                return f"cardinality({array})" if self.choices.chance(2) else f"({array})[{self.choices.between(1, 3)}]"
            case _:
                return self._either("int", sources, depth)

    def _bigint_term(self, sources: list[Source], depth: int) -> str:
        match self.choices.draw(4):
            case 0:
                return f"CAST({self._term('int', sources, depth).sql} AS bigint)"
            case 1:
                return f"{self._term('int', sources, depth).sql} + {self._leaf('bigint', sources).sql}"
            case 2:
                inner, from_ = self._inner()
                return f"SELECT count(*) {from_}{self._correlation(inner, sources)}"
            case _:
                return self._either("bigint", sources, depth)

    def _double_term(self, sources: list[Source], depth: int) -> str:
        one = self._term("double precision", sources, depth).sql
        match self.choices.draw(5):
            case 0:
                return f"CAST({self._term('int', sources, depth).sql} AS double precision)"
            case 1:
                return f"{one} {self.choices.pick(['+', '-', '*'])} {self._leaf('double precision', sources).sql}"
            case 2:
                return f"{one} / nullif({self._leaf('double precision', sources).sql}, 0)"
            case 3:
                return f"abs({one})"
            case _:
                return self._either("double precision", sources, depth)

    def _numeric_term(self, sources: list[Source], depth: int) -> str:
        one = self._term("numeric(10,2)", sources, depth).sql
        match self.choices.draw(5):
            case 0:
                return f"CAST({self._term('int', sources, depth).sql} AS numeric(10,2))"
            case 1:
                return f"{one} {self.choices.pick(['+', '-', '*'])} {self._leaf('numeric(10,2)', sources).sql}"
            case 2:
                return f"round({one}, {self.choices.between(0, 2)})"
            case 3:
                return f"abs({one})"
            case _:
                return self._either("numeric(10,2)", sources, depth)

    def _text_term(self, sources: list[Source], depth: int) -> str:
        one = self._term("text", sources, depth).sql
        match self.choices.draw(9):
            case 0:
                return f"{one} || {self._leaf('text', sources, tame=False).sql}"
            case 1:
                return f"{self.choices.pick(['upper', 'lower', 'trim', 'reverse'])}({self._leaf('text', sources).sql})"
            case 2:
                return f"substring({one}, {self.choices.between(1, 3)}, {self.choices.between(0, 2)})"
            case 3:
                return f"replace({one}, 'a', {self._leaf('text', sources).sql})"
            case 4:
                other = self.choices.pick(["int", "boolean", "date", "bigint"])
                return f"CAST({self._term(other, sources, depth).sql} AS text)"
            case 5:
                return f"{self.choices.pick(['left', 'right'])}({one}, {self.choices.between(-1, 2)})"
            case 6:
                return f"CAST({self._leaf(self.choices.pick(['double precision', 'timestamp']), sources).sql} AS text)"
            case 7:
                return f"concat({one}, {self._leaf('text', sources, tame=False).sql})"
            case _:
                return self._either("text", sources, depth)

    def _boolean_term(self, sources: list[Source], depth: int) -> str:
        def make(type_: str) -> str:
            return self._term(type_, sources, depth).sql

        type_ = self.choices.pick(BASIC)
        wild = self._leaf(type_, sources, tame=False).sql
        match self.choices.draw(13):
            case 0:
                return f"{wild} {self.choices.pick(ORDERED_OPERATORS)} {make(type_)}"
            case 1:
                return f"{wild} IS {self.choices.pick(['', 'NOT '])}NULL"
            case 2:
                return f"{make('boolean')} {self.choices.pick(['AND', 'OR'])} {make('boolean')}"
            case 3:
                return f"NOT {make('boolean')}"
            case 4:
                return f"{wild} {self.choices.pick(['', 'NOT '])}BETWEEN {make(type_)} AND {make(type_)}"
            case 5:
                return f"{wild} {self.choices.pick(['', 'NOT '])}IN ({make(type_)}, {self._literal(type_)})"
            case 6:
                pattern = self.choices.pick(["'a%'", "'%b'", "'_'", "'%\\%%'", "''"])
                return f"{make('text')} {self.choices.pick(['LIKE', 'NOT LIKE', 'ILIKE'])} {pattern}"
            case 7:
                return f"{wild} IS {self.choices.pick(['', 'NOT '])}DISTINCT FROM {make(type_)}"
            case 8:
                inner, from_ = self._inner()
                return f"{self.choices.pick(['', 'NOT '])}EXISTS (SELECT 1 {from_}{self._correlation(inner, sources)})"
            case 9:
                inner, from_ = self._inner()
                return f"{make('int')} {self.choices.pick(['', 'NOT '])}IN (SELECT {inner.alias}.k {from_})"
            case 10:
                return f"{make('int')} = ANY ({self._leaf('int[]', sources).sql})"
            case 11:
                one, two = self.choices.pick(COMPARABLE)
                left, right = (self._leaf(type_, sources, tame=False).sql for type_ in (one, two))
                return f"{left} {self.choices.pick(ORDERED_OPERATORS)} {right}"
            case _:
                return self._either("boolean", sources, depth)

    def _date_term(self, sources: list[Source], depth: int) -> str:
        match self.choices.draw(3):
            case 0:
                return f"{self._leaf('date', sources).sql} + {self._term('int', sources, depth).sql}"
            case 1:
                return f"CAST({self._term('timestamp', sources, depth).sql} AS date)"
            case _:
                return self._either("date", sources, depth)

    def _timestamp_term(self, sources: list[Source], depth: int) -> str:
        match self.choices.draw(5):
            case 0:
                span = self.choices.pick(["1 day", "2 hours", "1 month", "90 minutes", "1 year 1 day"])
                return f"{self._leaf('timestamp', sources).sql} {self.choices.pick(['+', '-'])} INTERVAL '{span}'"
            case 1:
                unit = self.choices.pick(["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
                return f"date_trunc('{unit}', {self._term('timestamp', sources, depth).sql})"
            case 2:
                return f"CAST({self._term('date', sources, depth).sql} AS timestamp)"
            case 3:
                return f"{self._term('date', sources, depth).sql} + INTERVAL '1 hour'"
            case _:
                return self._either("timestamp", sources, depth)

    # aggregates and window functions

    def _aggregate(self, sources: list[Source], depth: int) -> Term:
        depth = min(depth, 1)
        keep = f" FILTER (WHERE {self._term('boolean', sources, 0).sql})" if self.choices.chance(6) else ""

        def make(type_: str) -> str:
            return self._flat(type_, sources, depth)

        wild = self._leaf(self.choices.pick([t for t in BASIC if t != "boolean"]), sources, tame=False)
        match self.choices.draw(14):
            case 0:
                return Term(f"count(*){keep}", "bigint")
            case 1:
                return Term(f"count({wild.sql}){keep}", "bigint")
            case 2:
                return Term(f"sum({make('int')}){keep}", "bigint")
            case 3:
                return Term(f"min({wild.sql}){keep}", wild.type)
            case 4:
                return Term(f"max({wild.sql}){keep}", wild.type)
            case 5:
                return Term(f"count(DISTINCT {wild.sql}){keep}", "bigint")
            case 6:
                return Term(f"sum({make('double precision')}){keep}", "double precision")
            case 7:
                return Term(f"sum({make('numeric(10,2)')}){keep}", "numeric(10,2)")
            case 8:
                return Term(f"avg({_theirs('CAST(', make('int'), ' AS double precision)')}){keep}", "double precision")
            case 9:
                return Term(f"round(avg({self._leaf('numeric(10,2)', sources).sql}){keep}, 3)", None)
            case 10:
                return Term(f"{self.choices.pick(['bool_and', 'bool_or'])}({make('boolean')}){keep}", "boolean")
            case 11:
                text = self._leaf("text", sources, tame=False).sql
                distinct = "DISTINCT " if self.choices.chance(4) else ""
                return Term(f"string_agg({distinct}{text}, ',' ORDER BY {text}){keep}", "text")
            case 12:
                element = self._leaf(self.choices.pick(["int", "text"]), sources, tame=False)
                return Term(f"array_agg({element.sql} ORDER BY {element.sql}){keep}", f"{element.type}[]")
            case _:
                sql = f"sum({self._leaf('bigint', sources).sql}){keep}"
                return Term(_theirs("CAST(", sql, " AS bigint)"), "bigint")

    def _flat(self, type_: str, sources: list[Source], depth: int) -> str:
        """A term without a subquery in it: not every engine takes one inside an aggregate."""
        term = self._term(type_, sources, depth).sql
        return term if "SELECT" not in term else self._leaf(type_, sources).sql

    def _over(self, sources: list[Source]) -> Term:
        everything = ", ".join(f"{s.alias}.{c.name}{self._direction()}" for s in sources for c in s.columns)
        part = f"PARTITION BY {self._any_basic_column(sources).sql} " if self.choices.chance(2) else ""
        some = f"ORDER BY {self._any_basic_column(sources).sql}{self._direction()}"
        total = f"ORDER BY {everything}"
        value = self._any_basic_column(sources)
        number = self._leaf("int", sources).sql
        match self.choices.draw(9):
            case 0:
                return Term(f"row_number() OVER ({part}{total})", None)
            case 1:
                return Term(f"{self.choices.pick(['rank', 'dense_rank'])}() OVER ({part}{some})", None)
            case 2:
                return Term(f"sum({number}) OVER ({part}{some if self.choices.chance(2) else ''})", "bigint")
            case 3:
                return Term(f"count({value.sql}) OVER ({part}{some})", "bigint")
            case 4:
                function = self.choices.pick(["lag", "lead"])
                return Term(f"{function}({value.sql}) OVER ({part}{total})", value.type)
            case 5:
                frame = self.choices.pick(FRAMES)
                return Term(f"sum({number}) OVER ({part}{total} ROWS BETWEEN {frame})", "bigint")
            case 6:
                function = self.choices.pick(["first_value", "last_value"])
                return Term(f"{function}({value.sql}) OVER ({part}{total})", value.type)
            case 7:
                return Term(f"ntile({self.choices.between(1, 4)}) OVER ({part}{total})", None)
            case _:
                plain = self._leaf("text", sources, tame=False)
                return Term(f"max({plain.sql}) OVER ({part}{some})", "text")

    def _alias(self, letter: str) -> str:
        self.aliases += 1
        return f"{letter}{self.aliases}"


def _select(distinct: str, terms: list[Term], tail: str) -> RandomQuery:
    items = ", ".join(f"{term.sql} AS c{place}" for place, term in enumerate(terms))
    return RandomQuery(f"SELECT {distinct}{items}{tail}", tuple(term.type for term in terms))


def _columns_of(types: tuple[str | None, ...]) -> tuple[Column, ...]:
    """What an inner query hands out; nothing of it is tame but what cannot overflow."""
    return tuple(Column(f"c{place}", type_ or "?", type_ in ("text", "boolean")) for place, type_ in enumerate(types))


def _distinct(terms: list[Term]) -> list[Term]:
    return list({term.sql: term for term in terms}.values())
