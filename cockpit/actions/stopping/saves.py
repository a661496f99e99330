"""A save that was asked for, seen to be complete where the checkpoints lie (SPEC A-2, A-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cockpit.actions.core.parameters import safe
from cockpit.model.clock import Clock
from cockpit.model.observed import CheckpointState
from cockpit.model.place import SSH
from cockpit.model.run import RunSpec
from cockpit.model.wording import duration
from cockpit.runtime.moment import Awake
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Anew, nothing_there

HERE_EVERY: Final = 0.5
HOST_EVERY: Final = 3.0
BUCKET_EVERY: Final = 10.0
"""Seconds between two looks: each is a listing that somebody pays for."""
LIVES_EVERY: Final = 10.0
"""Seconds between two looks at whether what was asked to save still lives."""

Known = Mapping[tuple[str, float | None], int]
"""Complete checkpoints by place and time, with their steps."""


class SavesUnknownError(Exception):
    """What is complete cannot be told just now; the text is one line."""


class NoSaveError(Exception):
    """No new checkpoint came; the text is one line."""


class Saves:
    """The complete checkpoints of one run, looked at again and again through one listing."""

    def __init__(self, run: RunSpec, clock: Clock) -> None:
        self._roots = run.checkpoints.path if run.checkpoints is not None else ()
        self._anew = Anew(run, clock)
        self._clock = clock
        by_signal = run.job is not None and run.job.save_signal is not None
        self._doubt = "does it know the signal?" if by_signal else "did that end it?"

    @property
    def every(self) -> float:
        """Seconds after which to look again: gentler the farther the roots are."""
        pace = (
            HERE_EVERY if root.here else HOST_EVERY if root.scheme == SSH else BUCKET_EVERY
            for root in self._roots
        )
        return max(pace, default=HERE_EVERY)

    async def complete(self) -> Known:
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

    async def new(self, before: Known, within: float, lives: Callable[[], Awaitable[bool]]) -> int:
        """Return the step of a complete checkpoint that was none ``before``.

        Raises ``NoSaveError`` after ``within`` seconds, and soon after nothing ``lives`` any more:
        a trainer that does not know the signal dies of it.
        """
        until = Awake(within, within / 2, self._clock.monotonic)
        begun = self._clock.monotonic()
        ended, unseen, due = False, "", begun + LIVES_EVERY
        while until.left() > 0 and not ended:
            if self._clock.monotonic() >= due:
                ended, due = not await lives(), self._clock.monotonic() + LIVES_EVERY
            step, unseen = await self._newest(before)
            if step is not None:
                return step
            await self._clock.sleep(min(self.every, max(0.1, until.left())))
        if ended:
            waited = duration(self._clock.monotonic() - begun)
            text = f"the job ended within {waited} of being asked to save ({self._doubt})"
            raise NoSaveError(f"{text}; no new checkpoint is complete{unseen}")
        text = f"no new checkpoint was complete within {duration(within)}{unseen}"
        raise NoSaveError(f"{text}; nothing was stopped: try again, or without saving first")

    async def _newest(self, before: Known) -> tuple[int | None, str]:
        """Return the newest step that was not complete ``before``, or why that cannot be told."""
        try:
            now = await self.complete()
        except SavesUnknownError as error:
            return None, f" (the last look: {error})"
        return max((now[each] for each in now.keys() - before.keys()), default=None), ""
