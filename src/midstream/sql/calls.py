"""Function calls: arguments, DISTINCT, ORDER BY, FILTER, WITHIN GROUP, OVER, and SQL's calls with words inside.

A call becomes the node that sqlglot has for the function, with the name as it was written in `meta["name"]`;
a function that sqlglot does not know, or knows with other arguments, is an `exp.Anonymous`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser

from midstream.errors import SqlSyntaxError
from midstream.sql.expressions import Binds, ExpressionReader
from midstream.sql.keywords import NO_BARE_NAME
from midstream.sql.lexer import Token

WITHOUT_PARENTHESES: dict[str, type[exp.Expression]] = {
    "current_date": exp.CurrentDate,
    "current_timestamp": exp.CurrentTimestamp,
    "localtimestamp": exp.Localtimestamp,
    "current_user": exp.CurrentUser,
    "session_user": exp.SessionUser,
    "user": exp.CurrentUser,
    "current_catalog": exp.CurrentCatalog,
    "current_schema": exp.CurrentSchema,
}
_REFUSED_WITHOUT_PARENTHESES = ("current_time", "localtime", "current_role", "system_user")
_FIELDS = frozenset(
    """century day decade dow doy epoch hour isodow isoyear julian microseconds millennium milliseconds minute month
    quarter second timezone timezone_hour timezone_minute week year""".split()
)
_DIALECT = Postgres()
_INITCAP_DELIMITERS = exp.Literal.string(_DIALECT.INITCAP_DEFAULT_DELIMITER_CHARS)
_OWN_BUILDERS: dict[str, Callable[[list[exp.Expression]], exp.Expression]] = {
    "ARG_MAX": exp.ArgMax.from_arg_list,
    "ARG_MIN": exp.ArgMin.from_arg_list,
    "MAX_BY": exp.ArgMax.from_arg_list,
    "MIN_BY": exp.ArgMin.from_arg_list,
    "CEIL": exp.Ceil.from_arg_list,
    "FLOOR": exp.Floor.from_arg_list,
    "CHR": lambda arguments: exp.Chr(expressions=arguments),
    "INITCAP": lambda arguments: exp.Initcap(this=arguments[0], expression=_INITCAP_DELIMITERS.copy()),
    "JSON_AGG": lambda arguments: exp.JSONArrayAgg(this=arguments[0]),
    "SOME": exp.LogicalOr.from_arg_list,
    "SUBSTRING": exp.Substring.from_arg_list,
}
_ALWAYS_ANONYMOUS = frozenset(PostgresParser.FUNCTION_PARSERS) | {"ROW", "VALUES", "ANY", "ALL", "UUID"}


class CallReader(ExpressionReader):
    def call(self, name: Token) -> exp.Expression:
        """A call whose name has been read."""
        self.expect("(")
        distinct, arguments, order = self._arguments()
        node = build_call(name, distinct, arguments, order)
        if node is None:
            self.fail_at(name, SqlSyntaxError(f"{name.value}() cannot be called with these arguments"))
        node.meta["name"] = name.value
        return self._behind_call(self.placed(node, name), name)

    def _arguments(self) -> tuple[bool, list[exp.Expression], exp.Order | None]:
        """What stands in the parentheses of a call, closing one included."""
        if self.take(")"):
            return False, [], None
        if self.sees("*"):
            star = self.placed(exp.Star(), self.advance())
            self.expect(")")
            return False, [star], None
        distinct = self.take("distinct")
        if not distinct:
            self.take("all")
        arguments = self.list_of(self._argument)
        order = self.order_by()
        self.expect(")")
        return distinct, arguments, order

    def _argument(self) -> exp.Expression:
        if self.sees("variadic"):
            self.refuse("VARIADIC")
        token, after = self.token, self.peek()
        if token.kind in ("word", "quoted") and after.kind == "operator" and after.value in ("=>", ":="):
            self.index += 2
            return self.placed(exp.Kwarg(this=exp.Var(this=token.value), expression=self.expression()), token)
        if self.sees_any("select", "with", "values", "table"):
            self.fail_here()
        return self.expression()

    def order_by(self) -> exp.Order | None:
        token = self.token
        if not self.take("order"):
            return None
        self.expect("by")
        return self.placed(exp.Order(expressions=self.list_of(self._ordered)), token)

    def _ordered(self) -> exp.Ordered:
        token = self.token
        operand = self.expression()
        if self.sees("using"):
            self.refuse("ORDER BY … USING", hint="Use ASC or DESC.")
        direction = self.take_any("asc", "desc")
        descending = None if direction is None else direction == "desc"
        nulls_first = bool(descending)
        if self.take("nulls"):
            place = self.take_any("first", "last") or self.fail_here()
            nulls_first = place == "first"
        return self.placed(exp.Ordered(this=operand, desc=descending, nulls_first=nulls_first), token)

    # --- behind a call ---------------------------------------------------------------------------

    def _behind_call(self, node: exp.Expression, name: Token) -> exp.Expression:
        if self.take("within"):
            self.expect("group", "(")
            order = self.order_by() or self.fail_here()
            self.expect(")")
            node = self.placed(exp.WithinGroup(this=node, expression=order), name)
        if self.sees("filter", "("):
            self.expect("filter", "(", "where")
            node = exp.Filter(this=node, expression=exp.Where(this=self.expression()))
            self.expect(")")
            self.placed(node, name)
        if self.sees_any("ignore", "respect") and self.peek().value == "nulls":
            self.refuse(f"{self.token.value.upper()} NULLS")
        if self.take("over"):
            node = self.placed(self._over(node), name)
        return node

    def _over(self, node: exp.Expression) -> exp.Window:
        if not self.sees("("):
            return exp.Window(this=node, alias=self.identifier(), over="OVER")
        window = self.window_specification(node)
        window.set("over", "OVER")
        return window

    def window_specification(self, node: exp.Expression) -> exp.Window:
        """( [window] [PARTITION BY …] [ORDER BY …] [frame] )"""
        self.expect("(")
        has_base = self.sees_name() and not self.sees_any("partition", "rows", "range", "groups")
        base = self.identifier() if has_base else None
        partition = self.list_of(self.expression) if self.take("partition", "by") else None
        order = self.order_by()
        frame = self._frame() if self.sees_any("rows", "range", "groups") else None
        self.expect(")")
        return exp.Window(this=node, partition_by=partition, order=order, spec=frame, alias=base)

    def _frame(self) -> exp.WindowSpec:
        kind = self.advance().value.upper()
        between = self.take("between")
        start, start_side = self._frame_end()
        end, end_side = None, None
        if between:
            self.expect("and")
            end, end_side = self._frame_end()
        exclude = self._exclude() if self.take("exclude") else None
        return exp.WindowSpec(
            kind=kind, start=start, start_side=start_side, end=end, end_side=end_side, exclude=exclude
        )

    def _frame_end(self) -> tuple[exp.Expression | str, str | None]:
        if self.take("current", "row"):
            return "CURRENT ROW", None
        start: exp.Expression | str = "UNBOUNDED" if self.take("unbounded") else self.expression(Binds.OPERATOR)
        side = self.take_any("preceding", "following") or self.fail_here()
        return start, side.upper()

    def _exclude(self) -> exp.Var:
        for words in (("current", "row"), ("group",), ("ties",), ("no", "others")):
            if self.take(*words):
                return exp.Var(this=" ".join(words).upper())
        self.fail_here()

    # --- calls with words inside -----------------------------------------------------------------

    def special_call(self) -> exp.Expression | None:
        token = self.token
        if token.value in _REFUSED_WITHOUT_PARENTHESES:
            self.refuse(token.value.upper())
        if self.sees("some", "("):
            # Behind an operator it is a quantifier, which is read there; elsewhere it is bool_or, as EVERY is bool_and.
            return self.call(self.advance())
        if self.peek().value == "(" and self.peek().kind == "operator":
            node = self._call_with_words(token)
            if node is None:
                return self._now_with_precision()
            node.meta["name"] = token.value
            return self._behind_call(self.placed(node, token), token)
        if token.value in WITHOUT_PARENTHESES and token.value in NO_BARE_NAME:
            self.advance()
            return WITHOUT_PARENTHESES[token.value]()
        return None

    def _call_with_words(self, token: Token) -> exp.Expression | None:
        match token.value:
            case "extract":
                return self._extract()
            case "date_part":
                return self._date_part()
            case "substring":
                return self._substring()
            case "trim":
                return self._trim()
            case "position":
                return self._position()
            case "overlay":
                return self._overlay()
            case "string_agg":
                return self._string_agg()
            case "decode":
                return self._decode()
            case "grouping":
                self.advance()
                return exp.Grouping(expressions=self.in_parentheses(self.expression))
            case _:
                return None

    def _now_with_precision(self) -> exp.Expression | None:
        if self.sees_any("current_timestamp", "localtimestamp") and self.peek(2).value != ")":
            self.refuse(f"{self.token.value.upper()} with a precision", hint="Leave the parentheses out.")
        if self.token.value in WITHOUT_PARENTHESES and self.token.value in NO_BARE_NAME:
            node = WITHOUT_PARENTHESES[self.advance().value]()
            self.expect("(", ")")
            return node
        return None

    def _extract(self) -> exp.Extract:
        self.advance()
        self.expect("(")
        field = self._field()
        self.expect("from")
        operand = self.expression()
        self.expect(")")
        return exp.Extract(this=field, expression=operand)

    def _field(self) -> exp.Var:
        token = self.token
        value = self.string() if token.kind == "string" else self.label()
        if value.lower() not in _FIELDS:
            self.fail_at(
                token,
                SqlSyntaxError(f'unit "{value}" not recognized', sqlstate="22023"),
            )
        return self.placed(exp.Var(this=value.upper()), token)

    def _date_part(self) -> exp.Expression | None:
        if self.peek(2).kind != "string":
            return None
        self.advance()
        self.expect("(")
        field = self._field()
        self.expect(",")
        operand = self.expression()
        self.expect(")")
        return exp.Extract(this=field, expression=operand)

    def _substring(self) -> exp.Expression:
        self.advance()
        self.expect("(")
        text = self.expression()
        if self.sees("similar"):
            self.refuse("SUBSTRING … SIMILAR", hint="Use substring(text FROM pattern).")
        comma = self.take(",")
        start = self.expression() if comma or self.take("from") else None
        length = self.expression() if (self.take(",") if comma else self.take("for")) else None
        if start is None and length is not None:
            start = self.expression() if self.take("from") else exp.Literal.number(1)
        if start is None:
            self.fail_here()
        self.expect(")")
        return exp.Substring(this=text, start=start, length=length)

    def _trim(self) -> exp.Trim:
        self.advance()
        self.expect("(")
        side = self.take_any("both", "leading", "trailing")
        position = side.upper() if side else None
        if self.take("from"):
            characters, text = None, self.expression()
        else:
            characters, text = None, self.expression()
            if self.take("from"):
                characters, text = text, self.expression()
            elif self.take(","):
                characters = self.expression()
        self.expect(")")
        return exp.Trim(this=text, position=position, expression=characters)

    def _position(self) -> exp.StrPosition:
        self.advance()
        self.expect("(")
        part = self.expression(Binds.OPERATOR)
        self.expect("in")
        whole = self.expression(Binds.OPERATOR)
        self.expect(")")
        return exp.StrPosition(this=whole, substr=part)

    def _overlay(self) -> exp.Overlay:
        self.advance()
        self.expect("(")
        text = self.expression()
        comma = self.take(",")
        if not comma:
            self.expect("placing")
        new = self.expression()
        self.expect("," if comma else "from")
        start = self.expression()
        length = self.expression() if self.take("," if comma else "for") else None
        self.expect(")")
        return exp.Overlay(this=text, expression=new, from_=start, for_=length)

    def _string_agg(self) -> exp.Expression | None:
        self.advance()
        self.expect("(")
        distinct, arguments, order = self._arguments()
        if len(arguments) != 2:
            return exp.Anonymous(this="string_agg", expressions=arguments)
        this: exp.Expression = exp.Distinct(expressions=[arguments[0]]) if distinct else arguments[0]
        if order is not None:
            order.set("this", this)
            this = order
        return exp.GroupConcat(this=this, separator=arguments[1])

    def _decode(self) -> exp.Expression:
        self.advance()
        arguments = self.in_parentheses(self.expression)
        if len(arguments) == 2:
            return exp.Decode(this=arguments[0], charset=arguments[1])
        return exp.DecodeCase(expressions=arguments)


def build_call(
    name: Token, distinct: bool, arguments: list[exp.Expression], order: exp.Order | None
) -> exp.Expression | None:
    """The node of a call; None if its arguments can be no call's."""
    if distinct:
        arguments = [exp.Distinct(expressions=arguments)]
    if order is not None:
        if not arguments:
            return None
        order.set("this", arguments[-1])
        arguments = [*arguments[:-1], order]
    if name.kind == "quoted" and name.value != name.value.lower():
        return exp.Anonymous(this=exp.Identifier(this=name.value, quoted=True), expressions=arguments)
    return _known_call(name.value.upper(), arguments) or exp.Anonymous(this=name.value, expressions=arguments)


def _known_call(name: str, arguments: list[exp.Expression]) -> exp.Expression | None:
    """sqlglot's node for a function, if it has one that takes these arguments."""
    builder = _OWN_BUILDERS.get(name)
    if builder is None and name not in _ALWAYS_ANONYMOUS:
        builder = PostgresParser.FUNCTIONS.get(name)
    if builder is None or any(isinstance(argument, exp.Kwarg) for argument in arguments):
        return None
    copies = [argument.copy() for argument in arguments]
    try:
        node = _built(builder, copies)
    except (SqlglotError, LookupError, AttributeError, ValueError, TypeError):
        return None
    if not isinstance(node, exp.Expression) or node.error_messages(arguments):
        return None
    return node


def _built(builder: Callable[..., object], arguments: list[exp.Expression]) -> object:
    try:
        return builder(arguments)
    except TypeError:
        return builder(arguments, dialect=_DIALECT)
