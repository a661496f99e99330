"""All routes of a run file, ready to send: every message leaves through ``Channels``.

Besides services (``library``) a route may be the terminal (its bell, and OSC 9 where it knows
that), the desktop's own notifier, or a command of the person's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from string import Template
from typing import Final, TextIO

from cockpit.model.alert import Severity
from cockpit.model.run import NotifySpec, Route
from cockpit.notify.library import AddressError, send, service_of
from cockpit.notify.message import Delivery, Message, cut
from cockpit.notify.routes import Named, address, audience, command_words, named, second_audience
from cockpit.runtime.offload import offload
from cockpit.runtime.own_path import LibraryError
from cockpit.runtime.shell import Completed, run_command
from cockpit.text.safe import clean

SEND_WITHIN: Final = 20.0
NOT_SET: Final = "the variable is not set here"
DEADLINE: Final = 15.0
DESKTOP_LIMIT: Final = 400
_APPLE: Final = "\n".join(
    (
        "on run {title, body}",
        "display notification body with title title",
        "end run",
    )
)
"""The texts are arguments: AppleScript never parses them."""
Ring = Callable[[str], object]
"""Writes a control sequence to the terminal that a person looks at; false: there is none now."""
Begin = Callable[[], object]
"""Notes that a message goes out now; raises if it may not. Blocking."""
BEGIN_WITHIN: Final = 10.0
BELL: Final = "\a"
LIMIT: Final = 200
_PLAIN: Final = ("", "dumb", "linux", "unknown")


class Channels:
    """Sends messages by the routes of ``spec``. Never raises for what a route does.

    ``folder`` is where commands run, ``dris`` everyone who answers for a run, ``ring`` writes to
    the terminal that a person looks at (``None``: there is none here).
    """

    def __init__(
        self,
        spec: NotifySpec,
        *,
        folder: str | None = None,
        dris: Iterable[str] = (),
        ring: Ring | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.spec = spec
        self.routes = named(spec)
        self._folder = folder
        self._dris = frozenset(dris)
        self._ring = ring
        self._environ = os.environ if environ is None else environ

    def for_first(self, dri: str | None) -> tuple[Named, ...]:
        """Return the routes of a first message about a run of ``dri``."""
        return audience(self.routes, self.spec, dri, self._dris)

    def for_second(self, dri: str | None) -> tuple[Named, ...]:
        """Return the routes of the second person."""
        return second_audience(self.routes, self.spec, dri, self._dris)

    def trouble(self, route: Named) -> str | None:
        """Return why a route cannot be used from this process, or ``None``; asks nobody."""
        if route.kind == "command":
            return None if command_words(route.route) else "the command is empty or unfinished"
        if route.kind == "terminal":
            return None if self._ring is not None else "no terminal here"
        if route.kind == "desktop":
            return desktop_trouble(self._environ)
        if route.route.url_env is None:
            return 'it has no destination: give it url_env, command or kind = "terminal"'
        return None if address(route.route, self._environ) else NOT_SET

    def notices(self) -> tuple[str, ...]:
        """Return a line for each route that should work anywhere and does not here."""
        found = ((route, self.trouble(route)) for route in self.routes if not route.local)
        return tuple(
            f"messages cannot go by {route.name}: {trouble}" for route, trouble in found if trouble
        )

    async def send(
        self, message: Message, routes: Iterable[Named] | None = None
    ) -> tuple[Delivery, ...]:
        """Send by every route that carries this severity (or by ``routes``), at once."""
        chosen = self.routes if routes is None else tuple(routes)
        going = [route for route in chosen if route.carries(message.severity)]
        return tuple(await asyncio.gather(*(self.deliver(message, route) for route in going)))

    async def deliver(
        self, message: Message, route: Named, begin: Begin = lambda: None
    ) -> Delivery:
        """Send by one route; ``begin`` is called right before it goes out."""
        trouble = self.trouble(route)
        if trouble is not None:
            return Delivery(route=route.name, ok=False, note=trouble)
        if route.kind in ("terminal", "desktop", "command"):
            await offload(begin, deadline=BEGIN_WITHIN)
        if route.kind == "terminal":
            return self._to_terminal(message, route)
        if route.kind == "desktop":
            return await to_desktop(message, route.name)
        if route.kind == "command":
            return await to_command(message, route.route, route.name, self._folder, self._environ)
        return await self._to_address(message, route, begin)

    def _to_terminal(self, message: Message, route: Named) -> Delivery:
        if self._ring is None:
            return Delivery(route=route.name, ok=False, note="no terminal here")
        try:
            if self._ring(sequence(message, self._environ)) is False:
                return Delivery(route=route.name, ok=False, note="no terminal here")
        except OSError as error:
            return Delivery(route=route.name, ok=False, note=error.strerror or "it is gone")
        return Delivery(route=route.name, ok=True, note="rung")

    async def _to_address(self, message: Message, route: Named, begin: Begin) -> Delivery:
        where = address(route.route, self._environ) or ""
        sending = partial(_send_blocking, where, route, message, begin)
        try:
            return await offload(sending, deadline=SEND_WITHIN)
        except (AddressError, LibraryError) as error:
            return Delivery(route=route.name, ok=False, note=str(error))
        except TimeoutError:
            note = f"sent, but no answer within {SEND_WITHIN:g} s"
            return Delivery(route=route.name, ok=False, note=note, lost=True)


def _send_blocking(where: str, route: Named, message: Message, begin: Begin) -> Delivery:
    extras = {
        "run": message.run,
        "event": message.event,
        "severity": message.severity.value,
        "url": message.url or "",
    }
    service = service_of(where, route.route.kind, route.route.to, extras)
    begin()
    return send(service, message, route.name)


def desktop_trouble(environ: Mapping[str, str]) -> str | None:
    """Return why no desktop can be reached from here, or ``None``."""
    program = _desktop_program()
    if shutil.which(program, path=environ.get("PATH")) is None:
        return f"{program} is not installed"
    shown = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
    if program == "notify-send" and not any(environ.get(name) for name in shown):
        return "no desktop here (no DISPLAY)"
    return None


async def to_desktop(message: Message, route: str) -> Delivery:
    """Show the message on this machine's desktop."""
    body = cut(message.text, DESKTOP_LIMIT)
    if _desktop_program() == "osascript":
        argv = ["osascript", "-e", _APPLE, message.title, body]
    else:
        urgent = "critical" if message.severity is Severity.CRITICAL else "normal"
        plain = body.replace("&", "&amp;").replace("<", "&lt;")
        argv = ["notify-send", "--app-name=cockpit", f"--urgency={urgent}", "--"]
        argv += [message.title, plain]
    return _delivery(await run_command(argv, deadline=DEADLINE), route)


async def to_command(
    message: Message, route: Route, name: str, folder: str | None, environ: Mapping[str, str]
) -> Delivery:
    """Give the message to the route's command on standard input."""
    words = [Template(word).safe_substitute(environ) for word in command_words(route)]
    if not words:
        return Delivery(route=name, ok=False, note="the command is empty or has an open quote")
    about = {
        "COCKPIT_RUN": message.run,
        "COCKPIT_EVENT": message.event,
        "COCKPIT_SEVERITY": message.severity.value,
        "COCKPIT_TITLE": message.title,
    }
    text = f"{message.title}\n\n{message.text}".rstrip() + "\n"
    done = await run_command(words, deadline=DEADLINE, cwd=folder, env=about, stdin=text)
    return _delivery(done, name)


def _desktop_program() -> str:
    return "osascript" if sys.platform == "darwin" else "notify-send"


def _delivery(done: Completed, route: str) -> Delivery:
    """Say how a program ended; what it printed is not repeated, it may hold an address."""
    if done.ok:
        return Delivery(route=route, ok=True, note="sent")
    if done.timed_out:
        return Delivery(route=route, ok=False, note=f"did not end within {DEADLINE:g} s", lost=True)
    if done.rc in (126, 127):
        return Delivery(route=route, ok=False, note="the program cannot be run (is it installed?)")
    return Delivery(route=route, ok=False, note=f"it exited with {done.rc}")


def sequence(message: Message, environ: Mapping[str, str]) -> str:
    """Return what makes the terminal ring and, where it can, show the title.

    Inside tmux OSC 9 is wrapped to pass through (``allow-passthrough``); the bell needs no leave.
    The text begins with a word: a number there would be read as another command.
    """
    if environ.get("TERM", "") in _PLAIN or "STY" in environ:
        return BELL
    text = f"\x1b]9;cockpit: {cut(clean(message.title), LIMIT)}\x1b\\"
    if environ.get("TMUX"):
        text = "\x1bPtmux;" + text.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return BELL + text


def terminal_of_this_process() -> Ring | None:
    """Return how to ring the terminal that standard error or output shows; ``None`` without."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(ValueError):  # closed
            if stream is not None and stream.isatty():
                return partial(_ring, stream)
    return None


def _ring(stream: TextIO, text: str) -> None:
    os.write(stream.fileno(), text.encode("utf-8", "replace"))
