"""Groups whose aggregates can take rows back: count, sum and avg of exact numbers (section 8 of the paper). Where rows
only come, also min, max and others that merge by themselves.

What is known of a group are sums; rows that came add to them, rows that went are taken away:

    before  =  the sums of groups that a change touches
    after   =  before  +  what came  -  what went

Where the sums of all groups are kept (the paper's backing aggregate), before is read there, and a change costs what it
touches, however many rows its groups have. Else the rows of these groups are read once, as they were. Commits can be
told apart, since each adds its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.plan.context import COMMIT, WEIGHT, ScanKey
from midstream.plan.cut.aggregates import name_of_call
from midstream.plan.cut.build import (
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
    NOT_DISTINCT,
    aggregate,
    aggregates_of,
    both,
    call,
    derived,
    number,
    output,
    plain_column,
    select,
    stored_column,
    text_of,
)
from midstream.plan.cut.rewriting import with_parts
from midstream.plan.difference.steps import Step
from midstream.plan.functions.model import numeric_digits
from midstream.plan.functions.partials import WIDE
from midstream.plan.nodes import bare, is_query
from midstream.plan.typing.conversion import convert, null_of
from midstream.plan.typing.nodes import AggregateCall, type_of, typed
from midstream.relations.view import Derived
from midstream.types import BIGINT, BOOLEAN, DOUBLE, NUMERIC, Type

if TYPE_CHECKING:
    from midstream.plan.difference.terms import Terms

Node = exp.Expression
_Read = Callable[[], exp.Select]
_INTEGERS = ("smallint", "int", "bigint")
_SUMS = ("count", "sum", "avg")
_MERGE_THEMSELVES = ("min", "max", "any_value", "bool_and", "bool_or", "every", "bit_and", "bit_or")


@dataclass(frozen=True)
class _Sum:
    """A column of what is kept: a sum over rows, which merges by a sum of sums."""

    name: str
    type: Type
    first: Callable[[str], Node]
    merge: str
    """The aggregate that merges it."""
    adds_up: bool = True
    """Whether it is a number to which nothing adds nought."""

    def merged(self, alias: str) -> Node:
        total = aggregate(self.merge, [plain_column(alias, self.name, self.type)], self.type)
        if not self.adds_up:
            return total
        zero = convert(number(0), self.type) if self.type != BIGINT else number(0)
        return call("coalesce(anyelement, ...)", total, zero, type_=self.type)

    def negated(self, alias: str) -> Node:
        signature = "-(bigint)" if self.type == BIGINT else "-(numeric)"
        return call(signature, plain_column(alias, self.name, self.type), type_=self.type)


@dataclass(frozen=True)
class _Kept:
    columns: tuple[_Sum, ...]
    finish: Callable[[str], Node]


PRESENCE = _Sum("n", BIGINT, lambda alias: aggregate("count()", [], BIGINT), "sum(bigint)")
"""How many rows a group has."""

KEPT, NEWER = "kept", "newer"
"""What was kept before a change; of that, what came last and is to become one with the change."""


def terms_of(terms: Terms, query: exp.Select, keys: Sequence[Node]) -> list[exp.Select] | None:
    """None: some aggregate cannot take rows back."""
    groups = Groups.of(terms, query, keys)
    return groups.terms() if groups is not None else None


@dataclass(frozen=True)
class Groups:
    """A grouping query over rows that have its keys, k0, k1, …, and then the arguments of its aggregates. Without keys
    there is one group, which is there even if no row is."""

    owner: Terms
    query: exp.Select
    keys: Sequence[Node]
    arguments: Sequence[Node]
    kept: dict[str, _Kept]
    """How each aggregate is kept, by its text."""
    grows: bool = False
    """Whether rows only come."""

    @classmethod
    def of(cls, terms: Terms, query: exp.Select, keys: Sequence[Node], *, grows: bool = False) -> Groups | None:
        nodes = [bare(node) for node in query.expressions]
        nodes += [query.args["having"].this] if query.args.get("having") else []
        own = [found for node in nodes for found in node.walk()]
        if any(is_query(found) or (isinstance(found, AggregateCall) and found.this == "grouping") for found in own):
            return None
        calls = {text_of(found): found for node in nodes for found in aggregates_of(node)}
        arguments: list[Node] = []
        kept: dict[str, _Kept] = {}
        for number_, (text, node) in enumerate(calls.items()):
            made = _kept(node, arguments, len(keys), f"p{number_}", grows)
            if made is None:
                return None
            kept[text] = made
        if not keys and not arguments:
            # A row must have something, where it only counts.
            arguments.append(number(1))
        return cls(terms, query, keys, arguments, kept, grows)

    # --- what is computed ------------------------------------------------------------------------

    def terms(self) -> list[exp.Select]:
        from midstream.plan.difference.terms import united

        change = self.change()
        if change is None:
            return []
        text = ", ".join(node.name if isinstance(node, exp.Column) else "…" for node in self.keys)
        self.owner.note(
            Step(
                "groups", self.owner.named(self.query), f"GROUP BY {_short(text)}" if text else "one group of all rows"
            )
        )
        is_kept = self.owner.is_backed(self.query)
        before = self.owner.share("before", self.kept_before(change()) if is_kept else self._read_before(change()))
        everything = united([before(), *self._moved(change)])
        if self.owner.by_commit:
            return self._by_commit(self.owner.share("sums", everything), change)
        return [self._answer(everything, 1), self._answer(before(), -1)]

    def whole(self) -> exp.Select:
        """The sums of all groups."""
        return self._sums(self._rows())

    def fold(self) -> exp.Select | None:
        """What a change adds to the sums, together with what was added last; None: it adds nothing."""
        from midstream.plan.difference.terms import united

        change = self.change()
        return self._merged(united([*self._moved(change), self._kept(NEWER)])) if change is not None else None

    @property
    def stored(self) -> tuple[tuple[str, Type], ...]:
        """The columns of sums that are kept."""
        kinds = [kind for _, kind in self.types()[: len(self.keys)]] + [column.type for column in self.columns()]
        return tuple((f"c{place}", kind) for place, kind in enumerate(kinds))

    def _rows(self) -> exp.Select:
        from midstream.plan.difference.terms import blocks_rows

        return blocks_rows(self.query, [*self.keys, *self.arguments])

    def change(self) -> _Read | None:
        """The rows that came and went."""
        from midstream.plan.difference.terms import united

        changes = self.owner.of_query(self._rows())
        return self.owner.share("change", united(changes)) if changes else None

    def _moved(self, change: _Read) -> list[exp.Select]:
        """What came, and what went with the other sign."""
        came = self._sums(self.signed(change(), 1))
        return [came] if self.grows else [came, self._taken(self._sums(self.signed(change(), -1)))]

    def _kept(self, name: str) -> exp.Select:
        """All sums that are kept under a name."""
        alias, names = self._alias("s"), [*(k for k, _ in self._key_types()), *(c.name for c in self.columns())]
        item = self.owner.images.binding.scan(ScanKey(Derived(name, self.stored), "state", None), alias)
        columns = [(to, stored_column(alias, at, kind)) for to, (at, kind) in zip(names, self.stored, strict=True)]
        return select(columns, item)

    def kept_before(self, change: Node) -> exp.Select:
        """The sums of groups that a change touches, where sums are kept."""
        kept = self._kept(KEPT)
        if self.keys:
            self.owner.restrict(
                kept, self._touched(change), [bare(n) for n in kept.expressions[: len(self.keys)]], nulls=True
            )
        return self._merged(kept)

    def _merged(self, sums: Node) -> exp.Select:
        """Sums of sums."""
        alias = self._alias("m")
        keys = self.key_columns(alias)
        commit = [(COMMIT, number(0))] if self.owner.by_commit else []
        merged = [(column.name, column.merged(alias)) for column in self.columns()]
        return select([*keys, *commit, *merged], derived(sums, alias), group=[node for _, node in keys])

    def _alias(self, name: str) -> str:
        return self.owner.images.binding.fresh_alias(name)

    def types(self) -> list[tuple[str, Type]]:
        return [(f"k{place}", type_of(node)) for place, node in enumerate([*self.keys, *self.arguments])]

    def _key_types(self) -> list[tuple[str, Type]]:
        return self.types()[: len(self.keys)]

    def key_columns(self, alias: str) -> list[tuple[str, Node]]:
        return [(name, plain_column(alias, name, kind)) for name, kind in self._key_types()]

    def _touched(self, change: Node) -> exp.Select:
        """The keys of groups that a change touches."""
        alias = self._alias("k")
        touched = select(self.key_columns(alias), derived(change, alias))
        touched.set("distinct", exp.Distinct())
        return touched

    def _read_before(self, change: Node) -> exp.Select:
        """The sums of groups that a change touches, from their rows as they were."""
        there = self._rows()
        if self.keys:
            self.owner.restrict(there, self._touched(change), self.keys, nulls=True)
        found = self.owner.images.fresh(there)
        self.owner.images.put_before(found)
        if not self.owner.by_commit:
            return self._sums(found)
        outer = self._alias("q")
        columns = [(name, plain_column(outer, name, kind)) for name, kind in self.types()]
        return self._sums(select([*columns, (COMMIT, number(0))], derived(found, outer)))

    def signed(self, change: Node, sign: int) -> Node:
        """The rows that came, or those that went."""
        alias = self._alias("d")
        columns = [(name, plain_column(alias, name, kind)) for name, kind in self.types()]
        if self.owner.by_commit:
            columns.append((COMMIT, plain_column(alias, COMMIT, BIGINT)))
        signature = GREATER if sign > 0 else LESS
        where = call(signature, plain_column(alias, WEIGHT, BIGINT), number(0))
        return select(columns, derived(change, alias), where=where)

    def columns(self) -> list[_Sum]:
        return [PRESENCE, *(column for kept in self.kept.values() for column in kept.columns)]

    def _sums(self, rows: Node) -> exp.Select:
        """What is kept of each group of rows."""
        alias = self._alias("r")
        keys = self.key_columns(alias)
        if self.owner.by_commit:
            keys.append((COMMIT, plain_column(alias, COMMIT, BIGINT)))
        sums = [(column.name, column.first(alias)) for column in self.columns()]
        return select([*keys, *sums], derived(rows, alias), group=[node for _, node in keys])

    def _taken(self, sums: exp.Select) -> exp.Select:
        """The same with the other sign."""
        alias = self._alias("w")
        keys = self.key_columns(alias)
        if self.owner.by_commit:
            keys.append((COMMIT, plain_column(alias, COMMIT, BIGINT)))
        return select([*keys, *((c.name, c.negated(alias)) for c in self.columns())], derived(sums, alias))

    # --- the answer --------------------------------------------------------------------------------

    def _answer(self, sums: Node, weight: int) -> exp.Select:
        alias = self._alias("g")
        found = self._finished(alias, derived(sums, alias), self.key_columns(alias))
        found.set("expressions", [*found.expressions, output(number(weight), WEIGHT)])
        return found

    def _finished(
        self, alias: str, item: Node, keys: Sequence[tuple[str, Node]], joins: Sequence[exp.Join] = ()
    ) -> exp.Select:
        named = {text_of(node): column for node, (_, column) in zip(self.keys, keys, strict=False)}

        def rewritten(node: Node) -> Node:
            text = text_of(node)
            if text in named:
                return named[text].copy()
            if isinstance(node, AggregateCall):
                return self.kept[text].finish(alias)
            return with_parts(node, rewritten)

        outputs = [(node.alias_or_name, rewritten(bare(node).copy())) for node in self.query.expressions]
        found = select(outputs, item, joins=joins, group=[node for _, node in keys])
        having = self.query.args.get("having")
        conditions = [call(GREATER, PRESENCE.merged(alias), number(0))] if self.keys else []
        conditions += [rewritten(having.this.copy())] if having is not None else []
        if conditions:
            found.set("having", exp.Having(this=both(conditions)))
        return found

    def _by_commit(self, everything: _Read, change: _Read) -> list[exp.Select]:
        """For each group and each commit that touches it: what there was up to it, and what there was before it."""
        found = []
        for signature, weight in ((AT_MOST, 1), (LESS, -1)):
            touched, sums = self._alias("t"), self._alias("g")
            inner = self._alias("d")
            columns = [*self.key_columns(inner), (COMMIT, plain_column(inner, COMMIT, BIGINT))]
            commits = select(columns, derived(change(), inner))
            commits.set("distinct", exp.Distinct())
            keys = [*self.key_columns(touched), (COMMIT, plain_column(touched, COMMIT, BIGINT))]
            same = [
                call(NOT_DISTINCT, plain_column(sums, name, kind), plain_column(touched, name, kind))
                for name, kind in self._key_types()
            ]
            earlier = call(signature, plain_column(sums, COMMIT, BIGINT), plain_column(touched, COMMIT, BIGINT))
            # The one group of all rows is there before its first row came.
            join = exp.Join(
                this=derived(everything(), sums), on=both([*same, earlier]), side="" if self.keys else "LEFT"
            )
            answer = self._finished(sums, derived(commits, touched), keys, [join])
            marks = [output(keys[-1][1], COMMIT), output(number(weight), WEIGHT)]
            answer.set("expressions", [*answer.expressions, *marks])
            found.append(answer)
        return found


# --- aggregates ----------------------------------------------------------------------------------------


def _kept(node: AggregateCall, arguments: list[Node], offset: int, name: str, grows: bool) -> _Kept | None:
    """How an aggregate is kept; its arguments join the others, whose columns are k<offset>, …"""
    kind = name_of_call(node)
    merges_itself = grows and kind in _MERGE_THEMSELVES
    if node.args.get("distinct") or node.args.get("order") or (kind not in _SUMS and not merges_itself):
        return None
    if any(is_query(found) for found in node.walk()):
        return None
    values = [*node.expressions]
    if kind in ("sum", "avg") and type_of(values[0]).name not in (*_INTEGERS, "numeric"):
        return None

    def taken(value: Node) -> Callable[[str], Node]:
        place, type_ = offset + len(arguments), type_of(value)
        arguments.append(value.copy())
        return lambda alias: plain_column(alias, f"k{place}", type_)

    passing = taken(node.args["filter"]) if node.args.get("filter") else None
    value = taken(values[0]) if values else None

    def over(signature: str, type_: Type) -> Callable[[str], Node]:
        def first(alias: str) -> Node:
            given = [value(alias)] if value is not None else []
            return aggregate(signature, given, type_, where=passing(alias) if passing is not None else None)

        return first

    if merges_itself:
        own = _Sum(f"{name}_m", type_of(node), over(node.this, type_of(node)), node.this, adds_up=False)
        return _Kept((own,), own.merged)
    count = _Sum(f"{name}_n", BIGINT, over("count(any)" if values else "count()", BIGINT), "sum(bigint)")
    if kind == "count":
        return _Kept((count,), count.merged)
    total = _total(name, type_of(values[0]), over)
    return _Kept((total, count), lambda alias: _or_null(count, alias, _finish(node, total, count, alias)))


def _total(name: str, kind: Type, over: Callable[[str, Type], Callable[[str], Node]]) -> _Sum:
    if kind.name == "numeric":
        wide = NUMERIC(38, numeric_digits(kind)[1])
        return _Sum(f"{name}_s", wide, _or_nought(over("wide sum(numeric)", wide), wide), "wide sum(numeric)")
    if kind.name == "bigint":
        return _Sum(f"{name}_s", WIDE, _or_nought(over("wide sum(bigint)", WIDE), WIDE), "wide sum(numeric)")
    return _Sum(f"{name}_s", BIGINT, _or_nought(over(f"sum({kind.name})", BIGINT), BIGINT), "sum(bigint)")


def _or_nought(first: Callable[[str], Node], kind: Type) -> Callable[[str], Node]:
    zero = convert(number(0), kind) if kind != BIGINT else number(0)
    return lambda alias: call("coalesce(anyelement, ...)", first(alias), zero.copy(), type_=kind)


def _finish(node: AggregateCall, total: _Sum, count: _Sum, alias: str) -> Node:
    value, kind = total.merged(alias), type_of(node.expressions[0])
    if name_of_call(node) == "sum":
        return convert(value, type_of(node))
    rows = count.merged(alias)
    if kind.name == "numeric":
        precision, scale = numeric_digits(kind)
        narrow = convert(value, NUMERIC(min(38, precision + 10), scale))
        return call("exact average(numeric, bigint)", narrow, rows, type_=type_of(node))
    return call("ratio of(double precision, double precision)", convert(value, DOUBLE), convert(rows, DOUBLE))


def _or_null(count: _Sum, alias: str, value: Node) -> Node:
    """NULL where no value is left."""
    none = typed(call(EQUAL, count.merged(alias), number(0)), BOOLEAN)
    return typed(
        exp.Case(ifs=[exp.If(this=none, true=null_of(type_of(value)))], default=value),
        type_of(value),
    )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
