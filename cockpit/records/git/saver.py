"""Saves an entry for good: written, committed alone, pushed now or later (SPEC L, S-10)."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cockpit.hosts.own_folder import put_whole
from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.wording import moment
from cockpit.records.git import committing, documents, pushing
from cockpit.records.git.documents import BusyError, locked
from cockpit.records.git.repository import (
    NO_HISTORY,
    GitError,
    HookRefusedError,
    Limits,
    Repository,
    forget,
    locate,
    of_command,
    of_file,
    of_hook,
)
from cockpit.runtime.git import Unchanged, stamps_beside
from cockpit.runtime.offload import offload
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import start_detached
from cockpit.text.logbook_scan import conflict_line
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

NOTE: Final = "cockpit-push.json"
OVER_AFTER: Final = 240.0
"""Seconds after which whoever said that it pushes has died at it."""
MOST: Final = 65536
"""Bytes of a note that are read: it is ours, and small."""
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
            # What stands in the way of that leaves it to the next one.
            with suppress(OSError, ValueError):
                start_detached(own_python(__name__, str(path)), env={})
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
        _, found, own, why = await locate(path, limits)
        if why and not why.endswith(NO_HISTORY):
            raise ValueError(why)
        branch = None if found is None else await found.branch()
        if found is None or branch is None:
            return Push(stage=PushStage.NONE)
        to, pushed, held = await pushing.standing_of(found, branch, own)
        if held is not None:
            held = held.removeprefix(pushing.NOT_PUSHED)
            return Push(
                stage=PushStage.NONE if held == pushing.NO_REMOTE else PushStage.HELD, trouble=held
            )
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


def _read(place: Path) -> Push | None:
    try:
        with (place / NOTE).open("rb") as file:
            return Push.model_validate_json(file.read(MOST))
    except (OSError, ValidationError, ValueError):
        return None


def _write(place: Path, push: Push) -> None:
    with suppress(OSError):
        put_whole(place / NOTE, json.dumps(push.model_dump()))


StageListener = Callable[[Recorded], None]
_AT_REST: Final = (PushStage.NONE, PushStage.PUSHED, PushStage.HELD)
"""Where nothing waits until something in the repository changes."""
_DETACHED: Final = "committed, but HEAD has been detached meanwhile: check out a branch, then retry"
_UNDER_WAY: Final = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


class NotSavedError(Exception):
    """Why the file could not be written; one line."""


@dataclass
class _Job:
    """One file being saved: what is known of it, and how far it has come."""

    path: Path
    message: str
    on_stage: StageListener
    again: bool = False
    behind: bool = False
    edits: list[committing.Edit] = field(default_factory=list)
    commit: str | None = None
    stage: SaveStage = SaveStage.NOTHING
    pending: bool = False
    note: str | None = None

    def at(self, stage: SaveStage, busy: str | None = None) -> None:
        """Report how far it is, and what is done now."""
        self.stage = stage
        self.on_stage(Recorded(stage=stage, commit=self.commit, busy=busy))

    def end(self, trouble: str | None) -> Recorded:
        """Return the outcome, and report it to ``on_stage``."""
        safe = None if trouble is None else scrub(clean(trouble, 1000))
        as_far = safe is not None and (safe == pushing.NO_REMOTE or safe.endswith(NO_HISTORY))
        recorded = Recorded(
            stage=self.stage,
            commit=self.commit,
            trouble=safe,
            as_far=as_far,
            pending=self.pending,
            note=self.note,
        )
        self.on_stage(recorded)
        return recorded


class Saver:
    """Saves and pushes files of git repositories; safe beside other cockpits and other tasks.

    Saves to one file are taken in turn; whoever waits for a push finds its commit pushed by
    the one before. No method raises for what happens to the files, to git or to the network.
    """

    def __init__(self, clock: Clock, limits: Limits | None = None) -> None:
        self._clock = clock
        self._limits = limits or Limits()
        self._waiting: dict[Path, list[committing.Edit]] = {}
        """Edits that are written and not committed yet, by real path."""
        self._behind = PushBehind(self.push, self._limits)
        self._pushes: Unchanged[Push] = Unchanged(clock)

    async def save(
        self,
        path: Path,
        edit: committing.Edit,
        message: str,
        on_stage: StageListener = lambda recorded: None,
        *,
        behind: bool = False,
    ) -> Recorded:
        """Edit ``path`` (bytes to bytes, ``b""`` for a new file), commit it alone, push.

        ``edit`` must change nothing where its change is there already: it may be called on
        several versions of the file. It refuses by raising ``ValueError``. ``message`` is one
        commit message. ``on_stage`` hears each stage; the last is also returned. With ``behind``
        it is done once it is committed: the push goes on by itself (``pending``).
        """
        once = committing.DoneOnce(edit)
        try:
            return await self._whole_way(_Job(path, scrub(message), on_stage, behind=behind), once)
        finally:
            once.forget()

    async def push(self, path: Path) -> Recorded:
        """Push what is committed of a file; a remote that hung a while ago is not asked."""
        job = _Job(path, "", lambda recorded: None)
        return await self._outcome_of(job, self._only_push(job))

    async def push_left(self, path: Path) -> None:
        """Let a push go on behind if something committed waits for one; never raises."""
        look = partial(stamps_beside, str(path))
        ask = partial(push_of, path, self._limits)
        push = await self._pushes.answer(path, look, ask, lambda found: found.stage in _AT_REST)
        if push.stage not in (PushStage.QUEUED, PushStage.FAILED):
            return
        at = await locate(path, self._limits)
        if at.repository is not None:
            self._behind.want(at.repository, at.path)

    async def pushes(self, path: Path, within: float = 0.0) -> Push:
        """Return how the push of a file stands, after it is over or ``within`` seconds."""
        return await self._behind.wait(path, within)

    async def retry(self, path: Path) -> Recorded:
        """Go on where a save has stopped: commit what is saved, push what is committed.

        What this process has saved is committed; after a restart it is the file as it stands.
        """
        job = _Job(path, f"{path.stem}: log", lambda recorded: None, again=True)
        return await self._whole_way(job, None)

    async def _whole_way(self, job: _Job, edit: committing.Edit | None) -> Recorded:
        return await self._outcome_of(job, self._stages(job, edit))

    async def _outcome_of(self, job: _Job, work: Coroutine[Any, Any, str | None]) -> Recorded:
        try:
            return job.end(await work)
        except NotSavedError as error:
            return job.end(str(error))
        except BusyError as error:
            return job.end(f"{clean(job.path.name)}: {error}; retry")
        except HookRefusedError as error:
            return job.end(of_hook(error))
        except GitError as error:
            return job.end(of_command(error.done, "push" if job.commit else "commit"))
        except (OSError, ValueError) as error:
            return job.end(of_file(error, job.path, job.stage is not SaveStage.NOTHING))

    async def _stages(self, job: _Job, edit: committing.Edit | None) -> str | None:
        """Do what is left to do; return what stands in the way of the rest."""
        job.path, found, own, why = await locate(job.path, self._limits)
        if found is None:
            folder = next(folder for folder in job.path.parents if folder.is_dir())
            async with locked(folder, self._clock, self._limits.turn):
                await self._write(job, edit, None)
            return why
        async with locked(found.common / pushing.SAVE_LOCK, self._clock, self._limits.turn):
            await self._write(job, edit, found, own)
            trouble = await obstacle(found, own)
            if trouble is not None:
                return trouble
            await self._commit(job, found, own)
        if job.behind:
            return await self._push_behind(job, found, own)
        if job.again:
            forget(found.common)
        return await self._push(job, found, own)

    async def _only_push(self, job: _Job) -> str | None:
        job.path, found, own, why = await locate(job.path, self._limits)
        if found is None:
            return why
        job.stage = SaveStage.COMMITTED
        return await self._push(job, found, own)

    async def _push_behind(self, job: _Job, repository: Repository, own: str) -> str | None:
        branch = await repository.branch()
        if branch is None:
            return _DETACHED
        standing = await pushing.standing_of(repository, branch, own)
        if standing.pushed:
            job.stage = SaveStage.PUSHED
        elif standing.held is None:
            job.pending = True
            self._behind.want(repository, job.path)
        return standing.held

    async def _write(
        self, job: _Job, edit: committing.Edit | None, repository: Repository | None, own: str = ""
    ) -> None:
        waiting = self._waiting.get(job.path, [])
        if edit is not None:
            job.at(SaveStage.NOTHING, "saving")
            kept = (
                b"" if repository is None else await committing.kept_text(repository, job.path, own)
            )
            await offload(
                committing.edited, job.path, edit, repository, kept, deadline=self._limits.local
            )
            waiting = self._waiting.setdefault(job.path, [])
            waiting.append(edit)
        elif await offload(documents.read, job.path, deadline=self._limits.local) is None:
            raise NotSavedError(f"{clean(job.path, 4096)} does not exist: nothing to commit")
        job.edits = list(waiting)
        job.at(SaveStage.SAVED, "committing" if repository else None)

    async def _commit(self, job: _Job, repository: Repository, own: str) -> None:
        async def make(head: str | None) -> committing.FileChange | None:
            return await committing.change_of(repository, own, job.path, head, job.edits)

        def holds(data: bytes) -> bool:
            try:
                return all(edit(data) == data for edit in job.edits)
            except ValueError:
                return False

        commit = await committing.commit_file(repository, make, job.message, holds)
        self._waiting.pop(job.path, None)
        job.note = await _noted(repository, job.path)
        head = commit or await repository.ask("rev-parse", "HEAD")
        job.commit = commit or await pushing.commit_of(repository, head, own)
        job.at(SaveStage.COMMITTED, "pushing")

    async def _push(self, job: _Job, repository: Repository, own: str) -> str | None:
        branch = await repository.branch()
        if branch is None:
            return _DETACHED
        to, pushed, held = await pushing.standing_of(repository, branch, own)
        if to is None or held is not None:
            return held
        if pushed:
            job.commit = await pushing.commit_of(repository, to.tracking, own)
        else:
            done = await pushing.push_branch(repository, branch, to, own, self._clock)
            if not done.done:
                return done.trouble
            job.commit = done.commit or job.commit
        job.stage = SaveStage.PUSHED
        return None


async def _noted(repository: Repository, path: Path) -> str | None:
    """Return what a person should know of a file that was committed all the same."""
    data = await offload(documents.read, path, deadline=repository.limits.local)
    line = None if data is None else conflict_line(data)
    marked = [] if line is None else [f"{clean(path.name)} has conflict markers at line {line}"]
    above = await repository.run("rev-parse", "--show-superproject-working-tree")
    if above.ok and above.text.strip():
        where = clean(above.text.strip(), 1000)
        marked.append(f"it lies in a submodule: {where} has to commit that it moved")
    return "; ".join(marked) or None


async def obstacle(repository: Repository, own: str) -> str | None:
    """Return why nothing may be committed now and what helps, or ``None``."""
    where = clean(repository.top, 4096)
    for name, what in _UNDER_WAY.items():
        place = await repository.git_path(name)
        if await offload(place.exists, deadline=repository.limits.local):
            return f"saved, but {what} is under way in {where}: finish it, then retry"
    if await repository.branch() is None:
        return "saved, but HEAD is detached: check out a branch, then retry"
    if await repository.ask("ls-files", "-u"):
        return f"saved, but {where} has unmerged files: resolve them, then retry"
    ignored = (await repository.run("check-ignore", "-q", "--", own)).ok
    if not ignored or await repository.staged(own) is not None:
        return None
    done = await repository.run("check-ignore", "-v", "--", own)
    rule = clean(done.text.partition("\t")[0])
    return f"saved, but git ignores {clean(own, 1000)} ({rule}): change the rule, then retry"


def main(path: str) -> None:
    """Push the branch of a file, in a process of its own."""
    from cockpit.model.clock import SystemClock

    async def work() -> None:
        limits = Limits()
        at = await locate(Path(path), limits)
        if at.repository is not None:
            await pushed_now(at.repository.common, at.path, Saver(SystemClock(), limits).push)

    asyncio.run(work())


if __name__ == "__main__":
    main(sys.argv[1])
