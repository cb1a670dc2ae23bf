"""Every script in this folder gives its expected answers on both kernels, and the standard ones on PostgreSQL.

`standard/` holds SQL that PostgreSQL runs as it stands, so the server judges the expectations; `midstream/` holds
what is ours. `python tests/sql/refill.py` writes the expected answers anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from script import Block, Mismatch, Runner, read_script

FOLDER = Path(__file__).parent
STANDARD = sorted(FOLDER.glob("standard/*.test"))
OURS = sorted(FOLDER.glob("midstream/*.test"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


class MidstreamSessions:
    """The sessions of one script, made when it first names them."""

    def __init__(self, db: Any, kernel: str) -> None:
        self.db, self.kernel, self.sessions = db, kernel, dict[str, Any]()

    def run(self, session: str, sql: str) -> Any:
        if session not in self.sessions:
            self.sessions[session] = self.db.session()
            self.sessions[session].sql(f"SET kernel = '{self.kernel}'")
        return self.sessions[session].sql(sql)

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()


@pytest.fixture
def sessions(db: Any, kernel: str) -> Iterator[MidstreamSessions]:
    made = MidstreamSessions(db, kernel)
    yield made
    made.close()


@pytest.mark.parametrize("path", STANDARD + OURS, ids=name_of)
def test_the_script_gives_its_answers(path: Path, sessions: MidstreamSessions, tmp_path: Path) -> None:
    run_script(path, Runner(sessions.run, str(tmp_path), kernel=sessions.kernel))


@pytest.mark.parametrize("path", STANDARD, ids=name_of)
def test_postgresql_gives_the_same_answers(path: Path, postgres: Any, tmp_path: Path) -> None:
    run_script(path, Runner(postgres.run, str(tmp_path), exact=False))


def run_script(path: Path, runner: Runner) -> None:
    """All blocks that fail are told at once, unless most of them do."""
    failures = []
    for block in read_script(path):
        if not isinstance(block, Block):
            continue
        try:
            runner.check(block)
        except Mismatch as mismatch:
            failures.append(str(mismatch))
        except Exception as error:
            failures.append(f"line {block.line}: {block.sql}\n  {type(error).__name__}: {error}")
    if failures:
        pytest.fail(f"{path.name}: {len(failures)} blocks\n" + "\n".join(failures), pytrace=False)
