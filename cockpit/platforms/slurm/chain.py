"""What comes next by itself: jobs that wait for a job's end, and the tasks of ``%1`` arrays.

Slurm forgets a dependency once it is met, so what was seen while the job waited is remembered;
newer versions also show the words of sbatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cockpit.model.jobs import LiveJob
from cockpit.platforms.slurm.book import Book, Job
from cockpit.platforms.slurm.reasons import never_starts
from cockpit.platforms.slurm.record import Record, count_of
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LONGEST: Final = 50
"""Jobs of one chain that are told."""
KEPT: Final = 5000
SUCCESS: Final = ("afterok", "aftercorr")
"""Kinds of waiting that only a success ends; where one of several (``?``) will do, that is open."""
_DEPENDS: Final = re.compile(r"(after\w*):(\d+)(?:[_+][\d*]+)?(?:\((\w+)\))?|(singleton)")
_SUBMITTED: Final = re.compile(r"(?:\s-d\s*|--dependency[= ])(\S+)")
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
            if link.kind == "singleton" and not _waits_its_turn(next_job, name):
                continue
            found[next_job.id] = (next_job, link)
        return list(found.values())


def _follows(link: Link, own: set[str], name: str) -> bool:
    return link.before in own or (link.kind == "singleton" and bool(name))


def _waits_its_turn(job: Job, name: str) -> bool:
    return job.records[0].name == name and job.main.phase.value == "waiting"


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
    """Return a job of Slurm as actions and people see it; its handle is its exact number."""
    main = job.main
    return LiveJob(
        id=job.id,
        name=scrub(clean(main.name or job.id, 120)),
        why=why,
        launch_id=launch_id,
        started_at=main.started,
        proven=proven,
        handle=_handle(job),
    )


def _handle(job: Job) -> dict[str, str]:
    """Return what a job is stopped by: its number, and since when it is that number's."""
    submitted = job.main.submitted
    more = {} if submitted is None else {"submitted": f"{submitted:.0f}"}
    return {"job": job.id, "state": clean(job.main.word, 40), **more}
