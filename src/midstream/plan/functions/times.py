"""Dates, timestamps and intervals.

An interval is months, days and microseconds, added in this order; the session's time zone is UTC. Fields of a
moment are written `extract year`, units of truncation `date_trunc day`: one function for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.kernels import Kernel, quote_text
from midstream.plan.functions.casts import plain_cast
from midstream.plan.functions.model import Function, KernelRefuses, Operand, Template, function
from midstream.types import Type

_DAY = 86_400_000_000


# --- arithmetic ----------------------------------------------------------------------------------


def _spark_interval(operand: Operand, sign: int) -> str:
    """A calendar interval of Spark's, which can be added to a moment but not kept."""
    if operand.literal is not None:
        months, days, microseconds = (sign * int(part) for part in operand.literal.split())
        whole, rest = divmod(abs(microseconds), 1_000_000)
        seconds = f"{'-' if microseconds < 0 else ''}{whole}.{rest:06d}"
        return f"make_interval(0, {months}, 0, {days}, 0, 0, CAST('{seconds}' AS DECIMAL(18, 6)))"
    parts = f"{operand.text}.`months`", f"{operand.text}.`days`", f"{operand.text}.`microseconds`"
    months_, days_, micro = (part if sign > 0 else f"(- {part})" for part in parts)
    seconds_ = f"CAST(CAST({micro} AS DECIMAL(19, 0)) * CAST('0.000001' AS DECIMAL(7, 6)) AS DECIMAL(18, 6))"
    return f"make_interval(0, {months_}, 0, {days_}, 0, 0, {seconds_})"


def _moved(sign: int, swapped: bool = False) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        moment, interval = reversed(operands) if swapped else operands
        value = moment.text if moment.type == result else plain_cast(moment.text, result, "spark")
        return f"({value} + {_spark_interval(interval, sign)})"

    return text


def _spark_difference(operands: Sequence[Operand], result: Type) -> str:
    micro = f"timestampdiff(MICROSECOND, {operands[1].text}, {operands[0].text})"
    parts = f"named_struct('months', 0, 'days', CAST({micro} div {_DAY} AS INT), 'microseconds', {micro} % {_DAY})"
    return f"CASE WHEN {micro} IS NOT NULL THEN {plain_cast(parts, result, 'spark')} END"


def _duckdb_difference(operands: Sequence[Operand], result: Type) -> str:
    micro = f"(epoch_us({operands[0].text}) - epoch_us({operands[1].text}))"
    return f"(to_days(CAST({micro} // {_DAY} AS INTEGER)) + to_microseconds({micro} % {_DAY}))"


def _spark_parts(pattern: str) -> Template:
    """An interval made of two others, part by part."""

    def text(operands: Sequence[Operand], result: Type) -> str:
        fields = []
        for field in ("months", "days", "microseconds"):
            values = [f"{o.text}.`{field}`" if o.type.name == "interval" else o.text for o in operands]
            kind = "BIGINT" if field == "microseconds" else "INT"
            fields.append(f"'{field}', CAST({pattern.format(*values)} AS {kind})")
        nulls = " OR ".join(f"{operand.text} IS NULL" for operand in operands)
        made = plain_cast(f"named_struct({', '.join(fields)})", result, "spark")
        return f"CASE WHEN {nulls} THEN NULL ELSE {made} END"

    return text


def _binned(kernel: Kernel) -> Template:
    """The last moment, counted in steps from an origin, that is not after another."""

    def text(operands: Sequence[Operand], result: Type) -> str:
        step, moment, origin = operands
        if step.literal is None:
            raise KernelRefuses("the interval of date_bin must be a constant")
        months, days, microseconds = map(int, step.literal.split())
        size = days * _DAY + microseconds
        if months or size <= 0:
            raise KernelRefuses("the interval of date_bin must be longer than nothing and have no months")
        if kernel == "duckdb":
            passed = f"(epoch_us({moment.text}) - epoch_us({origin.text}))"
            return f"({moment.text} - to_microseconds((({passed} % {size}) + {size}) % {size}))"
        passed = f"timestampdiff(MICROSECOND, {origin.text}, {moment.text})"
        return f"timestampadd(MICROSECOND, - pmod({passed}, {size}L), {moment.text})"

    return text


_STEPS = ("interval '1 day'", "interval '1 month'", "interval '-1 mon -2 days 03:04:05.5'", "interval '90 minutes'")
_MOMENTS = {
    "timestamp": ("timestamp '2020-01-31 12:00:00'", "timestamp '1960-02-29 23:59:59.999999'", "NULL::timestamp"),
    "timestamptz": ("timestamptz '2020-01-31 12:00:00+00'",),
    "date": ("date '2020-01-31'", "date '1969-12-31'"),
}


def _arithmetic() -> list[Function]:
    functions = []
    for kind, result in (("timestamp", "timestamp"), ("timestamptz", "timestamptz"), ("date", "timestamp")):
        moments = _MOMENTS[kind]
        functions += [
            function(
                f"+({kind}, interval) -> {result}",
                duckdb="({0} + {1})",
                spark=_moved(1),
                examples=[f"{m} + {s}" for m in moments for s in _STEPS],
            ),
            function(
                f"+(interval, {kind}) -> {result}",
                duckdb="({1} + {0})",
                spark=_moved(1, swapped=True),
                examples=[f"{s} + {moments[0]}" for s in _STEPS],
            ),
            function(
                f"-({kind}, interval) -> {result}",
                duckdb="({0} - {1})",
                spark=_moved(-1),
                examples=[f"{m} - {s}" for m in moments for s in _STEPS],
            ),
        ]
    pairs = [
        ("'2020-01-02 01:00:00'", "'2020-01-01 02:00:00'"),
        ("'2020-01-01 02:00:00'", "'2020-01-03 01:00:00.5'"),
        ("'2020-01-01'", "'2020-01-01'"),
        ("NULL", "'2020-01-01'"),
    ]
    functions += [
        function(
            f"-({kind}, {kind}) -> interval",
            duckdb=_duckdb_difference,
            spark=_spark_difference,
            examples=[f"{a}::{kind} - {b}::{kind}" for a, b in pairs],
        )
        for kind in ("timestamp", "timestamptz")
    ]
    return functions


_DATES: list[Function] = [
    function(
        "+(date, int) -> date",
        duckdb="({0} + {1})",
        spark="date_add({0}, {1})",
        examples=["date '2020-02-28' + 2", "date '2020-01-01' + (-1)", "NULL::date + 1"],
    ),
    function(
        "+(int, date) -> date", duckdb="({1} + {0})", spark="date_add({1}, {0})", examples=["2 + date '2020-02-28'"]
    ),
    function(
        "-(date, int) -> date", duckdb="({0} - {1})", spark="date_sub({0}, {1})", examples=["date '2020-03-01' - 1"]
    ),
    function(
        "-(date, date) -> int",
        duckdb="CAST({0} - {1} AS INTEGER)",
        spark="datediff({0}, {1})",
        examples=[
            "date '2020-03-01' - date '2020-02-01'",
            "date '1960-01-01' - date '2020-01-01'",
            "NULL - date '2020-01-01'",
        ],
    ),
    function(
        "+(interval, interval) -> interval",
        duckdb="({0} + {1})",
        spark=_spark_parts("{0} + {1}"),
        examples=["interval '1 mon 2 days' + interval '3 days 01:00'"],
    ),
    function(
        "-(interval, interval) -> interval",
        duckdb="({0} - {1})",
        spark=_spark_parts("{0} - {1}"),
        examples=["interval '1 mon 2 days' - interval '3 days 01:00'"],
    ),
    function(
        "-(interval) -> interval",
        duckdb="(- {0})",
        spark=_spark_parts("- {0}"),
        examples=["- (interval '1 mon -2 days 01:00')"],
    ),
    function(
        "*(interval, int) -> interval",
        duckdb="({0} * {1})",
        spark=_spark_parts("{0} * {1}"),
        examples=["interval '1 mon 2 days 00:30' * 3"],
    ),
    function(
        "*(int, interval) -> interval",
        duckdb="({1} * {0})",
        spark=_spark_parts("{1} * {0}"),
        examples=["2 * interval '1 hour'"],
    ),
    function(
        "make_date(int, int, int) -> date",
        both="make_date({0}, {1}, {2})",
        examples=["make_date(2020, 2, 29)", "make_date(NULL, 1, 1)"],
    ),
    function(
        "make_timestamp(int, int, int, int, int, double precision) -> timestamp",
        duckdb="make_timestamp({all})",
        spark="make_timestamp_ntz({0}, {1}, {2}, {3}, {4}, CAST({5} AS DECIMAL(16, 6)))",
        examples=["make_timestamp(2020, 2, 29, 13, 14, 15.5)", "make_timestamp(1960, 1, 1, 0, 0, 0)"]
        + ["make_timestamp(2020, 1, 1, NULL, 0, 0)"],
    ),
    *[
        function(
            f"date_bin(interval, {kind}, {kind}) -> {kind}",
            duckdb=_binned("duckdb"),
            spark=_binned("spark"),
            examples=[
                f"date_bin('{step}', {kind} '{moment}', {kind} '{origin}')"
                for step, origin in (("15 minutes", "2001-01-01"), ("1 day 2 hours", "2020-01-01 00:00:30.5"))
                for moment in ("2020-02-11 15:44:17.25", "2001-01-01 00:00:00", "2001-01-01 00:14:59.999999")
            ]
            + [f"date_bin('1 hour', NULL::{kind}, {kind} '2001-01-01')"],
            note="The interval is a constant without months." if kind == "timestamp" else "",
        )
        for kind in ("timestamp", "timestamptz")
    ],
    function(
        "to_timestamp(double precision) -> timestamptz",
        duckdb="make_timestamptz(CAST(round({0} * 1000000) AS BIGINT))",
        spark="timestamp_micros(CAST(rint({0} * 1000000D) AS BIGINT))",
        examples=["to_timestamp(0)", "to_timestamp(1577836800.5)", "to_timestamp(-1.25)", "to_timestamp(NULL)"],
    ),
]


# --- fields --------------------------------------------------------------------------------------

_FIELDS: dict[str, tuple[str, str, str]] = {
    "year": ("int", "year({0})", "year({0})"),
    "month": ("int", "month({0})", "month({0})"),
    "day": ("int", "day({0})", "day({0})"),
    "hour": ("int", "hour({0})", "hour({0})"),
    "minute": ("int", "minute({0})", "minute({0})"),
    "quarter": ("int", "quarter({0})", "quarter({0})"),
    "week": ("int", "weekofyear({0})", "weekofyear({0})"),
    "dow": ("int", "dayofweek({0})", "(dayofweek({0}) - 1)"),
    "isodow": ("int", "isodow({0})", "(weekday({0}) + 1)"),
    "doy": ("int", "dayofyear({0})", "dayofyear({0})"),
    "isoyear": ("int", "isoyear({0})", "extract(YEAROFWEEK FROM {0})"),
    "decade": ("int", "(year({0}) // 10)", "(year({0}) div 10)"),
    "century": ("int", "((year({0}) + 99) // 100)", "((year({0}) + 99) div 100)"),
    "millennium": ("int", "((year({0}) + 999) // 1000)", "((year({0}) + 999) div 1000)"),
    "microseconds": ("int", "date_part('microseconds', {0})", "CAST(extract(SECOND FROM {0}) * 1000000 AS INT)"),
    "milliseconds": (
        "numeric(8,3)",
        "CAST(date_part('microseconds', {0}) AS DECIMAL(9, 0)) * CAST('0.001' AS DECIMAL(4, 3))",
        "extract(SECOND FROM {0}) * 1000",
    ),
    "second": (
        "numeric(8,6)",
        "CAST(date_part('microseconds', {0}) AS DECIMAL(9, 0)) * CAST('0.000001' AS DECIMAL(7, 6))",
        "extract(SECOND FROM {0})",
    ),
    "epoch": (
        "numeric(20,6)",
        "CAST(epoch_us({0}) AS DECIMAL(20, 0)) * CAST('0.000001' AS DECIMAL(7, 6))",
        "CAST(unix_micros(CAST({0} AS TIMESTAMP_LTZ)) AS DECIMAL(20, 0)) * CAST('0.000001' AS DECIMAL(7, 6))",
    ),
}
_FIELD_MOMENTS = ("2020-02-29 13:14:15.678901", "2019-12-30 00:00:00", "1969-12-31 23:59:59.5", "2021-01-03 01:00:00")


def _cast_to_result(template: str, kernel: Kernel) -> Template:
    return lambda operands, result: plain_cast(template.format(operands[0].text), result, kernel)


def _field(name: str, kind: str) -> Function:
    result, duckdb, spark = _FIELDS[name]
    moments = _FIELD_MOMENTS if kind == "timestamp" else _FIELD_MOMENTS[:1]
    return function(
        f"extract {name}({kind}) -> {result}",
        duckdb=_cast_to_result(duckdb, "duckdb"),
        spark=_cast_to_result(spark, "spark"),
        examples=[f"extract({name} from {kind} '{m}')" for m in moments] + [f"date_part('{name}', NULL::{kind})"],
    )


_SECONDS = {"year": 31_557_600, "month": 2_592_000, "day": 86_400, "hour": 3_600, "minute": 60}
"""How long PostgreSQL takes each part of an interval to be: a year 365.25 days, a month that is left over 30."""
_TO_SECONDS = "CAST({0} AS DECIMAL(20, 0)) * CAST('0.000001' AS DECIMAL(7, 6))"


def _length_of_interval() -> Function:
    duckdb = " + ".join(f"date_part('{part}', {{0}}) * {seconds}000000" for part, seconds in _SECONDS.items())
    months = "CAST({0}.`months` AS BIGINT)"
    spark = (
        f"({months} div 12) * {_SECONDS['year']}000000 + ({months} % 12) * {_SECONDS['month']}000000 + "
        f"{{0}}.`days` * {_SECONDS['day']}000000L + {{0}}.`microseconds`"
    )
    return function(
        "extract epoch(interval) -> numeric(20,6)",
        duckdb=_cast_to_result(_TO_SECONDS.format(f"({duckdb} + date_part('microseconds', {{0}}))"), "duckdb"),
        spark=_cast_to_result(_TO_SECONDS.format(f"({spark})"), "spark"),
        examples=[
            f"extract(epoch from interval '{interval}')"
            for interval in ("1 day 02:03:04.5", "14 mons -40 days", "-1 year -3 mons -30:00:05.5", "0 days")
        ]
        + ["date_part('epoch', NULL::interval)"],
    )


_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


def _truncation(unit: str, kind: str) -> Function:
    spark = f"date_trunc('{unit}', {{0}})"
    spark = f"CAST({spark} AS TIMESTAMP_NTZ)" if kind == "timestamp" else spark
    return function(
        f"date_trunc {unit}({kind}) -> {kind}",
        duckdb=f"date_trunc('{unit}', {{0}})",
        spark=spark,
        examples=[f"date_trunc('{unit}', {kind} '{m}')" for m in _FIELD_MOMENTS],
    )


# --- zones and text ------------------------------------------------------------------------------

_PATTERNS = {"%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss"}


def _written(kernel: Kernel) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        moment, pattern = operands
        if pattern.literal is None:
            raise KernelRefuses("the format must be a constant")
        java = pattern.literal
        for ours, theirs in _PATTERNS.items():
            java = java.replace(ours, f"|{theirs}|")
        rest = "".join(java.split("|")[::2])
        if any(character.isalnum() or character in "%'\"|" for character in rest):
            raise KernelRefuses("to_char knows YYYY, MM, DD, HH24, MI, SS and punctuation")
        if kernel == "duckdb":
            return f"strftime({moment.text}, {quote_text(pattern.literal, kernel)})"
        return f"date_format({moment.text}, {quote_text(java.replace('|', ''), kernel)})"

    return text


def _zone(kernel: Kernel, to_local: bool) -> Template:
    def text(operands: Sequence[Operand], result: Type) -> str:
        zone, moment = operands
        if kernel == "duckdb":
            return f"timezone({zone.text}, {moment.text})"
        if to_local:
            return f"CAST(from_utc_timestamp({moment.text}, {zone.text}) AS TIMESTAMP_NTZ)"
        return f"CAST(to_utc_timestamp({moment.text}, {zone.text}) AS TIMESTAMP_LTZ)"

    return text


_ZONES = ("'Europe/Berlin'", "'UTC'", "'America/New_York'")
_TEXTS: list[Function] = [
    *[
        function(
            f"to_char({kind}, text) -> text",
            duckdb=_written("duckdb"),
            spark=_written("spark"),
            examples=[
                f"to_char({kind} '2020-02-03 04:05:06', '{p}')" for p in ("YYYY-MM-DD", "YYYY/MM/DD HH24:MI:SS", "MM")
            ],
        )
        for kind in ("timestamp", "timestamptz")
    ],
    function(
        "timezone(text, timestamptz) -> timestamp",
        duckdb=_zone("duckdb", True),
        spark=_zone("spark", True),
        examples=[f"timestamptz '2020-07-01 12:00:00+00' at time zone {z}" for z in _ZONES],
    ),
    function(
        "timezone(text, timestamp) -> timestamptz",
        duckdb=_zone("duckdb", False),
        spark=_zone("spark", False),
        examples=[f"timestamp '2020-01-01 12:00:00' at time zone {z}" for z in _ZONES],
    ),
]

FUNCTIONS: list[Function] = [
    *_arithmetic(),
    *_DATES,
    *[_field(name, kind) for name in _FIELDS for kind in ("timestamp", "timestamptz")],
    _length_of_interval(),
    *[_truncation(unit, kind) for unit in _UNITS for kind in ("timestamp", "timestamptz")],
    *_TEXTS,
]
