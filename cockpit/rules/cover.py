"""C-08, rollback cover thin: complete checkpoints that were there are gone, or a protected one is.

What a rollback takes away is no loss of cover: it lowers the newest step, and the count begins
anew there. A clean-up of ours never goes below the depth, so it never opens this.
"""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import CheckpointMark, History
from cockpit.model.observed import Checkpoint, CheckpointState, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import say
from cockpit.rules.present import phase_of, seen_at
from cockpit.rules.retention import depth_of

ORDINARY_DEPTH = 1


def rollback_cover_thin(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-08. What cannot be listed is not gone."""
    value = history.facets.checkpoints.value
    if value is None or run.checkpoints is None or phase_of(history) is Phase.SUCCEEDED:
        return
    done = [item for item in value.items if item.state is CheckpointState.COMPLETE]
    depth = ORDINARY_DEPTH if run.tier == "ordinary" else depth_of(run)
    had = _had(history.checkpoints)
    if len(done) < min(depth, had):
        text = f"{len(done)} complete checkpoints, of {had} that were there; rollback depth {depth}"
        yield _alert(run, history, f"C-08:{run.name}", "rollback cover thin", text)
    for step in _missing(run, done):
        text = f"step {say.step(step)} is protected in the run file, and no complete one is there"
        key = f"C-08:{run.name}:step-{step}"
        yield _alert(run, history, key, f"protected checkpoint {say.step(step)} is missing", text)


def _had(marks: tuple[CheckpointMark, ...]) -> int:
    """Return the most complete ones seen since the newest step last went back."""
    most, newest = 0, None
    for mark in marks:
        if newest is not None and mark.newest is not None and mark.newest < newest:
            most = 0
        newest = newest if mark.newest is None else mark.newest
        most = max(most, mark.complete)
    return most


def _missing(run: RunSpec, done: list[Checkpoint]) -> list[int]:
    """Return protected steps that the run has passed and of which nothing complete is left."""
    protect = run.checkpoints.protect if run.checkpoints is not None else ()
    there = {item.step for item in done if item.step is not None}
    newest = max(there, default=-1)
    return [step for step in protect if step < newest and not {step - 1, step} & there]


def _alert(run: RunSpec, history: History, key: str, title: str, text: str) -> Alert:
    listing = history.facets.checkpoints
    marks = history.checkpoints
    return Alert(
        id="C-08",
        key=key,
        severity=Severity.ALERT,
        title=title,
        since=marks[-1].at if marks else seen_at(listing, history.now),
        evidence=(Evidence(text=text, source=listing.source),),
        confidence="likely",
        next_action="find out what deletes checkpoints before the rollback window collapses",
    )
