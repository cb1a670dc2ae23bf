"""Aggregate calls as text: what a template's parts in braces stand for.

Spark has neither ORDER BY inside an aggregate nor lists with NULLs, so there all values are collected in structs
with their sort keys, sorted by a comparison of ours, and taken out again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from midstream.errors import InternalError
from midstream.kernels import Kernel, kernel_type
from midstream.plan.failing import guarded
from midstream.plan.functions import FUNCTIONS
from midstream.plan.functions.model import KernelRefuses, Operand, Refusal
from midstream.plan.functions.numbers import exact_quotient
from midstream.plan.functions.partials import OF_PAIRS
from midstream.plan.render.partials import NAN, PartialRenderer, is_finite
from midstream.plan.typing.nodes import AggregateCall, type_of
from midstream.types import NUMERIC

_PART = re.compile(r"\{([a-z_]+)(?::([a-z_0-9]+))?\}")


class AggregateRenderer:
    def __init__(self, kernel: Kernel, scalar: Callable[[exp.Expression], str]) -> None:
        self.kernel: Kernel = kernel
        self.scalar = scalar
        self.partials = PartialRenderer(kernel, self)

    def aggregate(self, node: exp.Expression, over: str) -> str:
        """The call, with OVER behind it where it is a window's."""
        if node.this == "grouping":
            return self._grouping(node)
        template = FUNCTIONS[node.this].template(self.kernel)
        if isinstance(template, Refusal):
            raise KernelRefuses(template.reason)
        if not isinstance(template, str):
            raise InternalError(f"{node.this} has no template of parts")
        call = guarded(node) if isinstance(node, AggregateCall) else node
        return _PART.sub(lambda match: self._part(match[1], match[2] or "", call, over), template)

    def _part(self, part: str, name: str, node: exp.Expression, over: str) -> str:
        match part:
            case "agg":
                return self.call(name, node, over)
            case "type":
                return kernel_type(type_of(node), self.kernel)
            case "star":
                return self._count_rows(node, over)
            case "average":
                return self._exact_average(node, over)
            case "spread":
                return self._spread(name, node, over)
            case "pairs":
                return self._of_pairs(name, node, over)
            case "list":
                return self._list_or_null(node)
            case "joined":
                return self._joined(node)
            case "first" | "last":
                return self._first_or_last(part, node)
            case "by":
                return self._by(name, node)
            case "within":
                return self._within(name, node)
            case "estimate":
                return self._estimate(name, node)
            case "disc":
                return self._percentile_disc(node)
            case "mode":
                return self._mode(node)
            case _:
                return self.partials.part(part, name, node)

    # --- plain calls -----------------------------------------------------------------------------

    def call(self, name: str, node: exp.Expression, over: str) -> str:
        values = [self.scalar(argument) for argument in node.expressions]
        condition = node.args.get("filter")
        if condition is not None and over and self.kernel == "spark" and values:
            # Spark has no FILTER before OVER; every such aggregate passes over NULLs.
            values[0] = f"CASE WHEN {self.scalar(condition)} THEN {values[0]} END"
            condition = None
        distinct = "DISTINCT " if node.args.get("distinct") else ""
        order = f" {self.order(node.args['order'])}" if node.args.get("order") and name in _ORDERED else ""
        return f"{name}({distinct}{', '.join(values)}{order}){self.filter(condition)}{over}"

    def filter(self, condition: exp.Expression | None) -> str:
        return f" FILTER (WHERE {self.scalar(condition)})" if condition is not None else ""

    def _count_rows(self, node: exp.Expression, over: str) -> str:
        condition = node.args.get("filter")
        if condition is not None and over and self.kernel == "spark":
            return f"count(CASE WHEN {self.scalar(condition)} THEN 1 END){over}"
        return f"count(*){self.filter(condition)}{over}"

    def _exact_average(self, node: exp.Expression, over: str) -> str:
        value = type_of(node.expressions[0])
        assert value.precision is not None and value.scale is not None
        total = Operand(self.call("sum", node, over), NUMERIC(min(38, value.precision + 10), value.scale))
        count = self.call("count", node, over)
        quotient = exact_quotient(total, Operand(f"CAST({count} AS DECIMAL(10, 0))", NUMERIC(10, 0)), type_of(node))
        return f"CASE WHEN {count} > 0 THEN {quotient} END"

    def _spread(self, name: str, node: exp.Expression, over: str) -> str:
        """DuckDB takes a single NaN or Infinity for a value without spread, Spark equal values whose squares are out of
        range for values with one."""
        call, least, most = (self.call(each, node, over) for each in (name, "min", "max"))
        if self.kernel == "duckdb":
            single = f"{self.call('count', node, over)} = 1 AND NOT isfinite({most})"
            return call if "samp" in name else f"CASE WHEN {single} THEN {NAN} ELSE {call} END"
        equal = f"{least} = {most} AND {is_finite(most, self.kernel)}"
        return f"CASE WHEN isnan({call}) AND {equal} THEN 0.0e0 ELSE {call} END"

    def _of_pairs(self, name: str, node: exp.Expression, over: str) -> str:
        if not node.args.get("distinct"):
            parts = self.partials.joint_parts(node, over)
            return f"CASE WHEN {parts[0]} > 0 THEN {OF_PAIRS[name](lambda index: f'({parts[index]})')} END"
        call = self.call(name, node, over)
        return f"CASE WHEN NOT isnan({call}) THEN {call} END" if self.kernel == "duckdb" else call

    def _grouping(self, node: exp.Expression) -> str:
        keys = [self.scalar(key) for key in node.expressions]
        if self.kernel == "duckdb":
            return f"CAST(GROUPING({', '.join(keys)}) AS INTEGER)"
        bits = [f"grouping({key}) * {2 ** (len(keys) - 1 - i)}" for i, key in enumerate(keys)]
        return f"CAST({' + '.join(bits)} AS INT)"

    # --- ORDER BY --------------------------------------------------------------------------------

    def order(self, order: exp.Expression) -> str:
        return "ORDER BY " + ", ".join(self._ordered(part) for part in order.expressions)

    def _ordered(self, node: exp.Expression) -> str:
        if type_of(node.this).name == "interval" and self.kernel == "spark":
            raise KernelRefuses("Spark does not sort intervals")
        direction = "DESC" if node.args.get("desc") else "ASC"
        return f"{self.scalar(node.this)} {direction} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"

    # --- lists -----------------------------------------------------------------------------------

    def _collected(self, value: exp.Expression, node: exp.Expression, drop_nulls: bool = False) -> str:
        """Spark's list of structs of a value `v` and its sort keys, sorted."""
        order = node.args.get("order")
        keys = list(order.expressions) if order is not None else []
        fields = [f"'v', {self.scalar(value)}", *(f"'k{i}', {self.scalar(key.this)}" for i, key in enumerate(keys))]
        conditions = [self.scalar(node.args["filter"])] if node.args.get("filter") is not None else []
        if drop_nulls:
            conditions.append(f"{self.scalar(value)} IS NOT NULL")
        where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        distinct = "DISTINCT " if node.args.get("distinct") else ""
        collected = f"collect_list({distinct}named_struct({', '.join(fields)})){where}"
        return f"array_sort({collected}, (l_, r_) -> {comparison(keys)})" if keys else collected

    def _values(self, collected: str) -> str:
        return f"transform({collected}, s_ -> s_.`v`)"

    def _list_or_null(self, node: exp.Expression) -> str:
        collected = self._collected(node.expressions[0], node)
        return f"CASE WHEN size({collected}) > 0 THEN {self._values(collected)} END"

    def _joined(self, node: exp.Expression) -> str:
        value, separator = node.expressions
        if self.kernel == "duckdb" and isinstance(separator, exp.Literal):
            return self.call("string_agg", node, "")
        if self.kernel == "duckdb":
            return self.texts_joined(self._texts(value, node), separator)
        collected = self._collected(value, node, drop_nulls=True)
        text = self.texts_joined(self._values(collected), separator)
        return f"CASE WHEN size({collected}) > 0 THEN {text} END"

    def _texts(self, value: exp.Expression, node: exp.Expression) -> str:
        """DuckDB's list of the values that are there."""
        text, order = self.scalar(value), node.args.get("order")
        conditions = [f"{text} IS NOT NULL"]
        if node.args.get("filter") is not None:
            conditions.append(self.scalar(node.args["filter"]))
        distinct = "DISTINCT " if node.args.get("distinct") else ""
        sorting = f" {self.order(order)}" if order is not None else ""
        return f"list({distinct}{text}{sorting}) FILTER (WHERE {' AND '.join(conditions)})"

    def texts_joined(self, texts: str, separator: exp.Expression) -> str:
        """The texts of a list that is not empty, one after the other."""
        between = self.scalar(separator)
        if self.kernel == "spark":
            return f"array_join({texts}, {between})"
        if isinstance(separator, exp.Literal):
            return f"array_to_string({texts}, {between})"
        # DuckDB's own function takes nothing that may fail, such as chr(10), for a constant.
        return f"list_reduce({texts}, lambda a_, b_: a_ || {between} || b_)"

    def _first_or_last(self, name: str, node: exp.Expression) -> str:
        if not node.args.get("order"):
            raise KernelRefuses(f"{name} needs ORDER BY inside its parentheses")
        if self.kernel == "duckdb":
            return self.call(name, node, "")
        collected = self._collected(node.expressions[0], node)
        index = "0" if name == "first" else f"size({collected}) - 1"
        return f"get({collected}, {index}).`v`"

    def _by(self, name: str, node: exp.Expression) -> str:
        value, key = (self.scalar(argument) for argument in node.expressions)
        # DuckDB passes over rows whose value is NULL, unless it is inside a struct.
        return f"({name}(struct_pack(v := {value}), {key}){self.filter(node.args.get('filter'))}).v"

    # --- WITHIN GROUP ----------------------------------------------------------------------------

    def _estimate(self, name: str, node: exp.Expression) -> str:
        value, fraction = self.scalar(node.expressions[0]), self.fraction(node.expressions[1])
        return f"{name}({value}, {fraction}){self.filter(node.args.get('filter'))}"

    def fraction(self, fraction: exp.Expression) -> str:
        if not isinstance(fraction, exp.Literal):
            raise KernelRefuses("the fraction of a percentile must be a constant")
        return str(fraction.this)

    def _within(self, name: str, node: exp.Expression) -> str:
        ordered = node.args["order"].expressions[0]
        fraction, value = self.fraction(node.expressions[0]), self.scalar(ordered.this)
        where = self.filter(node.args.get("filter"))
        if ordered.args.get("desc"):
            fraction = f"(1 - {fraction})"
        if self.kernel == "duckdb":
            return f"{name}({value}, {fraction}){where}"
        return f"{name}({fraction}) WITHIN GROUP (ORDER BY {value}){where}"

    def _percentile_disc(self, node: exp.Expression) -> str:
        """The first value, in order, with at least this fraction of all values up to it."""
        ordered = node.args["order"].expressions[0]
        fraction = self.fraction(node.expressions[0])
        if self.kernel == "spark":
            collected = self._collected(ordered.this, node, drop_nulls=True)
            return f"get({collected}, CAST(greatest(ceil({fraction} * size({collected})), 1) AS INT) - 1).`v`"
        value = self.scalar(ordered.this)
        conditions = [f"{value} IS NOT NULL"]
        if node.args.get("filter") is not None:
            conditions.append(self.scalar(node.args["filter"]))
        values = f"list({value} ORDER BY {self._ordered(ordered)}) FILTER (WHERE {' AND '.join(conditions)})"
        return f"({values})[CAST(greatest(ceil({fraction} * len({values})), 1) AS BIGINT)]"

    def _mode(self, node: exp.Expression) -> str:
        """The most frequent value, and of several the first in order."""
        ordered = node.args["order"].expressions[0]
        value, where = self.scalar(ordered.this), self.filter(node.args.get("filter"))
        if self.kernel == "spark":
            return f"mode() WITHIN GROUP (ORDER BY {value}{' DESC' if ordered.args.get('desc') else ''}){where}"
        wins = ">=" if ordered.args.get("desc") else ">"
        counts = f"map_entries(histogram({value}){where})"
        return f"list_reduce({counts}, lambda a_, b_: CASE WHEN b_.value {wins} a_.value THEN b_ ELSE a_ END).key"


_ORDERED = ("array_agg", "string_agg", "first", "last")


def comparison(keys: list[exp.Expression]) -> str:
    """-1, 0 or 1 for two structs with sort keys k0, k1, …"""
    branches = []
    for i, key in enumerate(keys):
        left, right = f"l_.`k{i}`", f"r_.`k{i}`"
        before, after = ("1", "-1") if key.args.get("desc") else ("-1", "1")
        null_first, null_last = ("-1", "1") if key.args.get("nulls_first") else ("1", "-1")
        branches += [
            f"WHEN {left} IS NULL AND {right} IS NOT NULL THEN {null_first}",
            f"WHEN {left} IS NOT NULL AND {right} IS NULL THEN {null_last}",
            f"WHEN {left} < {right} THEN {before}",
            f"WHEN {left} > {right} THEN {after}",
        ]
    return f"CASE {' '.join(branches)} ELSE 0 END"
