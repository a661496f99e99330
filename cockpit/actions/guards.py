"""All the guards of a run together: claims that other machines can see (SPEC A)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cockpit.actions.ground import Guard
from cockpit.model.plan import Basis, Check, Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec


class Claims:
    """Takes every guard or none; one that cannot be used here only warns."""

    CHECK: ClassVar[str] = "second-machine"

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._guards = guards
        self._taken: list[Guard] = []

    async def checks(self, run: RunSpec) -> list[Check]:
        """Return one check about whether a second machine can be excluded."""
        claims = [await guard.survey(run) for guard in self._guards]
        return [_check(claims)]

    async def launch_ids(self, run: RunSpec) -> set[str]:
        """Return the launch ids that the guards know of."""
        claims = [await guard.survey(run) for guard in self._guards]
        return {claim.launch_id for claim in claims if claim.launch_id}

    async def take(
        self, run: RunSpec, launch_id: str | None, what: str, *, over: bool
    ) -> str | None:
        """Take all; return why not if one is held by somebody else (then none is kept)."""
        for guard in self._guards:
            claim = await guard.take(run, launch_id, what, over=over)
            if claim.level == Level.BLOCK.value:
                await self.release(run)
                return claim.text
            if claim.level == Level.PASS.value:
                self._taken.append(guard)
        return None

    async def still_mine(self, run: RunSpec) -> bool:
        """Return whether no claim that was taken has been lost."""
        answers = [await guard.still_mine(run) for guard in self._taken]
        return False not in answers

    async def release(self, run: RunSpec) -> None:
        """Give back what was taken."""
        for guard in self._taken:
            await guard.release(run)
        self._taken.clear()

    async def clear(self, run: RunSpec) -> None:
        """Remove what dead processes of this machine left."""
        for guard in self._guards:
            await guard.clear(run)


def _check(claims: Sequence[Claim]) -> Check:
    held = next((claim for claim in claims if claim.level == Level.BLOCK.value), None)
    usable = [claim for claim in claims if claim.level == Level.PASS.value]
    if held is not None:
        level, text = Level.BLOCK, held.text
    elif usable:
        level, text = Level.PASS, "; ".join(claim.text for claim in usable)
    else:
        level = Level.WARN
        why = "; ".join(claim.text for claim in claims) or "no guard is set up"
        text = f"a second machine cannot be excluded: {why}"
    return Check(
        id=Claims.CHECK, level=level, text=text, basis=Basis.OBSERVED,
        overridable=level is Level.BLOCK,
        about_acting=True,
    )  # fmt: skip
