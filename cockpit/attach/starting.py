"""Starts the engine of a run file for windows, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Final

from cockpit.attach.meeting import Meeting, Peer
from cockpit.runtime.own_path import own_python
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

HOST: Final = "cockpit.attach.host"
_TOLD: Final = 2_000


class Starter:
    """Starts engines for one run file, one at a time, and knows why one did not come up."""

    def __init__(self, run_file: str) -> None:
        self._run_file = run_file
        self._log: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, meeting: Meeting, instead_of: Peer | None = None) -> None:
        """Start one unless one is coming up; ``instead_of`` hangs and is to be replaced.

        Blocking (some milliseconds); raises ``OSError``.
        """
        if self.coming_up:
            return
        words = [*own_python(HOST), self._run_file]
        if instead_of is not None:
            words += ["--instead-of", str(instead_of.pid)]
        self._log = meeting.log
        flags = (
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
        )  # what lies there may be a FIFO
        handle = os.open(meeting.log, flags, 0o600)
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=handle, stderr=handle,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(handle)
        threading.Thread(target=self._process.wait, daemon=True).start()  # no zombie stays

    def came_up(self) -> None:
        """Take note that an engine serves: the next one is started anew."""
        self._process = None

    @property
    def coming_up(self) -> bool:
        """Whether the engine that was started last still runs."""
        return self._process is not None and self._process.poll() is None

    def failed(self) -> str | None:
        """Return why the engine that was started last ended at once, if it did."""
        if self._process is None or self._process.poll() in (None, 0):
            return None
        try:
            said = "" if self._log is None else _end_of(self._log)
        except OSError:
            said = ""
        lines = [line for line in said.splitlines() if line.strip()]
        last = clean(scrub(lines[-1]), 200) if lines else "it said nothing"
        return f"exit status {self._process.returncode}: {last}"


def _end_of(log: Path) -> str:
    return log.read_bytes()[-_TOLD:].decode("utf-8", "replace")
