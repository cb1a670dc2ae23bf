"""CREATE, ALTER and DROP of tables, streams, views, continuous queries, triggers and queues."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, NoReturn, cast

from sqlglot import exp

from midstream.errors import DuplicateName, SqlSyntaxError, TypeMismatch
from midstream.sql import statements as s
from midstream.sql.durations import MICROSECONDS, unit_of
from midstream.sql.expressions import Binds
from midstream.sql.lexer import Token
from midstream.sql.queries import QueryReader
from midstream.sql.statements import Sql

_COLUMN_CONSTRAINTS = frozenset(
    """constraint not null default primary unique check references collate generated deferrable initially storage
    compression increasing strictly""".split()
)
_UNKNOWN_OBJECTS = """access aggregate cast collation conversion database default domain event extension function group
    index language operator policy procedural procedure publication role routine rule schema sequence server
    statistics subscription tablespace text transform type user unlogged""".split()
_DROP_KINDS: tuple[tuple[tuple[str, ...], s.DropKind], ...] = (
    (("table",), "table"),
    (("foreign", "table"), "stream"),
    (("stream",), "stream"),
    (("view",), "view"),
    (("materialized", "view"), "view"),
    (("continuous", "view"), "view"),
    (("continuous", "query"), "continuous query"),
    (("trigger",), "trigger"),
    (("queue",), "queue"),
)


class DefinitionReader(QueryReader):
    # --- CREATE ----------------------------------------------------------------------------------

    def create(self) -> s.Statement:
        self.expect("create")
        or_replace = self.take("or", "replace")
        if not or_replace or self._sees_view():
            if self._sees_view():
                return self._create_view(or_replace)
            if self.take("table"):
                return self._create_table()
            if self.take("stream"):
                return self._create_stream(foreign=False)
            if self.take("foreign", "table"):
                return self._create_stream(foreign=True)
            if self.take("continuous", "query"):
                return self._create_continuous_query()
            if self.take("trigger"):
                return self._create_trigger()
            if self.take("queue"):
                return self._create_queue()
        self._refuse_object("CREATE OR REPLACE" if or_replace else "CREATE")

    def _sees_view(self) -> bool:
        return self.sees("view") or (self.sees_any("continuous", "materialized") and self.peek().value == "view")

    def _refuse_object(self, verb: str) -> NoReturn:
        if self.sees_any("temp", "temporary", "unlogged"):
            self.refuse(f"{verb} {self.token.value.upper()}", hint="Every table is kept; drop it when it is done with.")
        if self.sees_any("index") or self.sees("unique", "index"):
            self.refuse(f"{verb} INDEX", hint="Keys are found without one; UNIQUE and PRIMARY KEY are constraints.")
        if self.token.kind == "word" and self.token.value in _UNKNOWN_OBJECTS:
            self.refuse(f"{verb} {self.token.value.upper()}")
        self.fail_here()

    def _if_not_exists(self) -> bool:
        return self.take("if", "not", "exists")

    def _create_table(self) -> s.Statement:
        if_not_exists = self._if_not_exists()
        name = self.relation_name()
        if self.sees("as"):
            return self._create_table_as(name, if_not_exists)
        if self.sees_any("using", "location"):
            self.refuse(f"{self.token.value.upper()} in CREATE TABLE", detail="Every table is a Delta Lake table.")
        if self.sees("of") or self.sees("partition"):
            self.refuse(f"CREATE TABLE … {self.token.value.upper()}")
        columns, constraints = self._table_elements()
        self._refuse_table_clauses()
        return s.CreateTable(name, columns, constraints, if_not_exists)

    def _refuse_table_clauses(self) -> None:
        for words in (("inherits",), ("partition", "by"), ("partitioned", "by"), ("with",), ("without",), ("using",)):
            if self.sees(*words):
                self.refuse(f"{' '.join(words).upper()} in CREATE TABLE")
        if self.sees("tablespace") or self.sees("on", "commit"):
            self.refuse(f"{self.token.value.upper()} in CREATE TABLE")
        if self.sees("as"):
            self.refuse("CREATE TABLE with columns and AS", hint="Name the columns in the query.")

    def _create_table_as(self, name: str, if_not_exists: bool) -> s.Statement:
        self.expect("as")
        query = self.sql(self.query)
        if self.take("with", "no", "data"):
            self.index -= 3
            self.refuse("WITH NO DATA", hint="Add LIMIT 0 to the query.")
        self.take("with", "data")
        return s.CreateTableAs(name, query, if_not_exists)

    def _table_elements(self) -> tuple[tuple[s.ColumnDefinition, ...], tuple[s.Constraint, ...]]:
        columns: list[s.ColumnDefinition] = []
        constraints: list[s.Constraint] = []
        self.expect("(")
        while True:
            if self._sees_table_constraint():
                constraints.append(self._table_constraint())
            elif self.sees("like"):
                self.refuse("LIKE in CREATE TABLE", hint="Use CREATE TABLE name AS TABLE other.")
            else:
                column, own = self._column_definition()
                self._add_column(columns, column)
                constraints.extend(own)
            if not self.take(","):
                break
        self.expect(")")
        return tuple(columns), tuple(constraints)

    def _add_column(self, columns: list[s.ColumnDefinition], column: s.ColumnDefinition) -> None:
        if any(column.name == other.name for other in columns):
            error = DuplicateName(f'column "{column.name}" specified more than once', sqlstate="42701")
            error.position, error.sql = column.position, self.source.text
            raise error
        columns.append(column)

    def _column_definition(self) -> tuple[s.ColumnDefinition, list[s.Constraint]]:
        position = self.position()
        name = self.name()
        self._refuse_serial()
        type_ = self.type()
        not_null, default, constraints = self._column_constraints(name)
        return s.ColumnDefinition(name, type_, not_null, default, position), constraints

    def _refuse_serial(self) -> None:
        if self.sees_any("serial", "bigserial", "smallserial"):
            self.fail_here(
                TypeMismatch(
                    f'type "{self.token.value}" does not exist',
                    detail="There are no sequences.",
                    hint="Use bigint and insert the numbers.",
                    sqlstate="42704",
                )
            )

    def _column_constraints(self, column: str) -> tuple[bool, Sql | None, list[s.Constraint]]:
        not_null, nullable, default = False, False, None
        constraints: list[s.Constraint] = []
        while self.token.kind == "word" and self.token.value in _COLUMN_CONSTRAINTS:
            token = self.token
            name = self.name() if self.take("constraint") else None
            if self.take("not", "null"):
                not_null = True
            elif self.take("null"):
                nullable = True
            elif self.take("default"):
                if default is not None:
                    self.fail_at(token, SqlSyntaxError(f'multiple default values specified for column "{column}"'))
                default = self.sql(self._default)
            else:
                constraints.append(self._column_constraint(column, name, token))
        if not_null and nullable:
            self.fail_here(SqlSyntaxError(f'conflicting NULL/NOT NULL declarations for column "{column}"'))
        return not_null, default, constraints

    def _default(self) -> exp.Expression:
        """A default ends where the next constraint of the column begins, so it has no bare NOT, IS or AND."""
        return self.expression(Binds.OPERATOR)

    def _column_constraint(self, column: str, name: str | None, token: Token) -> s.Constraint:
        position = self.position(token)
        if self.take("primary", "key"):
            constraint: s.Constraint = s.PrimaryKey((column,), name=name, position=position)
        elif self.take("unique"):
            constraint = s.Unique((column,), name=name, position=position)
        elif self.take("check"):
            constraint = s.Check(self._condition(), name=name, position=position)
        elif self.take("references"):
            constraint = self._references((column,), name, token)
        elif self.sees_any("increasing", "strictly"):
            constraint = self._increasing(column, name, token)
        elif self.sees("generated"):
            self.refuse("GENERATED columns")
        elif self.sees("collate"):
            self.refuse("COLLATE", detail="Texts are compared by code point.")
        else:
            self.fail_here()
        self._refuse_deferrable()
        return constraint

    def _refuse_deferrable(self) -> None:
        if self.sees("not", "deferrable") or self.sees_any("deferrable", "initially"):
            self.refuse("DEFERRABLE", detail="Constraints are checked at the end of each statement.")

    def _condition(self) -> Sql:
        self.expect("(")
        condition = self.sql(self.expression)
        self.expect(")")
        if self.sees("no", "inherit"):
            self.refuse("NO INHERIT")
        return condition

    def _references(self, columns: tuple[str, ...], name: str | None, token: Token) -> s.References:
        table = self.relation_name()
        referred = self.column_names() if self.sees("(") else ()
        on_delete: Literal["restrict", "cascade"] = "restrict"
        while self.sees_any("on", "match"):
            if self.sees("match"):
                self.refuse("MATCH in REFERENCES")
            self.expect("on")
            event = self.take_any("delete", "update") or self.fail_here()
            action = self._referential_action(event)
            if event == "delete":
                on_delete = action
        return s.References(columns, table, referred, on_delete, name=name, position=self.position(token))

    def _referential_action(self, event: str) -> Literal["restrict", "cascade"]:
        if self.take("restrict") or self.take("no", "action"):
            return "restrict"
        if self.sees("cascade") and event == "delete":
            self.advance()
            return "cascade"
        self.refuse(
            f"ON {event.upper()} {self.token.value.upper()}",
            hint="Use ON DELETE CASCADE or ON DELETE RESTRICT." if event == "delete" else "Leave ON UPDATE out.",
        )

    def _increasing(self, column: str | None, name: str | None, token: Token) -> s.Increasing:
        strictly = self.take("strictly")
        self.expect("increasing")
        column = column if column is not None else self.name()
        partition = self._partition() if self.take("partition", "by") else ()
        return s.Increasing(column, partition, strictly, name=name, position=self.position(token))

    def _partition(self) -> tuple[str, ...]:
        """Names up to a comma behind which something else begins: a column, a constraint, another change."""
        names = [self.name()]
        while self.sees(",") and (self.peek(2).kind == "end" or self.peek(2).value in (",", ")", "on")):
            self.advance()
            names.append(self.name())
        return tuple(names)

    def _sees_table_constraint(self) -> bool:
        if self.sees_any("constraint", "primary", "unique", "check", "foreign"):
            return True
        if self.sees("strictly", "increasing"):
            return True
        # A column may be called "increasing": then a type follows it, and behind that no column's name.
        return (
            self.sees("increasing")
            and self.peek().kind in ("word", "quoted")
            and (self.peek(2).value in (",", ")", "partition"))
        )

    def _table_constraint(self) -> s.Constraint:
        token = self.token
        position = self.position()
        name = self.name() if self.take("constraint") else None
        if self.take("primary", "key"):
            constraint: s.Constraint = s.PrimaryKey(self.column_names(), name=name, position=position)
        elif self.take("unique"):
            if self.sees("nulls"):
                self.refuse("UNIQUE NULLS NOT DISTINCT")
            constraint = s.Unique(self.column_names(), name=name, position=position)
        elif self.take("check"):
            constraint = s.Check(self._condition(), name=name, position=position)
        elif self.take("foreign", "key"):
            columns = self.column_names()
            self.expect("references")
            constraint = self._references(columns, name, token)
        elif self.sees_any("increasing", "strictly"):
            constraint = self._increasing(None, name, token)
        elif self.sees("exclude"):
            self.refuse("EXCLUDE constraints")
        else:
            self.fail_here()
        self._refuse_deferrable()
        if self.sees_any("using", "include"):
            self.refuse(f"{self.token.value.upper()} in a constraint")
        if self.sees("not", "valid"):
            self.refuse("NOT VALID", detail="A new constraint is checked against the rows that are there.")
        return constraint

    def _create_stream(self, foreign: bool) -> s.CreateStream:
        if_not_exists = self._if_not_exists()
        name = self.relation_name()
        columns, constraints = self._table_elements()
        if foreign:
            self.expect("server")
            server = self.token
            if self.name() != "stream":
                self.fail_at(
                    server,
                    SqlSyntaxError(
                        f'server "{server.value}" does not exist', hint="Write SERVER stream.", sqlstate="42704"
                    ),
                )
            if self.sees("options"):
                self.refuse("OPTIONS", hint="Write WITH (name = value).")
        return s.CreateStream(name, columns, constraints, self.options(), if_not_exists)

    def options(self) -> s.Options:
        """[WITH (name = value, name)]"""
        if not self.take("with"):
            return {}
        options: dict[str, object] = {}
        self.expect("(")
        while True:
            token = self.token
            key = self.label()
            if key in options:
                self.fail_at(token, SqlSyntaxError(f'option "{key}" given more than once'))
            options[key] = self.setting_value() if self.take("=") else True
            if not self.take(","):
                break
        self.expect(")")
        return options

    def setting_value(self) -> object:
        """A word, a string or a number; on and off are left as words for those who know the setting."""
        token = self.token
        if token.kind == "string":
            return self.advance().value
        if token.kind in ("word", "quoted"):
            word = self.advance().value
            return {"true": True, "false": False}.get(word, word) if token.kind == "word" else word
        sign = -1 if self.take("-") else 1
        if self.token.kind != "number":
            self.fail_here()
        text = self.advance().value
        return sign * int(text) if text.isdigit() and len(text) < 100 else sign * Decimal(text)

    # --- views -----------------------------------------------------------------------------------

    def _create_view(self, or_replace: bool) -> s.Statement:
        kind = self.take_any("continuous", "materialized") or "plain"
        self.expect("view")
        if_not_exists = self._if_not_exists()
        name = self.relation_name()
        columns = self.column_names() if self.sees("(") else ()
        options = self.options()
        self.expect("as")
        if self.sees("initialize"):
            return self._part_view(name, or_replace, options)
        query = self.sql(self.query)
        self.take("with", "data")
        if self.sees("with"):
            self.refuse("WITH behind the query of a view", hint="Options stand before AS: CREATE VIEW v WITH (…) AS ….")
        kind_ = cast(Literal["plain", "continuous", "materialized"], kind)
        return s.CreateView(name, query, columns, kind_, or_replace, if_not_exists, options)

    def _part_view(self, name: str, or_replace: bool, options: s.Options) -> s.CreatePartView:
        self.expect("initialize")
        initialize_index = self._part_index(name)
        self.expect("as")
        initialize = self.sql(self.query)
        self.expect("update")
        update_index = self._part_index(name)
        self.expect("as")
        update = self.sql(self.query)
        self.expect("partition", "length")
        length = self.integer()
        return s.CreatePartView(name, initialize_index, initialize, update_index, update, length, or_replace, options)

    def _part_index(self, view: str) -> str:
        token = self.token
        if self.relation_name() != view:
            self.fail_at(token, SqlSyntaxError(f'INITIALIZE and UPDATE must name the view "{view}"'))
        self.expect("[")
        index = self.name()
        self.expect("]")
        return index

    # --- continuous queries, triggers, queues ----------------------------------------------------

    def _create_continuous_query(self) -> s.CreateContinuousQuery:
        if_not_exists = self._if_not_exists()
        name = self.relation_name()
        key: tuple[str, ...] = ()
        compute: s.Compute | None = None
        destination: s.Destination | None = None
        options: s.Options = {}
        while not self.sees("as"):
            token = self.token
            if not key and self.take("primary", "key"):
                key = self.column_names()
            elif compute is None and self.take("compute"):
                compute = self._compute()
            elif destination is None and self.take("destination"):
                destination = self._destination()
            elif not options and self.sees("with"):
                options = self.options()
            else:
                self.fail_at(token)
        self.expect("as")
        query = self.sql(self.query)
        return s.CreateContinuousQuery(name, query, key, compute, destination, options, if_not_exists)

    def _compute(self) -> s.Compute:
        if self.take("on", "commit"):
            return s.Compute("on commit")
        mode = self.take_any("transactional", "batched")
        transactional = None if mode is None else mode == "transactional"
        self.take("delta")
        if self.take("on", "demand"):
            return s.Compute("on demand", transactional)
        if self.take("on", "commit"):
            return s.Compute("on commit", transactional)
        start = None
        if self.take("start"):
            self.expect("with")
            start = self.string()
        self.expect("period")
        return s.Compute("periodic", transactional, start, self._period())

    def _period(self) -> int:
        token = self.token
        number = self.integer()
        unit = unit_of(self.label())
        if unit is None or (number * unit) % MICROSECONDS["second"] or number == 0:
            self.fail_at(token, SqlSyntaxError("a period is a number of seconds, minutes, hours, days or weeks"))
        return number * unit // MICROSECONDS["second"]

    def _destination(self) -> s.Destination:
        is_queue = (
            self.sees("queue")
            and self.peek().kind in ("word", "quoted")
            and self.peek().value not in (("as", "with", "compute", "primary", "destination"))
        )
        if is_queue:
            self.advance()
        return s.Destination(self.relation_name(), is_queue)

    def alter_continuous_query(self) -> s.AlterContinuousQuery:
        name = self.relation_name()
        if self.take("compute"):
            return s.AlterContinuousQuery(name, self._compute())
        if self.take("destination"):
            return s.AlterContinuousQuery(name, self._destination())
        action = self.take_any("suspend", "activate", "deactivate") or self.fail_here()
        return s.AlterContinuousQuery(name, cast(Literal["suspend", "activate", "deactivate"], action))

    def _create_trigger(self) -> s.CreateTrigger:
        name = self.relation_name()
        if self.sees_any("before", "after", "instead"):
            self.refuse(
                f"a {self.token.value.upper()} trigger",
                hint="Write CREATE TRIGGER name ON continuous_query FOR EACH ROW EXECUTE 'module:function'.",
            )
        self.expect("on")
        on = self.relation_name()
        self.expect("for", "each", "row")
        if self.take("notify"):
            return s.CreateTrigger(name, on, channel=self.name())
        self.expect("execute")
        return s.CreateTrigger(name, on, function=self.string())

    def _create_queue(self) -> s.CreateQueue:
        if_not_exists = self._if_not_exists()
        return s.CreateQueue(self.relation_name(), if_not_exists)

    # --- ALTER -----------------------------------------------------------------------------------

    def alter(self) -> s.Statement:
        self.expect("alter")
        if self.take("continuous", "query"):
            return self.alter_continuous_query()
        if self.take("table"):
            return self._alter_table()
        if self.sees_any("view", "materialized", "stream", "foreign", "continuous"):
            self.refuse(f"ALTER {self.token.value.upper()}", hint="Drop it and create it anew.")
        self._refuse_object("ALTER")

    def _alter_table(self) -> s.AlterTable:
        if_exists = self.take("if", "exists")
        if self.sees("only"):
            self.refuse("ONLY")
        name = self.relation_name()
        if self.take("rename"):
            return s.AlterTable(name, (self._rename(),), if_exists)
        return s.AlterTable(name, tuple(self.list_of(self._alteration)), if_exists)

    def _rename(self) -> s.Alteration:
        if self.sees("constraint"):
            self.refuse("RENAME CONSTRAINT", hint="Drop the constraint and add it under the new name.")
        if self.take("to"):
            return s.RenameTable(self.name())
        self.take("column")
        old = self.name()
        self.expect("to")
        return s.RenameColumn(old, self.name())

    def _alteration(self) -> s.Alteration:
        if self.take("add"):
            return self._add()
        if self.take("drop"):
            return self._drop_part()
        if self.take("alter"):
            return self._alter_column()
        if self.sees("rename"):
            self.fail_here(SqlSyntaxError("RENAME stands alone in ALTER TABLE", hint="Use a statement for each."))
        if self.token.kind == "word":
            self.refuse(f"ALTER TABLE … {self.token.value.upper()}")
        self.fail_here()

    def _add(self) -> s.Alteration:
        if self._sees_table_constraint():
            return s.AddConstraint(self._table_constraint())
        self.take("column")
        if_not_exists = self._if_not_exists()
        column, constraints = self._column_definition()
        return s.AddColumn(column, tuple(constraints), if_not_exists)

    def _drop_part(self) -> s.Alteration:
        is_constraint = self.take("constraint")
        if not is_constraint:
            self.take("column")
        if_exists = self.take("if", "exists")
        name = self.name()
        cascade = self._cascade()
        return s.DropConstraint(name, cascade, if_exists) if is_constraint else s.DropColumn(name, cascade, if_exists)

    def _cascade(self) -> bool:
        return self.take_any("cascade", "restrict") == "cascade"

    def _alter_column(self) -> s.Alteration:
        self.take("column")
        column = self.name()
        if self.take("set", "default"):
            return s.SetDefault(column, self.sql(self._default))
        if self.take("drop", "default"):
            return s.SetDefault(column, None)
        if self.take("set", "not", "null"):
            return s.SetNotNull(column, True)
        if self.take("drop", "not", "null"):
            return s.SetNotNull(column, False)
        if self.sees("type") or self.sees("set", "data"):
            self.refuse("ALTER COLUMN … TYPE", hint="Add a new column, UPDATE it, and drop the old one.")
        self.fail_here()

    def constraint_on_table(self) -> s.AlterTable:
        """CONSTRAINT up INCREASING time PARTITION BY loc ON temps"""
        constraint = self._table_constraint()
        self.expect("on")
        return s.AlterTable(self.relation_name(), (s.AddConstraint(constraint),))

    # --- DROP ------------------------------------------------------------------------------------

    def drop(self) -> s.Statement:
        self.expect("drop")
        for words, kind in _DROP_KINDS:
            if self.take(*words):
                if_exists = self.take("if", "exists")
                names = tuple(self.list_of(self.relation_name))
                return s.Drop(kind, names, if_exists, self._cascade())
        self._refuse_object("DROP")
