"""Runs ``git``, and tells whether a checkout has changed without running it.

``run_git`` never prompts, never pages and has a deadline. It ignores ``GIT_DIR`` and
``GIT_INDEX_FILE`` of the process that runs the cockpit (a hook, a rebase): ``folder`` names the
repository.

``Unchanged`` compares file times and sizes instead of running git. It notices every commit, branch
and tag that came or went (``HEAD``, the index, loose and packed refs, settings), every edit of a
tracked file, and every file that came or went beside one. It cannot notice changes to a person's
own git settings, or inside a submodule. So git is asked again after ``FULL_EVERY``, always where
there are submodules or too many files, and for everything that a plan rests on (``asked_anew``).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from cockpit.model.base import listed
from cockpit.model.clock import Clock
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed, run_command

CAP: Final = 64_000_000
LOW_SPEED: Final = ("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=10")
"""Options for a call over the network: a transfer that stands still is given up."""
READING: Final = {"GIT_OPTIONAL_LOCKS": "0"}
"""Environment of a call that must not write, not even a fresher index."""
_QUIET: Final = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_NO_HOOKS: Final = ("-c", "core.hooksPath=/dev/null")
"""Options of a call that only looks: a repository's own programs are not run by it.

``git diff`` refreshes the index whatever it was told, and that alone runs ``post-index-change``.
"""
_ENV: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C.UTF-8",
}
_MISLEADING: Final = listed(
    "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY"
    " GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE GIT_PREFIX"
)
_SSH: Final = "-o BatchMode=yes -o ConnectTimeout=10"


async def run_git(
    folder: Path | str,
    *words: str,
    deadline: float,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cap: int = CAP,
    hooks: bool = True,
) -> Completed:
    """Run ``git`` in ``folder`` and return how it ended; at most ``cap`` bytes of its output."""
    given = {**_ENV, **(env or {})}
    quiet = _QUIET if hooks else (*_QUIET, *_NO_HOOKS)
    stray = (name for name in _MISLEADING if name in os.environ and name not in given)
    unset = [word for name in stray for word in ("-u", name)]
    argv = (*(("env", *unset) if unset else ()), "git", *quiet, *words)
    return await run_command(argv, deadline=deadline, cwd=folder, env=given, stdin=stdin, cap=cap)


def git_there(
    folder: str,
    words: Sequence[str],
    limit: float,
    env: Mapping[str, str] | None = None,
    hooks: bool = True,
) -> list[str]:
    """Return a ``git`` call for a host, behind what ends it in time and keeps it from asking.

    ``timeout`` asks git to end before it is killed, so that it can take its locks away.
    """
    given = {**_ENV, **(env or {})}
    unset = (word for name in _MISLEADING for word in ("-u", name))
    named = (f"{name}={value}" for name, value in given.items())
    quiet = _QUIET if hooks else (*_QUIET, *_NO_HOOKS)
    call = ("git", "-C", folder, *quiet, *words)
    return ["timeout", "-k", "1", f"{limit:g}", "env", *unset, *named, *call]


async def quiet_ssh(folder: Path | str, deadline: float) -> dict[str, str]:
    """Return what keeps ssh from asking, for ``env``; a program that is not ssh is left alone."""
    if "GIT_SSH" in os.environ and "GIT_SSH_COMMAND" not in os.environ:
        return {}
    said = os.environ.get("GIT_SSH_COMMAND")
    if not said:
        done = await run_git(folder, "config", "--get", "core.sshCommand", deadline=deadline)
        said = done.text.strip() or "ssh"
    try:
        program = Path(shlex.split(said)[0]).name
    except (ValueError, IndexError):
        return {}
    return {"GIT_SSH_COMMAND": f"{said} {_SSH}"} if program == "ssh" else {}


QUIET_SSH: Final = f"""\
if [ -n "$GIT_SSH_COMMAND" ] || [ -z "$GIT_SSH" ]; then
  _c=${{GIT_SSH_COMMAND:-$(git -C "$0" config --get core.sshCommand)}}
  _c=${{_c:-ssh}} _p=${{_c%% *}}
  case ${{_p##*/}} in ssh) GIT_SSH_COMMAND="$_c {_SSH}"; export GIT_SSH_COMMAND ;; esac
fi
exec "$@"
"""
"""What does the same as ``quiet_ssh`` in a host's shell, for the command in its arguments.

``$0`` is the folder of the repository.
"""


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


class _Answered(NamedTuple, Generic[T]):
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
        self._seen: dict[Hashable, _Answered[T]] = {}

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
            self._seen[key] = _Answered(stamps, answer, now)
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
            own = top / _first_line(at).removeprefix("gitdir: ")
            shared = own / (_first_line(own / "commondir") or ".")
            return _Checkout(str(top), os.path.realpath(own), os.path.realpath(shared))
    return None


def _first_line(path: Path) -> str:
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
