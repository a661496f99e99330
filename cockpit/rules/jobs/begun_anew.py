"""C-23, a log that was truncated by a restart, or renamed under its writer (SPEC J).

Whoever watched has seen its last lines, and what they tell is kept. A rotation that copies and
truncates loses nothing: only a log that was begun anew beside a restart is told of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.logtext import LogLine, PresentLog, Read
from cockpit.model.observed import LogValue, Triage
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.present import job_of
from cockpit.rules.triage.classify import diagnose

SLACK = 15.0
"""Seconds by which a first line may lie before its job's start."""
_NOTHING = ("harmless_noise", "success", "unknown", "killed")


def log_begun_anew(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-23: the log holds nothing of the attempts before the present one."""
    log, job = history.facets.log, job_of(history)
    value = log.value
    if value is None or job is None or job.phase.terminal:
        return
    if value.moved_from is not None:
        yield _moved(run, history, value)
    since, texts = _seen(value, history) or _read(value, history)
    unsure = history.log_trend.pace.began_late  # its first lines tell no time
    if since is None:
        return
    yield Alert(
        id="C-23",
        key=f"C-23:{run.name}:begun-anew",
        severity=Severity.INFO,
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
        id="C-23",
        key=f"C-23:{run.name}:renamed",
        severity=Severity.INFO,
        title=f"The log was {became} under its writer",
        since=log.mtime,
        evidence=present.evidence(
            history.facets.log.source,
            f"{log.moved_from} was {became}; its writer goes on in {log.path}",
        ),
        confidence="sure",
        next_action=f"{'nothing to do: ' if handle is None else ''}{keep}; rotate with"
        " copytruncate, or let the writer open its log anew",
    )


def _seen(log: LogValue, history: History) -> tuple[float, list[str]] | None:
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
    if found is not None and found.name not in _NOTHING and found.evidence:
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
