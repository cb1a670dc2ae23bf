"""Typed scalars as text in a kernel's dialect."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from midstream.errors import InternalError, Unsupported
from midstream.kernels import Kernel, kernel_type
from midstream.plan.functions import FUNCTIONS
from midstream.plan.functions.casts import cast_text
from midstream.plan.functions.model import KernelRefuses, Operand, Refusal, Template, expand
from midstream.plan.functions.raising import raise_error
from midstream.plan.render.aggregates import AggregateRenderer
from midstream.plan.render.literals import render_constant, render_null
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, Raw, Stored, type_of
from midstream.types import Type

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


_LONGEST_OPERAND = 500_000
_SPLIT = "Compute parts of it in a WITH clause or a subquery, and refer to them by name."


class ScalarRenderer:
    """Text of scalars; queries inside them are written by `query`, which the whole renderer gives."""

    def __init__(self, kernel: Kernel, query: Callable[[exp.Expression], str]) -> None:
        self.kernel: Kernel = kernel
        self.query = query
        self.aggregates = AggregateRenderer(kernel, self.scalar)

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
                return self.aggregates.aggregate(node, "")
            case exp.Window():
                return self.aggregates.aggregate(node.this, self._over(node))
            case exp.Tuple():
                return "(" + ", ".join(self.scalar(part) for part in node.expressions) + ")"
            case Raw():
                return self._raw_interval(node)
            case Stored():
                return self._stored_interval(node)
            case exp.Binary():
                return self._quantified(node)
            case _:
                raise InternalError(f"a {type(node).__name__} cannot be rendered")

    def order(self, order: exp.Expression) -> str:
        return self.aggregates.order(order)

    def operand(self, node: exp.Expression) -> Operand:
        literal = str(node.this) if isinstance(node, exp.Literal) else None
        text = self.scalar(node)
        if len(text) > _LONGEST_OPERAND:
            # Some templates use an operand twice, so nesting them doubles the text at every level.
            raise Unsupported("the expression is nested too deeply", hint=_SPLIT, sqlstate="54001")
        return Operand(text, type_of(node), literal)

    # --- simple ones -----------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> str:
        return f"{self.name(node.table)}.{self.name(node.name)}" if node.table else self.name(node.name)

    def _raw_interval(self, node: exp.Expression) -> str:
        text = self.scalar(node.this)
        if self.kernel == "spark":
            return text
        parts = (f"to_months({text}.months)", f"to_days({text}.days)", f"to_microseconds({text}.microseconds)")
        return f"({' + '.join(parts)})"

    def _stored_interval(self, node: exp.Expression) -> str:
        text = self.scalar(node.this)
        months = f"CAST(datepart('year', {text}) * 12 + datepart('month', {text}) AS INTEGER)"
        hours = f"(datepart('hour', {text}) * 3600 + datepart('minute', {text}) * 60) * 1000000"
        micro = f"CAST({hours} + datepart('microsecond', {text}) AS BIGINT)"
        days = f"CAST(datepart('day', {text}) AS INTEGER)"
        packed = f"struct_pack(months := {months}, days := {days}, microseconds := {micro})"
        return f"CASE WHEN {text} IS NOT NULL THEN {packed} END"

    def _connector(self, node: exp.Expression) -> str:
        word = " AND " if isinstance(node, exp.And) else " OR "
        parts = [part for part in node.flatten() if isinstance(part, exp.Expression)]
        return "(" + word.join(self.scalar(part) for part in parts) + ")"

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
        operator = _COMPARISONS.get(type(node))
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

    # --- windows ---------------------------------------------------------------------------------

    def _over(self, node: exp.Window) -> str:
        parts = []
        if node.args.get("partition_by"):
            parts.append("PARTITION BY " + ", ".join(self.scalar(part) for part in node.args["partition_by"]))
        if node.args.get("order"):
            parts.append(self.order(node.args["order"]))
        elif self.kernel == "spark" and FUNCTIONS[node.this.this].shape == "window":
            parts.append("ORDER BY 1")  # Spark wants an order; one in which all rows are peers is none.
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
