"""What is remembered of one controller between two looks, so that only what changed is asked for.

One look costs as many requests for two hundred runs as for one: the states of all their jobs in
one question, and for each user what lives of theirs. A tree of jobs is fetched anew when its
state or what lives below it has changed, all of many in one list.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.platforms.iris.answers import Job, job_of
from cockpit.platforms.iris.rpc import Controller
from cockpit.platforms.iris.trees import Tree, tree_of, user_of
from cockpit.platforms.iris.words import LIVE_FILTERS, PHASES
from cockpit.runtime.http import HttpError

AGAIN: Final = 300.0
"""Seconds after which a tree is fetched again though nothing seems to have changed in it."""
LATELY: Final = 4 * AGAIN
"""Seconds after which a tree is forgotten that nobody has asked for."""
FEW: Final = 8
"""Trees that are fetched one by one; more of them out of one list."""
TREE_PAGES: Final = 2
MOST_BELOW: Final = 1000


class Look(NamedTuple):
    """One look at a controller: the trees that were asked for, and all that lives beside them."""

    trees: Mapping[str, Tree]
    """By the id that was asked for; an id that the controller does not list is not there."""
    live: Mapping[str, Job]
    """Every job that lives of the users concerned, by id."""


class Memory:
    """The trees of one controller, as they were last seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._trees: dict[str, Tree] = {}
        self._asked: dict[str, float] = {}
        self._fetched: dict[str, float] = {}
        self._below: dict[str, frozenset[str]] = {}

    async def look(self, controller: Controller, ids: Sequence[str]) -> Look:
        """Return how these jobs are now; raises ``HttpError``."""
        users = sorted({user_of(job_id) for job_id in ids})
        lists = [controller.jobs(f"/{user}/", state) for user in users for state in LIVE_FILTERS]
        states, *listed = await together(controller.states(ids), *lists)
        live = {job.id: job for jobs in listed for job in jobs}
        parts = _parts(live.values())
        words = {each: live[each].state if each in live else states.get(each) for each in ids}
        known = [job_id for job_id, word in words.items() if word is not None]
        self._asked |= dict.fromkeys(known, self._clock.monotonic())
        self._forget(set(ids) - set(known))
        seen = {each: _Seen(each, str(words[each]), parts.get(each, [])) for each in known}
        changed = [job_id for job_id in known if self._changed(seen[job_id])]
        lost = await self._fetch(controller, changed, live)
        for job_id in known:
            self._take(seen[job_id], lost=job_id in lost)
        return Look({each: self._trees[each] for each in known}, live)

    def own(self, job_id: str) -> Job | None:
        """Return a job as it was last seen, ``None`` if it never was."""
        tree = self._trees.get(job_id)
        return None if tree is None else tree.own

    def _forget(self, unlisted: Iterable[str]) -> None:
        """Drop jobs that are not listed any more, and those that nobody has asked for lately."""
        now = self._clock.monotonic()
        stale = [each for each, at in self._asked.items() if now - at > LATELY]
        for job_id in {*unlisted, *stale}:
            self._trees.pop(job_id, None)
            self._asked.pop(job_id, None)
            self._fetched.pop(job_id, None)
            self._below.pop(job_id, None)

    def _changed(self, seen: _Seen) -> bool:
        """Tell whether more must be asked of a tree than the lists of what lives say."""
        tree, own = self._trees.get(seen.id), seen.own
        old = self._clock.monotonic() - self._fetched.get(seen.id, float("-inf")) >= AGAIN
        if own is None:
            phase = PHASES.get(seen.state)
            ended = phase is not None and phase.terminal
            return tree is None or tree.own.state != seen.state or not ended or old
        if not own.has_children and not seen.below:
            return False
        new = tree is None or tree.own.key != own.key
        return new or old or seen.names != self._below.get(seen.id)

    async def _fetch(
        self, controller: Controller, changed: Sequence[str], live: Mapping[str, Job]
    ) -> set[str]:
        """Ask for whole trees, with what is over in them; returns those of which nothing came."""
        apart = list(changed)
        if len(changed) > FEW:
            users: dict[str, list[str]] = {}
            for job_id in changed:
                users.setdefault(user_of(job_id), []).append(job_id)
            prefixes = [posixpath.commonprefix(ids) for ids in users.values()]
            listed = await together(*map(controller.jobs, prefixes))
            jobs: list[Job] = [job for part in listed for job in part]
            found = self._found(changed, jobs)
            apart = [job_id for job_id in changed if job_id not in found]
        asked = [self._one(controller, job_id, live) for job_id in apart[:FEW]]
        lost = set(apart)
        for job_id, tree in zip(apart, await together(*asked), strict=False):
            if tree is not None:
                self._remember(job_id, tree)
                lost.discard(job_id)
        return lost

    def _found(self, changed: Sequence[str], jobs: Sequence[Job]) -> set[str]:
        """Remember the trees that a long list holds; returns whose they are."""
        parts = _parts(jobs)
        trees = {job_id: tree_of(job_id, parts.get(job_id, ())) for job_id in changed}
        found = {job_id: tree for job_id, tree in trees.items() if tree is not None}
        for job_id, tree in found.items():
            self._remember(job_id, tree)
        return set(found)

    async def _one(
        self, controller: Controller, job_id: str, live: Mapping[str, Job]
    ) -> Tree | None:
        """Return one tree, ``None`` where the controller cannot tell it.

        Its own job is the oldest, perhaps beyond what is listed.
        """
        try:
            jobs = await controller.jobs(job_id, pages=TREE_PAGES)
            tree = tree_of(job_id, jobs)
            if tree is not None:
                return tree
            own = live.get(job_id) or job_of((await controller.status(job_id)).get("job"))
        except HttpError as error:
            if error.kind in (ErrorKind.BAD_ANSWER, ErrorKind.NOT_FOUND):
                return None
            raise
        return tree_of(job_id, (own, *jobs))

    def _remember(self, job_id: str, tree: Tree) -> None:
        self._trees[job_id] = tree
        self._fetched[job_id] = self._clock.monotonic()

    def _take(self, seen: _Seen, *, lost: bool) -> None:
        """Put what the states and the lists of what lives say of a tree into it."""
        known, own = self._trees.get(seen.id), seen.own
        if own is None:
            if known is None or lost:
                self._trees[seen.id] = Tree(Job(seen.id, seen.state))
            return
        kept = known.below if known is not None and known.own.key == own.key else ()
        jobs = {job.id: job for job in (*kept, *seen.below)}
        tree = tree_of(seen.id, (own, *jobs.values())) or Tree(own)
        self._trees[seen.id] = tree._replace(below=tree.below[-MOST_BELOW:])
        self._below[seen.id] = seen.names


class _Seen(NamedTuple):
    """What one look says of a job before anything more is asked: its state, what lives of it."""

    id: str
    state: str
    lives: Sequence[Job]

    @property
    def own(self) -> Job | None:
        return next((job for job in self.lives if job.id == self.id), None)

    @property
    def below(self) -> list[Job]:
        return [job for job in self.lives if job.id != self.id]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(job.id for job in self.below)


def _parts(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Return the jobs by their own ids and by those of all above them."""
    parts: dict[str, list[Job]] = {}
    for job in jobs:
        root = job.id
        while root.count("/") >= 2:
            parts.setdefault(root, []).append(job)
            root = posixpath.dirname(root)
    return parts


async def together(*work: Awaitable[Any]) -> list[Any]:
    """Return all answers; raises the first error once every request has ended."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers
