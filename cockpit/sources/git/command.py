"""Read-only git commands, here and on ssh hosts, that never prompt, lock, hang or run hooks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from cockpit.hosts import agent
from cockpit.hosts.acting import FOLDER
from cockpit.hosts.here import call
from cockpit.model.base import Frozen
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.place import SSH, Place
from cockpit.runtime.git import MOST, READING, git_there, run_git
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import CANNOT_RUN, NO_PROGRAM, Completed
from cockpit.runtime.ssh import TIMED_OUT, RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LIMIT: Final = 5
"""Seconds that one git command may take on its host."""
WHOLE: Final = 16.0
"""Seconds for all that is asked of a repository of a host."""
MOST_BYTES: Final = 16_000_000
"""Bytes of a command's answer that are kept."""
NO_LINK: Final = 255
"""The status of a command whose host was not reached, as ssh has it."""
DIFF: Final = ("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
STATUS: Final = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
PATCH_ID: Final = ("patch-id", "--stable")
TAGS: Final = ("for-each-ref", "--sort=creatordate", "--format=%(refname:strip=2)")
_PATCH: Final = re.compile(rb"^([0-9a-f]{40,64}) ", re.M)


class Repo(NamedTuple):
    """What a host's git says of one repository: status, seals' tags, the changes' identity."""

    status: Completed
    tags: Completed
    patch_id: str | None = None


async def run_there(
    place: Place,
    rows: Sequence[Sequence[Sequence[str]]],
    limit: float,
    *,
    stdin: bytes | None = None,
    within: float,
) -> list[Completed]:
    """Run rows of commands in a folder of an ssh host and return how each row ended.

    A row's next command reads what the one before has written. Each may take ``limit`` seconds.
    Raises ``RemoteError`` where no answer comes ``within`` seconds.
    """
    given = (stdin or b"").decode("utf-8", "surrogateescape")
    answers = await call(
        place.host, "git", "runs", deadline=within, rows=rows, folder=place.path,
        seconds=limit + 2.0, most=MOST_BYTES, stdin=given,
    )  # fmt: skip
    return [_completed(*each) for each in answers]


def _completed(status: int, out: str, err: str, cut: bool) -> Completed:
    """Return how a command has ended, which may be by its deadline or ``timeout``'s."""
    late = status in (agent.LATE, TIMED_OUT)
    rc = TIMED_OUT if late else status if status >= 0 else 128 - status
    written, said = (text.encode("utf-8", "surrogateescape") for text in (out, err))
    return Completed(rc, written, said.rstrip(b"\n"), timed_out=late, cut=cut)


async def git_away(place: Place, *words: str, stdin: bytes | None = None) -> Completed:
    """Run ``git`` in a repository of an ssh host; ``rc`` is ``NO_LINK`` without an answer."""
    row = [git_there(FOLDER, words, LIMIT, READING, hooks=False)]
    try:
        (done,) = await run_there(place, [row], LIMIT, stdin=stdin, within=LIMIT + 3.0)
    except RemoteError as error:
        return Completed(NO_LINK, b"", str(error).encode())
    return done


async def look(place: Place, seals: str) -> Repo:
    """Return what git says of a repository of a host, asked in one trip.

    ``seals`` is the pattern of the tags. Raises ``RemoteError`` when the host did not answer.
    """
    asked: list[list[tuple[str, ...]]] = [[STATUS], [(*TAGS, seals)], [DIFF, PATCH_ID]]
    rows = [[git_there(FOLDER, each, LIMIT, READING, hooks=False) for each in row] for row in asked]
    found, tags, patch = await run_there(place, rows, LIMIT, within=WHOLE)
    identity = _PATCH.search(patch.out) if patch.ok else None
    return Repo(found, tags, None if identity is None else identity[1].decode())


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


_NAMES: Final = ("ls-files", "-z", "--full-name")
_OTHERS: Final = ("--others", "--directory", "--exclude-standard")
_SUBMODULE: Final = b"160000 "
_IGNORES: Final = ".gitignore"


async def looked_at(repo: Place, untracked: Sequence[str]) -> tuple[str, ...] | None:
    """Return names from the checkout's top; ``None`` where they do not tell all.

    These are the files that git tracks, and the folders that hold none and are not ignored: what
    comes there changes them. One that it calls ``untracked`` already is not entered.
    """
    listed = await git(repo, *_NAMES, "--stage", "--", ":/")
    known = _split(listed.out)
    if not listed.ok or listed.cut or len(known) > MOST:
        return None
    if any(each.startswith(_SUBMODULE) for each in known):
        return None
    others = await git(repo, *_NAMES, *_OTHERS, "--", ":/")
    top = await git(repo, "rev-parse", "--show-toplevel")
    if not others.ok or others.cut or not top.ok:
        return None
    where, names = os.fsdecode(top.out).removesuffix("\n"), map(os.fsdecode, _split(others.out))
    try:
        beside = await offload(_beside, where, [*names], frozenset(untracked), deadline=DEADLINE)
    except TimeoutError:
        return None
    return (*(os.fsdecode(each.partition(b"\t")[2]) for each in known), *beside)


def _split(out: bytes) -> list[bytes]:
    return out.split(b"\0")[:-1]


def _beside(top: str, others: Sequence[str], untracked: frozenset[str]) -> list[str]:
    """Return the folders, and the files that say what is ignored; no more than may be."""
    found = (
        _below(top, name) if name.endswith("/") and clean(name, 1000) not in untracked else (name,)
        for name in others
    )
    return [*islice(filter(_tells, chain.from_iterable(found)), MOST + 1)]


def _tells(name: str) -> bool:
    return name.endswith("/") or name.rpartition("/")[2] == _IGNORES


def _below(top: str, name: str) -> Iterator[str]:
    """Yield a folder and whatever lies in it at any depth; what cannot be read is empty."""
    waiting = [name]
    while waiting:
        folder = waiting.pop()
        yield folder
        try:
            entries = [*os.scandir(f"{top}/{folder}")]
        except OSError:
            continue
        folders = {each.name for each in entries if each.is_dir(follow_symlinks=False)}
        waiting += (f"{folder}{each}/" for each in folders)
        yield from (f"{folder}{each.name}" for each in entries if each.name not in folders)
