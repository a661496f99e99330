"""Ray's words for a job's state, as phases (SPEC J), and what it says of why.

What is not in the table is shown as itself and is unknown, never running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cockpit.model.observed import Phase
from cockpit.platforms.ray.answers import RayJob
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

PHASES: Final[Mapping[str, Phase]] = {
    "PENDING": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "STOPPED": Phase.CANCELLED,
}
USUAL: Final = frozenset({"Job is currently running.", "Job finished successfully."})
"""What Ray says of jobs of which there is nothing to say."""
TRACE: Final = "Full traceback:"
LONGEST: Final = 300


def phase_of(job: RayJob) -> Phase:
    """Return the phase of a job's state."""
    return PHASES.get(job.status, Phase.UNKNOWN)


def reason_of(job: RayJob) -> str | None:
    """Return why a job is as it is: its error type and message in one line, secrets masked.

    Of a traceback the last line is told, which names the error itself.
    """
    said = scrub(job.said)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines or said in USUAL:
        return clean(job.error_type, 80) or None
    text = lines[0].removesuffix(TRACE).rstrip()
    if len(lines) > 1 and lines[-1] not in text:
        text = f"{text} … {lines[-1]}"
    shown = clean(text, LONGEST)
    return f"{clean(job.error_type, 80)}: {shown}" if job.error_type else shown
