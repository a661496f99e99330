"""Waits beside a demo and stops its processes when the demo is gone, however it went.

Run as ``python -m cockpit.demo.guard DIR``. It holds the reading end of a pipe: the line ``keep``
sends it away; a line ``stop SECONDS``, or the pipe's end (the demo crashed or was killed), makes
it stop everything that the pid files in ``DIR`` name.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from cockpit.demo.layout import DemoBusyError, DemoLayout, Lock
from cockpit.demo.processes import LOOK, stop
from cockpit.runtime.own_path import own_python

PATIENCE = 5.0
"""Seconds in which the runs may save a checkpoint before they are killed."""
SETTLE = 1.0
"""Seconds in which a process whose start was under way when the demo died shows up."""
LONGEST = 30.0
"""Seconds in which the guard of a demo that was killed has stopped everything."""


class DemoGuard:
    """A guard process, seen from the demo; it alone holds the lock ``guarded`` while it lives.

    Raises ``DemoBusyError`` where another guard is at work.
    """

    def __init__(self, layout: DemoLayout) -> None:
        self._layout = layout
        with Lock(layout.guarded) as lock:
            self._process = subprocess.Popen(
                own_python("cockpit.demo.guard", str(layout.folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )

    def release(self, *, keep: bool, patience: float = PATIENCE) -> None:
        """Let the guard stop everything, or leave everything as it is; wait until it has.

        Processes that have not ended by themselves after ``patience`` seconds are killed.
        """
        assert self._process.stdin is not None
        word = "keep" if keep else f"stop {patience}"
        try:
            with self._process.stdin as pipe:
                pipe.write(f"{word}\n".encode())
        except BrokenPipeError:  # somebody killed the guard: nothing must depend on it
            if not keep:
                stop(self._layout.living, patience)
        self._process.wait()


def await_guard(layout: DemoLayout) -> None:
    """Wait until the guard of a demo that was killed is done: it would stop the next one's runs.

    Raises ``DemoBusyError`` after ``LONGEST`` seconds. The demo's lock is held.
    """
    until = time.monotonic() + LONGEST
    while True:
        try:
            with Lock(layout.guarded):
                return
        except DemoBusyError:
            if time.monotonic() >= until:
                raise DemoBusyError(
                    f"the runs of a demo that was killed are still being stopped in "
                    f"{layout.folder}; try again once they have ended, or name another --dir"
                ) from None
        time.sleep(LOOK)


def main() -> int:
    """Wait for a word on standard input, or for its end, then stop what runs."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    layout = DemoLayout(Path(sys.argv[1]))
    match sys.stdin.readline().split():
        case ["keep"]:
            pass
        case ["stop", seconds]:
            stop(layout.living, float(seconds))
        case _:
            stop(layout.living, PATIENCE, SETTLE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
