"""What an action holds while it acts: its lease in the journal, and its claims on the lineage.

A process can be stopped for hours in the middle of an action (SIGSTOP, a suspended laptop) while
somebody takes the run over. So it is asked again before whatever cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from cockpit.actions.core.action import asked
from cockpit.actions.core.context import ActionContext, Dependencies, acting
from cockpit.actions.core.guards import Claims, held_text, launched_elsewhere
from cockpit.actions.core.lookups import look_up, settled
from cockpit.model.jobs import Found, LookUp
from cockpit.model.plan import Level
from cockpit.model.run import RunSpec

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
    platform = acting(hold.parts.platforms(hold.run))
    left = await hold.claims.survey(hold.run) if over is not None else ()
    stands = held_text(left)
    if stands is not None and stands != over:
        return f"changed since it was shown: {stands}; plan again"
    held = {each.launch_id for each in left if each.level == Level.BLOCK.value}
    for former in () if platform is None else sorted(filter(None, held - {launch_id})):
        assert platform is not None
        found = await settled(platform, hold.run, former, hold.parts.clock)
        if found.found is Found.UNKNOWN:
            return f"cannot tell whether {former} was started: {found.text}; nothing was done"
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
