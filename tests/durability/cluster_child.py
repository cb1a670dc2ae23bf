"""A process whose Spark is a cluster: tables, a stream, and all that is kept of them. It says when it is half-way, and
waits there until it is told to go on.

    python cluster_child.py FOLDER spark://127.0.0.1:7077
"""

from __future__ import annotations

import json
import sys
from typing import Any

import midstream

REGIONS = 3
CUSTOMERS = 300
BATCHES, ROWS = 6, 200


def main(folder: str, master: str) -> None:
    with midstream.connect(folder, master=master, cores=2) as db:
        define(db)
        for batch in range(BATCHES):
            if batch == BATCHES // 2:
                say("half")
                sys.stdin.readline()
            feed(db, batch)
            db.sql(f"UPDATE customers SET region = region + {REGIONS} WHERE id = {batch}")
        say(json.dumps(found(db)))


def define(db: Any) -> None:
    for statement in (
        "CREATE TABLE customers (id int PRIMARY KEY, region int)",
        f"INSERT INTO customers SELECT i, i % {REGIONS} FROM generate_series(0, {CUSTOMERS - 1}) AS made(i)",
        "CREATE STREAM calls (customer int, seconds int)",
        "CREATE VIEW by_customer AS SELECT customer, sum(seconds) AS seconds FROM calls GROUP BY customer",
        "CREATE VIEW by_region AS SELECT c.region, sum(b.seconds) AS seconds "
        "FROM by_customer b JOIN customers c ON c.id = b.customer GROUP BY c.region",
        "SET kernel = 'spark'",
        "CREATE VIEW on_spark AS SELECT customer, max(seconds) AS longest FROM calls GROUP BY customer",
        "RESET kernel",
        f"CREATE VIEW lately WITH (retain = 100) AS SELECT window_end, sum(seconds) AS seconds "
        f"FROM calls [WINDOW {2 * ROWS} ROWS SLIDE {ROWS} ROWS] GROUP BY window_end",
        "CREATE MATERIALIZED VIEW sizes AS SELECT region, count(*) AS customers FROM customers GROUP BY region",
        "CREATE TABLE moved (id int, region int, kind text, before int)",
        "CREATE CONTINUOUS QUERY moves PRIMARY KEY (id) COMPUTE ON COMMIT DESTINATION moved AS "
        "SELECT id, region, cq_delta() AS kind, cq_old_value(region) AS before FROM customers",
    ):
        db.sql(statement)


def feed(db: Any, batch: int) -> None:
    numbers = range(batch * ROWS, (batch + 1) * ROWS)
    db.insert("calls", [{"customer": n % CUSTOMERS, "seconds": n} for n in numbers])


def found(db: Any) -> dict[str, list[Any]]:
    db.wait("moves", db.sql("SELECT current_scn()").fetchone()[0])
    asked = {
        "by_region": "SELECT region, seconds FROM by_region",
        "on_spark": "SELECT count(*), sum(longest) FROM on_spark",
        "lately": "SELECT window_end, seconds FROM lately ALL WINDOWS",
        "sizes": "SELECT region, customers FROM sizes",
        "moved": "SELECT id, region, kind, before FROM moved",
    }
    return {name: sorted(map(list, db.sql(query).fetchall())) for name, query in asked.items()}


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
