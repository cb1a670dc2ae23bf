"""Opening, closing and sharing a database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import midstream

pytestmark = pytest.mark.spark
SOURCE = str(Path(midstream.__file__).parents[1])


@pytest.fixture(autouse=True)
def spark_is_up(database: Any) -> Any:
    """One Spark session for all databases of this process."""
    return database


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "shop.db")
    db = midstream.connect(folder)
    db.sql("CREATE TABLE t (id int PRIMARY KEY, v text DEFAULT 'd'); CREATE VIEW w AS SELECT id FROM t WHERE id > 1")
    scn = db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").scn
    db.sql("UPDATE t SET v = 'B' WHERE id = 2")
    db.close()
    again = midstream.connect(folder)
    assert sorted(again.sql("SELECT * FROM t").fetchall()) == [(1, "a"), (2, "B")]
    assert again.sql("SELECT * FROM w").fetchall() == [(2,)]
    assert sorted(again.sql(f"SELECT * FROM t AS OF SCN {scn}").fetchall()) == [(1, "a"), (2, "b")]
    assert again.sql("SELECT count(*) FROM clog_t").fetchall() == [(4,)]
    again.sql("INSERT INTO t (id) VALUES (3)")
    with pytest.raises(midstream.Error) as caught:
        again.sql("INSERT INTO t VALUES (1, 'x')")
    assert caught.value.sqlstate == "23505"
    assert again.sql("SELECT v FROM t WHERE id = 3").fetchone() == ("d",)
    again.close()


def test_a_database_without_a_name_is_temporary() -> None:
    db = midstream.connect()
    assert db.sql("SELECT 1 AS one").fetchall() == [(1,)]
    db.close()


def test_two_databases_do_not_meet(tmp_path: Path) -> None:
    one, two = midstream.connect(str(tmp_path / "one.db")), midstream.connect(str(tmp_path / "two.db"))
    one.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    two.sql("CREATE TABLE t (a text); INSERT INTO t VALUES ('two')")
    assert one.sql("SELECT * FROM t").fetchall() == [(1,)]
    assert two.sql("SELECT * FROM t").fetchall() == [("two",)]
    one.close()
    assert two.sql("SELECT * FROM t").fetchall() == [("two",)]
    two.close()


def test_closing_twice_is_harmless_and_then_everything_is_an_error(tmp_path: Path) -> None:
    db = midstream.connect(str(tmp_path / "x.db"))
    session = db.session()
    db.sql("CREATE TABLE t (a int)")
    db.close()
    db.close()
    for use in (
        lambda: db.sql("SELECT 1"),
        lambda: db.insert("t", [{"a": 1}]),
        db.session,
        lambda: session.sql("SELECT 1"),
    ):
        with pytest.raises(midstream.Error):
            use()


def test_closing_a_session_rolls_back(db: Any) -> None:
    db.sql("CREATE TABLE t (a int)")
    session = db.session()
    session.sql("BEGIN; INSERT INTO t VALUES (1)")
    session.close()
    session.close()
    assert db.sql("SELECT * FROM t").fetchall() == []
    with pytest.raises(midstream.Error):
        session.sql("SELECT 1")


def test_closing_the_database_rolls_back(tmp_path: Path) -> None:
    db = midstream.connect(str(tmp_path / "x.db"))
    db.sql("CREATE TABLE t (a int)")
    db.session().sql("BEGIN; INSERT INTO t VALUES (1)")
    db.close()
    db = midstream.connect(str(tmp_path / "x.db"))
    assert db.sql("SELECT * FROM t").fetchall() == []
    db.close()


def test_a_database_is_a_context(tmp_path: Path) -> None:
    with midstream.connect(str(tmp_path / "x.db")) as db:
        db.sql("CREATE TABLE t (a int)")
    with pytest.raises(midstream.Error):
        db.sql("SELECT 1")


def test_one_folder_opens_once_in_a_process(tmp_path: Path) -> None:
    db = midstream.connect(str(tmp_path / "x.db"))
    with pytest.raises(midstream.Error) as caught:
        midstream.connect(str(tmp_path / "x.db"))
    assert caught.value.sqlstate == "55006"
    db.close()
    midstream.connect(str(tmp_path / "x.db")).close()


def test_another_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "x.db"
    db = midstream.connect(str(folder))
    db.sql("CREATE TABLE t (a int)")
    code = (
        f"import midstream\ntry: midstream.connect({str(folder)!r})\nexcept midstream.Error as e: print(e.sqlstate, e)"
    )
    answer = run_python(code)
    assert answer.startswith("55006")
    assert str(os.getpid()) in answer
    db.close()


def test_a_folder_whose_owner_was_killed_opens(tmp_path: Path) -> None:
    folder = str(tmp_path / "x.db")
    code = f"""
import midstream, os, signal
db = midstream.connect({folder!r})
db.sql("CREATE TABLE t (a int)")
db.sql("INSERT INTO t VALUES (7)")
os.kill(os.getpid(), signal.SIGKILL)
"""
    run_python(code, returncode=-signal.SIGKILL)
    db = midstream.connect(folder)
    assert db.sql("SELECT * FROM t").fetchall() == [(7,)]
    db.close()


def test_threads_share_a_database(db: Any) -> None:
    db.sql("CREATE TABLE t (thread int, n int)")
    wrong: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for n in range(4):
                db.sql(f"INSERT INTO t VALUES ({thread}, {n})")
                count = db.sql(f"SELECT count(*) FROM t WHERE thread = {thread}").fetchone()[0]
                assert count == n + 1
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert wrong == []
    assert db.sql("SELECT count(*) FROM t").fetchall() == [(16,)]


def test_sessions_have_their_own_transactions_and_settings(db: Any) -> None:
    db.sql("CREATE TABLE t (a int)")
    one, two = db.session(), db.session()
    one.sql("SET kernel = 'spark'")
    one.sql("BEGIN; INSERT INTO t VALUES (1)")
    assert two.sql("SELECT count(*) FROM t").fetchone() == (0,)
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)
    one.sql("COMMIT")
    assert two.sql("SELECT count(*) FROM t").fetchone() == (1,)
    one.close()
    two.close()


def test_a_session_inserts_within_its_transaction(db: Any) -> None:
    db.sql("CREATE TABLE t (a int)")
    session = db.session()
    session.sql("BEGIN")
    session.insert("t", [{"a": 1}, {"a": 2}])
    assert session.sql("SELECT count(*) FROM t").fetchone() == (2,)
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)
    session.sql("ROLLBACK")
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)
    session.close()


def test_history_older_than_kept_is_an_error_that_says_how_far_back_there_is(tmp_path: Path) -> None:
    db = midstream.connect(str(tmp_path / "x.db"), retain_history="0 seconds")
    db.sql("CREATE TABLE t (a int)")
    first = db.sql("INSERT INTO t VALUES (1)").scn
    last = db.sql("INSERT INTO t VALUES (2)").scn
    db.upkeep()
    with pytest.raises(midstream.Error) as caught:
        db.sql(f"SELECT * FROM t AS OF SCN {first}")
    assert caught.value.sqlstate == "72000"
    assert str(last) in str(caught.value)
    assert sorted(db.sql("SELECT * FROM t").fetchall()) == [(1,), (2,)]
    db.close()


def test_upkeep_changes_no_answer(db: Any) -> None:
    db.sql("CREATE TABLE t (a int)")
    scns = [db.sql(f"INSERT INTO t VALUES ({n})").scn for n in range(12)]
    db.sql("DELETE FROM t WHERE a < 3")
    log = sorted(db.sql("SELECT * FROM clog_t").fetchall())
    db.upkeep()
    db.upkeep()
    assert sorted(db.sql("SELECT a FROM t").fetchall()) == [(n,) for n in range(3, 12)]
    for n in (0, 5, 11):
        past = sorted(db.sql(f"SELECT a FROM t AS OF SCN {scns[n]}").fetchall())
        assert past == [(m,) for m in range(n + 1)]
    assert sorted(db.sql("SELECT * FROM clog_t").fetchall()) == log
    db.sql("UPDATE t SET a = a + 100 WHERE a > 5")
    assert db.sql("SELECT sum(a) FROM t").fetchone() == (sum(range(3, 12)) + 600,)


def test_pandas_is_not_needed(tmp_path: Path) -> None:
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars"):
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Missing())
import midstream
db = midstream.connect({str(tmp_path / "x.db")!r})
db.sql("CREATE TABLE t (a int, b text)")
db.insert("t", [{{"a": 1, "b": "x"}}])
db.sql("UPDATE t SET a = a + 1")
for kernel in ("duckdb", "spark"):
    db.sql("SET kernel = '" + kernel + "'")
    print(db.sql("SELECT a, b, count(*) OVER () FROM t").fetchall(), db.sql("SELECT a FROM t").arrow().num_rows)
db.close()
"""
    assert run_python(code).split("\n")[:2] == ["[(2, 'x', 1)] 1"] * 2


def run_python(code: str, returncode: int = 0) -> str:
    """Runs a program in a process of its own and gives what it printed."""
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == returncode, done.stderr[-3000:]
    return done.stdout
