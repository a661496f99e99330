"""C-06 and C-23: no training step by the step's own clock; a log that stopped or started over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.clock import FILE_SKEW
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.jobs import Stopped
from cockpit.model.lineage import named
from cockpit.model.logtext import LogLine, PresentLog, Read
from cockpit.model.observed import STARTING, JobValue, LogValue, Phase, Triage
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.terminal import triage_evidence
from cockpit.rules.metrics.progress import current_step
from cockpit.rules.present import (
    CADENCES,
    StepClock,
    job_of,
    job_source,
    patience,
    phase_of,
    phase_since,
    seen_at,
    stopped,
)
from cockpit.rules.triage.classify import diagnose

DEGRADED = re.compile(
    r"OwnerDied(Error)?\b|dead node|node (death|is dead|died)|unsatisfied resource"
    r"|autoscaler.*(unsatisf|insufficient|cannot)",
    re.I,
)
"""What a cluster prints when it has lost the nodes under a job that it still calls running."""

RICH = re.compile("[━╸╺┏┳┓┡╇┩]")
"""What rich draws tables and bars with; a trainer whose log has it shows its steps that way."""

_NOTHING = ("harmless_noise", "success", "unknown")


def step_stalled(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-06: the job is said to run, and training does not step, or its process is stopped."""
    job = job_of(history)
    if job is not None and job.state == STARTING:
        yield from _nothing_yet(run, history)
    if phase_of(history) is not Phase.RUNNING:
        return
    halted = stopped(history)
    if halted is not None:
        yield _process_stopped(run, history, halted)
        return
    clock = StepClock(history)
    started = float("-inf") if job is None or job.started_at is None else job.started_at
    if clock.last is None or clock.last < started:
        yield from _no_first_step(run, history, clock, started)
    elif clock.until is not None and clock.until - clock.last > patience(run, history):
        step, tracker = current_step(history), history.facets.tracker
        source = tracker.source if tracker.value is not None else history.facets.log.source
        when = f"last training step ({wording.step(step)}) at {wording.moment(clock.last)}"
        seen = Evidence(text=f"{when}; limit {wording.span(patience(run, history))}", source=source)
        yield _alert(run, history, clock.last, "No new training steps", seen, "sure")


def _process_stopped(run: RunSpec, history: History, found: Stopped) -> Alert:
    """Return that the process itself is stopped: the process table tells, no step is waited for."""
    job, who = job_of(history), wording.person(run)
    reason = () if job is None or job.reason is None else (job.reason,)
    done = "holds" if found.held else "stopped"
    advice = f"ask {who} who {done} it; {present.goes_on(run, found)}"
    return Alert(
        key=f"C-06:{run.name}",
        title="Held by a debugger (state t)" if found.held else "Stopped by SIGSTOP (state T)",
        since=found.since,
        evidence=present.evidence(job_source(history), *reason),
        next_action=f"{advice}; do not relaunch",
    )


def _no_first_step(
    run: RunSpec, history: History, clock: StepClock, started: float
) -> Iterator[Alert]:
    saved = _last_saved(history)
    if saved is not None and saved > started > float("-inf"):
        # What was saved since the start was trained, though nothing shows its steps.
        yield from _saves_stopped(run, history, started, saved)
        return
    since, within = max(started, phase_since(history)), run.thresholds.first_step_within
    until, silent = _watched_until(run, history, clock)
    if until is None or until - since <= within:
        return
    text = f"started at {wording.moment(since)}, no step within {wording.span(within)}"
    seen = Evidence(text=text, source=job_source(history))
    title = "No training step since the start"
    yield _alert(run, history, since, title, seen, "guess" if silent else "sure")


def _nothing_yet(run: RunSpec, history: History) -> Iterator[Alert]:
    """Yield for a process that lives, and of which no source has shown any work since its start."""
    since, within = phase_since(history), run.thresholds.first_step_within
    if seen_at(history.facets.job, history.now) - since <= within:
        return
    text = f"started at {wording.moment(since)}; no line, no step within {wording.span(within)}"
    seen = Evidence(text=text, source=job_source(history))
    yield _alert(run, history, since, "Nothing shown since the start", seen, "guess")


def _saves_stopped(run: RunSpec, history: History, started: float, saved: float) -> Iterator[Alert]:
    """Yield where saves are all that shows training, and none came for several of their gaps."""
    listing = history.facets.checkpoints
    times = sorted(at for at in _saves(history) if at > started)
    gaps = sorted(later - at for at, later in pairwise([started, *times]))
    every = run.checkpoints.save_every if run.checkpoints is not None else None
    usual = every or gaps[len(gaps) // 2]
    limit = max(run.thresholds.stall_factor * usual, CADENCES * run.cadence)
    if seen_at(listing, history.now) - saved <= limit:
        return
    text = f"newest save at {wording.moment(saved)}, one each {wording.span(usual)} before"
    text += f"; limit {wording.span(limit)}; nothing else shows steps"
    seen = Evidence(text=text, source=listing.source)
    yield _alert(run, history, saved, "No new checkpoint", seen, "likely" if every else "guess")


def _watched_until(run: RunSpec, history: History, clock: StepClock) -> tuple[float | None, bool]:
    """Return until when a first step would have been seen, and whether that is only a guess.

    Where no source shows steps at all, a log that has gone silent is the only hint.
    """
    if clock.until is not None:
        return clock.until, False
    log = history.facets.log
    if log.value is None or history.facets.tracker.configured:
        return None, False
    seen = seen_at(log, history.now)
    return (seen, True) if seen - log.value.mtime > CADENCES * run.cadence else (None, False)


def _alert(
    run: RunSpec,
    history: History,
    since: float,
    title: str,
    seen: Evidence,
    confidence: Literal["sure", "likely", "guess"],
) -> Alert:
    log, job = history.facets.log, job_of(history)
    lines = [line.plain for line in log.value.lines] if log.value is not None else []
    found = log.value.triage if log.value is not None else None
    named = [each.text for each in (found.evidence if found is not None else ())]
    lost = dict.fromkeys(line for line in (*named, *lines) if DEGRADED.search(line))
    signs = present.evidence(log.source, *list(lost)[-3:])
    told = (
        ()
        if found is None or signs or found.name in _NOTHING
        else triage_evidence(log.source, found)
    )
    reason = (
        [f"job {wording.with_reason(job.state, job.reason)}"]
        if job is not None and job.reason
        else []
    )
    advice = "check the log and the host; stop and relaunch only once the cause is known"
    if signs:
        advice = f"{wording.escalate(run)}: nodes are lost; do not touch the cluster"
    return Alert(
        key=f"C-06:{run.name}",
        title=f"Degraded: {title[:1].lower()}{title[1:]}" if signs else title,
        since=since,
        evidence=(seen, *present.evidence(job_source(history), *reason), *signs, *told),
        confidence=confidence,
        next_action=advice,
    )


def log_frozen(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-23: no new bytes in the log while steps move; when nothing moves it is C-06.

    Why it is still is said only as far as the log shows it: a line that breaks off was cut by
    a buffer; a bar by ``rich`` draws nothing into a file before it ends.
    """
    log = history.facets.log
    moved = (StepClock(history).last, _last_saved(history))
    last = max((at for at in moved if at is not None), default=None)
    if log.value is None or last is None or phase_of(history) is not Phase.RUNNING:
        return
    if log.value.size == 0:
        yield from _held_back(run, history, log, last)
        return
    limit = CADENCES * run.cadence
    seen = seen_at(log, history.now)
    if seen - log.value.mtime <= limit or last - log.value.mtime <= limit or seen - last > limit:
        return
    why, advice, confidence = _why_still(log.value)
    yield Alert(
        key=f"C-23:{run.name}",
        title="The log has stopped; training has not",
        since=log.value.mtime,
        evidence=present.evidence(
            log.source, f"last byte at {wording.moment(log.value.mtime)}", why
        ),
        confidence=confidence,
        next_action=f"nothing to do: {advice}",
    )


def _held_back(
    run: RunSpec, history: History, log: Facet[LogValue], last: float
) -> Iterator[Alert]:
    """C-23 for a log without a byte, while another source shows that the job has worked."""
    job = job_of(history)
    began = None if job is None else job.started_at
    if began is None or last <= began:
        return
    text = f"no byte in it since the start at {wording.moment(began)}; is the output held back?"
    yield Alert(
        key=f"C-23:{run.name}",
        title="The log is empty; training goes on",
        since=began,
        evidence=present.evidence(log.source, text),
        confidence="likely",
        next_action="nothing to do: at the next start use python -u, or conda run"
        " --no-capture-output; check that job.log is the file it writes to",
    )


def _why_still(log: LogValue) -> tuple[str, str, Literal["likely", "guess"]]:
    """Return what the log shows of why nothing new comes, what would help, and how sure."""
    shown = "run with python -u"
    if log.torn:
        text = "its last line breaks off: the rest is still in a buffer"
        return text, f"output is buffered ({shown})", "likely"
    if any(RICH.search(line.plain) for line in log.lines):
        text = "it uses a rich progress bar, which writes to a file only at its end"
        return text, "a plain progress bar or a logger would show the steps", "likely"
    text = "its last line is whole: nothing is being printed, or output is buffered"
    return text, f"if output is buffered, {shown}", "guess"


def _last_saved(history: History) -> float | None:
    """Return when the newest checkpoint was complete: training has come that far."""
    return max(_saves(history), default=None)


def _saves(history: History) -> list[float]:
    value = history.facets.checkpoints.value
    times = (item.saved_at for item in (value.items if value is not None else ()))
    return [at for at in times if at is not None]


def and_the_job(facets: Facets, changes: Mapping[str, Facet[Any]]) -> Facets:
    """Return facets with such changes, and with the job as these show it."""
    changed = facets.model_copy(update=changes)
    job = with_signs_of_life(changed.job, changed)
    return changed if job is changed.job else changed.model_copy(update={"job": job})


def with_signs_of_life(job: Facet[JobValue], facets: Facets) -> Facet[JobValue]:
    """Return a job that seems to be starting as running, where another source shows its work."""
    value = job.value
    if value is None or value.state != STARTING or value.started_at is None:
        return job
    sign = sign_of_life(facets, value.started_at)
    if sign is None:
        return job
    running = {
        "state": "running",
        "phase": Phase.RUNNING,
        "reason": f"its log shows nothing of this start, but {sign}",
        "pending_since": None,
    }
    return job.model_copy(update={"value": value.model_copy(update=running)})


def sign_of_life(facets: Facets, started: float) -> str | None:
    """Return what was done since a start, as far as any source but the log shows it."""
    since = started + FILE_SKEW
    listing, tracker = facets.checkpoints.value, facets.tracker.value
    saves = [each for each in (listing.items if listing is not None else ()) if each.saved_at]
    newest = max(saves, key=lambda each: each.saved_at or 0.0, default=None)
    if newest is not None and newest.saved_at is not None and newest.saved_at > since:
        return f"{named(newest)} was saved at {wording.moment(newest.saved_at)}"
    if tracker is not None and tracker.last_step_at is not None and tracker.last_step_at > since:
        return f"the tracker has a step of {wording.moment(tracker.last_step_at)}"
    return None


SLACK = 15.0
"""Seconds by which a first line may lie before its job's start."""
_NO_CAUSE = ("harmless_noise", "success", "unknown", "killed")


def log_started_over(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-23: the log holds nothing of the attempts before the present one."""
    log, job = history.facets.log, job_of(history)
    value = log.value
    if value is None or job is None or job.phase.terminal:
        return
    if value.moved_from is not None:
        yield _moved(run, history, value)
    since, texts = _log_shrank(value, history) or _read(value, history)
    unsure = history.log_trend.pace.began_late  # its first lines tell no time
    if since is None:
        return
    yield Alert(
        key=f"C-23:{run.name}:begun-anew",
        title="The log was begun anew at a restart",
        since=since,
        evidence=present.evidence(log.source, *texts),
        confidence="guess" if value.begun_anew_at is None and unsure else "likely",
        next_action="nothing to do: let the next start append to its log"
        " (Slurm: --open-mode=append; a shell: >> in place of >)",
    )


def _moved(run: RunSpec, history: History, log: LogValue) -> Alert:
    handle = re.search(r"/proc/\d+/fd/\d+$", log.path)
    became = "renamed" if handle is None else "deleted"
    keep = "it is followed there" if handle is None else f"keep it: cp {handle[0]} FILE"
    return Alert(
        key=f"C-23:{run.name}:renamed",
        title=f"The log was {became} under its writer",
        since=log.mtime,
        evidence=present.evidence(
            history.facets.log.source,
            f"{log.moved_from} was {became}; its writer goes on in {log.path}",
        ),
        next_action=f"{'nothing to do: ' if handle is None else ''}{keep}; rotate with"
        " copytruncate, or let the writer open its log anew",
    )


def _log_shrank(log: LogValue, history: History) -> tuple[float, list[str]] | None:
    """Return when the log was seen to shrink beside a restart, and what is known from before."""
    if log.begun_anew_at is None:
        return None
    job, breaks = job_of(history), history.log_trend.stepping.breaks
    backs = [each for each in breaks if each.back]
    if not (backs or history.restarts or (job is not None and job.restarts)):
        return None
    texts = [f"begun anew at {wording.moment(log.begun_anew_at)}; what stood in it before is gone"]
    if backs:
        texts[0] += f"; it had reached step {wording.step(backs[-1].step)}"
    found = _cause(log.former_end)
    if found is not None and found.name not in _NO_CAUSE and found.evidence:
        texts.append(f"seen before: {wording.cause(found.name)}: {found.evidence[-1].text}")
    else:
        texts.append("what ended the former attempt is lost")
    return log.begun_anew_at, texts


def _read(log: LogValue, history: History) -> tuple[float | None, list[str]]:
    """Return the same of a log that is read for the first time: by the times of its lines."""
    job, pace = job_of(history), history.log_trend.pace
    whole = log.rows_begin == 0 and pace.resumes == 0 and pace.first_at is not None
    if job is None or not job.restarts or job.started_at is None or not whole:
        return None, []
    if pace.first_at is None or pace.first_at < job.started_at - SLACK:
        return None, []
    text = f"restarts: {job.restarts}, and the log shows one beginning only"
    if not pace.began_late:
        text += f", at {wording.moment(pace.first_at)}"
    return pace.first_at, [f"{text}: what ended the former attempt is lost"]


@lru_cache(maxsize=64)
def _cause(lines: tuple[str, ...]) -> Triage | None:
    if not lines:
        return None
    read = Read(lines=len(lines), bytes=sum(map(len, lines)), whole=False)
    return diagnose(PresentLog(tuple(map(LogLine, lines)), read, None), "failed", None)
