"""C-15, code lineage while a job runs: what it runs, and what a restart of it would run.

What runs is told by the job's own bundle, else by the commit that the tracker's client noted; what
a restart would run, by the checkout. Both are held against the record: what the launch used, else
the logbook. Files that cannot touch training never count; what was so at the launch was approved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.jobs import Snapshot
from cockpit.model.lineage import Touches, worst_first
from cockpit.model.observed import CodeValue
from cockpit.model.run import CodeSpec, RunSpec
from cockpit.rules import present
from cockpit.rules.present import (
    job_of,
    of_present,
    phase_of,
    phase_since,
    seen_at,
    still_open,
)

SHOWN: Final = 8
SOURCE_SUFFIXES: Final = frozenset((
    ".py", ".pyx", ".pxd", ".pyi", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp",
    ".rs", ".go", ".jl", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".gin",
))  # fmt: skip
"""Of files that git does not know only these can be code: the others are what a run leaves."""


class Record(NamedTuple):
    """What the present job should run: a commit, who says so, and its launch, if it was ours."""

    sha: str
    by: str
    used: Snapshot | None


def code_drifts(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-15: one alert of a living job, whatever of its code is another one than is recorded."""
    if not phase_of(history).lives:
        return
    key, facet = f"C-15:{run.name}", history.facets.code
    record = record_of(history)
    running = tuple(_what_runs(history, record))
    checkout = tuple(_checkout(run.code, facet.value, history.used, record))
    found = (*running, *present.evidence(facet.source, *checkout))
    if not found:
        former = still_open(history, key) if facet.value is None else None
        yield from () if former is None else (former,)
        return
    yield _alert(run, history, key, found, proven=bool(running))


def record_of(history: History) -> Record | None:
    """Return the commit that is recorded for the present job; ``None``: none is known."""
    used, job, code = history.used, job_of(history), history.facets.code.value
    if used is not None and used.sha and (job is None or job.launch_id in (None, used.launch_id)):
        return Record(used.sha, used.launch_id, used)
    if code is None or code.record_sha is None:
        return None
    return Record(code.record_sha, "the logbook", None)


def same_code(code: CodeValue | None, one: str, other: str) -> bool:
    """Tell whether two commits hold the same code, by what is known to lie between them."""
    if same_commit(one, other):
        return True
    alike = () if code is None else code.alike
    return all(any(same_commit(each, known) for known in alike) for each in (one, other))


def same_commit(one: str, other: str) -> bool:
    """Tell whether two commits are one; either may be shortened."""
    return one.startswith(other) or other.startswith(one)


def _what_runs(history: History, record: Record | None) -> Iterator[Evidence]:
    job, tracker = job_of(history), history.facets.tracker
    code = history.facets.code.value
    bundle = None if job is None else job.bundle
    if record is None:
        return
    if bundle is not None and bundle.commit is not None:
        source = history.facets.job.source
        if not same_code(code, bundle.commit, record.sha):
            yield Evidence(text=_runs("the job's bundle", bundle.commit, record), source=source)
        elif bundle.dirty and not (record.used is not None and record.used.dirty):
            text = f"the job's bundle has uncommitted changes, {record.by} records none"
            yield Evidence(text=text, source=source)
    elif tracker.value is not None and tracker.value.git_commit is not None and _newer(history):
        ran = tracker.value.git_commit
        if not same_code(code, ran, record.sha):
            text = _runs("the tracker's client", ran, record)
            yield Evidence(text=text, source=tracker.source)


def _runs(who: str, ran: str, record: Record) -> str:
    return f"{who} says commit {ran[:10]}, {record.by} records {record.sha[:10]}"


def _newer(history: History) -> bool:
    """Tell whether the tracker's word is one of the present job, not of the one before it.

    Where it dates its launches, by that: a former client may write for a while beside a new job.
    """
    job, tracker = job_of(history), history.facets.tracker.value
    if tracker is not None and tracker.config_since is not None:
        return of_present(tracker.config_since, history)
    at = None if tracker is None else tracker.last_record_at or tracker.last_step_at
    return at is not None and (job is None or job.started_at is None or at >= job.started_at)


def _checkout(
    spec: CodeSpec | None, code: CodeValue | None, used: Snapshot | None, record: Record | None
) -> Iterator[str]:
    """Yield what a restart from the checkout would run instead."""
    if spec is None or code is None or code.sha is None or _as_launched(code, used):
        return
    dirty = worst_first(_may_be_code(code), spec)
    if dirty:
        yield f"uncommitted at {code.sha[:10]}: {_named(dirty)}"
    moved = record is not None and not same_commit(code.sha, record.sha)
    files = _between(code, record, spec)
    if moved and record is not None and (files is None or files):
        what = "it is not known which files differ" if not files else _named(files)
        yield f"commit {code.sha[:10]}, {record.by} records {record.sha[:10]}: {what}"
    counts = bool(dirty) or (moved and files != ())
    was = used.branch if used is not None else None
    if counts and was is not None and was != code.branch:
        yield f"on branch {code.branch or '(detached)'}, launched from {was}"
    ahead = None if code.ahead_files is None else worst_first(code.ahead_files, spec)
    if code.unpushed and (ahead or (ahead is None and record is not None)):
        what = f": {_named(ahead)}" if ahead else ""
        yield f"{code.unpushed} commits not pushed{what}"


def _between(
    code: CodeValue, record: Record | None, spec: CodeSpec
) -> tuple[tuple[Touches, str], ...] | None:
    """Return what differs from the record; git was asked about one recorded commit alone."""
    since = code.base or code.record_sha
    of_record = record is not None and since is not None and same_commit(since, record.sha)
    return worst_first(code.changed, spec) if code.changed is not None and of_record else None


def _as_launched(code: CodeValue, used: Snapshot | None) -> bool:
    """Tell whether commit and changes are those that the launch has recorded: approved then."""
    then = None if used is None else (used.sha, used.dirty, used.patch_id)
    return then == (code.sha, code.dirty, code.patch_id)


def _may_be_code(code: CodeValue) -> list[str]:
    left = set(code.untracked)
    return [p for p in code.dirty if p not in left or PurePosixPath(p).suffix in SOURCE_SUFFIXES]


def _named(files: Sequence[tuple[Touches, str]]) -> str:
    names = ", ".join(path for _, path in files[:SHOWN])
    names += f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    serious = any(kind is Touches.TRAJECTORY for kind, _ in files)
    return f"{names} ({'affects training' if serious else 'declared safe'})"


def _alert(
    run: RunSpec, history: History, key: str, found: tuple[Evidence, ...], *, proven: bool
) -> Alert:
    """Return the alert; of a checkout it is known since when it was seen, not when it changed."""
    who, since = wording.person(run), seen_at(history.facets.code, history.now)
    title = "A restart would run different code than recorded"
    advice = f"restore the recorded commit, or ask {who} to approve the changes before a restart"
    if proven:
        since = phase_since(history)
        title = "The job runs different code than recorded"
        advice = (
            f"tell {who}: fix the record, or stop the job; different code is a different trajectory"
        )
    return Alert(
        id="C-15",
        key=key,
        severity=Severity.ALERT,
        title=title,
        since=since,
        evidence=found,
        confidence="likely",
        next_action=advice,
    )
