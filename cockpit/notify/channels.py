"""All routes of a run file, ready to send: the one door through which messages leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Final

from cockpit.model.run import NotifySpec
from cockpit.notify.bell import Ring, sequence
from cockpit.notify.library import AddressError, send, service_of
from cockpit.notify.message import Delivery, Message
from cockpit.notify.programs import desktop_trouble, to_command, to_desktop
from cockpit.notify.routes import Named, address, audience, command_words, named, second_audience
from cockpit.sources.offload import offload

SEND_WITHIN: Final = 20.0
NOT_SET: Final = "the variable is not set here"


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
            return 'it leads nowhere: give it url_env, command or kind = "terminal"'
        return None if address(route.route, self._environ) else NOT_SET

    def notices(self) -> tuple[str, ...]:
        """Return a line for each route that should work anywhere and does not here."""
        found = ((route, self.trouble(route)) for route in self.routes if not route.local)
        return tuple(
            f"messages do not go by {route.name}: {trouble}" for route, trouble in found if trouble
        )

    async def send(
        self, message: Message, routes: Iterable[Named] | None = None
    ) -> tuple[Delivery, ...]:
        """Send by every route that carries this severity (or by ``routes``), at once."""
        chosen = self.routes if routes is None else tuple(routes)
        going = [route for route in chosen if route.carries(message.severity)]
        return tuple(await asyncio.gather(*(self.deliver(message, route) for route in going)))

    async def deliver(self, message: Message, route: Named) -> Delivery:
        """Send by one route."""
        trouble = self.trouble(route)
        if trouble is not None:
            return Delivery(route=route.name, ok=False, note=trouble)
        if route.kind == "terminal":
            return self._to_terminal(message, route)
        if route.kind == "desktop":
            return await to_desktop(message, route.name)
        if route.kind == "command":
            return await to_command(message, route.route, route.name, self._folder, self._environ)
        return await self._to_address(message, route)

    def _to_terminal(self, message: Message, route: Named) -> Delivery:
        if self._ring is None:
            return Delivery(route=route.name, ok=False, note="no terminal here")
        try:
            self._ring(sequence(message, self._environ))
        except OSError as error:
            return Delivery(route=route.name, ok=False, note=error.strerror or "it is gone")
        return Delivery(route=route.name, ok=True, note="rung")

    async def _to_address(self, message: Message, route: Named) -> Delivery:
        where = address(route.route, self._environ) or ""
        try:
            return await offload(_send_blocking, where, route, message, deadline=SEND_WITHIN)
        except AddressError as error:
            return Delivery(route=route.name, ok=False, note=str(error))
        except TimeoutError:
            note = f"sent, but no answer within {SEND_WITHIN:g} s"
            return Delivery(route=route.name, ok=False, note=note, lost=True)


def _send_blocking(where: str, route: Named, message: Message) -> Delivery:
    extras = {
        "run": message.run,
        "event": message.event,
        "severity": message.severity.value,
        "url": message.url or "",
    }
    service = service_of(where, route.route.kind, route.route.to, extras)
    return send(service, message, route.name)
