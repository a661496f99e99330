"""Writes a run's records: the logbook in git, the issue on GitHub (SPEC L, S-11).

Tells the others under a run's output root, where every account on it can read (SPEC A).

The same lines as in the logbook (``cockpit.text.logbook_lines``), for runs that have none and for
cockpits whose clone is behind. Appended under a lock; a line that is there is not added again.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cockpit.hosts.own_folder import follow, make_folder
from cockpit.model.base import Frozen
from cockpit.model.clock import SystemClock
from cockpit.model.lineage import local_root
from cockpit.model.records import EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import SharedFact
from cockpit.records.git.committing import Edit
from cockpit.records.git.repository import (
    NO_HISTORY,
    GitError,
    Limits,
    Repository,
    locate,
    of_command,
)
from cockpit.records.git.saver import Push, Saver, obstacle
from cockpit.records.issue.service import IssueService
from cockpit.runtime.offload import offload
from cockpit.sources.told import BELOW
from cockpit.text.logbook_lines import message_line
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

F = TypeVar("F", bound=Frozen)

NO_LOGBOOK = Recorded(stage=SaveStage.NOTHING)
"""The answer for a run without a logbook: nothing to write, nothing in the way."""


class RecordWriter:
    """Writes a run's records. Each is written and committed at once; its push goes on behind."""

    def __init__(self, saver: Saver, issues: IssueService) -> None:
        self._saver = saver
        self._issues = issues

    async def hindrance(self, run: RunSpec) -> str | None:
        """Return why nothing could be written into the run's logbook now; changes nothing."""
        return (
            None if run.records.logbook is None else await trouble_with(Path(run.records.logbook))
        )

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        """Append an entry to the event log, commit it as ``commit``, push."""
        return await self.event_if(run, entry, commit, lambda data: True)

    async def event_if(
        self, run: RunSpec, entry: EventEntry, commit: str, wanted: Callable[[bytes], bool]
    ) -> Recorded:
        """Append an entry if it is ``wanted``, asked under the logbook's lock of what stands there.

        It refuses by ``False``, or by a ``ValueError`` that says why. Blocking.
        """
        from cockpit.records.logbook.writing import with_event

        safe = scrubbed(entry)

        def edit(data: bytes) -> bytes:
            return with_event(_logbook_or_new(run, data), safe) if wanted(data) else data

        return await self._save(run, edit, commit)

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        """Append a launched instance, commit, push."""
        from cockpit.records.logbook.writing import with_instance

        safe = scrubbed(entry)
        return await self._save(
            run, lambda data: with_instance(_logbook_or_new(run, data), safe), commit
        )

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        """Add fields to the Run Contract, commit, push; creates a logbook that is not there."""
        from cockpit.records.logbook.writing import with_contract

        safe, at = _masked(values), SystemClock().now()

        def edit(data: bytes) -> bytes:
            return with_contract(data, safe, at) if data.strip() else _new(run, safe)

        return await self._save(run, edit, commit)

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        """Comment on the run's issue; one ``event`` is never posted twice."""
        return await self._issues.comment(run, event, scrub(body))

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue; ``url`` is where it is."""
        return await self._issues.create(run, scrub(body))

    async def _save(self, run: RunSpec, edit: Edit, commit: str) -> Recorded:
        if run.records.logbook is None:
            return NO_LOGBOOK
        return await self._saver.save(Path(run.records.logbook), edit, commit, behind=True)

    async def document(self, path: Path, edit: Edit, commit: str) -> Recorded:
        """Edit another file of the records, commit it alone, push."""
        return await self._saver.save(path, edit, commit, behind=True)

    async def pushes(self, paths: Iterable[Path], within: float = 0.0) -> tuple[Push, ...]:
        """Return how the pushes of files stand, once they are over or after ``within`` seconds."""
        return tuple([await self._saver.pushes(path, within) for path in paths])

    async def push_left(self, run: RunSpec) -> None:
        """Push, behind, what of a run's logbook is committed and was left; returns at once."""
        if run.records.logbook is not None:
            await self._saver.push_left(Path(run.records.logbook))


def scrubbed(entry: F) -> F:
    """Return an entry with the secrets in its texts masked; its time and keys stay."""
    values = entry.model_dump()
    for key, value in values.items():
        if isinstance(value, dict):
            values[key] = _masked(value)
        elif isinstance(value, str):
            values[key] = scrub(value)
    return type(entry).model_validate(values)


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    """Mask each value, read beside its label: a label may be what makes it a secret."""
    masked = {}
    for label, value in values.items():
        head = f"{label}: "
        line = scrub(head + value)
        safe = line.removeprefix(head) if line.startswith(head) else scrub(value)
        masked[scrub(label)] = safe
    return masked


def _logbook_or_new(run: RunSpec, data: bytes) -> bytes:
    """Return the logbook to write into: a new one where there is none yet."""
    return data if data.strip() else _new(run, {})


def _new(run: RunSpec, values: Mapping[str, str]) -> bytes:
    from cockpit.records.logbook.writing import new_logbook

    return new_logbook(run, values)


_NOT_SHARED = ("umask", "false", "no", "off", "0")
LOCKED_FOR = 5.0
"""Seconds for which another git may hold a lock without its being a hindrance."""


async def trouble_with(path: Path) -> str | None:
    """Return why a record could not be written into ``path`` by this user now; else ``None``."""
    asked = Limits()
    try:
        real, found, own, why = await locate(path, asked)
        said = await offload(_of_file, real, deadline=asked.local)
        if said is not None:
            return said
        if found is None:
            return None if why.endswith(NO_HISTORY) else why
        branch = await found.branch()
        shared = await found.setting("core.sharedRepository")
        said = await offload(_of_repository, found, branch, shared, deadline=asked.local)
        return said or await obstacle(found, own)
    except GitError as error:
        return of_command(error.done, clean(path, 4096))
    except (OSError, ValueError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
        return f"{clean(path, 4096)}: {clean(reason)}"


def _of_file(path: Path) -> str | None:
    above = next(folder for folder in path.parents if folder.is_dir())
    if path.exists() and not os.access(path, os.W_OK):
        return _refused(path, f"chmod g+w {clean(path, 4096)}")
    if not os.access(above, os.W_OK | os.X_OK):
        return _refused(above, f"chmod g+w {clean(above, 4096)}")
    return None


def _of_repository(repository: Repository, branch: str | None, shared: str | None) -> str | None:
    """Return what of a repository this user may not write to, or who holds it locked."""
    repository = replace(repository, common=repository.common.resolve())
    lock = repository.folder / "index.lock"
    if lock.exists() and time.time() - lock.stat().st_mtime > LOCKED_FOR:
        who = _owner(lock)
        return (
            f"{clean(lock, 4096)} was left by {who}: if no git of theirs runs, remove it, "
            "then retry"
        )
    for place in _needed(repository, branch):
        if place.exists() and not os.access(place, os.W_OK | (os.X_OK if place.is_dir() else 0)):
            return _refused(place, _sharing(repository))
    objects = (repository.common / "objects").stat()
    alone = not objects.st_mode & stat.S_ISGID and objects.st_gid != os.getegid()
    if objects.st_uid != os.geteuid() and (alone or (shared or "umask") in _NOT_SHARED):
        who = _owner(repository.common / "objects")
        return f"a commit of this user would lock {who} out: {_sharing(repository)}"
    return None


def _sharing(repository: Repository) -> str:
    """Return what makes a repository a group's, for whoever owns it."""
    top, common = clean(repository.top, 4096), clean(repository.common, 4096)
    return (
        f"git -C {top} config core.sharedRepository group; chmod -R g+rwX {common}; "
        f"find {common} -type d -exec chmod g+s {{}} +"
    )


def _needed(repository: Repository, branch: str | None) -> list[Path]:
    """Return the folders and files that a commit writes into: of objects, refs and logs."""
    objects = repository.common / "objects"
    fan = [each for each in objects.iterdir() if len(each.name) == 2] if objects.is_dir() else []
    ref = [] if branch is None else [(repository.common / branch).parent]
    log = [] if branch is None else [repository.common / "logs" / branch]
    head = [repository.folder / "logs" / "HEAD"]
    return [repository.folder, repository.common, objects, *fan, *ref, *log, *head]


def _refused(place: Path, remedy: str) -> str:
    mode = place.stat().st_mode & 0o7777
    return (
        f"this user may not write to {clean(place, 4096)} (of {_owner(place)}, mode {mode:04o}): "
        f"{remedy}"
    )


def _owner(place: Path) -> str:
    uid = place.stat().st_uid
    try:
        return clean(pwd.getpwuid(uid).pw_name, 100)
    except KeyError:
        return f"uid {uid}"


def tell_under(run: RunSpec, told: Sequence[SharedFact]) -> bool:
    """Append the messages; False where there is no such folder. Blocking, raises ``OSError``."""
    root = local_root(run)
    if root is None or not Path(root).is_dir():
        return False
    place = Path(root) / BELOW
    make_folder(place.parent, parents=False)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(place, flags, 0o644)
    follow(handle, place.parent)
    try:
        with suppress(OSError):  # a file system without locks: lines this short go in whole
            fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        there = os.pread(handle, size, 0)
        lines = [f"- {message_line(each)}\n".encode() for each in told]
        new = b"".join(line for line in lines if line not in there)
        ends = not there or there.endswith(b"\n")
        if new:
            os.write(handle, new if ends else b"\n" + new)
            os.fsync(handle)
    finally:
        os.close(handle)
    return True
