"""The pictures in docs are those that docs/pictures.py draws, and each is on a page."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PICTURES: dict[str, Callable[[], str]] = runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"]


@pytest.mark.parametrize("name", PICTURES)
def test_the_committed_picture_is_what_the_script_draws(name: str) -> None:
    drawn = PICTURES[name]()
    ElementTree.fromstring(drawn)
    committed = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    assert committed == drawn, "run: python docs/pictures.py"


def test_there_is_no_picture_that_nobody_draws_or_shows() -> None:
    files = {path.name for path in (DOCS / "pictures").iterdir()}
    shown = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert files == {f"{name}.svg" for name in PICTURES}
    assert [name for name in sorted(files) if f"(pictures/{name})" not in shown] == []
