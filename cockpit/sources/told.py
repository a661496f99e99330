"""What others told of a run, read where it stands: logbook, its remote, the output root (SPEC A).

The remote is asked in the background, once a minute and repository; only the very first look
waits, and shortly. Nothing is written into the person's repository: commits that are not there
yet are fetched into a folder of their own, which is removed again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.lineage import local_root
from cockpit.model.records import Rejected
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import SharedFact
from cockpit.runtime.git import LOW_SPEED, READING, Unchanged, quiet_ssh, run_git, stamps_of
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.text.logbook_lines import read_messages, read_plain, read_rejections
from cockpit.text.logbook_scan import last_entry_at, read_entries
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

EVERY: Final = 60.0
EARLY: Final = 15.0
"""Seconds by which a look may come before that: the next one is a minute later."""
FIRST_WAIT: Final = 2.5
ANSWER: Final = 10.0
"""Seconds for the question what the remote's branch is now."""
BRING: Final = 30.0
"""Seconds for bringing what is new on it."""
SLIP: Final = 86400.0
"""Seconds after now up to which a time is believed (clocks go wrong, zones get mixed up)."""
BELOW: Final = Path(".cockpit", "told.md")
"""Where it is told under an output root."""
_MOST: Final = 8 << 20


class Heard(NamedTuple):
    """What a remote's logbook tells; ``trouble`` is why that is not known, or not newly."""

    told: tuple[SharedFact, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    last_entry_at: float | None = None
    trouble: str | None = None


NOTHING: Final = Heard()


class _Upstream(NamedTuple):
    """Where a logbook is pushed to: its repository, remote and branch there, its path in it."""

    top: str
    remote: str
    ref: str
    path: str


_UNTOLD: Final = _Upstream("", "", "", "")
"""Git did not say it: no repository, none that it may read, no commit yet, or git itself failed."""


@dataclass
class _Watched:
    """One logbook of a remote: what was heard, and until when that is new."""

    heard: Heard | None = None
    due: float = float("-inf")
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class _Branch:
    """A remote's branch: asked once for all logbooks on it, however many runs have one there."""

    def __init__(self, clock: Clock) -> None:
        self.due = float("-inf")
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._paths: set[str] = set()
        self._commit = ""
        self._read: dict[str, Heard] = {}
        self._failed: _NotAnsweredError | None = None

    async def heard(self, to: _Upstream) -> Heard:
        """Return what a logbook tells now; raises ``_NotAnsweredError``."""
        self._paths.add(to.path)
        async with self._one_at_a_time:
            if self._clock.monotonic() >= self.due:
                self.due, self._failed = self._clock.monotonic() + EVERY / 2, None
                try:
                    await self._look(to)
                except _NotAnsweredError as error:
                    self._failed = error
            if self._failed is not None:
                raise self._failed
            if self._commit and to.path not in self._read:
                await self._take(to, self._commit)
            return self._read.get(to.path, NOTHING)

    async def _look(self, to: _Upstream) -> None:
        """Ask for the branch's commit; read its logbooks only when it has moved."""
        done = await _git(to.top, *LOW_SPEED, "ls-remote", to.remote, to.ref, network=True)
        if not done.ok:
            raise _NotAnsweredError(_said(done, f"{to.remote} was not read"))
        pairs = (line.partition("\t") for line in done.text.splitlines())
        commit = next((oid for oid, _, ref in pairs if ref == to.ref), "")
        if not commit:
            self._commit, self._read = "", {}
        elif commit != self._commit:
            await self._take(to, commit)

    async def _take(self, to: _Upstream, commit: str) -> None:
        """Read every logbook that was asked for as it is at ``commit``."""
        texts = await _contents(to, commit, sorted(self._paths))
        until, source = self._clock.now() + SLIP, f"logbook on {clean(to.remote, 200)}"

        def understood() -> dict[str, Heard]:
            return {path: _of(text, source, until) for path, text in texts.items()}

        self._read, self._commit = await offload(understood, deadline=ANSWER), commit


class Remotes:
    """The logbooks of many runs as their remotes have them. Never raises, never blocks for long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._branches: dict[tuple[str, str, str], _Branch] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._upstreams: Unchanged[_Upstream | None] = Unchanged(clock)

    async def heard(self, logbook: str) -> Heard:
        """Return what is known of a logbook (a real path) on its remote."""
        watched = self._watched.setdefault(logbook, _Watched())
        now = self._clock.monotonic()
        if watched.due <= now:
            watched.due = now + EVERY - EARLY
            task = asyncio.ensure_future(self._ask(logbook, watched))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        if watched.heard is None:
            try:
                async with asyncio.timeout(FIRST_WAIT):
                    await watched.ready.wait()
            except TimeoutError:
                return Heard(trouble=f"the logbook's remote did not answer within {FIRST_WAIT:g} s")
        return watched.heard or NOTHING

    async def _ask(self, logbook: str, watched: _Watched) -> None:
        try:
            look = partial(stamps_of, str(Path(logbook).parent))
            ask = partial(_upstream, Path(logbook))
            to = await self._upstreams.answer(logbook, look, ask, lambda to: to is not _UNTOLD)
            if to is None or to is _UNTOLD:
                watched.heard = NOTHING
            else:
                watched.heard = await self._branch(to).heard(to)
        except _NotAnsweredError as error:
            former = watched.heard or NOTHING
            watched.heard = former._replace(trouble=str(error))
        except (OSError, TimeoutError) as error:
            former = watched.heard or NOTHING
            watched.heard = former._replace(trouble=_line(error))
        finally:
            watched.ready.set()

    def _branch(self, to: _Upstream) -> _Branch:
        return self._branches.setdefault((to.top, to.remote, to.ref), _Branch(self._clock))


class _NotAnsweredError(Exception):
    """A remote that could not be read; the message is one line."""


def _of(text: str, source: str, until: float) -> Heard:
    return Heard(
        told=read_messages(text, source, until),
        rejected=read_rejections(text),
        last_entry_at=last_entry_at(read_entries(text), until),
    )


def told_under(run: RunSpec, now: float) -> tuple[SharedFact, ...]:
    """Return what stands under a run's output root on this machine; blocking."""
    root = local_root(run)
    if root is None:
        return ()
    place = Path(root) / BELOW
    try:
        with open_regular(str(place)) as (handle, found):
            skipped = max(0, found.st_size - _MOST)
            text = os.pread(handle, _MOST, skipped).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ()
    return read_plain(text, "output root", now + SLIP)


async def _asked(folder: str, *words: str) -> Completed:
    """Return what git says of a repository; one that does not answer has not said no."""
    done = await _git(folder, *words)
    if done.timed_out:
        raise _NotAnsweredError(_said(done, "unknown where the logbook is pushed to"))
    return done


async def _upstream(logbook: Path) -> _Upstream | None:
    """Return where a logbook is pushed to, ``None`` for one without a repository or a remote."""
    folder = str(logbook.parent)
    words = ("rev-parse", "--show-toplevel", "--show-prefix", "--symbolic-full-name", "HEAD")
    done = await _asked(folder, *words)
    if not done.ok:
        return _UNTOLD
    lines = os.fsdecode(done.out).split("\n")
    if len(lines) < 3 or not lines[2].startswith("refs/heads/"):
        return None
    top, prefix, branch = lines[0], lines[1], lines[2]
    form = "--format=%(upstream:remotename)%00%(upstream:remoteref)"
    said = (await _asked(folder, "for-each-ref", form, branch)).text.split("\n")[0]
    remote, _, ref = said.partition("\0")
    if not remote or remote == "." or not ref:
        names = (await _asked(folder, "remote")).text.split()
        sole = names[0] if len(names) == 1 else "origin" if "origin" in names else ""
        remote, ref = sole, branch
    return _Upstream(top, remote, ref, prefix + logbook.name) if remote else None


async def _contents(to: _Upstream, commit: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the logbooks' texts at a commit of the remote; empty where it has no such file."""
    if (await _git(to.top, "cat-file", "-e", f"{commit}^{{tree}}")).ok:
        return {path: await _blob(to, commit, path, {}) for path in paths}
    objects = await _git(to.top, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    folder = tempfile.mkdtemp(prefix="cockpit-heard-")
    try:
        aside = {
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _listed(objects.text.rstrip("\n")),
        }
        words = (
            *LOW_SPEED, "-c", "maintenance.auto=false", "-c", "gc.auto=0",
            "-c", "fetch.writeCommitGraph=false", "fetch", "--quiet", "--no-tags",
            "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", to.remote, to.ref,
        )  # fmt: skip
        done = await _git(to.top, *words, network=True, env=aside, deadline=BRING)
        if not done.ok:
            raise _NotAnsweredError(_said(done, f"{to.remote} was not read"))
        return {path: await _blob(to, commit, path, aside) for path in paths}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listed(path: str) -> str:
    """Return a path as a list of alternates takes it: quoted where it holds what parts two."""
    if not set(path) & set(':"\\'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def _blob(to: _Upstream, commit: str, path: str, env: Mapping[str, str]) -> str:
    done = await _git(to.top, "cat-file", "blob", f"{commit}:{path}", env=env)
    return done.out.decode("utf-8", "replace") if done.ok else ""


async def _git(
    folder: str,
    *words: str,
    network: bool = False,
    env: Mapping[str, str] | None = None,
    deadline: float = ANSWER,
) -> Completed:
    extra = {**READING, **(env or {}), **(await quiet_ssh(folder, ANSWER) if network else {})}
    return await run_git(folder, *words, deadline=deadline, env=extra, cap=_MOST)


def _said(done: Completed, doing: str) -> str:
    if done.timed_out:
        return clean(f"{doing}: no answer in time")
    lines = [line for line in done.err.decode("utf-8", "replace").splitlines() if line.strip()]
    return scrub(clean(f"{doing}: {lines[0] if lines else 'git said nothing'}", 400))


def _line(error: Exception) -> str:
    return scrub(clean(getattr(error, "strerror", None) or str(error) or "no answer in time", 400))
