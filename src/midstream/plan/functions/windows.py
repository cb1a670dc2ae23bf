"""Window functions that are not aggregates. Frames and defaults are PostgreSQL's."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.plan.functions.model import Function, function

_OVERS = ("(ORDER BY id)", "(PARTITION BY k ORDER BY id DESC)", "(PARTITION BY k ORDER BY i NULLS FIRST, id)")
_PEERS = ("(ORDER BY i)", "(PARTITION BY k ORDER BY i DESC)", "(PARTITION BY k)")
_FRAMES = (
    "(ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "(ORDER BY id ROWS UNBOUNDED PRECEDING)",
    "(PARTITION BY k ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "(ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "(ORDER BY i)",
    "(ORDER BY i DESC)",
    "(PARTITION BY k)",
    "(ORDER BY id GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "(ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
    "(ORDER BY ts RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)",
)


def window(signature: str, duckdb: str, spark: str, examples: Sequence[str]) -> Function:
    return function(signature, duckdb=duckdb, spark=spark, shape="window", examples=examples)


def _over(call: str, overs: Sequence[str]) -> list[str]:
    return [f"{call} OVER {over}" for over in overs]


def _ranks() -> list[Function]:
    functions = [
        window(
            f"{name}() -> bigint",
            f"{{agg:{name}}}",
            f"CAST({{agg:{name}}} AS BIGINT)",
            _over(f"{name}()", _OVERS if name == "row_number" else _OVERS + _PEERS),
        )
        for name in ("row_number", "rank", "dense_rank")
    ]
    functions += [
        window(
            f"{name}() -> double precision", f"{{agg:{name}}}", f"{{agg:{name}}}", _over(f"{name}()", _OVERS + _PEERS)
        )
        for name in ("percent_rank", "cume_dist")
    ]
    functions.append(
        window("ntile(int) -> int", "CAST({agg:ntile} AS INTEGER)", "{agg:ntile}", _over("ntile(3)", _OVERS))
    )
    return functions


def _neighbours() -> list[Function]:
    functions = []
    for name in ("lag", "lead"):
        same = f"{{agg:{name}}}"
        functions += [
            window(f"{name}(any) -> any", same, same, _over(f"{name}(i)", _OVERS) + _over(f"{name}(t)", _OVERS[:1])),
            window(
                f"{name}(any, int) -> any",
                same,
                same,
                _over(f"{name}(i, 2)", _OVERS) + _over(f"{name}(n, 0)", _OVERS[:1]),
            ),
            window(
                f"{name}(anyelement, int, anyelement) -> any",
                same,
                same,
                _over(f"{name}(i, 2, 99)", _OVERS) + _over(f"{name}(n, 1, 0.5)", _OVERS[:1]),
            ),
        ]
    for name in ("first_value", "last_value"):
        functions.append(
            window(
                f"{name}(any) -> any", f"{{agg:{name}}}", f"{{agg:{name}}}", _over(f"{name}(t)", _OVERS + _FRAMES[:3])
            )
        )
    functions.append(
        window(
            "nth_value(any, int) -> any",
            "{agg:nth_value}",
            "{agg:nth_value}",
            _over("nth_value(t, 2)", _OVERS + _FRAMES[:3]),
        )
    )
    return functions


def _aggregates_over() -> list[str]:
    """Aggregates with OVER, which have no entry of their own."""
    calls = ("sum(i)", "count(*)", "count(t)", "min(n)", "max(t)", "sum(n)", "avg(n)", "bool_or(o)")
    return [f"{call} OVER {over}" for call in calls for over in _FRAMES] + [
        "sum(i) FILTER (WHERE id > 2) OVER (ORDER BY id)",
        "stddev(i) OVER (PARTITION BY k)",
        "count(*) OVER ()",
    ]


FUNCTIONS: list[Function] = [*_ranks(), *_neighbours()]
AGGREGATE_EXAMPLES = _aggregates_over()
