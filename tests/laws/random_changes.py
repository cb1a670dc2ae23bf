"""Random queries of every shape over tables that change, and over a table that only grows.

A query's text has a mark `‹delta›` behind its outermost select list, in each branch of UNION ALL; there a continuous
query may ask for `cq_delta()` and `cq_old_value(column)`. Its `key` names columns that are unique and never NULL.

    >>> DeltaQueryMaker(Choices([0]), random_schema(Choices([0]), "t")).query("filter").sql
    'SELECT a1.id AS c0‹delta› FROM t0 AS a1 WHERE a1.id <> 0'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from choices import Choices
from random_transactions import AWKWARD_TYPES, VALUES, ChangingTable, Field, State, literal

DELTA = "‹delta›"
OPERATORS = ("<>", "<", ">=", ">", "<=", "<>", "=")
AVERAGE = "average"
"""A double here and a numeric there: shown, but not compared or grouped by."""


@dataclass(frozen=True)
class Source:
    """Something in FROM. `key` is None where its rows have none."""

    alias: str
    fields: tuple[Field, ...]
    key: tuple[str, ...] | None
    table: ChangingTable | None = None

    def named(self, type_: str) -> list[str]:
        return [f"{self.alias}.{field.name}" for field in self.fields if field.type == type_]


@dataclass(frozen=True)
class Term:
    sql: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class From:
    """Sources, the text behind SELECT's list, and the columns that tell its rows apart, if any do."""

    sources: tuple[Source, ...]
    text: str
    conditions: tuple[str, ...] = ()
    key: tuple[Term, ...] | None = None

    def also(self, condition: str) -> From:
        return replace(self, conditions=(*self.conditions, condition))

    @property
    def tail(self) -> str:
        return f" FROM {self.text}" + (f" WHERE {' AND '.join(self.conditions)}" if self.conditions else "")


@dataclass(frozen=True)
class ShapedQuery:
    shape: str
    sql: str
    fields: tuple[Field, ...]
    key: tuple[str, ...] | None = None

    @property
    def columns(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def plain(self) -> str:
        return self.sql.replace(DELTA, "")

    @property
    def with_delta(self) -> str:
        """The query with `kind`, and with the old value of c0 as o0."""
        wanted = ", cq_delta() AS kind, " + ", ".join(f"cq_old_value({c}) AS o{c[1:]}" for c in self.columns)
        if DELTA in self.sql:
            return self.sql.replace(DELTA, wanted)
        return f"SELECT {', '.join(self.columns)}{wanted} FROM ({self.sql}) AS unchanged"


class DeltaQueryMaker:
    """Makes queries over tables; the shapes are its methods' names."""

    def __init__(self, choices: Choices, tables: Sequence[ChangingTable]) -> None:
        self.choices, self.tables, self.aliases = choices, tables, 0

    def query(self, shape: str) -> ShapedQuery:
        return replace(SHAPES[shape](self), shape=shape)

    # one block

    def filter(self) -> ShapedQuery:
        from_ = self._from(1)
        return self._select(self._terms(from_), self._filtered(from_, always=True), key=True)

    def join(self) -> ShapedQuery:
        from_ = self._from(self.choices.pick([2, 2, 3]))
        return self._select(self._terms(from_), self._filtered(from_), key=True)

    def wide_join(self) -> ShapedQuery:
        from_ = self._from(self.choices.pick([3, 4]))
        return self._select(self._terms(from_), self._filtered(from_), key=True)

    def self_join(self) -> ShapedQuery:
        table = self.choices.pick(self.tables)
        from_ = self._from(2, [table, table])
        return self._select(self._terms(from_), self._filtered(from_), key=True)

    def aggregate(self) -> ShapedQuery:
        from_ = self._filtered(self._from(self.choices.pick([1, 1, 2])))
        return self._select([self._aggregate(from_) for _ in range(self.choices.between(1, 3))], from_)

    def group(self) -> ShapedQuery:
        return self._grouped(self._filtered(self._from(1)))

    def group_of_join(self) -> ShapedQuery:
        return self._grouped(self._filtered(self._from(self.choices.pick([2, 2, 3]))))

    def having(self) -> ShapedQuery:
        return self._grouped(self._filtered(self._from(self.choices.pick([1, 2]))), having=True)

    def _grouped(self, from_: From, *, having: bool = False) -> ShapedQuery:
        keys = _distinct([self._column(from_) for _ in range(self.choices.between(1, 2))])
        terms = [*keys, *(self._aggregate(from_) for _ in range(self.choices.between(1, 3)))]
        tail = f" GROUP BY {', '.join(key.sql for key in keys)}"
        if having or self.choices.chance(6):
            tail += f" HAVING {self._having(from_)}"
        unique = not any(key.nullable for key in keys)
        return self._select(terms, replace(from_, key=tuple(keys) if unique else None), key=True, tail=tail)

    def _having(self, from_: From) -> str:
        number = self.choices.between(-1, 3)
        if self.choices.chance(2):
            return f"count(*) {self.choices.pick(OPERATORS)} {abs(number)}"
        function = self.choices.pick(["sum", "min", "max"])
        return f"{function}({self._leaf('int', from_.sources).sql}) {self.choices.pick(OPERATORS)} {number}"

    def distinct(self) -> ShapedQuery:
        from_ = self._filtered(self._from(self.choices.pick([1, 2])))
        terms = [self._column(from_) for _ in range(self.choices.between(1, 2))]
        return self._select(terms, from_, distinct=True)

    # subqueries

    def semi_join(self) -> ShapedQuery:
        from_ = self._from(self.choices.pick([1, 1, 2]))
        return self._select(self._terms(from_), self._filtered(from_.also(self._subquery_test(from_, ""))), key=True)

    def anti_join(self) -> ShapedQuery:
        from_ = self._from(self.choices.pick([1, 1, 2]))
        return self._select(
            self._terms(from_), self._filtered(from_.also(self._subquery_test(from_, "NOT "))), key=True
        )

    def group_of_semi_join(self) -> ShapedQuery:
        from_ = self._from(1)
        return self._grouped(from_.also(self._subquery_test(from_, self.choices.pick(["", "NOT "]))))

    def scalar_subquery(self) -> ShapedQuery:
        from_ = self._from(1)
        inner = self._inner()
        function = self.choices.pick(["max", "min", "sum", "count"])
        where = f" WHERE {self._link_text(from_.sources[0], inner.sources[0])}" if self.choices.chance(2) else ""
        value = f"(SELECT {function}({self._leaf('int', inner.sources).sql}) FROM {inner.text}{where})"
        terms = self._terms(from_)
        if self.choices.chance(2):
            return self._select([*terms, Term(value, "bigint")], self._filtered(from_), key=True)
        left = self._leaf("int", from_.sources).sql
        return self._select(terms, from_.also(f"{left} {self.choices.pick(OPERATORS)} {value}"), key=True)

    def _subquery_test(self, from_: From, negated: str) -> str:
        """[NOT] EXISTS, correlated, or [NOT] IN; what is searched for and what is found there may be NULL."""
        inner = self._inner()
        [source, *_] = inner.sources
        if self.choices.chance(2):
            column = self.choices.pick(source.named("int"))
            where = f" WHERE {self._predicate(inner.sources)}" if self.choices.chance(2) else ""
            return f"{self._int_column(from_.sources)} {negated}IN (SELECT {column} FROM {inner.text}{where})"
        also = f" AND {self._predicate(inner.sources)}" if self.choices.chance(2) else ""
        link = self._link_text(self.choices.pick(from_.sources), source)
        return f"{negated}EXISTS (SELECT 1 FROM {inner.text} WHERE {link}{also})"

    def nested_subquery(self) -> ShapedQuery:
        """A subquery that holds another, which knows the rows of both queries around it."""
        from_ = self._from(self.choices.pick([1, 1, 2]))
        made = self._nested(from_, self.choices.between(1, 2))
        if self.choices.chance(3):
            return self._select([*self._terms(from_), Term(f"({made})", "boolean")], from_, key=True)
        return self._select(self._terms(from_), self._filtered(from_.also(made)), key=True)

    def _nested(self, from_: From, depth: int) -> str:
        if not depth:
            return self._any_test(from_)
        inner = self._inner()
        [source, *_] = inner.sources
        link = self._link_text(self.choices.pick(from_.sources), source)
        both = From((*from_.sources, *inner.sources), inner.text)
        within = self._nested(both, depth - 1)
        number, function = self._leaf("int", inner.sources).sql, self.choices.pick(["max", "sum", "count"])
        match self.choices.draw(5):
            case 0 | 1:
                word = self.choices.pick(["EXISTS", "NOT EXISTS"])
                return f"{word} (SELECT 1 FROM {inner.text} WHERE {link} AND {within})"
            case 2:
                # With a column of its own: an aggregate of constants would be one of the query around.
                value = f"{function}({number}) FILTER (WHERE {link} AND {within})"
                return f"{self.choices.between(0, 3)} <= (SELECT {value} FROM {inner.text} WHERE {link})"
            case 3:
                having = f"count(*) > {self._scalar(From((), ''))}"
                return (
                    f"EXISTS (SELECT {function}({number}) FROM {inner.text} WHERE {link} AND {within} HAVING {having})"
                )
            case _:
                chosen = f"SELECT {number} FROM {inner.text} WHERE {link} AND {within}"
                return f"{self._int_column(from_.sources)} {self.choices.pick(['', 'NOT '])}IN ({chosen})"

    def _any_test(self, from_: From) -> str:
        """A condition with a subquery, over rows of any of some sources."""
        if self.choices.chance(3):
            return f"{self._leaf('int', from_.sources).sql} {self.choices.pick(OPERATORS)} {self._scalar(from_)}"
        test = self._subquery_test(from_, self.choices.pick(["", "NOT "]))
        if test.endswith(")") and self.choices.chance(2) and "EXISTS" in test:
            return f"{test[:-1]} AND {self._int_column(from_.sources)} <= {self.choices.between(0, 4)})"
        return test

    def _scalar(self, from_: From) -> str:
        inner, function = self._inner(), self.choices.pick(["count", "max", "sum", "min"])
        sources = [self.choices.pick(from_.sources)] if from_.sources and not self.choices.chance(4) else []
        where = "".join(f" WHERE {self._link_text(source, inner.sources[0])}" for source in sources)
        return f"(SELECT {function}({self._leaf('int', inner.sources).sql}) FROM {inner.text}{where})"

    def having_subquery(self) -> ShapedQuery:
        """A subquery over the key of a group, or over all groups, in HAVING or beside aggregates."""
        from_ = self._filtered(self._from(self.choices.pick([1, 2])))
        key = self._int_column(from_.sources)
        keys = () if "." not in key or self.choices.chance(5) else (Term(key, "int"),)
        alias, _, name = key.partition(".")
        groups = From((Source(alias, (Field(name, "int"),), None),) if keys else (), "")
        terms = [*keys, *(self._aggregate(from_) for _ in range(self.choices.between(1, 2)))]
        tail = f" GROUP BY {key}" if keys else ""
        match self.choices.draw(4 if keys else 2):
            case 0:
                terms.append(Term(self._scalar(groups), "bigint"))
            case 1:
                tail += f" HAVING count(*) {self.choices.pick(OPERATORS)} {self._scalar(groups)}"
            case _:
                tail += f" HAVING {self._any_test(groups)}"
        return self._select(terms, replace(from_, key=None), tail=tail)

    def _inner(self) -> From:
        """What a subquery reads: a table, or two that are joined."""
        return self._from(2, joined=True) if self.choices.chance(5) else self._from(1)

    # outer joins

    def outer_join(self) -> ShapedQuery:
        from_ = self._outer_from(self.choices.pick([2, 2, 3]))
        return self._select(self._terms(from_), self._filtered(from_), key=True)

    def group_of_outer_join(self) -> ShapedQuery:
        return self._grouped(self._outer_from(2))

    def outer_join_on_subquery(self) -> ShapedQuery:
        from_ = self._outer_from(self.choices.pick([2, 2, 3]), on_subquery=True)
        return self._select(self._terms(from_), self._filtered(from_), key=True)

    def _outer_from(self, count: int, *, on_subquery: bool = False) -> From:
        first = self._from(1)
        sources, text, key = list(first.sources), first.text, first.key
        for _ in range(count - 1):
            new = self._source(self.choices.pick(self.tables))
            before, link, determined = self._link(sources, new)
            # PostgreSQL joins FULL by equalities alone.
            kind = self.choices.pick(["LEFT", "RIGHT", "LEFT" if on_subquery else "FULL", "LEFT"])
            if on_subquery:
                link += f" AND {self._any_test(From((before, new), ''))}"
            if kind != "FULL" and self.choices.chance(4):
                link += f" AND {self._predicate([before, new])}"
            key = key if kind == "LEFT" and determined == "new" else None
            text += f" {kind} JOIN {_read(new)} ON {link}"
            nullable = tuple(replace(field, nullable=True) for field in new.fields)
            sources.append(replace(new, fields=nullable))
            if kind != "LEFT":
                sources = [replace(s, fields=tuple(replace(f, nullable=True) for f in s.fields)) for s in sources]
        return From(tuple(sources), text, (), key)

    # several blocks

    def union_all(self) -> ShapedQuery:
        return self._set_operation("UNION ALL")

    def union(self) -> ShapedQuery:
        return self._set_operation("UNION")

    def except_(self) -> ShapedQuery:
        return self._set_operation(self.choices.pick(["EXCEPT", "EXCEPT ALL"]))

    def intersect(self) -> ShapedQuery:
        return self._set_operation(self.choices.pick(["INTERSECT", "INTERSECT ALL"]))

    def _set_operation(self, operator: str) -> ShapedQuery:
        types = ["int", "text", "int"][: self.choices.pick([1, 1, 2, 3])]
        sides = []
        for _ in range(2):
            from_ = self._filtered(self._from(self.choices.pick([1, 1, 2])))
            sides.append(self._select([self._leaf(type_, from_.sources) for type_ in types], from_))
        if operator != "UNION ALL":
            sides = [replace(side, sql=side.plain) for side in sides]
        fields = tuple(Field(f"c{n}", type_) for n, type_ in enumerate(types))
        return ShapedQuery("", f" {operator} ".join(side.sql for side in sides), fields)

    def outer_block(self) -> ShapedQuery:
        """A filter, a join or a grouping over any other query."""
        inner = self.query(self.choices.pick(INNER_SHAPES))
        source = Source(self._alias("b"), inner.fields, inner.key)
        keys = tuple(Term(f"{source.alias}.{name}", inner_type(inner, name), False) for name in inner.key or ())
        from_ = From((source,), f"({inner.plain}) AS {source.alias}", (), keys if inner.key else None)
        from_ = self._filtered(from_, always=True)
        if self.choices.chance(3):
            return self._grouped(from_)
        if self.choices.chance(3):
            from_ = self._with_table(from_)
        return self._select(self._terms(from_), from_, key=True)

    def with_(self) -> ShapedQuery:
        """A common table expression, read once, twice, or beside a table."""
        inner, name = self.query(self.choices.pick(INNER_SHAPES)), self._alias("w")
        one, two = (Source(self._alias("b"), inner.fields, None) for _ in range(2))
        from_ = From((one,), f"{name} AS {one.alias}")
        match self.choices.draw(3):
            case 0:
                from_ = self._filtered(from_, always=True)
            case 1:
                link = self._link_text(one, two)
                from_ = From((one, two), f"{name} AS {one.alias} JOIN {name} AS {two.alias} ON {link}")
            case _:
                from_ = self._with_table(from_)
        made = self._select(self._terms(from_), from_)
        return replace(made, sql=f"WITH {name} AS ({inner.plain}) {made.sql}")

    def _with_table(self, from_: From) -> From:
        [one, *_], new = from_.sources, self._source(self.choices.pick(self.tables))
        text = f"{from_.text} JOIN {_read(new)} ON {self._link_text(one, new)}"
        return replace(from_, sources=(*from_.sources, new), text=text, key=None)

    # what cannot be kept by changes alone

    def top(self) -> ShapedQuery:
        from_ = self._filtered(self._from(1))
        made = self._select(self._terms(from_), from_)
        places = ", ".join(f"{n}{self.choices.pick(['', ' DESC'])}" for n in range(1, len(made.fields) + 1))
        return replace(made, sql=f"{made.sql} ORDER BY {places} LIMIT {self.choices.between(1, 4)}")

    def windowed(self) -> ShapedQuery:
        from_ = self._filtered(self._from(self.choices.pick([1, 1, 2])))
        terms = self._terms(from_)
        over = [self._over(from_) for _ in range(self.choices.between(1, 2))]
        return self._select([*terms, *over], from_, key=True)

    def windowed_subquery(self) -> ShapedQuery:
        """A subquery beside a window function, in its argument, or in its order."""
        from_ = self._filtered(self._from(self.choices.pick([1, 1, 2])))
        part, value = f"PARTITION BY {self._column(from_).sql}", self._scalar(from_)
        match self.choices.draw(5):
            case 0:
                made = [Term(value, "bigint"), self._over(from_)]
            case 1:
                made = [Term(f"({self._nested(from_, self.choices.draw(2))})", "boolean"), self._over(from_)]
            case 2:
                made = [Term(f"sum({value}) OVER ({part})", "bigint")]
            case 3:
                made = [Term(f"rank() OVER ({part} ORDER BY {value})", "bigint", False)]
            case _:
                made = [Term(f"count(*) OVER (PARTITION BY {value})", "bigint", False)]
        return self._select([*self._terms(from_), *made], from_, distinct=self.choices.chance(4))

    def _over(self, from_: From) -> Term:
        everything = ", ".join(f"{s.alias}.{f.name}" for s in from_.sources for f in s.fields)
        part, number = f"PARTITION BY {self._column(from_).sql}", self._leaf("int", from_.sources).sql
        match self.choices.draw(5):
            case 0:
                return Term(f"row_number() OVER ({part} ORDER BY {everything})", "bigint", False)
            case 1:
                return Term(f"rank() OVER ({part} ORDER BY {self._column(from_).sql})", "bigint", False)
            case 2:
                return Term(f"sum({number}) OVER ({part})", "bigint")
            case 3:
                return Term(f"lag({number}) OVER ({part} ORDER BY {everything})", "int")
            case _:
                return Term(f"count(*) OVER ({part} ORDER BY {self._column(from_).sql})", "bigint", False)

    # FROM

    def _from(self, count: int, tables: Sequence[ChangingTable] = (), *, joined: bool = False) -> From:
        chosen = [*tables] or [self.choices.pick(self.tables) for _ in range(count)]
        sources = [self._source(chosen[0])]
        text, conditions = _read(sources[0]), list[str]()
        unknown = sources[0].key is None
        determining = [sources[0].alias]
        comma = self.choices.chance(2) and not joined
        for table in chosen[1:]:
            new = self._source(table)
            old, link, determined = self._link(sources, new)
            if determined != "new":
                determining = [a for a in determining if determined != "old" or a != old.alias] + [new.alias]
            unknown = unknown or new.key is None
            if comma:
                text += f", {_read(new)}"
                conditions.append(link)
            else:
                text += f" JOIN {_read(new)} ON {link}"
            sources.append(new)
        key = tuple(
            Term(f"{s.alias}.{name}", "int", False) for s in sources if s.alias in determining for name in s.key or ()
        )
        return From(tuple(sources), text, tuple(conditions), None if unknown else key)

    def _link(self, before: Sequence[Source], new: Source) -> tuple[Source, str, str]:
        """What joins a source to one before it, and which of the two ("old", "new", or "") the other determines."""
        links = []
        for old in before:
            links += [(old, f"{old.alias}.{c} = {new.alias}.id", "new") for c in _references(old, new)]
            links += [(old, f"{new.alias}.{c} = {old.alias}.id", "old") for c in _references(new, old)]
        if links and not self.choices.chance(4):
            return self.choices.pick(links)
        old = self.choices.pick(before)
        return old, self._link_text(old, new), ""

    def _link_text(self, old: Source, new: Source) -> str:
        """A join on columns that are equal now and then; on an order, sometimes, or on two columns."""
        for type_ in AWKWARD_TYPES:
            left, right = old.named(type_), new.named(type_)
            if left and right and self.choices.chance(2):
                return f"{self.choices.pick(left)} = {self.choices.pick(right)}"
        for type_ in ("int", "bigint", "text"):
            left, right = old.named(type_), new.named(type_)
            if left and right:
                one = f"{self.choices.pick(left)} = {self.choices.pick(right)}"
                if self.choices.chance(6):
                    return f"{one} AND {self.choices.pick(left)} <= {self.choices.pick(right)}"
                return one
        return f"{old.alias}.{old.fields[0].name} IS NOT NULL AND {new.alias}.{new.fields[0].name} IS NOT NULL"

    def _source(self, table: ChangingTable) -> Source:
        return Source(self._alias("a"), table.fields, table.key or None, table)

    def _filtered(self, from_: From, *, always: bool = False) -> From:
        return from_.also(self._predicate(from_.sources)) if always or self.choices.chance(2) else from_

    # the select list

    def _select(
        self, terms: list[Term], from_: From, *, key: bool = False, distinct: bool = False, tail: str = ""
    ) -> ShapedQuery:
        """With `key`, a key of FROM that is there comes first, if there is one."""
        known = from_.key if key else None
        terms = [*(known or ()), *(term for term in terms if term not in (known or ()))]
        items = ", ".join(f"{term.sql} AS c{place}" for place, term in enumerate(terms))
        fields = tuple(Field(f"c{n}", term.type, term.nullable) for n, term in enumerate(terms))
        sql = f"SELECT {'DISTINCT ' if distinct else ''}{items}{DELTA}{from_.tail}{tail}"
        names = tuple(f"c{n}" for n in range(len(known))) if known else None
        return ShapedQuery("", sql, fields, names)

    def _terms(self, from_: From) -> list[Term]:
        return [
            self._expression(from_.sources) if self.choices.chance(3) else self._column(from_)
            for _ in range(self.choices.between(1, 4))
        ]

    def _column(self, from_: From) -> Term:
        source = self.choices.pick(from_.sources)
        field = self.choices.pick([f for f in source.fields if f.type != AVERAGE] or source.fields)
        return Term(f"{source.alias}.{field.name}", field.type, field.nullable)

    def _int_column(self, sources: Sequence[Source]) -> str:
        names = [name for source in sources for name in source.named("int")]
        return self.choices.pick(names) if names else "1"

    def _leaf(self, type_: str, sources: Sequence[Source]) -> Term:
        names = [name for source in sources for name in source.named(type_)]
        if names and not self.choices.chance(8):
            return Term(self.choices.pick(names), type_)
        return Term(literal(type_, self.choices.pick(VALUES[type_])), type_)

    def _expression(self, sources: Sequence[Source]) -> Term:
        def leaf(type_: str) -> str:
            return self._leaf(type_, sources).sql

        match self.choices.draw(7):
            case 0:
                return Term(f"{leaf('int')} {self.choices.pick(['+', '-', '*'])} {leaf('int')}", "int")
            case 1:
                return Term(f"coalesce({leaf('int')}, {leaf('int')}, 9)", "int", False)
            case 2:
                return Term(f"{leaf('text')} || {leaf('text')}", "text")
            case 3:
                return Term(f"CASE WHEN {self._predicate(sources)} THEN {leaf('text')} ELSE 'no' END", "text")
            case 4:
                return Term(f"({self._predicate(sources)})", "boolean")
            case 5:
                return Term(f"length({leaf('text')})", "int")
            case _:
                return Term(f"{leaf('numeric(10,2)')} + {leaf('numeric(10,2)')}", "numeric(11,2)")

    def _predicate(self, sources: Sequence[Source]) -> str:
        source = self.choices.pick(sources)
        field = self.choices.pick([f for f in source.fields if f.type in VALUES] or list(source.fields))
        name = f"{source.alias}.{field.name}"
        if field.type not in VALUES:
            return f"{name} IS NOT NULL"
        one, two = (literal(field.type, self.choices.pick(VALUES[field.type])) for _ in range(2))
        match self.choices.draw(9):
            case 0 | 1:
                return f"{name} {self.choices.pick(OPERATORS)} {one}"
            case 2:
                return f"{name} IS {self.choices.pick(['', 'NOT '])}NULL"
            case 3:
                return f"({name} <> {one} OR {self._predicate(sources)})"
            case 4:
                return f"NOT ({name} = {one} AND {self._predicate(sources)})"
            case 5:
                return f"{name} {self.choices.pick(['', 'NOT '])}IN ({one}, {two})"
            case 6:
                return f"{name} IS DISTINCT FROM {one}"
            case 7:
                return f"{name} BETWEEN {one} AND {two}"
            case _:
                return f"{name} {self.choices.pick(OPERATORS)} {self._leaf(field.type, sources).sql}"

    def _aggregate(self, from_: From) -> Term:
        keep = f" FILTER (WHERE {self._predicate(from_.sources)})" if self.choices.chance(6) else ""
        number = self._leaf("int", from_.sources).sql
        any_, ordered = self._column(from_), self._column(from_)
        if ordered.type == "boolean":
            ordered = self._leaf("int", from_.sources)
        match self.choices.draw(9):
            case 0:
                return Term(f"count(*){keep}", "bigint", False)
            case 1:
                return Term(f"count({any_.sql}){keep}", "bigint", False)
            case 2 | 3:
                return Term(f"sum({number}){keep}", "bigint")
            case 4:
                return Term(f"avg({number}){keep}", AVERAGE)
            case 5:
                return Term(f"{self.choices.pick(['min', 'max'])}({ordered.sql}){keep}", ordered.type)
            case 6:
                return Term(f"count(DISTINCT {any_.sql}){keep}", "bigint", False)
            case 7:
                claim = self._predicate(from_.sources)
                return Term(f"{self.choices.pick(['bool_or', 'bool_and'])}({claim}){keep}", "boolean")
            case _:
                return Term(f"sum({self._leaf('numeric(10,2)', from_.sources).sql}){keep}", "numeric(20,2)")

    def _alias(self, letter: str) -> str:
        self.aliases += 1
        return f"{letter}{self.aliases}"


INNER_SHAPES = ("filter", "join", "group", "group_of_join", "union_all", "distinct", "outer_join", "anti_join", "union")
SHAPES: dict[str, Callable[[DeltaQueryMaker], ShapedQuery]] = {
    "filter": DeltaQueryMaker.filter,
    "join": DeltaQueryMaker.join,
    "group": DeltaQueryMaker.group,
    "anti_join": DeltaQueryMaker.anti_join,
    "outer_join": DeltaQueryMaker.outer_join,
    "having": DeltaQueryMaker.having,
    "union_all": DeltaQueryMaker.union_all,
    "semi_join": DeltaQueryMaker.semi_join,
    "aggregate": DeltaQueryMaker.aggregate,
    "self_join": DeltaQueryMaker.self_join,
    "distinct": DeltaQueryMaker.distinct,
    "outer_block": DeltaQueryMaker.outer_block,
    "wide_join": DeltaQueryMaker.wide_join,
    "union": DeltaQueryMaker.union,
    "group_of_join": DeltaQueryMaker.group_of_join,
    "with": DeltaQueryMaker.with_,
    "scalar_subquery": DeltaQueryMaker.scalar_subquery,
    "except": DeltaQueryMaker.except_,
    "group_of_outer_join": DeltaQueryMaker.group_of_outer_join,
    "group_of_semi_join": DeltaQueryMaker.group_of_semi_join,
    "intersect": DeltaQueryMaker.intersect,
    "top": DeltaQueryMaker.top,
    "windowed": DeltaQueryMaker.windowed,
    "nested_subquery": DeltaQueryMaker.nested_subquery,
    "outer_join_on_subquery": DeltaQueryMaker.outer_join_on_subquery,
    "having_subquery": DeltaQueryMaker.having_subquery,
    "windowed_subquery": DeltaQueryMaker.windowed_subquery,
}
WINDOWED = ("windowed", "windowed_subquery")
"""While a continuous query of this shape is there, its tables take nothing but INSERT."""


def inner_type(query: ShapedQuery, name: str) -> str:
    return next(field.type for field in query.fields if field.name == name)


def _references(child: Source, parent: Source) -> list[str]:
    if child.table is None or parent.table is None:
        return []
    return [reference.column for reference in child.table.references if reference.parent == parent.table.name]


def _read(source: Source) -> str:
    assert source.table is not None
    return f"{source.table.name} AS {source.alias}"


def _distinct(terms: Sequence[Term]) -> list[Term]:
    return list({term.sql: term for term in terms}.values())


# window functions over a table that only grows


@dataclass(frozen=True)
class Growing:
    """Measures of several places; `at` increases in each, strictly or not."""

    strictly: bool

    @property
    def tables(self) -> tuple[ChangingTable, ...]:
        ticks = (Field("loc", "int", False), Field("at", "int", False), Field("temp", "int"), Field("t", "text"))
        places = (Field("id", "int", False), Field("g", "int", False))
        return ChangingTable("places", places, ("id",)), ChangingTable("ticks", ticks)

    @property
    def constraint(self) -> str:
        how = "STRICTLY INCREASING" if self.strictly else "INCREASING"
        return f"ALTER TABLE ticks ADD CONSTRAINT up {how} at PARTITION BY loc"


class GrowthMaker:
    """Makes inserts only."""

    def __init__(self, choices: Choices, growing: Growing) -> None:
        self.choices, self.growing = choices, growing

    def first_rows(self, table: ChangingTable, state: State) -> str:
        if table.name == "places":
            return "INSERT INTO places (id, g) VALUES (0, 1), (1, 1), (2, 2)"
        return self.statements(state)[0]

    def statements(self, state: State) -> list[str]:
        last = dict.fromkeys(range(3), 0)
        for row in state["ticks"]:
            last[row["loc"]] = max(last[row["loc"]], row["at"])
        rows = []
        for _ in range(self.choices.between(1, 5)):
            place = self.choices.draw(3)
            last[place] += self.choices.between(1, 3) if self.growing.strictly else self.choices.between(0, 2)
            temp = "NULL" if self.choices.chance(6) else str(self.choices.between(70, 99))
            rows.append(f"({place}, {last[place]}, {temp}, {self.choices.pick(VALUES['text'])})")
        return [f"INSERT INTO ticks (loc, at, temp, t) VALUES {', '.join(rows)}"]


def window_query(choices: Choices, growing: Growing) -> ShapedQuery:
    """Frames that end at the row; those of ROWS, and lag, only where the order has no ties."""
    functions = ["sum", "count", "min", "max", "avg"]
    frames = ["RANGE BETWEEN 4 PRECEDING AND CURRENT ROW", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", ""]
    if growing.strictly:
        frames += [
            f"ROWS BETWEEN {choices.between(1, 3)} PRECEDING AND {end}" for end in ("CURRENT ROW", "1 PRECEDING")
        ]
        frames += ["ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"]
    over = "PARTITION BY m.loc ORDER BY m.at"
    value = f"{choices.pick(functions)}(m.temp) OVER ({over} {choices.pick(frames)})"
    if growing.strictly and choices.chance(3):
        value = f"lag(m.temp, {choices.between(1, 2)}) OVER ({over})"
    from_, where = "ticks AS m", ""
    if choices.chance(4):
        from_, where = "ticks AS m JOIN places AS p ON p.id = m.loc", " WHERE p.g = 1"
    items = f"m.loc AS c0, m.at AS c1, m.temp AS c2, {value} AS c3"
    fields = tuple(Field(f"c{n}", "int") for n in range(4))
    if choices.chance(3):
        inner = f"SELECT {items} FROM {from_}{where}"
        limit = choices.between(75, 95)
        sql = f"SELECT c0, c1, c2, c3{DELTA} FROM ({inner}) AS w WHERE c2 >= {limit} AND c3 < {limit + 2}"
        return ShapedQuery("window", sql, fields)
    return ShapedQuery("window", f"SELECT {items}{DELTA} FROM {from_}{where}", fields)
