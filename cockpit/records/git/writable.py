"""Whether a record could be written, committed and kept, asked as this user before it matters.

Nothing is changed. What another account has left (a file of its own, a lock, a repository that
is not shared) is one line with its remedy.
"""

from __future__ import annotations

import os
import pwd
import stat
import time
from dataclasses import replace
from pathlib import Path

from cockpit.records.git import documents
from cockpit.records.git.repository import GitError, Limits, Repository, find_repository
from cockpit.records.git.saver import obstacle
from cockpit.records.git.troubles import NO_HISTORY, of_command, of_discovery
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.text.safe import clean

_NOT_SHARED = ("umask", "false", "no", "off", "0")
LOCKED_FOR = 5.0
"""Seconds for which another git may hold a lock without its being a hindrance."""


async def trouble_with(path: Path, limits: Limits | None = None) -> str | None:
    """Return why a record could not be written into ``path`` by this user now; else ``None``."""
    asked = limits or Limits()
    try:
        real = await offload(documents.real_path, path, deadline=asked.local)
        said = await offload(_of_file, real, deadline=asked.local)
        if said is not None:
            return said
        found = await find_repository(real, asked)
        if isinstance(found, Completed):
            said = of_discovery(found, real)
            return None if said.endswith(NO_HISTORY) else said
        branch = await found.branch()
        shared = await found.setting("core.sharedRepository")
        said = await offload(_of_repository, found, branch, shared, deadline=asked.local)
        return said or await obstacle(found, str(real.relative_to(found.top.resolve())))
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
