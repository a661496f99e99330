"""Sending by claim: whatever goes by a route was claimed in the store before (never twice)."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from cockpit.model.clock import Clock, Moment
from cockpit.model.report import RunReport
from cockpit.notify.channels import Begin, Channels
from cockpit.notify.due import Due
from cockpit.notify.message import Delivery, Message
from cockpit.notify.routes import Named
from cockpit.runtime.moment import moment
from cockpit.runtime.offload import offload
from cockpit.store.messages import Asked, Held, Notified, SendClaim, Sent, TakenOverError
from cockpit.store.store import StoppedHolderError, Store, StoreError

STORE_WITHIN: Final = 10.0
PATIENCE: Final = 60.0
"""Seconds for which a store that fails is waited for: most troubles of it pass."""
WHY_NOT: Final = {
    SendClaim.DONE: "told before",
    SendClaim.NOT_NOW: "another cockpit is sending it, or it will be retried",
    SendClaim.HELD: "held back by the rate limit",
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
        return await self.send_together(channels, (asked,), lambda _: message, route)

    async def send_together(
        self,
        channels: Channels,
        wanted: Sequence[Asked],
        make: Callable[[Sequence[int]], Message],
        route: Named,
    ) -> Delivery | SendClaim:
        """Send in one message what of these is ours to send, else return why the first is not.

        ``make`` gets the places (of ``wanted``) of what it is to tell. The whole counts as one
        message. Raises as ``send`` does.
        """
        who, begun = uuid.uuid4().hex, False
        claims = await self._claimed(wanted, who)
        mine = [at for at, claim in enumerate(claims) if claim is SendClaim.MINE]
        if not mine:
            return claims[0]

        def begin() -> None:
            nonlocal begun
            if self._store is not None:
                table, now = Notified(self._store), self._now()
                with self._store.writing():  # one that is taken over takes all back
                    for at in mine:
                        table.begin(wanted[at], now, who)
            begun = True

        try:
            delivery = await self.send_unclaimed(channels, make(mine), route, begin)
        except TakenOverError:  # this process hung, or was too slow
            return SendClaim.NOT_NOW
        await self._settle([wanted[at] for at in mine], delivery, begun=begun)
        return delivery

    async def _claimed(self, wanted: Sequence[Asked], who: str) -> list[SendClaim]:
        """Claim each; of what goes in one message only the first counts for the rate limit."""
        claims: list[SendClaim] = []
        for asked in wanted:
            one = asked._replace(most=None) if SendClaim.MINE in claims else asked
            ask = functools.partial(_claim_one, one, self._now(), who)
            claims.append(await self._ask(ask) or SendClaim.MINE)
        return claims

    async def _settle(self, sent: Sequence[Asked], delivery: Delivery, *, begun: bool) -> None:
        lost, trouble = delivery.lost and begun, None if delivery.ok else delivery.note or "failed"
        now = self._now()

        def settle(store: Store) -> None:
            with store.writing():
                for at, asked in enumerate(sent):
                    Notified(store).settle(asked, now, trouble, lost=lost, counts=at == 0)

        try:
            await self._ask(settle)
        except (StoreError, TimeoutError) as error:  # the claims stay: it is never sent again
            self.trouble["store"] = f"what was sent cannot be recorded: {error}"

    def _now(self) -> Moment:
        return moment(self._clock)

    async def told_unclaimed(self, asked: Asked) -> None:
        """Write down that a message went while nothing could be written, for others to find."""
        now, who = self._now(), uuid.uuid4().hex
        claim = await self._ask(lambda store: Notified(store).claim(asked, now, who))
        if claim is SendClaim.MINE:
            await self._ask(lambda store: Notified(store).settle(asked, now))

    async def former(self, asked: Asked) -> Sent | None:
        """Return what is known of a message that was claimed before."""
        found = await self._ask(lambda store: Notified(store).of(asked.run, asked.event)) or ()
        same = (each for each in found if (each.event, each.route) == (asked.event, asked.route))
        return next(same, None)

    async def send_unclaimed(
        self, channels: Channels, message: Message, route: Named, begin: Begin = lambda: None
    ) -> Delivery:
        """Send when the store cannot be asked: an alert that nobody hears of would be worse."""
        delivery = await channels.deliver(message, route, begin)
        if delivery.ok:
            self.trouble.pop(delivery.route, None)
        else:
            what = "may not have arrived" if delivery.lost else "was not delivered"
            line = f"a message {what} by {delivery.route}: {delivery.note}"
            self.trouble[delivery.route] = line
        return delivery

    async def send_summary(
        self, channels: Channels, file: str, route: Named, make: Callable[[Held, str], Message]
    ) -> None:
        """Tell by one message what the rate limit kept back, if that is due."""
        now = self._now()
        event = f"summary {now.wall:.3f}"
        held = await self._ask(
            lambda store: Notified(store).claim_summary(file, route.name, event, now)
        )
        if held is None:
            return
        delivery = await self.send_unclaimed(channels, make(held, event), route)
        if not delivery.ok and not delivery.lost:
            await self._ask(lambda store: Notified(store).release_summary(route.name, held))

    async def prune(self) -> None:
        """Forget what is too old to matter; raises ``StoreError`` or ``TimeoutError``."""
        await self._ask(lambda store: Notified(store).prune(self._now()))

    async def _ask(self, ask: Callable[[Store], T]) -> T | None:
        if self._store is None:
            return None
        return await offload(functools.partial(ask, self._store), deadline=STORE_WITHIN)


def _claim_one(asked: Asked, now: Moment, who: str, store: Store) -> SendClaim:
    return Notified(store).claim(asked, now, who)


class Unstored:
    """What this process has told without the store; each alert once per severity and route.

    An alert must be heard of even when its claim cannot be kept.
    """

    def __init__(self, clock: Clock, *, stored: bool) -> None:
        self._clock = clock
        self._stored = stored
        self._failing_since: float | None = None
        self._sent: dict[tuple[str, str, str], int] = {}

    @property
    def active(self) -> bool:
        """Whether messages go without a claim: there is no store, or it has failed too long."""
        if not self._stored:
            return True
        since = self._failing_since
        return since is not None and self._clock.monotonic() - since >= PATIENCE

    def failed(self, error: Exception) -> None:
        """Note why the store could not be asked; a stopped process that holds it stays there."""
        if isinstance(error, StoppedHolderError):
            self._failing_since = float("-inf")
        elif self._failing_since is None:
            self._failing_since = self._clock.monotonic()

    def worked(self, reports: Mapping[str, RunReport]) -> None:
        """Note that the store can be asked again; what is over since then may come anew."""
        self._failing_since = None
        self._forget(reports)

    def _forget(self, reports: Mapping[str, RunReport]) -> None:
        open_ = {(each.name, alert.key) for each in reports.values() for alert in each.alerts}
        self._sent = {at: rank for at, rank in self._sent.items() if at[:2] in open_}

    def due(self, reports: Mapping[str, RunReport]) -> list[Due]:
        """Return the open alerts that nobody has taken; forget those that are over."""
        if not self.active:
            return []
        self._forget(reports)
        return [
            Due(each, alert, "open", f"unstored {alert.key} {alert.severity.value}")
            for each in reports.values()
            for alert in each.alerts
            if alert.acknowledged is None and alert.caused_by is None
        ]

    def mark_sent(self, due: Due, route: str) -> None:
        """Remember that an alert was told by a route."""
        self._sent[(due.report.name, due.alert.key, route)] = due.alert.severity.rank

    def knows(self, due: Due, route: str) -> bool:
        """Whether its opening was told by this route already without the store."""
        sent = self._sent.get((due.report.name, due.alert.key, route), -1)
        return due.stage == "open" and sent >= due.alert.severity.rank
