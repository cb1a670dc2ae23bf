"""COPY of CSV, plain or not, into tables and streams: the same rows and the same errors as ever, in many tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import midstream
from midstream.ingest import plain_csv
from midstream.runtime import copying

KEPT = "WITH (retain = '7 days')"
COLUMNS = "id int NOT NULL, name text, price double precision CHECK (price < 1000), at timestamp, level int DEFAULT 7"
HEADER = "id,name,price,at\n"


@pytest.fixture(params=["TABLE", "STREAM"])
def target(db: Any, request: pytest.FixtureRequest) -> Any:
    db.sql(f"CREATE {request.param} t ({COLUMNS}) {KEPT if request.param == 'STREAM' else ''}")
    return db


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which ways a COPY went; files are shared from the first byte on."""
    taken: list[str] = []
    plainly, with_care = copying._read_plainly, copying._read_with_care

    def read_plainly(*given: Any) -> Any:
        answers = plainly(*given)
        taken.append("plain" if answers else "not plain")
        return answers

    def read_with_care(*given: Any) -> Any:
        taken.append("careful")
        return with_care(*given)

    monkeypatch.setattr(copying, "_read_plainly", read_plainly)
    monkeypatch.setattr(copying, "_read_with_care", read_with_care)
    monkeypatch.setattr(plain_csv.plain_pieces, "__kwdefaults__", {"smallest_share": 100})
    yield taken


def line(number: int) -> str:
    return f"{number},name {number},{number % 100}.5,2026-11-15 01:00:{number % 60:02d}\n"


def row(number: int) -> tuple[object, ...]:
    return (number, f"name {number}", number % 100 + 0.5, f"2026-11-15 01:00:{number % 60:02d}", 7)


def rows_of(db: Any) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = db.sql(
        "SELECT id, name, price, CAST(at AS text) AS at, level FROM t ORDER BY id"
    ).fetchall()
    return found


def test_a_plain_file_is_shared_among_tasks(target: Any, tmp_path: Path, ways: list[str]) -> None:
    (tmp_path / "a.csv").write_text(HEADER + "".join(map(line, range(5000))))
    assert target.sql(f"COPY t FROM '{tmp_path}/a.csv' CSV HEADER").status == "COPY 5000"
    assert ways == ["plain"]
    assert rows_of(target) == [row(number) for number in range(5000)]


def test_rows_of_a_table_have_ids_of_their_own_in_the_order_of_the_file(
    db: Any, tmp_path: Path, ways: list[str]
) -> None:
    db.sql("CREATE TABLE t (n int)")
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("".join(f"{n}\n" for n in range(3000)))
    db.sql(f"COPY t FROM '{tmp_path}' CSV")
    assert ways == ["plain"]
    assert db.sql("UPDATE t SET n = n + 1 WHERE n >= 1000").status == "UPDATE 4000"
    assert db.sql("DELETE FROM t WHERE n > 2000").status == "DELETE 2000"
    assert db.sql("SELECT count(*), sum(n) FROM t").fetchone() == (
        4000,
        2 * (sum(range(1000)) + sum(range(1001, 2001))),
    )


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        ('7,"a, b",1,2026-11-15\n', (7, "a, b", 1.0, "2026-11-15 00:00:00", 7)),
        ("+7,a,1,2026-11-15\n", (7, "a", 1.0, "2026-11-15 00:00:00", 7)),
        ("7,a,1,2026/11/5 1:02\n", (7, "a", 1.0, "2026-11-05 01:02:00", 7)),
    ],
)
def test_what_is_not_plain_is_read_with_care(
    target: Any, tmp_path: Path, ways: list[str], odd: str, found: tuple[object, ...]
) -> None:
    plain = "".join(map(line, range(1000, 4000)))
    (tmp_path / "a.csv").write_text(HEADER + plain + odd)
    assert target.sql(f"COPY t FROM '{tmp_path}/a.csv' CSV HEADER").status == "COPY 3001"
    assert ways == ["not plain", "careful"]
    assert rows_of(target) == [found, *(row(number) for number in range(1000, 4000))]


@pytest.mark.parametrize(
    ("bad", "sqlstate", "said"),
    [
        ("0x1F,a,1,2026-11-15\n", "22P02", 'invalid input syntax for type int: "0x1F"'),
        ("7,a,1e-400,2026-11-15\n", "22003", '"1e-400" is out of range for type double precision'),
        ("7,a,1,2026-11-15 01\n", "22007", '"2026-11-15 01"'),
        ("7,a,1\n", "22P04", 'missing data for column "at"'),
        (",a,1,2026-11-15\n", "23502", 'null value in column "id"'),
        ("7,a,1000,2026-11-15\n", "23514", "violates check constraint"),
        ("\n", "22P04", 'missing data for column "name"'),
    ],
)
def test_a_bad_line_is_told_with_file_and_line(
    target: Any, tmp_path: Path, ways: list[str], bad: str, sqlstate: str, said: str
) -> None:
    lines = [HEADER, *map(line, range(3000))]
    (tmp_path / "a.csv").write_text("".join([*lines, bad, *lines[1:]]))
    with pytest.raises(midstream.Error) as raised:
        target.sql(f"COPY t FROM '{tmp_path}/a.csv' CSV HEADER")
    assert raised.value.sqlstate == sqlstate
    assert said in str(raised.value)
    assert f"{tmp_path}/a.csv, line 3002" in str(raised.value)
    assert rows_of(target) == []
    assert list(tmp_path.glob("*.parquet")) == []


def test_a_file_that_changes_meanwhile_is_read_again_as_a_whole(
    db: Any, tmp_path: Path, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql(f"CREATE STREAM t (n int) {KEPT}")
    file = tmp_path / "a.csv"
    file.write_text("".join(f"{n}\n" for n in range(2000)))
    cut = copying.plain_pieces

    def cut_and_change(*given: Any) -> Any:
        pieces = cut(*given)
        file.write_text("".join(f"{n}\n" for n in range(3000)))
        return pieces

    monkeypatch.setattr(copying, "plain_pieces", cut_and_change)
    assert db.sql(f"COPY t FROM '{file}' CSV").status == "COPY 3000"
    assert ways == ["not plain", "careful"]
    assert db.sql("SELECT count(*), sum(n) FROM t").fetchone() == (3000, sum(range(3000)))
