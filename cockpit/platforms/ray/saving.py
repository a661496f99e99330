"""Asking a trainer on Ray to save now: by a command of the user's own, run on this machine.

Ray's API reaches no driver but to end it: a signal cannot be sent.
"""

from __future__ import annotations

from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.saving import save_here

NO_WAY: Final = (
    "Ray sends a driver nothing but its end: name a command that asks the trainer, run here "
    "(job.save_command, with {job_id})"
)


def why_no_save(run: RunSpec) -> str | None:
    """Return why a trainer cannot be asked, ``None`` if it can."""
    return None if run.job is not None and run.job.save_command else NO_WAY


async def save(run: RunSpec, live: LiveJob) -> None:
    """Run ``save_command`` in ``workdir``; raises ``CannotError`` and ``LostError``."""
    why = why_no_save(run)
    if why is not None:
        raise CannotError(why)
    await save_here(run, live)
