"""INSERT, UPDATE, DELETE, MERGE and COPY."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from midstream.errors import SqlSyntaxError, Unsupported
from midstream.sql import statements as s
from midstream.sql.definitions import DefinitionReader
from midstream.sql.lexer import Token
from midstream.sql.statements import DEFAULT

_FORMATS = ("csv", "parquet", "json")
_COPY_TEXTS = ("delimiter", "null", "quote", "escape", "encoding")
_MAX_INTEGER_DIGITS = 4000
"""Python reads no longer integers from text; such a number goes the way of expressions and is refused there."""


class ManipulationReader(DefinitionReader):
    # --- INSERT ----------------------------------------------------------------------------------

    def insert(self) -> s.Statement:
        self.expect("insert")
        if self.sees("overwrite"):
            self.refuse("INSERT OVERWRITE", hint="Use DELETE and INSERT in one transaction.")
        self.expect("into")
        table = self.relation_name()
        if self.sees("as"):
            self.refuse("an alias in INSERT", detail="Only ON CONFLICT would use it.")
        columns = self.column_names() if self.sees("(") and not self.sees_query() else ()
        if self.sees("overriding"):
            self.refuse("OVERRIDING", detail="There are no identity columns.")
        statement = self._insert_source(table, columns)
        self._refuse_conflict_and_returning()
        return statement

    def _insert_source(self, table: str, columns: tuple[str, ...]) -> s.Statement:
        if self.take("default", "values"):
            return s.InsertQuery(table, columns, None)
        if not self.sees("values"):
            return s.InsertQuery(table, columns, self.sql(self.query))
        start = self.index
        query = self.sql(lambda: self.values(allow_default=True))
        if self.sees_any("order", "limit", "offset", "fetch", "union", "except", "intersect"):
            self.index = start
            return s.InsertQuery(table, columns, self.sql(self.query))
        rows = plain_rows(query.tree())
        return s.InsertQuery(table, columns, query) if rows is None else s.InsertValues(table, columns, rows)

    def _refuse_conflict_and_returning(self) -> None:
        if self.sees("on", "conflict"):
            merge = "MERGE INTO … USING … ON … WHEN NOT MATCHED THEN INSERT …"
            self.refuse("ON CONFLICT", hint=f"For a table, use {merge}. A stream has no keys.")
        self.refuse_returning()

    def refuse_returning(self) -> None:
        if self.sees("returning"):
            self.refuse("RETURNING", hint="SELECT the rows in the same transaction.")

    # --- UPDATE, DELETE --------------------------------------------------------------------------

    def update(self) -> s.Update:
        sql = self.sql(self._update_tree)
        return s.Update(sql.tree().this.name, sql)

    def _update_tree(self) -> exp.Expression:
        token = self.expect("update")
        update = exp.Update(this=self._target_table())
        self.expect("set")
        update.set("expressions", self.list_of(self._assignment))
        start = self.token
        if self.take("from"):
            first, joins = self.from_items()
            for join in joins:
                first.append("joins", join)
            update.set("from_", self.placed(exp.From(this=first), start))
        self.where(update)
        self._refuse_dml_tail("UPDATE")
        return self.placed(update, token)

    def _target_table(self) -> exp.Table:
        token = self.token
        if self.sees("only"):
            self.refuse("ONLY")
        table = self.placed(exp.Table(this=self.relation_identifier()), token)
        if self.sees("["):
            self.fail_here()
        table.set("alias", self.alias())
        return table

    def _assignment(self) -> exp.EQ:
        token = self.token
        if self.sees("("):
            left: exp.Expression = exp.Tuple(expressions=self.in_parentheses(self._assigned_column))
        else:
            left = self._assigned_column()
        self.placed(left, token)
        self.expect("=")
        right = self._assigned_value(several=isinstance(left, exp.Tuple))
        return self.placed(exp.EQ(this=left, expression=right), token)

    def _assigned_column(self) -> exp.Column:
        token = self.token
        column = self.placed(exp.Column(this=self.identifier()), token)
        if self.sees("["):
            self.refuse("assignment to an array element", hint="Assign the whole array.")
        if self.sees("."):
            self.fail_here(
                SqlSyntaxError('syntax error at or near "."', hint="A column that is set is written without its table.")
            )
        return column

    def _assigned_value(self, several: bool) -> exp.Expression:
        if not several:
            return self._value_or_default()
        token = self.token
        self.take("row")
        if not self.sees("("):
            self.fail_here()
        if self.peek().value == "select" or self.peek().value == "with":
            return self.expression()
        return self.placed(exp.Tuple(expressions=self.in_parentheses(self._value_or_default)), token)

    def _refuse_dml_tail(self, verb: str) -> None:
        if self.sees("where", "current", "of"):
            self.refuse("WHERE CURRENT OF")
        self.refuse_returning()
        if self.sees_any("order", "limit"):
            self.refuse(f"{self.token.value.upper()} in {verb}", hint="Choose the rows in WHERE with a subquery.")

    def delete(self) -> s.Delete:
        sql = self.sql(self._delete_tree)
        return s.Delete(sql.tree().this.name, sql)

    def _delete_tree(self) -> exp.Expression:
        token = self.expect("delete", "from")
        delete = exp.Delete(this=self._target_table())
        if self.take("using"):
            first, joins = self.from_items()
            for join in joins:
                first.append("joins", join)
            delete.set("using", [first])
        self.where(delete)
        self._refuse_dml_tail("DELETE")
        return self.placed(delete, token)

    # --- MERGE -----------------------------------------------------------------------------------

    def merge(self) -> s.Merge:
        sql = self.sql(self._merge_tree)
        return s.Merge(sql.tree().this.name, sql)

    def _merge_tree(self) -> exp.Expression:
        token = self.expect("merge")
        self.expect("into")
        target = self._target_table()
        self.expect("using")
        source = self._from_item()
        self.expect("on")
        merge = exp.Merge(this=target, using=source, on=self.expression())
        whens = []
        while self.sees("when"):
            whens.append(self._when())
        if not whens:
            self.fail_here()
        self.refuse_returning()
        merge.set("whens", exp.Whens(expressions=whens))
        return self.placed(merge, token)

    def _when(self) -> exp.When:
        token = self.expect("when")
        matched = not self.take("not")
        self.expect("matched")
        by_source = not matched and self.take("by", "source")
        if not matched and not by_source:
            self.take("by", "target")
        condition = self.expression() if self.take("and") else None
        self.expect("then")
        then = self._merge_action(inserts=not matched and not by_source)
        when = exp.When(matched=matched, source=by_source, condition=condition, then=then)
        return self.placed(when, token)

    def _merge_action(self, inserts: bool) -> exp.Expression:
        token = self.token
        if self.take("do", "nothing"):
            return self.placed(exp.Var(this="DO NOTHING"), token)
        if inserts and self.take("insert"):
            return self.placed(self._merge_insert(token), token)
        if not inserts and self.take("delete"):
            return self.placed(exp.Var(this="DELETE"), token)
        if not inserts and self.take("update"):
            self.expect("set")
            if self.sees("*"):
                self.refuse("UPDATE SET *", hint="Name the columns: UPDATE SET a = s.a.")
            return self.placed(exp.Update(expressions=self.list_of(self._assignment)), token)
        self.fail_here()

    def _merge_insert(self, token: Token) -> exp.Insert:
        if self.sees("*"):
            self.refuse("INSERT *", hint="Name the columns: INSERT (a) VALUES (s.a).")
        columns = self.in_parentheses(self._assigned_column) if self.sees("(") else None
        if self.sees("overriding") or self.sees("default", "values"):
            self.refuse(f"{self.token.value.upper()} in MERGE")
        self.expect("values")
        values = self._value_row(self._value_or_default)
        if columns is not None and len(columns) != len(values.expressions):
            more = (
                "expressions than target columns"
                if len(columns) < len(values.expressions)
                else ("target columns than expressions")
            )
            self.fail_at(token, SqlSyntaxError(f"INSERT has more {more}"))
        return exp.Insert(this=exp.Tuple(expressions=columns) if columns else None, expression=values)

    # --- COPY ------------------------------------------------------------------------------------

    def copy(self) -> s.Copy:
        self.expect("copy")
        if self.take("("):
            query = self.sql(self.query)
            self.expect(")", "to")
            return s.Copy("to", None, (), query, self._copy_path("to"), self._copy_options())
        table = self.relation_name()
        columns = self.column_names() if self.sees("(") else ()
        if self.take("from"):
            path = self._copy_path("from")
            options = self._copy_options()
            if self.sees("where"):
                self.refuse("WHERE in COPY", hint="COPY into a table of its own, then INSERT … SELECT … WHERE.")
            return s.Copy("from", table, columns, None, path, options)
        self.expect("to")
        return s.Copy("to", table, columns, None, self._copy_path("to"), self._copy_options())

    def _copy_path(self, direction: str) -> str | None:
        if self.sees("program"):
            self.fail_here(Unsupported("COPY … PROGRAM is not supported", sqlstate="42501"))
        if self.take("stdin" if direction == "from" else "stdout"):
            return None
        return self.string()

    def _copy_options(self) -> s.Options:
        """`WITH (FORMAT csv, HEADER true)`, or the older `CSV HEADER DELIMITER ';'`."""
        options: dict[str, object] = {}
        with_ = self.take("with")
        if self.take("("):
            while True:
                self._set_copy_option(options, self.token, *self._copy_option())
                if not self.take(","):
                    break
            self.expect(")")
            return options
        start = self.index
        while not self.at_end and not self.sees("where"):
            self._set_copy_option(options, self.token, *self._old_copy_option())
        if with_ and self.index == start:
            self.fail_here()
        return options

    def _set_copy_option(self, options: dict[str, object], token: Token, key: str, value: object) -> None:
        if key in options:
            self.fail_at(token, SqlSyntaxError("conflicting or redundant options"))
        options[key] = value

    def _copy_option(self) -> tuple[str, object]:
        token = self.token
        key = self.label()
        if key == "format":
            return key, self._copy_format(self.token, str(self.setting_value()))
        if key == "header":
            return key, True if self.sees_any(",", ")") else self._boolean()
        if key in _COPY_TEXTS:
            return self._copy_text(key, token)
        self.fail_at(token, SqlSyntaxError(f'option "{key}" not recognized'))

    def _old_copy_option(self) -> tuple[str, object]:
        token = self.token
        key = self.label()
        if key in _FORMATS or key in ("binary", "text"):
            return "format", self._copy_format(token, key)
        if key == "format":
            return key, self._copy_format(self.token, str(self.setting_value()))
        if key == "header":
            return key, True
        if key == "delimiters":
            key = "delimiter"
        if key in _COPY_TEXTS:
            self.take("as")
            return self._copy_text(key, token)
        if key == "force":
            self.fail_at(token, Unsupported("FORCE in COPY is not supported"))
        self.fail_at(token)

    def _copy_format(self, token: Token, name: str) -> str:
        if name.lower() not in _FORMATS:
            self.fail_at(
                token,
                Unsupported(f'COPY format "{name}" is not supported', hint="The formats are csv, parquet and json."),
            )
        return name.lower()

    def _copy_text(self, key: str, token: Token) -> tuple[str, str]:
        value = self.string()
        if key == "encoding":
            if value.lower().replace("-", "") != "utf8":
                self.fail_at(token, Unsupported(f'encoding "{value}" is not supported', hint="Files are in UTF-8."))
            return key, "utf8"
        if key != "null" and len(value) != 1:
            self.fail_at(token, SqlSyntaxError(f"COPY {key} must be a single one-byte character", sqlstate="22023"))
        return key, value

    def _boolean(self) -> bool:
        token = self.token
        value = str(self.setting_value()).lower()
        truths = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
        if value not in truths:
            self.fail_at(token, SqlSyntaxError(f"header requires a Boolean value, not {value}"))
        return truths[value]


def plain_rows(values: exp.Expression) -> tuple[tuple[object, ...], ...] | None:
    """The rows of VALUES as Python values, if they are plain literals all; the slow twin of `bulk`."""
    try:
        return tuple(tuple(_plain(node) for node in row.expressions) for row in values.expressions)
    except _NotPlain:
        return None


class _NotPlain(Exception):
    pass


def _plain(node: exp.Expression) -> object:
    match node:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Var():
            return DEFAULT
        case exp.Literal() if node.is_string:
            return node.name
        case exp.Literal() if len(node.name) <= _MAX_INTEGER_DIGITS:
            return plain_number(node.name)
        case exp.Neg(this=exp.Literal() as inner) if not inner.is_string and len(inner.name) <= _MAX_INTEGER_DIGITS:
            return plain_number("-" + inner.name)
        case _:
            raise _NotPlain


def plain_number(text: str) -> int | Decimal:
    """A number that was written: whole ones are int, the others keep every digit."""
    return int(text) if text.lstrip("+-").isdigit() else Decimal(text)
