"""The one narrow interface through which jobs are acted on; each orchestrator fills it.

Five things, no more: stop exactly, submit with a launch id, look up by launch id, list the live
jobs of a lineage, save a checkpoint now where possible. Nothing here restarts, recreates or
changes a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cockpit.model.jobs import Live, LiveJob, LookUp, Submission
from cockpit.model.run import RunSpec


class CannotError(Exception):
    """It was definitely not done, and will not happen by itself; the text is one line."""


class LostError(Exception):
    """The answer was lost: it may have happened or still happen. Look it up; never retry."""


class Backend(Protocol):
    """One kind of orchestrator. Every call has its own deadline and never hangs."""

    async def live(self, run: RunSpec) -> Live:
        """Return the live jobs of the lineage (SPEC J, "Which jobs belong to a run").

        Never raises: what cannot be told is ``Live.unknown``.
        """

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id; ``absent`` only when it can never appear any more.

        Never raises.
        """

    async def submit(self, run: RunSpec, submission: Submission) -> str:
        """Start a job and return its id; the same launch id starts at most one job, ever.

        Raises ``CannotError`` when nothing was started and nothing will be, ``LostError`` when
        that is not known.
        """

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and their true descendants, gracefully first (``job.grace``).

        Returns when they are gone. Raises ``CannotError`` when one still lives and will not be
        touched, ``LostError`` when this is not known.
        """

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask a living job to save a checkpoint now; returns when it was asked.

        Raises ``CannotError`` when the trainer has no way (``save_signal``, ``save_command``).
        """

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return what a later reader needs, by file name; never raises.

        The orchestrator's answer, a stack dump and the device state where possible; what could
        not be had is a note in the file.
        """
