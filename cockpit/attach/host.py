"""The engine in a process of its own, started by a window; it ends with the last one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TextIO

from cockpit.attach.meeting import Meeting, MeetingError, connect, greeting_of, meeting_of
from cockpit.attach.server import EngineServer
from cockpit.attach.wire import BEAT, MISSED, Hello
from cockpit.config.file import ConfigError, load, store_path
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.run import CockpitFile
from cockpit.runtime.account import ask_operator
from cockpit.runtime.shell import end_reading
from cockpit.services.service import Service, Starting
from cockpit.services.wiring import app_services
from cockpit.store.store import Store, StoreError, open_within
from cockpit.watch.engine import Engine

LOOK_AGAIN: Final = 5.0
"""Seconds between two looks of a watch that was replaced, as it hung, for its place."""


class WindowService(Service):
    """Serves the engine of a watch; ``more_notices`` is what windows are told besides its own."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.more_notices: Callable[[], tuple[str, ...]] = tuple
        self._engine = engine
        self._clock = clock
        self._trouble: str | None = None
        self._server: EngineServer | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Why no window is served, if so."""
        return () if self._trouble is None else (self._trouble,)

    def start(self) -> None:
        """Begin to serve; it can neither delay nor end the watch."""
        self._task = asyncio.ensure_future(self._serve())

    async def stop(self, within: float) -> None:
        """Let the windows go: they find another engine."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=within)

    def ring(self, sequence: str) -> bool:
        """Ring the terminal of every window; return whether there is one."""
        return self._server is not None and self._server.ring(sequence)

    async def _serve(self) -> None:
        """Serve, and after a hang take the place again from the engine that windows started."""
        while True:
            try:
                meeting = meeting_of(self._engine.file.path)
                who = await served_by(meeting)
                if who is None or who.kind == "engine":
                    server = EngineServer(self._engine, meeting, "watch", self._clock)
                    server.more_notices = self.more_notices
                    await server.open()
                    self._server, self._trouble = server, None
                    try:
                        await server.beat()
                    finally:
                        self._server = None
                        await server.close()
                self._trouble = None
            except (MeetingError, OSError) as error:
                self._trouble = f"windows are not served: {error}"
            await self._clock.sleep(LOOK_AGAIN)


async def served_by(meeting: Meeting, but_for: int = 0) -> Hello | None:
    """Return the greeting of the engine that serves there and lives; ``but_for`` is one that hangs.

    Raises ``MeetingError``.
    """
    to_engine = connect(meeting)
    if to_engine is None:
        return None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BEAT * MISSED):
            return await greeting_of(to_engine, meeting.run_file, but_for)
    return None


FIRST_WITHIN: Final = 10.0
"""Seconds within which the first window comes, or the engine ends."""
TURN_WITHIN: Final = 4.0
LEAVE_WITHIN: Final = 2.0
TELLS_NOBODY: Final = "this engine notifies nobody: its windows are read-only"


def main(arguments: list[str]) -> int:
    """Serve the run file named; return 0 where another engine serves it already."""
    parser = argparse.ArgumentParser(prog="python -m cockpit.attach.host")
    parser.add_argument("run_file", type=Path)
    parser.add_argument("--instead-of", type=int, default=0, metavar="PID")
    args = parser.parse_args(arguments)
    try:
        file = load(args.run_file)
        return asyncio.run(_serve(file, args.instead_of, SystemClock()))
    except ConfigError as error:
        sys.stderr.writelines(f"{line}\n" for line in error.problems)
        return 2
    except MeetingError as error:
        sys.stderr.write(f"{error}\n")
        return 1


async def _serve(file: CockpitFile, instead_of: int, clock: Clock) -> int:
    meeting = meeting_of(file.path)
    with meeting.lock.open("w") as lock:
        await _turn(lock, clock)
        if await served_by(meeting, but_for=instead_of) is not None:
            return 0
        store, trouble = _store()
        engine = Engine(file, store=store, clock=clock)
        hosting = Hosting(engine, store, clock, meeting, trouble)
        await hosting.open()
    try:
        await hosting.run()
    finally:
        if store is not None:
            store.close()
    return 0


async def _turn(lock: TextIO, clock: Clock) -> None:
    """Wait until no other engine is coming up; one that hangs meanwhile is waited for no longer."""
    until = clock.monotonic() + TURN_WITHIN
    while clock.monotonic() < until:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        await clock.sleep(0.05)


def _store() -> tuple[Store | None, str]:
    try:
        return open_within(store_path()), ""
    except StoreError as error:
        return None, f"nothing is kept between sessions: {error}"


class Hosting:
    """Runs an engine and its services for as long as windows are there."""

    def __init__(
        self, engine: Engine, store: Store | None, clock: Clock, meeting: Meeting, trouble: str
    ) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._trouble = trouble
        self._began = clock.now()
        self._said: tuple[str, ...] = ()
        self._server = EngineServer(engine, meeting, "engine", clock)
        self._server.more_notices = self._notices
        self._services: Service | None = None

    async def open(self) -> None:
        """Take windows from now on; raises ``MeetingError``."""
        await self._server.open()

    async def run(self) -> None:
        """Serve until the last window has gone, another engine serves, or a signal comes."""
        loop = asyncio.get_running_loop()
        work = [
            asyncio.ensure_future(each)
            for each in (self._engine.run(), self._server.beat(), self._until_left())
        ]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, work[-1].cancel)
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():
                    task.result()
        finally:
            await self._server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_WITHIN):
                    if self._services is not None:
                        await self._services.stop(LEAVE_WITHIN)
                    for task in work:
                        task.cancel()
                    await asyncio.gather(*work, return_exceptions=True)

    def _notices(self) -> tuple[str, ...]:
        server = self._server
        untold = TELLS_NOBODY if server.windows and not server.attended else ""
        return (
            *filter(None, (self._trouble, untold)),
            *self._said,
            *(self._services.notices if self._services is not None else ()),
        )

    async def _until_left(self) -> None:
        """Return once no window is left; people are told while one is there that may act."""
        server = self._server
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WITHIN):
                while not server.windows and not server.replaced:
                    await self._change()
        while server.windows and not server.replaced:
            if server.attended and self._services is None:
                who = await ask_operator(self._engine.file)
                self._said = () if who.notice is None else (who.notice,)
                ring = self._server.ring
                beside = (self._engine, self._store, self._clock, who.name, ring, self._began)
                self._services = Starting(partial(app_services, *beside), self._clock)
                self._services.start()
            elif not server.attended and self._services is not None:
                services, self._services = self._services, None
                await services.stop(LEAVE_WITHIN)
            await self._change()

    async def _change(self) -> None:
        await self._server.changed.wait()
        self._server.changed.clear()


def leave(code: int) -> NoReturn:
    """End at once: all is put down by now, and taking the interpreter apart would take longer."""
    sys.stderr.flush()
    end_reading()
    os._exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
