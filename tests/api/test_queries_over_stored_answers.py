"""Continuous queries that read materialized views: a refresh takes several commits together, and no answer is handed
out that never was."""

from __future__ import annotations

from typing import Any

import pytest

from asking import fault, rows
from holding import held_by_another

NEVER = "SELECT t.id FROM t WHERE NOT EXISTS (SELECT 1 FROM mt WHERE mt.id = t.id)"


@pytest.fixture
def stored(db: Any) -> Any:
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW mt AS SELECT id FROM t")
    return db


def insert(db: Any, *ids: int) -> int:
    """Each in a commit of its own, of which the thread that looks after queries sees nothing before the last."""
    with held_by_another(db._store.queries.computing):
        return [int(db.sql(f"INSERT INTO t VALUES ({id})").scn) for id in ids][-1]


def heard(feed: Any) -> list[tuple[Any, ...]]:
    return [(change.scn, change.kind, *change.row.values()) for change in feed.poll()]


def test_a_view_and_the_table_below_it_are_of_one_commit(stored: Any) -> None:
    stored.sql(f"CREATE CONTINUOUS QUERY never COMPUTE ON COMMIT AS {NEVER}")
    with stored.subscribe("never") as feed:
        stored.wait("never", insert(stored, 1, 2, 3, 4))
        assert heard(feed) == []


def test_commit_by_commit_on_demand_they_are_too(stored: Any) -> None:
    stored.sql(f"CREATE CONTINUOUS QUERY never COMPUTE TRANSACTIONAL ON DEMAND AS {NEVER}")
    stored.sql("CREATE CONTINUOUS QUERY pairs COMPUTE TRANSACTIONAL ON DEMAND AS SELECT t.id FROM t JOIN mt USING (id)")
    with stored.subscribe("never") as never, stored.subscribe("pairs") as pairs:
        first = insert(stored, 1, 2)
        rows(stored, "SELECT * FROM mt")
        last = insert(stored, 3, 4, 5)
        stored.sql("SELECT cq_recompute('never')")
        stored.sql("SELECT cq_recompute('pairs')")
        assert heard(never) == []
        assert sorted(heard(pairs)) == [(first, "I", 1), (first, "I", 2), *((last, "I", id) for id in (3, 4, 5))]


def test_a_query_that_was_suspended_goes_from_refresh_to_refresh(stored: Any) -> None:
    stored.sql(f"CREATE CONTINUOUS QUERY never COMPUTE ON COMMIT AS {NEVER}")
    with stored.subscribe("never") as feed:
        stored.sql("ALTER CONTINUOUS QUERY never SUSPEND")
        insert(stored, 1, 2)
        rows(stored, "SELECT * FROM mt")
        last = insert(stored, 3, 4)
        stored.sql("ALTER CONTINUOUS QUERY never ACTIVATE")
        stored.wait("never", last)
        assert heard(feed) == []


def test_a_query_that_begins_anew_begins_with_the_answer_of_its_commit(stored: Any) -> None:
    stored.sql("CREATE CONTINUOUS QUERY ids COMPUTE TRANSACTIONAL ON DEMAND AS SELECT id FROM mt")
    stored.sql("ALTER CONTINUOUS QUERY ids DEACTIVATE")
    with held_by_another(stored._store.queries.computing):
        stored.sql("INSERT INTO t VALUES (1)")
        stored._store.queries._wake.clear()
    stored.sql("ALTER CONTINUOUS QUERY ids ACTIVATE")
    with stored.subscribe("ids") as feed:
        scn = insert(stored, 2)
        stored.sql("SELECT cq_recompute('ids')")
        assert heard(feed) == [(scn, "I", 2)]


def test_another_table_is_of_the_commit_of_the_view(stored: Any) -> None:
    stored.sql("CREATE TABLE others (id int PRIMARY KEY)")
    stored.sql(
        "CREATE CONTINUOUS QUERY lost COMPUTE ON COMMIT AS "
        "SELECT id FROM others WHERE NOT EXISTS (SELECT 1 FROM mt WHERE mt.id = others.id)"
    )
    with stored.subscribe("lost") as feed:
        with held_by_another(stored._store.queries.computing):
            for id in range(4):
                stored.sql(f"INSERT INTO t VALUES ({id})")
                scn = stored.sql(f"INSERT INTO others VALUES ({id})").scn
        stored.wait("lost", scn)
        assert heard(feed) == []
        assert stored.sql("INSERT INTO others VALUES (9)").scn > scn
        stored.wait("lost", scn + 1)
        assert heard(feed) == [(scn + 1, "I", 9)]


def test_commits_that_leave_the_view_as_it_is_are_told_apart(stored: Any) -> None:
    stored.sql("CREATE TABLE others (id int PRIMARY KEY)")
    stored.sql(
        "CREATE CONTINUOUS QUERY lost COMPUTE ON COMMIT AS "
        "SELECT id FROM others WHERE NOT EXISTS (SELECT 1 FROM mt WHERE mt.id = others.id)"
    )
    with stored.subscribe("lost") as feed:
        with held_by_another(stored._store.queries.computing):
            scns = [stored.sql(f"INSERT INTO others VALUES ({id})").scn for id in (1, 2, 3)]
        stored.wait("lost", scns[-1])
        assert heard(feed) == [(scns[0], "I", 1), (scns[1], "I", 2), (scns[2], "I", 3)]


def test_a_view_that_cannot_be_refreshed_holds_up_who_reads_it(stored: Any) -> None:
    stored.sql("CREATE MATERIALIZED VIEW parts AS SELECT id, 10 / id AS part FROM t")
    stored.sql(
        "CREATE CONTINUOUS QUERY whole COMPUTE ON COMMIT AS "
        "SELECT t.id FROM t WHERE NOT EXISTS (SELECT 1 FROM parts WHERE parts.id = t.id)"
    )
    with stored.subscribe("whole") as feed:
        scn = insert(stored, 0, 1)
        assert "division by zero" in str(fault(lambda: stored.wait("whole", scn)))
        assert heard(feed) == []
        scn = stored.sql("DELETE FROM t WHERE id = 0").scn
        stored.wait("whole", scn)
        assert heard(feed) == []


def test_a_snapshot_is_of_a_commit_at_which_all_is_known(stored: Any) -> None:
    stored.sql("CREATE CONTINUOUS QUERY pairs COMPUTE TRANSACTIONAL ON DEMAND AS SELECT t.id FROM t JOIN mt USING (id)")
    first = insert(stored, 1, 2)
    stored.sql("SELECT cq_recompute('pairs')")
    last = insert(stored, 3, 4)
    stored.sql("SELECT cq_recompute('pairs')")
    with stored.subscribe("pairs", snapshot=True, after=first) as feed:
        assert sorted(heard(feed)) == [(first, "I", 1), (first, "I", 2)]
        assert sorted(heard(feed)) == [(last, "I", 3), (last, "I", 4)]
    error = fault(lambda: stored.subscribe("pairs", snapshot=True, after=last - 1))
    assert "is not known" in error.message


def test_a_view_on_demand_is_in_a_picture_as_it_was_then(stored: Any) -> None:
    stored.sql("CREATE MATERIALIZED VIEW seldom WITH (refresh = 'on demand') AS SELECT id FROM t")
    insert(stored, 1)
    store = stored._store
    before, view = store.catalog.state, store.catalog.state.relations["seldom"]
    stored.sql("REFRESH MATERIALIZED VIEW seldom")
    assert store.catalog.state.versions[view.id] > before.versions[view.id]
    assert store.queries.materialized.picture(before).versions[view.id] == before.versions[view.id]


def test_a_continuous_view_and_a_stored_answer_are_read_at_one_commit(stored: Any) -> None:
    stored.sql("CREATE STREAM s (id int)")
    stored.sql("CREATE VIEW counted AS SELECT id, count(*) AS n FROM s GROUP BY id")
    stored.sql("INSERT INTO s VALUES (1), (2)")
    insert(stored, 1, 2)
    with held_by_another(stored._store.queries.computing):
        stored.sql("INSERT INTO t VALUES (3)")
        stored._store.queries._wake.clear()
    assert rows(stored, "SELECT (SELECT count(*) FROM mt) AS m, count(*) FROM counted") == [(3, 2)]
