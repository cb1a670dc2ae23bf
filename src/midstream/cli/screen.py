"""Rows, errors and progress for eyes.

On a terminal: tables with rules, a pager for what does not fit, colour, and a bar once a statement takes longer
than a second. Into a pipe: the same rows as plain columns, complete and never folded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from midstream.errors import Error
from midstream.ingest.printed import plain

if TYPE_CHECKING:
    from midstream import Result

ROWS_SHOWN = 1_000
SECONDS_BEFORE_PROGRESS = 1.0
SECONDS_BETWEEN_POLLS = 0.2
_NUMBERS = ("smallint", "int", "bigint", "real", "double precision", "numeric")


class Job(Protocol):
    """A running job, as `Database.progress` reports it."""

    @property
    def label(self) -> str: ...
    @property
    def tasks_done(self) -> int: ...
    @property
    def tasks(self) -> int: ...


class Screen:
    """Where a dialogue prints: rows and statuses to one console, errors and progress to the other."""

    def __init__(self, output: Console | None = None, errors: Console | None = None) -> None:
        self.output = output or Console(highlight=False)
        self.errors = errors or Console(stderr=True, highlight=False)

    def say(self, text: str, style: str = "") -> None:
        self.output.print(Text(text, style=style), soft_wrap=True)

    def show_result(self, result: Result, page: bool = False, expanded: bool = False) -> None:
        if not result.has_rows:
            self.say(result.status)
        elif expanded:
            self._show_records(result, page)
        elif self.output.is_terminal:
            self._show_table(result, page)
        else:
            self._print_columns(result)

    def show_error(self, error: Error, sql: str, where: str = "") -> None:
        """The message, the line with a caret, DETAIL and HINT, each voice in its colour."""
        text = Text(where)
        for line in error.render(sql).splitlines(keepends=True):
            text.append(line, style=_style_of_error_line(line))
        self.errors.print(text, soft_wrap=True)

    def show_notice(self, notice: str) -> None:
        self.errors.print(Text(f"NOTICE:  {notice}", style="yellow"), soft_wrap=True)

    def _show_table(self, result: Result, page: bool) -> None:
        rows = result.fetchall()
        table = _table(result, rows[:ROWS_SHOWN])
        with self._paged(page and len(rows) > self.output.height - 6):
            self.output.print(table)
            self.say(_count(len(rows)), style="dim")

    def _show_records(self, result: Result, page: bool) -> None:
        rows = result.fetchall()
        lines = list(plain_records(result.columns, [[_cell(value) for value in row] for row in rows[:ROWS_SHOWN]]))
        with self._paged(page and len(lines) > self.output.height - 6):
            for line in lines:
                self.say(line)
            self.say(_count(len(rows)), style="dim")

    @contextlib.contextmanager
    def _paged(self, page: bool) -> Iterator[None]:
        command = _pager() if page else None
        if command is None:
            yield
            return
        with self.output.capture() as captured:
            yield
        # The pager may be left before it has read everything.
        with contextlib.suppress(BrokenPipeError):
            subprocess.run(command, input=captured.get().encode(), check=False)

    def _print_columns(self, result: Result) -> None:
        rows = [[_cell(value) for value in row] for row in result.fetchall()]
        for line in plain_columns(result.columns, [_is_number(type) for type in result.types], rows):
            self.output.file.write(line + "\n")
        self.output.file.write(_count(len(rows)) + "\n")
        self.output.file.flush()

    @contextlib.contextmanager
    def progress(self, jobs: Callable[[], Sequence[Job]]) -> Iterator[None]:
        """Shows a bar for each running job while the body runs, once it has taken long enough to wonder."""
        if not self.errors.is_terminal:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(jobs, done), name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, jobs: Callable[[], Sequence[Job]], done: threading.Event) -> None:
        if done.wait(SECONDS_BEFORE_PROGRESS):
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} tasks"))
        with Progress(*columns, TimeElapsedColumn(), console=self.errors, transient=True) as progress:
            bars: dict[str, TaskID] = {}
            while not done.wait(SECONDS_BETWEEN_POLLS):
                # A bar is a courtesy: when the database is closing there is nothing to show.
                with contextlib.suppress(Error):
                    _draw(progress, bars, jobs())


def plain_columns(names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines like psql's: names, a rule, rows."""
    widths = [max([cell_len(name), *(_width(row[i]) for row in rows)]) for i, name in enumerate(names)]
    yield _columns_line(names, widths, [False] * len(names))
    yield "-+-".join("-" * width for width in widths)
    for row in rows:
        yield _columns_line([cell.replace("\n", "↵") for cell in row], widths, right)


def plain_records(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines like psql's expanded ones: a rule for each row, then a line for each of its columns."""
    width = max((cell_len(name) for name in names), default=0)
    for number, row in enumerate(rows, 1):
        yield f"-[ {number} ]".ljust(width + 1, "-") + "-" * 10
        for name, cell in zip(names, row, strict=True):
            yield f"{name}{' ' * (width - cell_len(name))} | {cell.replace(chr(10), '↵')}".rstrip()


def _columns_line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if is_right else cell + space)
    return " | ".join(padded).rstrip()


def _width(cell: str) -> int:
    return cell_len(cell.replace("\n", "↵"))


def _table(result: Result, rows: Sequence[Sequence[object]]) -> Table:
    table = Table(box=box.ROUNDED, header_style="bold", border_style="dim")
    for name, type in zip(result.columns, result.types, strict=True):
        table.add_column(Text(name), justify="right" if _is_number(type) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(plain(value)) for value in row))
    return table


def _cell(value: object) -> str:
    return "" if value is None else plain(value)


def _is_number(type: str) -> bool:
    return type.partition("(")[0] in _NUMBERS


def _count(rows: int) -> str:
    if rows > ROWS_SHOWN:
        return f"(the first {ROWS_SHOWN:,} of {rows:,} rows)"
    return "(1 row)" if rows == 1 else f"({rows:,} rows)"


def _style_of_error_line(line: str) -> str:
    if line.startswith("ERROR:"):
        return "bold red"
    if line.strip() == "^":
        return "bold yellow"
    if line.startswith("HINT:"):
        return "green"
    return ""


def _draw(progress: Progress, bars: dict[str, TaskID], jobs: Sequence[Job]) -> None:
    running = {f"{number} {job.label}": job for number, job in enumerate(jobs)}
    for key in bars.keys() - running.keys():
        progress.remove_task(bars.pop(key))
    for key, job in running.items():
        if key not in bars:
            bars[key] = progress.add_task(job.label or "running", total=job.tasks)
        progress.update(bars[key], completed=job.tasks_done, total=job.tasks)


def _pager() -> list[str] | None:
    wanted = os.environ.get("PAGER")
    if wanted is not None:
        return wanted.split() or None
    less = shutil.which("less")
    return [less, "-RFX"] if less else None
