"""Merges the records of several cockpits, and replays our commits on top of the remote's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from cockpit.model.base import Frozen
from cockpit.records.git import documents
from cockpit.records.git.committing import make_commit, noted, patiently, put_in_index, tree_with
from cockpit.records.git.repository import Blob, GitError, Repository
from cockpit.runtime.offload import offload
from cockpit.text.safe import clean

Lines = Sequence[bytes]


class _Hunk(NamedTuple):
    """``base[start:end]`` became ``lines``."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Return ``base`` with both sides' changes; where they meet, theirs stand before ours.

    What both added alike is added once. Where both changed the same lines, both stay. What one
    side took out stays out where the other only added lines beside it.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    lines = [text.split(b"\n") for text in (base, ours, theirs)]
    return b"\n".join(_merged(*lines))


def adds_nothing(base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Return whether everything that was changed from ``base`` to ``ours`` is in ``theirs``."""
    return merge(base, ours, theirs) == theirs


def _merged(base: Lines, ours: Lines, theirs: Lines) -> list[bytes]:
    mine, yours = _insertion(base, ours), _insertion(base, theirs)
    if mine is None or yours is None:
        return list(_join(base, _hunks(base, ours), _hunks(base, theirs)))
    block, other = _block(base, ours, mine), _block(base, theirs, yours)
    if _within(block.lines, other.lines):
        return list(theirs)
    if _within(other.lines, block.lines):
        return list(ours)
    first, second = (block, other) if block.start < other.start else (other, block)
    between = base[first.start : second.start]
    rest = base[second.start :]
    return [*base[: first.start], *first.lines, *between, *second.lines, *rest]


def _insertion(base: Lines, other: Lines) -> tuple[int, int] | None:
    """Return the first and last place in ``base`` at which one block was put in, if so."""
    prefix = _common(base, other)
    suffix = _common(base[::-1], other[::-1])
    if prefix + suffix < len(base) or len(other) <= len(base):
        return None
    return len(base) - suffix, prefix


def _common(one: Lines, two: Lines) -> int:
    pairs = enumerate(zip(one, two, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(two)))


def _block(base: Lines, other: Lines, places: tuple[int, int]) -> _Hunk:
    """Return the inserted block, of its equal readings the one that begins with a heading.

    A block whose last line is the one before it can as well be read one line higher; put there,
    another entry would fall between its lines.
    """
    longer = len(other) - len(base)
    readings = [
        _Hunk(place, place, tuple(other[place : place + longer]))
        for place in range(places[1], places[0] - 1, -1)
    ]
    headed = (each for each in readings if each.lines[0].lstrip().startswith(b"#"))
    return next(headed, readings[0])


def _within(block: Lines, other: Lines) -> bool:
    """Return whether the block, blank lines around it aside, stands in ``other`` as a whole."""
    filled = [n for n, line in enumerate(block) if line.strip()]
    wanted = list(block[filled[0] : filled[-1] + 1]) if filled else []
    size = len(wanted)
    return any(list(other[n : n + size]) == wanted for n in range(len(other) - size + 1))


def _hunks(base: Lines, other: Lines) -> list[_Hunk]:
    prefix = _common(base, other)
    room = min(len(base), len(other)) - prefix
    suffix = min(room, _common(base[::-1], other[::-1]))
    middle = base[prefix : len(base) - suffix], other[prefix : len(other) - suffix]
    matcher = SequenceMatcher(None, *middle, autojunk=False)
    return [
        _Hunk(prefix + a, prefix + b, tuple(middle[1][c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _join(base: Lines, mine: list[_Hunk], yours: list[_Hunk]) -> Iterator[bytes]:
    """Yield the lines with all hunks done; those that meet are joined region by region."""
    place = 0
    mine, yours = list(mine), list(yours)
    while mine or yours:
        start, end, ours, theirs = _region(mine, yours)
        yield from base[place:start]
        yield from _both(base, start, end, ours, theirs)
        place = end
    yield from base[place:]


def _region(mine: list[_Hunk], yours: list[_Hunk]) -> tuple[int, int, list[_Hunk], list[_Hunk]]:
    """Take the next hunks that touch one another off both lists."""
    start = min(hunks[0].start for hunks in (mine, yours) if hunks)
    end = start
    taken: tuple[list[_Hunk], list[_Hunk]] = ([], [])
    moved = True
    while moved:
        moved = False
        for hunks, kept in zip((mine, yours), taken, strict=True):
            while hunks and hunks[0].start <= end:
                kept.append(hunks.pop(0))
                end = max(end, kept[-1].end)
                moved = True
    return start, end, *taken


def _both(
    base: Lines, start: int, end: int, mine: list[_Hunk], yours: list[_Hunk]
) -> Iterator[bytes]:
    ours, theirs = (list(_applied(base, start, end, hunks)) for hunks in (mine, yours))
    adds = _only_adds(mine), _only_adds(yours)
    if adds == (True, False):
        yield from _beside(mine, yours, theirs)
    elif adds == (False, True):
        yield from _beside(yours, mine, ours)
    elif _within(ours, theirs):
        yield from theirs
    elif _within(theirs, ours):
        yield from ours
    else:
        yield from theirs
        yield from ours


def _only_adds(hunks: list[_Hunk]) -> bool:
    return all(hunk.start == hunk.end for hunk in hunks)


def _beside(added: list[_Hunk], changes: list[_Hunk], changed: Lines) -> Iterator[bytes]:
    """Yield what one side made of the lines, and what the other added above and below them."""
    new = [hunk for hunk in added if not _within(hunk.lines, changed)]
    above = [hunk for hunk in new if hunk.start <= changes[0].start]
    for hunk in above:
        yield from hunk.lines
    yield from changed
    for hunk in new[len(above) :]:
        yield from hunk.lines


def _applied(base: Lines, start: int, end: int, hunks: list[_Hunk]) -> Iterator[bytes]:
    for hunk in hunks:
        yield from base[start : hunk.start]
        yield from hunk.lines
        start = hunk.end
    yield from base[start:end]


_IDENTITY = "%an%x00%ae%x00%ad"
_DATE = "--date=raw"
_TRIES = 5


class CannotReplayError(Exception):
    """The branch has to be brought up to date by a person; the message is one line."""


class Replayed(NamedTuple):
    """Our commits on top of the upstream: ``tip`` is the last of them.

    ``follows`` tells that the local branch can simply go there: all that others changed are
    logbooks. ``base`` is where the two parted.
    """

    tip: str
    base: str
    follows: bool


class _OwnCommit(Frozen):
    """One commit of ours and the files that it changed."""

    commit: str
    parent: str
    paths: tuple[str, ...]


def is_logbook(path: str, own: str) -> bool:
    """Return whether a changed file is ``own`` or another logbook beside it."""
    folder, mine = PurePosixPath(path).parent, PurePosixPath(own).parent
    beside = folder == mine and mine != PurePosixPath(".")
    return path == own or (beside and path.endswith(".md"))


async def is_ancestor(repository: Repository, old: str, new: str) -> bool:
    """Return whether ``new`` holds everything that ``old`` does; raises ``GitError``."""
    return await _merge_base(repository, "--is-ancestor", old, new) is not None


async def fork_point(repository: Repository, tracking: str, head: str) -> str | None:
    """Return the newest commit of ``head`` that ``tracking`` (a remote's ref) has ever had."""
    return await _merge_base(repository, "--fork-point", tracking, head)


async def _merge_base(repository: Repository, *words: str) -> str | None:
    """Return what ``git merge-base`` finds, ``None`` for nothing; raises ``GitError``."""
    done = await repository.run("merge-base", *words)
    if not done.ok and (done.timed_out or done.rc != 1):
        raise GitError(done)
    return done.text.strip() if done.ok else None


async def replay(repository: Repository, head: str, onto: str, own: str) -> Replayed:
    """Return our commits between ``onto`` and ``head`` made again on top of ``onto``.

    Raises ``CannotReplayError`` and ``GitError``.
    """
    base = await _merge_base(repository, onto, head)
    if base is None:
        raise CannotReplayError("the branch and its upstream share no history: pull by hand")
    ours = await _own_commits(repository, base, head, own)
    tip = onto
    for commit in ours:
        tip = await _one(repository, commit, tip)
    theirs = await changed(repository, base, onto)
    gone = await changed(repository, base, onto, "--diff-filter=DT")
    follows = not gone and all(is_logbook(path, own) for path in theirs)
    return Replayed(tip, base, follows)


async def changed(repository: Repository, old: str, new: str, *how: str) -> tuple[str, ...]:
    """Return the files that differ between two commits."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", *how, old, new)
    return tuple(name for name in (await repository.ask(*words)).split("\0") if name)


async def _own_commits(repository: Repository, base: str, head: str, own: str) -> list[_OwnCommit]:
    listing = await repository.ask("rev-list", "--reverse", "--parents", f"{base}..{head}")
    ours = []
    for line in listing.splitlines():
        commit, *parents = line.split()
        paths = await changed(repository, parents[0], commit) if len(parents) == 1 else ()
        if len(parents) != 1 or not all(is_logbook(path, own) for path in paths):
            raise CannotReplayError(
                "the upstream has moved, and this branch has commits of other files that are "
                "not pushed: pull (merge or rebase) by hand, then retry"
            )
        ours.append(_OwnCommit(commit=commit, parent=parents[0], paths=paths))
    return ours


async def _one(repository: Repository, ours: _OwnCommit, onto: str) -> str:
    """Return one commit of ours on top of ``onto``, or that itself if nothing is missing."""
    joined = {path: await _joined(repository, ours, path, onto) for path in ours.paths}
    wanted = {path: blob for path, blob in joined.items() if blob is not None}
    if not wanted:
        return onto
    tree = await tree_with(repository, onto, wanted)
    answer = await repository.ask("show", "-s", _DATE, f"--format={_IDENTITY}%x00%B", ours.commit)
    name, mail, date, message = answer.split("\0", 3)
    env = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": date}
    return await make_commit(repository, tree, (onto,), message, env)


async def _joined(repository: Repository, ours: _OwnCommit, path: str, onto: str) -> Blob | None:
    """Return what ``path`` becomes on top of ``onto``; ``None`` if it stays as it is there."""
    mine = await repository.blob(ours.commit, path)
    theirs = await repository.blob(onto, path)
    base = await repository.blob(ours.parent, path)
    if mine is None:  # a logbook is never deleted in our name
        return None
    if theirs is None:
        return mine
    made = await _merged_blob(repository, path, base, mine, theirs)
    return None if made == theirs.oid else Blob(theirs.mode, made)


async def _merged_blob(repository: Repository, path: str, *versions: Blob | None) -> str:
    """Return what comes of three versions of a file: base, ours and theirs.

    They are merged as the text that a person reads, also where a filter (Git LFS, an encryption)
    or an encoding stands between that and what git keeps.
    """
    asked = ("check-attr", "-z", "filter", "working-tree-encoding", "--", path)
    states = (await repository.ask(*asked)).split("\0")[2::3]
    way = path if {*states} - {"unspecified", "unset"} else None
    parts = [await repository.content(each, way) for each in versions]
    data = await offload(_merged_text, path, *parts, deadline=repository.limits.local)
    return await repository.keep(data, way)


def _merged_text(path: str, *versions: bytes) -> bytes:
    """Return what comes of base, ours and theirs; raises ``CannotReplayError`` if one is no text.

    It is blocking.
    """
    reason = next(filter(None, map(documents.not_text, versions)), None)
    if reason is not None:
        raise CannotReplayError(f"{clean(path, 1000)} {reason}; or merge by hand, then retry")
    return merge(*versions)


class _File(NamedTuple):
    """One logbook that is to become another blob."""

    path: str
    old: Blob | None
    new: Blob


async def make_level(
    repository: Repository, branch: str, head: str, made: Replayed, own: str
) -> str:
    """Bring the branch, the index and the work tree's logbooks level; return the branch's commit.

    Files first, then the index, then the branch: a crash in between leaves additions that are
    not committed, never a removal of what others wrote. Raises ``CannotReplayError``,
    ``GitError`` and ``OSError``.
    """
    goal = made.tip if made.follows else await _with_logbooks(repository, head, made, own)
    for path in await changed(repository, head, goal):
        new = await repository.blob(goal, path)
        if new is not None:
            file = _File(path, await repository.blob(head, path), new)
            await _write(repository, file)
            await _stage(repository, file)
    if goal != head:
        await noted(repository, goal)
        words = ("update-ref", "-m", "cockpit: follow the upstream", branch, goal, head)
        await patiently(repository, lambda: repository.ask(*words))
    return goal


async def _with_logbooks(repository: Repository, head: str, made: Replayed, own: str) -> str:
    """Return a commit with the code of ``head`` and the logbooks of ``made.tip``."""
    ours = [path for path in await changed(repository, made.base, head) if is_logbook(path, own)]
    blobs = {path: await repository.blob(made.tip, path) for path in ours}
    single = await repository.oid(f"{head}^") == made.base
    if single and all([await repository.blob(head, path) == blobs[path] for path in blobs]):
        return head
    there = {path: blob for path, blob in blobs.items() if blob is not None}
    tree = await tree_with(repository, head, there)
    message = await repository.ask("show", "-s", "--format=%B", head)
    return await make_commit(repository, tree, (made.base,), message)


async def _stage(repository: Repository, file: _File) -> None:
    """Let the index follow; what the user has staged of this file is kept in it."""
    staged = await repository.staged(file.path)
    if staged is None and file.old is not None:  # its removal is staged
        return
    if staged is None or staged == file.old:
        blob = file.new
    else:
        made = await _merged_blob(repository, file.path, file.old, staged, file.new)
        blob = Blob(staged.mode, made)
    await patiently(repository, lambda: put_in_index(repository, None, file.path, blob))


async def _write(repository: Repository, file: _File) -> None:
    """Let the file follow; what a person has written there and not committed is kept in it."""
    place = documents.real_path(repository.top / file.path)
    old = await repository.content(file.old, file.path)
    new = await repository.content(file.new, file.path)
    for _ in range(_TRIES):
        follow = partial(_follow, repository, place, old, new)
        if await offload(follow, deadline=repository.limits.local):
            return
    raise OSError(0, "keeps changing meanwhile")


def _follow(repository: Repository, place: Path, old: bytes, new: bytes) -> bool:
    found = documents.read(place)
    if found is None and old:  # a person has removed it
        return True
    plain = not found or found in (old, new)
    data = new if plain else _merged_text(str(place), old, found or b"", new)
    if data == found:
        return True
    return documents.replace(place, found, data, repository.folder)
