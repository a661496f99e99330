"""What is believed of a job that is a process, from what was seen of it (SPEC J).

The order of belief: the recorded process that lives, the exit file, W&B's exit record, the marker;
then the process table. A file counts if it was written after the launch.

A job whose process is stopped (SIGSTOP, Ctrl-Z or a debugger) is known at once, long before a
missing step says so; behind a wrapper it is the trainer below that is stopped. A log that still
grows after its job is gone is written by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from cockpit.model import wording
from cockpit.model.clock import FILE_SKEW
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import LiveJob, Stopped
from cockpit.model.observed import STARTING, UNCLEAR, JobValue, Phase
from cockpit.model.run import JobSpec
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.files import BadNote, ExitNote, Order, PidNote, explain_exit, order_of
from cockpit.platforms.local.programs import is_cockpit, is_shell, is_tool, is_wrapper
from cockpit.platforms.local.sight import Identity, Sight, Who
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

STOP_STATES: Final = ("T", "t")


def named_devices(members: Sequence[Process]) -> tuple[int | None, str | None]:
    """Return how many accelerators a job's CUDA_VISIBLE_DEVICES names and whose word that is.

    No number: why, and nothing where it is not set at all: then a job may use all there are.
    What a program sets for itself once it runs nobody sees.
    """
    if not members:
        return None, None
    own, variable = members[0], f"CUDA_VISIBLE_DEVICES of process {members[0].pid}"
    values = [one.devices for one in members if isinstance(one.devices, str)]
    if own.devices is False:
        return None, f"{variable} cannot be read"
    if own.devices is None:
        return None, "only some of its processes have CUDA_VISIBLE_DEVICES" if values else None
    named = {name for value in values for name in _devices(value)}
    if any(name.startswith("MIG") for name in named):
        return None, f"{variable} names parts of accelerators"
    return (len(named), f"by {variable}") if named else (None, f"{variable} names none")


def _devices(value: str) -> Iterable[str]:
    """Return the devices of a list, which ends before the first that is none."""
    names = (name.strip() for name in value.split(","))
    return takewhile(lambda name: name.isdecimal() or name.startswith(("GPU-", "MIG-")), names)


class Stop(NamedTuple):
    """That a job is stopped, and in words."""

    value: Stopped
    text: str


def workers(members: Sequence[Process]) -> Iterable[Process]:
    """Return the processes of a job that do its work: of a wrapper, what it runs.

    ``members`` begins with the job's own process.
    """
    found = [
        one
        for one in members
        if not (is_tool(one.argv) or is_cockpit(one.argv))
        and not (is_shell(one.argv) or is_wrapper(one.argv))
    ]
    return found or members[:1]


class StoppedSince:
    """Remembers since when processes are stopped: the same moment for as long as they are."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int, int], tuple[float, int]] = {}

    def note(
        self, host: Sight, stopped: Iterable[Process], answer: Sequence[Any] | Problem
    ) -> None:
        """Take in which of these are stopped for good, as ``stops`` answers a moment later.

        Where there is no answer, one that no debugger holds counts as it was listed.
        """
        listed = {self._key(host, one): one for one in stopped}
        if isinstance(answer, Problem):
            found = {key: (0, 0.0) for key, one in listed.items() if one.state == "T"}
        else:
            machine = str(host.about["machine"])
            found = {
                (machine, pid, ticks): (tracer, idle or 0.0) for pid, ticks, tracer, idle in answer
            }
        for key in listed:
            former = self._since.pop(key, None)
            if key in found:
                tracer, idle = found[key]
                since = host.got - idle if former is None else former[0]
                self._since[key] = since, tracer

    def forget(self, host: Sight, one: Process) -> None:
        """Take in that a process goes on."""
        self._since.pop(self._key(host, one), None)

    def of(self, host: Sight, stopped: Sequence[Process]) -> Stop | None:
        """Return the stop of the first of these that is stopped for good."""
        for one in stopped:
            known = self._since.get(self._key(host, one))
            if known is not None:
                since, tracer = known
                held = one.state == "t" or tracer > 0
                value = Stopped(pid=one.pid, since=since, held=held)
                return Stop(value, _words(one, since, tracer, held=held))
        return None

    @staticmethod
    def _key(host: Sight, one: Process) -> tuple[str, int, int]:
        return str(host.about["machine"]), one.pid, one.ticks


def _words(process: Process, since: float, tracer: int, *, held: bool) -> str:
    name = clean(scrub(" ".join(process.argv)), 60)
    when = f"since {wording.moment(since)}"
    if held:
        return f"held by a debugger (state t, pid {tracer}) {when}: pid {process.pid} ({name})"
    return f"stopped by SIGSTOP or Ctrl-Z (state T) {when}: pid {process.pid} ({name})"


HANDED_OVER: Final = (
    "the run's command has handed the job over and ended (as 'docker run -d' does): what became of"
    " the job is not known; write a command in cockpit.toml that waits for it (without -d, or with"
    " --wait): the cockpit detaches it by itself"
)
GONE: Final = "gone"
STOPPED: Final = "stopped"
PROCESS_TABLE: Final = "process table"
MOST_WATCHED: Final = 32
"""Processes of one job whose state is looked at every second."""


class Seen(NamedTuple):
    """Everything that was read for one job, before anything is believed.

    ``noted`` is the exit status in the launch's own note, which no clock dates; ``started`` is
    when its process started, ``members`` are that process and what works below it, ``stop``
    tells that it is stopped, if it is. ``handed``: the run's command ends once it has handed the
    job over, so its status 0 tells nothing of the job.
    """

    pid: PidNote | BadNote | None
    who: Identity
    exit: ExitNote | BadNote | None
    marker_at: float | None
    log_size: int
    log_at: float | None
    noted: int | None = None
    started: float | None = None
    ticks: int | None = None
    members: tuple[Process, ...] = ()
    stop: Stop | None = None
    elsewhere: tuple[LiveJob, ...] = ()
    again: tuple[LiveJob, ...] = ()
    handed: bool = False


def source_of(job: JobSpec) -> str:
    """Return what a job without an answer was looked for by."""
    files = (("pid file", job.pid_file), ("exit file", job.exit_file))
    named = next((f"{what} {place}" for what, place in files if place is not None), None)
    return named or PROCESS_TABLE


def judge(job: JobSpec, seen: Seen, record: int | None, now: float) -> Facet[JobValue]:
    """Apply SPEC J's order of belief; the recorded process that lives outweighs any file."""
    if seen.who.who is Who.SAME:
        return known(_living(job, seen), PROCESS_TABLE, now)
    order, handed = None, False
    if isinstance(seen.exit, ExitNote):
        status, at = seen.exit
        order, handed = order_of(seen.pid, seen.log_at, at), seen.handed and status == 0
        # the launch's own note says of this very job what the exit file says
        if not handed and (order is Order.AFTER or seen.noted == status):
            return known(ended_as(seen, status, at), f"exit file {job.exit_file}", now)
    unsure = seen.who.who is Who.UNSURE
    if record is not None and not unsure:
        return known(ended_as(seen, record, None), "W&B exit record", now)
    if (
        seen.marker_at is not None
        and order_of(seen.pid, seen.log_at, seen.marker_at) is Order.AFTER
    ):
        return known(ended_as(seen, 0, seen.marker_at), f"marker {job.done_marker}", now)
    if unsure:
        return _unclear(seen, seen.who.text, source_of(job), now)
    if handed or order is Order.UNCLEAR:
        text = "no process of it is running, and cannot tell whether the exit file is this job's"
        text = HANDED_OVER if handed else text
        return _unclear(seen, text, source_of(job), now)
    return _without_status(job, seen, now)


def _unclear(seen: Seen, text: str, source: str, now: float) -> Facet[JobValue]:
    """Return a job of which it cannot be told how it is, and why."""
    value = value_of(seen, UNCLEAR, Phase.UNKNOWN, reason=text)
    problem = Problem(kind=ErrorKind.BAD_ANSWER, message=text)
    return Facet(value=value, source=source, observed_at=now, error=problem, since=now)


def whose(facet: Facet[JobValue], rivals: Sequence[LiveJob], now: float) -> Facet[JobValue]:
    """Return a job that is gone as unknown while something else goes on in its place.

    What carries the same launch id is left over from it.
    """
    value = facet.value
    others = [
        one for one in rivals if (value and one.launch_id != value.launch_id) or not one.launch_id
    ]
    if value is None or value.state != GONE or not others:
        return facet
    other = others[0]
    text = f"{value.reason}, but {other.id} is running ({other.name}; {other.why}): is it the job?"
    return doubted(facet, value, text, now)


def doubted(facet: Facet[JobValue], value: JobValue, text: str, now: float) -> Facet[JobValue]:
    """Return a job as unknown, and why, after all that was seen of it."""
    unclear = value.model_copy(update={"state": UNCLEAR, "phase": Phase.UNKNOWN, "reason": text})
    problem = Problem(kind=ErrorKind.BAD_ANSWER, message=text)
    return Facet(value=unclear, source=facet.source, observed_at=now, error=problem, since=now)


def launched_at(seen: Seen) -> float | None:
    """Return when the present job started, as far as that is known.

    The time of a pid file is the latest moment at which its process can have started, unless
    it was touched after the job's end.
    """
    if not isinstance(seen.pid, PidNote):
        return None
    if seen.pid.start is not None and (seen.pid.ticks is not None or seen.started is None):
        return seen.pid.start
    if seen.started is not None:
        return seen.started
    ended = seen.exit.written_at if isinstance(seen.exit, ExitNote) else seen.log_at
    touched = ended is not None and seen.pid.written_at > ended
    return None if touched else seen.pid.written_at


def value_of(
    seen: Seen,
    state: str,
    phase: Phase,
    *,
    reason: str | None = None,
    exit_code: int | None = None,
    ended_at: float | None = None,
    pending_since: float | None = None,
) -> JobValue:
    """Return a job in some state, with what was seen of it besides."""
    pid = seen.pid if isinstance(seen.pid, PidNote) else None
    count, by = named_devices(seen.members)
    return JobValue(
        id=None if pid is None else f"pid:{pid.pid}",
        state=state,
        phase=phase,
        reason=reason,
        exit_code=exit_code,
        pending_since=pending_since,
        started_at=launched_at(seen),
        ended_at=ended_at,
        accelerators=count,
        accelerators_by=by,
        launch_id=None if pid is None else pid.launch_id,
        log_mark=None if pid is None else pid.log,
        rivals=seen.elsewhere,
        queued=seen.again,
        processes=tuple(one.pid for one in seen.members[:MOST_WATCHED]),
    )


def ended_as(seen: Seen, status: int, ended_at: float | None) -> JobValue:
    """Return a job that ended with an exit status."""
    reason = explain_exit(status)
    return value_of(
        seen,
        "killed" if reason is not None and reason.startswith("killed") else "exited",
        Phase.SUCCEEDED if status == 0 else Phase.FAILED,
        reason=reason,
        exit_code=status,
        ended_at=ended_at,
    )


def _living(job: JobSpec, seen: Seen) -> JobValue:
    started = launched_at(seen)
    if seen.stop is not None:
        stopped = value_of(seen, STOPPED, Phase.RUNNING, reason=seen.stop.text)
        return stopped.model_copy(update={"stopped": seen.stop.value})
    if job.log is not None and _silent(seen, started):
        reason = "launched, no log line yet"
        return value_of(seen, STARTING, Phase.WAITING, reason=reason, pending_since=started)
    return value_of(seen, "running", Phase.RUNNING)


def _silent(seen: Seen, started: float | None) -> bool:
    """Tell whether the log holds nothing of this launch (it may hold the former job's lines)."""
    if seen.log_size == 0 or seen.log_at is None:
        return True
    if isinstance(seen.pid, PidNote) and seen.pid.ticks and seen.pid.log is not None:
        return seen.log_size == seen.pid.log.offset
    return started is not None and seen.log_at < started - FILE_SKEW


def _without_status(job: JobSpec, seen: Seen, now: float) -> Facet[JobValue]:
    """Return the facet of a job that does not live and left no exit status that counts."""
    source = source_of(job)
    for note in (seen.exit, seen.pid):
        if isinstance(note, BadNote):
            return unknown(ErrorKind.BAD_ANSWER, note.reason, source, now)
    if isinstance(seen.pid, PidNote):
        reason = "gone without an exit status"
        if seen.who.text:
            reason += f" ({seen.who.text})"
        if isinstance(seen.exit, ExitNote):
            reason += " (the exit file is older than this launch)"
        return known(value_of(seen, GONE, Phase.FAILED, reason=reason), PROCESS_TABLE, now)
    if job.pid_file is not None:
        message = f"no pid file {job.pid_file}: nothing was launched here, or it was removed"
        return unknown(ErrorKind.NOT_FOUND, message, source, now)
    message = "no exit status yet, and no job.pid_file in cockpit.toml to find the process by"
    return unknown(ErrorKind.NOT_FOUND, message, source, now)


def without_trace(
    facet: Facet[JobValue], seen: Seen, absent: str, former: PidNote | BadNote | None, now: float
) -> Facet[JobValue]:
    """Return what is known of a job of which no file tells, and that was looked for in vain.

    Whether it was ever there is told by its log, or by a ``former`` look; ``absent`` says what was
    looked for and not found.
    """
    lacks = facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND
    if not lacks or not absent:
        return facet
    if former is None and seen.log_size == 0:
        text = f"{absent}: nothing was launched there, or it left no trace"
        return unknown(ErrorKind.NOT_FOUND, text, PROCESS_TABLE, now)
    reason = f"gone without an exit status ({absent})"
    value = value_of(seen._replace(pid=former), GONE, Phase.FAILED, reason=reason)
    return known(value, PROCESS_TABLE, now)


LATELY: Final = 60.0
"""Seconds after its last line in which a log may still be written by somebody."""


class _Log(NamedTuple):
    """A log whose job does not live: that job, when it was written, when it was seen to move."""

    note: PidNote | None
    at: float
    moved: float | None = None


class LogsGoingOn:
    """Remembers, of jobs that do not live, when their logs were seen to move."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def forget(self, name: str) -> None:
        """Take in that a run's job lives, or has no log."""
        self._logs.pop(name, None)

    def note(self, name: str, note: PidNote | None, at: float, now: float) -> None:
        """Take in when the log of a run was last written whose recorded job does not live."""
        known = self._logs.get(name)
        if known is None or (known.note and known.note.pid) != (note and note.pid):
            known = _Log(note, at)
        self._logs[name] = _Log(note, at, now if at > known.at else known.moved)

    def recent(self, name: str, now: float) -> bool:
        """Tell whether the log has moved since its job was found gone, or did a moment before."""
        log = self._logs.get(name)
        return log is not None and (log.moved is not None or now - log.at <= LATELY)

    def by_another(self, name: str, now: float) -> bool:
        """Tell whether the log goes on after its job was found gone, and the job may do that.

        A pid file that names its machine speaks of a process that has ended here; another one
        may be of another machine, or of a container.
        """
        log = self._logs.get(name)
        if log is None or log.moved is None or now - log.moved > LATELY:
            return False
        return log.note is None or log.note.machine is None
