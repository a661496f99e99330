"""Records of jobs, read from squeue, scontrol and sacct; Slurm's reasons in plain words."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Phase

MOST_TASKS: Final = 4_000_001
"""Slurm's own limit of an array's highest index (``MaxArraySize``)."""

_PHASES: Final = {
    Phase.RUNNING: ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"),
    Phase.WAITING: (
        *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"),
        *("SPECIAL_EXIT", "SUSPENDED"),
    ),
    Phase.SUCCEEDED: ("COMPLETED",),
    Phase.FAILED: (
        *("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    ),
    Phase.CANCELLED: ("CANCELLED",),
}
PHASE_OF: Final = {word: phase for phase, words in _PHASES.items() for word in words}
"""SPEC J. A word that is not in it, and REVOKED, is unknown."""


@dataclass(frozen=True, slots=True)
class Record:
    """What Slurm tells of one job, one task of an array, or the tasks that still wait.

    ``id`` is how people call it: ``12``, ``20_3``, ``20_[2-5%2]``, ``23+1``; ``raw`` is the number
    of the record itself and ``base`` that of the array or the heterogeneous job it belongs to
    (``kind``). Instants are seconds since the epoch. ``expected`` is when the scheduler means to
    start it, ``until`` when its time limit (``limit``, in seconds) ends it, ``preempted`` when it
    was told to make room for another one. ``exit`` is (code, signal).
    """

    id: str
    raw: str
    base: str
    state: str
    kind: str = ""
    tasks: str = ""
    throttle: int | None = None
    reason: str = ""
    name: str = ""
    comment: str = ""
    uid: str = ""
    submitted: float | None = None
    eligible: float | None = None
    started: float | None = None
    ended: float | None = None
    suspended: float | None = None
    expected: float | None = None
    until: float | None = None
    limit: float | None = None
    preempted: float | None = None
    restarts: int | None = None
    may_requeue: bool | None = None
    queue: tuple[tuple[str, str], ...] = ()
    """(term, value) of how it stands in the queue."""
    exit: tuple[int, int] | None = None
    dependency: str = ""
    command: str = ""
    script: str = ""
    """The batch script with its arguments, or the program of an srun; empty for ``--wrap``."""
    workdir: str = ""
    output: str = ""
    error_output: str = ""
    node: str = ""
    submit_host: str = ""
    """The machine on which it was submitted."""
    submit_session: str = ""
    """The number of the session there in which it was submitted."""
    accelerators: int | None = None
    said_by: str = ""
    steps: tuple[tuple[str, str], ...] = field(default=())
    """The steps that did not succeed, by accounting: (name, state word)."""

    @property
    def word(self) -> str:
        """The state without what stands behind it: of ``CANCELLED by 1000`` the first word."""
        return _word_of(self.state)

    @property
    def phase(self) -> Phase:
        """The state in one of six words."""
        return _phase_of(self.state)

    @property
    def waits_for_tasks(self) -> bool:
        """True of the one record that stands for an array's tasks that have not begun."""
        return self.kind == "array" and not self.tasks.isdecimal()


@lru_cache(maxsize=512)
def _word_of(state: str) -> str:
    """Return the one word of several that counts: what still ends has not ended."""
    words = state.replace("+", ",").split(",")
    plain = [word.split()[0] for word in words if word.split()]
    told = next((word for word in plain if word in ("COMPLETING", "SPECIAL_EXIT")), None)
    return told or (plain[0] if plain else "")


@lru_cache(maxsize=512)
def _phase_of(state: str) -> Phase:
    return PHASE_OF.get(_word_of(state), Phase.UNKNOWN)


def task_numbers(tasks: str) -> list[range]:
    """Return the index ranges of ``2-5%2`` or ``0,4-8:2``; what cannot be read is left out."""
    found = []
    for part in tasks.partition("%")[0].strip("[]").split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        numbers = (first, last or first, step or "1")
        if not all(each.isdecimal() and len(each) < 8 for each in numbers):
            continue
        low, high, by = map(int, numbers)
        if high < MOST_TASKS and by > 0:
            found.append(range(low, high + 1, by))
    return found


def count_of(record: Record) -> int:
    """Return how many tasks a record stands for."""
    if not record.waits_for_tasks:
        return 1
    return sum(len(each) for each in task_numbers(record.tasks)) or 1


UNIT: Final = "\x1f"
SQUEUE: Final = tuple(f"%{letter}" for letter in "AFKiTrSelVUEZjk")
"""Raw id, base id, tasks, id, state, reason, start, end, limit, submitted, user, waits for, …"""
SACCT: Final = "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,Timelimit,NodeList,UID,AllocTRES"
"""Fields that every version knows: one that it does not know refuses the whole query."""
LONGEST_GUESS: Final = 360 * 86400.0
"""An estimate a year ahead is Slurm's way to say that it has none."""
_BEGINS: Final = re.compile(r"^JobId=(\d+) (.*)$", re.DOTALL)
"""Such as ``JobId=71 JobName=toy``."""
_FIELD: Final = re.compile(r"^   (\w[\w/:]*)=(.*)$")
_PAIR: Final = re.compile(r"(?:^|\s)([A-Z][\w/:]*)=(\S*)")
_WHOLE: Final = frozenset(
    ("Command", "WorkDir", "Comment", "StdErr", "StdIn", "StdOut", "SubmitLine", "Features")
)
_UNSET: Final = frozenset(("", "N/A", "NONE", "None", "Unknown", "(null)", "INVALID"))
_HET: Final = re.compile(r"(\d+)\+\d+")
"""A part of a heterogeneous job: ``70+1``."""


def squeue_records(out: str, mark: str) -> list[Record]:
    """Return the records of squeue: each begins with ``mark``, which also parts its fields.

    Raises ``ValueError`` for anything else: a job that cannot be read is not one that is gone.
    """
    before, *parts = f"\n{out}".split(f"\n{mark}{UNIT}")
    if before.strip():
        raise ValueError(before.strip().partition("\n")[0])
    records = []
    for part in parts:
        fields = part.split(f"{UNIT}{mark}{UNIT}")
        records.append(_squeued(dict(zip(SQUEUE, fields, strict=True))))
    return records


def _squeued(told: dict[str, str]) -> Record:
    raw, base, tasks, shown = told["%A"], told["%F"], _set(told["%K"]), told["%i"]
    het = _HET.fullmatch(shown)
    record = Record(
        id=shown,
        raw=raw,
        base=het[1] if het else base,
        kind="het" if het else "array" if tasks else "",
        tasks=tasks,
        throttle=_number(shown.partition("%")[2].rstrip("]")),
        state=told["%T"],
        reason=told["%r"],
        name=told["%j"],
        comment=_set(told["%k"].strip()),
        uid=told["%U"],
        submitted=instant(told["%V"]),
        dependency=_set(told["%E"]),
        workdir=_set(told["%Z"]),
        said_by="squeue",
    )
    return timed(record, instant(told["%S"]), instant(told["%e"]), limited=_limited(told["%l"]))


def timed(record: Record, start: float | None, end: float | None, *, limited: bool) -> Record:
    """Return a record with what its start and end mean in its state."""
    if record.phase.terminal:
        return replace(record, started=start, ended=end)
    if record.phase.value == "waiting" and record.word != "SUSPENDED":
        known = start is not None and record.submitted is not None
        near = known and start - record.submitted < LONGEST_GUESS  # type: ignore[operator]
        return replace(record, expected=start if near else None)
    return replace(record, started=start, until=end if limited else None)


def scontrol_records(out: str, alone: Mapping[str, str] | None = None) -> list[Record]:
    """Return the records of ``scontrol show job``, each number once.

    A name that holds such text stands beside the real record: neither of them is believed, but
    what ``alone`` tells of that number, which was asked for by itself.
    """
    found: dict[str, list[Record]] = {}
    for number, lines in _blocks(out):
        record = _shown(number, lines)
        if record is not None:
            found.setdefault(record.raw, []).append(record)
    asked = (_record_alone(number, text) for number, text in (alone or {}).items())
    believed = [each for each in asked if each is not None]
    return believed + [records[0] for records in found.values() if len(records) == 1]


def _record_alone(number: str, text: str) -> Record | None:
    """Return the record of a job that was asked for by its number: all lines are its own."""
    lines = text.split("\n")
    begins = _BEGINS.match(lines[0])
    if begins is None or begins[1] != number:
        return None
    return _shown(number, [begins[2], *lines[1:]])


def _blocks(out: str) -> Iterator[tuple[str, list[str]]]:
    number = ""
    lines: list[str] = []
    for line in out.split("\n"):
        begins = _BEGINS.match(line)
        if begins is not None:
            if number:
                yield number, lines
            number, lines = begins[1], [begins[2]]
        elif number:
            lines.append(line)
    if number:
        yield number, lines


_GPUS: Final = late_regex(r"(?:^|,)(?:gres[:/])?gpu(?::[^=:,]+)?[:=](\d+)")
"""GPUs in what was asked for: ``gres:gpu:2``, ``gres/gpu:a100:2``, ``cpu=2,gres/gpu=4``."""
_PER: Final = (("TresPerJob", ""), ("TresPerNode", "NumNodes"), ("TresPerTask", "NumTasks"))
"""What a job asked for, and how many of each it has."""


def _asked_accelerators(told: Mapping[str, str]) -> int | None:
    """Return the GPUs that a job asked for by node, task or in all.

    Where the site does not account for them, that is all that its record tells.
    """
    for asked, counted in _PER:
        each = sum(int(found) for found in _GPUS.findall(told.get(asked, "")))
        count = 1 if not counted else _number(told.get(counted))
        if each and count:
            return each * count
    return None


def accelerators_in(resources: str) -> int | None:
    """Return how many GPUs a job's trackable resources name; ``None`` where none are named.

    ``cpu=8,gres/gpu=16,gres/gpu:a100=16``: the plain count has them all, else the kinds add up.
    """
    found = [each.rpartition("=") for each in resources.split(",")]
    counts = {name: int(count) for name, _, count in found if count.isascii() and count.isdecimal()}
    kinds = [count for name, count in counts.items() if name.startswith("gres/gpu:")]
    return counts.get("gres/gpu", sum(kinds)) or None


def _shown(number: str, lines: list[str]) -> Record | None:
    """Return the record of one block, ``None`` for text that is no whole one."""
    told = _fields(lines)
    if "JobState" not in told:
        return None
    array, task = told.get("ArrayJobId", ""), told.get("ArrayTaskId", "")
    het = told.get("HetJobId", "")
    kind = "array" if array and task else "het" if het else ""
    shown = number
    if kind == "array":
        shown = f"{array}_{task}" if task.isdecimal() else f"{array}_[{task}]"
    elif kind == "het":
        shown = f"{het}+{told.get('HetJobOffset', '0')}"
    submit_host, _, session = told.get("AllocNode:Sid", "").partition(":")
    record = Record(
        id=shown,
        raw=number,
        base=array if kind == "array" else het or number,
        kind=kind,
        tasks=task,
        throttle=_number(told.get("ArrayTaskThrottle")),
        state=told["JobState"],
        reason=_set(told.get("Reason", "")),
        name=told.get("JobName", ""),
        comment=_set(told.get("Comment", "").strip()),
        uid=told.get("UserId", "").rpartition("(")[2].rstrip(")"),
        submitted=instant(told.get("SubmitTime", "")),
        eligible=instant(told.get("EligibleTime", "")),
        suspended=instant(told.get("SuspendTime", "")),
        preempted=instant(told.get("PreemptTime", "")),
        limit=seconds_of(told.get("TimeLimit", "")),
        restarts=_number(told.get("Restarts")),
        may_requeue={"0": False, "1": True}.get(told.get("Requeue", "")),
        queue=tuple((term, said) for term, key in _QUEUE if (said := _set(told.get(key, "")))),
        exit=exit_of(told.get("ExitCode", "")),
        dependency=_set(told.get("Dependency", "")),
        command=" ".join(
            filter(None, (_set(told.get(key, "")) for key in ("Command", "SubmitLine")))
        ),
        script=_set(told.get("Command", "")),
        workdir=_set(told.get("WorkDir", "")),
        output=_set(told.get("StdOut", "")),
        error_output=_set(told.get("StdErr", "")),
        accelerators=accelerators_in(told.get("AllocTRES", "") or told.get("TRES", ""))
        or _asked_accelerators(told),
        node=first_node(_set(told.get("BatchHost", "")) or _set(told.get("NodeList", ""))),
        submit_host=submit_host,
        submit_session=session,
        said_by="scontrol",
    )
    limited = _limited(told.get("TimeLimit", ""))
    start, end = instant(told.get("StartTime", "")), instant(told.get("EndTime", ""))
    return timed(record, start, end, limited=limited)


_QUEUE: Final = (
    ("partition", "Partition"), ("QOS", "QOS"), ("priority", "Priority"),
    ("time limit", "TimeLimit"),
)  # fmt: skip
"""What is shown of a job's place in the queue, and the field of scontrol that has it."""


def _fields(lines: list[str]) -> dict[str, str]:
    """Return the fields of a block. One that takes a whole line may go on on the next.

    The name ends the first line and goes on until the line of the user; of a field that is told
    twice (a command may hold such text) the last one is Slurm's own.
    """
    first, _, name = lines[0].partition("JobName=")
    told = dict(_PAIR.findall(first))
    told["JobName"], open_field, named = name, "JobName", False
    for line in lines[1:]:
        field = _FIELD.match(line)
        own = field is not None and (named or field[1] in ("UserId", "HetJobIdSet"))
        if field is None or not own:
            if open_field and line.strip():
                told[open_field] += f"\n{line}"
            continue
        named = True
        open_field = field[1] if field[1] in _WHOLE else ""
        if open_field:
            told[open_field] = field[2]
        else:
            told.update(_PAIR.findall(line))
    return told


def sacct_records(out: str, mark: str) -> list[Record]:
    """Return the records of sacct; what it tells of steps that failed goes into their job's."""
    separator = f"{UNIT}{mark}{UNIT}"
    jobs: dict[str, Record] = {}
    for line in out.split("\n"):
        fields = line.split(separator)
        if len(fields) != SACCT.count(",") + 1:
            continue
        told = dict(zip(SACCT.split(","), fields, strict=True))
        shown, _, step = told["JobID"].partition(".")
        if not step:
            jobs[shown] = _accounted(told)
        elif shown in jobs and (failed := _failed_step(step, told["State"])) is not None:
            jobs[shown] = replace(jobs[shown], steps=(*jobs[shown].steps, failed))
    return list(jobs.values())


def _failed_step(step: str, state: str) -> tuple[str, str] | None:
    word = state.partition(" ")[0]
    return None if word in ("COMPLETED", "RUNNING", "PENDING", "") else (step, word)


def _accounted(told: dict[str, str]) -> Record:
    shown = told["JobID"]
    array, _, task = shown.partition("_")
    het = _HET.fullmatch(shown)
    record = Record(
        id=shown,
        raw=told["JobIDRaw"],
        base=het[1] if het else array,
        kind="het" if het else "array" if task else "",
        tasks=task.strip("[]"),
        state=told["State"],
        uid=told["UID"],
        submitted=instant(told["Submit"]),
        exit=exit_of(told["ExitCode"]),
        node=first_node(_set(told["NodeList"])),
        accelerators=accelerators_in(told["AllocTRES"]),
        said_by="sacct",
    )
    start, end = instant(told["Start"]), instant(told["End"])
    return timed(record, start, end, limited=_limited(told["Timelimit"]))


def instant(text: str) -> float | None:
    """Return an instant that Slurm prints in UTC, ``None`` for one that is not known."""
    if text in _UNSET:
        return None
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return None


def exit_of(text: str) -> tuple[int, int] | None:
    """Return (code, signal) of ``139:0``."""
    code, _, number = text.partition(":")
    return (int(code), int(number)) if code.isdecimal() and number.isdecimal() else None


def first_node(nodes: str) -> str:
    """Return the first machine of a list such as ``gpu[003-007,9],login1``."""
    found = re.match(r"([^\[,]*)(?:\[([^\],-]+)[^\]]*\])?([^\[,]*)", nodes)
    return "" if found is None else "".join(filter(None, found.groups()))


_LIMIT: Final = re.compile(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)")
"""Such as ``1-02:30:00``, ``30:00``: days, hours, minutes, seconds."""


def seconds_of(limit: str) -> float | None:
    """Return a time limit in seconds; ``None`` where there is none, or none is known."""
    found = _LIMIT.fullmatch(limit)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _limited(limit: str) -> bool:
    return limit not in _UNSET and limit not in ("UNLIMITED", "Partition_Limit")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 12 else None


def _set(text: str) -> str:
    return "" if text in _UNSET else text


_NEVER: Final = re.compile(
    r"DependencyNeverSatisfied|JobHeld|PartitionNodeLimit|BadConstraints|requeued.{0,20}held", re.I
)
"""A reason that no waiting ends: ``DependencyNeverSatisfied``."""

_WORDS: Final = tuple(
    (re.compile(pattern, re.I), plain)
    for pattern, plain in (
        ("^DependencyNeverSatisfied", "never starts: the job before it did not end as required"),
        ("^Dependency", "waiting for another job to end"),
        ("^JobHeldUser|requeued.{0,20}held", "held: never starts before it is released"),
        ("^JobHeldAdmin", "held by an administrator: never starts before they release it"),
        ("^PartitionNodeLimit", "never starts: more nodes than its partition allows"),
        ("^BadConstraints", "no node has what it requests"),
        ("^PartitionTimeLimit", "more time than its partition allows"),
        ("^JobArrayTaskLimit", "waiting for earlier tasks of its array"),
        ("^(Resources|Priority)", "waiting for other jobs"),
        ("^BeginTime", "waiting for its begin time"),
        (
            "^(ReqNodeNotAvail|Nodes.required|NodeDown|Partition(Down|Inactive))",
            "waiting for nodes",
        ),
        ("^Reserv", "waiting for a reservation"),
        ("^Licenses", "waiting for licences"),
        ("^(Prolog|Cleaning|Configuring)", "its nodes are being set up"),
        (
            "^(QOS|Assoc|Max\\w*PerAccount|AccountNotAllowed|InvalidQOS)",
            "waiting: a limit is reached",
        ),
        ("^TimeLimit", "its time limit was reached"),
        ("^NodeDown|^NodeFail", "a node was lost: what ran there may run on"),
        ("^JobLaunchFailure", "it could not be started: is the folder of its output there?"),
        ("^NonZeroExitCode", "its command failed"),
        ("^OutOfMemory", "it ran out of the memory that it requested"),
        ("^RaisedSignal", "ended by a signal"),
        ("^(DeadLine|Deadline)", "it could not end before its deadline"),
    )
)
_NOTHING: Final = frozenset(("", "none", "(null)", "n/a"))


def never_starts(reason: str | None) -> bool:
    """Tell whether a job that waits for this reason never starts, however long (SPEC J, C-04)."""
    return _NEVER.search(reason or "") is not None


def in_words(reason: str) -> str | None:
    """Return a reason with plain words before it: ``waiting for other jobs: Resources``."""
    told = reason.replace("_", " ").strip()
    if told.lower() in _NOTHING:
        return None
    words = next((words for pattern, words in _WORDS if pattern.search(reason.strip())), None)
    return told if words is None else f"{words}: {told}"
