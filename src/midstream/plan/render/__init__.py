"""Typed trees as SQL text for the two kernels, with PostgreSQL's meaning in both.

`refusal` says why a kernel cannot run a tree; `render` may be called where it says None. Each scalar's text has
exactly the type that typing gave it. The text relies on the settings below, which the engine must make.

    render(typed tree of  SELECT a / 2 FROM t, "spark")   ->   SELECT CAST(`t`.`a` div 2 AS INT) AS `x` FROM …
"""

from __future__ import annotations

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.kernels import KERNELS, Kernel
from midstream.plan.functions.model import KernelRefuses
from midstream.plan.render.queries import QueryRenderer

DUCKDB_SETTINGS: dict[str, object] = {
    "TimeZone": "UTC",
    "ieee_floating_point_ops": False,
    "error_on_division_by_zero": True,
    "integer_division": False,
    "default_collation": "",
    "scalar_subquery_error_on_multiple_rows": True,
}
SPARK_SETTINGS: dict[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # RemoveRedundantAliases: where a branch of UNION ALL has a column twice, once to sort by, it makes them one and
    # breaks the plan. The others push scalar queries into the branches of a union, and then look there for the columns
    # of the union.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("RemoveRedundantAliases", "PushProjectionThroughUnion", "CombineUnions")
    ),
}
_QUERIES = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)


def render(tree: exp.Expression, kernel: Kernel) -> str:
    """The text of a typed query or scalar."""
    try:
        return _text(tree, kernel)
    except KernelRefuses as reason:
        raise Unsupported(f"the {kernel} kernel cannot run this", detail=f"{reason}.") from None


def refusal(tree: exp.Expression, kernel: Kernel) -> str | None:
    """Why the kernel cannot run the tree; None: it can."""
    try:
        _text(tree, kernel)
    except KernelRefuses as reason:
        return str(reason)
    return None


def _text(tree: exp.Expression, kernel: Kernel) -> str:
    renderer = QueryRenderer(kernel)
    return renderer.result(tree) if isinstance(tree, _QUERIES) else renderer.scalars.scalar(tree)


__all__ = ["DUCKDB_SETTINGS", "KERNELS", "SPARK_SETTINGS", "Kernel", "refusal", "render"]
