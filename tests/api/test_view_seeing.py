"""SHOW VIEWS, SHOW STATUS and EXPLAIN of continuous views: lag, rates, sizes, rows in and out, time per step."""

from __future__ import annotations

import re
from typing import Any

import pytest

import midstream
from asking import rows, wait_for
from holding import held


@pytest.fixture
def fed(db: Any) -> Any:
    db.sql("CREATE STREAM s (k int, n int)")
    db.sql("CREATE VIEW steps AS SELECT k, count(*) AS rows, sum(n) AS n FROM s GROUP BY k")
    db.sql("CREATE STREAM other (n int)")
    db.sql("CREATE VIEW above AS SELECT max(rows) AS most, (SELECT count(*) FROM other) AS others FROM steps")
    return db


def shown(db: Any, view: str) -> dict[str, Any]:
    return next(row for row in db.sql("SHOW VIEWS").arrow().to_pylist() if row["name"] == view)


def status(db: Any, name: str) -> str:
    return str(dict(db.sql("SHOW STATUS").fetchall())[name])


def explained(db: Any, what: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN {what}").fetchall())


def insert(db: Any, first: int, count: int = 6) -> None:
    db.sql("INSERT INTO s VALUES " + ", ".join(f"({n % 3}, {n})" for n in range(first, first + count)))


def test_lag_is_told_in_rows_and_in_seconds_until_the_rows_are_absorbed(fed: Any) -> None:
    assert (shown(fed, "steps")["lag_rows"], shown(fed, "steps")["lag_seconds"]) == (0, 0.0)
    with held(fed, "absorb") as jobs:
        insert(fed, 0)
        insert(fed, 6)
        assert jobs.reached.wait(30)
        journal = fed._store.streams.journal
        clock, journal._clock = journal._clock, lambda: clock() + 100
        try:
            behind = {view: shown(fed, view) for view in ("steps", "above")}
            told = status(fed, "view steps")
        finally:
            journal._clock, journal._latest = clock, 0.0
    for view, row in behind.items():
        assert row["lag_rows"] == 12, f"{view} has what its pipelines have, or those of the view below"
        assert 100 <= row["lag_seconds"] < 200
    assert re.match(r"12 rows and 1\d\d\.\d s behind", told), told
    assert "bytes of state" in told and "rows/s" in told
    assert rows(fed, "SELECT sum(rows) FROM steps") == [(12,)]
    assert (shown(fed, "steps")["lag_rows"], shown(fed, "steps")["lag_seconds"]) == (0, 0.0)
    assert status(fed, "view steps").startswith("0 rows and 0.0 s behind")


def test_rates_and_bytes_of_state_are_told(fed: Any) -> None:
    assert shown(fed, "steps")["state_bytes"] == 0
    insert(fed, 0)
    assert rows(fed, "SELECT * FROM above") == [(2, 0)]
    [reader] = [reader for _, reader in fed._store.views.readers() if reader.state.files]
    size = sum(file.bytes for file in reader.state.files)
    row = shown(fed, "steps")
    assert row["state_bytes"] == size > 0
    assert row["rows_per_second"] > 0, "six rows have just come"
    assert shown(fed, "above")["state_bytes"] == 0, "the state is that of the view below"
    assert shown(fed, "above")["rows_per_second"] > 0
    assert (row["refreshes"], row["rows"]) == (1, 3)
    assert row["last_refresh_ms"] > 0
    assert f"{size:,} bytes of state, 1 refreshes; result: 3 rows" in status(fed, "view steps")
    assert "6 rows in" in status(fed, "stream s")
    assert status(fed, "reader steps of stream s").startswith("pipeline, absorbed up to SCN ")


def test_explain_tells_rows_in_and_out_and_the_time_of_each_step(fed: Any) -> None:
    assert "0 rows in 0 batches, 0 rows of partials out" in explained(fed, "VIEW steps")
    insert(fed, 0)
    fed.sql("SELECT * FROM steps")
    told = explained(fed, "VIEW steps")
    found = re.search(r"6 rows in 1 batches, 3 rows of partials out; ([0-9,]+) ms in jobs", told)
    assert found is not None and int(found[1].replace(",", "")) > 0, told
    assert re.search(r"Result: 3 rows of SCN \d+, from \d+ rows of inputs in \d+ ms", told), told


def test_explain_tells_what_merges_cost(fed: Any) -> None:
    for number in range(8):
        insert(fed, 6 * number)
        fed.sql("SELECT * FROM steps")
    merged = r"Merged in the background: 1 times, 24 rows of partials in, 3 out, \d+ ms"
    wait_for(lambda: re.search(merged, explained(fed, "VIEW steps")) is not None)


def test_explain_analyze_of_a_view_refreshes_it_and_tells_the_times(fed: Any) -> None:
    insert(fed, 0)
    told = explained(fed, "(ANALYZE) VIEW steps")
    assert "6 rows in 1 batches" in told, "what it made happen is in what it tells"
    assert re.search(r"Analyzed: a refresh at SCN \d+ took \d+ ms", told), told
    assert "on the duckdb kernel: 3 rows of partials and tables in, 3 rows out" in told
    assert shown(fed, "steps")["refreshes"] == 1
    explained(fed, "ANALYZE VIEW steps")
    assert shown(fed, "steps")["refreshes"] == 2, "also if nothing has come"
    assert "until the views that it reads had their results" in explained(fed, "(ANALYZE) VIEW above")
    assert rows(fed, "SELECT * FROM steps") == [(0, 2, 3), (1, 2, 5), (2, 2, 7)]


def test_explain_analyze_of_other_views(fed: Any) -> None:
    fed.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")
    fed.sql("CREATE VIEW plain AS SELECT a FROM t")
    assert re.search(r"Ran in \d+ ms, 2 rows", explained(fed, "(ANALYZE) VIEW plain"))
    fed.sql("CREATE VIEW windowed AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    insert(fed, 0)
    assert "windows were computed in" in explained(fed, "(ANALYZE) VIEW windowed")
    fed.sql("CREATE MATERIALIZED VIEW stored AS SELECT a FROM t")
    with pytest.raises(midstream.Error, match="takes a SELECT, or a view that is computed at a read"):
        fed.sql("EXPLAIN (ANALYZE) VIEW stored")


def test_explain_analyze_of_a_query_over_views_tells_what_they_cost(fed: Any) -> None:
    insert(fed, 0)
    told = explained(fed, "(ANALYZE) SELECT a.most, s.k FROM above AS a, steps AS s WHERE s.n > 4")
    assert re.search(r'View "steps": its result of SCN \d+, 3 rows from 6 rows of inputs', told), told
    assert re.search(r'View "above": its result of SCN \d+, 1 rows from [34] rows of inputs', told), told
    assert re.search(r"Ran in \d+ ms, 2 rows", told), told


def test_explain_names_spark_for_an_upper_query_whose_state_is_large(fed: Any) -> None:
    session = fed.session()
    session.sql("SET kernel_limit = 1")
    assert "now on the duckdb kernel: its inputs, 0.0 MB, fit one task" in explained(session, "VIEW steps")
    insert(fed, 0)
    assert rows(session, "SELECT * FROM steps") == [(0, 2, 3), (1, 2, 5), (2, 2, 7)]
    assert "now on the spark kernel: its inputs, 0.0 MB, are more than kernel_limit" in explained(session, "VIEW steps")
    assert "on the spark kernel: 3 rows of partials" in explained(session, "(ANALYZE) VIEW steps")
    session.close()
