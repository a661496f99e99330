"""A real tmux with a server, a socket and a shell of its own: types keys, reads the screen."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.e2e.tiny_fleet import until

PROMPT = "ready>"


class Tmux:
    """One window with a plain shell in it."""

    def __init__(self, folder: Path, size: tuple[int, int], env: dict[str, str]) -> None:
        self.folder = folder
        self.env = {**os.environ, **env, "TMUX_TMPDIR": str(folder)}
        for name in ("TMUX", "TMUX_PANE", "COLUMNS", "LINES", "ENV"):
            self.env.pop(name, None)
        columns, rows = map(str, size)
        self.tell("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "sh")
        self.pids = [
            int(self.tell("display-message", "-p", f"#{{{n}}}")) for n in ("pane_pid", "pid")
        ]

    def ready(self) -> None:
        """Wait until the shell takes commands; its prompt is then ``PROMPT``."""
        self.run_line("PS1='rea''dy> '; clear")
        self.see(PROMPT)

    def tell(self, *words: str) -> str:
        """Run a tmux command; the socket's path is relative, for sockets' paths must be short."""
        done = subprocess.run(
            ["tmux", "-u", "-S", "socket", *words],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def run(self, *command: str) -> None:
        """Start a command in the shell; its exit status is told once it has ended."""
        self.run_line(f'{shlex.join(command)}; echo "left with $?"')

    def run_line(self, line: str) -> None:
        """Type a line and Enter."""
        self.tell("send-keys", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self.tell("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self.tell("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def screen(self) -> str:
        """Return what stands on the screen, as plain text."""
        return self.tell("capture-pane", "-p", "-t", ":")

    def see(self, *words: str) -> str:
        """Wait until all ``words`` stand on the screen; return the screen."""
        return self.see_that(lambda seen: all(word in seen for word in words), ", ".join(words))

    def see_that(
        self, true: Callable[[str], bool], what: str = "that", patience: float = 120.0
    ) -> str:
        """Wait until the screen is as it shall be; return it."""
        seen = [""]

        def is_so() -> bool:
            seen[0] = self.screen
            return true(seen[0])

        until(is_so, lambda: f"never saw {what} on:\n{seen[0]}", patience)
        return seen[0]

    def end(self) -> None:
        """End the server with everything in it, and wait until both are gone."""
        self.tell("kill-server")
        until(lambda: not any(map(_lives, self.pids)), lambda: f"one of {self.pids} stays")


def _lives(pid: int) -> bool:
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return told.stdout.strip()[:1] not in ("", "Z")
