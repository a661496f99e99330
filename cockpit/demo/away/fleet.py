"""Submits the fleet to its system and starts the monitors here: beside the UI, in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from cockpit.demo import folder
from cockpit.demo.away.journal import Journal
from cockpit.demo.fleet import DemoFleet
from cockpit.demo.situations import SITUATIONS, Situation
from cockpit.platforms.base import CannotError, LostError

TORN: Final = ("--killed-in-save", "2")
"""What a kill from here could not hit from afar, the training does to itself."""


NEEDS_SIGHT: Final = "demo-torn"
"""The run whose situation lies in its checkpoints alone."""


def situations_of(journal: Journal) -> tuple[Situation, ...]:
    """Return the runs as one demo has them: their names hold its token.

    All seven, but for one where nothing of what they write can be seen.
    """
    seen = journal.ground is None or journal.ground.seen
    every = (each for each in SITUATIONS if seen or each.name != NEEDS_SIGHT)
    return tuple(_away(each, journal.token) for each in every)


def _away(situation: Situation, token: str) -> Situation:
    name = f"{situation.name}-{token}"
    faults = (*situation.faults, *TORN) if situation.name == "demo-torn" else situation.faults
    trainer = replace(situation.config.trainer, id=name)
    config = replace(situation.config, trainer=trainer)
    return replace(situation, name=name, config=config, faults=faults)


class AwayFleet(DemoFleet):
    """The jobs of one demo on another system, and the monitors on this machine."""

    def __init__(self, journal: Journal, situations: Sequence[Situation]) -> None:
        super().__init__(journal.layout, situations)
        self._journal = journal

    def _conduct(self) -> None:
        try:
            super()._conduct()
        except (CannotError, LostError) as error:
            self.trouble = f"the demo could not start everything: {error}"

    def _start_run(self, situation: Situation, sha: str) -> bool:
        """Submit a training unless it was; it is noted before and after."""
        launch_id, ground = situation.launch_id, self._journal.ground
        if launch_id in self._journal.jobs or ground is None:
            return False
        self._journal.note(launch_id, None)
        try:
            job_id = self._journal.site.submit(situation, ground)
        except CannotError:
            self._journal.strike(launch_id)
            raise
        self._journal.note(launch_id, job_id)
        words = self._journal.site.resubmit(situation, ground)
        folder.log_launch(self.layout, situation, sha, words)
        return True

    def _to_be_done(self) -> list[Callable[[], bool]]:
        return [self._kill_monitor]
