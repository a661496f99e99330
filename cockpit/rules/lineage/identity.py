"""C-13, W&B identity drift: metrics look plausible while they land in another run.

Who names the active run: its files or the server, the page and the folder that the client names
in the log, the monitor's state file. Each is held against the recorded identity; one that is silent
says nothing. A tracker that stands still while the log goes on is an alert of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from itertools import chain
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.history import History
from cockpit.model.jobs import Snapshot
from cockpit.model.observed import LogValue, TrackerValue
from cockpit.model.place import address_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.model.shared_facts import IDS
from cockpit.rules import present
from cockpit.rules.present import (
    held_back,
    job_of,
    may_train,
    of_present,
    patience,
    seen_at,
    still_open,
)

POLICIES: Final = ("--wandb.resume", "--wandb-resume", "--wandb_resume", "WANDB_RESUME")
"""What sets the resume policy on a command line or in the environment in front of it."""
VISIBLE: Final = 600.0
"""Seconds in which what was written on another machine is surely seen on this one."""


def identity_drifts(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-13: at once, as long as the job may train; and a tracker that stands still."""
    if not may_train(history):
        return
    if run.wandb is not None:
        yield from _drifted(run, run.wandb, history)
    yield from _stands_still(run, history)


def drift(spec: WandbSpec, tracker: TrackerValue | None) -> list[str]:
    """Return what of the recorded identity is not the active one: one line each."""
    if tracker is None:
        return []
    recorded = spec.recorded
    pairs = (
        ("id", recorded.run, tracker.id),
        ("project", recorded.project, tracker.project),
        ("entity", recorded.entity, tracker.entity),
        ("name", spec.name, tracker.name),
    )
    return [_differs(what, active, was) for what, was, active in pairs if _is_other(was, active)]


def since_launch(spec: WandbSpec, prior: Snapshot | None) -> list[str]:
    """Return what of the identity would be another one than at the last launch."""
    if prior is None:
        return []
    pairs = (("id", prior.wandb_id, spec.id), ("project", prior.wandb_project, spec.project))
    return [
        f"{what} {now} would be used, the last launch used {was}"
        for what, was, now in pairs
        if was is not None and was != now
    ]


def _differs(what: str, active: str | None, recorded: str | None) -> str:
    return f"{what} {active} is active, {recorded} is recorded"


def _is_other(recorded: str | None, active: str | None) -> bool:
    return recorded is not None and active is not None and recorded != active


def _drifted(run: RunSpec, spec: WandbSpec, history: History) -> Iterator[Alert]:
    key, facets = f"C-13:{run.name}", history.facets
    found = (
        *present.evidence(facets.tracker.source, *drift(spec, facets.tracker.value)),
        *_by_pages(spec, history),
        *_by_folders(spec, history),
        *_reused(history),
        *_policy(spec, history),
    )
    if not found:
        silent = facets.tracker.value is None and facets.log.value is None
        former = still_open(history, key) if silent else None
        yield from () if former is None else (former,)
        return
    yield Alert(
        key=key,
        title=f"W&B run does not match: {found[0].text}",
        since=present.first(history.trend.pace.resumed_at, present.phase_since(history)),
        evidence=found,
        next_action=f"ask {wording.person(run)} which W&B run is right before more rows land"
        " in the wrong one; fix cockpit.toml or the command, not the rows",
    )


def _by_pages(spec: WandbSpec, history: History) -> Iterator[Evidence]:
    """Yield pages of another run: the one that the client printed, the state file's."""
    log, monitor = history.facets.log, history.facets.monitor
    pages = []
    if log.value is not None and of_present(log.value.announced.wandb_at, history):
        pages.append((log.source, log.value.announced.wandb, "the log names"))
    if monitor.value is not None and monitor.value.fresh:
        pages.append((monitor.source, monitor.value.wandb, "the state file holds"))
    recorded = spec.recorded
    for source, page, who in pages:
        named = address_of(page)
        pairs = (
            ("id", recorded.run, named.run),
            ("project", recorded.project, named.project),
            ("entity", recorded.entity, named.entity),
        )
        wrong = [what for what, was, active in pairs if _is_other(was, active)]
        if page is not None and wrong:
            text = f"{who} {page}: another {' and '.join(wrong)} than recorded"
            yield Evidence(text=text, source=source)


def _by_folders(spec: WandbSpec, history: History) -> Iterator[Evidence]:
    """Yield the folder that the job's client writes to, if none that it has named is the run's.

    A job may log other runs beside its own one: an evaluation's, or each rank's. Where more are
    named than are kept, or the job's first lines may not have been read, its own may be unseen.
    """
    log, recorded = history.facets.log, spec.recorded.run
    said = () if log.value is None else log.value.announced.wandb_ids
    if log.value is None or len(said) >= IDS or _begin_unread(log.value, history):
        return
    named = [each for each, at in said if of_present(at, history)]
    if recorded is not None and named and recorded not in named:
        text = f"the log says that rows are saved as run {named[-1]}: another id than recorded"
        yield Evidence(text=text, source=log.source)


def _begin_unread(log: LogValue, history: History) -> bool:
    """Tell whether a part of the log was skipped that may hold the present job's first lines."""
    first, job = history.log_trend.pace.first_at, job_of(history)
    began = None if job is None else job.started_at
    return log.skipped is not None and (first is None or began is None or first >= began)


def _reused(history: History) -> Iterator[Evidence]:
    """Yield that another Slurm job writes to this id, by the file's own word."""
    tracker, job = history.facets.tracker, job_of(history)
    theirs = None if tracker.value is None else tracker.value.slurm_job_id
    ours = None if job is None else job.id
    if theirs is None or ours is None or job is None or not (theirs + ours).isdigit():
        return
    at = None if tracker.value is None else tracker.value.last_record_at
    begun = at is not None and job.started_at is not None and at > job.started_at
    if begun and theirs != ours and tracker.value is not None:
        text = f"job {theirs} writes to id {tracker.value.id}, the run's job is {ours}"
        yield Evidence(text=text, source=tracker.source)


def _policy(spec: WandbSpec, history: History) -> Iterator[Evidence]:
    """Yield a resume policy that is not the recorded one, or one that was not kept."""
    used, tracker = history.used, history.facets.tracker
    for flag, value in _set_by(used):
        if value != spec.resume:
            text = f"resume policy {value} is used ({flag}), {spec.resume} is recorded"
            yield Evidence(text=text, source=f"launch {used.launch_id}" if used else "launch")
    fragments = () if tracker.value is None else tracker.value.fragments
    launches = len(set(map(posixpath.basename, fragments)))
    if spec.resume == "never" and launches > 1:
        text = f"resume policy never, and {launches} launches have written to one id"
        yield Evidence(text=text, source=tracker.source)


def _set_by(used: Snapshot | None) -> Iterator[tuple[str, str]]:
    words = () if used is None else used.command
    for word, after in zip(words, (*words[1:], ""), strict=False):
        name, sign, value = word.partition("=")
        told = (value if sign else after).strip("\"'").lower()
        if name in POLICIES and told in ("allow", "never", "must", "auto"):
            yield name, told


def _stands_still(run: RunSpec, history: History) -> Iterator[Alert]:
    """Yield where the log shows steps that the tracker, looked at since, has no row of.

    Judged only by steps: a log may go on talking while nothing is trained (C-06). Times of two
    writers are compared, so their steps are, too: a tracker that has the log's steps moves,
    whatever its clock says; where steps cannot tell, a clock that is off leaves it unknown.
    """
    tracker, log = history.facets.tracker, history.facets.log
    key, value = f"C-13:{run.name}:still", history.facets.tracker.value
    last = None if value is None else value.last_step_at
    logged = _last_logged(history)
    if last is None or logged is None or log.value is None:
        former = still_open(history, key)
        yield from () if former is None else (former,)
        return
    limit = patience(run, history) + held_back(history)
    until = min(seen_at(tracker, history.now), logged)
    behind, since = _steps_behind(history), _waits_since(history, last)
    if until - since <= limit or (behind is not None and behind <= limit):
        yield from _untouched(run, history)
        return
    if behind is None and _clocks_off(history):
        former = still_open(history, key)
        yield from () if former is None else (former,)
        return
    text = f"last row at {wording.moment(last)}; limit {wording.span(limit)}"
    yield Alert(
        key=key,
        title="W&B has stopped while the log shows steps",
        since=since,
        evidence=(
            Evidence(text=text, source=tracker.source),
            Evidence(text="the log shows later steps", source=log.source),
        ),
        confidence="likely",
        next_action="check whether the W&B client is still running (network, quota, disk);"
        " training continues, but the curves have a gap",
    )


def _waits_since(history: History, last: float) -> float:
    """Return since when a row is waited for: the newest one, or, of a job before, a first step.

    A job that was down for an hour has not kept its tracker waiting for one.
    """
    job = job_of(history)
    began = None if job is None else job.started_at
    if began is None or last >= began - present.CLOCK_SKEW or _clocks_off(history):
        return last
    return _first_since(history, began)


def _first_since(history: History, began: float) -> float:
    """Return when the log first showed a step since then, now if it has shown none.

    Of a job that went on where the one before it ended, only the newest rows and pauses are kept:
    where they do not reach back to its start it is that, for the oldest kept one moves with time.
    """
    log, pace = history.facets.log.value, history.log_trend.pace
    times = [row.at for row in (() if log is None else log.rows) if row.at is not None]
    reaches = (
        any(at <= began for at in times)
        or any(since <= began < until for since, until in pace.pauses)
        or (bool(pace.began) and pace.began[0][1] > began)
    )
    return min(_steps_since(history, began), default=history.now) if reaches else began


def _steps_since(history: History, began: float) -> list[float]:
    """Return when the log has shown steps since then, as far as that is kept."""
    log, pace = history.facets.log.value, history.log_trend.pace
    rows = () if log is None else log.rows
    logged = (row.at for row in rows if row.step is not None and row.at is not None)
    told = (*(at for _, at in pace.began), *(until for _, until in pace.pauses), *logged)
    return [at for at in told if at > began]


def _untouched(run: RunSpec, history: History) -> Iterator[Alert]:
    """Yield where nothing at all was written since the job began, which has logged steps since.

    The client writes as it begins, before any step: a whole cadence of steps without it (and no
    less than ``VISIBLE``) is no lateness of its own.
    """
    job, tracker, log = job_of(history), history.facets.tracker, history.facets.log.value
    began = None if job is None else job.started_at
    written = _last_write(tracker.value)
    if began is None or written is None or log is None or _clocks_off(history):
        return
    if written >= began - present.CLOCK_SKEW:
        return
    steps = _steps_since(history, began)
    until = min(seen_at(tracker, history.now), max(steps, default=began))
    limit = max(run.cadence, VISIBLE) + held_back(history)
    since = _first_since(history, began)
    if not steps or until - since <= limit:
        return
    text = f"nothing written since {wording.moment(written)}, before this job began"
    yield Alert(
        key=f"C-13:{run.name}:still",
        title="W&B has nothing of this job, whose log shows steps",
        since=since,
        evidence=(
            Evidence(text=text, source=tracker.source),
            Evidence(
                text=f"the log shows steps since {wording.moment(min(steps))}",
                source=history.facets.log.source,
            ),
        ),
        confidence="likely",
        next_action="check under which id, project and folder the job logs (its command, its"
        " environment) before more rows land elsewhere",
    )


def _last_write(value: TrackerValue | None) -> float | None:
    """Return when the recorded run was written to last, by whichever of its clocks."""
    if value is None:
        return None
    clocks = (value.file_mtime, value.last_record_at, value.heartbeat_at, value.last_step_at)
    return max((at for at in clocks if at is not None), default=None)


def _last_logged(history: History) -> float | None:
    """Return when the log itself last showed a step."""
    log = history.facets.log.value
    rows = () if log is None else log.rows
    timed = next((row.at for row in reversed(rows) if row.at is not None), None)
    moments = [at for at in (timed, history.log_trend.last_step_at) if at is not None]
    return min(max(moments), history.now) if moments else None


def _steps_behind(history: History) -> float | None:
    """Return for how long (s) the log has shown later steps than the tracker's newest one.

    By the log's clock alone: from its first line beyond that step. Where its lines do not reach
    back so far, and where the tracker is ahead (a log that replays), by the log's usual pace.
    """
    tracker, log = history.facets.tracker.value, history.facets.log.value
    if tracker is None or log is None or tracker.step is None or tracker.counts_calls:
        return None
    timed = ((row.step, row.at) for row in reversed(log.rows))
    shown = ((step, when) for step, when in timed if step is not None and when is not None)
    last = next(shown, None)
    if last is None:
        return None
    newest, beyond = last
    at = beyond
    for step, when in chain((last,), shown):  # of most logs the last row tells
        if step <= tracker.step <= newest:
            return at - beyond
        beyond = when
    pace = history.log_trend.pace.usual_step_s
    return None if pace is None else abs(newest - tracker.step) * pace


def _clocks_off(history: History) -> bool:
    """Tell whether any clock that writes of this run is known not to be ours."""
    tracker, log = history.facets.tracker.value, history.facets.log.value
    return any(each is not None and each.clock_offset_s for each in (tracker, log))
