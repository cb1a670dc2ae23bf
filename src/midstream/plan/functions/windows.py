"""Window functions that are not aggregates."""

from __future__ import annotations

from midstream.plan.functions.model import Function, function


def window(signature: str, duckdb: str, spark: str) -> Function:
    return function(signature, duckdb=duckdb, spark=spark, shape="window")


FUNCTIONS: list[Function] = [
    *[window(f"{name}() -> bigint", f"{{agg:{name}}}", f"CAST({{agg:{name}}} AS BIGINT)")
      for name in ("row_number", "rank", "dense_rank")],
    *[window(f"{name}() -> double precision", f"{{agg:{name}}}", f"{{agg:{name}}}") for name in ("percent_rank", "cume_dist")],
    window("ntile(int) -> int", "CAST({agg:ntile} AS INTEGER)", "{agg:ntile}"),
    *[window(f"{name}(anyelement) -> any", f"{{agg:{name}}}", f"{{agg:{name}}}")
      for name in ("lag", "lead", "first_value", "last_value")],
    *[window(f"{name}(anyelement, int) -> any", f"{{agg:{name}}}", f"{{agg:{name}}}") for name in ("lag", "lead", "nth_value")],
    *[window(f"{name}(anyelement, int, anyelement) -> any", f"{{agg:{name}}}", f"{{agg:{name}}}") for name in ("lag", "lead")],
]  # fmt: skip
