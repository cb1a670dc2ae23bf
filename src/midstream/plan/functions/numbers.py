"""Arithmetic and mathematics.

Integers overflow and divide by zero with an error. `int / int` cuts towards zero. Sums, differences and
products of numerics are exact or an error; quotients are rounded half away from zero to the scale of the
result's type: numeric(10,2) / numeric(10,2) is numeric(23,13). Floating-point overflow gives Infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midstream.kernels import Kernel, kernel_type
from midstream.plan.functions.casts import plain_cast
from midstream.plan.functions.model import (
    FLOATS,
    INTEGERS,
    Function,
    KernelRefuses,
    Operand,
    Refusal,
    Template,
    bounded_numeric,
    function,
    numeric_digits,
)
from midstream.plan.functions.raising import raise_error
from midstream.types import MAX_PRECISION, NUMERIC, Type, parse_type


def _sum_type(types: Sequence[Type]) -> Type:
    (p1, s1), (p2, s2) = map(numeric_digits, types)
    return bounded_numeric(max(p1 - s1, p2 - s2) + 1, max(s1, s2))


def _product_type(types: Sequence[Type]) -> Type:
    (p1, s1), (p2, s2) = map(numeric_digits, types)
    return bounded_numeric(p1 - s1 + p2 - s2 + 1, s1 + s2)


def quotient_type(types: Sequence[Type]) -> Type:
    """Spark's rule: at least six places, and enough for the divisor's digits; whole digits yield last."""
    (p1, s1), (p2, s2) = map(numeric_digits, types)
    whole, scale = min(38, p1 - s1 + s2), min(38, max(6, s1 + p2 + 1))
    excess = whole + scale - 38
    if excess > 0:
        scale -= excess // 2 + 1
        whole = 38 - scale
    return NUMERIC(whole + scale, scale)


def _remainder_type(types: Sequence[Type]) -> Type:
    (p1, s1), (p2, s2) = map(numeric_digits, types)
    return bounded_numeric(max(p1 - s1, p2 - s2), max(s1, s2))


def _exact(operator: str, kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        left, right = operands
        if operator == "*" and kernel == "duckdb":
            if numeric_digits(left.type)[1] + numeric_digits(right.type)[1] > 38:
                raise KernelRefuses("DuckDB cannot multiply numerics with more than 38 places")
            return plain_cast(f"{_wide(left, right.type)} * {right.text}", result, kernel)
        return plain_cast(f"{left.text} {operator} {right.text}", result, kernel)

    return text


def _wide(left: Operand, right: Type) -> str:
    """What DuckDB multiplies: of two numerics of at most 18 digits it makes one of 18, whatever the product needs."""
    (p1, s1), (p2, _) = numeric_digits(left.type), numeric_digits(right)
    return f"CAST({left.text} AS DECIMAL(38, {s1}))" if p1 + p2 > 18 and max(p1, p2) <= 18 else left.text


def exact_quotient(dividend: Operand, divisor: Operand, result: Type) -> str:
    """DuckDB divides numerics as doubles, so this divides the unscaled integers and rounds by the remainder."""
    (p1, s1), (p2, s2), (precision, scale) = map(numeric_digits, (dividend.type, divisor.type, result))
    if p1 + scale + s2 <= 38 and p2 + s2 <= 38:
        unscaled = _short_division(_unscaled(dividend, scale + s2), _unscaled(divisor, s2))
    else:
        # A quotient has at least as many places as its dividend.
        unscaled = _long_division(dividend.text, divisor.text, scale + s2 - s1)
    return f"CAST(CAST({unscaled} AS DECIMAL(38, 0)) * {_unit(scale)} AS DECIMAL({precision}, {scale}))"


def _unscaled(operand: Operand, shift: int) -> str:
    """A numeric times a power of ten, as an integer."""
    power = NUMERIC(shift + 1, 0)
    return f"CAST({_wide(operand, power)} * CAST('1{'0' * shift}' AS DECIMAL({shift + 1}, 0)) AS HUGEINT)"


def _short_division(top: str, bottom: str) -> str:
    """Where types say that everything fits into 38 digits."""
    up = f"CASE WHEN 2 * abs({top} % {bottom}) >= abs({bottom}) THEN sign({top}) * sign({bottom}) ELSE 0 END"
    return f"{top} // {bottom} + {up}"


_PARTS, _LEFT, _STEP = '"~parts"', '"~left"', '"~step"'
"""What the parts of a long division are called: no column has such a name."""


def _long_division(dividend: str, divisor: str, shift: int) -> str:
    """Of whatever size: q = a // b, and then `shift` digits more of what is left, r, all at once where there is room
    for them, else one by one. Each step is a list of one value, so that it is computed once."""
    a, b = (f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS HUGEINT)" for text in (dividend, divisor))
    parts = f"struct_pack(a := abs({a}), b := abs({b}), s := sign({a}) * sign({b}))"
    power = f"CAST('1{'0' * shift}' AS HUGEINT)"
    rest = f"{_LEFT}.r * {power}"
    whole = f"struct_pack(q := {_PARTS}.a // {_PARTS}.b, r := {_PARTS}.a % {_PARTS}.b)"
    at_once = f"struct_pack(q := {_LEFT}.q * {power} + ({rest}) // {_PARTS}.b, r := ({rest}) % {_PARTS}.b)"
    has_room = f"{_PARTS}.b < CAST('1{'0' * (38 - shift)}' AS HUGEINT)" if shift < 38 else "false"
    further = f"CASE WHEN {has_room} THEN {at_once} ELSE {_digit_by_digit(shift)} END"
    rounded = f"{_PARTS}.s * ({_LEFT}.q + CASE WHEN {_LEFT}.r >= {_PARTS}.b - {_LEFT}.r THEN 1 ELSE 0 END)"
    of_whole = f"list_transform([{whole}], lambda {_LEFT}: {further})"
    return f"list_transform([{parts}], lambda {_PARTS}: list_transform({of_whole}, lambda {_LEFT}: {rounded})[1])[1]"


def _digit_by_digit(shift: int) -> str:
    """Ten times q + r / b for each digit, as 2 * (2 * (2 * x) + x): no sum of remainders is beyond 2 * 10 ** 38."""
    divisor, zero = f"CAST({_PARTS}.b AS UHUGEINT)", "CAST(0 AS UHUGEINT)"
    left, is_sum = '"~digits"', f"{_STEP} % 4 = 2"
    total = f"({left}.r + CASE WHEN {is_sum} THEN {left}.o ELSE {left}.r END)"
    more = f"CASE WHEN {total} >= {divisor} THEN {{}} ELSE {{}} END"
    fields = {
        "q": f"{left}.q + CASE WHEN {is_sum} THEN {left}.p ELSE {left}.q END + {more.format(1, 0)}",
        "r": f"{total} - {more.format(divisor, zero)}",
        "p": f"CASE WHEN {_STEP} % 4 = 0 THEN {left}.q ELSE {left}.p END",
        "o": f"CASE WHEN {_STEP} % 4 = 0 THEN {left}.r ELSE {left}.o END",
    }
    step = f"struct_pack({', '.join(f'{name} := {value}' for name, value in fields.items())})"
    first = f"struct_pack(q := {_LEFT}.q, r := CAST({_LEFT}.r AS UHUGEINT), p := CAST(0 AS HUGEINT), o := {zero})"
    digits = f"list_reduce(range({4 * shift}), lambda {left}, {_STEP}: {step}, {first})"
    return f"list_transform([{digits}], lambda {left}: struct_pack(q := {left}.q, r := CAST({left}.r AS HUGEINT)))[1]"


def _duckdb_quotient(operands: Sequence[Operand], result: Type) -> str:
    return exact_quotient(operands[0], operands[1], result)


def _spark_quotient(operands: Sequence[Operand], result: Type) -> str:
    return plain_cast(f"{operands[0].text} / {operands[1].text}", result, "spark")


def _spark_integer_quotient(operands: Sequence[Operand], result: Type) -> str:
    return plain_cast(f"{operands[0].text} div {operands[1].text}", result, "spark")


def _duckdb_remainder(operands: Sequence[Operand], result: Type) -> str:
    """The smallest integer % -1 is 0, as is % 1; DuckDB calls the first an overflow."""
    dividend, divisor = operands
    if divisor.literal is not None and int(divisor.literal) != -1:
        return f"({dividend.text} % {divisor.text})"
    return f"({dividend.text} % CASE WHEN {divisor.text} = -1 THEN 1 ELSE {divisor.text} END)"


def _same_type(operator: str) -> Template:
    return lambda operands, result: f"({operands[0].text} {operator} {operands[1].text})"


def _binary_examples(operator: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{a} {operator} {b}" for a, b in pairs]


_INT_PAIRS = {
    "smallint": [
        ("7::smallint", "(-2)::smallint"),
        ("32767::smallint", "1::smallint"),
        ("NULL::smallint", "3::smallint"),
        ("(-32768)::smallint", "(-1)::smallint"),
    ],
    "int": [
        ("7", "(-2)"),
        ("2147483647", "1"),
        ("(-2147483648)", "(-1)"),
        ("NULL::int", "3"),
        ("7", "0"),
        ("(-7)", "2"),
        ("7", "2::smallint"),
    ],
    "bigint": [
        ("7::bigint", "(-2)"),
        ("9223372036854775807", "1"),
        ("(-9223372036854775807-1)", "(-1)"),
        ("7", "0::bigint"),
    ],
}
_NUMERIC_PAIRS = [
    ("1.50", "0.25"),
    ("(-7.5)", "2"),
    ("1", "3.00"),
    ("2.0", "3"),
    ("NULL::numeric(5,2)", "1.5"),
    ("99999999.99", "0.01"),
    ("12345678901234567890.5", "3"),
    ("5.5", "0.0"),
    ("10.0", "(-4)"),
]
_FLOAT_PAIRS = [
    ("1.5::float8", "0.25::float8"),
    ("'NaN'::float8", "1::float8"),
    ("'Infinity'::float8", "2"),
    ("NULL::float8", "1"),
    ("7.5::float8", "1.5"),
    ("1::float8", "0::float8"),
    ("1.5::real", "2.5::real"),
    ("1.5::real", "2"),
]


def _arithmetic() -> list[Function]:
    functions = []
    for operator in ("+", "-", "*", "/", "%"):
        functions += [_integer_operator(operator, name) for name in INTEGERS]
        functions.append(_numeric_operator(operator))
        if operator != "%":
            functions += [_float_operator(operator, name) for name in FLOATS]
    return functions


def _integer_operator(operator: str, name: str) -> Function:
    duckdb: Template = _same_type("//" if operator == "/" else operator)
    spark: Template = _spark_integer_quotient if operator == "/" else _same_type(operator)
    if operator == "%":
        duckdb = _duckdb_remainder
    return function(
        f"{operator}({name}, {name}) -> {name}",
        duckdb=duckdb,
        spark=spark,
        examples=_binary_examples(operator, _INT_PAIRS[name]),
    )


def _numeric_operator(operator: str) -> Function:
    rule = {"+": _sum_type, "-": _sum_type, "*": _product_type, "/": quotient_type, "%": _remainder_type}[operator]
    duckdb: Template = _duckdb_quotient if operator == "/" else _exact(operator, "duckdb")
    spark: Template = _spark_quotient if operator == "/" else _exact(operator, "spark")
    return function(
        f"{operator}(numeric, numeric) -> numeric",
        result=rule,
        duckdb=duckdb,
        spark=spark,
        examples=_binary_examples(operator, _NUMERIC_PAIRS),
    )


def _float_quotient(operands: Sequence[Operand], result: Type) -> str:
    """An error for zero whatever DuckDB is set to; a constant divisor needs no test."""
    dividend, divisor = operands
    if divisor.literal is not None and float(divisor.literal) != 0:
        return f"({dividend.text} / {divisor.text})"
    failure = raise_error("22012", "division by zero", "duckdb")
    is_zero = f"{divisor.text} = 0 AND NOT isnan({dividend.text})"
    return f"CASE WHEN {is_zero} THEN {failure} ELSE {dividend.text} / {divisor.text} END"


def _float_operator(operator: str, name: str) -> Function:
    text = _same_type(operator)
    duckdb: Template = _float_quotient if operator == "/" else text
    pairs = [(a, b) for a, b in _FLOAT_PAIRS if ("real" in a) == (name == "real")]
    # Spark divides reals into a double.
    spark = "CAST({0} / {1} AS FLOAT)" if (operator, name) == ("/", "real") else text
    return function(
        f"{operator}({name}, {name}) -> {name}", duckdb=duckdb, spark=spark, examples=_binary_examples(operator, pairs)
    )


def _unary() -> list[Function]:
    functions = [
        function(f"-({name}) -> {name}", both="(- {0})", examples=[f"- (3::{name})", f"- (NULL::{name})"])
        for name in INTEGERS + FLOATS
    ]
    functions.append(function("-(numeric) -> same", both="(- {0})", examples=["- (1.5)"]))
    return functions


def _bits() -> list[Function]:
    functions = []
    for name in INTEGERS:
        for operator, spark in (("&", "({0} & {1})"), ("|", "({0} | {1})"), ("#", "({0} ^ {1})")):
            duckdb = "xor({0}, {1})" if operator == "#" else spark
            functions.append(
                function(
                    f"{operator}({name}, {name}) -> {name}",
                    duckdb=duckdb,
                    spark=spark,
                    examples=[f"12::{name} {operator} 10::{name}", f"(-1)::{name} {operator} 5::{name}"],
                )
            )
        functions.append(function(f"~({name}) -> {name}", both="(~ {0})", examples=[f"~ (5::{name})"]))
    for name in ("int", "bigint"):
        for operator, spark_name in (("<<", "shiftleft"), (">>", "shiftright")):
            functions.append(
                function(
                    f"{operator}({name}, int) -> {name}",
                    duckdb=Refusal("DuckDB shifts no bit out"),
                    spark=spark_name + "({0}, {1})",
                    examples=[f"{value}::{name} {operator} 3" for value in ("5", "(-5)", "2147483647", "NULL")],
                )
            )
    return functions


def _absolute() -> list[Function]:
    functions = [
        function(f"abs({name}) -> {name}", both="abs({0})", examples=[f"abs((-3)::{name})", f"abs(NULL::{name})"])
        for name in INTEGERS + FLOATS
    ]
    functions.append(function("abs(numeric) -> same", both="abs({0})", examples=["abs(-1.50)"]))
    return functions


def _whole(types: Sequence[Type]) -> Type:
    precision, scale = numeric_digits(types[0])
    return bounded_numeric(precision - scale + 1, 0)


def _cast_result(template: str, kernel: Kernel) -> Template:
    return lambda operands, result: plain_cast(template.format(*(o.text for o in operands)), result, kernel)


def _rounded_type(types: Sequence[Type]) -> Type:
    """One digit more before the point: 99.95 becomes 100.0."""
    precision, scale = numeric_digits(types[0])
    return bounded_numeric(precision + 1, scale)


def _rounded_to_places(types: Sequence[Type], constants: Sequence[str | None]) -> Type:
    """The places that are asked for are the result's scale."""
    precision, scale = numeric_digits(types[0])
    places = constants[1]
    kept = scale if places is None else max(0, min(int(places), MAX_PRECISION))
    return NUMERIC(min(MAX_PRECISION, precision - scale + 1 + kept), kept)


def _rounding() -> list[Function]:
    functions = []
    for name, kernel_name in (("ceil", "ceil"), ("ceiling", "ceil"), ("floor", "floor")):
        samples = ["1.2", "(-1.2)", "1.0", "NULL::numeric(4,2)", "(-0.5)"]
        functions.append(
            function(
                f"{name}(numeric) -> numeric",
                result=_whole,
                duckdb=_cast_result(kernel_name + "({0})", "duckdb"),
                spark=_cast_result(kernel_name + "({0})", "spark"),
                examples=[f"{name}({x})" for x in samples],
            )
        )
        functions.append(
            function(
                f"{name}(double precision) -> double precision",
                duckdb=kernel_name + "({0})",
                spark=_big_double(kernel_name),
                examples=[f"{name}({x}::float8)" for x in [*samples[:4], "1e300", "'NaN'", "'Infinity'"]],
            )
        )
    functions += [
        function(
            "round(double precision) -> double precision",
            duckdb="round_even({0}, 0)",
            spark="rint({0})",
            examples=[f"round({x}::float8)" for x in ("2.5", "3.5", "(-2.5)", "0.4", "1e300", "'NaN'", "NULL")],
        ),
        function(
            "round(numeric) -> numeric",
            result=_whole,
            duckdb=_cast_result("round({0})", "duckdb"),
            spark=_cast_result("round({0}, 0)", "spark"),
            examples=[f"round({x})" for x in ("2.5", "3.5", "(-2.5)", "0.4", "99.9", "NULL::numeric(4,1)")],
        ),
        *[
            function(
                f"{name}(numeric, int) -> numeric",
                result=_rounded_type,
                by_constants=_rounded_to_places,
                duckdb=_to_places("duckdb", made),
                spark=_to_places("spark", made),
                examples=[f"{name}({example})" for example in _TO_PLACES],
            )
            for name, made in (("round", _rounded), ("trunc", _cut))
        ],
        function(
            "trunc(double precision) -> double precision",
            duckdb="trunc({0})",
            spark="CASE WHEN abs({0}) < 9007199254740992D THEN double(CAST({0} AS BIGINT)) ELSE {0} END",
            examples=[f"trunc({x}::float8)" for x in ("2.7", "(-2.7)", "1e300", "'-Infinity'", "'NaN'")],
        ),
        function(
            "trunc(numeric) -> numeric",
            result=_whole,
            duckdb=_cast_result("trunc({0})", "duckdb"),
            spark=_cast_result("CASE WHEN {0} < 0 THEN ceil({0}) ELSE floor({0}) END", "spark"),
            examples=["trunc(2.7)", "trunc(-2.7)", "trunc(NULL::numeric(4,1))"],
        ),
    ]
    return functions


def _big_double(name: str) -> Template:
    # Spark's ceil and floor of a double are bigint, which large values do not fit.
    return "CASE WHEN abs({0}) < 9007199254740992D THEN double(" + name + "({0})) ELSE {0} END"


_TO_PLACES = ("2.345, 2", "99.95, 1", "9.99, 0", "-2.345, 2", "-2.789, 1", "1234.5, -2", "1.5, 5", "2.5, 0") + (
    "NULL::numeric(4,1), 0",
    "12345678901234567890.129, 2",
    "(-9999999999999999999999999999999999.9999)::numeric(38,4), 3",
)


def _to_places(kernel: Kernel, made: Callable[[Operand, int], str]) -> Template:
    """A number with so many places; one that has no more stays as it is."""

    def text(operands: Sequence[Operand], result: Type) -> str:
        value, places = operands
        if places.literal is None:
            raise KernelRefuses("the number of places must be a constant")
        kept = min(int(places.literal), numeric_digits(value.type)[1])
        if kernel == "duckdb" and kept < 0:
            raise KernelRefuses("DuckDB does not round numerics left of the point")
        return plain_cast(made(value, kept), result, kernel)

    return text


def _rounded(value: Operand, places: int) -> str:
    return f"round({value.text}, {places})"


def _cut(value: Operand, places: int) -> str:
    """What stands behind the last place is the remainder by that place's unit, and has the number's sign."""
    return f"({value.text} - {value.text} % {_unit(places)})"


def _unit(places: int) -> str:
    """One of the last of so many places."""
    if places <= 0:
        return "1" + "0" * -places
    return f"CAST('0.{'0' * (places - 1)}1' AS DECIMAL({min(places + 1, 38)}, {places}))"


def _mathematics() -> list[Function]:
    def doubles(name: str, text: str, examples: Sequence[str], spark: str | None = None, count: int = 1) -> Function:
        inside = ", ".join(["double precision"] * count)
        return function(
            f"{name}({inside}) -> double precision",
            duckdb=text,
            spark=spark or text,
            examples=examples,
            approximate=True,
        )

    def root(kernel: Kernel) -> str:
        failure = raise_error("2201F", "cannot take square root of a negative number", kernel)
        return f"CASE WHEN {{0}} < 0 THEN {failure} ELSE sqrt({{0}}) END"

    def logarithm(name: str, kernel: Kernel) -> str:
        failure = raise_error("2201E", "cannot take logarithm of zero or a negative number", kernel)
        return f"CASE WHEN {{0}} <= 0 THEN {failure} ELSE {name}({{0}}) END"

    return [
        doubles(
            "sqrt",
            root("duckdb"),
            ["sqrt(2::float8)", "sqrt(0::float8)", "sqrt(NULL::float8)", "sqrt(-1::float8)"],
            root("spark"),
        ),
        doubles("cbrt", "cbrt({0})", ["cbrt(27::float8)", "cbrt(-8::float8)"]),
        doubles("exp", "exp({0})", ["exp(1::float8)", "exp(NULL::float8)", "exp(-1000::float8 * 0)"]),
        doubles(
            "ln",
            logarithm("ln", "duckdb"),
            ["ln(2::float8)", "ln(0::float8)", "ln(-1::float8)"],
            logarithm("ln", "spark"),
        ),
        doubles(
            "log",
            logarithm("log10", "duckdb"),
            ["log(100::float8)", "log(0::float8)"],
            logarithm("log10", "spark"),
        ),
        doubles(
            "log",
            _LOG_DUCKDB,
            [
                "log(2::float8, 64) == log(2.0, 64.0)",
                "log(NULL::float8, 0) == log(NULL, 0.0)",
                "log(0::float8, NULL) == log(0.0, NULL)",
                "log(2::float8, 0) == log(2.0, 0.0)",
                "log10(100::float8)",
            ],
            _LOG_SPARK,
            2,
        ),
        doubles(
            "log10",
            logarithm("log10", "duckdb"),
            ["log10(1000::float8)", "log10(0::float8)"],
            logarithm("log10", "spark"),
        ),
        doubles(
            "power",
            _POWER_DUCKDB,
            [
                "power(2::float8, 10)",
                "power(2::float8, -1)",
                "power(0::float8, 0)",
                "power(0::float8, -1)",
                "power(-8::float8, 0.5)",
                "power('NaN'::float8, 0)",
                "2::float8 ^ 3",
            ],
            _POWER_SPARK,
            2,
        ),
        *[
            doubles(name, name + "({0})", [f"{name}(0.5::float8)", f"{name}(NULL::float8)"])
            for name in ("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "degrees", "radians")
        ],
        *[doubles(name, name + "({0})", [f"{name}(0.5::float8)"]) for name in ("cot",)],
        doubles("asin", _in_range("asin"), ["asin(0.5::float8)", "asin(2::float8)"], _in_range("asin", "spark")),
        doubles("acos", _in_range("acos"), ["acos(0.5::float8)", "acos(2::float8)"], _in_range("acos", "spark")),
        doubles("atan2", "atan2({0}, {1})", ["atan2(1::float8, -1::float8)", "atan2(0::float8, 0::float8)"], None, 2),
        function("pi() -> double precision", both="pi()", examples=["pi()"]),
        function(
            "sign(double precision) -> double precision",
            duckdb="CAST(sign({0}) AS DOUBLE)",
            spark="sign({0})",
            examples=["sign(-2.5::float8)", "sign(0::float8)", "sign(NULL::float8)"],
        ),
        function(
            "sign(numeric) -> numeric",
            result=lambda types: NUMERIC(1, 0),
            duckdb="CAST(sign({0}) AS DECIMAL(1, 0))",
            spark="CAST(sign({0}) AS DECIMAL(1, 0))",
            examples=["sign(-2.5)", "sign(0.0)"],
        ),
        function("random() -> double precision", both="random()", volatile=True),
        *[
            function(
                f"mod({name}, {name}) -> {name}",
                duckdb="CASE WHEN {1} = -1 THEN {0} - {0} ELSE {0} % {1} END",
                spark="({0} % {1})",
                examples=[f"mod(7::{name}, -3::{name})", f"mod(-7::{name}, 3::{name})", f"mod(7::{name}, 0::{name})"],
            )
            for name in INTEGERS
        ],
        function(
            "mod(numeric, numeric) -> numeric",
            result=_remainder_type,
            duckdb=_exact("%", "duckdb"),
            spark=_exact("%", "spark"),
            examples=["mod(7.5, 2)", "mod(-7.5, 2.0)", "mod(7.5, 0)"],
        ),
    ]


def _in_range(name: str, kernel: Kernel = "duckdb") -> str:
    failure = raise_error("22003", "input is out of range", kernel)
    return f"CASE WHEN abs({{0}}) > 1 THEN {failure} ELSE {name}({{0}}) END"


def _power(kernel: Kernel) -> str:
    zero = raise_error("2201F", "zero raised to a negative power is undefined", kernel)
    complex_result = raise_error(
        "2201F", "a negative number raised to a non-integer power yields a complex result", kernel
    )
    return (
        f"CASE WHEN {{0}} = 0 AND {{1}} < 0 THEN {zero} "
        f"WHEN {{0}} < 0 AND {{1}} <> floor({{1}}) THEN {complex_result} ELSE power({{0}}, {{1}}) END"
    )


def _log(kernel: Kernel) -> str:
    failure = raise_error("2201E", "cannot take logarithm of zero or a negative number", kernel)
    return (
        f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN {{0}} <= 0 OR {{1}} <= 0 THEN {failure} "
        f"ELSE ln({{1}}) / ln({{0}}) END"
    )


_LOG_DUCKDB, _LOG_SPARK = _log("duckdb"), _log("spark")
_POWER_DUCKDB, _POWER_SPARK = _power("duckdb"), _power("spark")


def _divisors() -> list[Function]:
    return [
        function(
            f"{name}({kind}, {kind}) -> {kind}",
            duckdb=f"CAST({name}({{0}}, {{1}}) AS {kernel_type(parse_type(kind), 'duckdb')})",
            spark=Refusal("Spark has no such function"),
            examples=[f"{name}({a}::{kind}, {b})" for a, b in ((12, 18), ("(-12)", 18), (0, 5), (0, 0), (7, "NULL"))],
        )
        for name in ("gcd", "lcm")
        for kind in ("int", "bigint")
    ]


FUNCTIONS = [*_arithmetic(), *_unary(), *_bits(), *_absolute(), *_rounding(), *_mathematics(), *_divisors()]
