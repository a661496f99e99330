"""Pushes that go on behind: a record is written and committed at once, and nobody waits (SPEC A).

A push runs beside everything else in the process that wanted it. When that process leaves first
(a verb on the command line ends at once), the push is handed to a small process of its own, which
has a deadline. What neither brings there (a remote that hangs, a kill) goes with the next record,
and a watch or an open cockpit tries it again from time to time.

How a push stands is asked of git itself; beside the repository stands only what git does not
know: since when it waits, that somebody is at it, and why the last attempt failed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cockpit.model.base import Frozen, Instant
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.wording import moment
from cockpit.platforms.local.launcher.kernel import write_whole
from cockpit.records.git import documents
from cockpit.records.git.pushing import NO_REMOTE, NOT_PUSHED, standing_of
from cockpit.records.git.repository import GitError, Limits, Repository, find_repository
from cockpit.runtime.offload import offload
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import Completed, start_detached

NOTE: Final = "cockpit-push.json"
OVER_AFTER: Final = 240.0
"""Seconds after which whoever said that it pushes has died at it."""
MOST: Final = 65536
ROUNDS: Final = 5
"""How often a push is made again for what was committed while it ran."""
LOOK: Final = 0.05
Pushing = Callable[[Path], Awaitable[Recorded]]


class PushStage(StrEnum):
    """How the push of a file stands.

    ``none``: there is nowhere to push to; ``held``: commits wait that the cockpit did not write.
    """

    NONE = "none"
    HELD = "held"
    QUEUED = "queued"
    PUSHING = "pushing"
    PUSHED = "pushed"
    FAILED = "failed"


class Push(Frozen):
    """How the push of a file stands, since when, and what stands in the way."""

    stage: PushStage
    since: Instant | None = None
    at: Instant | None = None
    trouble: str | None = None

    @property
    def text(self) -> str:
        """One line: ``not pushed since 2026-03-11 08:41:07Z: origin …``."""
        since = "" if self.since is None else f" since {moment(self.since)}"
        if self.stage in (PushStage.FAILED, PushStage.HELD):
            return f"not pushed{since}" + (f": {self.trouble}" if self.trouble else "")
        waits = self.stage in (PushStage.QUEUED, PushStage.PUSHING)
        return f"{self.stage.value}{since}" if waits else self.stage.value


class PushBehind:
    """The pushes of one process; ``push`` brings the branch of a file to its remote."""

    def __init__(self, push: Pushing, limits: Limits) -> None:
        self._push = push
        self._limits = limits
        self._tasks: dict[Path, asyncio.Task[None]] = {}
        self._again: set[Path] = set()

    def want(self, repository: Repository, path: Path) -> None:
        """Push what is committed now; returns at once. One push at a time for a repository."""
        task, place = self._tasks.get(repository.common), repository.common
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            self._again.add(place)
            return
        self._tasks[place] = asyncio.create_task(self._run(place, path))

    async def wait(self, path: Path, within: float) -> Push:
        """Return how the push of a file stands once it is over, at the latest after ``within``."""
        mine = [task for task in self._tasks.values() if not task.done()]
        if mine and within > 0:
            await asyncio.wait(mine, timeout=within)
        return await push_of(path, self._limits)

    async def _run(self, place: Path, path: Path) -> None:
        try:
            for _ in range(ROUNDS):
                self._again.discard(place)
                await pushed_now(place, path, self._push)
                if place not in self._again:
                    return
        except asyncio.CancelledError:
            hand_over(path)
            raise


async def pushed_now(place: Path, path: Path, push: Pushing) -> Recorded:
    """Push, and keep how it went beside the repository whose folder is ``place``."""
    former = await offload(_read, place, deadline=10.0)
    waits = former is not None and former.stage is not PushStage.PUSHED
    now = time.time()
    since = former.since if former is not None and waits else now
    await offload(_write, place, Push(stage=PushStage.PUSHING, since=since, at=now), deadline=10.0)
    done = await push(path)
    over = done.stage is SaveStage.PUSHED or done.as_far
    stage = PushStage.PUSHED if over else PushStage.FAILED
    told = Push(stage=stage, since=since, at=time.time(), trouble=done.trouble)
    await offload(_write, place, told, deadline=10.0)
    return done


async def push_of(path: Path, limits: Limits) -> Push:
    """Return how the push of a file stands, as git knows it; never raises."""
    try:
        real = await offload(documents.real_path, path, deadline=limits.local)
        found = await find_repository(real, limits)
        if isinstance(found, Completed):
            if found.timed_out:
                raise TimeoutError("git did not answer")
            return Push(stage=PushStage.NONE)
        branch = await found.branch()
        if branch is None:
            return Push(stage=PushStage.NONE)
        top = await offload(documents.real_path, found.top, deadline=limits.local)
        to, pushed, held = await standing_of(found, branch, str(real.relative_to(top)))
        if held is not None:
            held = held.removeprefix(NOT_PUSHED)
            return Push(stage=PushStage.NONE if held == NO_REMOTE else PushStage.HELD, trouble=held)
        if to is None or pushed:
            return Push(stage=PushStage.PUSHED if pushed else PushStage.NONE)
        return _standing(await offload(_read, found.common, deadline=limits.local))
    except (GitError, OSError, ValueError, TimeoutError) as error:
        return Push(stage=PushStage.FAILED, trouble=f"it cannot be told: {error}")


def _standing(told: Push | None) -> Push:
    """Return how a push stands that git says has not arrived."""
    if told is None or told.stage is PushStage.PUSHED:
        return Push(stage=PushStage.QUEUED)
    if told.stage is PushStage.FAILED or told.at is None:
        return told
    if not 0 <= time.time() - told.at <= OVER_AFTER:
        return told.model_copy(update={"stage": PushStage.FAILED, "trouble": "it was interrupted"})
    return told


def hand_over(path: Path) -> None:
    """Let a process of its own push; what stands in the way of that leaves it to the next one."""
    with suppress(OSError, ValueError):
        start_detached(own_python(__name__, str(path)), env={})


def _read(place: Path) -> Push | None:
    try:
        with (place / NOTE).open("rb") as file:
            return Push.model_validate_json(file.read(MOST))
    except (OSError, ValidationError, ValueError):
        return None


def _write(place: Path, push: Push) -> None:
    fresh = place / f"{NOTE}.{os.getpid()}"
    with suppress(OSError):
        write_whole(fresh, json.dumps(push.model_dump()))
        fresh.replace(place / NOTE)


def main(path: str) -> None:
    """Push the branch of a file, in a process of its own."""
    from cockpit.model.clock import SystemClock
    from cockpit.records.git.saver import Saver

    async def work() -> None:
        limits = Limits()
        real = await offload(documents.real_path, Path(path), deadline=limits.local)
        found = await find_repository(real, limits)
        if not isinstance(found, Completed):
            await pushed_now(found.common, real, Saver(SystemClock(), limits).push)

    asyncio.run(work())


if __name__ == "__main__":
    main(sys.argv[1])
