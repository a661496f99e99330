"""What would be lost if a job ended now: steps since the last complete checkpoint, their time."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from cockpit.actions.core.parameters import plural
from cockpit.model.plan import Loss
from cockpit.model.report import RunReport
from cockpit.model.wording import duration, steps

GAPS: Final = 5
"""How many of the last gaps between checkpoints tell how far apart they are."""


def lost_of(report: RunReport) -> Loss | None:
    """Return what has been done since the last complete checkpoint, in steps and about in time.

    A step that only a checkpoint tells is no count of those after it: then how many is not said.
    """
    progress, value = report.progress, report.facets.checkpoints.value
    step, source = progress.step, progress.step_source or ""
    saved = None if value is None else value.latest_complete
    if step is None or not report.facets.checkpoints.known:
        return None
    since = f"since step {steps(saved)}" if saved is not None else "all: nothing is complete"
    if saved is not None and (step < saved or source.startswith("checkpoints")):
        text = f"what came after step {steps(saved)} (no step seen since)"
        return Loss(count=0, text=text, worth=worth_of(report))
    return loss_of(report, step if saved is None else step - saved, since)


def loss_of(report: RunReport, count: int, since: str) -> Loss:
    """Return so many lost steps as a loss: with their time, and a checkpoint's worth beside."""
    return Loss(count=count, text=counted(report, count, since), worth=worth_of(report))


def worth_of(report: RunReport) -> int | None:
    """Return how many steps lie between two checkpoints: as seen, else by the save interval."""
    value, spec = report.facets.checkpoints.value, report.spec.checkpoints
    done = [item.step for item in (value.items if value is not None else ()) if item.step]
    gaps = [late - early for early, late in pairwise(sorted(set(done))) if late > early][-GAPS:]
    if gaps:
        return sorted(gaps)[len(gaps) // 2]
    usual = report.usual_step_s
    every = spec.save_every if spec is not None else None
    return max(1, round(every / usual)) if every and usual else None


def counted(report: RunReport, count: int, since: str) -> str:
    """Return steps and, where their usual pace is known, about how long they take."""
    usual = report.usual_step_s
    about = f" (≈ {duration(count * usual)})" if usual and count else ""
    return f"{plural(count, 'step')} {since}{about}"
