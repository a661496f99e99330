"""Ends exactly some jobs of an ssh host, each with its true descendants, as on this machine.

What belongs to a job is decided here, from the host's own processes at each look; what is sent
there are process ids with their starts, and each is compared once more before it is signalled. A
script that arrives late can reach nobody else.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from cockpit.hosts.link import HostLink
from cockpit.model.facet import Problem
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.launching import Script
from cockpit.platforms.box.machine import ABOUT, Host, host_of, processes_ask
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.launcher.detached import LINEAGE, SUPERVISES
from cockpit.platforms.local.launcher.ending import (
    REAL_END,
    Ending,
    ProcessTarget,
    still,
    supervisor_of,
)
from cockpit.runtime.moment import Awake
from cockpit.runtime.ssh import RemoteError

LOOK_EVERY: Final = 0.5
SENDING: Final = 15.0
LAP: Final = 15.0
"""Seconds that a look takes at most, one that gets no answer."""
SIGNALS: Final = {signal.SIGTERM: "TERM", signal.SIGCONT: "CONT", signal.SIGKILL: "KILL"}
TICKS: Final = r"""ticks() {
  s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  s=${s##*\) }; set -- $s; shift 19; echo "$1"
}
"""
_SEND: Final = (
    TICKS
    + """\
k() {
  [ "$(ticks "$2")" = "$3" ] || return 0
  kill -s "$1" "$2" 2>/dev/null || [ "$(ticks "$2")" != "$3" ] || echo "$2"
}
"""
)
Sleep = Callable[[float], Awaitable[None]]


class BoxEnding:
    """Stops jobs of one host; bounded, and never in doubt about whom."""

    def __init__(
        self, link: HostLink, send: Script, host: str, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._link = link
        self._send = send
        self._host = host
        self._sleep = sleep
        self._told = False

    async def end(self, targets: Sequence[ProcessTarget], grace: float) -> None:
        """Return when the jobs are gone and their statuses noted; raises as ``Platform.stop``."""
        endings = [Ending(target) for target in targets]
        try:
            host = await self.look()
        except LostError as error:
            raise CannotError(f"{error}; nothing was told to stop") from error
        for ending in endings:
            ending.supervisor = supervisor_of(host.processes, ending.target)
        until, most = Awake(grace, LAP), Awake(grace + REAL_END, LAP)
        while left := await self._step(host, endings, late=until.left() <= 0):
            if most.left() <= 0:
                raise LostError(f"{self._host}: {still(left)}")
            await self._sleep(LOOK_EVERY)
            host = await self.look()
        await self._notes([each.supervisor for each in endings if each.supervisor is not None])

    async def look(self) -> Host:
        """Return the host's processes as they are; raises ``LostError``."""
        processes = processes_ask((f"{LINEAGE}=", f"{SUPERVISES}="))
        answers = await self._link.ask([ABOUT, processes])
        problem = next((each for each in answers.values() if isinstance(each, Problem)), None)
        if problem is not None:
            raise LostError(problem.message)
        return host_of(answers[ABOUT], answers[processes], 0.0, 0.0)

    async def _step(self, host: Host, endings: Sequence[Ending], *, late: bool) -> list[Process]:
        """Signal whom it is the time for, and return what lives."""
        left: list[Process] = []
        due: list[tuple[Process, int]] = []
        for ending in endings:
            alive = ending.members(host.processes, host.own)
            left += alive
            killed = [(one, int(signal.SIGKILL)) for one in alive]
            due += killed if late else ending.asks(host.processes, alive)
        if due:
            await self._signal(due)
        return left

    async def _signal(self, due: Sequence[tuple[Process, int]]) -> None:
        lines = [
            f"k {SIGNALS[signal.Signals(number)]} {one.pid} {one.ticks}" for one, number in due
        ]
        try:
            done = await self._send(self._host, _SEND + "\n".join(lines), deadline=SENDING)
        except RemoteError as error:
            if not (error.sent or self._told):
                raise CannotError(f"{error}; nothing was told to stop") from error
            raise LostError(f"{error}: cannot tell whether it was told to stop") from error
        self._told = True
        refused = done.text.split()
        if refused:
            text = f"{self._host}: pid {', '.join(refused)} belongs to another user"
            raise CannotError(f"{text}: not allowed to stop it")

    async def _notes(self, supervisors: Sequence[tuple[int, int]]) -> None:
        """Give each supervisor the time to note the exit status and to let go of its locks."""
        until = Awake(REAL_END, REAL_END)
        waiting = list(supervisors)
        while waiting and until.left() > 0:
            found = (await self.look()).processes
            waiting = [
                (pid, ticks) for pid, ticks in waiting if pid in found and found[pid].ticks == ticks
            ]
            if waiting:
                await self._sleep(LOOK_EVERY)
