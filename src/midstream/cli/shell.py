"""The prompt around a dialogue: history, completion, several lines until a semicolon.

    shop> BEGIN;
    BEGIN
    shop*> UPDATE part SET stock = stock - 1
       ->  WHERE id = 7;
    UPDATE 1
    shop*> COMMIT;

The star is an open transaction; `!` is one that failed and waits for ROLLBACK.
"""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import PostgresLexer

from midstream.cli.commands import Failed, Quit, run_script
from midstream.cli.completion import Names, SqlCompleter
from midstream.cli.dialogue import Dialogue
from midstream.cli.script import is_finished

_MARKS = {"none": "", "open": "*", "failed": "!"}


class Shell:
    """Reads and runs until the user leaves. Errors are shown, and the shell goes on."""

    def __init__(
        self, dialogue: Dialogue, title: str, *, input: Input | None = None, output: Output | None = None
    ) -> None:
        self._dialogue = dialogue
        self._title = title
        self._names = Names(dialogue)
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(),
            completer=SqlCompleter(self._names),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(PostgresLexer),
            multiline=True,
            prompt_continuation=self._continuation,
            key_bindings=_key_bindings(),
            input=input,
            output=output,
        )

    def run(self) -> None:
        while True:
            try:
                self._names.refresh()
                self._run_text(self._prompt.prompt(self._ready))
            except KeyboardInterrupt:
                continue
            except (EOFError, Quit):
                return

    def _run_text(self, text: str) -> None:
        try:
            run_script(self._dialogue, text)
        except Failed as failed:
            self._dialogue.screen.show_error(failed.error, failed.sql, failed.place)

    def _ready(self) -> AnyFormattedText:
        return [("bold", self._title + _MARKS[self._dialogue.transaction] + "> ")]

    def _continuation(self, width: int, line: int, wrap_count: int) -> AnyFormattedText:
        return [("ansibrightblack", "-> ".rjust(width))]


def history_file() -> Path:
    """XDG's state folder where one is set, else a hidden file at home."""
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state) / "midstream" / "history" if state else Path.home() / ".midstream_history"


def _history() -> History:
    """A home that cannot be written costs the history, not the shell."""
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~completion_is_selected)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    return bindings
