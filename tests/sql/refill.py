"""Writes the expected answers of scripts anew: `python tests/sql/refill.py [--postgres] [script ...]`.

Without scripts, all. With --postgres the answers come from a PostgreSQL server (scripts of `standard/` only);
otherwise from Midstream's DuckDB kernel. Read the difference before you commit it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from script import Block, Run, Runner, read_script, write_script  # noqa: E402
from test_scripts import OURS, STANDARD, MidstreamSessions  # noqa: E402

from conftest import PostgresSessions  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("scripts", nargs="*", type=Path)
    arguments = parser.parse_args()
    every = STANDARD if arguments.postgres else STANDARD + OURS
    engine = postgres_runs() if arguments.postgres else midstream_runs()
    with engine as runs:
        for path in arguments.scripts or every:
            refill(path, next(runs))
            print(f"{path} refilled")


def refill(path: Path, run: Run) -> None:
    blocks = read_script(path)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(run, folder)
        for block in blocks:
            if not isinstance(block, Block):
                continue
            try:
                answer = runner.answer(block)
            except Exception as error:
                print(f"{path}:{block.line}: {error}", file=sys.stderr)
                continue
            if block.kind == "query":
                block.expected = answer
    write_script(path, blocks)


@contextmanager
def postgres_runs() -> Iterator[Iterator[Run]]:
    from postgres import postgres_server

    with postgres_server() as dsn:

        def runs() -> Iterator[Run]:
            while True:
                sessions = PostgresSessions(dsn)
                yield sessions.run
                sessions.close()

        yield runs()


@contextmanager
def midstream_runs() -> Iterator[Iterator[Run]]:
    import midstream

    with tempfile.TemporaryDirectory() as folder:
        count = 0
        opened: list[Any] = []

        def runs() -> Iterator[Run]:
            nonlocal count
            while True:
                count += 1
                opened.append(midstream.connect(f"{folder}/{count}.db"))
                yield MidstreamSessions(opened[-1], "duckdb").run
                opened.pop().close()

        yield runs()


if __name__ == "__main__":
    main()
