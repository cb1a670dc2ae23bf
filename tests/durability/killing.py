"""Kills children again and again over one folder, and hears what they acknowledged.

Each round starts a child, kills it with SIGKILL after a random time or lets it die at a random call of a function,
opens the folder here and looks.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import midstream

HERE = Path(__file__).parent
SOURCE = Path(midstream.__file__).parents[1]
Way = Callable[[random.Random], list[str]]
"""How a child is to die, as arguments for it."""


def by_our_hand(chosen: random.Random) -> list[str]:
    return []


def at_a_call(low: float, high: float, *within: str) -> Way:
    """At one between 10 ** low and 10 ** high, in one of some parts of the code."""

    def way(chosen: random.Random) -> list[str]:
        part = ["--within", chosen.choice(within)] if within else []
        return ["--die-at", str(int(10 ** chosen.uniform(low, high))), *part]

    return way


@dataclass
class Ledger:
    """What the children have said so far."""

    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)
    """Not acknowledged, but there when the database was opened: to stay from now on."""
    in_doubt: dict[int, str] = field(default_factory=dict)
    last_step: int = 0

    def hear(self, lines: list[str]) -> None:
        for line in lines:
            said = json.loads(line)
            self.last_step = max(self.last_step, said["step"])
            if said["event"] == "try":
                self.in_doubt[said["step"]] = said["kind"]
            elif said["event"] == "done":
                self.in_doubt.pop(said["step"])
                self.done[said["step"]] = said

    @property
    def certain(self) -> dict[int, str]:
        """The kinds of the steps that must be there."""
        return {**self.found, **{step: said["kind"] for step, said in self.done.items()}}

    @property
    def possible(self) -> dict[int, str]:
        return {**self.in_doubt, **self.certain}

    def done_of(self, kind: str) -> set[int]:
        return _of(kind, self.certain)

    def may_be(self, kind: str) -> set[int]:
        return _of(kind, self.possible)

    def settle(self, there: Collection[int]) -> None:
        """What was in doubt is now known: it happened, or it never will."""
        self.found |= {step: kind for step, kind in self.in_doubt.items() if step in there}
        self.in_doubt.clear()


def _of(kind: str, steps: Mapping[int, str]) -> set[int]:
    return {step for step, found in steps.items() if found == kind}


def kill_rounds(
    folder: Path,
    ledger: Ledger,
    child: str,
    ways: Sequence[Way],
    check: Callable[[Any], None],
    *,
    rounds: int,
    seed: int,
    longest: float,
    options: Sequence[str] = (),
) -> None:
    """Each child lives `longest` seconds at most."""
    chosen = random.Random(seed)
    for number in range(rounds):
        how = ways[number % len(ways)](chosen)
        after = longest if how else chosen.uniform(0.5, longest)
        arguments = [str(folder), str(chosen.randrange(10**6)), str(ledger.last_step + 1), *how, *options]
        lines = run_and_kill([str(HERE / child), *arguments], after)
        ledger.hear(lines)
        with midstream.connect(str(folder)) as db:
            try:
                check(db)
            except AssertionError as wrong:
                said = "".join(lines[-6:])
                raise AssertionError(f"round {number}, seed {seed}, {how}: {wrong}\n{said}") from wrong
    assert len(ledger.done) >= rounds, "the children hardly did anything"


def run_and_kill(program: Sequence[str], after: float) -> list[str]:
    """The lines that a child said before it went; it dies by itself at a call, or by our hand after a time."""
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}", "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        [sys.executable, *program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.append(child.stderr.read() if child.stderr else ""))
    reader.start()
    try:
        lines = _read_until_killed(child, after)
    finally:
        _kill_group(child)
        reader.join()
    how_it_ended = f"the child ended by itself with {child.returncode}:\n{complaints[0][-4000:]}"
    assert child.returncode == -signal.SIGKILL, how_it_ended
    assert "Traceback" not in complaints[0], complaints[0][-4000:]
    return lines


def _read_until_killed(child: subprocess.Popen[str], after: float) -> list[str]:
    assert child.stdout is not None
    lines = [child.stdout.readline()]
    if not lines[0]:
        child.wait(timeout=30)
        return []
    timer = threading.Timer(after, child.kill)
    timer.start()
    lines += child.stdout.readlines()
    child.wait(timeout=30)
    timer.cancel()
    return [line for line in lines if line.endswith("\n")]


def _kill_group(child: subprocess.Popen[str]) -> None:
    """The child and the JVM that it may have started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
