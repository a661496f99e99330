"""C-01 and C-02: a job that ended without success, and a launch whose outcome nobody knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History, UnsettledLaunch
from cockpit.model.lineage import named, names_checkpoint, suspected, would_resume
from cockpit.model.observed import CheckpointsValue, JobValue, Phase, Triage
from cockpit.model.run import RunSpec
from cockpit.rules.metrics.nonfinite import findings
from cockpit.rules.present import (
    WrittenAfterEnd,
    job_of,
    job_source,
    phase_since,
    written_after_end,
)


def launch_unsettled(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-02: it is not known what became of a launch; info where its job is seen."""
    job = job_of(history)
    for launch in history.unsettled:
        seen = job is not None and history.facets.job.known and job.launch_id == launch.launch_id
        yield Alert(
            key=f"C-02:{run.name}:launch:{launch.launch_id}",
            severity=Severity.INFO if seen else Severity.ALERT,
            title=_launch_title(launch, job if seen else None),
            since=launch.since,
            evidence=tuple(_launch_evidence(history, launch, job if seen else None)),
            next_action=wait_for(run, launch),
        )


def awaited(history: History) -> UnsettledLaunch | None:
    """Return the launch that may have started a job which nobody has seen."""
    job = job_of(history)
    seen = None if job is None or not history.facets.job.known else job.launch_id
    return next((each for each in history.unsettled if each.launch_id != seen), None)


def wait_for(run: RunSpec, launch: UnsettledLaunch) -> str:
    """Return what is safe while a launch is unknown."""
    who = f"cockpit watch {run.name} or an open cockpit looks {launch.launch_id} up"
    return f"start nothing else: {who} every {wording.duration(run.cadence)}"


def _launch_title(launch: UnsettledLaunch, job: JobValue | None) -> str:
    if job is not None:
        return f"{launch.launch_id} is job {job.id}: its launch was interrupted and not recorded"
    return f"Launch {launch.launch_id} unknown: it may run"


def _launch_evidence(
    history: History, launch: UnsettledLaunch, job: JobValue | None
) -> Iterator[Evidence]:
    sent = f"{launch.action} by {launch.by} began to start it {wording.moment(launch.since)}"
    yield Evidence(text=f"{sent}; what became of it is not written down", source="journal")
    if launch.text:
        yield Evidence(text=launch.text, source="journal")
    facet, seen = history.facets.job, job_of(history)
    for held in () if seen is None else seen.held:
        if seen is not None and held.launch_id == launch.launch_id:
            yield Evidence(text=f"{held.id}: {held.why}", source=seen.rivals_source)
    if job is not None:
        yield Evidence(text=f"job {job.id} is {job.state}", source=facet.source)
    elif facet.error is not None:
        yield Evidence(text=f"asked for it: {facet.error.message}", source=facet.source)
    else:
        yield Evidence(text="asked for it: no job of it is listed so far", source=facet.source)


SAME_END = 5.0
"""Seconds by which one end may be told differently."""
_NOT_SUCCESS = (Phase.FAILED, Phase.CANCELLED)
_CODE_BUGS = ("small_code_bug", "complex_code_bug")
_SAYS_NOTHING = ("harmless_noise",)
_SIGNAL = re.compile(r"killed by signal (\d+)")
"""How a local job's exit status is explained (``cockpit/platforms/local/files.py``)."""
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?=:|$)")
"""Such as ``torch.cuda.OutOfMemoryError: CUDA out of memory``."""


def ended_not_success(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-01: critical. A stop ordered here is information, any other stop a warning."""
    job = job_of(history)
    if job is None or job.phase not in _NOT_SUCCESS:
        return
    found, went_on = diagnosis(history), written_after_end(run, history)
    by_hand = Severity.WARNING if _stopped(history, job, found) else Severity.CRITICAL
    yield Alert(
        key=_key(run, history, job),
        severity=by_hand if history.stop_ordered_by is None else Severity.INFO,
        title=_title(history, job, found, went_on),
        since=phase_since(history),
        since_or_before=job.ended_at is None,  # then it is when somebody saw it first
        evidence=tuple(_evidence(history, job, found, went_on)),
        confidence=(
            "sure" if found is None or history.stop_ordered_by is not None else found.confidence
        ),
        next_action=_next(run, history, job, found, went_on),
    )


def _key(run: RunSpec, history: History, job: JobValue) -> str:
    """Return which end it is: a job that was requeued keeps its ids, and may die again (SPEC J).

    Slurm tells how often only for some minutes after the end: the alert that is open tells it then.
    """
    again = f"restart-{job.restarts}" if job.restarts else None
    key = ":".join(filter(None, ("C-01", run.name, job.launch_id or job.id, again)))
    if job.restarts is not None or job.ended_at is None:
        return key
    ends = (each for each in history.open if each.key.startswith(f"{key}:restart-"))
    return next((one.key for one in ends if abs(one.since - job.ended_at) <= SAME_END), key)


def diagnosis(history: History) -> Triage | None:
    """Return the triage of a job that is over.

    It is made from the log as it stands after the end was seen, never from an earlier look;
    ``None`` while that has not been read: the last words are missing.
    """
    job, log = job_of(history), history.facets.log.value
    over = job is not None and job.phase.terminal
    return log.triage if over and log is not None else None


def _stopped(history: History, job: JobValue, found: Triage | None) -> bool:
    """Return whether a person ended it, not a fault."""
    by_hand = found is not None and found.name == "user_stopped"
    return job.phase is Phase.CANCELLED or history.stop_ordered_by is not None or by_hand


def _title(
    history: History, job: JobValue, found: Triage | None, went_on: WrittenAfterEnd | None
) -> str:
    if history.stop_ordered_by is not None:
        return f"Stopped by {history.stop_ordered_by}"
    if _stopped(history, job, found):
        return "Stopped by someone unknown"
    code = f"exit {job.exit_code}" if job.exit_code is not None else job.state
    if went_on is not None and went_on.still is not None:
        return f"The job ended ({code}), but {went_on.still}"
    if job.rivals:
        return f"The job ended ({code}), but {job.rivals[0].id} of its lineage is running"
    told = "" if code.casefold() == job.phase.value else f" ({code})"
    return f"{_how(job, found)}{told}"


def _how(job: JobValue, found: Triage | None) -> str:
    """Return how it ended: a signal only where its exit proves one, a cause only as triage has it.

    ``Killed by signal 9``, ``Crashed: KeyError at evaluation.py:14``, ``Failed: disk full``.
    """
    signal = _signal(job)
    if found is None or found.name in _SAYS_NOTHING:
        return "Failed" if signal is None else f"Killed by signal {signal}"
    place = found.code_location
    where = "" if place is None else f" at {place.file.rpartition('/')[2]}:{place.line}"
    raised = _raised(found) if found.name in _CODE_BUGS else None
    if raised is not None:
        return f"Crashed: {raised}{where}"
    likely = "probably " if found.confidence == "guess" and found.name != "unknown" else ""
    if found.name == "killed" and signal is None:
        return f"{likely}killed".capitalize()
    cause = "" if found.name == "killed" else f": {likely}{wording.cause(found.name)}{where}"
    return ("Failed" if signal is None else f"Killed by signal {signal}") + cause


def _signal(job: JobValue) -> int | None:
    told = _SIGNAL.match(job.reason or "")
    if told is not None:
        return int(told[1])
    return -job.exit_code if job.exit_code is not None and job.exit_code < 0 else None


def _raised(found: Triage) -> str | None:
    """Return the exception's short name, where the line that decides names one."""
    named = _EXCEPTION.match(found.evidence[-1].text.strip()) if found.evidence else None
    return None if named is None else named[1]


def _evidence(
    history: History, job: JobValue, found: Triage | None, went_on: WrittenAfterEnd | None
) -> Iterator[Evidence]:
    yield Evidence(text=_exit(job), source=job_source(history))
    if went_on is not None:
        yield Evidence(text=f"{went_on.text}, after its end", source=went_on.source)
    host = history.facets.host
    if host.value is not None and host.value.out_of_service is not None:
        yield Evidence(text=host.value.out_of_service, source=host.source)
    for rival in job.rivals:
        text = f"{rival.id} is running: {rival.name} ({rival.why})"
        yield Evidence(text=text, source=job.rivals_source)
    yield from triage_evidence(history.facets.log.source, found)
    if history.stop_ordered_by is not None:
        text = f"stop ordered by {history.stop_ordered_by}"
        yield Evidence(text=text, source="records")


def _exit(job: JobValue) -> str:
    """Return the end as its orchestrator tells it, each fact once: ``exit code 1``."""
    code = f"exit code {job.exit_code}" if job.exit_code is not None else None
    reason = job.reason
    if code is not None and reason is not None and reason.startswith(code):
        code = None  # the reason is the exit code, or explains it
    known = code is not None or reason is not None
    said = (reason or "").casefold().startswith(job.state.casefold())
    state = None if said or (job.state == "exited" and known) else job.state
    first = (reason, code) if _SIGNAL.match(reason or "") else (code, reason)
    return ", ".join(filter(None, (state, *first)))


def triage_evidence(source: str, found: Triage | None) -> Iterator[Evidence]:
    """Yield the lines that a triage rests on, by their number in the file where it is known.

    And that older lines of the job were not read, where that is so: then it is not the whole.
    """
    for line in found.evidence if found is not None else ():
        file = line.file or source
        yield Evidence(text=line.text, source=file if line.line is None else f"{file}:{line.line}")
    if found is not None and found.yours:
        yield Evidence(text="named by a signature of your own", source="run file")
    if found is not None and found.read is not None and found.read.why is not None:
        yield Evidence(text=f"not the whole log: {found.read.why}", source=source)


def _next(
    run: RunSpec,
    history: History,
    job: JobValue,
    found: Triage | None,
    went_on: WrittenAfterEnd | None,
) -> str:
    who, launch = wording.person(run), awaited(history)
    if launch is not None:
        return wait_for(run, launch)
    if went_on is not None or job.rivals:
        return f"find the job that still trains {run.name}; a relaunch would be a second copy"
    if _stopped(history, job, found):
        known = history.stop_ordered_by is not None
        return (
            "nothing to do: it was stopped on purpose"
            if known
            else f"ask {who} who stopped it and why"
        )
    if found is None:
        return f"read the log, then {wording.escalate(run)}; do not relaunch yet"
    if found.action == "relaunch":
        return _relaunch(run, history)
    if found.action == "fix_then_relaunch":
        place = found.code_location
        what = f"{place.file}:{place.line}" if place is not None else wording.cause(found.name)
        return f"fix {what}, then relaunch {run.name}"
    return f"{wording.escalate(run)}; do not relaunch"


def _relaunch(run: RunSpec, history: History) -> str:
    """Offer a relaunch only where nothing speaks against it (SPEC C-01, C-09, C-14)."""
    if findings(history):
        return f"{wording.escalate(run)}: NaN or inf is not an infrastructure failure"
    if _failed_before(history):
        escalate = wording.escalate(run)
        return f"{escalate}: it has failed before; do not relaunch until the cause is known"
    checkpoints = history.facets.checkpoints
    if not checkpoints.configured:
        return f"relaunch {run.name} once it is known what it would resume from"
    if checkpoints.value is None or checkpoints.value.unlisted:
        why = checkpoints.error.message if checkpoints.error is not None else "not listed yet"
        return f"check the checkpoints before a relaunch: {why}"
    return _from(run, checkpoints.value)


def _from(run: RunSpec, value: CheckpointsValue) -> str:
    """Return the relaunch from what it would load; a suspect one is never offered."""
    pick = would_resume(value, by_name=names_checkpoint(run))
    if pick is None and value.unrecognised:
        unknown = "no layout here knows its saves, so what it would load is unknown"
        return f"{wording.escalate(run)}: {unknown}"
    if pick is None:
        return f"{wording.escalate(run)}: no complete checkpoint to relaunch from"
    theirs = value.trainer_would_load
    other = theirs is not None and theirs.path != pick.path and not names_checkpoint(run)
    if theirs is not None and other and suspected(value, theirs) is None:
        return f"rollback {run.name} to {named(pick)}: the trainer would load {named(theirs)}"
    if suspected(value, pick) is None:
        return f"relaunch {run.name} from {named(pick)}"
    good = value.relaunch_from
    if good is None:
        return f"{wording.escalate(run)}: every complete checkpoint is suspect"
    return (
        f"rollback {run.name} to {named(good)} first; a relaunch would load {named(pick)}, which"
        " is suspect"
    )


def _failed_before(history: History) -> bool:
    """Tell whether an earlier job of this run has failed too."""
    marks = history.phases
    failed = [index for index, mark in enumerate(marks) if mark.phase is Phase.FAILED]
    return len(failed) > 1 and any(mark.phase.lives for mark in marks[failed[0] : failed[-1]])
