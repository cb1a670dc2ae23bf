"""The code in README and docs runs, and answers what the page says.

The blocks of one page share one empty database and one Python namespace, in order:

    ```sql                runs; a ```text block right behind it is what the last statement answers, an error too
    ```sql not yet        each statement is refused as not supported
    ```python             runs
    ```console            a session in the shell: lines with a prompt are typed, the others are the answer

Other blocks are for reading.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

import midstream
from midstream.cli.commands import Failed, run_script
from midstream.cli.dialogue import Dialogue
from midstream.cli.screen import Screen
from midstream.cli.script import split

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\w+[*!]?> |^ +-> ")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    place: str
    answer: str | None = None


def blocks(page: Path) -> list[Block]:
    """The page's code blocks; a text block that follows at once is the answer of the one before."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        place = f"{page.name}:{text.count(chr(10), 0, fence.start()) + 1}"
        if fence["language"] == "text" and found and not text[end : fence.start()].strip():
            question = found.pop()
            found.append(Block(question.language, question.text, question.place, fence["text"]))
        else:
            found.append(Block(fence["language"], fence["text"], place))
        end = fence.end()
    return found


class Reader:
    """Follows one page: types what it says and compares what comes back."""

    def __init__(self, db: midstream.Database) -> None:
        self._db = db
        self._names: dict[str, object] = {"db": db, "midstream": midstream}
        self._typed = Dialogue(db, db.session(), Screen())

    def follow(self, block: Block) -> None:
        match block.language:
            case "sql":
                self._run_sql(block)
            case "sql not yet":
                self._expect_refusals(block)
            case "python":
                exec(compile(block.text, block.place, "exec"), self._names)
            case "console":
                self._type(block)

    def _run_sql(self, block: Block) -> None:
        entries, rest = split(block.text)
        *first, last = [*entries, *([rest] if rest else [])]
        for entry in first:
            answer = self._answer(entry.text + ";", is_terminal=False)
            assert not answer.startswith("ERROR"), f"{block.place}: {answer}"
        answer = self._answer(last.text + ";", is_terminal=False)
        if block.answer is not None:
            assert answer == block.answer, f"{block.place}: the page says otherwise"
        else:
            assert not answer.startswith("ERROR"), f"{block.place}: {answer}"

    def _expect_refusals(self, block: Block) -> None:
        for entry in split(block.text)[0]:
            with pytest.raises(midstream.Error) as refused:
                self._db.sql(entry.text)
            assert refused.value.sqlstate == "0A000", f"{block.place}: {entry.text}: {refused.value}"

    def _type(self, block: Block) -> None:
        for typed, expected in exchanges(block.text):
            assert self._answer(typed, is_terminal=True) == expected, f"{block.place}: {typed}"

    def _answer(self, text: str, is_terminal: bool) -> str:
        file = io.StringIO()
        console = Console(file=file, force_terminal=is_terminal, color_system=None, width=100, highlight=False)
        # Errors go the same way, but a slow machine must not draw progress bars between them.
        self._typed.screen = Screen(console, Console(file=file, force_terminal=False, highlight=False))
        try:
            run_script(self._typed, text)
        except Failed as failed:
            self._typed.screen.show_error(failed.error, failed.sql, failed.place)
        return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def exchanges(session: str) -> Iterator[tuple[str, str]]:
    """(what was typed, what came back) of a session in the shell; `$` lines start it and are not typed."""
    typed: list[str] = []
    answered: list[str] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            continue
        prompt = PROMPT.match(line)
        if prompt and answered:
            yield "\n".join(typed), "".join(answered)
            typed, answered = [], []
        if prompt:
            typed.append(line[prompt.end() :])
        else:
            answered.append(line.rstrip() + "\n")
    if typed:
        yield "\n".join(typed), "".join(answered)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_the_page_runs_and_answers_what_it_says(
    page: Path, tmp_path: Path, database: midstream.Database
) -> None:
    """The shared database keeps Spark alive between the pages."""
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        with midstream.connect(str(tmp_path / "page.db")) as db:
            reader = Reader(db)
            for block in blocks(page):
                reader.follow(block)
    finally:
        os.chdir(before)


LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "bench/README.md"], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    broken = [link for link in LINK.findall(prose) if not (page.parent / link).exists()]
    assert broken == []


def test_the_readme_names_the_two_commands_to_start_with() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme and "make test" in readme
