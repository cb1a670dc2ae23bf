"""Parts of aggregates as text: what the templates of `functions.partials` stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.errors import InternalError
from midstream.kernels import Kernel
from midstream.plan.functions.partials import SKETCH_BUCKETS

if TYPE_CHECKING:
    from midstream.plan.render.aggregates import AggregateRenderer

_ALPHA = 0.7213 / (1 + 1.079 / SKETCH_BUCKETS)
NAN = "CAST('NaN' AS DOUBLE)"


def is_finite(value: str, kernel: Kernel) -> str:
    """Both kernels take NaN for larger than Infinity."""
    return f"isfinite({value})" if kernel == "duckdb" else f"(abs({value}) < CAST('Infinity' AS DOUBLE))"


@dataclass(frozen=True)
class _Values:
    """What is asked of all values of a group; `behind` is FILTER and OVER."""

    kernel: Kernel
    value: str
    behind: str

    def _of(self, name: str) -> str:
        return f"{name}({self.value}){self.behind}"

    @property
    def count(self) -> str:
        return self._of("count")

    @property
    def least(self) -> str:
        return self._of("min")

    @property
    def most(self) -> str:
        return self._of("max")

    @property
    def are_finite(self) -> str:
        return f"({is_finite(self.least, self.kernel)} AND {is_finite(self.most, self.kernel)})"

    @property
    def mean(self) -> str:
        """That of equal values is just that value, so that their spread stays nothing when means are compared."""
        return f"CASE WHEN {self.least} = {self.most} THEN {self.least} ELSE {self._of('avg')} END"

    @property
    def spread(self) -> str:
        """The sum of squares of distances from the mean; NaN and Infinity have no distance, equal values none at all,
        also where their squares are out of range."""
        return (
            f"CASE WHEN NOT {self.are_finite} THEN {NAN} WHEN {self.least} = {self.most} THEN 0.0e0 "
            f"ELSE {self._of('var_pop')} * {self.count} END"
        )


class PartialRenderer:
    def __init__(self, kernel: Kernel, aggregates: AggregateRenderer) -> None:
        self.kernel = kernel
        self._aggregates = aggregates

    def part(self, part: str, name: str, node: exp.Expression) -> str:
        match part:
            case "wide":
                return self._wide_sum(node)
            case "moments":
                return self._moments(node)
            case "joint_moments":
                return self._joint_moments(node)
            case "merge":
                return self._merge(name, node)
            case "repeated":
                return self._repeated(node)
            case "repeated_texts":
                return self._repeated_texts(node)
            case "weighted_cont":
                return self._weighted_cont(node)
            case "weighted_disc":
                return self._weighted_disc(name, node)
            case "sketch":
                return self._sketch(node)
            case _:
                raise InternalError(f"unknown part {part} of a template")

    def _arguments(self, node: exp.Expression) -> list[str]:
        return [self._aggregates.scalar(argument) for argument in node.expressions]

    def _where(self, node: exp.Expression) -> str:
        return self._aggregates.filter(node.args.get("filter"))

    # --- sums and moments ------------------------------------------------------------------------

    def _wide_sum(self, node: exp.Expression) -> str:
        [value] = self._arguments(node)
        if self.kernel == "duckdb":
            return f"CAST(sum({value}){self._where(node)} AS DECIMAL(38, 0))"
        return f"CAST(sum(CAST({value} AS DECIMAL(38, 0))){self._where(node)} AS DECIMAL(38, 0))"

    def _vector(self, parts: list[str]) -> str:
        listed = ", ".join(f"CAST({part} AS DOUBLE)" for part in parts)
        return f"[{listed}]" if self.kernel == "duckdb" else f"array({listed})"

    def _moments(self, node: exp.Expression) -> str:
        [value] = self._arguments(node)
        values = _Values(self.kernel, value, self._where(node))
        return f"CASE WHEN {values.count} > 0 THEN {self._vector([values.count, values.mean, values.spread])} END"

    def _joint_moments(self, node: exp.Expression) -> str:
        parts = self.joint_parts(node, "")
        return f"CASE WHEN {parts[0]} > 0 THEN {self._vector(parts)} END"

    def joint_parts(self, node: exp.Expression, over: str) -> list[str]:
        """The elements of a vector of joint moments, each for itself."""
        y, x = self._arguments(node)
        behind = self._where(node) + over
        if over and node.args.get("filter") is not None:
            # Spark has no FILTER before OVER; a pair with NULL is none.
            y, behind = f"CASE WHEN {self._aggregates.scalar(node.args['filter'])} THEN {y} END", over
        xs = _Values(self.kernel, f"CASE WHEN {y} IS NOT NULL THEN {x} END", behind)
        ys = _Values(self.kernel, f"CASE WHEN {x} IS NOT NULL THEN {y} END", behind)
        product = (
            f"CASE WHEN NOT ({xs.are_finite} AND {ys.are_finite}) THEN {NAN} "
            f"WHEN {xs.least} = {xs.most} OR {ys.least} = {ys.most} THEN 0.0e0 "
            f"ELSE covar_pop({y}, {x}){behind} * {xs.count} END"
        )
        return [xs.count, xs.mean, ys.mean, xs.spread, ys.spread, product]

    def _merge(self, name: str, node: exp.Expression) -> str:
        [value] = self._arguments(node)
        step = self._joint_step() if name == "joint" else self._step()
        there = f"FILTER (WHERE {value} IS NOT NULL)"
        if self.kernel == "duckdb":
            return f"list_reduce(list({value}) {there}, lambda a_, b_: {step})"
        start = "CAST(NULL AS ARRAY<DOUBLE>)"
        choice = f"CASE WHEN a_ IS NULL THEN b_ ELSE {step} END"
        return f"aggregate(collect_list({value}) {there}, {start}, (a_, b_) -> {choice})"

    def _at(self, vector: str, index: int) -> str:
        return f"{vector}[{index + 1}]" if self.kernel == "duckdb" else f"get({vector}, {index})"

    def _step(self) -> str:
        (na, ma, sa), (nb, mb, sb) = ([self._at(vector, i) for i in range(3)] for vector in ("a_", "b_"))
        count, gap = f"({na} + {nb})", f"({mb} - {ma})"
        mean = self._mean_of_both(ma, mb, f"{gap} * {nb} / {count}")
        return self._vector([count, mean, f"{sa} + {sb} + {gap} * {gap} * {na} * {nb} / {count}"])

    def _mean_of_both(self, first: str, second: str, way: str) -> str:
        """From one mean a part of the way to the other; there is none from or to Infinity."""
        finite = " AND ".join(is_finite(mean, self.kernel) for mean in (first, second))
        return f"CASE WHEN {finite} THEN {first} + {way} ELSE {first} + {second} END"

    def _joint_step(self) -> str:
        a, b = ([self._at(vector, i) for i in range(6)] for vector in ("a_", "b_"))
        count, weight = f"({a[0]} + {b[0]})", f"{a[0]} * {b[0]} / ({a[0]} + {b[0]})"
        x, y = f"({b[1]} - {a[1]})", f"({b[2]} - {a[2]})"
        means = [self._mean_of_both(a[i], b[i], f"{gap} * {b[0]} / {count}") for i, gap in ((1, x), (2, y))]
        products = [f"{a[i]} + {b[i]} + {p} * {q} * {weight}" for i, p, q in ((3, x, x), (4, y, y), (5, x, y))]
        return self._vector([count, *means, *products])

    # --- values with how often they occur --------------------------------------------------------

    def _repeated(self, node: exp.Expression) -> str:
        """All values in order, each as often as it occurs."""
        value, count = self._arguments(node)[:2]
        order = node.args.get("order")
        if self.kernel == "duckdb":
            sorting = f" {self._aggregates.order(order)}" if order is not None else ""
            return f"flatten(array_agg(list_transform(range({count}), lambda i_: {value}){sorting}))"
        keys = list(order.expressions) if order is not None else []
        fields = [f"'v', {value}", f"'n', CAST({count} AS INT)"]
        fields += [f"'k{i}', {self._aggregates.scalar(key.this)}" for i, key in enumerate(keys)]
        collected = f"collect_list(named_struct({', '.join(fields)}))"
        if keys:
            from midstream.plan.render.aggregates import comparison

            collected = f"array_sort({collected}, (l_, r_) -> {comparison(keys)})"
        values = f"flatten(transform({collected}, s_ -> array_repeat(s_.`v`, s_.`n`)))"
        return f"CASE WHEN count(*) > 0 THEN {values} END"

    def _repeated_texts(self, node: exp.Expression) -> str:
        return self._aggregates.texts_joined(self._repeated(node), node.expressions[2])

    def _weighted_cont(self, node: exp.Expression) -> str:
        """`upto` values are not after this one, of `total`: those around the place of the percentile, and between."""
        _, value, upto, total = self._arguments(node)
        place = f"({self._aggregates.fraction(node.expressions[0])} * ({total} - 1))"
        below = f"min({value}) FILTER (WHERE {upto} >= floor({place}) + 1)"
        above = f"min({value}) FILTER (WHERE {upto} >= ceil({place}) + 1)"
        share = f"max(CAST({place} - floor({place}) AS DOUBLE))"
        # Between a value and itself there is nothing to add, which for Infinity would be NaN.
        return f"CASE WHEN {share} = 0 THEN {below} ELSE {below} + ({above} - {below}) * {share} END"

    def _weighted_disc(self, name: str, node: exp.Expression) -> str:
        _, value, upto, total = self._arguments(node)
        fraction = self._aggregates.fraction(node.expressions[0])
        return f"{name}({value}) FILTER (WHERE {upto} >= greatest(ceil({fraction} * {total}), 1))"

    def _sketch(self, node: exp.Expression) -> str:
        """How many different values there were, from the largest rank of each bucket."""
        [rank] = self._arguments(node)
        m, empty = SKETCH_BUCKETS, f"({SKETCH_BUCKETS} - count({rank}))"
        sum_ = f"(coalesce(sum(pow(2.0e0, -{rank})), 0) + {empty})"
        estimate = f"({_ALPHA * m * m!r} / {sum_})"
        few = f"{m} * ln({m}.0e0 / {empty})"
        chosen = f"CASE WHEN {empty} > 0 AND {estimate} <= {2.5 * m!r} THEN {few} ELSE {estimate} END"
        return f"CAST(round({chosen}) AS BIGINT)"
