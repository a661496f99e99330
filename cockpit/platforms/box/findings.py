"""What doctor says of an ssh host: whether it answers, its clock, its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model import wording
from cockpit.model.facet import Problem
from cockpit.model.run import RunSpec
from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.local.jobs import View
from cockpit.text.safe import clean

SKEW: Final = 5.0
"""Seconds by which a clock may be off before a person should set it."""


def finding_of(host: str, view: View | Problem, runs: Sequence[RunSpec]) -> EndpointFinding:
    """Return whether a host answers, and what it lacks for what these runs name."""
    if isinstance(view, Problem):
        text, _, advice = view.message.partition("; ")
        return EndpointFinding(endpoint=host, text=text, remedy=advice or f"ssh {host}")
    seen = view.sight
    wrong = list(_wrong(view, runs))
    text = f"answers; {len(seen.processes)} processes, as user {seen.uid}"
    said = [text, *(each for each, _ in wrong)]
    remedy = "; ".join(remedy for _, remedy in wrong) or None
    return EndpointFinding(endpoint=host, text=clean("; ".join(said)), remedy=remedy)


def _wrong(view: View, runs: Sequence[RunSpec]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong there, and what to do about it."""
    ahead = view.sight.ahead
    if abs(ahead) > SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        yield f"its clock is {wording.duration(abs(ahead))} {which} ours", "set it (NTP)"
    if view.sessions.panes is None and any(run.job and run.job.session for run in runs):
        yield "neither tmux nor screen is installed", "install tmux, or name job.pid_file"
    for run in runs:
        files = view.files[run.name]
        problem = files if isinstance(files, Problem) else files.problem
        if problem is not None:
            yield f"{run.name}: {problem.message}", "make it readable for this user"
