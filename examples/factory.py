"""A car factory that wants to know which workstations run out of parts.

Parts are used at stations and restocked by suppliers. The story goes from empty tables to a transaction, a look
into the past and the change log, on one screen, in half a minute. Run it with `make demo`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import midstream

SECONDS_TO_READ = 1.0

TABLES = """
CREATE TABLE supplier (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE station (id int PRIMARY KEY, location text NOT NULL,
                      supplier int NOT NULL REFERENCES supplier (id));
CREATE TABLE part_usage   (part text NOT NULL, station int REFERENCES station (id));
CREATE TABLE part_restock (part text NOT NULL, station int REFERENCES station (id));
"""
PEOPLE_AND_PLACES = """
INSERT INTO supplier VALUES (1, 'Northwind'), (2, 'Akagi'), (3, 'Brandt');
INSERT INTO station VALUES
  (10, 'Hall A, doors', 1), (20, 'Hall A, wheels', 2), (30, 'Hall B, mirrors', 3);
"""
RESUPPLY_VIEW = """
CREATE VIEW resupply AS
  WITH used AS (SELECT part, station, count(*) AS n
                FROM part_usage GROUP BY part, station),
       restocked AS (SELECT part, station, count(*) AS n
                     FROM part_restock GROUP BY part, station)
  SELECT r.part, s.location, p.name AS supplier, r.n - u.n AS left_over
  FROM station s, supplier p, used u, restocked r
  WHERE p.id = s.supplier AND s.id = u.station
    AND u.station = r.station AND u.part = r.part AND r.n - u.n < 5;
"""
RESUPPLY = "SELECT * FROM resupply ORDER BY left_over, part;"
REPAIR = """
BEGIN;
INSERT INTO part_restock SELECT 'wheel', 20 FROM generate_series(1, 40);
UPDATE station SET supplier = 3 WHERE id = 20;
COMMIT;
"""
PARTS_AND_STATIONS = {"door": 10, "handle": 10, "wheel": 20, "bolt": 20, "mirror": 30}


@dataclass(frozen=True)
class Step:
    """One line of the story: its title, the SQL that is shown, and what it gives."""

    title: str
    sql: str
    answer: Callable[[], RenderableType]


def story(db: midstream.Database) -> Iterator[Step]:
    """The steps in order; each SQL text is what really runs."""
    yield Step("Four tables", TABLES, lambda: done(db.sql(TABLES)))
    yield Step("Suppliers and stations", PEOPLE_AND_PLACES, lambda: done(db.sql(PEOPLE_AND_PLACES)))
    yield Step(
        "A shift of work, as Arrow",
        '# Python\ndb.insert("part_restock", restocked)\ndb.insert("part_usage", used)',
        lambda: work_a_shift(db),
    )
    yield Step("What runs low, as a view", RESUPPLY_VIEW, lambda: done(db.sql(RESUPPLY_VIEW)))
    yield Step("Who needs parts?", RESUPPLY, lambda: rows(db.sql(RESUPPLY)))
    before = current_scn(db)
    yield Step("A transaction over two tables", REPAIR, lambda: done(db.sql(REPAIR)))
    yield Step("Who needs parts now?", RESUPPLY, lambda: rows(db.sql(RESUPPLY)))
    past = f"SELECT id, location, supplier FROM station AS OF SCN {before} ORDER BY id;"
    yield Step("The stations before it", past, lambda: rows(db.sql(past)))
    log = (
        "SELECT trans_scn, dml_type, old_new_mark, id, supplier\n"
        f"FROM clog_station WHERE trans_scn > {before} ORDER BY trans_scn, old_new_mark DESC;"
    )
    yield Step("What the change log says", log, lambda: rows(db.sql(log)))
    refused = "DELETE FROM supplier WHERE id = 3;"
    yield Step("What the keys refuse", refused, lambda: refusal(db, refused))


def current_scn(db: midstream.Database) -> int:
    return db.sql("SELECT current_scn()").scn


def work_a_shift(db: midstream.Database) -> RenderableType:
    """Ten thousand parts come and most are used up; three wheels are left, and two mirrors."""
    restocked = [part for part in PARTS_AND_STATIONS for _ in range(2_000)]
    left = {"wheel": 3, "mirror": 2}
    used = [part for part in PARTS_AND_STATIONS for _ in range(2_000 - left.get(part, 250))]
    random.Random(7).shuffle(used)
    db.insert("part_restock", events(restocked))
    db.insert("part_usage", events(used))
    return Text(f"{len(restocked):,} parts came, {len(used):,} were used")


def events(parts: Iterable[str]) -> pa.Table:
    names = list(parts)
    return pa.table({"part": names, "station": pa.array([PARTS_AND_STATIONS[name] for name in names], pa.int32())})


# --- the screen -----------------------------------------------------------------------------------


def done(result: midstream.Result) -> RenderableType:
    commit = f"  SCN {result.scn}" if result.scn is not None else ""
    return Text(result.status + commit, style="green")


def rows(result: midstream.Result) -> RenderableType:
    table = Table(*result.columns, box=box.SIMPLE_HEAD, header_style="bold")
    for row in result.fetchall():
        table.add_row(*("" if value is None else str(value) for value in row))
    return table


def refusal(db: midstream.Database, sql: str) -> RenderableType:
    try:
        return done(db.sql(sql))
    except midstream.Error as error:
        return Text(error.render(sql), style="red")


def frame(titles: list[str], step: Step | None, answer: RenderableType) -> RenderableType:
    told = Text()
    for number, title in enumerate(titles, start=1):
        is_current = step is not None and number == len(titles)
        told.append(f"{number:>2}  {title}\n", style="bold cyan" if is_current else "dim")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=33)
    grid.add_column()
    code = Syntax(step.sql.strip(), "sql", background_color="default", word_wrap=True) if step else Text("")
    grid.add_row(told, Group(code, Text(""), answer))
    return Panel(grid, title="Midstream: a factory that must not run out of parts", border_style="blue")


def tell(console: Console) -> None:
    titles: list[str] = []
    start = frame(titles, None, Text("Starting Spark …"))
    with Live(start, console=console, auto_refresh=False) as live, midstream.connect() as db:
        for step in story(db):
            titles.append(step.title)
            live.update(frame(titles, step, Text("…", style="dim")), refresh=True)
            live.update(frame(titles, step, step.answer()), refresh=True)
            time.sleep(SECONDS_TO_READ)


def tell_in_plain_text(console: Console) -> None:
    with midstream.connect() as db:
        for number, step in enumerate(story(db), start=1):
            console.rule(f"{number}. {step.title}", align="left")
            console.print(Text(step.sql.strip()))
            console.print(step.answer())


def main() -> None:
    console = Console()
    started_at = time.monotonic()
    if console.is_terminal:
        tell(console)
    else:
        tell_in_plain_text(console)
    seconds = time.monotonic() - started_at
    console.print(f"That was {seconds:.0f} s, Spark's start included. The same by hand: midstream shell shop.db")


if __name__ == "__main__":
    main()
