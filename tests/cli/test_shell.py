"""The interactive shell: a real process on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import Terminal

pytestmark = pytest.mark.spark
COMMAND = [sys.executable, "-c", "from midstream.cli import main; main()"]
LONG_QUERY = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a % 7 = b % 11;"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": "", "PAGER": "cat"}
    terminal = Terminal([*COMMAND, "shell", str(tmp_path / "shop.db")], environment)
    terminal.expect("shop>")
    yield terminal
    terminal.type("\x04")
    terminal.wait()


def test_a_session_from_first_table_to_goodbye(shell: Terminal, tmp_path: Path) -> None:
    shell.type("CREATE TABLE gadget (id int, name text);\r")
    shell.expect("CREATE TABLE\n")
    shell.expect("shop>")

    shell.type("INSERT INTO gadget\r")
    shell.expect("->")
    shell.type("VALUES (1, 'door');\r")
    shell.expect("INSERT 0 1")

    shell.type("SELECT * FROM gad\t")
    shell.expect("gadget")
    shell.type(";\r")
    shell.expect("│  1 │ door │")
    shell.expect("(1 row)")

    shell.type("BEGIN;\r")
    shell.expect("shop*>")
    shell.type("SELECT nothing FROM gadget;\r")
    shell.expect("LINE 1: SELECT nothing FROM gadget")
    shell.expect("shop!>")
    shell.type("ROLLBACK;\r")
    shell.expect("shop>")

    shell.type("\\d gadget\r")
    shell.expect("│ name")
    shell.expect("shop>")
    shell.type("\\timing\r")
    shell.expect("Timing is on.")
    shell.type("SELECT 7 AS seven;\r")
    shell.expect("Time: ")
    shell.type("\\watch 0.2\r")
    shell.expect("│     7 │")
    shell.expect("│     7 │")
    shell.type("\x03")
    shell.expect("shop>")
    shell.type("\\nothing\r")
    shell.expect('there is no command "\\nothing"')
    shell.expect("shop>")

    assert "SELECT 7 AS seven;" in (tmp_path / ".midstream_history").read_text()


def test_ctrl_c_cancels_the_statement_or_ends_the_changes_and_keeps_the_shell(shell: Terminal) -> None:
    shell.type("SELECT 1 AS warm;\r")
    shell.expect("(1 row)")
    shell.type(LONG_QUERY + "\r")
    shell.expect("tasks")
    shell.type("\x03")
    shell.expect("ERROR:")
    shell.expect("shop>", seconds=20)
    shell.type("SELECT 41 + 1 AS answer;\r")
    shell.expect("│     42 │")
    shell.expect("shop>")

    shell.type("CREATE STREAM ticks (n int);\r")
    shell.expect("CREATE STREAM")
    shell.type("CREATE VIEW each_second AS SELECT count(*) AS n FROM ticks [WINDOW 1 SECOND];\r")
    shell.expect("CREATE VIEW")
    shell.type("INSERT INTO ticks VALUES (1);\r")
    shell.expect("INSERT 0 1")
    shell.type("SUBSCRIBE TO each_second;\r")
    shell.expect("Waiting for changes; Ctrl-C ends it.")
    shell.expect("  I  n=0")
    shell.type("\x03")
    shell.expect("shop>")


def test_a_second_process_is_told_who_has_the_database(shell: Terminal, tmp_path: Path) -> None:
    second = subprocess.run(
        [*COMMAND, "sql", str(tmp_path / "shop.db"), "SELECT 1"], capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert second.stdout == ""
    assert second.stderr.startswith("ERROR:")
    assert os.path.basename(str(tmp_path / "shop.db")) in second.stderr
