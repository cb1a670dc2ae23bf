"""A process on a pseudo-terminal: what a person at the keyboard sees and types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x1b\][^\x07]*\x07")
_SIZE = struct.pack("HHHH", 40, 100, 0, 0)


class Terminal:
    """`expect` waits for a text behind what was expected last, so the order of events is part of a test."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # Without a real terminal behind it, nobody answers the question where the cursor is.
        settings = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environment}
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            os.execvpe(command[0], command, settings)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, _SIZE)
        self._seen = ""
        self._from = 0

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def expect(self, text: str, seconds: float = 60) -> str:
        """What was printed from the last expected text up to and including this one."""
        deadline = time.monotonic() + seconds
        while (found := self._seen.find(text, self._from)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not come; the screen says:\n{self._seen[self._from :]}")
        start, self._from = self._from, found + len(text)
        return self._seen[start : self._from]

    def wait(self, seconds: float = 30) -> int:
        """The exit code, once the process has ended; one that does not end in time is killed."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        if time.monotonic() >= deadline:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(status)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            return False
        self._seen += _CONTROL.sub("", data.decode(errors="replace")).replace("\r", "")
        return bool(data)
