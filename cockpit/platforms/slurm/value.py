"""The value of the job facet, made from Slurm's records: state, reason, times, output files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue, Phase, Tasks, TaskValue
from cockpit.model.run import RunSpec
from cockpit.platforms.slurm.book import Job, is_held_by_person
from cockpit.platforms.slurm.lineage import launch_of
from cockpit.platforms.slurm.record import Record, count_of, in_words, never_starts
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

NO_TASK: Final = "4294967294"
"""What Slurm prints for the index of a task that an array does not have yet."""
_PATTERN: Final = re.compile(r"%(%|(\d*)([AajJNnstuxb]))")
"""Such as ``slurm-%4j.out``."""


def output_of(record: Record) -> str | None:
    """Return the file that a job writes to, ``None`` where that is not known (yet)."""
    return _filled_in(record.output, record)


def error_output_of(record: Record) -> str | None:
    """Return the file of its standard error, ``None`` where that is not one of its own."""
    found = _filled_in(record.error_output, record)
    return None if found in (output_of(record), "/dev/null") else found


def _filled_in(path: str, record: Record) -> str | None:
    if not path or (NO_TASK in path and record.waits_for_tasks):
        return None
    if "\\" in path:  # sbatch: a backslash switches all patterns off
        return _absolute(path.replace("\\", ""), record.workdir)
    values = _values(record)
    unknown = [found[3] for found in _PATTERN.finditer(path) if found[3] and not values[found[3]]]
    if unknown:
        return None
    return _absolute(_PATTERN.sub(lambda found: _filled(found, values), path), record.workdir)


def _filled(found: re.Match[str], values: dict[str, str]) -> str:
    if found[1] == "%":
        return "%"
    width = min(int(found[2] or 0), 10)
    value = values[found[3]]
    return value.zfill(width) if value.isdecimal() else value


def _values(record: Record) -> dict[str, str]:
    array = record.kind == "array"
    task = record.tasks if record.tasks.isdecimal() else ""
    return {
        "A": record.base if array else record.raw,
        "a": task if array else NO_TASK,
        "b": str(int(task) % 10) if task else "",
        "j": record.raw,
        "J": record.raw,
        "N": record.node.partition(".")[0],
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": "",  # whose job it is is not asked for: such a path stays unknown
        "x": record.name,
    }


def _absolute(path: str, workdir: str) -> str | None:
    if path.startswith("/"):
        return path
    return posixpath.join(workdir, path) if workdir.startswith("/") else None


MOST_CHILDREN: Final = 200
LARGEST_SIGNAL: Final = 64
NO_LAUNCH: Final = (0, 53)
"""What Slurm tells as the exit of a job that could not be started."""
_OOM: Final = "OUT_OF_MEMORY"


def value_of(
    run: RunSpec,
    job: Job,
    passed: Sequence[str] = (),
    queued: Sequence[LiveJob] = (),
    freed: float | None = None,
) -> JobValue:
    """Return what is known of a job that came after the ``passed`` ones of its chain.

    ``queued`` comes after it by itself; ``freed`` is when the last one before it ended.
    """
    main = _speaks(job)
    phase, waiting = main.phase, main.phase is Phase.WAITING
    return JobValue(
        id=job.id,
        state=clean(main.state, 80),
        phase=phase,
        tasks=_tasks(job),
        members=_members(job),
        reason=_reason(job, passed),
        exit_code=_exit_code(main, phase),
        pending_since=_pending_since(job, freed) if waiting else None,
        started_at=None if waiting and main.word != "SUSPENDED" else _started(job),
        ended_at=_ended(job) if phase.terminal else None,
        restarts=_restarts(job, passed),
        accelerators=_accelerators(job),
        launch_id=launch_of(run, main),
        children=tuple(each.id for each in job.records[:MOST_CHILDREN]) if job.grouped else (),
        queued=tuple(queued),
        never=waiting and never_starts(main.reason),
        output=output_of(main),
        error_output=error_output_of(main),
        node=main.node or None,
        ends_by=main.until if phase is Phase.RUNNING else None,
        preempted_at=_preempted(main) if phase is Phase.RUNNING else None,
        expected_start=main.expected if waiting else None,
        queue={term: scrub(clean(said, 80)) for term, said in main.queue},
        held_by_person=waiting and is_held_by_person(main),
    )


def _accelerators(job: Job) -> int | None:
    """Return how many its running tasks hold; the parts of a heterogeneous job are held together.

    Tasks of an array that wait or are over hold none. ``None`` if no task that runs names any.
    """
    array = job.records[0].kind == "array"
    running = [each for each in job.records if each.phase is Phase.RUNNING]
    holding = running if running or array else job.records
    return sum(each.accelerators or 0 for each in holding) or None


def _members(job: Job) -> tuple[TaskValue, ...]:
    """Return the tasks of an array that Slurm still lists; of too many those that failed first."""
    if not job.grouped or job.records[0].kind != "array":
        return ()
    order = (Phase.FAILED, Phase.CANCELLED, Phase.UNKNOWN, Phase.RUNNING, Phase.WAITING)
    rank = {phase: place for place, phase in enumerate(order)}
    records = sorted(job.records, key=lambda each: rank.get(each.phase, len(rank)))
    return tuple(
        TaskValue(
            id=each.id,
            state=clean(each.state, 80),
            phase=each.phase,
            count=count_of(each),
            exit_code=_exit_code(each, each.phase),
            started_at=each.started,
            ended_at=each.ended if each.phase.terminal else None,
            node=each.node or None,
            output=output_of(each),
        )
        for each in records[:MOST_CHILDREN]
    )


def _tasks(job: Job) -> Tasks | None:
    if not job.grouped or job.one_by_one:
        return None
    running = sum(each.phase is Phase.RUNNING for each in job.records)
    over = sum(each.phase.terminal for each in job.records)
    failed = sum(each.phase is Phase.FAILED for each in job.records)
    total = sum(map(count_of, job.records))
    return Tasks(running=running, total=total, over=over, failed=failed)


def _reason(job: Job, passed: Sequence[str]) -> str | None:
    """Return why it is in its state, in one line; ``None`` where there is nothing to say."""
    main = _speaks(job)
    said: list[str | None] = [
        _reason_text(main),
        _by_whom(main),
        _node_lost(main),
        _of_steps(main),
    ]
    if main.dependency and main.phase is Phase.WAITING:
        said.append(main.dependency)
    if main.phase is Phase.WAITING and main.restarts:
        said.append("requeued once" if main.restarts == 1 else f"requeued {main.restarts} times")
    if passed:
        said.append(f"follows {', '.join(passed[-3:])}")
    said.append(_of_tasks(job))
    line = "; ".join(filter(None, said))
    return scrub(clean(line, 400)) or None


def _reason_text(record: Record) -> str | None:
    """Return the reason in words; older versions call any signal a launch failure."""
    if record.reason == "JobLaunchFailure" and record.exit != NO_LAUNCH:
        return f"its batch script was ended: {record.reason}"
    return in_words(record.reason)


def _speaks(job: Job) -> Record:
    """Return the record that tells how a job is: of an array that is over one that failed."""
    if job.grouped and job.over and not job.one_by_one:
        for phase in (Phase.FAILED, Phase.CANCELLED):
            bad = [each for each in job.records if each.phase is phase]
            if bad:
                return min(bad, key=lambda each: each.ended or 0.0)
    return job.main


def _by_whom(record: Record) -> str | None:
    """Return who cancelled it, which only accounting tells: ``CANCELLED by 1000``."""
    by = record.state.partition(" by ")[2].strip()
    return f"cancelled by user {by}" if by.isdecimal() else None


def _node_lost(record: Record) -> str | None:
    if record.word != "NODE_FAIL":
        return None
    return f"{record.node or 'its node'} does not answer: its processes may run on"


def _of_steps(record: Record) -> str | None:
    """Return which step ran out of memory: of the job itself Slurm only says that it failed."""
    starved = [name for name, word in record.steps if word == _OOM]
    if not starved or record.word == _OOM:
        return None
    return f"step {', '.join(starved[:3])} {_OOM}: it ran out of the memory that it requested"


def _of_tasks(job: Job) -> str | None:
    if not job.grouped or job.records[0].kind != "array":
        return None
    bad = [each for each in job.records if each.phase in (Phase.FAILED, Phase.CANCELLED)]
    if not bad or (job.over and len(job.records) == 1):
        return None
    named = ", ".join(f"{each.id} {each.word}" for each in bad[:3])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return f"{len(bad)} of {sum(map(count_of, job.records))} tasks did not succeed: {named}{more}"


def _exit_code(record: Record, phase: Phase) -> int | None:
    """Return the exit code, below 0 for a signal; ``None`` where Slurm tells another thing by it.

    53 and 125 stand in the place of a signal for a launch that failed and for lost memory.
    """
    if record.exit is None or not phase.terminal or record.exit == NO_LAUNCH:
        return None
    if record.reason == "BadConstraints":
        return None  # it never ran
    code, number = record.exit
    if number:
        return -number if number <= LARGEST_SIGNAL else None
    return None if code == 0 and phase is not Phase.SUCCEEDED else code


def _pending_since(job: Job, freed: float | None) -> float | None:
    """Return since when it waits: since it was submitted, or nothing of its own stands before it.

    ``freed`` is when the job before it in its chain ended. A begin time is no such moment. One
    that has run and is suspended waits since then, and not since it was submitted.
    """
    main = job.main
    if main.word == "SUSPENDED":
        return main.suspended
    times = [main.submitted, freed, _ended(job) if job.one_by_one else None]
    if main.reason != "BeginTime":
        times.append(main.eligible)
    return max((each for each in times if each is not None), default=None)


def _preempted(record: Record) -> float | None:
    """Return when it was told to make room; one from before its start was another execution's."""
    at, begun = record.preempted, record.started
    return None if at is None or (begun is not None and at < begun) else at


def _started(job: Job) -> float | None:
    """Return when it began: of an array whose tasks run at once its first task."""
    if job.grouped and not job.one_by_one:
        starts = [each.started for each in job.records if each.started is not None]
        return min(starts, default=None)
    return job.main.started


def _ended(job: Job) -> float | None:
    ends = [each.ended for each in job.records if each.ended is not None]
    return max(ends, default=None)


def _restarts(job: Job, passed: Sequence[str]) -> int | None:
    """Return how often it has started again: requeues, the jobs before it, the tasks before it."""
    own = job.main.restarts
    before = 0
    if job.one_by_one:
        before = sum(each.phase.terminal for each in job.records if each is not job.main)
    if own is None and not passed and not before:
        return None
    return (own or 0) + len(passed) + before
