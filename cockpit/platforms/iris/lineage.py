"""What lives beside a run's own job and belongs to its lineage (SPEC J, C-25).

Told by a launch id in the name, else by what a job was submitted with. Only jobs that no other
job has submitted count: what lies below one is its own.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Container, Iterable, Iterator
from typing import Final

from cockpit.model import wording
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, alike, keys_of, program_of, recorded_starts
from cockpit.platforms.iris.answers import PENDING, Job, Request
from cockpit.platforms.iris.memory import Details, TreesNow
from cockpit.platforms.iris.trees import (
    CLOSED_FOR,
    LAUNCH_ID,
    LINEAGE,
    belongs_to,
    is_closing,
    launch_id_of,
    mark_of,
    user_of,
    words_of,
)
from cockpit.platforms.lineage import LineageSign
from cockpit.text.safe import clean

OWN: Final = LineageSign("the recorded job", certain=True)
FITS: Final = LineageSign("its name fits job.match", certain=True)
CLOSING: Final = "only closes the name of a launch that is over, and never runs"
SUBMITTED: Final = "submitted_at"
"""The key of a handle that tells this execution from another one of the same name."""
Key = tuple[str, str]


class LiveJobs:
    """All that lives at one look, sorted so that each run finds its own at once.

    ``now`` is by the controller's clock.
    """

    def __init__(self, look: TreesNow, details: Details, now: float) -> None:
        self._now = now
        self.roots = roots_of(look)
        self._launched: dict[Key, list[Job]] = {}
        """By user and by what stands before the number of a launch id: the run's name."""
        self._told: list[tuple[Job, Request, str]] = []
        self._requests: dict[str, Request] = {}
        self._own = {tree.own.id: details.request_of(tree.own) for tree in look.trees.values()}
        for job in self.roots:
            launch_id = launch_id_of(job.id)
            if launch_id is not None:
                key = user_of(job.id), launch_id.rpartition("-i")[0]
                self._launched.setdefault(key, []).append(job)
            request = details.request_of(job)
            if request is not None:
                self._requests[job.id] = request
                told = "\0".join((*request.argv, *request.variables.values()))
                self._told.append((job, request, told))

    def of(self, run: RunSpec, own: str) -> Live:
        """Return the jobs of the run's lineage beside the tree of its job ``own``."""
        marks: dict[str, tuple[Job, LineageSign]] = {}
        for job in self._launched.get((user_of(own), run.name), ()):
            marks[job.id] = job, self._by_name(job)
        words = words_of(run)
        for job, request, told in self._told:
            if job.id not in marks and any(word in told for word in words):
                mark = mark_of(run, request)
                if mark is not None and user_of(job.id) == user_of(own):
                    marks[job.id] = job, mark
        similar = list(self._similar(run, own, marks))
        found = [each for each in marks.values() if not belongs_to(own, each[0].id)]
        jobs = [
            (self.live_job(*each), each[1].certain) for each in found if not self._closes(each[0])
        ]
        closing = [job for job, _ in found if self._closes(job)]
        return Live(
            jobs=tuple(job for job, sure in jobs if sure),
            possible=(*(job for job, sure in jobs if not sure), *similar),
            leftovers=tuple(self._closing(job) for job in closing if self._needed(job)),
            held=tuple(self._closing(job) for job in closing if not self._needed(job)),
        )

    def _similar(self, run: RunSpec, own: str, marks: Container[str]) -> Iterator[LiveJob]:
        """Yield the jobs of the user that run what the run's job runs, and name nothing of it."""
        request = self._own.get(own)
        starts = [*recorded_starts(run), *([] if request is None else [started(own, request)])]
        shared = keys_of(starts)
        for job, each, _ in self._told:
            if job.id in marks or job.id in self._own or user_of(job.id) != user_of(own):
                continue
            other = started(job.id, each)
            if LINEAGE in each.variables or is_closing(each) or shared.isdisjoint(keys_of([other])):
                continue
            why = alike(run, starts, other)
            if why is not None:
                live = self.live_job(job, LineageSign(why, certain=False))
                yield live.model_copy(update={"alike": True})

    def matching(self, run: RunSpec, user: str) -> Job | None:
        """Return the newest job of a user that lives and fits ``job.match``, by its name or id."""
        pattern = run.job.match if run.job is not None else None
        if pattern is None:
            return None
        fits = [
            job
            for job in self.roots
            if user_of(job.id) == user and not self._closes(job)
            if any(fnmatch.fnmatchcase(each, pattern) for each in (job.id, name_of(job)))
            if (launch_id_of(job.id) or f"{run.name}-i").startswith(f"{run.name}-i")
        ]
        return max(fits, key=lambda job: (job.submitted_at or 0.0, job.id), default=None)

    def live_job(self, job: Job, mark: LineageSign) -> LiveJob:
        """Return a job that lives, and why it is taken for one of the lineage."""
        request = self._requests.get(job.id)
        told = None if request is None else request.variables.get(LAUNCH_ID)
        return LiveJob(
            id=job.id,
            name=clean(job.id.rpartition("/")[2], 120),
            why=mark.why,
            launch_id=clean(told, 200) if told else launch_id_of(job.id),
            started_at=job.started_at,
            handle={"job_id": job.id, SUBMITTED: submitted(job)},
        )

    def _needed(self, job: Job) -> bool:
        """Tell whether a client may still try to launch under the name that a job closes."""
        return job.submitted_at is None or self._now < job.submitted_at + CLOSED_FOR

    def _closing(self, job: Job) -> LiveJob:
        """Return a job that closes a name: one that is not needed any more may be cancelled."""
        why = CLOSING
        if job.submitted_at is not None and self._needed(job):
            why += f", needed until {wording.moment(job.submitted_at + CLOSED_FOR)}"
        found = self.live_job(job, LineageSign(why, certain=True))
        return found.model_copy(update={"started_at": job.submitted_at})

    def _by_name(self, job: Job) -> LineageSign:
        """Return why a job is a launch by its name; one that waits may only close that name."""
        mark = LineageSign(f"launch {launch_id_of(job.id)} by its name", certain=True)
        if job.state == PENDING and job.id not in self._requests:
            return LineageSign(f"{mark.why}, as far as is known", certain=False)
        return mark

    def _closes(self, job: Job) -> bool:
        request = self._requests.get(job.id)
        return request is not None and is_closing(request)


def name_of(job: Job) -> str:
    """Return a job's name: its id without the user."""
    return job.id.rpartition("/")[2]


def started(job_id: str, request: Request) -> Started:
    """Return what a job was started with."""
    program, args = program_of(request.argv)
    return Started(program, args, labels=job_id, variables=request.variables)


def roots_of(look: TreesNow) -> list[Job]:
    """Return the jobs that live and that no other job has submitted."""
    return [job for job in look.live.values() if job.id.count("/") == 2]


def of_interest(look: TreesNow) -> Iterable[Job]:
    """Yield the jobs whose request is of interest: the watched ones, then what lives beside."""
    own = sorted((tree.own for tree in look.trees.values()), key=_newest_first)
    yield from (job for job in own if job.id in look.live)
    yield from sorted(roots_of(look), key=_newest_first)
    yield from own


def _newest_first(job: Job) -> float:
    return -(job.submitted_at or 0.0)


def submitted(job: Job) -> str:
    """Return when a job was submitted, to the millisecond, as a handle holds it."""
    return "" if job.submitted_at is None else f"{job.submitted_at:.3f}"
