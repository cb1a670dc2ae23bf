"""TPC-H as a peer without continuous views runs it: the query over all the files, and again when more have come.

measure(run, over, task)        # run(query) gives rows, over(files) says of which files lineitem now is
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from peers.tpch_data import TpchFiles


def measure(run: Callable[[str], list[Any]], over: Callable[[list[str]], None], task: dict[str, Any]) -> dict[str, Any]:
    files = TpchFiles(**task["files"])
    return {name: dict(_one(run, over, files, query, task["runs"])) for name, query in task["queries"].items()}


def _one(
    run: Callable[[str], list[Any]], over: Callable[[list[str]], None], files: TpchFiles, query: str, runs: int
) -> Iterator[tuple[str, Any]]:
    """One pass over the files, so often, after one that does not count; then over those that have come since."""
    for what, lineitem in (("pass", [files.lineitem]), ("again", [files.lineitem, *files.more])):
        over(lineitem)
        answer = run(query)
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            run(query)
            times.append(time.perf_counter() - start)
        yield f"{what}_seconds", times
        yield f"{what}_answer", [list(row) for row in answer]
