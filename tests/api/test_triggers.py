"""Triggers: functions that are called with the changes of a continuous query."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import refuses, rows, wait_for
from banking import NEGATIVE, pay, state_of


@pytest.fixture
def watched(bank: Any) -> Any:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    return bank


def test_a_trigger_is_called_with_every_change(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
    scns = [pay(watched, (1, -5)), pay(watched, (1, -3)), pay(watched, (1, 20))]
    wait_for(lambda: len(called) >= 3)
    assert [(c.kind, c.scn) for c in called] == list(zip("IUD", scns, strict=True))
    assert called[1].row == {"acct": 1, "amt": -8}
    assert called[1].old == {"acct": 1, "amt": -5}


def test_changes_have_ids_that_name_the_query_the_commit_and_a_number(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
    scn = pay(watched, (1, -5), (2, -6), (3, -7))
    wait_for(lambda: len(called) >= 3)
    ids = [tuple(change.id) for change in called]
    assert {(name, at) for name, at, _ in ids} == {("negative_balance", scn)}
    assert len(set(ids)) == 3


def test_a_trigger_that_fails_is_tried_again(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:fail_at_first'")
    pay(watched, (1, -5))
    wait_for(lambda: len(called) >= 3)
    pay(watched, (2, -5))
    wait_for(lambda: len(called) >= 4)
    assert [change.row["acct"] for change in called] == [1, 1, 1, 2]
    assert watched.sql("SELECT count(*) FROM dead_warn").fetchall() == [(0,)]


def test_after_three_tries_a_change_is_parked_and_the_query_goes_on(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:fail_for_two'")
    for acct in (1, 2, 3):
        pay(watched, (acct, -5))
    wait_for(lambda: len(called) >= 5)
    assert [change.row["acct"] for change in called] == [1, 2, 2, 2, 3]
    wait_for(lambda: len(rows(watched, "SELECT * FROM dead_warn")) == 1)
    assert "not two" in repr(rows(watched, "SELECT * FROM dead_warn"))
    assert state_of(watched, "negative_balance") == "ACTIVE"
    watched.sql("DROP TABLE dead_warn")
    pay(watched, (2, -1))
    wait_for(lambda: "dead_warn" in {row[0] for row in watched.sql("SHOW TABLES").fetchall()})
    assert [(row[2], "not two" in row[5]) for row in rows(watched, "SELECT * FROM dead_warn")] == [("U", True)]


def test_a_trigger_that_wants_to_end_the_program_is_tried_and_parked_as_well(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:leave'")
    pay(watched, (1, -5))
    pay(watched, (2, -6))
    wait_for(lambda: len(watched.sql("SELECT * FROM dead_warn").fetchall()) == 2)
    assert [change.row["acct"] for change in called] == [1, 1, 1, 2, 2, 2]
    errors = [error for (error,) in watched.sql("SELECT error FROM dead_warn ORDER BY scn").fetchall()]
    assert [error.split(":")[0] for error in errors] == ["SystemExit", "KeyboardInterrupt"]


def test_what_a_trigger_says_and_does_to_a_change_does_not_keep_it_from_being_parked(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    raised = {1: ValueError("a\0b"), 2: ValueError("half \udc80"), 3: Speechless(), 4: ValueError("enough")}

    def fail(change: Any) -> None:
        number = change.row["id"]
        change.row.clear()
        change.row[("no", "JSON")] = change.row
        raise raised[number]

    monkeypatch.setitem(sys.modules, "careless", types.SimpleNamespace(fail=fail))
    db.sql("CREATE TABLE t (id int, raw bytea, x double precision, doc json, list int[], long interval)")
    db.sql("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT * FROM t")
    db.sql("CREATE TRIGGER warn ON q FOR EACH ROW EXECUTE 'careless:fail'")
    for number in raised:
        db.sql(f"INSERT INTO t VALUES ({number}, '\\x00ff', 'NaN', '{{\"a\": 1}}', '{{1,NULL}}', '1 day 2 hours')")
    wait_for(lambda: len(rows(db, "SELECT * FROM dead_warn")) == len(raised))
    parked = db.sql("SELECT error, row FROM dead_warn ORDER BY scn").fetchall()
    said = [error.partition(" (/")[0] for error, _ in parked]
    assert said == [
        r"ValueError: a\x00b",
        r"ValueError: half \udc80",
        "Speechless: (its text cannot be told)",
        "ValueError: enough",
    ]
    whole = {"raw": r"\x00ff", "x": "NaN", "doc": {"a": 1}, "list": [1, None], "long": "1 day 02:00:00"}
    assert [json.loads(row) for _, row in parked] == [{"id": number, **whole} for number in raised]


def test_triggers_go_on_after_a_restart_without_one_call_more(database: Any, tmp_path: Path, called: list[Any]) -> None:
    folder = str(tmp_path / "triggers.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
        db.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT AS {NEGATIVE}")
        db.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
        pay(db, (1, -5))
        wait_for(lambda: len(called) >= 1)
    with midstream.connect(folder) as db:
        pay(db, (2, -5))
        wait_for(lambda: len(called) >= 2)
    assert [change.row["acct"] for change in called] == [1, 2]


def test_a_dropped_trigger_is_not_called(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
    watched.sql("DROP TRIGGER warn")
    watched.wait("negative_balance", pay(watched, (1, -5)))
    refuses(watched, "DROP TRIGGER warn", "warn")
    watched.sql("DROP TRIGGER IF EXISTS warn")
    assert called == []


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("CREATE TRIGGER warn ON nobody FOR EACH ROW EXECUTE 'listeners:note'", "nobody"),
        ("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'no_such_module:note'", "no_such_module"),
        ("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:nothing'", "nothing"),
        ("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners'", "listeners"),
    ],
)
def test_a_trigger_needs_a_query_and_a_function(watched: Any, called: list[Any], statement: str, word: str) -> None:
    refuses(watched, statement, word)


def test_a_trigger_name_is_taken_once(watched: Any, called: list[Any]) -> None:
    create = "CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'"
    watched.sql(create)
    refuses(watched, create, "warn")
