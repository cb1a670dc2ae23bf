"""Aggregates as data: which columns keep one, how partials of it merge, and how the answer is read off them.

    avg(x)      keeps sum(x) and count(x); both merge by sum; the answer is their quotient

What needs the values themselves (DISTINCT, median, array_agg, …) keeps them as further keys of a pipeline of its own,
each with how often it came: `valued` says what the keys are and what is then computed over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from midstream.plan.cut.build import Node, aggregate, both, call, count_of_rows, digest, number, stored_column, text_of
from midstream.plan.functions import FUNCTIONS
from midstream.plan.functions.model import numeric_digits
from midstream.plan.functions.partials import (
    HIGH_PART,
    MOST_SUMMED_DIGITS,
    ONE_VALUE,
    TWO_VALUES,
    VECTOR,
    WIDE,
    low_part_type,
)
from midstream.plan.typing.conversion import convert
from midstream.plan.typing.nodes import AggregateCall, type_of, typed
from midstream.types import BIGINT, DOUBLE, INT, NUMERIC, TEXT, Type, array_of

Merge = Callable[[str], Node]
"""An aggregate over the partials of a source with this alias."""


@dataclass(frozen=True)
class StateColumn:
    """One column of partials: an aggregate over rows, and one over partials that gives the same again."""

    name: str
    type: Type
    first: Node = field(compare=False)
    merge: Merge = field(compare=False)
    adds: bool = False
    """Whether partials are exact sums: what one has added can be taken away again."""


@dataclass(frozen=True)
class KeptAggregate:
    columns: tuple[StateColumn, ...]
    finish: Callable[[str], Node]
    """The answer, from partials of a source with this alias: an expression over merges."""


Maker = Callable[[AggregateCall, "Node | None"], "KeptAggregate | None"]


def name_of_call(node: AggregateCall) -> str:
    return FUNCTIONS[node.this].name


def _column(first: Node, signature: str) -> StateColumn:
    """A column that merges by an aggregate of itself."""
    kind = type_of(first)
    name = "p_" + digest(f"{text_of(first)} {kind}")
    return StateColumn(
        name,
        kind,
        first,
        lambda alias: aggregate(signature, [stored_column(alias, name, kind)], kind),
        signature in _EXACT_SUMS,
    )


_EXACT_SUMS = frozenset(["sum(bigint)", "wide sum(numeric)"])


def presence(where: Node | None) -> StateColumn:
    """How many rows a partial is made of."""
    return _column(count_of_rows(where), "sum(bigint)")


def kept(node: AggregateCall, where: Node | None) -> KeptAggregate | None:
    """How to keep an aggregate over the rows that a condition lets through; None: not without its values."""
    name = name_of_call(node)
    passing = both([node.args.get("filter"), where])
    if node.args.get("distinct") and name not in _SAME_OF_DISTINCT:
        return None
    maker = _MAKERS.get(name)
    if maker is None and name in _SAME:
        maker = _same
    return maker(node, passing) if maker is not None else None


_SAME = frozenset("min max any_value bool_and bool_or every bit_and bit_or".split())
_SAME_OF_DISTINCT = _SAME | {"first", "last"}
"""It makes no difference how often a value comes."""


def _same(node: AggregateCall, where: Node | None) -> KeptAggregate:
    column = _column(aggregate(str(node.this), node.expressions, type_of(node), where=where), str(node.this))
    return KeptAggregate((column,), column.merge)


def _count(node: AggregateCall, where: Node | None) -> KeptAggregate:
    column = _column(aggregate(str(node.this), node.expressions, BIGINT, where=where), "sum(bigint)")
    return KeptAggregate((column,), lambda alias: _or_zero(column.merge(alias)))


def _count_if(node: AggregateCall, where: Node | None) -> KeptAggregate:
    """count_if(x) is count(*) FILTER (WHERE x)."""
    [condition] = node.expressions
    column = _column(count_of_rows(both([condition.copy(), where])), "sum(bigint)")
    return KeptAggregate((column,), lambda alias: _or_zero(column.merge(alias)))


def _or_zero(node: Node) -> Node:
    return call("coalesce(anyelement, ...)", node, number(0), type_=BIGINT)


@dataclass(frozen=True)
class _Total:
    """The sum of the arguments in types that hold it, however the rows are cut."""

    columns: tuple[StateColumn, ...]
    merge: Merge


def _total(node: AggregateCall, where: Node | None) -> _Total:
    [value] = node.expressions
    kind = type_of(value)
    if kind.name == "numeric":
        precision, scale = numeric_digits(kind)
        if precision > MOST_SUMMED_DIGITS >= scale:
            return _total_of_parts(value, scale, where)
        wide = NUMERIC(38, scale)
        column = _column(aggregate("wide sum(numeric)", [value], wide, where=where), "wide sum(numeric)")
    elif kind.is_float:
        column = _column(aggregate(f"sum({kind.name})", [value], DOUBLE, where=where), "sum(double precision)")
    elif kind.name == "bigint":
        column = _column(aggregate("wide sum(bigint)", [value], WIDE, where=where), "wide sum(numeric)")
    else:
        column = _column(aggregate(f"sum({kind.name})", [value], BIGINT, where=where), "sum(bigint)")
    return _Total((column,), column.merge)


def _total_of_parts(value: Node, scale: int, where: Node | None) -> _Total:
    """No type of both kernels has more than 38 digits, but a sum may on its way."""
    wide = NUMERIC(38, scale)
    parts = [
        (call("high part(numeric)", value.copy(), type_=HIGH_PART), WIDE),
        (call("low part(numeric)", value.copy(), type_=low_part_type(scale)), wide),
    ]
    high, low = (
        _column(aggregate("wide sum(numeric)", [part], kind, where=where), "wide sum(numeric)") for part, kind in parts
    )
    return _Total(
        (high, low),
        lambda alias: call("sum of parts(numeric, numeric)", high.merge(alias), low.merge(alias), type_=wide),
    )


def _sum(node: AggregateCall, where: Node | None) -> KeptAggregate:
    total = _total(node, where)
    return KeptAggregate(total.columns, lambda alias: convert(total.merge(alias), type_of(node)))


def _avg(node: AggregateCall, where: Node | None) -> KeptAggregate:
    sums = _total(node, where)
    count = _column(aggregate("count(any)", node.expressions, BIGINT, where=where), "sum(bigint)")
    kind = type_of(node.expressions[0])

    def finish(alias: str) -> Node:
        total, rows = sums.merge(alias), count.merge(alias)
        if kind.name == "numeric":
            precision, scale = numeric_digits(kind)
            narrow = convert(total, NUMERIC(min(38, precision + 10), scale))
            return call("exact average(numeric, bigint)", narrow, rows, type_=type_of(node))
        return call("ratio of(double precision, double precision)", convert(total, DOUBLE), convert(rows, DOUBLE))

    return KeptAggregate((*sums.columns, count), finish)


def _of_moments(first: str, merge: str) -> Maker:
    """Statistics that a vector of moments has the answer to."""

    def make(node: AggregateCall, where: Node | None) -> KeptAggregate:
        column = _column(aggregate(first, node.expressions, VECTOR, where=where), merge)
        signature = f"finish {name_of_call(node)}(double precision[])"
        return KeptAggregate((column,), lambda alias: call(signature, column.merge(alias)))

    return make


def _by_key(node: AggregateCall, where: Node | None) -> KeptAggregate:
    """min_by and max_by: the extreme key and what came with it."""
    value, key = node.expressions
    signature = str(node.this)

    def first(argument: Node) -> Node:
        return aggregate(signature, [argument, key], type_of(argument), where=where)

    key_name = "p_" + digest(f"key of {text_of(first(key))} {type_of(key)}")
    value_name = "p_" + digest(f"{text_of(first(value))} {type_of(value)}")

    def merged(name: str, argument: Node) -> Merge:
        def merge(alias: str) -> Node:
            columns = [
                stored_column(alias, name, type_of(argument)),
                stored_column(alias, key_name, type_of(key)),
            ]
            return aggregate(signature, columns, type_of(argument))

        return merge

    columns = (
        StateColumn(value_name, type_of(value), first(value), merged(value_name, value)),
        StateColumn(key_name, type_of(key), first(key), merged(key_name, key)),
    )
    return KeptAggregate(columns, columns[0].merge)


def _by_order(node: AggregateCall, where: Node | None) -> KeptAggregate | None:
    """first and last by order: the row that wins, with all that it is sorted by."""
    order = node.args.get("order")
    if order is None:
        return None
    ordering = list(order.expressions)
    rows = presence(where)
    base = digest(text_of(aggregate(str(node.this), node.expressions, type_of(node), where=where, order=ordering)))
    values = [node.expressions[0], *(part.this for part in ordering)]
    names = [f"p_{base}_{number_}" for number_ in range(len(values))]

    def sorted_by(columns: Sequence[Node]) -> list[exp.Ordered]:
        return [_reordered(part, column) for part, column in zip(ordering, columns, strict=True)]

    def merge(index: int) -> Merge:
        def merged(alias: str) -> Node:
            columns = [stored_column(alias, name, type_of(value)) for name, value in zip(names, values, strict=True)]
            there = call(">(comparable, comparable)", stored_column(alias, rows.name, BIGINT), number(0))
            kind = type_of(values[index])
            return aggregate(str(node.this), [columns[index]], kind, where=there, order=sorted_by(columns[1:]))

        return merged

    columns = [
        StateColumn(
            names[index],
            type_of(value),
            aggregate(str(node.this), [value], type_of(value), where=where, order=ordering),
            merge(index),
        )
        for index, value in enumerate(values)
    ]
    return KeptAggregate((*columns, rows), columns[0].merge)


def _reordered(part: exp.Expression, column: Node) -> exp.Ordered:
    return exp.Ordered(this=column.copy(), desc=part.args.get("desc"), nulls_first=part.args.get("nulls_first"))


_SPREAD = _of_moments("moments of(double precision)", "merge moments(double precision[])")
_JOINT = _of_moments("joint moments of(double precision, double precision)", "merge joint moments(double precision[])")
_MAKERS: dict[str, Maker] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "avg": _avg,
    "bit_xor": _same,
    "min_by": _by_key,
    "max_by": _by_key,
    "first": _by_order,
    "last": _by_order,
    **dict.fromkeys(ONE_VALUE, _SPREAD),
    **dict.fromkeys(TWO_VALUES, _JOINT),
}


# --- with the values themselves --------------------------------------------------------------------


@dataclass(frozen=True)
class ValuedAggregate:
    """An aggregate over values that are keys: `keys` and a condition over rows, then a query over the values.

    `over(columns, weight, upto, total)` is the aggregate over values with their weights; `ranked` says that it asks how
    many values are not after one, in the order of the first column."""

    keys: tuple[Node, ...]
    where: Node | None
    over: Callable[[Sequence[Node], Node, Node | None, Node | None], Node]
    ranked: bool = False
    descending: bool = False
    skips_nulls: bool = True
    rank: Node | None = None
    """For a sketch: what is kept the largest of, in place of a weight."""


def valued(node: AggregateCall, where: Node | None) -> ValuedAggregate | None:
    """How to keep an aggregate with its values; None: it cannot be kept."""
    passing = both([node.args.get("filter"), where])
    name = name_of_call(node)
    if name in _VALUED:
        return _VALUED[name](node, passing)
    if node.args.get("distinct") and _is_keepable(node):
        return _distinct(node, passing)
    return None


def _is_keepable(node: AggregateCall) -> bool:
    if name_of_call(node) == "count_if":
        return False
    plain = node.copy()
    plain.set("distinct", False)
    return kept(typed(plain, type_of(node)), None) is not None


def _distinct(node: AggregateCall, where: Node | None) -> ValuedAggregate:
    """Each value once: the same aggregate over the values."""

    def over(columns: Sequence[Node], weight: Node, upto: Node | None, total: Node | None) -> Node:
        return aggregate(str(node.this), columns, type_of(node))

    return ValuedAggregate(tuple(node.expressions), where, over, skips_nulls=False)


def _with_weight(node: AggregateCall, weight: Node) -> Node:
    return number(1) if node.args.get("distinct") else weight


def _listed(node: AggregateCall, where: Node | None) -> ValuedAggregate | None:
    """array_agg and string_agg: the values and what they are sorted by."""
    order = node.args.get("order")
    if order is None and not node.args.get("distinct"):
        return None
    ordering = list(order.expressions) if order is not None else []
    is_text = name_of_call(node) == "string_agg"
    value = node.expressions[0]

    def over(columns: Sequence[Node], weight: Node, upto: Node | None, total: Node | None) -> Node:
        sorting = [_reordered(part, column) for part, column in zip(ordering, columns[1:], strict=True)]
        # What is equal in all of these comes in one order, however the rows came.
        sorting.append(exp.Ordered(this=columns[0].copy(), desc=False, nulls_first=False))
        weighted = [columns[0], _with_weight(node, weight)]
        if is_text:
            arguments = [*weighted, node.expressions[1]]
            return aggregate("repeated texts(text, bigint, text)", arguments, TEXT, order=sorting)
        return aggregate("repeated values(any, bigint)", weighted, array_of(type_of(value)), order=sorting)

    keys = (value, *(part.this for part in ordering))
    return ValuedAggregate(keys, where, over, skips_nulls=is_text)


def _mode(node: AggregateCall, where: Node | None) -> ValuedAggregate:
    [ordered] = node.args["order"].expressions

    def over(columns: Sequence[Node], weight: Node, upto: Node | None, total: Node | None) -> Node:
        most = exp.Ordered(this=weight.copy(), desc=True, nulls_first=False)
        order = [most, _reordered(ordered, columns[0])]
        return aggregate("first(any)", [columns[0]], type_of(node), order=order)

    return ValuedAggregate((ordered.this,), where, over)


def _percentile(node: AggregateCall, where: Node | None) -> ValuedAggregate:
    name = name_of_call(node)
    if name == "median":
        value, fraction, descending = node.expressions[0], typed(exp.Literal.number("0.5"), DOUBLE), False
    elif name == "approx_percentile":
        value = call("four digits(double precision)", node.expressions[0].copy())
        fraction, descending = node.expressions[1], False
    else:
        [ordered] = node.args["order"].expressions
        value, fraction, descending = ordered.this, node.expressions[0], bool(ordered.args.get("desc"))
    signature = "weighted disc(double precision, any, bigint, bigint)"
    if name in ("median", "percentile_cont"):
        signature = "weighted cont(double precision, double precision, bigint, bigint)"
        if descending:
            fraction = typed(exp.Literal.number(repr(1 - float(str(fraction.this)))), DOUBLE)
            descending = False
    elif descending:
        signature = "weighted disc desc(double precision, any, bigint, bigint)"

    def over(columns: Sequence[Node], weight: Node, upto: Node | None, total: Node | None) -> Node:
        assert upto is not None and total is not None
        return aggregate(signature, [fraction, columns[0], upto, total], type_of(node))

    return ValuedAggregate((value,), where, over, ranked=True, descending=descending)


def _sketch(node: AggregateCall, where: Node | None) -> ValuedAggregate:
    [value] = node.expressions
    bucket = call("sketch bucket(any)", value.copy())
    rank = call("sketch rank(any)", value.copy())

    def over(columns: Sequence[Node], weight: Node, upto: Node | None, total: Node | None) -> Node:
        return aggregate("estimate of(int)", [weight], BIGINT)

    return ValuedAggregate((bucket,), where, over, rank=rank)


def largest_rank(rank: Node, where: Node | None) -> StateColumn:
    return _column(aggregate("max(int)", [rank], INT, where=where), "max(int)")


_VALUED: dict[str, Callable[[AggregateCall, Node | None], ValuedAggregate | None]] = {
    "array_agg": _listed,
    "string_agg": _listed,
    "mode": _mode,
    "median": _percentile,
    "percentile_cont": _percentile,
    "percentile_disc": _percentile,
    "approx_percentile": _percentile,
    "approx_count_distinct": _sketch,
}
