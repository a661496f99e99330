"""Sends what is due: each alert when it opens or rises, again while nobody takes it (SPEC W)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from cockpit.model.alert import Severity
from cockpit.model.clock import Clock, Moment
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.notify.due import Due, Now, due, message_of_all, summary_of, together
from cockpit.notify.message import Delivery, Message, NobodyReachedError
from cockpit.notify.offering import Offers
from cockpit.notify.routes import Begin, Channels, Named, Ring
from cockpit.runtime.moment import Jumps, moment
from cockpit.runtime.offload import offload
from cockpit.store.messages import Asked, Held, Notified, SendClaim, Sent, TakenOverError
from cockpit.store.store import StoppedHolderError, Store, StoreError, run_key

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


PRUNE_EVERY: Final = 86400.0


class Notifications:
    """The messages of one cockpit about the runs of ``file``.

    ``mine`` says whether this cockpit tells of a report's run; by default of those that nobody
    watches. Its own terminal and desktop are told of all. ``ring`` writes a control sequence to
    the terminal in front of the person; ``operator`` is that person.
    """

    def __init__(
        self,
        file: CockpitFile,
        store: Store | None,
        clock: Clock,
        *,
        ring: Ring | None = None,
        operator: str | None = None,
        mine: Callable[[RunReport], bool] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store if store is not None and not store.read_only else None
        self._clock = clock
        self._ring = ring
        self._operator = operator or file.operator
        self._mine = mine or (lambda report: report.watched_by is None)
        self._environ = environ
        self._heard: dict[str, RunReport] = {}
        self._first: dict[str, float] = {}
        self.began = clock.now()
        """A report from before it (epoch s) is one remembered from earlier."""
        self._pruned_at = float("-inf")
        self._jumps = Jumps(clock)
        self._sender = Sender(self._store, clock)
        self._unstored = Unstored(clock, stored=self._store is not None)
        self.adopt(file)

    def adopt(self, file: CockpitFile) -> None:
        """Take a newly read run file over."""
        self._file = file
        names = {run.name for run in file.runs}
        self._heard = {name: each for name, each in self._heard.items() if name in names}
        self.channels = Channels(
            file.notify,
            folder=str(Path(file.path).parent),
            dris=[run.dri for run in file.runs if run.dri is not None],
            ring=self._ring,
            environ=self._environ,
            offers=Offers(file, self._store, self._clock),
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: variables that are not set, routes that failed last."""
        return (*self.channels.notices(), *self._sender.trouble.values())

    def hear(self, report: RunReport) -> None:
        """Take a report (``engine.subscribe``); one remembered from earlier says nothing new."""
        first = self._first.setdefault(report.name, report.checked_at)
        if report.checked_at >= self.began or report.checked_at != first:
            self._heard[report.name] = report

    @property
    def silent(self) -> bool:
        """Whether nothing can be due: there is no route, or nothing to tell of."""
        return not self.channels.routes or not self._heard

    async def look(self) -> None:
        """Tell what is due now; returns when every route has had its turn."""
        if self.silent:
            return
        reports = {run_key(self._file.path, each.name): each for each in self._heard.values()}
        await self._prune()
        found = await self._due(reports)
        usable = [each for each in self.channels.routes if self.channels.trouble(each) is None]
        await asyncio.gather(*(self._send_due(route, found) for route in usable))

    async def send(self, run: RunSpec, event: str, title: str, body: str, severity: str) -> str:
        """Send to every route for this severity; return one line about who was reached.

        Raises ``NobodyReachedError``; a bell at the operator's own desk reaches no other person.
        """
        message = Message(
            run=run.name, event=event, title=title, body=body, severity=Severity(severity)
        )
        routes = [
            each for each in self.channels.for_first(run.dri) if each.carries(message.severity)
        ]
        key = run_key(self._file.path, run.name)
        deliveries = await asyncio.gather(*(self._urgent(key, message, each) for each in routes))
        here = run.dri is None or run.dri == self._operator
        reached = [
            each.route
            for each, route in zip(deliveries, routes, strict=True)
            if each.ok and (here or not route.local)
        ]
        if reached:
            return f"told by {', '.join(reached)}"
        whys = "; ".join(f"{each.route}: {each.note}" for each in deliveries)
        no_route = f"[notify] has no route for messages of severity {message.severity.value}"
        raise NobodyReachedError(f"nobody was reached: {whys or no_route}")

    async def _due(self, reports: Mapping[str, RunReport]) -> list[Due]:
        """Return what is due; while the store cannot be asked, what the reports alone tell."""
        spec = self.channels.spec
        if self._store is not None:
            ask = functools.partial(
                due,
                self._store,
                reports,
                Now(moment(self._clock), self._jumps.since),
                spec.unacked_after,
                spec.second is not None,
            )
            try:
                found = await offload(ask, deadline=STORE_WITHIN)
            except (StoreError, TimeoutError) as error:
                self._unstored.failed(error)
            else:
                self._unstored.worked(reports)
                return found
        return self._unstored.due(reports)

    async def _prune(self) -> None:
        """Forget the oldest claims once a day."""
        now = self._clock.monotonic()
        if now - self._pruned_at < PRUNE_EVERY:
            return
        self._pruned_at = now
        with contextlib.suppress(StoreError, TimeoutError):
            await self._sender.prune()

    async def _send_due(self, route: Named, found: Iterable[Due]) -> None:
        """Tell all that is due by one route; the rest waits when it fails."""
        try:
            due_here: list[Due] = []
            for each in found:
                if not self._unstored.active and self._unstored.knows(each, route.name):
                    if route.name not in each.settled:
                        await self._sender.told_unclaimed(self._asked(each, route))
                elif self._goes(each, route):
                    due_here.append(each)
            for group in together(due_here):
                outcome = await self._send_group(group, route)
                if isinstance(outcome, Delivery) and not outcome.ok:
                    return
            prefix = run_key(self._file.path, "")
            await self._sender.send_summary(self.channels, prefix, route, summary_of)
        except (StoreError, TimeoutError) as error:
            self._unstored.failed(error)

    async def _send_group(self, group: tuple[Due, ...], route: Named) -> Delivery | SendClaim:
        second = self.channels.spec.second
        if self._unstored.active:
            for each in group:
                self._unstored.mark_sent(each, route.name)
            message = message_of_all(group, second)
            return await self._sender.send_unclaimed(self.channels, message, route)
        return await self._sender.send_together(
            self.channels,
            [self._asked(each, route) for each in group],
            lambda mine: message_of_all([group[at] for at in mine], second),
            route,
        )

    def _asked(self, each: Due, route: Named) -> Asked:
        return Asked(
            run_key(self._file.path, each.report.name),
            each.event,
            route.name,
            covered_by=each.covered_by,
            once_more=each.severity is Severity.CRITICAL and each.stage != "closed",
            most=self.channels.spec.most,
        )

    def _goes(self, each: Due, route: Named) -> bool:
        if route.name in each.settled or (each.only is not None and route.name not in each.only):
            return False
        if self._unstored.knows(each, route.name) or not route.carries(each.severity):
            return False
        if not (self._mine(each.report) or route.local) or self._waits(each):
            return False
        dri = each.report.spec.dri
        second = each.stage == "second"
        return route in (self.channels.for_second(dri) if second else self.channels.for_first(dri))

    def _waits(self, each: Due) -> bool:
        """Tell whether it waits for the end of the quiet hours; a critical never does."""
        quiet = self.channels.spec.quiet
        calm = each.severity is not Severity.CRITICAL
        return quiet is not None and calm and quiet.at(self._clock.now())

    async def _urgent(self, key: str, message: Message, route: Named) -> Delivery:
        """Send now, whatever the rate; a lost answer is tried once more."""
        trouble = self.channels.trouble(route)
        if trouble is not None:
            return Delivery(route=route.name, ok=False, note=trouble)
        asked = Asked(key, message.event, route.name, once_more=True, at_once=True)
        outcome = await self._urgent_once(asked, message, route)
        if outcome.lost:
            outcome = await self._urgent_once(asked, message, route)
        return outcome

    async def _urgent_once(self, asked: Asked, message: Message, route: Named) -> Delivery:
        try:
            outcome = await self._sender.send(self.channels, asked, message, route)
        except (StoreError, TimeoutError):
            return await self._sender.send_unclaimed(self.channels, message, route)
        if isinstance(outcome, Delivery):
            return outcome
        # It was sent, or is being sent, by an earlier call: how did that fare?
        former = await self._sender.former(asked) if outcome is SendClaim.DONE else None
        trouble = former.trouble if former is not None else None
        good = outcome is SendClaim.DONE and trouble is None
        return Delivery(route=asked.route, ok=good, note=trouble or WHY_NOT[outcome])
