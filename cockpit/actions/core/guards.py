"""All the guards of a run together: claims that other machines can see (SPEC A)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from cockpit.actions.core.context import Guard
from cockpit.model.jobs import Found, LookUp
from cockpit.model.plan import Approval, Basis, Check, Level, Plan
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher.launches import number_of

ELSEWHERE: Final = "launched-elsewhere"


class Claims:
    """Takes every guard or none; one that cannot be used here only warns."""

    CHECK: ClassVar[str] = "second-machine"

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._guards = guards
        self._taken: list[Guard] = []

    @classmethod
    def approved_over(cls, approvals: Sequence[Approval]) -> str | None:
        """Return the block that was shown and that a person has approved to pass over, if any."""
        return next((each.seen for each in approvals if each.check == cls.CHECK), None)

    @classmethod
    def refusing(cls, plan: Plan, why: str) -> Plan:
        """Return a plan with what kept its claims from being taken, as a block to approve."""
        told = {"level": Level.BLOCK, "text": why, "overridable": True}
        checks = (
            each.model_copy(update=told) if each.id == cls.CHECK else each for each in plan.checks
        )
        return plan.model_copy(update={"checks": tuple(checks)})

    async def survey(self, run: RunSpec) -> tuple[Claim, ...]:
        """Return how every claim stands, changing nothing."""
        return tuple(await asyncio.gather(*(guard.survey(run) for guard in self._guards)))

    async def take(
        self, run: RunSpec, launch_id: str | None, what: str, *, over: bool
    ) -> str | None:
        """Take all; return why not if one is held by somebody else (then none is kept)."""
        for guard in self._guards:
            claim = await guard.take(run, launch_id, what, over=over)
            if claim.level == Level.BLOCK.value:
                await self.release(run, used=False)
                return claim.text
            if claim.level == Level.PASS.value:
                self._taken.append(guard)
        return None

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


class ByRoot:
    """The guard under a run's output root, by where that lies; a ``Guard`` itself.

    ``others`` are those of other schemes than this machine's, which ``here`` speaks for too.
    """

    def __init__(self, here: Guard, others: Mapping[str, Guard]) -> None:
        self._here = here
        self._others = others

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim under the root stands."""
        return await self._of(run).survey(run)

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim under the root."""
        return await self._of(run).take(run, launch_id, what, over=over)

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the claim under the root is still ours."""
        return await self._of(run).still_mine(run)

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Give the claim under the root back."""
        await self._of(run).release(run, used=used)

    async def clear(self, run: RunSpec) -> None:
        """Remove what a dead process of this machine left under the root."""
        await self._of(run).clear(run)

    def _of(self, run: RunSpec) -> Guard:
        root = run.output_root
        return self._here if root is None else self._others.get(root.scheme, self._here)


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
        Check(
            id=f"{Claims.CHECK}:remote", level=Level.WARN, basis=Basis.OBSERVED, text=claim.text,
            about_acting=True,
        )
        for claim in claims
        if claim.level == Level.WARN.value and claim.unanswered
    ]  # fmt: skip


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
        if found is not None and found.found is not Found.UNKNOWN:
            level, text = Level.PASS, f"{by}; looked up: {found.text}"
        else:
            why = "" if found is None else f" ({found.text})"
            level = Level.BLOCK
            text = f"{by}; cannot tell whether it still runs{why}: approve once it has ended there"
        checks.append(
            Check(
                id=ELSEWHERE, level=level, text=text, overridable=level is Level.BLOCK,
                basis=Basis.RECORDED if found is None else Basis.OBSERVED, about_acting=True,
            )
        )  # fmt: skip
    return checks


def held_text(claims: Sequence[Claim]) -> str | None:
    """Return who holds the run, by every claim that somebody else holds; ``None``: nobody."""
    held = [claim for claim in claims if claim.level == Level.BLOCK.value]
    return _texts(held) if held else None


def _texts(claims: Sequence[Claim]) -> str:
    return "; ".join(claim.text for claim in claims)


def _check(claims: Sequence[Claim]) -> Check:
    held = held_text(claims)
    usable = [claim for claim in claims if claim.level == Level.PASS.value]
    if held is not None:
        level, text = Level.BLOCK, held
    elif usable:
        level, text = Level.PASS, f"no other cockpit holds this run: {_texts(usable)}"
    else:
        level = Level.WARN
        why = _texts(claims) or "no guard is configured"
        text = f"a second machine cannot be excluded: {why}"
    return Check(
        id=Claims.CHECK, level=level, text=text, basis=Basis.OBSERVED,
        overridable=level is Level.BLOCK and not any(claim.living for claim in claims),
        about_acting=True,
    )  # fmt: skip
