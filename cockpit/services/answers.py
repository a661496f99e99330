"""Carries out answers from a phone (SPEC A-14, A-15): what a person may do from elsewhere.

An answer may acknowledge alerts, end a standing order, and relaunch where the plan is clean and
its words come back exactly. It goes the one road of all actions, as the person whom the run file
names for the account; it approves nothing, and anything else is refused with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, NamedTuple

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.service import ENDS_ELSEWHERE, ActionService
from cockpit.actions.core.wiring import build_service
from cockpit.model.acts import Outcome
from cockpit.model.alert import Alert
from cockpit.model.answers import (
    CODE,
    CONFIRM_LASTS,
    DONE,
    FAILED,
    FRESH,
    IGNORED,
    PLANNED,
    REFUSED,
    TAKEN,
    UNKNOWN,
    AnswerVerb,
    Ask,
    HeardAnswer,
    Offer,
)
from cockpit.model.clock import SAME_CLOCK, Clock
from cockpit.model.facet import Problem
from cockpit.model.notify import ANSWER_KINDS, AnswerSpec
from cockpit.model.plan import Level, Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.shared_facts import same_person
from cockpit.model.wording import duration, plural
from cockpit.notify.answers import (
    Command,
    Desk,
    Given,
    Reader,
    by_reference,
    commanded,
    desk_of,
    runs_meant,
)
from cockpit.notify.offering import KeyFileError, key_path, signed_by_us, signing_key
from cockpit.notify.readers import readers_of
from cockpit.records.issue.service import IssueService
from cockpit.runtime.moment import Jumps, moment
from cockpit.runtime.offload import offload
from cockpit.services.service import STORE_WITHIN, ReportService
from cockpit.store.alerts import Alerts
from cockpit.store.answers import Answers, FoundOffer, new_ref
from cockpit.store.journal import StandingOrders
from cockpit.store.store import Store, StoreError, run_key
from cockpit.text.scrub import shown
from cockpit.watch.engine import Engine
from cockpit.watch.reports import current

READ_WITHIN: Final = 120.0
"""Seconds for one look at all places of one service."""
WITHIN: Final = 3600.0
"""Seconds for what one answer asks for, all steps of a relaunch."""
LONGEST_WAIT: Final = 600.0
"""Seconds between two looks at a service that fails."""
SAID: Final = 600
INTERRUPTED: Final = (
    "not known whether it was done: the cockpit was stopped while it dealt with this; look at the"
    " run, and answer anew"
)
NOT_OFFERED: Final = (
    "Whether its words were sent is not known: the cockpit was stopped meanwhile; ask anew"
)
SHOWN: Final = 5
"""Warnings of a plan that a reply repeats."""
DOES: Final[Mapping[AnswerVerb, str]] = {
    "ack": "acknowledge alerts of", "stop": "end the standing order of", "relaunch": "relaunch",
}  # fmt: skip
"""What an answer asks for, in words."""


class Waiting(NamedTuple):
    """An answer that was taken and waits for its turn; ``at`` is when it was read (steady s)."""

    reader: Reader
    given: Given
    command: Command
    at: float


class Ended(NamedTuple):
    """How an answer has ended (a state of ``HeardAnswer``), and what is replied."""

    state: str
    text: str
    offer: Offer | None = None
    """What the reply asks for: its words are to be sent back."""


class AnswerService(ReportService):
    """Reads the answers about the runs that are this cockpit's (``mine``), and does as they say.

    Each answer is taken in the store before anything is done for it: of several watches on one
    store one deals with it, and after a crash nobody does so again. What is sent back to confirm
    a relaunch must have been offered by this store, so that no other machine takes it.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        clock: Clock,
        mine: Callable[[RunReport], bool],
        issues: IssueService,
    ) -> None:
        super().__init__(engine, clock, mine)
        self._store = store
        self._answers = Answers(store)
        self._jumps = Jumps(clock)
        self._desk: Desk = desk_of(lambda: engine.file, issues, clock)
        self._specs: tuple[AnswerSpec, ...] = ()
        self._readers: tuple[Reader, ...] = ()
        self._runs: dict[str, RunReport] = {}
        self._next: dict[int, float] = {}
        self._waits: dict[int, float] = {}
        self._troubles: dict[int, tuple[str, ...]] = {}
        self._reading: dict[int, asyncio.Task[object]] = {}
        self._acting: dict[str, asyncio.Task[object]] = {}
        self._queues: dict[str, list[Waiting]] = {}
        self._seen: dict[int, frozenset[tuple[str, str]]] = {}
        self._noted: set[str] = set()
        self._unsent: dict[str, str] = {}
        self._services: dict[tuple[str, str], ActionService] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """Which answers cannot be read, and why; what went wrong here."""
        troubles = (each for found in self._troubles.values() for each in found)
        unread = (f"answers cannot be read: {each}" for each in troubles)
        return (*unread, *self._unsent.values(), *super().notices)

    async def look(self) -> None:
        """Begin to read what is due, and to do what waits; none waits for another."""
        for report in self._reports():
            if self._mine(report):
                self._runs[report.name] = report
            else:
                self._runs.pop(report.name, None)
        self._adopt(self._engine.file.notify.answers)
        self._jumps.look()
        now = self._clock.monotonic()
        for place, reader in enumerate(self._readers):
            idle = place not in self._reading or self._reading[place].done()
            if self._runs and idle and now >= self._next.get(place, now):
                self._next[place] = now + self._waits.get(place, reader.row.every)
                self._reading[place] = asyncio.ensure_future(self._try_to_read(place, reader))
        self._begin_waiting()

    async def stop(self, within: float) -> None:
        """Read no more; what an answer has begun has ``within`` seconds to end."""
        await super().stop(within)
        for reading in self._reading.values():
            reading.cancel()
        left = [task for task in self._acting.values() if not task.done()]
        if left:
            await asyncio.wait(left, timeout=within)
        for task in left:
            task.cancel()

    def _adopt(self, specs: tuple[AnswerSpec, ...]) -> None:
        """Take the run file over as it is now; who is not named any more counts no more."""
        if specs == self._specs:
            return
        for reading in self._reading.values():
            reading.cancel()
        self._specs, self._readers = specs, readers_of(specs, self._desk)
        self._reading, self._next, self._waits, self._troubles = {}, {}, {}, {}
        self._seen = {}

    def _begin_waiting(self) -> None:
        """Deal with what waits; the answers about one run one after another."""
        for run, waiting in self._queues.items():
            idle = run not in self._acting or self._acting[run].done()
            if waiting and idle:
                work = self._supervisor.run(
                    f"an answer about {run}",
                    WITHIN + READ_WITHIN,
                    self._deal_with(run, *waiting.pop(0)),
                )
                self._acting[run] = asyncio.ensure_future(work)

    async def _try_to_read(self, place: int, reader: Reader) -> None:
        """Read once; what takes too long or breaks is said, and tried again less often."""
        every = reader.row.every
        wait = min(2 * self._waits.get(place, every), LONGEST_WAIT)
        work = self._read(place, reader)
        found = await self._supervisor.run(f"answers by {reader.row.label}", READ_WITHIN, work)
        if isinstance(found, Problem):
            self._troubles[place] = (found.message,)
        self._waits[place] = every if found is True else wait

    async def _read(self, place: int, reader: Reader) -> bool:
        """Read once, and let what was given wait for its turn; tell whether anything was read.

        What comes again as it was is passed over: a topic or an issue that others fill is read
        again and again. Whoever may be somebody comes first.
        """
        if reader.trouble is not None:
            self._troubles[place] = (reader.trouble,)
            return True
        reading = await reader.read([report.spec for report in self._runs.values()])
        troubles, seen = list(reading.troubles), self._seen.get(place, frozenset())
        settled, whole = set[tuple[str, str]](), True
        for given in sorted(reading.given, key=lambda each: each.person is None and not each.token):
            known = (given.id, given.text)
            # Shielded: what is taken must come into its queue, even if this reading is ended.
            if known in seen or await asyncio.shield(self._take(reader, given, troubles)):
                settled.add(known)
            else:
                whole = False
        if whole:
            reading.settle()
        self._seen[place] = frozenset(settled)
        # Answers that a cockpit which is gone has left, half done or done.
        for run, report in list(self._runs.items()):
            with suppress(StoreError, TimeoutError):
                await self._end_interrupted_of(run, report, reader)
        self._troubles[place] = tuple(dict.fromkeys(troubles))
        self._begin_waiting()
        return not reading.dead

    async def _take(self, reader: Reader, given: Given, troubles: list[str]) -> bool:
        """Take an answer that is a command, once; note one that counts for nothing.

        Return whether it needs no further look.
        """
        if not -FRESH <= given.age < inf:
            troubles.append(f"{reader.row.label} does not say how old an answer is")
            return False
        at, late = self._clock.monotonic(), given.age > FRESH
        old = duration(given.age)
        try:
            meant = await offload(partial(self._meant, given), deadline=STORE_WITHIN)
            if meant is None:
                return True
            given, command = meant
            runs = [run for run in runs_meant(given, command) if run in self._runs]
            ignored = ""
            if given.person is None:
                ignored = given.nobody
            elif late:
                ignored = f"it was {old} old when it was read"
            heard = self._heard_of(given, IGNORED if ignored else TAKEN, ignored)
            for run in runs:
                take = partial(self._answers.take, self._key(run), heard, given.place)
                mine = await offload(take, deadline=STORE_WITHIN)
                if mine and not ignored:
                    waiting = Waiting(reader, given, command, at)
                    self._queues.setdefault(run, []).append(waiting)
        except (StoreError, TimeoutError, KeyFileError) as error:
            troubles.append(f"{reader.row.label}: {error}")
            return False  # nothing is done for what is not surely ours
        return len(runs) == len(given.runs)

    async def _end_interrupted_of(self, run: str, report: RunReport, reader: Reader) -> None:
        key = self._key(run)
        find = partial(self._answers.interrupted, key, self._clock.now() - 2 * WITHIN)
        for found in await offload(find, deadline=STORE_WITHIN):
            adopt = partial(self._answers.adopt, key, found)
            if found.heard.source != reader.row.label or not await offload(
                adopt, deadline=STORE_WITHIN
            ):
                continue
            heard = found.heard
            if heard.state == TAKEN:
                heard = heard.model_copy(update={"state": UNKNOWN, "result": INTERRUPTED})
                settle = partial(self._answers.settle, key, heard)
                if not await offload(settle, deadline=STORE_WITHIN):
                    continue  # whoever had taken it was not gone, and tells how it ended
            text = f"{heard.who}: {heard.result}"
            if heard.state == PLANNED:
                text += f" {NOT_OFFERED}"
            given = Given(reader.spec.kind, heard.answer, "", None, "", 0.0, place=found.place)
            await self._reply(reader, report, given, text)

    async def _reply(
        self, reader: Reader, report: RunReport, given: Given, text: str, offer: Offer | None = None
    ) -> None:
        """Reply once, and write that; what is not sent is a notice."""
        run = report.name
        self._unsent.pop(run, None)
        unsent = await reader.reply(report.spec, given, text, offer)
        if unsent is not None:
            self._unsent[run] = f"the reply to an answer about {run} was not sent: {unsent}"
        await self._release(run, given)

    async def _release(self, run: str, given: Given) -> None:
        source = ANSWER_KINDS[given.source].label
        replied = partial(self._answers.replied, self._key(run), source, given.id)
        with suppress(StoreError, TimeoutError):
            await offload(replied, deadline=STORE_WITHIN)

    def _meant(self, given: Given) -> tuple[Given, Command] | None:
        """Return an answer with what it asks for, ``None`` if that is nothing; blocking.

        What a service gives no account for counts only with a token of an offer of this store.
        """
        find = partial(self._answers.offered, self._key(""), given.ref)
        found = find(moment(self._clock)) if given.ref else None
        if found is not None:
            runs = tuple(dict.fromkeys(each.run for each in found.offer.asks))
            given = given._replace(runs=runs, place=given.place or found.offer.route)
        if ANSWER_KINDS[given.source].accounts is None:
            return self._by_token(given, found)
        if not given.ref:
            return commanded(given)
        return None if found is None else by_reference(given, found)

    def _by_token(self, given: Given, found: FoundOffer | None) -> tuple[Given, Command] | None:
        """Return what the holder of a token asks for; note one that holds for nothing."""
        if found is None:
            why: str | None = "it has no token that this cockpit knows"
        elif not signed_by_us(given.token, found.offer, signing_key(key_path())):
            why = "its token is not signed with this machine's key"
        else:
            late = "it waited on the topic for too long" if given.age > FRESH else None
            why = late or found.over or self._unreachable(found.offer.person)
        if found is None or why is not None:
            self._note_foreign(given, why or "")
            return None
        offer = found.offer
        given = given._replace(person=offer.person)
        if offer.words:
            return given, Command("relaunch", given.text, confirms=True)
        wrong = "a button sends its token alone" if given.text else None
        # However often it is pressed, and whatever the topic calls that: one answer.
        pressed = given.id if wrong else offer.ref
        given = given._replace(id=pressed, trouble=wrong, text=f"/{offer.verb}")
        if offer.verb != "ack":
            return given, Command(offer.verb)
        return given._replace(age=found.age), Command("ack", asks=offer.asks)

    def _unreachable(self, person: str) -> str | None:
        """Return why a button counts for nobody: no such message goes to that person any more."""
        routes = (each for each in self._engine.file.notify.routes if each.kind == "ntfy")
        if any(each.to is not None and same_person(each.to, person) for each in routes):
            return None
        return "the run file has no route to its person any more"

    def _note_foreign(self, given: Given, why: str) -> None:
        """Note, once an hour for each reason, what came from nobody whom we know; blocking."""
        what = f"{why} {self._clock.now() // FRESH:.0f}"
        if what not in self._noted:
            heard = self._heard_of(given, IGNORED, why)
            heard = heard.model_copy(update={"answer": what, "said": "something"})
            self._answers.take(self._key(""), heard)
            self._noted.add(what)

    def _key(self, run: str) -> str:
        return run_key(self._engine.file.path, run)

    def _heard_of(self, given: Given, state: str, result: str = "") -> HeardAnswer:
        who = shown(given.account, 100) or "an unknown account"
        return HeardAnswer(
            source=ANSWER_KINDS[given.source].label,
            answer=given.id,
            at=self._clock.now(),
            who=who if given.person is None else f"{who} ({given.person})",
            said=given.said,
            state=state,
            result=shown(result, SAID),
        )

    async def _deal_with(
        self, run: str, reader: Reader, given: Given, command: Command, at: float
    ) -> None:
        """Do what an answer asks for, write down how that ended, and reply."""
        given = given._replace(age=given.age + self._clock.monotonic() - at)
        report = self._runs.get(run)
        if report is None:
            ended = Ended(REFUSED, f"this cockpit watches {run} no more")
        else:
            work = self._ended(report, reader, given, command)
            found = await self._supervisor.run(f"an answer about {run}", WITHIN, work)
            why = f"not known whether it was done: {getattr(found, 'message', '')}"
            ended = Ended(UNKNOWN, why) if isinstance(found, Problem) else found
        heard = self._heard_of(given, ended.state, ended.text)
        with suppress(StoreError, TimeoutError):
            settle = partial(self._answers.settle, self._key(run), heard)
            await offload(settle, deadline=STORE_WITHIN)
        if report is not None and ended.state != IGNORED:
            text = f"{given.person}: {ended.text}"
            if ended.offer is not None:
                text += f" To do it, send these words within {duration(CONFIRM_LASTS)}"
            await self._reply(reader, report, given, text, ended.offer)
        else:
            await self._release(run, given)
        await self._engine.poke(run)

    async def _ended(
        self, report: RunReport, reader: Reader, given: Given, command: Command
    ) -> Ended:
        """Return how an answer ends; raises nothing that an action may raise."""
        why = given.trouble or self._not_theirs(report.name, reader, given, command)
        if why is not None:
            return Ended(REFUSED, why)
        try:
            if command.verb == "ack":
                return await self._acknowledge(report, given, command)
            if command.verb == "stop":
                return await self._end_order(report, given)
            if command.confirms:
                return await self._relaunch(report, given, command.what)
            return await self._offer_relaunch(report, given)
        except RefuseError as error:
            return Ended(REFUSED, str(error))
        except (StoreError, TimeoutError) as error:
            return Ended(UNKNOWN, f"not known whether it was done: {error}")

    def _not_theirs(self, run: str, reader: Reader, given: Given, command: Command) -> str | None:
        """Return why this person may not ask for this, by the run file as it is now."""
        file, person = self._engine.file, given.person or ""
        if reader.spec not in file.notify.answers:
            return "the run file has changed since; answer anew"
        owner = next((each.dri for each in file.runs if each.name == run), None)
        second = file.notify.second
        if owner is not None and same_person(person, owner):
            return None
        if command.verb != "relaunch" and second is not None and same_person(person, second):
            return None
        named = f"the run file names {owner or 'nobody'} as its dri"
        return f"{person} may not {DOES[command.verb]} {run} from here: {named}"

    def _service(self, given: Given) -> ActionService:
        """Return what acts as the person whose account has answered."""
        who = (given.person or "", given.login)
        if who not in self._services:
            parts = (lambda: self._engine.file, self._engine, self._store, self._clock)
            self._services[who] = build_service(*parts, operator=who[0], login=who[1])
        return self._services[who]

    async def _acknowledge(self, report: RunReport, given: Given, command: Command) -> Ended:
        """Acknowledge what was open when the answer was given, alert by alert."""
        what = command.what
        keys = {each.key for each in command.asks if each.run == report.name}
        now, key = self._clock.now(), self._key(report.name)
        kept = await offload(partial(Alerts(self._store).open, key), deadline=STORE_WITHIN)
        since = self._jumps.since
        before = [each for each in kept if since(each.opened_at) >= given.age - SAME_CLOCK]
        named = [
            each.alert
            for each in before
            if (not keys or each.alert.key in keys)
            and (
                what in ("", "all") or what in (each.alert.id.casefold(), each.alert.key.casefold())
            )
        ]
        waiting = [each for each in named if current(each.acknowledged, now) is None]
        if not waiting and named:
            by = ", ".join(sorted({each.acknowledged.by for each in named if each.acknowledged}))
            return Ended(DONE, f"acknowledged already, by {by}")
        if not waiting or (not what and not keys and len(waiting) > 1):
            return Ended(REFUSED, _which(what, bool(keys), [each.alert for each in before]))
        results = [await self._acknowledge_one(report, given, each) for each in waiting]
        states = [each.state for each in results]
        worst = next((state for state in (UNKNOWN, FAILED, REFUSED) if state in states), DONE)
        return Ended(worst, "; ".join(each.text for each in results))

    async def _acknowledge_one(self, report: RunReport, given: Given, alert: Alert) -> Ended:
        params = {"key": alert.key, "reason": f"answered from {ANSWER_KINDS[given.source].label}"}
        request = Request(action="ack", run=report.name, operator=given.person or "", params=params)
        service = self._service(given)
        plan = await service.plan(request)
        result = await service.act(request, plan.words, shown=plan.plan_id)
        if result.outcome is Outcome.DONE:
            said = f"{alert.id} acknowledged"
            return Ended(DONE, "; ".join(filter(None, (said, result.message))))
        return Ended(result.outcome.value, f"{alert.id}: {result.message or result.text}")

    async def _end_order(self, report: RunReport, given: Given) -> Ended:
        """End the standing order here and on other machines, and stop what agents are about."""
        service, person = self._service(given), given.person or ""
        find = partial(StandingOrders(self._store).of, self._key(report.name))
        order = await offload(find, deadline=STORE_WITHIN)
        if order is not None and self._jumps.since(order.at) < given.age - SAME_CLOCK:
            return Ended(REFUSED, "the standing order was armed after this was written")
        reason = f"answered from {ANSWER_KINDS[given.source].label}"
        vetoed = await service.veto(report.name, person, reason)
        ended = vetoed.order is not None
        elsewhere = await service.end_elsewhere(report.name, person, ended=ended)
        lines = [*vetoed.lines, *filter(None, (elsewhere,))]
        if not lines:
            return Ended(REFUSED, "no standing order is armed, and no agent is about to act")
        done = elsewhere in (None, ENDS_ELSEWHERE)
        return Ended(DONE if done else UNKNOWN, "; ".join(lines))

    async def _offer_relaunch(self, report: RunReport, given: Given) -> Ended:
        """Plan a relaunch; where nothing stands against it, ask for its words to be sent back."""
        run, service = report.name, self._service(given)
        await service.recover(run)
        plan = await service.plan(_relaunch_of(run, given))
        why = "; ".join(_against(plan))
        if why:
            return Ended(REFUSED, f"not from here: {why}")
        assert plan.checkpoint is not None
        ref = new_ref()
        words = f"relaunch {run} from {plan.checkpoint.step} {ref[:CODE]}"
        offer = Offer(
            ref=ref,
            verb="relaunch",
            asks=(Ask(run=run),),
            lasts=CONFIRM_LASTS,
            person=given.person or "",
            words=words,
            plan_id=plan.plan_id,
            route=given.place,
        )
        keep = partial(self._answers.offer, self._key(""), offer, moment(self._clock))
        await offload(keep, deadline=STORE_WITHIN)
        warns = [check.text for check in plan.checks if check.level is Level.WARN]
        told = [plan.summary, *(f"warning: {each}." for each in warns[:SHOWN])]
        if len(warns) > SHOWN:
            told.append(f"{plural(len(warns) - SHOWN, 'more warning')}: cockpit relaunch {run}.")
        return Ended(PLANNED, " ".join(told), offer)

    async def _relaunch(self, report: RunReport, given: Given, words: str) -> Ended:
        """Relaunch as it was planned, if these are the words of an offer that still holds."""
        find = partial(self._answers.offered, self._key(""), words.split()[-1])
        found = await offload(lambda: find(moment(self._clock)), deadline=STORE_WITHIN)
        if found is None:
            return Ended(IGNORED, "these words were not asked for by this cockpit")
        offer = found.offer
        if offer.words != words or offer.asks != (Ask(run=report.name),):
            return Ended(REFUSED, "these are not the words that were asked for; nothing was done")
        if not same_person(offer.person, given.person or ""):
            return Ended(REFUSED, f"these words are for {offer.person} to send")
        if found.over is not None:
            return Ended(REFUSED, f"these words hold no more: {found.over}; ask anew")
        use = partial(self._answers.use, offer.ref, self._clock.now())
        if not await offload(use, deadline=STORE_WITHIN):
            return Ended(REFUSED, "these words were used already")
        request = _relaunch_of(report.name, given)
        result = await self._service(given).act(
            request, f"relaunch {report.name}", shown=offer.plan_id
        )
        job = f" as {result.launch_id}" if result.launch_id else ""
        said = "; ".join(filter(None, (f"{result.text}{job}", result.message)))
        return Ended(result.outcome.value, f"relaunch {said}")


def _which(what: str, limited: bool, open_then: list[Alert]) -> str:
    """Return what is to be said of an acknowledgement that names no alert, or several.

    ``limited``: it is about the alerts of one message.
    """
    if limited:
        return "no alert of that message is still open"
    if not open_then:
        return "no alert is open that was when this was written"
    ids = ", ".join(sorted({each.id for each in open_then}))
    named = f"no alert {what} is open that was when this was written"
    why = "several alerts were open" if what in ("", "all") else named
    return f"{why}; open then: {ids}. Say which, or all"


def _relaunch_of(run: str, given: Given) -> Request:
    return Request(action="relaunch", run=run, operator=given.person or "")


def _against(plan: Plan) -> Iterator[str]:
    """Yield what keeps an answer from relaunching: any block, all that is no plain resume."""
    yield from (check.text for check in plan.checks if check.level is Level.BLOCK)
    if plan.checkpoint is None or plan.checkpoint.step is None:
        yield "there is no checkpoint to go on from"
    if plan.stops:
        yield f"it would stop {', '.join(plan.stops)} first"
