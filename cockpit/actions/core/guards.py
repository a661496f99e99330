"""What an action holds while it acts: lease, claims on the lineage, launch ids (SPEC A)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.actions.core.action import ActionContext, Dependencies, Guard, acting, asked
from cockpit.actions.core.execution import look_up, settled
from cockpit.hosts import notes
from cockpit.hosts.notes import number_of
from cockpit.model import check_rows as rows
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.lineage import local_root
from cockpit.model.plan import Approval, Basis, Check, Level, Plan
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, Platform
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.store.journal import Journal
from cockpit.text.checks import finding
from cockpit.text.scrub import shown


class Claims:
    """Takes every guard or none; one that cannot be used here only warns."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._guards = guards
        self._taken: list[Guard] = []

    @classmethod
    def approved_over(cls, approvals: Sequence[Approval]) -> str | None:
        """Return the block that was shown and that a person has approved to pass over, if any."""
        return next((each.seen for each in approvals if each.check == rows.SECOND_MACHINE.id), None)

    @classmethod
    def refusing(cls, plan: Plan, why: str) -> Plan:
        """Return a plan with what kept its claims from being taken, as a block to approve."""
        block = {"level": Level.BLOCK, "text": why, "overridable": rows.SECOND_MACHINE.approvable}
        checks = (
            each.model_copy(update=block) if each.id == rows.SECOND_MACHINE.id else each
            for each in plan.checks
        )
        return plan.model_copy(update={"checks": tuple(checks)})

    async def survey(self, run: RunSpec) -> tuple[Claim, ...]:
        """Return how every claim stands, changing nothing."""
        return tuple(await asyncio.gather(*(guard.survey(run) for guard in self._guards)))

    async def take(
        self, run: RunSpec, launch_id: str | None, what: str, *, over: bool
    ) -> str | None:
        """Take all; return why not if one is held by somebody else (then none is kept).

        Nor may all fail that a plan took for usable: it said that no other cockpit can act.
        """
        failed = []
        for guard in self._guards:
            claim = await guard.take(run, launch_id, what, over=over)
            failed += [claim.text] if claim.promised else []
            if claim.level == Level.BLOCK.value:
                await self.release(run, used=False)
                return claim.text
            if claim.level == Level.PASS.value:
                self._taken.append(guard)
        return "; ".join(failed) if failed and not self._taken else None

    async def still_mine(self, run: RunSpec) -> bool:
        """Return whether no claim that was taken has been lost."""
        answers = [await guard.still_mine(run) for guard in self._taken]
        return False not in answers

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Give back what was taken; ``used``: something may have been launched under it."""
        for guard in self._taken:
            await guard.release(run, used=used)
        self._taken.clear()

    async def clear(self, run: RunSpec) -> None:
        """Remove what dead processes of this machine left."""
        for guard in self._guards:
            await guard.clear(run)


def claim_checks(
    run: str,
    claims: Sequence[Claim],
    here: Collection[str] | None = None,
    told: Mapping[str, LookUp] | None = None,
) -> list[Check]:
    """Return one check about whether a second machine can be excluded.

    ``here`` are the launch ids that this machine knows of, where something is to be launched:
    a later one that another machine was given may live there. ``told`` is what the platform says
    of those that can be looked up from here; of others nothing here tells whether they live.
    """
    return [
        _check(claims),
        *_unanswered(claims),
        *(() if here is None else _elsewhere(run, claims, here, told or {})),
    ]


def launched_elsewhere(run: str, claims: Sequence[Claim], here: Collection[str]) -> list[Claim]:
    """Return the claims that tell of a launch by another machine, later than all known here."""
    ours = {claim.launch_id for claim in claims if claim.launched_by is None}
    numbers = (number_of(run, each) for each in (*here, *ours) if each is not None)
    newest = max((number for number in numbers if number is not None), default=0)
    return [
        claim
        for claim in claims
        if claim.launched_by and (number_of(run, claim.launch_id or "") or 0) > newest
    ]


def _unanswered(claims: Sequence[Claim]) -> list[Check]:
    """Say which guard gave no answer where another one holds: it is not waited for again."""
    if all(claim.level == Level.WARN.value for claim in claims):
        return []
    return [
        rows.GUARD_SILENT.check(Level.WARN, claim.text)
        for claim in claims
        if claim.level == Level.WARN.value and claim.unanswered
    ]


def _elsewhere(
    run: str, claims: Sequence[Claim], here: Collection[str], told: Mapping[str, LookUp]
) -> list[Check]:
    """Say of each launch of another machine what is known: the platform decides where it can.

    One that it says lives is the affair of the checks on what lives (C-25).
    """
    checks = []
    for claim in launched_elsewhere(run, claims, here):
        found = told.get(claim.launch_id or "")
        by = f"{claim.launch_id} was launched by {claim.launched_by}"
        if found is not None and found.found is not LaunchState.UNKNOWN:
            level, text = Level.PASS, f"{by}; looked up: {found.text}"
        else:
            why = "" if found is None else f" ({found.text})"
            level = Level.BLOCK
            text = f"{by}; cannot tell whether it still runs{why}: approve once it has ended there"
        basis = Basis.RECORDED if found is None else Basis.OBSERVED
        checks.append(rows.LAUNCHED_ELSEWHERE.check(level, text, basis))
    return checks


def held_text(claims: Sequence[Claim]) -> str | None:
    """Return who holds the run, by every claim that somebody else holds; ``None``: nobody."""
    held = [claim for claim in claims if claim.level == Level.BLOCK.value]
    return _texts(held) if held else None


def _texts(claims: Sequence[Claim]) -> str:
    return "; ".join(claim.text for claim in claims)


def _check(claims: Sequence[Claim]) -> Check:
    held = held_text(claims)
    if held is not None:
        final = any(claim.final for claim in claims)
        return (rows.HELD_FOR_GOOD if final else rows.SECOND_MACHINE).check(Level.BLOCK, held)
    usable = [claim for claim in claims if claim.level == Level.PASS.value]
    if usable:
        text = f"no other cockpit holds this run: {_texts(usable)}"
        return rows.SECOND_MACHINE.check(Level.PASS, text)
    why = _texts(claims) or "no guard is configured"
    return rows.SECOND_MACHINE.check(Level.WARN, f"a second machine cannot be excluded: {why}")


FRESH_FOR: Final = 15.0
"""Seconds for which it is believed, between two steps, that the run is still ours."""


@dataclass
class Hold:
    """One action's hold on its run; ``key`` and ``entry`` are where the journal keeps it."""

    run: RunSpec
    key: str
    entry: int
    parts: Dependencies
    claims: Claims
    exclusive: bool = True
    _seen: tuple[float, float] | None = field(default=None, init=False)

    async def lost(self) -> str | None:
        """Return why the run is not ours to act on any more; ``None``: it is. Asks everybody."""
        before = self._times()
        if not await self.claims.still_mine(self.run):
            return "another machine has taken over the run"
        journal = self.parts.journal
        if journal is None or not await asked(
            journal.holds, self.key, self.entry, leased=self.exclusive
        ):
            return "another cockpit has ended this action meanwhile"
        self._seen = before
        return None

    async def lost_since(self) -> str | None:
        """Return the same; asks only if it has not been seen for a while, by either clock."""
        if self._seen is not None:
            passed = (now - then for now, then in zip(self._times(), self._seen, strict=True))
            if all(abs(each) < FRESH_FOR for each in passed):
                return None
        return await self.lost()

    def _times(self) -> tuple[float, float]:
        return self.parts.clock.monotonic(), self.parts.clock.now()


async def take(hold: Hold, launch_id: str | None, what: str, *, over: str | None) -> str | None:
    """Take every claim on the run; return why not if that may not be.

    ``over`` is the block of a holder that was shown and approved: another one is not meant. It is
    taken over only once nothing can start under its launch id: its holder may be stopped between
    two steps, and go on afterwards.
    """
    platform, looked_up = acting(hold.parts.platforms(hold.run)), {launch_id}
    while over is not None:
        left = await hold.claims.survey(hold.run)
        stands = held_text(left)
        if stands is not None and stands != over:
            return f"changed since it was shown: {stands}; plan again"
        held = {each.launch_id for each in left if each.level == Level.BLOCK.value} - looked_up
        if platform is None or not (formers := sorted(filter(None, held))):
            break  # what a look-up has closed is noted beside a claim: it was read anew
        for former in formers:
            found = await settled(platform, hold.run, former, hold.parts.clock)
            if found.found is LaunchState.UNKNOWN:
                return f"cannot tell whether {former} was started: {found.text}; nothing was done"
        looked_up |= set(formers)
    return await hold.claims.take(hold.run, launch_id, what, over=over is not None)


async def looked_up_elsewhere(context: ActionContext, here: Collection[str]) -> dict[str, LookUp]:
    """Return what the platform says of launches that another machine has made, by launch id.

    ``here`` are those that this machine knows of. Asked only while nobody holds a claim: a
    look-up ends what was accepted and not let go. Nothing where jobs cannot be seen from here.
    """
    platform, claims = context.acting_platform, context.claims
    held = any(each.level == Level.BLOCK.value for each in claims)
    if platform is None or not platform.shared or held:
        return {}
    run = context.spec
    ids = {each.launch_id for each in launched_elsewhere(run.name, claims, here)}
    return {one: await look_up(platform, run, one) for one in sorted(filter(None, ids))}


DEADLINE: Final = 10.0


class Noted(NamedTuple):
    """The launch ids that are written somewhere; ``unread``: what could not be read, and why."""

    ids: frozenset[str]
    unread: tuple[str, ...] = ()


async def noted_ids(run: RunSpec, platform: Platform | None = None) -> Noted:
    """Return the launch ids of a run that logbook, places and platform name; never raises.

    What is not there names none; what does not answer, or may not be read, may name any.
    """
    logbook = run.records.logbook
    looks: list[tuple[Callable[[str, Path], set[str]], Path]] = []
    if logbook is not None:
        looks.append((_in_logbook, Path(logbook)))
    looks += [(_in_folder, folder) for folder in _folders(run)]
    found: set[str] = set()
    unread = []
    for look, place in looks:
        try:
            found |= await offload(look, run.name, place, deadline=DEADLINE)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or "it cannot be read"
            unread.append(f"{shown(place)}: {shown(why).lower()}")
    try:
        found |= await platform.launch_ids(run) if platform is not None else frozenset()
    except CannotError as error:
        unread.append(shown(error))
    return Noted(frozenset(found), tuple(unread))


def unread_ids(context: ActionContext) -> list[Check]:
    """Return the warning that a launch id may have been given out before, unseen from here."""
    if not context.ids_unread:
        return []
    where = "; ".join(context.ids_unread)
    text = f"not all earlier launch ids could be read ({where})"
    return [finding(rows.LAUNCH_IDS, text)]


def _folders(run: RunSpec) -> Iterator[Path]:
    root, job = local_root(run), run.job
    if root is not None:
        yield Path(root) / notes.BELOW
    if job is not None and job.pid_file is not None and job.pid_file.here:
        yield Path(job.pid_file.path).expanduser().parent / notes.BELOW


def _in_folder(run: str, folder: Path) -> set[str]:
    return {name for name in notes.launch_ids(folder) if notes.number_of(run, name)}


def _in_logbook(run: str, logbook: Path) -> set[str]:
    """Return the ids in a logbook, in whatever form: prose, an instance's heading, a title."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(run)}-i\d{{1,6}}(?![\w-])")
    return set(pattern.findall(read_text(logbook)))


async def known_here(journal: Journal | None, context: ActionContext) -> set[str]:
    """Return the launch ids that this machine knows of by itself; raises ``StoreError``."""
    known = set(await asked(journal.launch_ids, context.key)) if journal else set()
    job = context.report.facets.job.value
    if job is not None and job.launch_id:
        known.add(job.launch_id)
    return known | {each.launch_id for each in context.live.jobs if each.launch_id}
