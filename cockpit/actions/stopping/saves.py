"""A save that was asked for, seen to be complete where the checkpoints lie (SPEC A-2, A-5)."""

from __future__ import annotations

from typing import Final

from cockpit.actions.core.parameters import safe
from cockpit.model.clock import Clock
from cockpit.model.observed import CheckpointState
from cockpit.model.place import SSH
from cockpit.model.run import RunSpec
from cockpit.sources.checkpoints.anew import Anew, nothing_there
from cockpit.sources.checkpoints.tree import ListingError

HERE_EVERY: Final = 0.5
HOST_EVERY: Final = 3.0
BUCKET_EVERY: Final = 10.0
"""Seconds between two looks: each is a listing that somebody pays for."""


class SavesUnknownError(Exception):
    """What is complete cannot be told just now; the text is one line."""


class Saves:
    """The complete checkpoints of one run, looked at again and again through one listing."""

    def __init__(self, run: RunSpec, clock: Clock) -> None:
        self._roots = run.checkpoints.path if run.checkpoints is not None else ()
        self._anew = Anew(run, clock)

    @property
    def every(self) -> float:
        """Seconds after which to look again: gentler the farther the roots are."""
        pace = (
            HERE_EVERY if root.here else HOST_EVERY if root.scheme == SSH else BUCKET_EVERY
            for root in self._roots
        )
        return max(pace, default=HERE_EVERY)

    async def complete(self) -> dict[tuple[str, float | None], int]:
        """Return the complete checkpoints by place and time, with their steps.

        Raises ``SavesUnknownError``; roots that do not exist (yet) hold none.
        """
        if not self._roots:
            return {}
        try:
            value = await self._anew.look(alive=None)
        except (OSError, ValueError, TimeoutError, ListingError) as error:
            if nothing_there(error):
                return {}
            raise SavesUnknownError(safe(error)) from error
        done = [item for item in value.items if item.state is CheckpointState.COMPLETE]
        return {(item.path, item.saved_at): item.step for item in done if item.step is not None}
