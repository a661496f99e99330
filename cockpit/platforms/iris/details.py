"""What a controller tells of single jobs: asked once for each, and a few at each look.

How a job ended by its tasks, what it was submitted with, and the config that its trainer shows.
A first look at two hundred jobs asks for no more of it than one at ten: the rest follows.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeVar

from cockpit.model.clock import Clock
from cockpit.platforms.iris.answers import Job, Request, Task, request_of
from cockpit.platforms.iris.rpc import Controller, MissingMethodError
from cockpit.platforms.iris.trees import End, Tree, belongs_to, user_of
from cockpit.platforms.iris.words import cause_in, is_failed
from cockpit.runtime.http import HttpError

T = TypeVar("T")
Key = tuple[str, float | None]
ENDS: Final = 32
REQUESTS: Final = 4
CONFIGS: Final = 2
"""How many jobs are asked about at one look, for each thing that is asked."""
AGAIN: Final = 300.0
"""Seconds after which what had no answer is asked again."""
LIST_EVERY: Final = 60.0
OFFERS: Final = "/training-control"
KEPT: Final = 2000
"""Jobs of which answers are kept, the newest."""
_CONFIG: Final = re.compile(r"Resolved configuration</h2>\s*<pre>(.*?)</pre>", re.DOTALL)


class Details:
    """What was told of single jobs of one controller, by id and submission."""

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
            wait, names = AGAIN * 12, ()  # before October 2026 there is nothing of the kind
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
            if now - self._tried.get((what, job.key), float("-inf")) >= AGAIN
        ]
        await asyncio.gather(*(self._one(what, job, into, work) for job in due[:most]))

    async def _one(
        self, what: str, job: Job, into: dict[Hashable, T], work: Callable[[Job], Awaitable[T]]
    ) -> None:
        try:
            _put(into, job.key, await work(job))
        except HttpError:
            _put(self._tried, (what, job.key), self._clock.monotonic())


def _put(into: dict[Hashable, Any], key: Hashable, value: object) -> None:
    into[key] = value
    while len(into) > KEPT:
        del into[next(iter(into))]


async def _end(controller: Controller, job: Job) -> End:
    """Return how a job ended: the first of its tasks that failed, and the line that tells why."""
    tasks = await controller.tasks(job.id)
    failed = sorted(filter(is_failed, tasks), key=lambda task: task.finished_at or float("inf"))
    first = failed[0] if failed else _with_code(tasks)
    if first is None:
        return End(text=job.error)
    cause = await _cause(controller, first) if is_failed(first) else None
    text = job.error or first.error
    return End(exit_code=first.exit_code or None, text=text, cause=cause)


async def _cause(controller: Controller, task: Task) -> str | None:
    try:
        return cause_in(await controller.highlights(task.id))
    except HttpError:
        return None


def _with_code(tasks: Sequence[Task]) -> Task | None:
    return next((task for task in tasks if task.exit_code), None)


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
