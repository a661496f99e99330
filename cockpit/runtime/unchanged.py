"""Whether a checkout is as it was: by its files' identity first, so that git is not started for it.

The cheap look knows every commit, branch, tag and remote branch that came or went (``HEAD``, the
index, loose and packed refs, the settings, in a linked worktree those of both folders), every
edit of a file that git tracks, and every file that came or went beside one or in another folder
that is named to it. It cannot know what git reads from elsewhere (a person's own settings and
exclude files) nor what a submodule holds: git itself is asked again after ``FULL_EVERY``, always
where there are submodules or too many files to look at, and for what a plan rests on
(``asked_anew``).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from cockpit.model.clock import Clock
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import open_regular

T = TypeVar("T")

FULL_EVERY: Final = 600.0
"""Seconds after which git is asked again, whatever the files look like."""
SETTLED: Final = 2.0
"""Seconds that a file must have stood still: one that is written now may be again, unseen."""
MOST: Final = 20_000
"""Files and refs that are looked at; with more git is asked each time."""
DEADLINE: Final = 5.0
_OF_WORKTREE: Final = ("HEAD", "index", "config.worktree")
_OF_ALL: Final = ("packed-refs", "config", "info/exclude")
_REFS: Final = ("refs", "reftable")
_ANEW: Final = ContextVar("anew", default=False)

Stamp = tuple[int, int, int, int]
"""Changed, modified (ns), size, inode."""
Stamps = tuple[tuple[str, Stamp | None], ...]


class _Checkout(NamedTuple):
    """Where a checkout begins, its own git folder, and the one that its worktrees share."""

    top: str
    own: str
    shared: str


class _Seen(NamedTuple, Generic[T]):
    stamps: Stamps
    answer: T
    at: float


@contextmanager
def asked_anew() -> Iterator[None]:
    """Have git itself asked, whatever its files look like, by all that is begun in here."""
    before = _ANEW.set(True)
    try:
        yield
    finally:
        _ANEW.reset(before)


class Unchanged(Generic[T]):
    """Answers of git, asked for again only when what they rest on may have changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[Hashable, _Seen[T]] = {}

    async def answer(
        self,
        key: Hashable,
        look: Callable[[], Stamps | None],
        ask: Callable[[], Awaitable[T]],
        keep: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Return the former answer if ``look`` (blocking) finds all as it was, else ask.

        An answer that ``keep`` refuses is asked for again the next time.
        """
        try:
            stamps = await offload(look, deadline=DEADLINE)
        except (OSError, TimeoutError):
            stamps = None
        now, seen = self._clock.monotonic(), self._seen.pop(key, None)
        same = seen is not None and stamps is not None and seen.stamps == stamps
        if seen is not None and same and now - seen.at < FULL_EVERY and not _ANEW.get():
            self._seen[key] = seen
            return seen.answer
        settled = stamps is not None and _settled(stamps, self._clock.now())
        answer = await ask()
        if stamps is not None and settled and keep(answer):
            self._seen[key] = _Seen(stamps, answer, now)
        return answer


def stamps_of(
    folder: str, tracked: Sequence[str] | None = (), beside: Iterable[str] = ()
) -> Stamps | None:
    """Return the identity of a checkout's files; blocking.

    ``tracked`` are names from its top, of files and of folders with a ``/`` behind, ``None`` if
    they are not known, ``beside`` paths that matter as well. ``None``: by files alone it cannot be
    told. A folder without a checkout has the identity of having none.
    """
    found = _checkout_of(os.path.realpath(folder))
    if tracked is None or len(tracked) > MOST:
        return None
    if found is None:
        return _stamped(beside)
    if tracked and _stamp(f"{found.top}/.gitmodules") is not None:
        return None
    folders = dict.fromkeys((found.own, found.shared))
    refs = [path for each in folders for path in _below(each)]
    if len(refs) > MOST:
        return None
    return _stamped((
        *(f"{found.own}/{name}" for name in _OF_WORKTREE),
        *(f"{found.shared}/{name}" for name in _OF_ALL),
        *refs, *_in_tree(found.top, tracked), *beside,
    ))  # fmt: skip


def stamps_beside(path: str) -> Stamps | None:
    """Return the identity of a file and of the checkout that it really lies in; blocking."""
    real = os.path.realpath(path)
    return stamps_of(real.rpartition("/")[0] or "/", beside=(path, real))


def _checkout_of(folder: str) -> _Checkout | None:
    """Return the checkout that a folder is in: where ``.git`` lies, as a folder or as its name."""
    for top in (Path(folder), *Path(folder).parents):
        at = top / ".git"
        if at.is_dir():
            return _Checkout(str(top), str(at), str(at))
        if at.is_file():
            own = top / _line(at).removeprefix("gitdir: ")
            shared = own / (_line(own / "commondir") or ".")
            return _Checkout(str(top), os.path.realpath(own), os.path.realpath(shared))
    return None


def _line(path: Path) -> str:
    """Return the first line of a small file of git's own; nothing where there is none."""
    try:
        with open_regular(str(path)) as (file, _):
            return os.fsdecode(os.read(file, 4096).partition(b"\n")[0])
    except OSError:
        return ""


def _below(git: str) -> Iterator[str]:
    """Yield every ref that has a file of its own, and the folders that they lie in."""
    waiting = [f"{git}/{name}" for name in _REFS]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError:
            continue
        yield folder
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry.path


def _in_tree(top: str, tracked: Sequence[str]) -> Iterator[str]:
    """Yield the tracked files, and each folder that holds one: what comes there changes it."""
    folders = {name.rpartition("/")[0] for name in tracked}
    above = {each[:at] for each in folders for at, letter in enumerate(each) if letter == "/"}
    holding = sorted({"", *above, *folders}) if tracked else ()
    yield from (f"{top}/{name}" for name in holding)
    yield from (f"{top}/{name}" for name in tracked)


def _stamped(paths: Iterable[str]) -> Stamps:
    return tuple((path, _stamp(path)) for path in paths)


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino)


def _settled(stamps: Stamps, now: float) -> bool:
    """Tell whether nothing changed just before ``now``: the next change would show as one."""
    newest = max((stamp[0] for _, stamp in stamps if stamp is not None), default=0)
    return newest / 1e9 < now - SETTLED
