"""A car factory that must not run out of parts, live: `make demo`.

Two streams tell what happens at the workstations: `part_usage` when a part is built in, `part_restock` when one is
delivered. Threads feed them all the time. The view `resupply` tells where parts run low and who delivers them. It is
read once a second, and each read sees every row that was acknowledged before it began. In the middle a supplier's
lorries stay away, and an UPDATE of the table `station` gives its stations to another one.

The factory counts its stock for itself. In the end a view over both streams must say the same.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import midstream

ROWS_PER_SECOND = 20_000
"""What each stream should get. The screen shows what it gets."""
TICK = 0.05
SECONDS_TO_END = 3
LORRY_SECONDS = 0.4
SHOWN = 6
"""Rows of the view on the screen."""

RELATIONS = """
CREATE STREAM part_usage   (part text NOT NULL, station int NOT NULL);
CREATE STREAM part_restock (part text NOT NULL, station int NOT NULL);
CREATE TABLE station (id int PRIMARY KEY, location text NOT NULL, supplier text NOT NULL);
INSERT INTO station VALUES
  (1, 'Hall A, gate 1', 'Northwind'), (2, 'Hall A, gate 2', 'Akagi'), (3, 'Hall B, gate 1', 'Brandt'),
  (4, 'Hall B, gate 2', 'Northwind'), (5, 'Hall C, gate 1', 'Akagi'), (6, 'Hall C, gate 2', 'Brandt');
"""
VIEW = """
CREATE VIEW resupply AS
  WITH used AS (SELECT part, station, count(*) AS n
                FROM part_usage GROUP BY part, station),
       restocked AS (SELECT part, station, count(*) AS n
                     FROM part_restock GROUP BY part, station)
  SELECT r.part, s.location, s.supplier, r.n - u.n AS left_over
  FROM station s, used u, restocked r
  WHERE s.id = u.station AND u.station = r.station
    AND u.part = r.part AND r.n - u.n < 5;
"""
STOCK = """
CREATE VIEW stock AS
  SELECT part, station, sum(n) AS n
  FROM (SELECT part, station, 1 AS n FROM part_restock
        UNION ALL SELECT part, station, -1 FROM part_usage) AS moves
  GROUP BY part, station;
"""
READ = "SELECT * FROM resupply ORDER BY left_over, location, part"
CHANGE = "UPDATE station SET supplier = 'Brandt' WHERE supplier = 'Akagi'"

PARTS = ("wheel", "door", "seat", "mirror")
SUPPLIERS = {1: "Northwind", 2: "Akagi", 3: "Brandt", 4: "Northwind", 5: "Akagi", 6: "Brandt"}
Place = tuple[str, int]
"""A part at a station."""


# --- the factory ------------------------------------------------------------------------------------


class Factory:
    """What is in stock where. A part is used only after its delivery was acknowledged, so stock is never below zero."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._stock: dict[Place, int] = {(part, station): 0 for part in PARTS for station in SUPPLIERS}
        self._speed = ROWS_PER_SECOND / len(self._stock)
        self._delivered = set[Place]()
        self.late_supplier: str | None = None

    def use(self, seconds: float) -> list[Place]:
        """The parts that are built in meanwhile: as many as the line wants, or as there are."""
        used: list[Place] = []
        with self._lock:
            for place, stock in self._stock.items():
                wanted = round(self._speed * seconds * self._random.uniform(0.7, 1.3))
                taken = min(wanted, stock)
                self._stock[place] = stock - taken
                used += [place] * taken
        return used

    def deliveries(self, seconds: float) -> list[Place]:
        """A lorry for each place that needs one, some time after it does; none from a supplier who is late."""
        chance = 1 - math.exp(-seconds / LORRY_SECONDS)
        with self._lock:
            waiting = [place for place, stock in self._stock.items() if stock < self._speed * 0.8]
            served = [place for place in waiting if SUPPLIERS[place[1]] != self.late_supplier]
            load = round(self._speed * 2)
            return [place for place in served if self._random.random() < chance for _ in range(load)]

    def arrived(self, parts: Sequence[Place]) -> None:
        with self._lock:
            self._delivered.update(parts)
            for place in parts:
                self._stock[place] += 1

    def stock(self) -> dict[Place, int]:
        with self._lock:
            return {place: self._stock[place] for place in self._stock if place in self._delivered}


def as_arrow(parts: Sequence[Place]) -> pa.Table:
    names, stations = zip(*parts, strict=True)
    return pa.table({"part": pa.array(names, pa.string()), "station": pa.array(stations, pa.int32())})


# --- the streams ------------------------------------------------------------------------------------


@dataclass
class Feed:
    """A thread that inserts into one stream until it is told to stop."""

    stream: str
    work: Callable[[float], Sequence[Place]]
    then: Callable[[Sequence[Place]], None] = lambda parts: None
    rows: int = 0
    inserts: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=28))
    _seen: tuple[float, int] = (0.0, 0)

    def run(self, db: midstream.Database, stop: threading.Event) -> None:
        last = time.monotonic()
        self._seen = (last, 0)
        while not stop.wait(TICK):
            now = time.monotonic()
            # After a pause the line does not work faster than ten ticks at once.
            parts = self.work(min(now - last, 10 * TICK))
            last = now
            if parts:
                db.insert(self.stream, as_arrow(parts))
                self.then(parts)
                self.rows += len(parts)
                self.inserts += 1

    def rate(self) -> float:
        """Rows a second, by the last second or more."""
        now = time.monotonic()
        at, rows = self._seen
        if at and now - at > 0.9:
            self.rates.append((self.rows - rows) / (now - at))
            self._seen = (now, self.rows)
        return self.rates[-1] if self.rates else 0.0


@contextmanager
def feeding(db: midstream.Database, feeds: Sequence[Feed]) -> Iterator[Callable[[], None]]:
    """The feeds run until the function is called that this gives, or until the end."""
    stop, wrong = threading.Event(), list[BaseException]()

    def guarded(feed: Feed) -> None:
        try:
            feed.run(db, stop)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(feed,), name=feed.stream) for feed in feeds]
    for thread in threads:
        thread.start()

    def end() -> None:
        stop.set()
        for thread in threads:
            thread.join()
        if wrong:
            raise wrong[0]

    try:
        yield end
    finally:
        end()


# --- the story --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refresh:
    """One read of the view."""

    number: int
    at: float
    seconds: float
    least_rows: int
    """So many rows were acknowledged when it began; it has them all."""
    scn: int
    rows: list[tuple[str, str, str, int]]


@dataclass
class Story:
    """All that the screen shows."""

    started_at: float
    feeds: list[Feed]
    refreshes: list[Refresh] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)

    def clock(self) -> float:
        return time.monotonic() - self.started_at

    def tell(self, text: str) -> None:
        self.events.append((self.clock(), text))

    @property
    def rows(self) -> int:
        return sum(feed.rows for feed in self.feeds)


def read(db: midstream.Database, story: Story) -> Refresh:
    least, begun = story.rows, time.monotonic()
    result = db.sql(READ)
    rows = result.fetchall()
    seconds = time.monotonic() - begun
    refresh = Refresh(len(story.refreshes) + 1, story.clock(), seconds, least, result.scn or 0, rows)
    story.refreshes.append(refresh)
    return refresh


def play(db: midstream.Database, story: Story, factory: Factory, seconds: float, show: Callable[[Story], None]) -> None:
    """From empty streams to the end in about so many seconds; longer where the machine has much else to do."""
    db.sql(RELATIONS)
    db.sql(VIEW)
    db.sql(STOCK)
    with feeding(db, story.feeds) as end:
        show(story)
        read(db, story)
        story.tell("The first answer. What came in while Spark was starting counts.")
        show(story)
        rest = max(0.0, seconds - SECONDS_TO_END - story.clock())
        watch(db, story, show, story.clock() + rest * 0.3)
        factory.late_supplier = "Akagi"
        story.tell("Akagi's lorries stay away.")
        watch(db, story, show, story.clock() + rest * 0.35)
        db.sql(CHANGE)
        factory.late_supplier = None
        story.tell(f"{CHANGE};")
        watch(db, story, show, story.clock() + rest * 0.35)
        end()
    read(db, story)
    check(db, factory)
    story.tell("The streams stop. The views say what the factory has counted.")
    show(story)


def watch(db: midstream.Database, story: Story, show: Callable[[Story], None], until: float) -> None:
    """Reads the view once a second; three times at least, so that a slow machine shows something too."""
    last = len(story.refreshes) + 3
    while story.clock() < until or len(story.refreshes) < last:
        time.sleep(1 - story.clock() % 1)
        read(db, story)
        show(story)


def check(db: midstream.Database, factory: Factory) -> None:
    """The view and the factory agree to the last part."""
    found = {(part, station): n for part, station, n in db.sql("SELECT part, station, n FROM stock").fetchall()}
    if found != factory.stock():
        raise SystemExit(f"The view says {found}, but the factory has {factory.stock()}.")


# --- the screen -------------------------------------------------------------------------------------

BARS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], top: float | None = None) -> str:
    highest = top or max(values, default=0) or 1
    return "".join(BARS[min(len(BARS) - 1, round(value / highest * (len(BARS) - 1)))] for value in values)


def frame(story: Story) -> RenderableType:
    title = f"Midstream: a factory that must not run out of parts ({story.clock():.0f} s)"
    inside = Group(streams_table(story), Text(""), answer(story), Text(""), events(story))
    return Panel(inside, title=title, border_style="blue")


def streams_table(story: Story) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for feed in story.feeds:
        rate, bars = feed.rate(), sparkline(feed.rates, top=1.5 * ROWS_PER_SECOND)
        table.add_row(feed.stream, f"{rate:>7,.0f} rows/s", Text(bars, style="cyan"), f"{feed.rows:>9,} rows")
    return table


def answer(story: Story) -> RenderableType:
    if not story.refreshes:
        if not story.rows:
            return Text("Opening a database …", style="yellow")
        return Text("Spark is starting. The streams take rows already …", style="yellow")
    refresh = story.refreshes[-1]
    head = Text.assemble(
        ("SELECT * FROM resupply", "bold"),
        "   ",
        (f"{refresh.seconds * 1000:,.0f} ms", "bold green"),
        f" with all {refresh.least_rows:,} rows before it",
    )
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for name, width in (("part", 8), ("location", 16), ("supplier", 10), ("left_over", 9)):
        table.add_column(name, min_width=width)
    for part, location, supplier, left in refresh.rows[:SHOWN]:
        table.add_row(part, location, supplier_text(supplier), f"{left:>9}")
    for _ in range(SHOWN - len(refresh.rows)):
        table.add_row()
    more = len(refresh.rows) - SHOWN
    times = [r.seconds for r in story.refreshes[-30:]]
    foot = Text.assemble(
        (f"and {more} more\n" if more > 0 else "\n"),
        f"{refresh.number} refreshes, latency ",
        (sparkline(times, max(times[1:] or times)), "green"),
    )
    return Group(head, table, foot)


def supplier_text(supplier: str) -> Text:
    return Text(supplier, style={"Akagi": "red", "Brandt": "magenta"}.get(supplier, ""))


def events(story: Story) -> RenderableType:
    lines = [Text.assemble((f"{at:5.1f} s  ", "dim"), text) for at, text in story.events[-4:]]
    return Group(*lines, *(Text("") for _ in range(4 - len(lines))))


def line(story: Story) -> str:
    """A refresh in one line, where the screen cannot be drawn over."""
    if not story.refreshes:
        return f"{story.clock():5.1f} s  Spark is starting. The streams take rows already."
    refresh = story.refreshes[-1]
    rate = sum(feed.rate() for feed in story.feeds)
    low = ", ".join(f"{part} at {location} ({supplier}) {left}" for part, location, supplier, left in refresh.rows[:2])
    more = f", and {len(refresh.rows) - 2} more" if len(refresh.rows) > 2 else ""
    return (
        f"{refresh.at:5.1f} s  {story.rows:>9,} rows in, {rate:>7,.0f}/s   refresh {refresh.number:>2}: "
        f"{refresh.seconds * 1000:>6,.0f} ms   low: {low or 'nothing'}{more}"
    )


def summary(story: Story) -> RenderableType:
    feeding_seconds = story.refreshes[-1].at - story.refreshes[0].at + story.refreshes[0].seconds
    times = sorted(r.seconds * 1000 for r in story.refreshes[1:])
    points = statistics.quantiles(times, n=20, method="inclusive")
    table = Table.grid(padding=(0, 2))
    inserts = sum(feed.inserts for feed in story.feeds)
    table.add_row("rows in", f"{story.rows:,} in {inserts:,} inserts, each on the disk before it returned")
    table.add_row("rate", f"{story.rows / feeding_seconds:,.0f} rows/s in both streams together")
    table.add_row("refreshes", f"{len(story.refreshes)}, each with every row acknowledged before it")
    table.add_row("latency", f"p50 {points[9]:,.0f} ms, p95 {points[18]:,.0f} ms, the first one left out")
    table.add_row("all", f"{story.clock():.0f} s, Spark's start included")
    return table


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30, help="how long it takes, about (30)")
    seconds = parser.parse_args(arguments).seconds
    console = console or Console()
    factory = Factory()
    feeds = [
        Feed("part_restock", factory.deliveries, then=factory.arrived),
        Feed("part_usage", factory.use),
    ]
    story = Story(time.monotonic(), feeds)
    console.print(Syntax(VIEW.strip(), "sql", background_color="default") if console.is_terminal else VIEW.strip())
    with midstream.connect() as db:
        if console.is_terminal:
            with Live(get_renderable=lambda: frame(story), console=console, refresh_per_second=2) as live:
                play(db, story, factory, seconds, lambda _: live.refresh())
        else:
            play(db, story, factory, seconds, PlainLines(console))
    console.print(summary(story), highlight=False)
    console.print("\nThe same by hand: midstream shell factory.db, and docs/continuous-views.md", highlight=False)


class PlainLines:
    """Prints what is new: events, then the refresh."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = 0

    def __call__(self, story: Story) -> None:
        for at, text in story.events[self._told :]:
            self._console.print(f"{at:5.1f} s  {text}", highlight=False, soft_wrap=True)
        self._told = len(story.events)
        self._console.print(line(story), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
