"""Functions of Spark's that PostgreSQL does not have, by name. They run on the Spark kernel, or on both where told."""

from __future__ import annotations

from midstream.plan.functions.model import Function, Refusal, Shape, Template, function

_ONLY_SPARK = Refusal("only Spark has this function")


def _spark(signature: str, *examples: str, duckdb: Template | None = None, shape: Shape = "scalar") -> Function:
    name = signature.partition("(")[0]
    text = "{agg:" + name + "}" if shape == "aggregate" else name + "({all})"
    return function(
        signature,
        duckdb=duckdb or _ONLY_SPARK,
        spark=text,
        examples=examples,
        shape=shape,
        approximate="double" in signature,
    )


FUNCTIONS: list[Function] = [
    _spark(
        "levenshtein(text, text) -> int", "levenshtein('kitten', 'sitting') == 3", "levenshtein(NULL, 'a') == NULL::int"
    ),
    _spark("soundex(text) -> text", "soundex('Miller') == 'M460'"),
    _spark("sha1(text) -> text", "sha1('abc') == 'a9993e364706816aba3e25717850c26c9cd0d89d'", duckdb="sha1({0})"),
    _spark("sha2(text, int) -> text", "sha2('', 256) == encode(sha256(''), 'hex')"),
    _spark("crc32(text) -> bigint", "crc32('abc') == 891568578"),
    _spark("xxhash64(any, ...) -> bigint", "xxhash64('a', 1) IS NULL == false"),
    _spark("hash(any, ...) -> int", "hash('a', 1) IS NULL == false"),
    _spark("hypot(double precision, double precision) -> double precision", "hypot(3, 4) == 5::float8"),
    _spark("expm1(double precision) -> double precision", "expm1(0) == 0::float8"),
    _spark("log1p(double precision) -> double precision", "log1p(0) == 0::float8"),
    _spark("factorial(int) -> bigint", "factorial(5) == 120"),
    _spark("bit_count(bigint) -> int", "bit_count(7) == 3", duckdb="CAST(bit_count({0}) AS INTEGER)"),
    _spark("shiftleft(int, int) -> int", "shiftleft(1, 4) == 16"),
    _spark("shiftright(int, int) -> int", "shiftright(-16, 2) == -4"),
    _spark("add_months(date, int) -> date", "add_months(date '2020-01-31', 1) == date '2020-02-29'"),
    _spark("last_day(date) -> date", "last_day(date '2020-02-01') == date '2020-02-29'", duckdb="last_day({0})"),
    _spark("next_day(date, text) -> date", "next_day(date '2020-01-01', 'MON') == date '2020-01-06'"),
    _spark(
        "months_between(timestamp, timestamp) -> double precision",
        "months_between(timestamp '2020-03-01', timestamp '2020-01-01') == 2::float8",
    ),
    *[
        _spark(
            f"{name}(timestamp) -> int",
            f"{name}(timestamp '2020-02-29 13:14:15') == {value}",
            duckdb=f"CAST({name}({{0}}) AS INTEGER)",
        )
        for name, value in (
            ("year", 2020),
            ("quarter", 1),
            ("month", 2),
            ("day", 29),
            ("hour", 13),
            ("minute", 14),
            ("second", 15),
        )
    ],
    *[
        _spark(f"{name}(timestamp) -> int", f"{name}(timestamp '2020-02-29 13:14:15') == {value}", duckdb=duckdb)
        for name, value, duckdb in (
            ("dayofweek", 7, "CAST(dayofweek({0}) + 1 AS INTEGER)"),
            ("weekday", 5, "CAST(isodow({0}) - 1 AS INTEGER)"),
            ("dayofyear", 60, "CAST(dayofyear({0}) AS INTEGER)"),
            ("weekofyear", 9, "CAST(weekofyear({0}) AS INTEGER)"),
        )
    ],
    _spark("date_add(date, int) -> date", "date_add(date '2020-02-28', 2) == date '2020-03-01'", duckdb="({0} + {1})"),
    _spark("date_sub(date, int) -> date", "date_sub(date '2020-03-01', 1) == date '2020-02-29'", duckdb="({0} - {1})"),
    _spark(
        "datediff(date, date) -> int",
        "datediff(date '2020-03-01', date '2020-02-01') == 29",
        duckdb="CAST({0} - {1} AS INTEGER)",
    ),
    _spark("date_format(timestamp, text) -> text", "date_format(timestamp '2020-02-29 13:14:15', 'yy/M') == '20/2'"),
    _spark("from_unixtime(bigint) -> text", "from_unixtime(0) == '1970-01-01 00:00:00'"),
    function(
        "unix_timestamp(timestamp) -> bigint",
        duckdb="CAST(floor(epoch_us({0}) / 1000000) AS BIGINT)",
        spark="unix_timestamp(CAST({0} AS TIMESTAMP))",
        examples=["unix_timestamp(timestamp '1970-01-02 00:00:01.9') == 86401"],
    ),
    function(
        "if(boolean, anyelement, anyelement) -> anyelement",
        both="CASE WHEN {0} THEN {1} ELSE {2} END",
        examples=["if(1 < 2, 'a', 'b') == 'a'", "if(NULL, 1, 2.5) == 2.5"],
    ),
    _spark("substring_index(text, text, int) -> text", "substring_index('a.b.c', '.', 2) == 'a.b'"),
    _spark("bin(bigint) -> text", "bin(13) == '1101'", duckdb="bin({0})"),
    _spark("rint(double precision) -> double precision", "rint(2.5) == 2::float8", duckdb="round_even({0}, 0)"),
    function(
        "size(anyarray) -> int",
        duckdb="CAST(len({0}) AS INTEGER)",
        spark="array_size({0})",
        examples=["size(ARRAY[1,NULL]) == 2"],
    ),
    _spark(
        "element_at(anyarray, int) -> anyelement",
        "element_at(ARRAY[1,2,3], -1) == 3",
        "element_at(ARRAY['a',NULL], 1) == 'a'",
    ),
    _spark("array_distinct(anyarray) -> anyarray", "cardinality(array_distinct(ARRAY[1,1,NULL,NULL])) == 2"),
    _spark(
        "array_contains(anyarray, anyelement) -> boolean",
        "array_contains(ARRAY[1,2], 2) == true",
        "array_contains(ARRAY[1,NULL], 2) == NULL::boolean",
    ),
    _spark("array_max(anyarray) -> anyelement", "array_max(ARRAY[1,3,NULL]) == 3"),
    _spark("array_min(anyarray) -> anyelement", "array_min(ARRAY[1,3,NULL]) == 1"),
    _spark("array_union(anyarray, anyarray) -> anyarray", "array_union(ARRAY[1,2], ARRAY[2,3]) == ARRAY[1,2,3]"),
    _spark("array_intersect(anyarray, anyarray) -> anyarray", "array_intersect(ARRAY[1,2], ARRAY[2,3]) == ARRAY[2]"),
    _spark("array_except(anyarray, anyarray) -> anyarray", "array_except(ARRAY[1,2], ARRAY[2,3]) == ARRAY[1]"),
    _spark("array_remove(anyarray, anyelement) -> anyarray", "array_remove(ARRAY[1,2,1], 1) == ARRAY[2]"),
    _spark(
        "count_if(boolean) -> bigint",
        "count_if(i > 0) == count(*) FILTER (WHERE i > 0)",
        duckdb="coalesce(CAST({agg:count_if} AS BIGINT), 0)",
        shape="aggregate",
    ),
    _spark("collect_list(any) -> anyarray", "cardinality(collect_list(i)) == count(i)", shape="aggregate"),
    _spark("collect_set(any) -> anyarray", "cardinality(collect_set(i)) == count(DISTINCT i)", shape="aggregate"),
    _spark(
        "skewness(double precision) -> double precision", "skewness(i) IS NULL == (count(i) < 1)", shape="aggregate"
    ),
    _spark(
        "kurtosis(double precision) -> double precision", "kurtosis(i) IS NULL == (count(i) < 1)", shape="aggregate"
    ),
]
