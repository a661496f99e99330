"""What is remembered of a controller between two polls, so that only what changed is asked for."""

from __future__ import annotations

import asyncio
import html
import json
import posixpath
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.platforms.iris.answers import (
    LIVE_FILTERS,
    PHASES,
    Job,
    Request,
    cause_in,
    is_failed,
    job_of,
    request_of,
)
from cockpit.platforms.iris.rpc import Controller, MissingMethodError
from cockpit.platforms.iris.trees import End, Tree, belongs_to, tree_of, user_of
from cockpit.runtime.http import HttpError

REFETCH_AFTER: Final = 300.0
"""Seconds after which a tree is fetched again though nothing seems to have changed in it."""
LATELY: Final = 4 * REFETCH_AFTER
"""Seconds after which a tree is forgotten that nobody has asked for."""
FEW: Final = 8
"""Trees that are fetched one by one; more of them out of one list."""
TREE_PAGES: Final = 2
MOST_BELOW: Final = 1000


class TreesNow(NamedTuple):
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

    async def refresh(self, controller: Controller, ids: Sequence[str]) -> TreesNow:
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
        seen = {each: _LiveTree(each, str(words[each]), parts.get(each, [])) for each in known}
        changed = [job_id for job_id in known if self._changed(seen[job_id])]
        lost = await self._fetch(controller, changed, live)
        for job_id in known:
            self._take(seen[job_id], lost=job_id in lost)
        return TreesNow({each: self._trees[each] for each in known}, live)

    def last_seen(self, job_id: str) -> Job | None:
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

    def _changed(self, seen: _LiveTree) -> bool:
        """Tell whether more must be asked of a tree than the lists of what lives say."""
        tree, own = self._trees.get(seen.id), seen.own
        old = self._clock.monotonic() - self._fetched.get(seen.id, float("-inf")) >= REFETCH_AFTER
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
            found = self._remember_trees(changed, jobs)
            apart = [job_id for job_id in changed if job_id not in found]
        asked = [self._one(controller, job_id, live) for job_id in apart[:FEW]]
        lost = set(apart)
        for job_id, tree in zip(apart, await together(*asked), strict=False):
            if tree is not None:
                self._remember(job_id, tree)
                lost.discard(job_id)
        return lost

    def _remember_trees(self, changed: Sequence[str], jobs: Sequence[Job]) -> set[str]:
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

    def _take(self, seen: _LiveTree, *, lost: bool) -> None:
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


class _LiveTree(NamedTuple):
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


T = TypeVar("T")
Key = tuple[str, float | None]
ENDS: Final = 32
REQUESTS: Final = 4
CONFIGS: Final = 2
"""How many jobs are asked about at one look, for each thing that is asked."""
DETAILS_AGAIN: Final = 300.0
"""Seconds after which what had no answer is asked again."""
LIST_EVERY: Final = 60.0
"""Seconds between two requests for what the jobs of a user offer."""
OFFERS: Final = "/training-control"
KEPT: Final = 2000
"""Jobs of which answers are kept, the newest."""
_CONFIG: Final = re.compile(r"Resolved configuration</h2>\s*<pre>(.*?)</pre>", re.DOTALL)


class Details:
    """What is known of single jobs of one controller, by id and submission."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Hashable, End] = {}
        self._requests: dict[Hashable, Request] = {}
        self._configs: dict[Hashable, dict[str, object]] = {}
        self._tried: dict[Hashable, float] = {}
        self._offers: dict[str, tuple[float, tuple[str, ...]]] = {}

    def end_of(self, job: Job) -> End | None:
        """Return how a job ended by its tasks, as far as that was asked."""
        return self._ends.get(job.key)

    def request_of(self, job: Job) -> Request | None:
        """Return what a job was submitted with, as far as that was asked."""
        return self._requests.get(job.key)

    def config_of(self, tree: Tree) -> dict[str, object]:
        """Return the config that a job of the tree shows; empty if none does."""
        shown = (self._configs.get(job.key) for job in (*reversed(tree.below), tree.own))
        return next((config for config in shown if config), {})

    async def ask(
        self,
        controller: Controller,
        ended: Iterable[Job],
        new: Iterable[Job],
        trees: Sequence[Tree],
    ) -> None:
        """Ask for what is not known yet, within the numbers above; never raises ``HttpError``.

        ``ended`` are jobs that ended badly, ``new`` those whose request is of interest, the most
        wanted first, ``trees`` those that live.
        """
        await asyncio.gather(
            self._some("end", ended, self._ends, lambda job: _end(controller, job), ENDS),
            self.requests(controller, new, REQUESTS),
            self._shown(controller, trees),
        )

    async def requests(self, controller: Controller, jobs: Iterable[Job], most: int) -> None:
        """Ask with what these jobs were submitted, where that is not known."""

        async def work(job: Job) -> Request:
            return request_of(await controller.status(job.id))

        await self._some("request", jobs, self._requests, work, most)

    async def _shown(self, controller: Controller, trees: Sequence[Tree]) -> None:
        """Ask the trainers that live for their configs, where the controller knows of any."""
        wanting = [tree for tree in trees if not self.config_of(tree)]
        offers: set[str] = set()
        for user in {user_of(tree.own.id) for tree in wanting}:
            offers.update(await self.offered(controller, user))
        jobs = [job for tree in wanting for job in (*reversed(tree.below), tree.own)]
        offering = [job for job in jobs if job.id + OFFERS in offers]

        async def work(job: Job) -> dict[str, object]:
            return await _config(controller, job)

        await self._some("config", offering, self._configs, work, CONFIGS)

    async def offered(self, controller: Controller, user: str) -> tuple[str, ...]:
        """Return what the jobs of a user offer, asked once a minute for all of them."""
        now = self._clock.monotonic()
        until, names = self._offers.get(user, (now, ()))
        if now < until:
            return names
        wait = LIST_EVERY
        try:
            found = await controller.endpoints(f"/{user}/")
            names = tuple(name for name in found if belongs_to(name, f"/{user}"))
        except MissingMethodError:
            wait, names = DETAILS_AGAIN * 12, ()  # before October 2026 there is nothing of the kind
        except HttpError:
            pass
        self._offers[user] = (now + wait, names)
        return names

    async def _some(
        self,
        what: str,
        jobs: Iterable[Job],
        into: dict[Hashable, T],
        work: Callable[[Job], Awaitable[T]],
        most: int,
    ) -> None:
        """Ask about the first jobs of which nothing is known; what fails is tried again later."""
        now = self._clock.monotonic()
        unknown = {job.key: job for job in jobs if job.key not in into}
        due = [
            job
            for job in unknown.values()
            if now - self._tried.get((what, job.key), float("-inf")) >= DETAILS_AGAIN
        ]
        await asyncio.gather(*(self._one(what, job, into, work) for job in due[:most]))

    async def _one(
        self, what: str, job: Job, into: dict[Hashable, T], work: Callable[[Job], Awaitable[T]]
    ) -> None:
        try:
            _keep(into, job.key, await work(job))
        except HttpError:
            _keep(self._tried, (what, job.key), self._clock.monotonic())


def _keep(into: dict[Hashable, Any], key: Hashable, value: object) -> None:
    into[key] = value
    while len(into) > KEPT:
        del into[next(iter(into))]


async def _end(controller: Controller, job: Job) -> End:
    """Return how a job ended: the first of its tasks that failed, and the line that tells why."""
    tasks = await controller.tasks(job.id)
    failed = sorted(filter(is_failed, tasks), key=lambda task: task.finished_at or float("inf"))
    first = next(iter(failed), None) or next((task for task in tasks if task.exit_code), None)
    if first is None:
        return End(text=job.error)
    cause, text = None, job.error or first.error
    if is_failed(first):
        with suppress(HttpError):
            cause = cause_in(await controller.highlights(first.id))
    return End(exit_code=first.exit_code or None, text=text, cause=cause)


async def _config(controller: Controller, job: Job) -> dict[str, object]:
    """Return the resolved config that a trainer shows; empty where it shows none."""
    name = job.id.strip("/").replace("/", ".") + OFFERS.replace("/", ".")
    answer = await controller.page(f"proxy/{name}/")
    found = None if answer is None else _CONFIG.search(answer.body.decode("utf-8", "replace"))
    try:
        document = json.loads(html.unescape(found[1])) if found is not None else {}
    except (ValueError, RecursionError):
        document = {}
    return document if isinstance(document, dict) else {}
