"""Sending by claim: whatever goes by a route was claimed in the store before (never twice)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar

from cockpit.model.clock import Clock
from cockpit.notify.channels import Channels
from cockpit.notify.message import Delivery, Message
from cockpit.notify.routes import Named
from cockpit.sources.offload import offload
from cockpit.store.notified import Asked, Held, Notified, SendClaim, Sent
from cockpit.store.store import Store, StoreError

STORE_WITHIN: Final = 10.0
WHY_NOT: Final = {
    SendClaim.DONE: "told before",
    SendClaim.NOT_NOW: "another cockpit is sending it, or it is tried again later",
    SendClaim.HELD: "kept back by the rate limit",
}

T = TypeVar("T")


class Sender:
    """Sends claimed messages. Without a usable store nothing is claimed, and it just sends."""

    def __init__(self, store: Store | None, clock: Clock) -> None:
        self.trouble: dict[str, str] = {}
        self._store = store
        self._clock = clock

    async def send(
        self, channels: Channels, asked: Asked, message: Message, route: Named
    ) -> Delivery | SendClaim:
        """Send one message by one route; return why not if it is not ours to send.

        Raises ``StoreError`` or ``TimeoutError`` if it cannot be claimed: then nothing was sent.
        """
        claim = await self._ask(lambda store: Notified(store).claim(asked, self._clock.now()))
        if claim is not None and claim is not SendClaim.MINE:
            return claim
        delivery = await channels.deliver(message, route)
        self._note(delivery)
        await self._settle(asked, delivery)
        return delivery

    async def former(self, asked: Asked) -> Sent | None:
        """Return what is known of a message that was claimed before."""
        found = await self._ask(lambda store: Notified(store).of(asked.run, asked.event)) or ()
        same = (each for each in found if (each.event, each.route) == (asked.event, asked.route))
        return next(same, None)

    async def send_unclaimed(self, channels: Channels, message: Message, route: Named) -> Delivery:
        """Send when the store cannot be asked: an alert that nobody hears of would be worse."""
        delivery = await channels.deliver(message, route)
        self._note(delivery)
        return delivery

    async def send_summary(
        self, channels: Channels, file: str, route: Named, make: Callable[[Held, str], Message]
    ) -> None:
        """Tell by one message what the rate limit kept back, if that is due."""
        now = self._clock.now()
        event = f"summary {now:.3f}"
        held = await self._ask(
            lambda store: Notified(store).claim_summary(file, route.name, event, now)
        )
        if held is None:
            return
        delivery = await channels.deliver(make(held, event), route)
        self._note(delivery)
        if not delivery.ok and not delivery.lost:
            await self._ask(lambda store: Notified(store).release_summary(route.name, held))

    async def prune(self) -> None:
        """Forget what is too old to matter; raises ``StoreError`` or ``TimeoutError``."""
        await self._ask(lambda store: Notified(store).prune(self._clock.now()))

    async def _settle(self, asked: Asked, delivery: Delivery) -> None:
        trouble = None if delivery.ok else delivery.note or "failed"
        settle = functools.partial(
            Notified.settle, asked=asked, trouble=trouble, lost=delivery.lost
        )
        try:
            await self._ask(lambda store: settle(Notified(store), now=self._clock.now()))
        except (StoreError, TimeoutError) as error:  # the claim stays: it is never sent again
            self.trouble["store"] = f"what was sent cannot be recorded: {error}"

    def _note(self, delivery: Delivery) -> None:
        if delivery.ok:
            self.trouble.pop(delivery.route, None)
        else:
            line = f"a message did not go by {delivery.route}: {delivery.note}"
            self.trouble[delivery.route] = line

    async def _ask(self, ask: Callable[[Store], T]) -> T | None:
        if self._store is None:
            return None
        return await offload(functools.partial(ask, self._store), deadline=STORE_WITHIN)
