"""The sweep over local files, in a thread of its own: the event loop hears only of changes.

A file system that hangs holds up this thread alone; ``late`` tells then that nothing is swept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Final

from cockpit.model.clock import SOONEST, Clock
from cockpit.watch.polling.preference import Turns
from cockpit.watch.polling.sweep import ProcessStates, Signature, changed, signatures
from cockpit.watch.runstate import RunState

EVERY: Final = 1.0
BETWEEN: Final = 0.5
"""Seconds after the beat at which a sweep begins: beside the loop's own work the two would pass the
interpreter to and fro at each system call."""
SWEPT: Final = 100
"""Well runs on no screen whose files are looked at in one sweep; of the unwell as many."""
LET_GO: Final = 60
"""Sweeps after which no file is kept open of a process that is gone."""
DEADLINE: Final = 3.0

Change = tuple[str, str]
"""(run, facet)."""


class Sweeper:
    """Looks at the files of the runs once a second and calls ``wake`` for each facet they concern.

    ``states`` returns the runs there are, a mapping that nobody changes; it is called in the
    thread, ``wake`` on the event loop.
    """

    def __init__(
        self,
        states: Callable[[], Mapping[str, RunState]],
        rank: Callable[[str], int],
        wake: Callable[[str, str], None],
        clock: Clock,
    ) -> None:
        self._states = states
        self._wake = wake
        self._clock = clock
        self._turns = Turns(rank, SWEPT)
        self._seen: dict[tuple[str, str], Signature] = {}
        self._processes = ProcessStates()
        self._sweeps = 0
        self._swept: Mapping[str, RunState] = {}
        self._began: float | None = None
        self._fault: Exception | None = None
        self._over = threading.Lock()
        """Released to have the thread end."""

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._over = threading.Lock()
        self._over.acquire()
        work = (asyncio.get_running_loop(), self._over)
        threading.Thread(target=self._run, args=work, name="sweep", daemon=True).start()

    def stop(self) -> None:
        """Begin no other sweep."""
        self._over.release()

    def late(self) -> bool:
        """Tell whether a sweep does not come to its end; raises what ended the sweeping."""
        if self._fault is not None:
            raise self._fault
        began = self._began
        return began is not None and self._clock.monotonic() - began > DEADLINE

    def once(self) -> list[Change]:
        """Return what has changed since the last sweep; blocking."""
        states = self._states()
        watched = {name: states[name].paths for name in self._turns.take(states)}
        seen = signatures(watched, self._processes)
        self._sweeps += 1
        if self._sweeps % LET_GO == 0:
            self._processes.let_go()
        news = list(changed(self._seen, seen))
        self._seen.update(seen)
        if states is not self._swept:  # another mapping after each edit of the run file
            self._swept = states
            self._seen = {key: each for key, each in self._seen.items() if key[0] in states}
        return news

    def _run(self, loop: asyncio.AbstractEventLoop, over: threading.Lock) -> None:
        try:
            while True:
                self._began = self._clock.monotonic()
                news = self.once()
                self._began = None
                if news:
                    loop.call_soon_threadsafe(self._tell, news)
                if over.acquire(timeout=self._wait()):
                    return
        except Exception as error:  # noqa: BLE001 - raised again on the loop
            self._fault = error
        finally:
            self._processes.close()

    def _wait(self) -> float:
        wait = EVERY - (self._clock.monotonic() - BETWEEN) % EVERY
        return wait if wait >= SOONEST * EVERY else wait + EVERY

    def _tell(self, news: list[Change]) -> None:
        for name, facet in news:
            self._wake(facet, name)
