"""All jobs that one answer tells of, merged, and found by whatever number a person wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from cockpit.model.observed import Phase
from cockpit.platforms.alike import Started
from cockpit.platforms.slurm.alike import inside, started
from cockpit.platforms.slurm.ask import Told
from cockpit.platforms.slurm.record import Record, task_numbers


class Job(NamedTuple):
    """What a number means: one record, or all tasks of an array, or all parts of a het job."""

    id: str
    records: tuple[Record, ...]

    @property
    def grouped(self) -> bool:
        """True of a whole array or heterogeneous job."""
        return self.records[0].kind != "" and not {"_", "+"} & set(self.id)

    @property
    def one_by_one(self) -> bool:
        """True of an array whose tasks run one after another: ``%1``."""
        throttled = any(record.throttle == 1 for record in self.records)
        return self.grouped and self.records[0].kind == "array" and throttled

    @property
    def lives(self) -> bool:
        """True when any of it runs or waits to."""
        return any(record.phase.lives for record in self.records)

    @property
    def over(self) -> bool:
        """True when all of it has ended."""
        return all(record.phase.terminal for record in self.records)

    @property
    def main(self) -> Record:
        """The record that speaks for it: what runs, else what waits, else what ended last."""
        if self.records[0].kind == "het" and self.grouped:
            return min(self.records, key=lambda each: (_urgency(each), each.id))
        return min(self.records, key=lambda each: (_urgency(each), -(each.ended or 0.0)))


def _urgency(record: Record) -> int:
    order = (Phase.RUNNING, Phase.WAITING, Phase.UNKNOWN)
    return order.index(record.phase) if record.phase in order else len(order)


@dataclass(frozen=True)
class Book:
    """The records of one answer, by their own number; ``uid`` is who asked, empty if not told."""

    records: dict[str, Record]
    uid: str = ""
    """Whose jobs are one's own, where that is told."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Batch scripts that were read, by their job's number; files by their path."""

    def is_foreign(self, record: Record) -> bool:
        """Tell whether a job is another user's."""
        return bool(self.uid and record.uid and record.uid != self.uid)

    def find(self, job_id: str) -> Job | None:
        """Return the job that an id names: ``12``, ``20``, ``20_3``, ``23+1``, ``23``."""
        group = [each for each in self.records.values() if each.kind and each.base == job_id]
        if group:
            return Job(job_id, tuple(group))
        base, _, task = job_id.partition("_")
        for each in self.records.values():
            if job_id in (each.id, each.raw):
                return Job(each.id, (each,))
            if task.isdecimal() and each.base == base and _holds(each, int(task)):
                return Job(job_id, (replace(each, id=job_id),))
        return None

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Everything there is, arrays and het jobs each as one."""
        groups: dict[str, list[Record]] = {}
        for each in self.records.values():
            groups.setdefault(each.base, []).append(each)
        return tuple(Job(base, tuple(records)) for base, records in groups.items())

    @cached_property
    def living(self) -> tuple[tuple[Job, Record], ...]:
        """Of these what runs or waits to, each with the record that speaks for it."""
        return tuple((job, job.main) for job in self.jobs if job.lives)

    @cached_property
    def starts(self) -> tuple[tuple[Started, tuple[Started, ...]], ...]:
        """What each of the living ones was started with, and what its script calls, in order."""
        mains = (main for _, main in self.living)
        return tuple((started(main), tuple(inside(main, self.scripts))) for main in mains)


def _holds(record: Record, task: int) -> bool:
    if record.kind != "array" or not record.waits_for_tasks:
        return False
    return any(task in numbers for numbers in task_numbers(record.tasks))


def book_of(told: Told, former: Iterable[Record] = ()) -> Book:
    """Return the book of an answer.

    scontrol was asked right after squeue: its word is the newer one, and it tells more. What it
    alone tells of is not believed: a name may hold the text of a whole record. Both beat
    accounting, which calls a requeued job ended (SPEC J). ``former`` are ends that were
    told before the controller forgot them.
    """
    records = {each.raw: each for each in told.queue}
    began = {each.base for each in told.queue if each.waits_for_tasks}
    for each in told.shown:
        if each.raw in records or each.base in began:  # a task may have begun in between
            records[each.raw] = _merged(records.get(each.raw), each)
    listed = {each.id: each.raw for each in records.values()}
    for each in told.accounted:
        raw = listed.get(each.id, each.raw)
        known = records.get(raw)
        records[raw] = each if known is None else _with_ending(known, each)
    for each in former:
        if each.id not in listed:
            records.setdefault(each.raw, each)
    return Book(records, told.uid)


def _merged(queued: Record | None, shown: Record) -> Record:
    """Return what both tell of a job; the queue's reason has its spaces, and all of its words."""
    if queued is None:
        return shown
    reason = queued.reason if queued.state == shown.state else shown.reason
    return replace(
        shown,
        reason=reason,
        expected=shown.expected or queued.expected,
        comment=shown.comment or queued.comment,
    )


def _with_ending(known: Record, told: Record) -> Record:
    """Return an ended job with what only accounting knows: its steps, and who cancelled it."""
    if not known.phase.terminal or not told.phase.terminal:
        return known
    state = told.state if told.word == known.word else known.state
    return replace(known, state=state, steps=told.steps)
