"""What the processes that get killed have in common: their arguments, what they say, and how they die.

    python child.py FOLDER SEED FIRST_STEP [--die-at N [--within PART_OF_A_PATH]]

They take numbered steps, and say one line of JSON before each ("try") and one after it ("done", with its SCN). With
--die-at they kill themselves with SIGKILL at the N-th call or return of any Python or C function, so that every moment
between two calls comes up sooner or later, without a hook in the product; with --within, only those in a part of the
code count: midstream/log, say.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import midstream

Step = Callable[[Any, int], Any]
"""Changes the database, and gives the SCN if there is one."""


def read_arguments(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("seed", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--within", default="")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def beside(name: str) -> Path:
    """A file beside the database's folder."""
    return Path(sys.argv[1]).with_name(name)


def tell(event: str, **facts: Any) -> None:
    os.write(sys.stdout.fileno(), (json.dumps({"event": event, **facts}) + "\n").encode())


def opened(arguments: argparse.Namespace) -> Any:
    """The database. Calls count from now on, those of the threads that it started included: they make the batches, cut
    the log, merge states."""
    is_open = threading.Event()
    if arguments.die_at:
        die_at_call(arguments.die_at, arguments.within, is_open)
    db = midstream.connect(arguments.folder)
    is_open.set()
    tell("open", step=-1)
    return db


def die_at_call(number: int, within: str = "", since: threading.Event | None = None) -> None:
    """Counts the calls and returns of this thread and of all to come, and goes without a word at the given one."""
    left = [number]

    def count(frame: FrameType, _event: str, _argument: Any) -> None:
        if (since is None or since.is_set()) and within in frame.f_code.co_filename:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


def take_step(steps: Mapping[str, Step], kind: str, db: Any, number: int) -> None:
    tell("try", step=number, kind=kind)
    scn = steps[kind](db, number)
    tell("done", step=number, kind=kind, scn=scn)


def feeder(
    steps: Mapping[str, Step], weights: Sequence[int], db: Any, seed: int, numbers: Iterator[int]
) -> Callable[[], None]:
    """The work of one thread of several, whose steps have different numbers."""
    chosen = random.Random(seed)

    def feed() -> None:
        for number in numbers:
            take_step(steps, chosen.choices(list(steps), weights)[0], db, number)

    return feed


def run_together(works: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
