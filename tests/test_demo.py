"""`make demo` tells its story to the end, on a screen and in plain lines, and would notice a wrong answer."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import midstream

PATH = Path(__file__).parent.parent / "examples" / "factory.py"


@pytest.fixture(scope="module")
def factory() -> Any:
    spec = importlib.util.spec_from_file_location("factory", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["factory"] = module
    spec.loader.exec_module(module)
    return module


def test_the_story_is_told_to_its_end(factory: Any, database: midstream.Database) -> None:
    """The shared database keeps Spark alive."""
    file = io.StringIO()
    factory.main(["--seconds", "5"], Console(file=file, force_terminal=False, width=200))
    told = file.getvalue()
    before, after = told.split("UPDATE station", 1)
    assert "(Akagi) 0" in before.split("Akagi's lorries stay away")[1]
    assert "Akagi)" not in after, "the table has changed, and the view above it has not"
    assert "The views say what the factory has counted" in after
    [(rows, inserts)] = re.findall(r"rows in +([\d,]+) in ([\d,]+) inserts", after)
    assert int(rows.replace(",", "")) > int(inserts.replace(",", "")) > 10
    assert re.search(r"latency +p50 [\d,]+ ms, p95 [\d,]+ ms", after)


def test_the_screen_fits_a_terminal_of_80_columns(factory: Any) -> None:
    feeds = [factory.Feed(stream, lambda seconds: []) for stream in ("part_restock", "part_usage")]
    feeds[0].rates.extend([20_000.0] * 100)
    story = factory.Story(0.0, feeds)
    assert "Opening a database" in drawn(factory.frame(story))
    feeds[0].rows = 123_456_789
    assert "Spark is starting" in drawn(factory.frame(story))
    rows = [("mirror", "Hall A, gate 2", "Northwind", number % 5) for number in range(24)]
    story.refreshes = [factory.Refresh(n, n, n / 10, 123_456_789, n, rows) for n in range(1, 100)]
    for _ in range(9):
        story.tell(f"{factory.CHANGE};")
    shown = drawn(factory.frame(story))
    assert "9,900 ms with all 123,456,789 rows before it" in shown and "99 refreshes" in shown
    assert "and 18 more" in shown
    assert max(map(len, shown.splitlines())) == 80
    assert len(shown.splitlines()) <= 26


def drawn(screen: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(screen)
    return file.getvalue()


def test_a_wrong_answer_is_noticed(factory: Any, db: Any) -> None:
    db.sql(factory.RELATIONS)
    db.sql(factory.STOCK)
    line = factory.Factory()
    parts = line.deliveries(1000)
    db.insert("part_restock", factory.as_arrow(parts))
    line.arrived(parts)
    factory.check(db, line)
    line.arrived(parts[:1])
    with pytest.raises(SystemExit, match="the factory has"):
        factory.check(db, line)


def test_an_insert_that_fails_ends_the_story(factory: Any, db: Any) -> None:
    failed = threading.Event()

    def work(seconds: float) -> list[tuple[str, int]]:
        failed.set()
        return [("wheel", 1)]

    with pytest.raises(midstream.Error, match="nowhere"), factory.feeding(db, [factory.Feed("nowhere", work)]) as end:
        assert failed.wait(30)
        end()


def test_stock_is_used_only_after_it_was_delivered(factory: Any) -> None:
    line = factory.Factory()
    assert line.use(1.0) == []
    parts = line.deliveries(1000)
    line.arrived(parts)
    assert 0 < len(line.use(1.0)) < len(parts)
    while line.use(1.0):
        pass
    assert set(line.stock().values()) == {0}
    line.late_supplier = "Akagi"
    assert {factory.SUPPLIERS[station] for _, station in line.deliveries(1000)} == {"Northwind", "Brandt"}
