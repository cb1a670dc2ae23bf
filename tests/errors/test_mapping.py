"""Errors of the layers below (files, SQLite, Delta, the kernels) reach the user as ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import midstream

pytestmark = pytest.mark.spark


@pytest.fixture
def filled(database: Any, tmp_path: Path) -> Path:
    """A closed database with one table of two commits."""
    folder = tmp_path / "filled.db"
    db = midstream.connect(str(folder))
    db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    db.close()
    return folder


def table_folder(folder: Path) -> Path:
    (log,) = folder.glob("tables/*/_delta_log")
    return log.parent


def remove_data(folder: Path) -> None:
    for path in table_folder(folder).glob("**/*.parquet"):
        if "_delta_log" not in str(path):
            path.unlink()


def damage_data(folder: Path) -> None:
    for path in table_folder(folder).glob("**/*.parquet"):
        path.write_bytes(b"nonsense")


def damage_log(folder: Path) -> None:
    for path in (table_folder(folder) / "_delta_log").glob("*.json"):
        path.write_text("{nonsense")


def remove_log(folder: Path) -> None:
    shutil.rmtree(table_folder(folder) / "_delta_log")


def damage_catalog(folder: Path) -> None:
    for path in folder.glob("catalog.db*"):
        path.write_bytes(b"nonsense" * 1000)


@pytest.mark.parametrize("damage", [remove_data, damage_data, damage_log, remove_log, damage_catalog])
def test_a_damaged_database_says_so(filled: Path, damage: Callable[[Path], None]) -> None:
    damage(filled)
    with pytest.raises(midstream.Error) as caught:
        db = midstream.connect(str(filled))
        try:
            db.sql("SELECT * FROM t").fetchall()
        finally:
            db.close()
    assert caught.value.sqlstate in ("58030", "58000", "XX001")


def test_a_file_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(midstream.Error) as caught:
        midstream.connect(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("target", ["/nowhere/at/all/out.csv", "/proc/out.csv", "/dev/null/out.csv"])
def test_a_place_that_cannot_be_written(db: Any, target: str) -> None:
    with pytest.raises(midstream.Error) as caught:
        db.sql(f"COPY (SELECT 1 AS a) TO '{target}' CSV")
    assert caught.value.sqlstate != "XX000"


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT 1 / a FROM z", "22012"),
        ("SELECT a % a FROM z", "22012"),
        ("SELECT CAST(s AS int) FROM z", "22P02"),
        ("SELECT CAST(s AS date) FROM z", "22007"),
        ("SELECT CAST(s AS boolean) FROM z", "22P02"),
        ("SELECT CAST(big AS int) FROM z", "22003"),
        ("SELECT big + 1 FROM z", "22003"),
        ("SELECT big * 2 FROM z", "22003"),
        ("SELECT sum(big) FROM (SELECT big FROM z UNION ALL SELECT big FROM z) AS two", "22003"),
        ("SELECT CAST(1000 AS numeric(5,2)) FROM z", "22003"),
        ("SELECT (SELECT b FROM (VALUES (1), (2)) AS v (b)) FROM z", "21000"),
        ("SELECT CAST(big AS smallint) FROM z", "22003"),
        ("SELECT sqrt(-1.0::double precision - a) FROM z", "2201F"),
        ("SELECT ln(a::double precision) FROM z", "2201E"),
        ("SELECT substring(s, 1, -1) FROM z", "22011"),
    ],
)
def test_a_value_that_cannot_be_computed(session: Any, sql: str, sqlstate: str) -> None:
    session.sql("CREATE TABLE z (a int, s text, big bigint)")
    session.sql("INSERT INTO z VALUES (0, 'x', 9223372036854775807)")
    with pytest.raises(midstream.Error) as caught:
        session.sql(sql).fetchall()
    assert caught.value.sqlstate == sqlstate
