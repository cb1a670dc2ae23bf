"""Random transactions of several sessions do what the model says, at every commit, in the past and in the log."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest
from transaction_model import (
    TABLES,
    Entry,
    Model,
    Row,
    Rows,
    Statement,
    apply_entries,
    as_multiset,
    copied,
    has_duplicate_key,
    net_entries,
)

import midstream

SESSIONS = ("one", "two", "three")
KEYS = 20
CONFLICT = {"40001", "23505"}


class Play:
    """One random run: every step is made in the database and in the model, and they are compared."""

    def __init__(self, db: Any, seed: int) -> None:
        self.random, self.db, self.told = random.Random(seed), db, list[str]()
        self.conflicts_seen = 0
        db.sql("CREATE TABLE acct (id int PRIMARY KEY, v int)")
        created = db.sql("CREATE TABLE bag (a int, b text)")
        self.sessions = {name: db.session() for name in SESSIONS}
        self.model = Model(scn=created.scn)
        self.change("one", self.insert("acct", [(n, n) for n in range(0, KEYS, 2)]))
        self.change("one", self.insert("bag", [(n % 3, letter) for n in range(6) for letter in "xy"]))

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step(self.random.choice(SESSIONS))
        for name in list(self.model.open):
            self.finish(name)
        for scn in self.model.history:
            self.check_past(scn)

    def step(self, name: str) -> None:
        transaction = self.model.open.get(name)
        if transaction is None and self.random.random() < 0.6:
            self.told.append(f"{name}: BEGIN")
            self.sessions[name].sql("BEGIN")
            self.model.begin(name)
        elif transaction is not None and (transaction.failed or self.random.random() < 0.3):
            self.finish(name)
        elif self.random.random() < 0.15:
            self.check_view(name)
        else:
            self.change(name, self.random_statement())

    # changes

    def change(self, name: str, statement: Statement) -> None:
        self.told.append(f"{name}: {statement.sql}")
        inside = self.model.open.get(name)
        transaction = inside or self.model.begin(name)
        wanted = copied(transaction.own)
        wanted[statement.table] = statement.apply(wanted[statement.table])
        result, sqlstate = self.sql(name, statement.sql)
        breaks_key = has_duplicate_key(wanted)
        before, transaction.own = transaction.own, wanted
        may_conflict = self.model.conflicts(transaction)
        if sqlstate is None:
            assert not breaks_key, self.story("a duplicate key was taken")
            if inside is None:
                self.committed(name, result.scn)
            return
        transaction.own, transaction.failed = before, True
        allowed = {"23505"} if breaks_key else set()
        assert sqlstate in allowed | (CONFLICT if may_conflict else set()), self.story(f"unexpected {sqlstate}")
        self.conflicts_seen += may_conflict
        if inside is None:
            del self.model.open[name]

    def finish(self, name: str) -> None:
        transaction = self.model.open[name]
        if transaction.failed or self.random.random() < 0.15:
            self.told.append(f"{name}: ROLLBACK")
            assert self.sessions[name].sql("ROLLBACK").status == "ROLLBACK"
            del self.model.open[name]
            return
        self.told.append(f"{name}: COMMIT")
        conflicts = self.model.conflicts(transaction)
        result, sqlstate = self.sql(name, "COMMIT")
        if sqlstate is None:
            assert not conflicts, self.story("a conflict was not seen")
            self.committed(name, result.scn)
        else:
            assert conflicts, self.story(f"{sqlstate} without a conflict")
            assert sqlstate in CONFLICT, self.story(f"{sqlstate} for a conflict")
            self.conflicts_seen += 1
            del self.model.open[name]

    def committed(self, name: str, scn: int | None) -> None:
        transaction = self.model.open.pop(name)
        before = self.model.scn
        if transaction.own == transaction.snapshot and (scn is None or scn <= before):
            return
        assert scn == before + 1, self.story(f"commit has SCN {scn} after {before}")
        self.model.commit(transaction, scn)
        self.check_past(scn)
        self.check_log(before, scn)
        self.check_past(self.random.choice(list(self.model.history)))

    def sql(self, name: str, text: str) -> tuple[Any, str | None]:
        try:
            return self.sessions[name].sql(text), None
        except midstream.Error as error:
            assert error.sqlstate != "XX000", self.story(str(error))
            return None, error.sqlstate

    # comparisons

    def check_view(self, name: str) -> None:
        if name in self.model.open and self.model.open[name].failed:
            return
        for table, rows in self.model.seen_by(name).items():
            got = self.sessions[name].sql(f"SELECT {', '.join(TABLES[table])} FROM {table}").fetchall()
            assert Counter(got) == as_multiset(rows), self.story(f"{name} sees another {table}")

    def check_past(self, scn: int) -> None:
        for table, rows in self.model.history[scn].items():
            assert self.past(table, scn) == as_multiset(rows), self.story(f"{table} AS OF SCN {scn} is another")

    def past(self, table: str, scn: int) -> Counter[Row]:
        return Counter(self.db.sql(f"SELECT {', '.join(TABLES[table])} FROM {table} AS OF SCN {scn}").fetchall())

    def check_log(self, before: int, scn: int) -> None:
        for table in TABLES:
            old, new = self.model.history[before][table], self.model.history[scn][table]
            columns = ", ".join(TABLES[table])
            log = f"SELECT {columns}, old_new_mark, dml_type FROM clog_{table} WHERE trans_scn = {scn}"
            got, wanted = Counter(self.db.sql(log).fetchall()), net_entries(old, new)
            assert not wanted - got, self.story(f"clog_{table} of SCN {scn} lacks {wanted - got}")
            assert change_nothing(got - wanted), self.story(f"clog_{table} of SCN {scn} also has {got - wanted}")
            assert apply_entries(as_multiset(old), got) == as_multiset(new)

    def story(self, what: str) -> str:
        return f"{what}\n" + "\n".join(self.told[-40:])

    # statements

    def random_statement(self) -> Statement:
        makers = [self.insert_acct, self.insert_acct, self.update_acct, self.move_acct, self.delete_acct]
        makers += [self.insert_bag, self.update_bag, self.delete_bag]
        return self.random.choice(makers)()

    def insert_acct(self) -> Statement:
        new = [(self.random.randrange(3 * KEYS), self.random.randrange(100)) for _ in range(self.random.randint(1, 2))]
        return self.insert("acct", new)

    def insert_bag(self) -> Statement:
        new = [(self.random.randrange(4), self.random.choice("xyz")) for _ in range(self.random.randint(1, 4))]
        return self.insert("bag", new)

    def insert(self, table: str, new: list[Row]) -> Statement:
        fresh = {next(self.model.identities): row for row in new}
        values = ", ".join(map(str, new))
        return Statement(f"INSERT INTO {table} VALUES {values}", table, lambda rows: rows | fresh)

    def update_acct(self) -> Statement:
        low, plus = self.random.randrange(KEYS), self.random.randint(1, 9)
        high = low + self.random.choice([1, 3, KEYS])
        sql = f"UPDATE acct SET v = v + {plus} WHERE id BETWEEN {low} AND {high}"
        return Statement(sql, "acct", mapped(lambda r: (r[0], r[1] + plus) if low <= r[0] <= high else r))

    def move_acct(self) -> Statement:
        old, new = self.random.randrange(KEYS), self.random.randrange(3 * KEYS, 4 * KEYS)
        sql = f"UPDATE acct SET id = {new} WHERE id = {old}"
        return Statement(sql, "acct", mapped(lambda r: (new, r[1]) if r[0] == old else r))

    def delete_acct(self) -> Statement:
        divisor = self.random.choice([7, 11, 20])
        rest = self.random.randrange(divisor)
        sql = f"DELETE FROM acct WHERE id % {divisor} = {rest}"
        return Statement(sql, "acct", mapped(lambda r: None if r[0] % divisor == rest else r))

    def update_bag(self) -> Statement:
        old, letter = self.random.randrange(3), self.random.choice("xy")
        sql = f"UPDATE bag SET a = a + 1 WHERE a = {old} AND b = '{letter}'"
        return Statement(sql, "bag", mapped(lambda r: (r[0] + 1, r[1]) if r == (old, letter) else r))

    def delete_bag(self) -> Statement:
        low = self.random.randrange(2, 5)
        return Statement(f"DELETE FROM bag WHERE a > {low}", "bag", mapped(lambda r: None if r[0] > low else r))


def mapped(change: Any) -> Any:
    """A change of single rows as a change of all rows; None deletes."""

    def apply(rows: Rows) -> Rows:
        changed = {identity: change(row) for identity, row in rows.items()}
        return {identity: row for identity, row in changed.items() if row is not None}

    return apply


def change_nothing(entries: Counter[Entry]) -> bool:
    """Whether all are updates to the same values, which the log may tell or not: each image has its twin."""
    other = {"O": "N", "N": "O"}
    return all(
        kind == "U" and entries[(*values, other[mark], kind)] == count
        for (*values, mark, kind), count in entries.items()
    )


@pytest.mark.parametrize("seed", [15, 98])
def test_random_transactions_follow_the_model(db: Any, seed: int) -> None:
    assert play(db, seed, steps=45).conflicts_seen > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_transactions_follow_the_model(db: Any, seed: int) -> None:
    assert play(db, seed, steps=250).conflicts_seen > 0


def play(db: Any, seed: int, steps: int) -> Play:
    random_run = Play(db, seed)
    try:
        random_run.run(steps)
    finally:
        random_run.close()
    return random_run


def test_the_log_tells_both_rows_when_one_takes_the_values_that_another_left(db: Any) -> None:
    db.sql("CREATE TABLE bag (a int, b text); INSERT INTO bag VALUES (0, 'x'), (1, 'x')")
    changed = db.sql("BEGIN; UPDATE bag SET a = 2 WHERE a = 1; UPDATE bag SET a = 1 WHERE a = 0; COMMIT")
    log = db.sql(f"SELECT a, old_new_mark, dml_type FROM clog_bag WHERE trans_scn = {changed.scn}").fetchall()
    assert sorted(log) == [(0, "O", "U"), (1, "N", "U"), (1, "O", "U"), (2, "N", "U")]


def test_a_child_is_not_left_without_its_parent_by_two_sessions(db: Any) -> None:
    db.sql("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (p int REFERENCES parent (id))")
    db.sql("INSERT INTO parent VALUES (1), (2)")
    deleter, inserter = db.session(), db.session()
    deleter.sql("BEGIN; DELETE FROM parent WHERE id = 1")
    inserter.sql("BEGIN; INSERT INTO child VALUES (1)")
    deleter.sql("COMMIT")
    with pytest.raises(midstream.Error) as refused:
        inserter.sql("COMMIT")
    assert refused.value.sqlstate in ("23503", "40001")
    assert db.sql("SELECT count(*) FROM child").fetchall() == [(0,)]


def test_a_parent_is_not_deleted_under_a_child_that_came_first(db: Any) -> None:
    db.sql("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (p int REFERENCES parent (id))")
    db.sql("INSERT INTO parent VALUES (1), (2)")
    deleter, inserter = db.session(), db.session()
    deleter.sql("BEGIN; DELETE FROM parent WHERE id = 1")
    inserter.sql("INSERT INTO child VALUES (1)")
    with pytest.raises(midstream.Error) as refused:
        deleter.sql("COMMIT")
    assert refused.value.sqlstate in ("23503", "40001")
    assert db.sql("SELECT id FROM parent ORDER BY id").fetchall() == [(1,), (2,)]


def test_two_sessions_do_not_take_the_same_unique_value(db: Any) -> None:
    db.sql("CREATE TABLE t (id int, code text UNIQUE)")
    one, two = db.session(), db.session()
    one.sql("BEGIN; INSERT INTO t VALUES (1, 'same')")
    two.sql("BEGIN; INSERT INTO t VALUES (2, 'same')")
    one.sql("COMMIT")
    with pytest.raises(midstream.Error) as refused:
        two.sql("COMMIT")
    assert refused.value.sqlstate in ("23505", "40001")
    assert db.sql("SELECT id FROM t").fetchall() == [(1,)]


def test_a_table_that_was_dropped_meanwhile_is_a_conflict(db: Any) -> None:
    db.sql("CREATE TABLE t (id int)")
    writer = db.session()
    writer.sql("BEGIN; INSERT INTO t VALUES (1)")
    db.sql("DROP TABLE t")
    with pytest.raises(midstream.Error) as refused:
        writer.sql("COMMIT")
    assert refused.value.sqlstate in ("40001", "42P01")


def test_increments_of_many_threads_are_all_counted(db: Any) -> None:
    db.sql("CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter VALUES (1, 0)")
    done: list[int] = []
    threads = [threading.Thread(target=increment, args=(db, 4, done)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(done) == 12
    assert db.sql("SELECT n FROM counter").fetchall() == [(12,)]


def increment(db: Any, times: int, done: list[int]) -> None:
    """Adds one so often, again after each conflict."""
    session = db.session()
    for _ in range(times):
        while True:
            try:
                done.append(session.sql("UPDATE counter SET n = n + 1 WHERE id = 1").scn)
                break
            except midstream.Error as error:
                if error.sqlstate != "40001":
                    raise
    session.close()
