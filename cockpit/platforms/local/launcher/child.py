"""The forked process that becomes a job's command, once it is told to and not before.

Standard library only: the supervisor of a job loads this.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from cockpit.platforms.local.launcher.kernel import exit_status

GO, READY = b"g", b"r"
CANNOT = 127


class Child:
    """The forked process: it waits until it is told to become the command.

    Raises ``OSError`` if it cannot get ready (there is no such folder).
    """

    def __init__(
        self, command: Sequence[str], cwd: Path, log: int, env: dict[str, str], hand_on: list[int]
    ) -> None:
        wait, self._go = os.pipe()
        self._said, say = os.pipe()
        self.ended = False
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            os.close(self._said)
            _become(command, cwd, log, env, hand_on, wait, say)
        os.close(wait)
        os.close(say)
        if os.read(self._said, 1) != READY:
            said = os.read(self._said, 20) or b"0"
            self.abandon()
            raise OSError(int(said), os.strerror(int(said)))

    def let_go(self) -> None:
        """Let it become the command; raises ``OSError`` if it could not."""
        with suppress(BrokenPipeError):  # it was killed while it waited: its end tells
            os.write(self._go, GO)
        os.close(self._go)
        said = os.read(self._said, 20)
        os.close(self._said)
        if said:
            self.wait()
            raise OSError(int(said), os.strerror(int(said)))

    def abandon(self) -> None:
        """Send it away: it leaves without having started anything."""
        os.close(self._go)
        os.close(self._said)
        self.wait()

    def wait(self) -> int:
        """Return its exit status, at its end. It is not reaped before it counts as ended."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.ended = True
        _, status = os.waitpid(self.pid, 0)
        return exit_status(os.waitstatus_to_exitcode(status))

    def send(self, number: int) -> None:
        """Pass a signal on."""
        if not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _become(
    command: Sequence[str],
    cwd: Path,
    log: int,
    env: dict[str, str],
    hand_on: list[int],
    wait: int,
    say: int,
) -> NoReturn:
    """Get ready, say so, wait for the byte, and become the command; in the child only."""
    ready = False
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nowhere, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(cwd)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for handle in hand_on:
            os.set_inheritable(handle, True)
        os.write(say, READY)
        ready = True
        if os.read(wait, 1) == GO:
            os.execvpe(command[0], list(command), env)
    except OSError as error:
        os.write(say, (b"" if ready else b"!") + str(error.errno or 0).encode())
    finally:
        os._exit(CANNOT)
