"""All jobs of one answer, merged; which of them wait for others, and which of ours are held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.platforms.alike import Started
from cockpit.platforms.slurm.ask import ClusterRecords
from cockpit.platforms.slurm.command import inside, started
from cockpit.platforms.slurm.record import Record, count_of, never_starts, task_numbers
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


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
    """The records of one answer, by their own number; ``uid`` is who asked, empty if not known."""

    records: dict[str, Record]
    uid: str = ""
    """Whose jobs are one's own, where that is told."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Batch scripts that were read, by their job's number; files by their path."""

    def is_foreign(self, record: Record) -> bool:
        """Tell whether a job is another user's."""
        return bool(self.uid and record.uid and record.uid != self.uid)

    def find(self, job_id: str) -> Job | None:
        """Return the job that an id names: ``12``, ``20``, ``20_3``, ``23+1``, ``23``.

        A part of a heterogeneous job is no job of its own: it is that job.
        """
        group = [each for each in self.records.values() if each.kind and each.base == job_id]
        if group:
            return Job(job_id, tuple(group))
        base, _, task = job_id.partition("_")
        for each in self.records.values():
            if job_id in (each.id, each.raw):
                return self.find(each.base) if each.kind == "het" else Job(each.id, (each,))
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


def book_of(told: ClusterRecords, former: Iterable[Record] = ()) -> Book:
    """Return the book of an answer.

    scontrol was asked right after squeue: its word is the newer one, and it tells more. What it
    alone tells of is not believed: a name may hold the text of a whole record. Both beat
    accounting, which calls a requeued job ended (SPEC J). ``former`` are ends that were
    known before the controller forgot them.
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


LONGEST: Final = 50
"""Jobs of one chain that are told."""
KEPT: Final = 5000
SUCCESS: Final = ("afterok", "aftercorr")
"""Kinds of waiting that only a success ends; where one of several (``?``) will do, that is open."""
_DEPENDS: Final = re.compile(r"(after\w*):(\d+)(?:[_+][\d*]+)?(?:\((\w+)\))?|(singleton)")
"""Such as ``afterok:71(unfulfilled)``."""
_SUBMITTED: Final = re.compile(r"(?:\s-d\s*|--dependency[= ])(\S+)")
"""Such as ``sbatch --dependency=afterok:71 train.sh``."""
_MORE: Final = re.compile(r"(?<=\d):(?=\d)")


class Link(NamedTuple):
    """That a job waits, or has waited, for another one's end (``kind``: afterany …)."""

    kind: str
    before: str


def links_of(record: Record) -> list[Link]:
    """Return what a job waits for; ``after`` alone waits for a start, not for an end."""
    told = record.dependency
    if not told:
        found = _SUBMITTED.search(record.command)
        told = "" if found is None else found[1]
    links, kind = [], ""
    for part in re.split(r"[,?]", told):
        head, _, ids = part.partition(":")
        for number in _MORE.split(ids) if ids else [""]:
            found = _DEPENDS.match(f"{head}:{number}" if number else head)
            if found is not None and (kind := found[1] or found[4]) != "after":
                links.append(Link(kind, found[2] or ""))
    return links


class Chains:
    """Remembers which job waited for which, by the successor's number."""

    def __init__(self) -> None:
        self._links: dict[str, tuple[Link, ...]] = {}

    def learn(self, book: Book) -> None:
        """Take note of what waits for what now; what is no longer listed is dropped in time."""
        for record in book.records.values():
            if links := links_of(record):
                self._links[record.base] = tuple(links)
        for old in list(self._links)[: max(0, len(self._links) - KEPT)]:
            del self._links[old]

    def after(self, book: Book, job_id: str, records: tuple[Record, ...]) -> list[tuple[Job, Link]]:
        """Return the jobs that follow one, each with how; ``records`` may be none any more."""
        name = records[0].name if records else ""
        found: dict[str, tuple[Job, Link]] = {}
        own = {job_id, *(each.base for each in records), *(each.raw for each in records)}
        for number, links in self._links.items():
            link = next((each for each in links if _follows(each, own, name)), None)
            next_job = book.find(number) if link is not None and number not in own else None
            if next_job is None or link is None:
                continue
            turn = next_job.records[0].name == name and next_job.main.phase is Phase.WAITING
            if link.kind == "singleton" and not turn:
                continue
            found[next_job.id] = (next_job, link)
        return list(found.values())


def _follows(link: Link, own: set[str], name: str) -> bool:
    return link.before in own or (link.kind == "singleton" and bool(name))


def queued_after(chains: Chains, book: Book, job: Job) -> list[LiveJob]:
    """Return what starts by itself once ``job`` is over, in order, with what follows on that."""
    found: dict[str, LiveJob] = {each.id: each for each in waiting_tasks(job)}
    left, seen = [job], {job.id}
    while left and len(found) < LONGEST:
        one = left.pop(0)
        for after, link in chains.after(book, one.id, one.records):
            if after.id in seen or not after.lives or never_starts(after.main.reason):
                continue
            seen.add(after.id)
            left.append(after)
            queued = live_job(after, f"{link.kind} {one.id}" if link.before else link.kind)
            needs = one is job and link.kind in SUCCESS and "?" not in after.main.dependency
            found[after.id] = queued.model_copy(update={"needs_success": needs})
    return list(found.values())


def waiting_tasks(job: Job) -> Iterator[LiveJob]:
    """Yield the tasks of a ``%1`` array that come after the one that runs, or is the next."""
    if not job.one_by_one:
        return
    for record in job.records:
        count = count_of(record) - (record is job.main)
        if record.phase.value == "waiting" and count > 0:
            tasks = "the next task" if count == 1 else f"the next {count} tasks"
            why = f"{tasks} of array {record.base}, one by one"
            task = live_job(Job(record.id, (record,)), why)
            yield task.model_copy(update={"part_of": record.base})


def live_job(job: Job, why: str, launch_id: str | None = None, proven: bool = True) -> LiveJob:
    """Return a job of Slurm as actions and people see it.

    Its handle is what it is stopped by: its exact number, and since when it is that number's.
    """
    main = job.main
    since = {} if main.submitted is None else {"submitted": f"{main.submitted:.0f}"}
    return LiveJob(
        id=job.id,
        name=scrub(clean(main.name or job.id, 120)),
        why=why,
        launch_id=launch_id,
        started_at=main.started,
        proven=proven,
        handle={"job": job.id, "state": clean(main.word, 40), **since},
    )


_BY_US: Final = "JobHeldUser"
_REQUEUED_HELD: Final = re.compile("requeued.{0,20}held", re.I)
"""Such as ``launch failed requeued held``: the owner may release it."""


def never_let_go(record: Record) -> bool:
    """Tell whether a job waits held since it was submitted, or was cancelled while it did.

    Slurm gives it no time from which on it could run (one with a begin time has it all along).
    A job that was let go and is held again by a person has one.
    """
    if record.said_by != "scontrol" or record.restarts:
        return False
    if record.word not in ("PENDING", "CANCELLED"):
        return False
    return record.reason == _BY_US and record.eligible is None


def is_held(record: Record) -> bool:
    """Tell whether a job waits held, by whomever."""
    return record.word == "PENDING" and record.reason.startswith("JobHeld")


def is_held_by_person(record: Record) -> bool:
    """Tell whether a job that was let go waits because its user holds it, or a failed requeue."""
    held = record.reason == _BY_US or _REQUEUED_HELD.search(record.reason) is not None
    told = record.said_by == "scontrol"
    return record.word == "PENDING" and held and told and not never_let_go(record)


def never_began(record: Record) -> bool:
    """Tell whether a job ended without having been on a machine."""
    return record.phase.terminal and not record.node
