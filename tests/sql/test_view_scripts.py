"""Every script over views gives its answers however its rows come: one by one, by seven, all at once, with restarts.

`views/` holds what PostgreSQL judges, too, where a stream is a table that nobody changes but by INSERT and a
continuous view an ordinary one: the views are made before the first row, and the tables below their groupings stay as
they are. `views_ours/` holds the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cutting import CREATE_STREAM, CutRunner, CutSessions, pieces
from script import Runner
from test_scripts import name_of, run_script

FOLDER = Path(__file__).parent
JUDGED = sorted(FOLDER.glob("views/*.test"))
OURS = sorted(FOLDER.glob("views_ours/*.test"))
STREAMS = sorted(path for path in FOLDER.glob("midstream/*.test") if "CREATE STREAM" in path.read_text())
ALL = 10**9
CUTS = {"one_row": (1, False), "seven_rows": (7, False), "all_rows": (ALL, False), "restarts": (2, True)}
SHORT = ("views/exists_over_a_stream", "views/sets_of_keys", "views/special_numbers")
"""Scripts that run on both kernels; the long tests run all on Spark, which takes its time."""

SOME = [(path, list(CUTS)[number % len(CUTS)]) for number, path in enumerate(JUDGED + OURS)]
"""Each script in one of the cuts; the long tests have all of them."""


@pytest.mark.parametrize(("path", "cut"), SOME, ids=[f"{name_of(path)}-{cut}" for path, cut in SOME])
def test_the_cut_of_the_rows_changes_no_answer(path: Path, cut: str, database: Any, tmp_path: Path) -> None:
    run_cut(path, cut, "duckdb", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("path", JUDGED + OURS, ids=name_of)
def test_no_cut_of_the_rows_changes_an_answer(path: Path, cut: str, database: Any, tmp_path: Path) -> None:
    run_cut(path, cut, "duckdb", tmp_path)


@pytest.mark.parametrize("path", [p for p in JUDGED if name_of(p) in SHORT], ids=name_of)
def test_neither_does_the_kernel_of_some(path: Path, database: Any, tmp_path: Path) -> None:
    run_cut(path, "all_rows", "spark", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("path", JUDGED + OURS, ids=name_of)
def test_neither_does_the_kernel(path: Path, cut: str, database: Any, tmp_path: Path) -> None:
    run_cut(path, cut, "spark", tmp_path)


@pytest.mark.parametrize("cut", ["one_row", "seven_rows", "restarts"])
@pytest.mark.parametrize("path", STREAMS, ids=name_of)
def test_the_cut_changes_no_stream(path: Path, cut: str, database: Any, tmp_path: Path) -> None:
    run_cut(path, cut, "duckdb", tmp_path)


@pytest.mark.parametrize("path", JUDGED, ids=name_of)
def test_postgresql_gives_the_same_answers_over_all_rows(path: Path, postgres: Any, tmp_path: Path) -> None:
    def run(session: str, sql: str) -> Any:
        return postgres.run(session, CREATE_STREAM.sub(r"CREATE TABLE \1", sql))

    run_script(path, Runner(run, str(tmp_path), exact=False))


def run_cut(path: Path, cut: str, kernel: str, tmp_path: Path) -> None:
    rows, restart = CUTS[cut]
    run_in(CutSessions(tmp_path / "cut.db", kernel, rows, restart=restart), path, tmp_path)


def run_in(sessions: CutSessions, path: Path, tmp_path: Path) -> None:
    try:
        run_script(path, CutRunner(sessions, str(tmp_path)))
    finally:
        sessions.close()


def test_an_insert_is_cut_between_its_rows() -> None:
    insert = "INSERT INTO s (a, b) VALUES (1, 'a), (b'), (f(2), ARRAY['(', ')']), (3, ('it''s'))"
    head = "INSERT INTO s (a, b) VALUES "
    assert pieces(insert, 2) == [f"{head}(1, 'a), (b'), (f(2), ARRAY['(', ')'])", f"{head}(3, ('it''s'))"]
    assert pieces(insert, 10) == [insert]
    query = "INSERT INTO s SELECT a FROM (VALUES (1), (2)) AS v (a)"
    assert pieces(query, 1) == [query]
