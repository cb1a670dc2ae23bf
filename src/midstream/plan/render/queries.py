"""Typed queries as text: the skeleton of SELECT is the same on both kernels but for quotes and a few words."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from midstream.errors import InternalError
from midstream.kernels import Kernel
from midstream.plan.functions.model import KernelRefuses
from midstream.plan.nodes import bare
from midstream.plan.render.scalars import ScalarRenderer
from midstream.plan.render.totals import empty_sets, has_keys, has_sets, only_total, total_over_no_rows
from midstream.plan.typing.nodes import Stored, type_of
from midstream.plan.typing.queries import output_types, over_query


class QueryRenderer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scalars = ScalarRenderer(kernel, self.query)

    def result(self, node: exp.Expression) -> str:
        """The outermost query, whose intervals leave the kernel as structs."""
        if self.kernel == "duckdb" and any(type.name == "interval" for type in output_types(node)):
            node = node.copy()
            if not isinstance(node, exp.Select) or node.args.get("distinct"):
                node = over_query(node)
            node.set("expressions", [self._stored(output) for output in node.expressions])
        return self.query(node)

    def _stored(self, output: exp.Expression) -> exp.Expression:
        if type_of(output).name != "interval":
            return output
        inner = output.this if isinstance(output, exp.Alias) else output
        return exp.Alias(this=Stored(this=inner), alias=exp.to_identifier(output.alias_or_name, quoted=True))

    def query(self, node: exp.Expression) -> str:
        body = self._body(node)
        with_ = node.args.get("with_")
        if with_ is None:
            return body
        return f"WITH {', '.join(self._cte(cte) for cte in with_.expressions)} {body}"

    def _cte(self, cte: exp.CTE) -> str:
        alias = cte.args["alias"]
        return f"{self.scalars.name(alias.name)}{self._alias_columns(alias)} AS ({self.query(cte.this)})"

    def _body(self, node: exp.Expression) -> str:
        match node:
            case exp.Select():
                return self._select(node)
            case exp.SetOperation():
                return self._set_operation(node)
            case exp.Subquery():
                return f"({self.query(node.this)})" + self._modifiers(node)
            case exp.Values():
                return self._values(node)
            case _:
                raise InternalError(f"a {type(node).__name__} cannot be rendered as a query")

    def _select(self, node: exp.Select) -> str:
        totals = empty_sets(node) if self.kernel == "spark" else 0
        if not totals:
            return self._clauses(node) + self._modifiers(node)
        if not has_keys(node):
            if totals > 1 and (node.args.get("order") or node.find(exp.Window)):
                raise KernelRefuses("Spark gives one grand total")
            return " UNION ALL ".join([self._clauses(only_total(node))] * totals) + self._modifiers(node)
        total = self._clauses(total_over_no_rows(node))
        return f"({self._clauses(node)})" + f" UNION ALL ({total})" * totals + self._modifiers(node)

    def _clauses(self, node: exp.Select) -> str:
        if self.kernel == "spark" and node.args.get("having") and has_sets(node):
            return self._condition_above(node)
        return self._plain_clauses(node)

    def _condition_above(self, node: exp.Select) -> str:
        """Spark does not find keys of grouping sets in HAVING, but it does in the select list:

        SELECT h0 AS a FROM (SELECT a AS h0, grouping(a) = 1 AS h FROM t GROUP BY ROLLUP (a)) WHERE h"""
        if node.find(exp.Window) or node.args.get("order"):
            raise KernelRefuses("Spark has no HAVING over grouping sets with window functions or ORDER BY")
        inner = node.copy()
        kept = self.scalars.name("h")
        condition = f"{self.scalars.scalar(inner.args['having'].this)} AS {kept}"
        for clause in ("having", "distinct"):
            inner.set(clause, None)
        places = [self.scalars.name(f"h{place}") for place in range(len(inner.expressions))]
        outputs = [
            f"{self.scalars.scalar(bare(o))} AS {place}" for o, place in zip(inner.expressions, places, strict=True)
        ]
        named = [
            f"{place} AS {self.scalars.name(output.alias_or_name)}"
            for output, place in zip(node.expressions, places, strict=True)
        ]
        word = "SELECT DISTINCT" if node.args.get("distinct") else "SELECT"
        source = self._plain_clauses(inner, [*outputs, condition])
        return f"{word} {', '.join(named)} FROM ({source}) WHERE {kept}"

    def _plain_clauses(self, node: exp.Select, outputs: Sequence[str] | None = None) -> str:
        parts = ["SELECT DISTINCT" if node.args.get("distinct") else "SELECT"]
        parts.append(", ".join(outputs or [self._output(output) for output in node.expressions]))
        from_ = node.args.get("from_")
        if from_ is not None:
            parts.append(f"FROM {self._item(from_.this)}")
        parts += [self._join(join) for join in node.args.get("joins") or []]
        if node.args.get("where"):
            parts.append(f"WHERE {self.scalars.scalar(node.args['where'].this)}")
        if node.args.get("group"):
            parts.append(self._group(node.args["group"]))
        if node.args.get("having"):
            parts.append(f"HAVING {self.scalars.scalar(node.args['having'].this)}")
        return " ".join(parts)

    def _output(self, node: exp.Expression) -> str:
        text = self.scalars.scalar(node)
        return f"{text} AS {self.scalars.name(node.alias)}" if isinstance(node, exp.Alias) else text

    def _modifiers(self, node: exp.Expression) -> str:
        parts = []
        if node.args.get("order"):
            parts.append(self.scalars.order(node.args["order"]))
        for key, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
            if node.args.get(key):
                parts.append(f"{word} {node.args[key].expression.name}")
        return "".join(f" {part}" for part in parts)

    def _set_operation(self, node: exp.SetOperation) -> str:
        chain: list[exp.SetOperation] = [node]
        while isinstance(chain[-1].this, exp.SetOperation) and not chain[-1].this.args.get("with_"):
            chain.append(chain[-1].this)
        text = self._side(chain[-1].this)
        for operation in reversed(chain):
            word = operation.key.upper() + ("" if operation.args.get("distinct", True) else " ALL")
            text = f"{text} {word} {self._side(operation.expression)}"
            if operation is not node:
                text = self._grouped(text, operation)
        return text + self._modifiers(node)

    def _grouped(self, text: str, operation: exp.SetOperation) -> str:
        """Parentheses where the next operation is of another kind, since INTERSECT binds tighter."""
        parent = operation.parent
        return text if type(parent) is type(operation) and not self._modifiers(operation) else f"({text})"

    def _side(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Subquery) and not self._modifiers(node) and not node.args.get("with_"):
            node = node.this
        return f"({self.query(node)})"

    # --- FROM ------------------------------------------------------------------------------------

    def _join(self, join: exp.Join) -> str:
        side, kind = join.side, join.kind
        item = self._item(join.this)
        on = join.args.get("on")
        if on is None:
            return f"CROSS JOIN {item}" if not side else f"{side} JOIN {item} ON true"
        word = " ".join(part for part in (side, "" if kind in ("INNER", "OUTER", "CROSS") else kind, "JOIN") if part)
        return f"{word} {item} ON {self.scalars.scalar(on)}"

    def _item(self, item: exp.Expression) -> str:
        match item:
            case exp.Table() if not isinstance(item.this, exp.Func):
                text = self.scalars.name(item.name) + self._alias(item)
            case exp.Table():
                text = self._series(item.this, item)
            case exp.Unnest():
                text = self._unnest(item)
            case exp.Values():
                text = f"({self._values(item)})" + self._alias(item)
            case exp.Lateral():
                text = self._lateral(item)
            case exp.Subquery() if isinstance(item.this, (exp.Table, exp.Subquery)) and not item.args.get("alias"):
                text = f"({self._item(item.this)})"
            case exp.Paren():
                text = f"({self._item(item.this)})"
            case exp.Subquery():
                text = f"({self.query(item.this)})" + self._alias(item)
            case _:
                raise InternalError(f"a {type(item).__name__} cannot be rendered in FROM")
        joins = [self._join(join) for join in item.args.get("joins") or []]
        return " ".join([text, *joins])

    def _alias(self, item: exp.Expression) -> str:
        alias = item.args.get("alias")
        return f" AS {self.scalars.name(alias.name)}{self._alias_columns(alias)}" if alias is not None else ""

    def _alias_columns(self, alias: exp.Expression) -> str:
        columns = alias.args.get("columns") or []
        return f" ({', '.join(self.scalars.name(column.name) for column in columns)})" if columns else ""

    def _lateral(self, item: exp.Lateral) -> str:
        if isinstance(item.this, exp.Unnest):
            return self._unnest(item.this)
        if isinstance(item.this, exp.Subquery):
            return f"LATERAL ({self.query(item.this.this)})" + self._alias(item)
        return self._series(item.this, item)

    def _values(self, node: exp.Values) -> str:
        rows = [self.scalars.scalar(row) for row in node.expressions]
        if self.kernel == "spark" and any("raise_error(" in row for row in rows):
            # Spark folds an inline table while it plans, and does not fold what might raise an error.
            selects = [", ".join(self.scalars.scalar(value) for value in row.expressions) for row in node.expressions]
            return " UNION ALL ".join(f"SELECT {values}" for values in selects)
        return "VALUES " + ", ".join(rows)

    def _unnest(self, item: exp.Unnest) -> str:
        array = self.scalars.scalar(item.expressions[0])
        alias = item.args["alias"]
        columns = [column.name for column in alias.args.get("columns") or []] or [alias.name]
        offset = item.args.get("offset")
        number = offset.name if isinstance(offset, exp.Expression) else columns[1] if len(columns) > 1 else None
        name, value = self.scalars.name(alias.name), self.scalars.name(columns[0])
        if self.kernel == "duckdb":
            if number is None:
                return f"LATERAL (SELECT unnest({array}) AS {value}) AS {name}"
            ordinal = self.scalars.name(number)
            return (
                f"LATERAL (SELECT unnest({array}) AS {value}, generate_subscripts({array}, 1) AS {ordinal}) AS {name}"
            )
        if number is None:
            return f"LATERAL (SELECT explode({array}) AS {value}) AS {name}"
        ordinal = self.scalars.name(number)
        inner = f"SELECT posexplode({array}) AS (`p_`, {value})"
        return f"LATERAL (SELECT {value}, CAST(`p_` + 1 AS BIGINT) AS {ordinal} FROM ({inner})) AS {name}"

    def _series(self, function: exp.Expression, item: exp.Expression) -> str:
        kind = type_of(function)
        parts = [self.scalars.scalar(function.args[key]) for key in ("start", "end", "step") if function.args.get(key)]
        alias = item.args["alias"]
        columns = [column.name for column in alias.args.get("columns") or []] or [alias.name]
        value = self.scalars.name(columns[0])
        if self.kernel == "spark":
            raise KernelRefuses("generate_series runs on DuckDB")
        name = "INTEGER" if kind.name == "int" else "BIGINT"
        call = f"unnest(generate_series({', '.join(parts)}))"
        return f"LATERAL (SELECT CAST({call} AS {name}) AS {value}) AS {self.scalars.name(alias.name)}"

    # --- GROUP BY --------------------------------------------------------------------------------

    def _group(self, group: exp.Expression) -> str:
        elements = [self._group_element(part) for part in group.expressions]
        for key, word in (("grouping_sets", "GROUPING SETS"), ("rollup", "ROLLUP"), ("cube", "CUBE")):
            for part in group.args.get(key) or []:
                elements.append(self._group_element(part) if isinstance(part, exp.Expression) else word)
        return "GROUP BY " + ", ".join(elements)

    def _group_element(self, node: exp.Expression) -> str:
        words = {exp.GroupingSets: "GROUPING SETS ", exp.Rollup: "ROLLUP ", exp.Cube: "CUBE ", exp.Tuple: ""}
        word = words.get(type(node))
        if word is None:
            return self.scalars.scalar(node)
        return f"{word}({', '.join(self._group_element(part) for part in node.expressions)})"
