"""Parts of aggregates as text: what the templates of `functions.partials` stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.errors import InternalError
from midstream.kernels import Kernel
from midstream.plan.functions.partials import SKETCH_BUCKETS

if TYPE_CHECKING:
    from midstream.plan.render.aggregates import AggregateRenderer

_ALPHA = 0.7213 / (1 + 1.079 / SKETCH_BUCKETS)


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

    def _mean(self, name: str, value: str, arguments: str, where: str) -> str:
        """The mean of equal values is just that value, so that their spread stays nothing when means are compared."""
        least, most = f"min({value}){where}", f"max({value}){where}"
        return f"CASE WHEN {least} = {most} THEN {least} ELSE {name}({arguments}){where} END"

    def _moments(self, node: exp.Expression) -> str:
        [value] = self._arguments(node)
        where, count = self._where(node), f"count({value}){self._where(node)}"
        mean = self._mean("avg", value, value, where)
        vector = self._vector([count, mean, f"var_pop({value}){where} * {count}"])
        return f"CASE WHEN {count} > 0 THEN {vector} END"

    def _joint_moments(self, node: exp.Expression) -> str:
        y, x = self._arguments(node)
        both, where = f"{y}, {x}", self._where(node)
        x_there, y_there = (f"CASE WHEN {a} IS NOT NULL THEN {b} END" for a, b in ((y, x), (x, y)))
        count = f"regr_count({both}){where}"
        means = [
            self._mean("regr_avgx", x_there, both, where),
            self._mean("regr_avgy", y_there, both, where),
        ]
        spreads = [f"{name}({both}){where}" for name in ("regr_sxx", "regr_syy", "regr_sxy")]
        return f"CASE WHEN {count} > 0 THEN {self._vector([count, *means, *spreads])} END"

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
        return self._vector(
            [count, f"{ma} + {gap} * {nb} / {count}", f"{sa} + {sb} + {gap} * {gap} * {na} * {nb} / {count}"]
        )

    def _joint_step(self) -> str:
        a, b = ([self._at(vector, i) for i in range(6)] for vector in ("a_", "b_"))
        count, weight = f"({a[0]} + {b[0]})", f"{a[0]} * {b[0]} / ({a[0]} + {b[0]})"
        x, y = f"({b[1]} - {a[1]})", f"({b[2]} - {a[2]})"
        means = [f"{a[i]} + {gap} * {b[0]} / {count}" for i, gap in ((1, x), (2, y))]
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
        return f"({below} + ({above} - {below}) * max(CAST({place} - floor({place}) AS DOUBLE)))"

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
