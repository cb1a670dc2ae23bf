"""Queries: SELECT, VALUES, TABLE, set operations, WITH, and what sorts and limits them.

The trees are those that sqlglot makes of PostgreSQL's SQL, so that its tools fit; what sqlglot would skip or
guess is refused here.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from midstream.errors import SqlSyntaxError, Unsupported
from midstream.sql.keywords import NEED_AS, NO_BARE_NAME
from midstream.sql.lexer import Token
from midstream.sql.positions import mark, position_of
from midstream.sql.reader import too_complex
from midstream.sql.relations import RelationReader

_MAX_SET_OPERATIONS = 100

_ANY_ROWS = ["exists", "(", "select"]


class QueryReader(RelationReader):
    def query(self) -> exp.Expression:
        """A whole query, with WITH before it and ORDER BY, LIMIT, OFFSET behind it."""
        self.enter()
        token = self.token
        with_ = self._with() if self.sees("with") else None
        query = self._set_operations()
        self._modifiers(query)
        if with_ is not None:
            query.set("with_", with_)
        self.leave()
        return self.placed(query, token)

    # --- WITH ------------------------------------------------------------------------------------

    def _with(self) -> exp.With:
        token = self.expect("with")
        recursive = self.take("recursive") or None
        tables = self.list_of(self._common_table)
        return self.placed(exp.With(expressions=tables, recursive=recursive), token)

    def _common_table(self) -> exp.CTE:
        token = self.token
        alias = exp.TableAlias(this=self.identifier())
        if self.sees("("):
            alias.set("columns", self.in_parentheses(self.identifier))
        self.expect("as")
        materialized = None
        if self.take("not", "materialized"):
            materialized = False
        elif self.take("materialized"):
            materialized = True
        self.expect("(")
        if self.sees_any("insert", "update", "delete", "merge"):
            self.refuse(f"{self.token.value.upper()} inside WITH", hint="Run it as a statement of its own.")
        query = self.query()
        self.expect(")")
        if self.sees_any("search", "cycle"):
            self.refuse(f"{self.token.value.upper()} behind WITH RECURSIVE")
        cte = exp.CTE(this=_values_as_select(query), alias=alias, materialized=materialized)
        return self.placed(cte, token)

    # --- UNION, EXCEPT, INTERSECT ----------------------------------------------------------------

    def _set_operations(self) -> exp.Expression:
        query = self._intersections()
        operations = 0
        while self.sees_any("union", "except"):
            token = self._one_more(operations)
            kind = exp.Union if token.value == "union" else exp.Except
            distinct = self._is_distinct()
            right = self._intersections()
            if isinstance(right, exp.Intersect):
                right = exp.Subquery(this=right)
            query = self._set_operation(kind, query, distinct, right)
            operations += 1
        return query

    def _intersections(self) -> exp.Expression:
        query = self._query_term()
        operations = 0
        while self.sees("intersect"):
            self._one_more(operations)
            distinct = self._is_distinct()
            query = self._set_operation(exp.Intersect, query, distinct, self._query_term())
            operations += 1
        return query

    def _one_more(self, operations: int) -> Token:
        if operations >= _MAX_SET_OPERATIONS:
            self.fail_here(too_complex())
        return self.advance()

    def _is_distinct(self) -> bool:
        return self.take_any("all", "distinct") != "all"

    def _set_operation(
        self, kind: type[exp.SetOperation], left: exp.Expression, distinct: bool, right: exp.Expression
    ) -> exp.Expression:
        node = kind(this=_values_as_select(left), distinct=distinct, expression=_values_as_select(right))
        if (position := position_of(left)) is not None:
            mark(node, position)
        return node

    def _query_term(self) -> exp.Expression:
        token = self.token
        if self.sees("select"):
            return self.placed(self._select(), token)
        if self.sees("values"):
            return self.placed(self.values(), token)
        if self.take("table"):
            return self.placed(self._table_query(self.placed(exp.Star(), token)), token)
        if self.take("("):
            query = self.query()
            self.expect(")")
            return self.placed(exp.Subquery(this=query), token)
        self.fail_here()

    def _table_query(self, star: exp.Star) -> exp.Select:
        token = self.token
        if self.sees("only"):
            self.refuse("ONLY")
        table = self._table(token)
        if table.args.get("alias") is not None:
            self.fail_at(token)
        return exp.Select(expressions=[star], from_=exp.From(this=table))

    def values(self, allow_default: bool = False) -> exp.Values:
        self.expect("values")
        read = self._value_or_default if allow_default else self.expression
        rows = [self._value_row(read)]
        while self.take(","):
            token = self.token
            rows.append(self._value_row(read))
            if len(rows[-1].expressions) != len(rows[0].expressions):
                self.fail_at(token, SqlSyntaxError("VALUES lists must all be the same length"))
        return exp.Values(expressions=rows)

    def _value_row(self, read: Callable[[], exp.Expression]) -> exp.Tuple:
        token = self.token
        items = self.in_parentheses(read)
        return self.placed(exp.Tuple(expressions=items), token)

    def _value_or_default(self) -> exp.Expression:
        token = self.token
        if self.take("default"):
            return self.placed(exp.Var(this="DEFAULT"), token)
        return self.expression()

    # --- SELECT ----------------------------------------------------------------------------------

    def _select(self) -> exp.Select:
        self.expect("select")
        select = exp.Select()
        distinct = self._distinct()
        if distinct is not None:
            select.set("distinct", distinct)
        if self.sees("from") and self._is_asked_for_rows():
            select.set("expressions", [exp.Literal.number(1)])
        elif self.sees_any("from", "where", ")") or self.at_end:
            self.fail_here()
        else:
            select.set("expressions", self.list_of(self._target))
        if self.sees("into"):
            self.refuse("SELECT … INTO", hint="Use CREATE TABLE name AS SELECT ….")
        self._from(select)
        self._where_and_group(select)
        if self.take("window"):
            select.set("windows", self.list_of(self._named_window))
        if self.sees("qualify"):
            self.refuse("QUALIFY", hint="Filter the window function in an outer query.")
        return select

    def _is_asked_for_rows(self) -> bool:
        """EXISTS (SELECT FROM …): whether there are any, whatever their columns."""
        return self.index > 2 and [token.value for token in self.tokens[self.index - 3 : self.index]] == _ANY_ROWS

    def _distinct(self) -> exp.Distinct | None:
        token = self.token
        if not self.take("distinct"):
            self.take("all")
            return None
        if self.take("on"):
            keys = self.in_parentheses(self.expression)
            return self.placed(exp.Distinct(on=exp.Tuple(expressions=keys)), token)
        return self.placed(exp.Distinct(), token)

    def _target(self) -> exp.Expression:
        token = self.token
        if self.sees("*"):
            return self.placed(exp.Star(), self.advance())
        value = self.expression()
        if isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            return value
        if self.take("as"):
            return self.placed(exp.Alias(this=value, alias=self.label_identifier()), token)
        if self._sees_bare_label():
            return self.placed(exp.Alias(this=value, alias=self.label_identifier()), token)
        return value

    def _sees_bare_label(self) -> bool:
        return self.token.kind == "quoted" or (
            self.token.kind == "word" and self.token.value not in NEED_AS and self.token.value not in NO_BARE_NAME
        )

    def _from(self, select: exp.Select) -> None:
        token = self.token
        if self.take("from"):
            first, joins = self.from_items()
            select.set("from_", self.placed(exp.From(this=first), token))
            if joins:
                select.set("joins", joins)
            if self.sees("lateral", "view"):
                self.refuse("LATERAL VIEW", hint="Use CROSS JOIN LATERAL unnest(…) AS alias (column).")

    def _where_and_group(self, select: exp.Select) -> None:
        self.where(select)
        token = self.token
        if self.take("group"):
            self.expect("by")
            select.set("group", self.placed(self._group_by(), token))
        token = self.token
        if self.take("having"):
            select.set("having", self.placed(exp.Having(this=self.expression()), token))

    def where(self, node: exp.Expression) -> None:
        token = self.token
        if self.take("where"):
            node.set("where", self.placed(exp.Where(this=self.expression()), token))

    def _group_by(self) -> exp.Group:
        if self.sees("distinct"):
            self.refuse("GROUP BY DISTINCT")
        self.take("all")
        return exp.Group(expressions=self.list_of(self._grouping))

    def _grouping(self) -> exp.Expression:
        token = self.token
        if self.take("grouping", "sets"):
            return self.placed(exp.GroupingSets(expressions=self.in_parentheses(self._grouping)), token)
        for word, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
            if self.sees(word, "("):
                self.advance()
                return self.placed(kind(expressions=self.in_parentheses(self.expression)), token)
        if self.take("(", ")"):
            return self.placed(exp.Tuple(), token)
        return self.expression()

    def _named_window(self) -> exp.Window:
        name = self.identifier()
        self.expect("as")
        return self.window_specification(name)

    # --- ORDER BY, LIMIT, OFFSET -----------------------------------------------------------------

    def _modifiers(self, query: exp.Expression) -> None:
        order = self.order_by()
        if order is not None:
            self._set_once(query, "order", order)
        while self.sees_any("limit", "offset", "fetch"):
            token = self.token
            key, node = self._limit() if not self.sees("offset") else self._offset()
            if node is not None:
                self._set_once(query, key, self.placed(node, token))
        if self.sees("for"):
            self.refuse(
                "a locking clause (FOR UPDATE, FOR SHARE)",
                detail="Readers never wait for writers here; a write conflict ends in SQLSTATE 40001.",
                hint="Leave it out.",
            )

    def _set_once(self, query: exp.Expression, key: str, node: exp.Expression) -> None:
        if query.args.get(key) is not None:
            name = {"order": "ORDER BY"}.get(key, key.upper())
            self.fail_here(SqlSyntaxError(f"multiple {name} clauses not allowed"))
        query.set(key, node)

    def _limit(self) -> tuple[str, exp.Expression | None]:
        if self.take("limit"):
            if self.take("all") or self.take("null"):
                return "limit", None
            count = self.expression()
            if self.sees(","):
                self.fail_here(
                    SqlSyntaxError("LIMIT #,# syntax is not supported", hint="Use separate LIMIT and OFFSET clauses.")
                )
            return "limit", exp.Limit(expression=count)
        self.expect("fetch")
        self.take_any("first", "next") or self.fail_here()
        given = not self.sees_any("row", "rows")
        count = self.expression() if given else exp.Literal.number(1)
        self.take_any("rows", "row") or self.fail_here()
        if self.sees("with"):
            self.fail_here(Unsupported("FETCH … WITH TIES is not supported", hint="Use rank() in a subquery."))
        self.expect("only")
        return "limit", exp.Limit(expression=count)

    def _offset(self) -> tuple[str, exp.Expression]:
        self.expect("offset")
        count = self.expression()
        self.take_any("rows", "row")
        return "offset", exp.Offset(expression=count)


def _values_as_select(query: exp.Expression) -> exp.Expression:
    """VALUES as an operand is a select from it, as sqlglot has it."""
    if not isinstance(query, exp.Values):
        return query
    select = exp.Select(expressions=[exp.Star()])
    for key in ("with_", "order", "limit", "offset"):
        if (modifier := query.args.get(key)) is not None:
            query.set(key, None)
            select.set(key, modifier)
    query.set("alias", exp.TableAlias(this=exp.Identifier(this="_values", quoted=False)))
    select.set("from_", exp.From(this=query))
    if (position := position_of(query)) is not None:
        mark(select, position)
    return select
