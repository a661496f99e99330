"""A terminal of our own around a program: answers its questions, and keeps which modes are on."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.emulator import Emulator

_MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
_KITTY = re.compile(rb"\x1b\[([><])(\d*)u")
_ASKED = re.compile(rb"\x1b\[\?(\d+)\$p")
_TITLE = re.compile(rb"\x1b\][012];")
_CLIPBOARD = re.compile(rb"\x1b\]52;")
_ON_AT_FIRST = {7, 25}
_BACKGROUND = re.compile(rb"(?<!\x1b)\x1b\]11;\?\x1b\\")
_IN_FRONT = 'exec "$@" <"$0" >"$0" 2>&1'
"""A session's leader that opens a terminal has it as its own; a fork of a test runner, which has
threads, could hang."""


@dataclass
class Terminal:
    """A program on a pseudo-terminal; ``output`` is every byte that it wrote."""

    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    size: tuple[int, int] = (80, 24)
    output: bytes = b""
    status: int | None = None
    background: str = ""
    """What it answers when it is asked for its background (``rgb:…``); without one it is silent."""

    def __post_init__(self) -> None:
        env = {**os.environ, **self.env}
        for name in ("COLUMNS", "LINES"):  # a test runner's own size would win over the terminal's
            env.pop(name, None)
        self.fd, follower = pty.openpty()
        self.resize(*self.size)
        self._process = subprocess.Popen(
            ["sh", "-c", _IN_FRONT, os.ttyname(follower), *self.argv],
            stdin=follower, stdout=follower, stderr=follower, env=env, start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid
        os.close(follower)
        self.screen = Emulator(*self.size)
        self._answered = 0
        self._told = 0

    def read(self, seconds: float) -> bool:
        """Read for at most ``seconds``; return False once the program is gone."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:
            return False
        self.output += chunk
        self.screen.feed(chunk)
        self._answer()
        return bool(chunk)

    def wait_for(self, words: str, seconds: float = 60.0) -> None:
        """Read until ``words`` stand on the screen, or were written as they are."""
        until = time.monotonic() + seconds
        while words not in self.screen.text() and words.encode() not in self.output:
            assert time.monotonic() < until and self.read(0.2), f"never saw {words!r}"

    def idle(self, seconds: float) -> bytes:
        """Return what is written within ``seconds``."""
        before, until = len(self.output), time.monotonic() + seconds
        while time.monotonic() < until:
            self.read(0.05)
        return self.output[before:]

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Make it another size; the program is told."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, seconds: float = 60.0) -> float:
        """Read until the program is gone; return how long that took (s)."""
        began = time.monotonic()
        while self.status is None:
            if time.monotonic() - began > seconds:
                os.kill(self.pid, signal.SIGKILL)
            self.read(0.02)
            self.status = self._process.poll()
        took = time.monotonic() - began
        while self.read(0.05) and select.select([self.fd], [], [], 0)[0]:
            pass
        os.close(self.fd)
        return took

    def hang_up(self, seconds: float = 60.0) -> None:
        """Take the terminal away, as a closed window or a lost connection does."""
        os.close(self.fd)
        until = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
            self.status = self._process.poll()
            select.select([], [], [], 0.02)

    @property
    def left_on(self) -> set[str]:
        """Return the modes that are not as they were before the program began."""
        on: dict[int, bool] = {}
        for found in _MODES.finditer(self.output):
            for number in found.group(1).split(b";"):
                on[int(number)] = found.group(2) == b"h"
        left = {str(mode) for mode, is_on in on.items() if is_on != (mode in _ON_AT_FIRST)}
        depth = 0
        for found in _KITTY.finditer(self.output):
            depth = depth + 1 if found.group(1) == b">" else max(0, depth - 1)
        return left | ({"kitty"} if depth else set())

    @property
    def titles_and_clipboards(self) -> int:
        return len(_TITLE.findall(self.output)) + len(_CLIPBOARD.findall(self.output))

    def after_the_screen(self) -> str:
        """Return what was printed once the alternate screen was left."""
        return self.output.rpartition(b"\x1b[?1049l")[2].decode(errors="replace")

    def _answer(self) -> None:
        """Answer mode queries as a modern terminal does: known, and off."""
        for found in _ASKED.finditer(self.output, self._answered):
            os.write(self.fd, b"\x1b[?%s;2$y" % found.group(1))
            self._answered = found.end()
        asked = len(_BACKGROUND.findall(self.output))
        for _ in range(asked - self._told if self.background else 0):
            os.write(self.fd, b"\x1b]11;%s\x1b\\" % self.background.encode())
        self._told = asked
        for answer in self.screen.answers:
            os.write(self.fd, answer.encode())
        self.screen.answers.clear()
