"""Streams through the Python interface: commits, transactions, history, threads, and what SHOW and the shell say.

A stream that keeps its history shows exactly which rows have arrived, so most tests read one. What a transaction sees
of streams is in the script `stream_transactions.test`, which runs on both kernels.
"""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import midstream
from asking import fault, in_threads, rows, scn_now
from midstream.cli import main

KEPT = "WITH (retain = '7 days')"


@pytest.fixture
def kept(db: Any) -> Any:
    db.sql(f"CREATE STREAM s (a int, b text) {KEPT}")
    return db


@pytest.fixture
def two(kept: Any) -> Iterator[tuple[Any, Any]]:
    """Two sessions of a database with the stream s and the table t."""
    kept.sql("CREATE TABLE t (a int)")
    one, other = kept.session(), kept.session()
    yield one, other
    one.close()
    other.close()


# Commit numbers


def test_every_insert_takes_the_next_commit_number(kept: Any) -> None:
    first = scn_now(kept)
    one = kept.sql("INSERT INTO s VALUES (1, 'x')")
    many = kept.insert("s", pa.table({"a": pa.array(range(1000), pa.int32())}))
    assert (one.status, one.scn) == ("INSERT 0 1", first + 1)
    assert (many.status, many.scn) == ("INSERT 0 1000", first + 2)
    assert kept.sql("SELECT current_scn()").fetchone() == (scn_now(kept),) == (first + 2,)
    assert kept.sql("SELECT count(*) FROM s").scn == first + 2


def test_streams_and_tables_share_one_order_of_commits(kept: Any) -> None:
    kept.sql("CREATE TABLE t (a int); CREATE STREAM blind (a int)")
    first = scn_now(kept)
    targets = ["s", "t", "blind", "t", "s"]
    assert [kept.insert(name, [{"a": 1}]).scn for name in targets] == [first + n for n in range(1, 6)]


def test_an_insert_that_is_refused_takes_no_commit_number(db: Any) -> None:
    db.sql(f"CREATE STREAM s (a int CHECK (a > 0)) {KEPT}")
    before = scn_now(db)
    fault(lambda: db.sql("INSERT INTO s VALUES (1), (0)"))
    fault(lambda: db.insert("s", [{"a": 1}, {"a": -1}]))
    assert scn_now(db) == before
    assert db.sql("INSERT INTO s VALUES (2)").scn == before + 1
    assert rows(db, "SELECT a FROM s") == [(2,)]


def test_an_insert_of_nothing_is_no_harm(kept: Any) -> None:
    assert kept.insert("s", []).status == "INSERT 0 0"
    assert kept.sql("INSERT INTO s SELECT 1, 'x' WHERE false").status == "INSERT 0 0"
    assert kept.insert("s", [{"a": 1}]).scn == scn_now(kept)
    assert rows(kept, "SELECT a FROM s") == [(1,)]


def test_as_of_shows_whole_inserts_up_to_a_commit(kept: Any) -> None:
    created = scn_now(kept)
    scns = [kept.insert("s", [{"a": n}] * (n + 1)).scn for n in range(4)]
    assert rows(kept, f"SELECT a FROM s AS OF SCN {created}") == []
    for n, scn in enumerate(scns):
        assert kept.sql(f"SELECT count(*), max(a) FROM s AS OF SCN {scn}").fetchone() == ((n + 1) * (n + 2) // 2, n)
    joined = f"SELECT count(*) FROM s AS OF SCN {scns[1]} AS old JOIN s AS new ON old.a = new.a"
    assert kept.sql(joined).fetchone() == (1 + 2 * 2,)
    assert fault(lambda: kept.sql(f"SELECT * FROM s AS OF SCN {scns[-1] + 1}")).sqlstate == "72000"


# Values

VALUES: dict[str, list[tuple[str, Any]]] = {
    "smallint": [("-32768", -32768), ("32767", 32767)],
    "int": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "bigint": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "real": [("'-Infinity'", -math.inf), ("0.1", 0.10000000149011612)],
    "double precision": [("'NaN'", math.nan), ("1.7976931348623157e308", 1.7976931348623157e308)],
    "numeric(38,0)": [("-" + "9" * 38, Decimal("-" + "9" * 38)), ("0", Decimal(0))],
    "numeric(12,3)": [("1.0005", Decimal("1.001")), ("-1.0005", Decimal("-1.001"))],
    "boolean": [("true", True), ("false", False)],
    "text": [("''", ""), ("'it''s \\ \"ü😀\"\n\t'", 'it\'s \\ "ü😀"\n\t')],
    "varchar(3)": [("'abc'", "abc"), ("'üüü'", "üüü")],
    "date": [("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31))],
    "timestamp": [
        ("'0001-01-01 00:00'", dt.datetime(1, 1, 1)),
        ("'9999-12-31 23:59:59.999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ],
    "timestamptz": [
        ("'2024-02-29 12:00:00+02'", dt.datetime(2024, 2, 29, 10, tzinfo=dt.timezone.utc)),
        ("'1969-12-31 23:59:59.999999Z'", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc)),
    ],
    "interval": [("'1 day 02:00:00'", dt.timedelta(days=1, hours=2)), ("'-1 second'", dt.timedelta(seconds=-1))],
    "bytea": [("'\\x00ff'", b"\x00\xff"), ("'\\x'", b"")],
    "json": [('\'{"b": [1, null],  "a": 2}\'', '{"b": [1, null],  "a": 2}'), ("'null'", "null")],
    "int[]": [("ARRAY[1, NULL]", [1, None]), ("'{}'", [])],
    "text[]": [("ARRAY['', NULL, 'a,b']", ["", None, "a,b"]), ("'{x}'", ["x"])],
    "numeric(5,2)[]": [("ARRAY[1.005, -999.99]", [Decimal("1.01"), Decimal("-999.99")]), ("'{0}'", [Decimal("0.00")])],
    "timestamp[]": [
        ("'{2024-02-29 12:34:56.789012}'", [dt.datetime(2024, 2, 29, 12, 34, 56, 789012)]),
        ("ARRAY[NULL]::timestamp[]", [None]),
    ],
}
COLUMNS = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(VALUES))
NOTHING = (None,) * len(VALUES)


def typed_rows() -> list[tuple[Any, ...]]:
    return [tuple(values[n][1] for values in VALUES.values()) for n in range(2)]


@pytest.fixture
def typed(db: Any) -> Any:
    """A stream with a column of every type, and three rows: the extremes, and no value at all."""
    db.sql(f"CREATE STREAM typed (n int, {COLUMNS}) {KEPT}")
    for n in range(2):
        literals = ", ".join(values[n][0] for values in VALUES.values())
        assert db.sql(f"INSERT INTO typed VALUES ({n}, {literals})").status == "INSERT 0 1"
    db.sql("INSERT INTO typed (n) VALUES (2)")
    return db


def same(got: list[tuple[Any, ...]]) -> bool:
    """By their texts, so that NaN is itself and an int is no float."""
    wanted = [(n, *row) for n, row in enumerate([*typed_rows(), NOTHING])]
    return [repr(row) for row in sorted(got)] == [repr(row) for row in wanted]


def test_values_of_every_type_arrive_as_they_were_written(typed: Any) -> None:
    result = typed.sql("SELECT * FROM typed")
    assert [str(type_) for type_ in result.types][1:] == list(VALUES)
    assert same(result.fetchall())


def test_values_of_every_type_pass_from_stream_to_stream(typed: Any, tmp_path: Path) -> None:
    typed.sql(f"CREATE STREAM copy (n int, {COLUMNS}) {KEPT}; CREATE STREAM again (n int, {COLUMNS}) {KEPT}")
    assert typed.sql("INSERT INTO copy SELECT * FROM typed").status == "INSERT 0 3"
    assert same(typed.sql("SELECT * FROM copy").fetchall())
    assert typed.insert("again", typed.sql("SELECT * FROM copy").arrow()).status == "INSERT 0 3"
    assert same(typed.sql("SELECT * FROM again").fetchall())


def test_values_are_parameters(kept: Any) -> None:
    assert kept.sql("INSERT INTO s VALUES (?, ?), (?, ?)", [1, "it's", None, ""]).status == "INSERT 0 2"
    assert kept.sql("INSERT INTO s (b, a) VALUES ($2, $1)", [3, "x"]).status == "INSERT 0 1"
    assert rows(kept, "SELECT * FROM s") == [(1, "it's"), (3, "x"), (None, "")]


def test_many_literal_rows_are_one_insert(kept: Any) -> None:
    literals = ", ".join(f"({n}, 'v{n % 10}')" for n in range(3000))
    inserted = kept.sql(f"INSERT INTO s VALUES {literals}")
    assert inserted.status == "INSERT 0 3000"
    wanted = (3000, sum(range(3000)), 10)
    assert kept.sql("SELECT count(*), sum(a), count(DISTINCT b) FROM s").fetchone() == wanted
    assert kept.sql(f"SELECT count(*) FROM s AS OF SCN {inserted.scn - 1}").fetchone() == (0,)


# Transactions


def test_a_transaction_puts_streams_and_tables_under_one_commit(two: tuple[Any, Any]) -> None:
    one, other = two
    other.sql("CREATE STREAM blind (a int)")
    before = scn_now(other)
    one.sql("BEGIN; INSERT INTO s VALUES (1, 'x'); INSERT INTO t VALUES (1); INSERT INTO blind VALUES (1)")
    one.insert("s", [{"a": 2}, {"a": 3}])
    assert scn_now(other) == before
    done = one.sql("COMMIT")
    assert (done.status, done.scn) == ("COMMIT", before + 1)
    assert rows(other, "SELECT a FROM s") == [(1,), (2,), (3,)]
    assert rows(other, f"SELECT a FROM s AS OF SCN {before}") == []
    assert rows(other, "SELECT DISTINCT trans_scn FROM clog_t") == [(done.scn,)]


def test_a_rollback_takes_nothing(two: tuple[Any, Any]) -> None:
    one, other = two
    before = scn_now(other)
    one.sql("BEGIN; INSERT INTO s VALUES (1, 'x'); INSERT INTO t VALUES (1); ROLLBACK")
    one.sql("BEGIN")
    one.insert("s", pa.table({"a": pa.array(range(5000), pa.int32())}))
    one.sql("ROLLBACK")
    assert (scn_now(other), rows(other, "SELECT a FROM s")) == (before, [])
    assert other.sql("INSERT INTO s VALUES (2, 'y')").scn == before + 1
    assert rows(one, "SELECT a FROM s") == [(2,)]


def test_a_session_that_closes_takes_nothing(two: tuple[Any, Any]) -> None:
    one, other = two
    one.sql("BEGIN; INSERT INTO s VALUES (1, 'x')")
    one.close()
    assert rows(other, "SELECT a FROM s") == []


@pytest.mark.parametrize(
    "failing",
    ["INSERT INTO s VALUES (1, 'x'), ('y', 'z')", "UPDATE s SET a = 1", "SELECT nothing FROM s", "DROP TABLE s"],
)
def test_a_failed_statement_aborts_the_transaction(two: tuple[Any, Any], failing: str) -> None:
    one, other = two
    one.sql("BEGIN; INSERT INTO s VALUES (1, 'x'); INSERT INTO t VALUES (1)")
    fault(lambda: one.sql(failing))
    assert fault(lambda: one.sql("INSERT INTO s VALUES (2, 'y')")).sqlstate == "25P02"
    assert fault(lambda: one.insert("s", [{"a": 3}])).sqlstate == "25P02"
    assert one.sql("COMMIT").status == "ROLLBACK"
    assert rows(other, "SELECT a FROM s UNION ALL SELECT a FROM t") == []


@pytest.mark.parametrize(
    "again", ["", f"; CREATE STREAM s (b text, c int) {KEPT}", f"; CREATE STREAM s (a int) {KEPT}"]
)
def test_a_stream_that_another_session_drops_takes_nothing(two: tuple[Any, Any], again: str) -> None:
    one, other = two
    one.sql("BEGIN; INSERT INTO t VALUES (1); INSERT INTO s VALUES (1, 'x')")
    other.sql(f"DROP STREAM s{again}")
    error = fault(lambda: one.sql("COMMIT"))
    assert (error.sqlstate, type(error)) == ("40001", midstream.TransactionConflict)
    assert '"s"' in str(error)
    assert error.hint
    one.sql("ROLLBACK")
    assert rows(other, "SELECT a FROM t") == []
    assert not again or rows(other, "SELECT * FROM s") == []


def test_a_transaction_inserts_and_drops(two: tuple[Any, Any]) -> None:
    one, other = two
    one.sql("BEGIN; INSERT INTO s VALUES (1, 'x'); INSERT INTO t VALUES (1); DROP STREAM s")
    one.sql(f"CREATE STREAM s (c text) {KEPT}; INSERT INTO s VALUES ('new')")
    assert one.sql("COMMIT").status == "COMMIT"
    assert rows(other, "SELECT * FROM s") == [("new",)]
    assert rows(other, "SELECT * FROM t") == [(1,)]


# Threads


def test_a_read_sees_every_row_acknowledged_before_it(two: tuple[Any, Any]) -> None:
    one, other = two
    for n in range(8):
        done = one.sql(f"INSERT INTO s VALUES ({n}, 'x')")
        seen = other.sql("SELECT count(*) FROM s")
        assert seen.fetchone() == (n + 1,)
        assert seen.scn >= done.scn


def test_threads_insert_while_others_count(kept: Any) -> None:
    """Counts never shrink and never hold a part of an insert, and commit numbers are the order of arrival."""
    threads, inserts, size = 4, 12, 7
    made: list[tuple[int, int]] = []
    counts: list[list[int]] = [[], []]
    done = threading.Event()

    def insert(thread: int) -> None:
        for n in range(inserts):
            result = kept.insert("s", [{"a": thread * 1000 + n, "b": str(place)} for place in range(size)])
            made.append((result.scn, thread * 1000 + n))

    def count(seen: list[int]) -> None:
        while True:
            last = done.is_set()
            known = len(made)
            seen.append(kept.sql("SELECT count(*) FROM s").fetchone()[0])
            assert seen[-1] >= known * size
            if last:
                return

    def insert_all() -> None:
        try:
            in_threads([lambda number=number: insert(number) for number in range(threads)])  # type: ignore[misc]
        finally:
            done.set()

    in_threads([insert_all, *(lambda seen=seen: count(seen) for seen in counts)])  # type: ignore[misc]
    for seen in counts:
        assert seen == sorted(seen)
        assert all(number % size == 0 for number in seen)
        assert seen[-1] == threads * inserts * size
    scns = [scn for scn, _ in sorted(made)]
    assert scns == list(range(scns[0], scns[0] + threads * inserts))
    for thread in range(threads):
        order = [value for _, value in sorted(made) if value // 1000 == thread]
        assert order == sorted(order)
    for place in (0, 17, 30, len(scns) - 1):
        past = rows(kept, f"SELECT a, count(*) FROM s AS OF SCN {scns[place]} GROUP BY a")
        assert past == sorted(((value, size) for _, value in sorted(made)[: place + 1]), key=repr)


def test_a_stream_and_a_table_of_one_transaction_are_never_seen_apart(two: tuple[Any, Any]) -> None:
    one, other = two
    done = threading.Event()

    def write() -> None:
        try:
            for n in range(12):
                one.sql(f"BEGIN; INSERT INTO s VALUES ({n}, 'x'), ({n}, 'y'); INSERT INTO t VALUES ({n}); COMMIT")
        finally:
            done.set()

    def read() -> None:
        both = (0, 0)
        while not done.is_set() or both != (24, 12):
            last = done.is_set()
            both = other.sql("SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM t)").fetchone()
            assert both[0] == 2 * both[1]
            assert not last or both == (24, 12)

    in_threads([write, read])


def test_a_stream_is_dropped_while_others_use_it(kept: Any) -> None:
    done = threading.Event()
    uses: list[Callable[[Any], Any]] = [
        lambda session: session.sql("INSERT INTO s VALUES (1, 'x')"),
        lambda session: session.sql("BEGIN; INSERT INTO s VALUES (1, 'x'); COMMIT"),
        lambda session: session.sql("SELECT count(*) FROM s").fetchall(),
        lambda session: session.sql("SHOW STREAMS").fetchall(),
    ]

    def keep_using(use: Callable[[Any], Any]) -> None:
        session = kept.session()
        while not done.is_set():
            try:
                use(session)
            except midstream.Error as error:
                assert error.sqlstate in ("42P01", "40001"), error
                session.sql("ROLLBACK")
        session.close()

    def drop_often() -> None:
        try:
            for _ in range(3):
                kept.sql("SELECT count(*) FROM s")
                kept.sql("DROP STREAM s")
                kept.sql(f"CREATE STREAM s (a int, b text) {KEPT}")
        finally:
            done.set()

    in_threads([drop_often, *(lambda use=use: keep_using(use) for use in uses)])  # type: ignore[misc]
    kept.sql(f"DROP STREAM s; CREATE STREAM s (a int) {KEPT}; INSERT INTO s VALUES (7)")
    assert rows(kept, "SELECT * FROM s") == [(7,)]


def test_a_stream_is_dropped_while_a_file_is_copied_into_it(kept: Any, tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("".join(f"{n},x{n}\n" for n in range(300_000)))
    copied: list[midstream.Error] = []

    def copy() -> None:
        copied.append(fault(lambda: kept.session().sql(f"COPY s FROM '{tmp_path}/long.csv' CSV")))

    copying = threading.Thread(target=copy)
    copying.start()
    while dict(kept.sql("SHOW STATUS").fetchall())["running_jobs"] == "0" and copying.is_alive():
        pass
    assert kept.sql("DROP STREAM s").status == "DROP STREAM"
    copying.join(timeout=120)
    # Dropped under the COPY, or gone when it was tried once more.
    assert [error.sqlstate in ("40001", "42P01") for error in copied] == [True]


# History


def test_rows_and_commit_numbers_go_on_after_opening_again(database: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "shop.db")
    with midstream.connect(folder) as db:
        db.sql(
            f"CREATE STREAM s (a int NOT NULL, b text DEFAULT 'd' CHECK (b <> '')) {KEPT}; CREATE STREAM blind (a int)"
        )
        db.sql("INSERT INTO blind VALUES (1), (2), (3)")
        first = db.sql("INSERT INTO s (a) VALUES (1), (2)").scn
        db.sql("BEGIN; INSERT INTO s VALUES (99, 'never')")
    for n in range(2):
        with midstream.connect(folder) as db:
            assert rows(db, f"SELECT * FROM s AS OF SCN {first}") == [(1, "d"), (2, "d")]
            assert db.sql("SELECT count(*) FROM s").fetchone() == (2 + n,)
            assert db.sql("INSERT INTO s (a) VALUES (3)").scn == first + 2 * n + 1
            assert fault(lambda: db.sql("INSERT INTO s VALUES (NULL, 'x')")).sqlstate == "23502"
            assert fault(lambda: db.sql("INSERT INTO s VALUES (1, '')")).sqlstate == "23514"
            assert db.sql("INSERT INTO blind VALUES (1)").status == "INSERT 0 1"
            shown = {row["name"]: row["rows"] for row in db.sql("SHOW STREAMS").arrow().to_pylist()}
            assert set(shown) == {"blind", "s"}


def test_a_new_stream_of_an_old_name_is_empty(kept: Any) -> None:
    past = kept.sql("INSERT INTO s VALUES (1, 'old')").scn
    kept.sql(f"DROP STREAM s; CREATE STREAM s (c text) {KEPT}")
    assert rows(kept, "SELECT * FROM s") == []
    kept.sql("INSERT INTO s VALUES ('new')")
    assert rows(kept, "SELECT * FROM s") == [("new",)]
    assert fault(lambda: kept.sql(f"SELECT c FROM s AS OF SCN {past}")).sqlstate in ("42703", "42P01", "72000")
    kept.sql("DROP STREAM s; CREATE TABLE s (d int); INSERT INTO s VALUES (5)")
    assert rows(kept, "SELECT * FROM s") == [(5,)]


def test_parts_by_a_timestamp_column_hold_all_rows(db: Any) -> None:
    db.sql(
        "CREATE STREAM m (ts timestamp, src text, loss int) "
        "WITH (timestamp = 'ts', partition_length = 60, retain = '7 days', lateness = '10 minutes')"
    )
    start = dt.datetime(2015, 1, 1)
    minutes = [{"ts": start + dt.timedelta(seconds=20 * n), "src": f"s{n % 3}", "loss": n} for n in range(60)]
    db.insert("m", minutes)
    db.sql("INSERT INTO m VALUES ('2015-01-01 00:15:00', 'old', 1000)")
    assert db.sql("SELECT count(*), sum(loss) FROM m").fetchone() == (61, sum(range(60)) + 1000)
    recent = "SELECT count(*) FROM m WHERE ts >= '2015-01-01 00:10' AND ts < '2015-01-01 00:11'"
    assert db.sql(recent).fetchone() == (3,)
    assert fault(lambda: db.sql("INSERT INTO m VALUES (NULL, 'x', 1)")).sqlstate == "23502"


def test_upkeep_changes_no_answer(kept: Any) -> None:
    scns = [kept.sql(f"INSERT INTO s VALUES ({n}, 'x')").scn for n in range(8)]
    kept.upkeep()
    kept.upkeep()
    assert rows(kept, "SELECT a FROM s") == [(n,) for n in range(8)]
    assert rows(kept, f"SELECT a FROM s AS OF SCN {scns[3]}") == [(n,) for n in range(4)]
    kept.sql("INSERT INTO s VALUES (8, 'x')")
    assert kept.sql("SELECT count(*) FROM s").fetchone() == (9,)


def test_upkeep_lets_go_of_parts_that_are_older_than_retain(db: Any) -> None:
    db.sql("CREATE STREAM m (ts timestamp, a int) WITH (timestamp = 'ts', partition_length = 60, retain = '1 hour')")
    for number, moment in enumerate(("00:00:59", "05:00:00", "05:00:59", "05:59:00"), 1):
        db.sql(f"INSERT INTO m VALUES ('2015-01-01 {moment}', {number})")
        assert db.sql("SELECT count(*) FROM m").fetchone() == (number,)
    db.upkeep()
    assert rows(db, "SELECT a FROM m") == [(2,), (3,), (4,)]
    db.sql("INSERT INTO m VALUES ('2015-01-01 05:59:30', 5)")
    assert rows(db, "SELECT a FROM m") == [(2,), (3,), (4,), (5,)]


def test_any_delta_reader_reads_the_history(database: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    with midstream.connect(tmp_path / "open.db") as db:
        db.sql(f"CREATE STREAM s (a int, price numeric(8,2), tags int[]) {KEPT}")
        db.sql("INSERT INTO s VALUES (1, 1.5, ARRAY[1, 2]), (2, NULL, NULL)")
        assert db.sql("SELECT count(*) FROM s").fetchone() == (2,)
    (log,) = (tmp_path / "open.db").glob("tables/*/_delta_log")
    read = DeltaTable(str(log.parent)).to_pyarrow_table(columns=["a", "price", "tags"]).to_pylist()
    assert sorted(tuple(row.values()) for row in read) == [(1, Decimal("1.50"), [1, 2]), (2, None, None)]


def test_inserts_wait_for_readers_that_are_behind(database: Any, tmp_path: Path) -> None:
    many = pa.table({"a": pa.array(range(50_000), pa.int64())})
    with midstream.connect(tmp_path / "x.db", max_backlog="1 kB", insert_timeout="0 seconds") as db:
        db.sql(f"CREATE STREAM s (a bigint) {KEPT}; CREATE STREAM blind (a bigint); CREATE TABLE t (a int)")
        done = db.insert("s", many)
        for refused in (
            lambda: db.insert("s", many),
            lambda: db.sql("BEGIN; INSERT INTO t VALUES (1); INSERT INTO s VALUES (1); COMMIT"),
        ):
            error = fault(refused)
            assert (error.sqlstate, '"s"' in str(error), "insert_timeout" in str(error.hint)) == ("53400", True, True)
            db.sql("ROLLBACK")
        assert [db.insert("blind", many).status for _ in range(3)] == ["INSERT 0 50000"] * 3
        assert rows(db, "SELECT a FROM t") == []
        assert db.sql(f"SELECT count(*) FROM s AS OF SCN {done.scn}").fetchone() == (50_000,)
        sessions = [db.session() for _ in range(3)]
        for session in sessions:
            session.sql("SET insert_timeout = '60 seconds'")
        in_threads([lambda session=session: [session.insert("s", many) for _ in range(2)] for session in sessions])  # type: ignore[misc]
        assert db.sql("SELECT count(*), sum(a) FROM s").fetchone() == (7 * 50_000, 7 * sum(range(50_000)))


# What there is to see


def test_show_streams_tells_what_came_in(kept: Any) -> None:
    kept.sql("CREATE STREAM blind (x bigint); CREATE TABLE t (a int)")
    kept.sql("INSERT INTO s VALUES (1, 'x'), (2, 'y')")
    kept.insert("blind", pa.table({"x": range(1000)}))
    assert kept.sql("SELECT count(*) FROM s").fetchone() == (2,)
    shown = {row["name"]: row for row in kept.sql("SHOW STREAMS").arrow().to_pylist()}
    assert list(shown) == ["blind", "s"]
    assert [(shown[name]["rows"], shown[name]["columns"]) for name in ("blind", "s")] == [(1000, 1), (2, 2)]
    assert all(row["bytes"] > 0 and row["rows_per_second"] >= 0 for row in shown.values())
    assert all((row["unabsorbed_rows"], row["waiting_inserts"]) == (0, 0) for row in shown.values())
    assert [shown[name]["readers"] for name in ("blind", "s")] == [0, 1]
    assert [name for name, *_ in kept.sql("SHOW TABLES").fetchall()] == ["t"]
    assert kept.sql("SHOW VIEWS").fetchall() == []


def test_show_status_names_streams_and_readers(kept: Any) -> None:
    kept.sql("CREATE STREAM blind (x int); INSERT INTO s VALUES (1, 'x'); INSERT INTO blind VALUES (1), (2)")
    status = dict(kept.sql("SHOW STATUS").fetchall())
    assert status["streams"] == "2"
    assert int(status["log_bytes"]) >= 0
    assert status["stream s"].startswith("1 rows in")
    assert status["stream blind"].startswith("2 rows in")
    assert [name for name in status if name.startswith("reader")] == ["reader s of stream s"]


def test_describe_is_the_same_for_both_spellings(db: Any) -> None:
    columns = "(uid bigint NOT NULL, \"User\" text DEFAULT 'me', score numeric(8,2) CHECK (score > 0), tags text[])"
    assert db.sql(f"CREATE STREAM one {columns}").status == db.sql(f"CREATE STREAM IF NOT EXISTS one {columns}").status
    db.sql(f"CREATE FOREIGN TABLE two {columns} SERVER stream")
    one, two = db.sql("DESCRIBE one"), db.sql("DESCRIBE two")
    described = one.fetchall()
    assert described == two.fetchall()
    assert [row[:4] for row in described] == [
        ("uid", "bigint", True, None),
        ("User", "text", False, "'me'"),
        ("score", "numeric(8,2)", False, None),
        ("tags", "text[]", False, None),
    ]
    assert "score > 0" in repr(described)


def test_explain_tells_how_and_does_nothing(kept: Any) -> None:
    def plan(sql: str) -> str:
        return "\n".join(line for (line,) in kept.sql(f"EXPLAIN {sql}").fetchall())

    before = scn_now(kept)
    assert 'stream "s"' in plan("INSERT INTO s VALUES (1, 'x')")
    assert "Kernel" in plan("INSERT INTO s SELECT 1, 'x'")
    read = plan("SELECT a FROM s WHERE a > 1")
    assert 'stream "s"' in read
    assert "change log" not in read
    analyzed = plan("(ANALYZE) SELECT a FROM s")
    assert "ms" in analyzed
    assert (scn_now(kept), rows(kept, "SELECT * FROM s")) == (before, [])


def test_explain_of_parameters_is_that_of_literals(kept: Any) -> None:
    parameters = kept.sql("EXPLAIN INSERT INTO s VALUES (?, ?)", [1, "x"]).fetchall()
    assert parameters == kept.sql("EXPLAIN INSERT INTO s VALUES (1, 'x')").fetchall()


# Names, databases, the shell


def test_names_are_case_insensitive_unless_quoted(db: Any) -> None:
    db.sql(f'CREATE STREAM Posts (Uid int) {KEPT}; CREATE STREAM "My Posts" ("Uid" int, "select" text) {KEPT}')
    db.sql("INSERT INTO POSTS (UID) VALUES (1); INSERT INTO \"My Posts\" VALUES (1, 'x')")
    db.insert("POSTS", [{"UID": 2}])
    db.insert('"My Posts"', [{"Uid": 2, "select": "y"}])
    assert rows(db, "SELECT uid FROM posts") == [(1,), (2,)]
    assert rows(db, 'SELECT "Uid", "select" FROM "My Posts"') == [(1, "x"), (2, "y")]
    assert [name for name, *_ in db.sql("SHOW STREAMS").fetchall()] == ["My Posts", "posts"]
    db.sql('DROP STREAM "My Posts"; DROP STREAM pOsTs')
    assert db.sql("SHOW STREAMS").fetchall() == []


@pytest.mark.parametrize("name", ["clog_s", "late_s", "dead_s"])
def test_names_of_logs_cannot_be_taken(kept: Any, name: str) -> None:
    assert fault(lambda: kept.sql(f"CREATE STREAM {name} (a int)")).sqlstate == "42939"
    assert fault(lambda: kept.sql(f"INSERT INTO {name} VALUES (1)")).sqlstate in ("42809", "42P01")
    if name == "late_s":
        assert rows(kept, "SELECT * FROM late_s") == []
    else:
        assert fault(lambda: kept.sql(f"SELECT * FROM {name}")).sqlstate in ("42809", "42P01")


def test_two_databases_do_not_meet(database: Any, tmp_path: Path) -> None:
    with midstream.connect(tmp_path / "one.db") as one, midstream.connect(tmp_path / "two.db") as two:
        for db, value in ((one, "1"), (two, "'two'")):
            db.sql(f"CREATE STREAM s (v {'int' if db is one else 'text'}) {KEPT}; INSERT INTO s VALUES ({value})")
        assert (rows(one, "SELECT * FROM s"), rows(two, "SELECT * FROM s")) == ([(1,)], [("two",)])
        one.close()
        two.sql("INSERT INTO s VALUES ('more')")
        assert rows(two, "SELECT * FROM s") == [("more",), ("two",)]


def test_after_closing_everything_is_an_error(database: Any, tmp_path: Path) -> None:
    db = midstream.connect(tmp_path / "x.db")
    db.sql(f"CREATE STREAM s (a int) {KEPT}; INSERT INTO s VALUES (1)")
    session = db.session()
    db.close()
    for use in (
        lambda: db.sql("INSERT INTO s VALUES (2)"),
        lambda: db.insert("s", [{"a": 2}]),
        lambda: session.insert("s", [{"a": 2}]),
        lambda: session.sql("SELECT * FROM s"),
        lambda: db.sql("SHOW STREAMS"),
    ):
        assert fault(use).sqlstate == "08003"
    with midstream.connect(tmp_path / "x.db") as db:
        assert rows(db, "SELECT * FROM s") == [(1,)]


def test_the_shell_speaks_of_streams(database: Any, tmp_path: Path) -> None:
    def shell(script: str) -> str:
        result = CliRunner().invoke(main, ["shell", str(tmp_path / "x.db")], input=script)
        return str(result.stdout + result.stderr)

    script = f"CREATE STREAM posts (uid bigint, score int) {KEPT};\nINSERT INTO posts VALUES (1, 5);\n\\d\n\\d posts\n"
    created, inserted, *seen = shell(script + "DELETE FROM posts;\n").splitlines()
    assert (created, inserted) == ("CREATE STREAM", "INSERT 0 1")
    assert [word for word in ("posts", "bigint", "append-only") if word not in "\n".join(seen)] == []
    assert shell("SELECT uid, score FROM posts; DROP STREAM posts;\n").splitlines()[2:] == [
        "  1 |     5",
        "(1 row)",
        "DROP STREAM",
    ]
