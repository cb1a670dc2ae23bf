"""The backslash commands: few, and named as psql names them.

A command is a function of the dialogue and its argument; its docstring is its line in `\\?`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from midstream.cli.dialogue import Dialogue
from midstream.cli.script import Entry, split
from midstream.errors import Cancelled, Error, InvalidParameter, SqlSyntaxError, StorageError


class Quit(Exception):  # noqa: N818
    """The user asked to leave."""


Command = Callable[[Dialogue, str], None]


class Failed(Exception):  # noqa: N818
    """An entry of a script failed: the database's error, the SQL that it is about, and its place (`load.sql:12: `)."""

    def __init__(self, error: Error, sql: str, place: str) -> None:
        super().__init__(place + error.message)
        self.error = error
        self.sql = sql
        self.place = place


def run_script(dialogue: Dialogue, text: str, name: str = "") -> None:
    """Runs entry by entry and stops at the first that fails. The last one needs no semicolon."""
    entries, rest = split(text)
    for entry in entries + ([rest] if rest else []):
        try:
            run_entry(dialogue, entry)
        except Error as error:
            sql = error.sql or ("" if entry.is_command else entry.text)
            raise Failed(error, sql, f"{name}:{_line(entry, error)}: " if name else "") from None


def run_entry(dialogue: Dialogue, entry: Entry) -> None:
    if entry.is_command:
        run_command(dialogue, entry.text)
    else:
        dialogue.run(entry.text)


def run_command(dialogue: Dialogue, text: str) -> None:
    name, _, argument = text.strip().rstrip(";").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise SqlSyntaxError(f'there is no command "{name}"', hint="\\? lists the commands.")
    command(dialogue, argument.strip())


def describe(dialogue: Dialogue, name: str) -> None:
    """\\d [NAME]      the tables, streams and views, or the columns of one"""
    if name:
        dialogue.run(f"DESCRIBE {name}")
    else:
        dialogue.run("SHOW TABLES")
        dialogue.run("SHOW STREAMS")
        dialogue.run("SHOW VIEWS")


def list_tables(dialogue: Dialogue, argument: str) -> None:
    """\\dt            the tables"""
    dialogue.run("SHOW TABLES")


def list_streams(dialogue: Dialogue, argument: str) -> None:
    """\\ds            the streams"""
    dialogue.run("SHOW STREAMS")


def list_views(dialogue: Dialogue, argument: str) -> None:
    """\\dv            the views"""
    dialogue.run("SHOW VIEWS")


def list_queries(dialogue: Dialogue, argument: str) -> None:
    """\\dq            the continuous queries"""
    dialogue.run("SHOW CONTINUOUS QUERIES")


def switch_expanded(dialogue: Dialogue, argument: str) -> None:
    """\\x [on|off]    rows as a line for each column, for rows that are wide"""
    dialogue.expanded = _switched(dialogue.expanded, argument)
    dialogue.screen.say(f"Expanded display is {'on' if dialogue.expanded else 'off'}.")


def _switched(was: bool, argument: str) -> bool:
    if argument not in ("", "on", "off"):
        raise InvalidParameter(f'"{argument}" is neither on nor off')
    return not was if argument == "" else argument == "on"


def switch_timing(dialogue: Dialogue, argument: str) -> None:
    """\\timing        time of each statement, on or off"""
    dialogue.timing = _switched(dialogue.timing, argument)
    dialogue.screen.say(f"Timing is {'on' if dialogue.timing else 'off'}.")


def watch(dialogue: Dialogue, argument: str) -> None:
    """\\watch [S]     the last query again every S seconds (2), until Ctrl-C"""
    seconds = _seconds(argument)
    query = dialogue.last_query
    if not query:
        raise InvalidParameter("there is no query to watch yet", hint="Run a SELECT first.")
    page, dialogue.page = dialogue.page, False
    try:
        with contextlib.suppress(KeyboardInterrupt, Cancelled):
            while True:
                dialogue.screen.say(f"{datetime.now():%H:%M:%S} (every {seconds:g} s, Ctrl-C ends)", style="dim")
                dialogue.run(query)
                time.sleep(seconds)
    finally:
        dialogue.page = page


def run_file(dialogue: Dialogue, name: str) -> None:
    """\\i FILE        the statements of a file"""
    run_script(dialogue, _read(name), name)


def show_help(dialogue: Dialogue, argument: str) -> None:
    """\\?             this list"""
    dialogue.screen.say("A statement ends with a semicolon; Tab completes; Ctrl-C cancels, Ctrl-D leaves.")
    for command in COMMANDS.values():
        dialogue.screen.say("  " + (command.__doc__ or ""))


def leave(dialogue: Dialogue, argument: str) -> None:
    """\\q             leave"""
    raise Quit


COMMANDS: dict[str, Command] = {
    "\\d": describe,
    "\\dt": list_tables,
    "\\ds": list_streams,
    "\\dv": list_views,
    "\\dq": list_queries,
    "\\x": switch_expanded,
    "\\timing": switch_timing,
    "\\watch": watch,
    "\\i": run_file,
    "\\?": show_help,
    "\\q": leave,
}


def _line(entry: Entry, error: Error) -> int:
    return entry.line if error.position is None else entry.line + error.position[0] - 1


def _read(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f'file "{name}" cannot be read', detail=str(error)) from None


def _seconds(argument: str) -> float:
    try:
        seconds = float(argument or 2)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise InvalidParameter(f'"{argument}" is no number of seconds', hint="Write \\watch 2, for example.")
    return seconds
