"""A headless watch serves windows too: they need no engine of their own beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from cockpit.attach.connection import greeting_of
from cockpit.attach.meeting import Meeting, MeetingError, connect, meeting_of
from cockpit.attach.server import EngineServer
from cockpit.attach.wire import BEAT, MISSED, Hello
from cockpit.model.clock import Clock
from cockpit.services.service import Service
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
                    await self._serve_at(meeting)
                self._trouble = None
            except (MeetingError, OSError) as error:
                self._trouble = f"windows are not served: {error}"
            await self._clock.sleep(LOOK_AGAIN)

    async def _serve_at(self, meeting: Meeting) -> None:
        server = EngineServer(self._engine, meeting, "watch", self._clock)
        server.more_notices = self.more_notices
        await server.open()
        self._server, self._trouble = server, None
        try:
            await server.beat()
        finally:
            self._server = None
            await server.close()


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
