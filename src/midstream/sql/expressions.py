"""Scalar expressions by PostgreSQL's precedence, into sqlglot's nodes.

From loose to tight: OR, AND, NOT, IS, comparison, LIKE/IN/BETWEEN, other operators, + -, * / %, ^, AT TIME
ZONE, COLLATE, sign, subscript, `::`. So `a < b IS NULL` is `(a < b) IS NULL`, `a || b + c` is `a || (b + c)`,
and `-2 ^ 2` is 4. Comparisons do not chain: `a < b < c` is an error.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from enum import IntEnum

from sqlglot import exp

from midstream.errors import SqlSyntaxError, Unsupported
from midstream.sql.lexer import Token
from midstream.sql.positions import mark, mark_operator, position_of
from midstream.sql.reader import too_complex
from midstream.sql.written_types import INTERVAL_FIELDS, TypeReader


class Binds(IntEnum):
    ANY = 0
    OR = 1
    AND = 2
    NOT = 3
    IS = 4
    COMPARISON = 5
    RANGE = 6
    OPERATOR = 7
    SUM = 8
    PRODUCT = 9
    POWER = 10
    ZONE = 11
    COLLATE = 12
    SIGN = 13
    SUBSCRIPT = 14
    CAST = 15


_COMPARISONS: dict[str, type[exp.Expression]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_ARITHMETIC: dict[str, tuple[Binds, type[exp.Expression]]] = {
    "+": (Binds.SUM, exp.Add),
    "-": (Binds.SUM, exp.Sub),
    "*": (Binds.PRODUCT, exp.Mul),
    "/": (Binds.PRODUCT, exp.Div),
    "%": (Binds.PRODUCT, exp.Mod),
    "^": (Binds.POWER, exp.Pow),
}
_OPERATORS: dict[str, type[exp.Expression]] = {
    "||": exp.DPipe,
    "&": exp.BitwiseAnd,
    "|": exp.BitwiseOr,
    "#": exp.BitwiseXor,
    "<<": exp.BitwiseLeftShift,
    ">>": exp.BitwiseRightShift,
    "@>": exp.ArrayContainsAll,
    "&&": exp.ArrayOverlaps,
    "#>": exp.JSONBExtract,
    "#>>": exp.JSONBExtractScalar,
    "~": exp.RegexpLike,
    "~*": exp.RegexpILike,
    "~~": exp.Like,
    "~~*": exp.ILike,
}
_NEGATED = {"!~": "~", "!~*": "~*", "!~~": "~~", "!~~*": "~~*"}
_RANGES: dict[str, type[exp.Expression]] = {"like": exp.Like, "ilike": exp.ILike, "similar": exp.SimilarTo}
_PLAIN_OPERANDS = (exp.Paren, exp.Dot, exp.Any, exp.All, exp.Exists)
_LOOSE = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Predicate, exp.AtTimeZone, exp.Interval, exp.Escape)

_UNIT = r"(?:microsecond|millisecond|second|minute|hour|day|week|month|year|decade|century|centurie)s?"
_ONE_UNIT = re.compile(rf"\s*([+-]?\d+(?:\.\d+)?)\s+({_UNIT})\s*", re.IGNORECASE)
_TYPE_WORDS = frozenset(
    """smallint int integer bigint int2 int4 int8 real float float4 float8 double numeric decimal dec bool boolean text
    varchar char character bpchar string date timestamp timestamptz bytea json jsonb time timetz uuid""".split()
)
_CONTINUE_A_QUERY = ("union", "intersect", "except", "order", "limit", "offset", "fetch", "for")


class ExpressionReader(TypeReader, ABC):
    """Scalar expressions. Queries inside them are read by `query`, calls by `call`, which come further down."""

    @abstractmethod
    def query(self) -> exp.Expression: ...

    @abstractmethod
    def call(self, name: Token) -> exp.Expression: ...

    @abstractmethod
    def special_call(self) -> exp.Expression | None: ...

    def expression(self, binds: Binds = Binds.ANY) -> exp.Expression:
        self.enter()
        left = self._prefix()
        while (longer := self._infix(left, binds)) is not None:
            left = longer
        self.leave()
        return left

    # --- before an operand -----------------------------------------------------------------------

    def _prefix(self) -> exp.Expression:
        token = self.token
        if token.kind == "word" and token.value == "not":
            self.advance()
            return self.placed(exp.Not(this=self.expression(Binds.NOT)), token)
        if token.kind == "operator" and token.value in ("-", "+", "~"):
            self.advance()
            if token.value == "~":
                return self.placed(exp.BitwiseNot(this=_safe(self.expression(Binds.SUM))), token)
            operand = self.expression(Binds.SIGN)
            return operand if token.value == "+" else self.placed(exp.Neg(this=_safe(operand)), token)
        return self._primary()

    def _primary(self) -> exp.Expression:
        token = self.token
        match token.kind:
            case "number":
                self.advance()
                return self.placed(exp.Literal.number(_number_text(token.value)), token)
            case "string":
                self.advance()
                return self.placed(exp.Literal.string(token.value), token)
            case "parameter":
                self.advance()
                return self.placed(exp.Parameter(this=exp.Literal.number(token.value)), token)
            case "operator" if token.value == "(":
                return self._parentheses()
            case "word" | "quoted":
                return self._word()
            case _:
                self.fail_here()

    def _parentheses(self) -> exp.Expression:
        opening = self.expect("(")
        if self.sees_query():
            node: exp.Expression = exp.Subquery(this=self.query())
            self.expect(")")
            return self.placed(node, opening)
        items = self.list_of(self.expression)
        self.expect(")")
        node = exp.Paren(this=items[0]) if len(items) == 1 else exp.Tuple(expressions=items)
        return self.placed(node, opening)

    def sees_query(self) -> bool:
        """Whether a query begins here. `((SELECT 1) UNION …)` is one, `((SELECT 1) + 1)` is not."""
        depth = 0
        while _is_mark(self.peek(depth), "("):
            depth += 1
        begins = self.peek(depth)
        if begins.kind != "word" or begins.value not in ("select", "with", "values", "table"):
            return False
        return depth == 0 or self._parentheses_hold_a_query(depth)

    def _parentheses_hold_a_query(self, depth: int) -> bool:
        """What stands behind the first query, at each level, tells whether the parentheses are part of one."""
        is_open = 0
        for ahead in range(len(self.tokens) - self.index):
            token = self.peek(ahead)
            is_open += _is_mark(token, "(") - _is_mark(token, ")")
            if is_open >= depth or not _is_mark(token, ")"):
                continue
            depth = is_open
            after = self.peek(ahead + 1)
            if after.kind == "word" and after.value in _CONTINUE_A_QUERY:
                return True
            if depth == 0:
                return after.kind == "end" or _is_mark(after, ")")
            if not _is_mark(after, ")"):
                return False
        return True

    def _word(self) -> exp.Expression:
        token = self.token
        if token.kind == "word":
            if (node := self._constant() or self.special_call() or self._typed_literal()) is not None:
                mark(node, self.position(token))
                return node
            if token.value == "default":
                self.fail_here(SqlSyntaxError("DEFAULT is not allowed in this context"))
        if self.peek().kind == "operator" and self.peek().value == "(":
            return self.call(self.function_name())
        return self._column()

    def _constant(self) -> exp.Expression | None:
        match self.token.value:
            case "null":
                self.advance()
                return exp.Null()
            case "true" | "false":
                return exp.Boolean(this=self.advance().value == "true")
            case "case":
                return self._case()
            case "cast" if self.peek().value == "(":
                return self._cast()
            case "exists" if self.peek().value == "(":
                return self._exists()
            case "array" if self.peek().value in ("[", "("):
                return self._array()
            case "row" if self.peek().value == "(":
                return self._row()
            case "interval" if self.peek().kind == "string":
                return self._interval()
            case _:
                return None

    def _case(self) -> exp.Case:
        self.expect("case")
        operand = None if self.sees("when") else self.expression()
        branches = []
        while self.take("when"):
            condition = self.expression()
            self.expect("then")
            branches.append(exp.If(this=condition, true=self.expression()))
        if not branches:
            self.fail_here()
        default = self.expression() if self.take("else") else None
        self.expect("end")
        return exp.Case(this=operand, ifs=branches, default=default)

    def _cast(self) -> exp.Cast:
        self.expect("cast", "(")
        operand = self.expression()
        self.expect("as")
        to = self.data_type()
        self.expect(")")
        return exp.Cast(this=operand, to=to)

    def _exists(self) -> exp.Exists:
        self.expect("exists", "(")
        query = self.query()
        self.expect(")")
        return exp.Exists(this=query)

    def _array(self) -> exp.Expression:
        self.expect("array")
        if self.take("("):
            query = self.query()
            self.expect(")")
            return exp.Array(expressions=[query])
        return self._array_elements()

    def _array_elements(self) -> exp.Array:
        self.expect("[")
        read = self._array_elements if self.sees("[") else self.expression
        elements = [] if self.sees("]") else self.list_of(read)
        self.expect("]")
        return exp.Array(expressions=elements, value_constructor=False)

    def _row(self) -> exp.Tuple:
        self.expect("row", "(")
        items = [] if self.sees(")") else self.list_of(self.expression)
        self.expect(")")
        return exp.Tuple(expressions=items)

    def _interval(self) -> exp.Interval:
        """`interval '90 minutes'` gets a unit; a text that says more stays whole."""
        self.expect("interval")
        text = self.string()
        one_unit = _ONE_UNIT.fullmatch(text)
        if self.sees_any(*INTERVAL_FIELDS) and re.search("[a-z]", text, re.IGNORECASE):
            self.refuse("an interval with units both inside and behind the string", hint="Keep one of the two.")
        field = self._interval_fields()
        if field is not None:
            return exp.Interval(this=exp.Literal.string(text.strip()), unit=field)
        if one_unit:
            return exp.Interval(this=exp.Literal.string(one_unit[1]), unit=exp.Var(this=one_unit[2].upper()))
        return exp.Interval(this=exp.Literal.string(text))

    def _interval_fields(self) -> exp.Expression | None:
        first = self.take_any(*INTERVAL_FIELDS)
        if first is None:
            return None
        unit = exp.Var(this=first.upper())
        if not self.take("to"):
            return unit
        last = self.take_any(*INTERVAL_FIELDS)
        if last is None:
            self.fail_here()
        return exp.IntervalSpan(this=unit, expression=exp.Var(this=last.upper()))

    def _typed_literal(self) -> exp.Expression | None:
        """`date '2020-01-01'`: a type name and a string."""
        if not self._sees_typed_literal():
            return None
        to = self.data_type()
        token = self.token
        return exp.Cast(this=self.placed(exp.Literal.string(self.string()), token), to=to)

    def _sees_typed_literal(self) -> bool:
        if self.peek().kind == "string":
            return self.token.value not in ("is", "like", "ilike")
        if self.token.value not in _TYPE_WORDS:
            return False
        ahead = 1
        while self.peek(ahead).kind != "string":
            token = self.peek(ahead)
            allowed = token.kind == "number" or token.value in (
                *("(", ")", ",", "precision", "varying", "with", "without", "time", "zone"),
            )
            if not allowed or ahead > 8:
                return False
            ahead += 1
        return True

    def _column(self) -> exp.Expression:
        token = self.token
        parts = [self.identifier()]
        while self.sees("."):
            self.advance()
            if self.sees("*"):
                return self._star_of(parts, token)
            if self.peek().kind == "operator" and self.peek().value == "(":
                return self._qualified_call(parts)
            parts.append(self.label_identifier())
        if len(parts) == 3 and parts[0].name == "public":
            parts = parts[1:]
        if len(parts) > 2:
            self.fail_at(
                token,
                Unsupported("a column name with more than two parts is not supported", hint="Write table.column."),
            )
        table = parts[0] if len(parts) == 2 else None
        return self.placed(exp.Column(this=parts[-1], table=table), token)

    def _star_of(self, parts: list[exp.Identifier], token: Token) -> exp.Column:
        if len(parts) == 2 and parts[0].name == "public":
            parts = parts[1:]
        if len(parts) != 1:
            self.fail_here()
        star = self.placed(exp.Star(), self.expect("*"))
        return self.placed(exp.Column(this=star, table=parts[0]), token)

    def _qualified_call(self, parts: list[exp.Identifier]) -> exp.Expression:
        if len(parts) != 1 or parts[0].name not in ("public", "pg_catalog"):
            self.fail_here(
                SqlSyntaxError(f'schema "{parts[0].name}" does not exist', sqlstate="3F000"),
            )
        return self.call(self.function_name())

    # --- behind an operand -----------------------------------------------------------------------

    def _infix(self, left: exp.Expression, binds: Binds) -> exp.Expression | None:
        """The operand made longer by the operator that follows, if that binds at least as tight as `binds`."""
        token = self.token
        if token.kind == "operator":
            return self._infix_operator(left, binds, token)
        if token.kind == "word":
            return self._infix_word(left, binds, token)
        return None

    def _infix_operator(self, left: exp.Expression, binds: Binds, token: Token) -> exp.Expression | None:
        text = token.value
        if text == "::":
            self.advance()
            return self._behind(exp.Cast(this=_safe_cast_operand(left), to=self.data_type()), left)
        if text == "[" and binds <= Binds.SUBSCRIPT:
            return self._subscript(left)
        if text == "." and isinstance(left, (exp.Paren, exp.Bracket)):
            self.advance()
            return self._behind(exp.Dot(this=left, expression=self.label_identifier()), left)
        if text in _ARITHMETIC and binds <= _ARITHMETIC[text][0]:
            return self._arithmetic(left, token)
        if text in _COMPARISONS and binds <= Binds.COMPARISON:
            return self._comparison(left, token)
        if binds <= Binds.OPERATOR and (text in _OPERATORS or text in _NEGATED or text in ("->", "->>", "<@")):
            return self._other_operator(left, token)
        return None

    def _arithmetic(self, left: exp.Expression, token: Token) -> exp.Expression:
        level, node_type = _ARITHMETIC[self.advance().value]
        right = self.expression(Binds(level + 1))
        node = node_type(this=_safe_term(left), expression=_safe_term(right))
        if isinstance(node, exp.Div):
            node.set("typed", True)
            node.set("safe", False)
        return self._operation(node, left, token)

    def _comparison(self, left: exp.Expression, token: Token) -> exp.Expression:
        node_type = _COMPARISONS[self.advance().value]
        right = self._quantified() or self.expression(Binds.RANGE)
        node = self._operation(node_type(this=_safe(left), expression=_safe(right)), left, token)
        if self.token.kind == "operator" and self.token.value in _COMPARISONS:
            self.fail_here()
        return node

    def _quantified(self) -> exp.Expression | None:
        """ANY, SOME or ALL of a query or an array, behind an operator."""
        token = self.token
        if not self.sees_any("any", "some", "all") or self.peek().value != "(":
            return None
        of_all = self.advance().value == "all"
        self.expect("(")
        if self.sees_query():
            query = self.query()
            operand = query if of_all else exp.Subquery(this=query)
        else:
            operand = exp.Paren(this=self.expression())
        self.expect(")")
        return self.placed(exp.All(this=operand) if of_all else exp.Any(this=operand), token)

    def _other_operator(self, left: exp.Expression, token: Token) -> exp.Expression:
        text = self.advance().value
        negated = text in _NEGATED
        right = self._quantified() or self.expression(Binds.SUM)
        left_, right_ = _safe(left), _safe(right)
        if text in ("->", "->>"):
            node = _json_arrow(text, left_, right_)
        elif text == "<@":
            node = exp.ArrayContainsAll(this=right_, expression=left_)
        elif text == "||":
            node = exp.DPipe(this=left_, expression=right_, safe=True)
        else:
            node = _OPERATORS[_NEGATED.get(text, text)](this=left_, expression=right_)
        node = self._operation(node, left, token)
        return self._behind(exp.Not(this=node), left) if negated else node

    def _subscript(self, left: exp.Expression) -> exp.Expression:
        self.expect("[")
        low = None if self.sees(":") else self.expression()
        if self.take(":"):
            high = None if self.sees("]") else self.expression()
            index: exp.Expression = exp.Slice(this=low, expression=high)
        elif low is None:
            self.fail_here()
        else:
            index = low
        self.expect("]")
        return self._behind(exp.Bracket(this=_safe(left), expressions=[index], offset=1), left)

    def _infix_word(self, left: exp.Expression, binds: Binds, token: Token) -> exp.Expression | None:
        word = token.value
        if word in ("or", "and"):
            return self._connector(left, binds, token)
        if word in ("is", "isnull", "notnull") and binds <= Binds.IS:
            return self._is(left, token)
        if binds <= Binds.RANGE and (word in ("between", "in", *_RANGES) or self._sees_negated_range()):
            return self._range(left, token)
        if word == "at" and binds <= Binds.ZONE and self.sees("at", "time", "zone"):
            self.expect("at", "time", "zone")
            zone = self.expression(Binds.COLLATE)
            return self._operation(exp.AtTimeZone(this=_safe(left), zone=zone), left, token)
        if word == "collate" and binds <= Binds.COLLATE:
            self.refuse("COLLATE", detail="Texts are compared by code point.")
        if word == "overlaps" and binds <= Binds.OPERATOR:
            self.refuse("OVERLAPS", hint="Compare the ends: a.start < b.end AND b.start < a.end.")
        return None

    def _connector(self, left: exp.Expression, binds: Binds, token: Token) -> exp.Expression | None:
        """All of `a AND b AND c` at once, as a tree of little depth."""
        level = Binds.AND if token.value == "and" else Binds.OR
        if binds > level:
            return None
        operands = [left]
        while self.take(token.value):
            operands.append(self.expression(Binds(level + 1)))
        node = _balanced(exp.And if level == Binds.AND else exp.Or, operands)
        return self._operation(node, left, token)

    def _is(self, left: exp.Expression, token: Token) -> exp.Expression:
        word = self.advance().value
        negated = word == "notnull" or (word == "is" and self.take("not"))
        operand = _safe(left)
        if word != "is" or self.take("null") or self.take("unknown"):
            node: exp.Expression = exp.Is(this=operand, expression=exp.Null())
            if negated:
                node.set("negate", True)
            return self._operation(node, left, token)
        if self.take("distinct"):
            self.expect("from")
            right = _safe(self.expression(Binds.COMPARISON))
            if self.sees_any("is", "isnull", "notnull"):
                self.fail_here()
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return self._operation(kind(this=operand, expression=right), left, token)
        truth = self.take_any("true", "false")
        if truth is None:
            self.fail_here()
        node = self._operation(exp.Is(this=operand, expression=exp.Boolean(this=truth == "true")), left, token)
        return self._behind(exp.Not(this=node), left) if negated else node

    def _sees_negated_range(self) -> bool:
        after = self.peek()
        return self.sees("not") and after.kind == "word" and after.value in ("between", "in", *_RANGES)

    def _range(self, left: exp.Expression, token: Token) -> exp.Expression:
        negated = self.take("not")
        word = self.advance().value
        operand = _safe(left)
        if word == "between":
            node = self._between(operand)
        elif word == "in":
            node = self._in(operand)
        else:
            if word == "similar":
                self.expect("to")
            node = self._like(_RANGES[word], operand, negated)
            negated = negated and not _carries_negation(node)
        node = self._operation(node, left, token)
        if self.sees_any("between", "in", *_RANGES) or self._sees_negated_range():
            self.fail_here()
        return self._behind(exp.Not(this=node), left) if negated else node

    def _between(self, operand: exp.Expression) -> exp.Expression:
        symmetric = True if self.take("symmetric") else None
        if symmetric is None:
            self.take("asymmetric")
        low = self.expression(Binds.OPERATOR)
        self.expect("and")
        high = self.expression(Binds.OPERATOR)
        return exp.Between(this=operand, low=_safe(low), high=_safe(high), symmetric=symmetric)

    def _in(self, operand: exp.Expression) -> exp.Expression:
        self.expect("(")
        if not self.sees_query():
            items = self.list_of(self.expression)
            self.expect(")")
            return exp.In(this=operand, expressions=items)
        query = self.query()
        self.expect(")")
        return exp.In(this=operand, query=exp.Subquery(this=query))

    def _like(self, kind: type[exp.Expression], operand: exp.Expression, negated: bool) -> exp.Expression:
        pattern = self._quantified() or _safe(self.expression(Binds.OPERATOR))
        node = kind(this=operand, expression=pattern)
        if negated and kind is not exp.SimilarTo:
            node.set("negate", True)
        if self.take("escape"):
            token = self.token
            node = exp.Escape(this=node, expression=self.placed(exp.Literal.string(self.string()), token))
        return node

    def _operation(self, node: exp.Expression, left: exp.Expression, operator: Token) -> exp.Expression:
        mark_operator(node, self.position(operator))
        return self._behind(node, left)

    def _behind(self, node: exp.Expression, left: exp.Expression) -> exp.Expression:
        """A node that begins where its left operand does."""
        position = position_of(left)
        if position is not None:
            mark(node, position)
        depth = 1 + max(_depth(left), 0)
        node.meta["depth"] = depth
        if depth > _MAX_CHAIN:
            self.fail_here(too_complex())
        return node


_MAX_CHAIN = 100
"""How many operators may hang on one another to the left: 1 + 1 + 1 + …"""


def _is_mark(token: Token, mark: str) -> bool:
    return token.kind == "operator" and token.value == mark


def _depth(node: exp.Expression) -> int:
    depth = node.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


def _safe(operand: exp.Expression) -> exp.Expression:
    """In parentheses, unless every dialect takes it for one operand."""
    return _in_paren(operand) if isinstance(operand, _LOOSE) and not isinstance(operand, _PLAIN_OPERANDS) else operand


def _safe_term(operand: exp.Expression) -> exp.Expression:
    """Sums and products mean the same everywhere; `%` and the rest are put in parentheses."""
    plain = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Interval)
    return operand if isinstance(operand, plain) else _safe(operand)


def _safe_cast_operand(operand: exp.Expression) -> exp.Expression:
    return operand if isinstance(operand, exp.Interval) else _safe(operand)


def _in_paren(operand: exp.Expression) -> exp.Paren:
    paren = exp.Paren(this=operand)
    if (position := position_of(operand)) is not None:
        mark(paren, position)
    paren.meta["depth"] = _depth(operand)
    return paren


def _carries_negation(node: exp.Expression) -> bool:
    inner = node.this if isinstance(node, exp.Escape) else node
    return isinstance(inner, (exp.Like, exp.ILike))


def _balanced(kind: type[exp.And] | type[exp.Or], operands: list[exp.Expression]) -> exp.Expression:
    if len(operands) == 1:
        return operands[0]
    # Short chains lean to the left, as everybody's do; long ones are halved to keep the tree flat.
    cut = len(operands) - 1 if len(operands) <= 4 else len(operands) // 2
    return kind(this=_balanced(kind, operands[:cut]), expression=_balanced(kind, operands[cut:]))


def _json_arrow(text: str, left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """`->` and `->>`; a constant key is a path, as sqlglot has it."""
    kind = exp.JSONExtract if text == "->" else exp.JSONExtractScalar
    if not isinstance(right, exp.Literal) or not (right.is_string or right.name.isdigit()):
        return kind(this=left, expression=right, only_json_types=True)
    step = exp.JSONPathKey(this=right.name) if right.is_string else exp.JSONPathSubscript(this=int(right.name))
    return kind(this=left, expression=exp.JSONPath(expressions=[exp.JSONPathRoot(), step]), only_json_types=True)


def _number_text(text: str) -> str:
    """`.5` → 0.5, `5.` → 5.0: what every dialect reads."""
    mantissa, exponent, power = text.partition("e")
    if mantissa.startswith("."):
        mantissa = "0" + mantissa
    if mantissa.endswith("."):
        mantissa += "0"
    return mantissa + exponent + power
