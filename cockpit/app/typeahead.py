"""What a person presses reaches each screen in its order: nothing is lost, nothing goes astray.

A terminal hands over a burst at once, while a screen takes a moment until it stands. Textual would
send all of it to the screen in front, or to one that is not composed yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol, runtime_checkable

from textual import events
from textual.app import App
from textual.css.query import NoMatches
from textual.dom import NoScreen
from textual.errors import NoWidget
from textual.message_pump import MessagePump
from textual.screen import Screen

PRESSED: Final = (events.Key, events.Paste, events.MouseDown, events.MouseUp,
                  events.MouseScrollDown, events.MouseScrollUp)  # fmt: skip
"""What keeps its order; the mouse moves beside it."""
HANDLED_WITHIN: Final = 0.5
"""Seconds that the app itself waits for what was pressed; then it goes on beside it."""
ANSWERS_WITHIN: Final = 3.0
"""Seconds after which a screen that is stuck no longer holds back what comes behind."""
OPENS_WITHIN: Final = 10.0
"""Seconds for which a key waits until its screen stands."""
SOON: Final = 0.01
"""Seconds between two looks whether a screen that failed was replaced."""
ROUNDS: Final = 10
"""How often messages that follow from messages are waited for."""


@runtime_checkable
class Opening(Protocol):
    """A screen that still has to read something when it stands already."""

    def opens_for(self, event: events.Event) -> asyncio.Event | None:
        """Return what is set once it can take an event; ``None``: it can now."""


class TypeAhead:
    """Hands on one event at a time, once all before it is done and the screen in front stands."""

    def __init__(
        self,
        app: App[Any],
        hand_on: Callable[[events.Event], Awaitable[None]],
        shown: asyncio.Event,
        begun: asyncio.Event,
    ) -> None:
        self._app, self._begun = app, begun
        self._hand_on = hand_on
        self._shown = shown
        self._waiting: deque[events.Event] = deque()
        self._handing: asyncio.Task[None] | None = None
        self._unanswered: asyncio.Event | None = None
        self.current: events.Event | None = None
        """What is being done now; its ``time`` is when it was read."""
        self._pressed_at = float("-inf")

    @property
    def idle(self) -> float:
        """The seconds since something was pressed."""
        return asyncio.get_running_loop().time() - self._pressed_at

    async def take(self, event: events.Event) -> None:
        """Take what was pressed; returns once it is done, or has not been for a while."""
        self._waiting.append(event)
        self._begun.set()
        self._pressed_at = asyncio.get_running_loop().time()
        if self._handing is None or self._handing.done():
            self._handing = asyncio.create_task(self._hand_all())
            await asyncio.wait({self._handing}, timeout=HANDLED_WITHIN)

    def put_back(self, event: events.Event) -> None:
        """Do this next, before everything else that waits."""
        self._waiting.appendleft(event)

    async def _hand_all(self) -> None:
        await self._shown.wait()  # nothing is done to what nobody has seen
        while self._waiting and self._app.is_running:
            try:
                await self._stands(self._waiting[0])
                self.current = self._waiting.popleft()
                await self._hand_on(self.current)
                await self._done(self.current)
            except Exception as error:  # noqa: BLE001 - as Textual treats a fault in a handler
                self._app._handle_exception(error)
            finally:
                self.current = None

    async def _stands(self, event: events.Event) -> None:
        """Wait until the screen in front is composed, has its focus, and can take the event."""
        now = asyncio.get_running_loop().time
        until = now() + OPENS_WITHIN
        while self._app.is_running and now() < until:
            screen = self._app.screen
            opens = screen.opens_for(event) if isinstance(screen, Opening) else None
            if not lives(screen):
                await asyncio.sleep(SOON)
            elif not screen.is_mounted:
                await _first_of(screen, screen._mounted_event, until - now())
            elif opens is not None and not opens.is_set():
                await _first_of(screen, opens, until - now())
            else:
                await self._asked(screen)
                if screen is self._app.screen:
                    return

    async def _done(self, event: events.Event) -> None:
        """Wait until the event is done, and everything that followed from it."""
        for pump in self._way_of(event):
            await self._asked(pump)
        for _ in range(ROUNDS):
            busy = [each for each in {*self._app.screen_stack, *self._way_of(event)} if _busy(each)]
            if not busy:
                return
            for pump in busy:
                await self._asked(pump)

    def _way_of(self, event: events.Event) -> Iterator[MessagePump]:
        """Yield who gets an event: where the focus is, or the mouse, up to the screen."""
        node: MessagePump | None = self._app.focused or self._app.screen
        if isinstance(event, events.MouseEvent):
            with suppress(NoWidget, NoMatches, NoScreen):
                node = self._app.get_widget_at(event.x, event.y)[0]
        while node is not None and node is not self._app:
            yield node
            node = None if isinstance(node, Screen) else node._parent

    async def _asked(self, pump: MessagePump) -> None:
        """Wait until a pump has done its work, has ended, or is stuck.

        While one is stuck no other is waited for: its keys queue up there, as they came.
        """
        if self._unanswered is not None and not self._unanswered.is_set():
            return
        heard = asyncio.Event()
        if not lives(pump) or not pump.call_later(heard.set):
            return
        await _first_of(pump, heard, ANSWERS_WITHIN)
        self._unanswered = heard if lives(pump) else None


def lives(pump: MessagePump) -> bool:
    """Return whether a screen or widget still takes messages: a fault ends that for good."""
    return pump._task is not None and not pump._task.done()


def stands(screen: Screen[Any]) -> bool:
    """Return whether a screen is composed and stays: of one that is being taken away parts lack."""
    return screen.is_mounted and lives(screen) and not (screen._pruning or screen._closing)


def _busy(pump: MessagePump) -> bool:
    return lives(pump) and any((not pump._message_queue.empty(), pump._next_callbacks))


async def _first_of(pump: MessagePump, event: asyncio.Event, within: float) -> None:
    """Wait for an event, or until a pump has ended."""
    waiting = asyncio.ensure_future(event.wait())
    tasks = {waiting, *([pump._task] if pump._task is not None else [])}
    await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
