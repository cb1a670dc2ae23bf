"""The three engines that must agree on an expression: DuckDB and Spark through our binding, PostgreSQL by itself.

An engine answers a query with rows, or with a `Failure` that has the SQLSTATE of the error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.errors import Error
from midstream.kernels import Kernel
from midstream.plan.bound import BoundQuery
from midstream.plan.context import BindContext
from midstream.plan.render import SPARK_SETTINGS
from midstream.plan.statements import bind_query
from midstream.relations.table import Column, Table
from midstream.spark.errors import from_duckdb, from_spark
from midstream.sql import parse
from midstream.sql.statements import Select
from midstream.types import Type

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_ROWS = """SELECT * FROM (VALUES
    (1, 'a', 1, 10::bigint, 1::smallint, 1.50, 1.5::float8, 0.5::real, 'x', true, date '2020-01-01',
     timestamp '2020-01-01 01:00:00', timestamptz '2020-01-01 01:00:00+00'),
    (2, 'a', 2, 20::bigint, 2::smallint, 2.25, 2.5::float8, 1.5::real, 'y', false, date '2020-02-29',
     timestamp '2020-01-02 00:00:00.5', timestamptz '2020-01-01 02:00:00+00'),
    (3, 'a', 2, NULL, NULL, NULL, 4.5::float8, NULL, 'Z', NULL, NULL, NULL, NULL),
    (4, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (5, 'c', -7, -9223372036854775807, -3::smallint, -99.99, 'NaN'::float8, 8::real, 'é', true, date '1969-12-31',
     timestamp '1969-12-31 23:59:59', timestamptz '1969-12-31 23:59:59+00'),
    (6, 'c', 4, 5, 4::smallint, 0.01, 1e10::float8, 8::real, '', true, date '2024-02-29',
     timestamp '2024-02-29 12:00:00', timestamptz '2024-02-29 12:00:00+00'),
    (7, 'c', 5, 6, 5::smallint, 7.77, -3.5::float8, 2::real, 'x', false, date '2024-02-29',
     timestamp '2024-03-01 12:00:00', timestamptz '2024-03-01 12:00:00+00')
  ) AS v(id, k, i, b, s, n, f, r, t, o, d, ts, tz)"""
"""The rows of v, for aggregates and windows: group a has NULLs among values, b nothing but NULLs, c extremes."""


class Relations:
    """Nothing but v, which binding calls scan_0."""

    def __init__(self, table: Table | None) -> None:
        self.table = table

    def relation(self, name: str, as_of: int | None = None) -> Table | None:
        return self.table if name == "v" else None

    def names(self) -> Sequence[str]:
        return ("v",) if self.table else ()


@dataclass(frozen=True)
class Failure:
    sqlstate: str
    message: str

    def __repr__(self) -> str:
        return f"Failure({self.sqlstate}: {self.message[:200]})"


Rows = list[tuple[Any, ...]]


def bind(sql: str) -> BoundQuery:
    """A query that may read v."""
    return _bind(sql, Relations(_table_of_rows()))


def _bind(sql: str, relations: Relations) -> BoundQuery:
    [statement] = parse(sql)
    assert isinstance(statement, Select)
    return bind_query(statement.query, relations, BindContext(scn=1, now=datetime(2024, 1, 1, tzinfo=timezone.utc)))


@cache
def _table_of_rows() -> Table:
    outputs = _bind(_ROWS, Relations(None)).outputs
    return Table(1, "v", tuple(Column(output.name, output.type) for output in outputs))


def arrow_type(type: Type) -> pa.DataType:
    if type.element is not None:
        return pa.list_(arrow_type(type.element))
    if type.name == "numeric":
        return pa.decimal128(type.precision, type.scale)
    interval = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
    return {
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "boolean": pa.bool_(),
        "text": pa.string(),
        "varchar": pa.string(),
        "char": pa.string(),
        "json": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "bytea": pa.binary(),
        "interval": interval,
    }[type.name]


def same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Equal but for names of list items, nullability, sizes of offsets and the spelling of UTC."""
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return pa.types.is_list(wanted) and same_type(found.value_type, wanted.value_type)
    if pa.types.is_timestamp(found) and found.tz:
        return bool(pa.types.is_timestamp(wanted) and wanted.tz)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        pairs = [(found.field(i), wanted.field(i)) for i in range(wanted.num_fields)]
        return all(a.name == b.name and same_type(a.type, b.type) for a, b in pairs)
    return found == wanted or (str(found), str(wanted)) in {("large_string", "string"), ("large_binary", "binary")}


class Kernels:
    """Runs bound queries in process, with the settings that rendering relies on."""

    def __init__(self, duckdb_connection: Any, spark: Any) -> None:
        self.duckdb, self.spark = duckdb_connection, spark
        rows, names = _bind(_ROWS, Relations(None)), _table_of_rows().column_names
        renamed = ", ".join(f"c{i} AS {name}" for i, name in enumerate(names))
        self.duckdb.execute(f"CREATE OR REPLACE TABLE scan_0 AS SELECT {renamed} FROM ({rows.sql('duckdb')})")
        self.spark.sql(rows.sql("spark")).toDF(*names).cache().createOrReplaceTempView("scan_0")

    def fold_constants(self, folded: bool) -> None:
        """Whether Spark may compute constants while planning. What runs over rows is what must agree, so not
        where examples are nothing but constants; window frames need it."""
        rules = () if folded else ("ConstantFolding", "ConvertToLocalRelation")
        excluded = [
            SPARK_SETTINGS[EXCLUDED_RULES],
            *(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in rules),
        ]
        self.spark.conf.set(EXCLUDED_RULES, ",".join(excluded))

    def compile_queries(self, compiled: bool) -> None:
        """Whether Spark generates code. An error comes sooner without."""
        self.spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
        self.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")

    def run(self, kernel: Kernel, sql: str) -> Rows | Failure:
        try:
            bound = bind(sql)
            return self.run_bound(kernel, bound)
        except Error as error:
            return Failure(error.sqlstate, error.message)

    def run_bound(self, kernel: Kernel, bound: BoundQuery) -> Rows | Failure:
        try:
            table = self._arrow(kernel, bound.sql(kernel))
        except Error as error:
            return Failure(error.sqlstate, error.message)
        except Exception as error:
            known = from_duckdb(error) if kernel == "duckdb" else from_spark(error)
            return Failure(known.sqlstate, str(error))
        wrong = self._wrong_type(bound, table)
        if wrong is not None:
            return wrong
        return [tuple(row.values()) for row in table.to_pylist()]

    def _arrow(self, kernel: Kernel, text: str) -> pa.Table:
        if kernel == "duckdb":
            return self.duckdb.sql(text).to_arrow_table()
        return self.spark.sql(text).toArrow()

    def _wrong_type(self, bound: BoundQuery, table: pa.Table) -> Failure | None:
        for output, field in zip(bound.outputs, table.schema, strict=True):
            if not same_type(field.type, arrow_type(output.type)):
                return Failure("type", f"{field.type} where {output.type} was promised")
        return None


def load_rows(connection: Any) -> None:
    """v as a table of PostgreSQL's."""
    connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS v AS {_ROWS}".encode())


def postgres_rows(connection: Any, sql: str, bound: BoundQuery | None = None) -> Rows | Failure:
    """PostgreSQL's answer; intervals as their three parts."""
    import psycopg

    if bound is not None and any(output.type.name == "interval" for output in bound.outputs):
        sql = _with_interval_parts(sql, bound)
    try:
        return [tuple(row) for row in connection.execute(sql.encode()).fetchall()]
    except psycopg.Error as error:
        return Failure(error.sqlstate or "", str(error))


def _with_interval_parts(sql: str, bound: BoundQuery) -> str:
    names = [f"c{i}" for i in range(len(bound.outputs))]
    pairs = zip(names, bound.outputs, strict=True)
    outputs = [_interval_parts(name) if output.type.name == "interval" else name for name, output in pairs]
    return f"SELECT {', '.join(outputs)} FROM ({sql}) AS q({', '.join(names)})"


def _interval_parts(name: str) -> str:
    parts = (
        f"'months', (extract(year from {name}) * 12 + extract(month from {name}))::int",
        f"'days', extract(day from {name})::int",
        f"'microseconds', (extract(hour from {name}) * 3600000000 + extract(minute from {name}) * 60000000"
        f" + extract(microseconds from {name}))::bigint",
    )
    return f"CASE WHEN {name} IS NOT NULL THEN json_build_object({', '.join(parts)}) END"


def agree(ours: Any, theirs: Any, type: Type, approximate: bool) -> bool:
    """Whether a value of ours is PostgreSQL's, in the precision of our type."""
    if (ours is None or theirs is None) and not (type.name == "json" and ours == "null"):
        return ours is None and theirs is None
    if type.name == "json":
        return bool(json.loads(ours) == theirs)
    if isinstance(ours, list):
        return (
            isinstance(theirs, list)
            and len(ours) == len(theirs)
            and all(agree(a, b, type.element or type, approximate) for a, b in zip(ours, theirs, strict=True))
        )
    if isinstance(ours, Decimal):
        return _same_decimal(ours, Decimal(str(theirs)))
    if isinstance(ours, float):
        known = float(np.float32(theirs)) if type.name == "real" else float(theirs)
        return _same_float(ours, known, approximate)
    if isinstance(ours, bytes):
        return ours == bytes(theirs)
    if isinstance(ours, int) and isinstance(theirs, Decimal):
        return theirs == ours
    return bool(ours == theirs) and isinstance(ours, bool) == isinstance(theirs, bool)


def _same_decimal(ours: Decimal, theirs: Decimal) -> bool:
    with localcontext() as context:
        context.prec = 200
        # PostgreSQL keeps as many places as it likes in a quotient: the fewer of both count.
        coarser = max(ours, theirs, key=lambda value: value.as_tuple().exponent)
        return theirs.quantize(coarser, rounding=ROUND_HALF_UP) == ours.quantize(coarser, rounding=ROUND_HALF_UP)


def _same_float(ours: float, theirs: float, approximate: bool) -> bool:
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    if approximate:
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    return ours == theirs
