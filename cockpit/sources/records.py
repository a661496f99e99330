"""When the run's records last moved, and whether they are pushed (SPEC S-10, S-11, C-24).

An issue is asked for at most every five minutes, with the tag of the last answer. Only the very
first look waits, and shortly: later ones give what is known and ask in the background.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, kind_of, known, not_configured, unknown
from cockpit.model.lineage import local_root
from cockpit.model.observed import RecordsValue
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import SharedFact, newest_first
from cockpit.runtime.git import Unchanged, stamps_beside
from cockpit.runtime.http import HttpError
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.sources.git.code import NO_UPSTREAM, pushed_elsewhere, why_held
from cockpit.sources.git.command import git, status
from cockpit.sources.github import GitHub, GitHubPlace
from cockpit.sources.told import Heard, Remotes, told_under
from cockpit.text.logbook_lines import read_messages
from cockpit.text.logbook_scan import last_entry_at, read_entries
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

EVERY: Final = 300.0
FIRST_WAIT: Final = 2.0


class Moved(Frozen):
    """When an issue last moved and when that was seen; ``note`` is why it cannot be told."""

    updated_at: Instant | None = None
    seen_at: Instant | None = None
    note: str | None = None


class _Watched:
    """One issue: what is known of it, and until when that is new enough."""

    def __init__(self, place: GitHubPlace) -> None:
        self.place = place
        self.moved: Moved | None = None
        self.etag: str | None = None
        self.due = float("-inf")


class Issues:
    """The issues of a fleet; one that several runs share is asked for once. Never raises."""

    def __init__(self, github: GitHub, clock: Clock) -> None:
        self._github = github
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def moved(self, runs: Sequence[RunSpec]) -> dict[str, Moved]:
        """Return what is known of the issue of each run that names one, by the run's name."""
        urls = {run.name: run.records.issue for run in runs if run.records.issue is not None}
        places = {name: self._github.issue_place(url) for name, url in urls.items()}
        found = {
            name: None
            if place is None
            else self._watched.setdefault(place.issue_url, _Watched(place))
            for name, place in places.items()
        }
        await self._refresh([each for each in dict.fromkeys(found.values()) if each is not None])
        return {name: _known(watched) for name, watched in found.items()}

    async def _refresh(self, issues: Sequence[_Watched]) -> None:
        now = self._clock.monotonic()
        due = [each for each in issues if each.due <= now]
        if not due:
            return
        for each in due:
            each.due = now + EVERY
        task = asyncio.ensure_future(self._ask(due))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        if any(each.moved is None for each in due):
            await asyncio.wait({task}, timeout=FIRST_WAIT)

    async def _ask(self, due: Sequence[_Watched]) -> None:
        try:
            async with self._github.http.session():
                await asyncio.gather(*(self._one(each) for each in due))
        except HttpError as error:  # no session at all
            for each in due:
                each.moved = _noted(each.moved, error)

    async def _one(self, watched: _Watched) -> None:
        former = watched.moved
        try:
            seen = await self._github.issue(watched.place, watched.etag)
        except HttpError as error:
            watched.moved = _noted(former, error)
            return
        now = self._clock.now()
        if seen is not None:
            watched.etag = seen.etag
            watched.moved = Moved(updated_at=seen.issue.updated_at, seen_at=now)
        elif former is not None:
            watched.moved = Moved(updated_at=former.updated_at, seen_at=now)


def _noted(former: Moved | None, error: HttpError) -> Moved:
    """Return what was known before, with the reason why it is not newer."""
    return (former or Moved()).model_copy(update={"note": str(error)})


def _known(watched: _Watched | None) -> Moved:
    if watched is None:
        return Moved(note="records.issue is not a GitHub issue URL")
    return watched.moved or Moved(note=f"{watched.place.label}: not read yet")


DEADLINE: Final = 5.0
LONGEST_ROOT: Final = 4096
_SLIP: Final = 86400.0
"""Seconds after now up to which the time of an entry is believed (zones get mixed up)."""


class Scanned(NamedTuple):
    """A logbook's last entry, and where its file really lies."""

    last_entry_at: float | None
    folder: str
    name: str
    told: tuple[SharedFact, ...] = ()
    output_root: str | None = None


class _OnRemote(NamedTuple):
    """Whether a logbook is on its upstream (``None``: git cannot tell); ``held``: why it stays."""

    known: bool | None
    held: str | None = None


class Records:
    """The logbooks and issues of many runs; an unchanged logbook is read once.

    With ``remotes`` a logbook is also read as its remote has it: others write there.
    ``root_in`` returns the output root that a logbook's text records.
    """

    def __init__(
        self,
        clock: Clock,
        issues: Issues | None = None,
        remotes: Remotes | None = None,
        root_in: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._root_in = root_in
        self._issues = issues
        self._remotes = remotes
        self._scans: dict[str, tuple[tuple[int, int], Scanned]] = {}
        self._pushes: Unchanged[_OnRemote] = Unchanged(clock)

    async def observe(self, runs: Sequence[RunSpec]) -> dict[str, Facet[RecordsValue]]:
        """Return the last entry of each run's logbook, whether it is pushed, its issue's age."""
        logbooks = asyncio.gather(*(self._one(run) for run in runs))
        found, moved = await asyncio.gather(logbooks, self._moved(runs))
        return {
            run.name: _with_issue(facet, moved.get(run.name))
            for run, facet in zip(runs, found, strict=True)
        }

    async def _moved(self, runs: Sequence[RunSpec]) -> dict[str, Moved]:
        return {} if self._issues is None else await self._issues.moved(runs)

    async def _one(self, run: RunSpec) -> Facet[RecordsValue]:
        spec, now = run.records, self._clock.now()
        issue = None if spec.issue is None else clean(spec.issue)
        if spec.logbook is None:
            told = await self._under(run)
            if issue is None and not told:
                return not_configured("[run.records]")
            value = RecordsValue(logbook=None, issue=issue, told=newest_first(told))
            return known(value, issue or "the output root", now)
        source = clean(spec.logbook, 4096)
        try:
            scanned = await offload(self._scan, spec.logbook, deadline=DEADLINE)
        except TimeoutError:
            message = f"{source}: no answer within {DEADLINE:g} s"
            return unknown(ErrorKind.TIMEOUT, message, source, now)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or "cannot be read").lower()
            return unknown(kind_of(error), f"{source}: {reason}", source, now)
        pushed, under, heard = await asyncio.gather(
            self._pushed(scanned), self._under(run), self._heard(scanned)
        )
        value = RecordsValue(
            logbook=source,
            last_entry_at=max(
                (each for each in (scanned.last_entry_at, heard.last_entry_at) if each is not None),
                default=None,
            ),
            pushed=pushed.known,
            held=pushed.held,
            issue=issue,
            told=newest_first((*scanned.told, *heard.told, *under)),
            unheard=heard.trouble,
            rejected=heard.rejected,
            output_root=scanned.output_root,
        )
        return known(value, source, self._clock.now())

    async def _pushed(self, scanned: Scanned) -> _OnRemote:
        path = f"{scanned.folder}/{scanned.name}"
        look = partial(stamps_beside, path)
        ask = partial(_on_remote, scanned.folder, scanned.name)
        return await self._pushes.answer(path, look, ask, lambda found: found.known is not None)

    async def _heard(self, scanned: Scanned) -> Heard:
        if self._remotes is None:
            return Heard()
        return await self._remotes.heard(str(Path(scanned.folder) / scanned.name))

    async def _under(self, run: RunSpec) -> tuple[SharedFact, ...]:
        """Return what is told under the output root; a disk that hangs tells nothing."""
        if local_root(run) is None:
            return ()
        try:
            return await offload(told_under, run, self._clock.now(), deadline=DEADLINE)
        except TimeoutError:
            return ()

    def _scan(self, path: str) -> Scanned:
        real = Path(os.path.realpath(path, strict=True))
        found = real.stat()
        version = (found.st_mtime_ns, found.st_size)
        former = self._scans.get(path)
        if former is not None and former[0] == version:
            return former[1]
        text, until = read_text(real), self._clock.now() + _SLIP
        newest = last_entry_at(read_entries(text), until)
        told = read_messages(text, "logbook", until)
        root = self._root_in(text)
        shown = None if root is None else scrub(clean(root, LONGEST_ROOT))
        scanned = Scanned(newest, str(real.parent), real.name, told, shown)
        self._scans[path] = (version, scanned)
        return scanned


def _with_issue(facet: Facet[RecordsValue], moved: Moved | None) -> Facet[RecordsValue]:
    """Add what is known of the issue; one that cannot be read is a note, not a failure."""
    if facet.value is None or moved is None:
        return facet
    seen = {
        "issue_updated_at": moved.updated_at,
        "issue_seen_at": moved.seen_at,
        "notes": () if moved.note is None else (moved.note,),
    }
    return facet.model_copy(update={"value": facet.value.model_copy(update=seen)})


async def _on_remote(folder: str, name: str) -> _OnRemote:
    known = await _pushed(folder, name)
    return _OnRemote(known, await _held(folder) if known is False else None)


async def _pushed(folder: str, name: str) -> bool | None:
    """Return whether the file is committed and on its upstream; ``None`` if git cannot tell."""
    found = await status(folder, name)
    if isinstance(found, Problem):
        return False if found.kind is ErrorKind.NOT_FOUND else None
    if found.files or found.ahead is None or found.sha is None:
        return False
    tracked = await git(folder, "ls-files", "--error-unmatch", "--", name)
    if not tracked.ok:
        return False if tracked.rc == 1 else None
    if found.ahead == 0:
        return True
    waiting = await git(folder, "rev-list", "-n1", "@{upstream}..HEAD", "--", name)
    if not waiting.ok:
        return None
    # The branch may wait for a pull while the entry itself has been pushed.
    same = await git(folder, "diff", "--quiet", "@{upstream}", "HEAD", "--", name)
    if not waiting.out.strip() or same.ok:
        return True
    return False if same.rc == 1 else None


async def _held(folder: str) -> str | None:
    """Return why the cockpit does not push the commits that are ahead of the upstream."""
    ask = partial(git, folder)
    common = await ask("rev-parse", "--git-common-dir")
    name = await ask("rev-parse", "--abbrev-ref", "@{upstream}")
    if not name.ok:
        remotes = await ask("remote")
        return NO_UPSTREAM if remotes.ok and remotes.out.strip() else None
    branch = (await ask("symbolic-ref", "-q", "HEAD")).text.strip()
    elsewhere = await pushed_elsewhere(ask, branch) if branch else None
    if elsewhere is not None:
        return elsewhere
    place = Path(folder) / os.fsdecode(common.out).removesuffix("\n")
    return await why_held(ask, place, "@{upstream}", "HEAD", name.text.strip())
