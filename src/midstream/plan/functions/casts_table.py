"""Examples of casts, which are no functions but are judged in the same way."""

from __future__ import annotations

from midstream.plan.functions.model import Function, function

_FLOATS = ("1.5", "'NaN'", "'Infinity'", "'-Infinity'", "0", "-0.5", "2.5", "3.5", "-2.5", "0.1", "123456789.125")
_TEXT_NUMBERS = ("'12'", "' 12 '", "'-7'", "'+7'", "'abc'", "''", "'1.6'", "'1e3'", "'99999999999999999999'")
_EXAMPLES = [
    *[f"CAST({x}::text || '' AS {to})" for x in _TEXT_NUMBERS for to in ("int", "bigint", "float8", "numeric(10,2)")],
    *[f"CAST(('{x}'::text || '') AS float8)" for x in ("NaN", "inf", "-Infinity", "1e400", ".5", "5.", "1f", "1_0")],
    *[f"CAST({x}::float8 AS {to})" for x in _FLOATS for to in ("int", "bigint", "text")],
    *[f"CAST({x}::float8 AS numeric(20,4))" for x in _FLOATS if x != "'NaN'"],
    *[
        f"CAST({x} AS {to})"
        for x in ("2.5", "3.5", "-2.5", "0.49", "99999999999.5")
        for to in ("int", "bigint", "smallint")
    ],
    "CAST(1.005::float8 AS numeric(10,2))",
    "CAST(0.1::float8 + 0.2::float8 AS numeric(20,18))",
    "CAST(1e10::float8 AS int)",
    "CAST(9223372036854775807::float8 AS bigint)",
    "CAST(-9223372036854775808::float8 AS bigint)",
    "CAST(NULL::float8 AS numeric(20,4))",
    "CAST(NULL::real AS numeric(10,1))",
    "CAST(NULL::float8 AS bigint)",
    "CAST(1.25::real AS numeric(10,1))",
    "CAST(0.1::real AS float8)",
    "CAST(0.1::real AS numeric(10,8))",
    "CAST(123.455 AS numeric(5,2))",
    "CAST(-123.455 AS numeric(5,2))",
    "CAST(123.455 AS numeric(4,2))",
    "CAST(12345678901234567890.123456 AS float8)",
    "CAST(0.3 AS float8)",
    "CAST(16777217 AS real)",
    "CAST(1 AS numeric(3,2))",
    "CAST(100 AS numeric(3,2))",
    "CAST(70000 AS smallint)",
    "CAST(3000000000 AS int)",
    "CAST(1 AS boolean)",
    "CAST(true AS int)",
    "CAST(true AS text)",
    "CAST(false AS text)",
    "CAST(1.50 AS text)",
    "CAST(0.00 AS text)",
    "CAST(-0.05 AS text)",
    "CAST(0.0000001 AS text)",
    "CAST(12 AS text)",
    "CAST(1e15::float8 AS text)",
    "CAST(1e14::float8 AS text)",
    "CAST(1.5e20::float8 AS text)",
    "CAST(1e-5::float8 AS text)",
    "CAST(0.0001::float8 AS text)",
    "CAST(123456789012345678::float8 AS text)",
    "CAST(1.1::real AS text)",
    "CAST(1e6::real AS text)",
    "CAST(1234567::real AS text)",
    "CAST(1e5::real AS text)",
    "CAST('-0'::float8 AS text)",
    "CAST(1e300::float8 AS text)",
    *[
        f"CAST({x}::text || '' AS boolean)"
        for x in ("'t'", "'TRUE'", "' yes '", "'off'", "'0'", "'o'", "'tru'", "'2'", "NULL")
    ],
    *[f"CAST({x}::text || '' AS date)" for x in ("'2020-02-29'", "'2020-2-9'", "'abc'", "NULL", "' 2020-01-01 '")],
    *[
        f"CAST({x}::text || '' AS timestamp)"
        for x in ("'2020-02-29 01:02:03.5'", "'2020-02-29'", "'2020-02-29T01:02'", "'x'")
    ],
    *[
        f"CAST({x}::text || '' AS timestamptz)"
        for x in ("'2020-02-29 01:02:03+02'", "'2020-02-29 01:02:03Z'", "'2020-02-29'")
    ],
    "CAST('abcdef' AS varchar(3))",
    "CAST('ab' AS char(4))",
    "CAST('abcdef'::text || '' AS varchar(3))",
    "CAST(12345 AS varchar(3))",
    "CAST('é😀x'::text || '' AS varchar(2))",
    "CAST(date '2020-01-02' AS text)",
    "CAST(timestamp '2020-01-02 03:04:05.600' AS text)",
    "CAST(timestamp '2020-01-02 00:00:00' AS text)",
    "CAST(timestamptz '2020-01-02 00:00:00+00' AS text)",
    "CAST(timestamp '2020-01-02 23:59:59.999999' AS date)",
    "CAST(timestamp '1960-01-02 23:59:59' AS date)",
    "CAST(date '2020-01-02' AS timestamp)",
    "CAST(timestamptz '2020-01-02 01:00:00+02' AS timestamp)",
    "CAST(timestamp '2020-01-02 01:00:00' AS timestamptz)",
    "CAST(ARRAY[1,2] AS bigint[])",
    "CAST('{1,NULL,3}' AS int[])",
    "CAST(ARRAY[1.5, NULL] AS int[])",
    'CAST(\'{a,"b c",NULL,"NULL"}\' AS text[])',
    "CAST(NULL AS int)",
    *[f"CAST(NULL::text || '' AS {to})" for to in ("int", "numeric(10,2)", "float8", "timestamp", "bytea")],
    "CAST(NULL::text AS int)",
    "'abc'::int",
    "'99999999999'::int",
    "'2020-13-01'::date",
    "'1.5'::numeric(2,1)",
    "'2.55'::numeric(2,1)",
]

FUNCTIONS: list[Function] = [
    function("cast(any) -> any", both="{0}", examples=_EXAMPLES),
]
