"""Typed scalars as text in a kernel's dialect."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from midstream.errors import InternalError
from midstream.plan.functions import FUNCTIONS
from midstream.plan.functions.casts import cast_text
from midstream.plan.functions.kernel_types import kernel_type, raise_error
from midstream.plan.functions.model import Kernel, KernelRefuses, Operand, Refusal, Template, expand
from midstream.plan.functions.numbers import exact_quotient
from midstream.plan.render.literals import render_constant, render_null
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, Raw, type_of
from midstream.types import NUMERIC, Type


class ScalarRenderer:
    """Text of scalars; queries inside them are written by `query`, which the whole renderer gives."""

    def __init__(self, kernel: Kernel, query: Callable[[exp.Expression], str]) -> None:
        self.kernel: Kernel = kernel
        self.query = query

    def name(self, identifier: str) -> str:
        if self.kernel == "duckdb":
            return '"' + identifier.replace('"', '""') + '"'
        return "`" + identifier.replace("`", "``") + "`"

    def scalar(self, node: exp.Expression) -> str:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return render_constant(str(node.this), type_of(node), self.kernel)
            case exp.Boolean():
                return "true" if node.this else "false"
            case exp.Null():
                return render_null(type_of(node), self.kernel)
            case exp.And() | exp.Or():
                return self._connector(node)
            case exp.Not():
                return f"(NOT {self.scalar(node.this)})"
            case Call():
                return self._call(node)
            case Convert():
                return self._convert(node)
            case exp.Case():
                return self._case(node)
            case exp.Alias() | exp.Paren():
                return self.scalar(node.this)
            case _:
                return self._rarer(node)

    def _rarer(self, node: exp.Expression) -> str:
        match node:
            case exp.In():
                return self._in(node)
            case exp.Exists():
                return f"EXISTS ({self.query(node.this)})"
            case exp.Subquery():
                return f"({self.query(node.this)})"
            case exp.Array():
                return self._array(node)
            case AggregateCall():
                return self.aggregate(node, "")
            case exp.Window():
                return self.aggregate(node.this, self._over(node))
            case exp.Tuple():
                return "(" + ", ".join(self.scalar(part) for part in node.expressions) + ")"
            case Raw():
                return self._raw_interval(node)
            case exp.Binary():
                return self._quantified(node)
            case _:
                raise InternalError(f"a {type(node).__name__} cannot be rendered")

    def operand(self, node: exp.Expression) -> Operand:
        literal = str(node.this) if isinstance(node, exp.Literal) else None
        return Operand(self.scalar(node), type_of(node), literal)

    # --- simple ones -----------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> str:
        return f"{self.name(node.table)}.{self.name(node.name)}" if node.table else self.name(node.name)

    def _raw_interval(self, node: exp.Expression) -> str:
        text = self.scalar(node.this)
        if self.kernel == "spark":
            return text
        parts = (f"to_months({text}.months)", f"to_days({text}.days)", f"to_microseconds({text}.microseconds)")
        return f"({' + '.join(parts)})"

    def _connector(self, node: exp.Expression) -> str:
        word = " AND " if isinstance(node, exp.And) else " OR "
        return "(" + word.join(self.scalar(part) for part in node.flatten()) + ")"

    def _case(self, node: exp.Case) -> str:
        branches = [f"WHEN {self.scalar(b.this)} THEN {self.scalar(b.args['true'])}" for b in node.args["ifs"]]
        default = node.args.get("default")
        end = f" ELSE {self.scalar(default)}" if default is not None else ""
        return f"CASE {' '.join(branches)}{end} END"

    def _in(self, node: exp.In) -> str:
        query = node.args.get("query")
        if query is not None:
            return f"({self.scalar(node.this)} IN ({self.query(query.this)}))"
        return f"({self.scalar(node.this)} IN ({', '.join(self.scalar(item) for item in node.expressions)}))"

    def _array(self, node: exp.Array) -> str:
        items = ", ".join(self.scalar(item) for item in node.expressions)
        text = f"[{items}]" if self.kernel == "duckdb" else f"array({items})"
        return f"CAST({text} AS {kernel_type(type_of(node), self.kernel)})"

    def _quantified(self, node: exp.Expression) -> str:
        if self.kernel == "spark":
            raise KernelRefuses("Spark has no comparison with ANY or ALL of a query")
        quantifier = node.expression
        word = "ANY" if isinstance(quantifier, exp.Any) else "ALL"
        operators = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        operator = operators.get(type(node))
        if operator is None:
            raise KernelRefuses(f"{node.key} with ANY or ALL of a query is not supported")
        return f"({self.scalar(node.this)} {operator} {word} ({self.query(quantifier.this.this)}))"

    # --- calls and casts -------------------------------------------------------------------------

    def _call(self, node: Call) -> str:
        return expand(self._template(node), [self.operand(a) for a in node.expressions], type_of(node))

    def _template(self, node: exp.Expression) -> Template:
        function = FUNCTIONS[node.this]
        template = function.template(self.kernel)
        if isinstance(template, Refusal):
            raise KernelRefuses(template.reason)
        return template

    def _convert(self, node: Convert) -> str:
        value, to = self.operand(node.this), type_of(node)
        if node.args.get("assigned"):
            return self._fitting_text(value, to)
        return cast_text(value, to, self.kernel)

    def _fitting_text(self, value: Operand, to: Type) -> str:
        """Stored text may lose blanks beyond the length, and nothing else."""
        if to.precision is None:
            return value.text
        written = "character varying" if to.name == "varchar" else "character"
        failure = raise_error("22001", f"value too long for type {written}({to.precision})", self.kernel)
        cut = f"left({value.text}, {to.precision})"
        kept = f"rpad({cut}, {to.precision}, ' ')" if to.name == "char" else cut
        too_long = f"length(rtrim({value.text})) > {to.precision}"
        return f"CASE WHEN {too_long} THEN {failure} ELSE {kept} END"

    # --- aggregates ------------------------------------------------------------------------------

    def aggregate(self, node: exp.Expression, over: str) -> str:
        if node.this == "grouping":
            return self._grouping(node)
        template = self._template(node)
        if not isinstance(template, str):
            return expand(template, [self.operand(a) for a in node.expressions], type_of(node))
        return re.sub(r"\{([a-z_]+)(?::([a-z_0-9]+))?\}", lambda m: self._part(m, node, over), template)

    def _part(self, match: re.Match[str], node: exp.Expression, over: str) -> str:
        match match[1]:
            case "agg":
                return self.kernel_aggregate(match[2], node, over)
            case "type":
                return kernel_type(type_of(node), self.kernel)
            case "star":
                return f"count(*){self._filter(node)}{over}"
            case "average":
                return self._exact_average(node, over)
            case "list":
                raise KernelRefuses("Spark's array_agg drops NULLs")
            case word:
                raise InternalError(f"unknown part {word} of a template")

    def kernel_aggregate(self, name: str, node: exp.Expression, over: str) -> str:
        arguments = ", ".join(self.scalar(argument) for argument in node.expressions)
        distinct = "DISTINCT " if node.args.get("distinct") else ""
        order = f" {self.order(node.args['order'])}" if node.args.get("order") else ""
        return f"{name}({distinct}{arguments}{order}){self._filter(node)}{over}"

    def _filter(self, node: exp.Expression) -> str:
        condition = node.args.get("filter")
        return f" FILTER (WHERE {self.scalar(condition)})" if condition is not None else ""

    def _exact_average(self, node: exp.Expression, over: str) -> str:
        value = type_of(node.expressions[0])
        total = Operand(self.kernel_aggregate("sum", node, over), NUMERIC(min(38, (value.precision or 0) + 10), value.scale or 0))
        count = self.kernel_aggregate("count", node, over)
        quotient = exact_quotient(total, Operand(f"CAST({count} AS DECIMAL(19, 0))", NUMERIC(19, 0)), type_of(node))
        return f"CASE WHEN {count} > 0 THEN {quotient} END"

    def _grouping(self, node: exp.Expression) -> str:
        keys = [self.scalar(key) for key in node.expressions]
        if self.kernel == "duckdb":
            return f"CAST(GROUPING({', '.join(keys)}) AS INTEGER)"
        bits = [f"grouping({key}) * {2 ** (len(keys) - 1 - i)}" for i, key in enumerate(keys)]
        return f"CAST({' + '.join(bits)} AS INT)"

    def order(self, order: exp.Expression) -> str:
        return "ORDER BY " + ", ".join(self._ordered(part) for part in order.expressions)

    def _ordered(self, node: exp.Expression) -> str:
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        if type_of(node.this).name == "interval" and self.kernel == "spark":
            raise KernelRefuses("Spark does not sort intervals")
        return f"{self.scalar(node.this)} {direction} NULLS {nulls}"

    # --- windows ---------------------------------------------------------------------------------

    def _over(self, node: exp.Window) -> str:
        parts = []
        if node.args.get("partition_by"):
            parts.append("PARTITION BY " + ", ".join(self.scalar(part) for part in node.args["partition_by"]))
        if node.args.get("order"):
            parts.append(self.order(node.args["order"]))
        if node.args.get("spec"):
            parts.append(self._frame(node.args["spec"]))
        return f" OVER ({' '.join(parts)})"

    def _frame(self, spec: exp.Expression) -> str:
        kind, exclude = spec.args["kind"], spec.args.get("exclude")
        if self.kernel == "spark" and (kind == "GROUPS" or exclude not in (None, "NO OTHERS")):
            raise KernelRefuses("Spark has no GROUPS frames and no EXCLUDE")
        start = self._bound(spec.args["start"], spec.args.get("start_side"))
        end = self._bound(spec.args["end"], spec.args.get("end_side"))
        more = f" EXCLUDE {exclude}" if exclude and self.kernel == "duckdb" else ""
        return f"{kind} BETWEEN {start} AND {end}{more}"

    def _bound(self, bound: exp.Expression | str, side: str | None) -> str:
        if isinstance(bound, str):
            return bound if side is None else f"{bound} {side}"
        if self.kernel == "spark" and type_of(bound).name == "interval":
            return f"{self._spark_interval_bound(bound)} {side}"
        if isinstance(bound, exp.Literal) and type_of(bound).is_integer:
            return f"{bound.this} {side}"
        return f"{self.scalar(bound)} {side}"

    def _spark_interval_bound(self, bound: exp.Expression) -> str:
        if not isinstance(bound, exp.Literal):
            raise KernelRefuses("Spark needs a constant interval in a frame")
        months, days, microseconds = (int(part) for part in str(bound.this).split())
        if months:
            raise KernelRefuses("Spark has no frame of months over timestamps")
        seconds, micros = divmod(days * 86_400_000_000 + microseconds, 1_000_000)
        return f"INTERVAL '{seconds}.{micros:06d}' SECOND"
