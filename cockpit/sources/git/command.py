"""Git as the sources ask it: read-only commands that never prompt, lock, hang or run hooks."""

from __future__ import annotations

from typing import Final

from cockpit.model.base import Frozen
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.place import SSH, Place
from cockpit.runtime.git import READING, run_git
from cockpit.runtime.shell import CANNOT_RUN, NO_PROGRAM, Completed
from cockpit.sources.git.away import NO_LINK, STATUS, git_away
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

DEADLINE: Final = 5.0
_CAP: Final = 16_000_000
_FIELDS: Final = {"1": 7, "2": 8, "u": 9, "?": 0}
"""Fields before the path, by kind of record: changed, renamed, unmerged, untracked."""


class GitStatus(Frozen):
    """What ``git status`` says; ``files`` are changed or untracked paths.

    ``sha`` is ``None`` before the first commit, ``branch`` when detached, ``ahead`` (commits
    that are not pushed) without an upstream.
    """

    sha: str | None = None
    branch: str | None = None
    ahead: int | None = None
    files: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()


async def git(folder: str | Place, *words: str, stdin: bytes | None = None) -> Completed:
    """Run ``git`` in ``folder``, here or on its ssh host, and return how it ended.

    Within ``DEADLINE`` seconds, and a few more for the way.
    """
    if isinstance(folder, Place):
        if folder.scheme == SSH:
            return await git_away(folder, *words, stdin=stdin)
        folder = str(folder)
    return await run_git(
        folder, *words, deadline=DEADLINE, stdin=stdin, env=READING, cap=_CAP, hooks=False
    )


async def status(folder: str, *paths: str) -> GitStatus | Problem:
    """Return the state of the repository that ``folder`` is in, or why it cannot be told."""
    return told(folder, await git(folder, *STATUS, "--", *paths))


def told(folder: str | Place, done: Completed) -> GitStatus | Problem:
    """Return what ``git status`` said, or why it cannot be told."""
    return read_status(done.text) if done.ok and not done.cut else trouble(folder, done)


def trouble(folder: str | Place, done: Completed) -> Problem:
    """Return one line about a ``git`` that failed."""
    where = clean(str(folder), 4096)
    said = scrub(clean(done.err))
    if done.timed_out:
        message = f"{where}: git did not answer within {DEADLINE:g} s"
        return Problem(kind=ErrorKind.TIMEOUT, message=message)
    away = isinstance(folder, Place) and not folder.here
    found = _not_run_there(where, said, done.rc) if away else _not_run(where, said, done.rc)
    if found is not None:
        return found
    if "dubious ownership" in said:
        remedy = f"git config --global --add safe.directory {where}"
        message = f"{where} belongs to another user; if you trust it: {remedy}"
        return Problem(kind=ErrorKind.PERMISSION, message=message)
    if "not a git repository" in said:
        return Problem(kind=ErrorKind.NOT_FOUND, message=f"{where} is not a git repository")
    if done.cut:
        message = f"{where}: git's output is larger than {_CAP:,} bytes"
        return Problem(kind=ErrorKind.BAD_ANSWER, message=message)
    message = f"{where}: git failed with exit code {done.rc}: {said or 'no message'}"
    return Problem(kind=ErrorKind.BAD_ANSWER, message=clean(message))


def _not_run(where: str, said: str, rc: int) -> Problem | None:
    """Return why git did not run on this machine, if it did not."""
    if rc == NO_PROGRAM:
        return Problem(kind=ErrorKind.NOT_FOUND, message=said or f"{where}: git is not installed")
    if rc == CANNOT_RUN:
        return Problem(kind=ErrorKind.PERMISSION, message=said or f"{where}: git cannot be run")
    return None


def _not_run_there(where: str, said: str, rc: int) -> Problem | None:
    """Return why git did not run on another machine, or not in that folder."""
    if rc == NO_LINK:
        return Problem(kind=ErrorKind.REFUSED, message=said or f"{where}: its host did not answer")
    if rc in (NO_PROGRAM, CANNOT_RUN):
        message = f"{where}: git is not installed there"
        return Problem(kind=ErrorKind.NOT_FOUND, message=message)
    if "cannot change to" in said:
        denied = "ermission denied" in said
        kind = ErrorKind.PERMISSION if denied else ErrorKind.NOT_FOUND
        message = f"{where}: {'no permission to enter it' if denied else 'there is no such folder'}"
        return Problem(kind=kind, message=message)
    return None


def read_status(text: str) -> GitStatus:
    """Return what ``git status --porcelain=v2 --branch -z`` printed, names made safe."""
    header: dict[str, str] = {}
    files, untracked = [], []
    parts = iter(text.split("\0"))
    for part in parts:
        kind, _, rest = part.partition(" ")
        if kind == "2":  # a renamed file's former name follows
            next(parts, None)
        if kind == "#":
            key, _, value = rest.partition(" ")
            header[key] = value
        elif kind in _FIELDS:
            files.append(clean(rest.split(" ", _FIELDS[kind])[-1], 1000))
            untracked += files[-1:] if kind == "?" else []
    sha, branch = header.get("branch.oid", ""), header.get("branch.head", "")
    ahead = header.get("branch.ab", "").partition(" ")[0].removeprefix("+")
    return GitStatus(
        sha=None if sha in ("", "(initial)") else clean(sha),
        branch=None if branch in ("", "(detached)") else clean(branch),
        ahead=int(ahead) if ahead.isascii() and ahead.isdigit() else None,
        files=tuple(files),
        untracked=tuple(untracked),
    )
