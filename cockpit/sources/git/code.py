"""The state of a run's code repository: what a launch would run now (SPEC S-10, C-15)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, not_configured, unknown
from cockpit.model.lineage import Touches, is_own, touches
from cockpit.model.observed import CodeValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import CodeSpec, RunSpec
from cockpit.runtime.git import Unchanged, stamps_of
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.git import command
from cockpit.sources.git.command import (
    DEADLINE,
    NO_LINK,
    GitStatus,
    git,
    looked_at,
    status,
    told,
    trouble,
)
from cockpit.text.logbook_scan import launched_sha, read_entries
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_MARK: Final = "\x01"
_BEFORE: Final = 50
_AFTER: Final = 5000
"""Commits before and after a recorded one that are looked at: weeks of a logbook."""
_SHA: Final = re.compile(r"[0-9a-f]{7,64}")
AT_ONCE: Final = 8
"""Repositories of one ssh host that are looked at at once, one git process for each."""
_NAMES: Final = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")


class Changes(Frozen):
    """Changed files, as safe names from the repository's root; ``None``: cannot be told.

    ``base`` is the commit that ran and ``source`` who says so: the job's own bundle where its
    platform tells of it, else the record (``recorded``, by ``recorded_by``). ``committed``
    changed from there to HEAD, ``unpushed`` in commits that the upstream does not have,
    ``untracked`` are new files that git does not know.
    """

    base: str | None = None
    source: str = ""
    recorded: str | None = None
    recorded_by: str = ""
    committed: tuple[str, ...] | None = None
    unpushed: tuple[str, ...] | None = None
    untracked: tuple[str, ...] | None = None
    trouble: str | None = None


async def changes_since(
    repo: Place, code: CodeValue | None, base: str | None, source: str
) -> Changes:
    """Return what changed in a repository, here or on an ssh host, since the commit ``base``."""
    if code is None or code.sha is None:
        return Changes(base=base, source=source)
    committed, why = await _between(repo, base, code.sha)
    unpushed = await _unpushed(repo, code)
    untracked = await _names(
        repo, "ls-files", "--others", "--exclude-standard", "-z", "--full-name"
    )
    return Changes(
        base=base,
        source=source,
        committed=committed,
        unpushed=unpushed,
        untracked=untracked,
        trouble=why,
    )


async def _unpushed(repo: Place, code: CodeValue) -> tuple[str, ...] | None:
    """Return what changed in commits that nobody else has; nothing where a remote has this one.

    A detached HEAD has no upstream, and is mostly a commit that was published.
    """
    if code.unpushed is None:
        where = await git(repo, "for-each-ref", "--count=1", "--contains=HEAD", "refs/remotes")
        return () if where.ok and where.text.strip() else None
    if code.unpushed == 0:
        return ()
    return await _names(repo, "diff", *_NAMES, "@{upstream}", "HEAD", "--")


async def alike_commits(repo: Place, base: str, spec: CodeSpec) -> tuple[str, ...]:
    """Return the commits around ``base`` that change nothing from it but files that are no code.

    The job may have started at one, and another be recorded: a logbook's own commits lie between.
    """
    if not _SHA.fullmatch(base):
        return ()
    how = ("log", "-z", "--name-only", "--no-renames", f"--format={_MARK}%H %P")
    before = await git(repo, *how, f"-n{_BEFORE}", f"{base}^{{commit}}", "--")
    after = await git(repo, *how, f"-n{_AFTER}", f"{base}^{{commit}}..HEAD", "--")
    if not before.ok or before.cut or not after.ok or after.cut:
        return ()
    beside: dict[str, set[str]] = {}
    for commit, parent, files in (*_commits(before.text), *_commits(after.text)):
        if all(touches(name, spec) is Touches.IGNORE for name in files):
            beside.setdefault(commit, set()).add(parent)
            beside.setdefault(parent, set()).add(commit)
    waiting = [each for each in beside if each.startswith(base)]
    found: set[str] = set()
    while waiting:
        commit = waiting.pop()
        found.add(commit)
        waiting += beside[commit] - found
    return tuple(sorted(found))


def _commits(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each commit with one parent, its parent and the files that it changed."""
    for part in text.split(_MARK)[1:]:
        head, *names = part.split("\0")
        commit, *parents = head.split()
        if len(parents) == 1:
            yield commit, parents[0], tuple(name.lstrip("\n") for name in names if name.strip())


async def _between(
    repo: Place, base: str | None, head: str
) -> tuple[tuple[str, ...] | None, str | None]:
    if base is None:
        return None, "no launch has recorded its commit"
    if not _SHA.fullmatch(base):
        return None, f"the record has no commit: {clean(base, 80)}"
    if head.startswith(base):
        return (), None
    done = await git(repo, "diff", *_NAMES, f"{base}^{{commit}}", "HEAD", "--")
    if done.ok and not done.cut:
        return _split(done.text), None
    if done.rc == NO_LINK:
        return None, trouble(repo, done).message
    if "unknown revision" in done.err.decode("utf-8", "replace") or done.rc == 128:
        return None, f"the recorded commit {base[:10]} is not in {clean(str(repo), 500)}"
    return None, trouble(repo, done).message


async def _names(repo: Place, *words: str) -> tuple[str, ...] | None:
    done = await git(repo, *words)
    return _split(done.text) if done.ok and not done.cut else None


def _split(text: str) -> tuple[str, ...]:
    """Return names that may be shown; one that had to be changed for it matches no pattern."""
    names = ((name, clean(name, 1000)) for name in text.split("\0") if name)
    return tuple(safe if safe == name else f"{safe} (odd name)" for name, safe in names)


LIST: Final = "cockpit-wrote"
MOST: Final = 4_000_000
"""Bytes of the list's end that are read: about 80,000 commits, years of records."""
NAMED: Final = 3
"""Commits of others that a line names."""
COMMIT: Final = "commit"
FILE: Final = "file"
NO_UPSTREAM: Final = "the branch has no upstream: git push -u REMOTE once"
_DEADLINE: Final = 10.0
Git = Callable[..., Awaitable[Completed]]


class OtherCommit(NamedTuple):
    """A commit that waits to be pushed and that the cockpit did not write."""

    oid: str
    subject: str


def wrote_file(common: Path, start: bytes, end: bytes) -> bool:
    """Return whether the cockpit's writing alone leads from ``start`` to ``end``; blocking."""
    steps: dict[str, set[str]] = {}
    for kind, *digests in _lines(common):
        if kind == FILE and len(digests) == 2:
            steps.setdefault(digests[0], set()).add(digests[1])
    reached, waiting, goal = set[str](), {digest(start)}, digest(end)
    while waiting and goal not in reached:
        reached |= waiting
        waiting = {after for each in waiting for after in steps.get(each, ())} - reached
    return goal in reached


def own_commits(common: Path) -> frozenset[str]:
    """Return the ids of the commits that the cockpit made; blocking."""
    return frozenset(words[1] for words in _lines(common) if words[0] == COMMIT and words[1:])


async def others_among(
    git: Git, own: frozenset[str], *revisions: str
) -> tuple[OtherCommit, ...] | None:
    """Return the commits of a range that the cockpit did not write, the newest first.

    ``None`` where git does not tell.
    """
    done = await git("log", "-z", "--format=%H %s", *revisions, "--")
    if not done.ok or done.cut:
        return None
    found = (line.partition(" ") for line in done.text.split("\0") if line)
    return tuple(OtherCommit(oid, subject) for oid, _, subject in found if oid not in own)


async def pushed_elsewhere(git: Git, branch: str) -> str | None:
    """Return why a plain ``git push`` does not send a branch (``refs/heads/…``) to its upstream.

    A branch that was begun from another one's has that for its upstream; a fork or a review
    server is pushed to instead. ``None`` where git sends it there, or where it has no upstream.
    """
    form = "--format=%(upstream)%00%(upstream:short)%00%(push)%00%(push:short)"
    done = await git("for-each-ref", form, branch)
    upstream, name, push, there = [*done.text.split("\n")[0].split("\0"), "", "", "", ""][:4]
    if done.ok and (not upstream or push == upstream):
        return None
    short, name = clean(branch.removeprefix("refs/heads/")), clean(name)
    if not done.ok:
        return f"git does not tell where it pushes {short}; retry"
    if there:
        return f"git push sends {short} to {clean(there)}, not to {name}: push yourself"
    rule = "push.default, pushRemote or a refspec"
    return f"git push does not send {short} to its upstream {name} ({rule}): push yourself"


async def why_held(git: Git, common: Path, upstream: str, head: str, name: str) -> str | None:
    """Return why the commits between ``upstream`` (called ``name``) and ``head`` stay here.

    ``None`` if they may be pushed.
    """
    own = await offload(own_commits, common, deadline=_DEADLINE)
    others = await others_among(git, own, f"{upstream}..{head}")
    if others is None:
        return "git does not tell which commits wait; retry"
    return held_back(others, name) if others else None


def held_back(others: tuple[OtherCommit, ...], upstream: str) -> str:
    """Return why records stay on this machine, and what lets them go."""
    what, named = named_commits(others)
    return (
        f"{what} that the cockpit did not write would go to {clean(upstream)} as well "
        f"({named}): push yourself, then the records follow"
    )


def named_commits(others: tuple[OtherCommit, ...]) -> tuple[str, str]:
    """Return how many commits these are, and the first of them by name."""
    named = ", ".join(f"{each.oid[:7]} {scrub(clean(each.subject, 60))}" for each in others[:NAMED])
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return "a commit" if len(others) == 1 else f"{len(others)} commits", f"{named}{more}"


def _lines(common: Path) -> list[list[str]]:
    try:
        with (common / LIST).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MOST))
            data = file.read(MOST)
    except OSError:
        return []
    return [
        words for line in data.decode("ascii", "replace").split("\n") if (words := line.split())
    ]


def digest(data: bytes) -> str:
    """Return what tells a file's bytes from any others."""
    return hashlib.sha256(data).hexdigest()


SEALS: Final = "refs/tags/seal"


class _Asked(NamedTuple):
    """A recorded commit of a checkout, and which of its files are code."""

    repo: Place
    record: str
    spec: CodeSpec


class _Looked(NamedTuple):
    """What git says of a checkout of this machine: its state, the seals, the changes' identity."""

    status: GitStatus | Problem
    tags: Completed | None = None
    patch_id: str | None = None

    @property
    def whole(self) -> bool:
        """Whether git has answered each question."""
        if isinstance(self.status, Problem) or self.tags is None or not self.tags.ok:
            return False
        return self.patch_id is not None or self.status.files == self.status.untracked


_State = tuple[str | None, int | None]
"""A checkout's present commit, and how many commits are not pushed."""


class Code:
    """The code repositories of many runs; one that several runs share is asked once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tags: dict[Place, tuple[str, ...] | None] = {}
        self._changes: dict[_Asked, tuple[_State, tuple[Changes, tuple[str, ...]]]] = {}
        """One for each recorded commit: at which state it was asked for, and the answer."""
        self._unchanged: Unchanged[_Looked] = Unchanged(clock)
        self._looked_at: dict[Place, tuple[str, ...] | None] = {}
        """What its files' identity rests on since the last full look."""

    async def observe(
        self, runs: Sequence[RunSpec], launched: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Facet[CodeValue]]:
        """Return commit, branch, changed files and unpushed commits of each run's code.

        ``launched`` is the commit that the store knows of a run's last launch, by the run's name;
        of others the logbook tells it.
        """
        repos = sorted({repo for run in runs if (repo := _repo(run)) is not None}, key=str)
        rooms = {repo.host: asyncio.Semaphore(AT_ONCE) for repo in repos}

        async def one(repo: Place) -> Facet[CodeValue]:
            async with nullcontext() if repo.here else rooms[repo.host]:
                return await self._of_repo(repo)

        by_repo = dict(zip(repos, await asyncio.gather(*map(one, repos)), strict=True))
        asked = (self._of_run(run, by_repo, launched.get(run.name)) for run in runs)
        facets = await asyncio.gather(*asked)
        return {run.name: facet for run, facet in zip(runs, facets, strict=True)}

    async def _of_repo(self, repo: Place) -> Facet[CodeValue]:
        if repo.here:
            look = partial(stamps_of, repo.path, self._looked_at.get(repo))
            ask = partial(self._look, repo)
            return self._facet(
                repo, *await self._unchanged.answer(repo, look, ask, lambda each: each.whole)
            )
        try:
            found = await command.look(repo, SEALS)
        except RemoteError as error:
            return unknown(error.kind, str(error), _source(repo), self._clock.now())
        return self._facet(repo, told(repo, found.status), found.tags, found.patch_id)

    async def _look(self, repo: Place) -> _Looked:
        """Ask git itself, and what to look at until it is asked again."""
        found = await status(repo.path)
        if isinstance(found, Problem):
            return _Looked(found)
        self._looked_at[repo] = await looked_at(repo, found.untracked)
        tags = await git(repo, *command.TAGS, SEALS)
        return _Looked(found, tags, await _patch_id(repo.path, found))

    def _facet(
        self, repo: Place, found: GitStatus | Problem, tags: Completed | None, patch_id: str | None
    ) -> Facet[CodeValue]:
        if isinstance(found, Problem):
            return unknown(found.kind, found.message, _source(repo), self._clock.now())
        assert tags is not None, "git was asked for both"
        # None where git cannot tell; the newest last.
        self._tags[repo] = tuple(tags.text.splitlines()) if tags.ok and not tags.cut else None
        value = CodeValue(
            sha=found.sha,
            branch=None if found.branch is None else scrub(found.branch),
            dirty=tuple(map(scrub, found.files)),
            untracked=tuple(map(scrub, found.untracked)),
            unpushed=found.ahead,
            patch_id=patch_id if found.files and found.sha is not None else None,
        )
        return known(value, _source(repo), self._clock.now())

    async def _of_run(
        self, run: RunSpec, facets: dict[Place, Facet[CodeValue]], launched: str | None
    ) -> Facet[CodeValue]:
        """Add the run's own seal, and the commit that its logbook records for its newest launch."""
        if run.code is None or run.code.repo is None:
            return not_configured("[run.code]")
        repo = _repo(run)
        if repo is None:
            where = str(run.code.repo)
            message = f"code on {clean(run.code.repo.endpoint)} is not read yet by this version"
            return unknown(ErrorKind.UNSUPPORTED, message, f"git {clean(where)}", self._clock.now())
        facet = facets[repo]
        update: dict[str, Any] = {}
        if facet.value is None:
            return facet
        tags = self._tags.get(repo, ())
        mine = [tag for tag in tags or () if tag.rpartition("/")[0] == f"seal/{run.name}"]
        if mine:
            update["sealed"] = clean(mine[-1])
        if mine or tags is None:
            update["sealed_steps"] = None if tags is None else tuple(_steps(mine))
        if run.records.logbook is not None:
            with suppress(OSError, ValueError):  # the records facet says what is wrong with it
                sha = await offload(_recorded, run.records.logbook, deadline=DEADLINE)
                update["record_sha"] = sha
        told = facet.value.model_copy(update=update) if update else facet.value
        value = _without_own(await _without_outputs(repo, told, run.code), run.code)
        base = launched or value.record_sha
        if base is not None:
            changes, alike = await self._since_record(_Asked(repo, base, run.code), value)
            files = {"changed": changes.committed, "ahead_files": changes.unpushed}
            value = value.model_copy(update={**files, "base": base, "alike": alike})
        return facet if value is facet.value else facet.model_copy(update={"value": value})

    async def _since_record(
        self, asked: _Asked, value: CodeValue
    ) -> tuple[Changes, tuple[str, ...]]:
        """Return what changed since the recorded commit, and which commits are the same code.

        Git is asked when a commit is new.
        """
        state, known = (value.sha, value.unpushed), self._changes.get(asked)
        if known is not None and known[0] == state:
            return known[1]
        found = await changes_since(asked.repo, value, asked.record, "the logbook")
        alike = await alike_commits(asked.repo, asked.record, asked.spec)
        lost = found.unpushed is None and value.unpushed is not None
        if found.trouble is None and not lost:
            self._changes[asked] = state, (found, alike)
        return found, alike


def _repo(run: RunSpec) -> Place | None:
    """Return the run's repository if it lies on this machine or an ssh host."""
    repo = None if run.code is None else run.code.repo
    return repo if repo is not None and (repo.here or repo.scheme == SSH) else None


def _source(repo: Place) -> str:
    return f"git {clean(str(repo), 4096)}"


def _steps(tags: Sequence[str]) -> Iterator[int]:
    """Yield the steps that seal tags end in; a tag that a person made may end otherwise."""
    ends = (tag.rpartition("/")[2] for tag in tags)
    yield from (int(end) for end in ends if end.isascii() and end.isdigit())


def _recorded(path: str) -> str | None:
    return launched_sha(read_entries(read_text(Path(path))))


async def _patch_id(repo: str, found: GitStatus) -> str | None:
    """Return the identity of the uncommitted changes of tracked files, if there are any.

    It stays the same when line numbers shift. ``None`` too when the change is too large.
    """
    if not found.files or found.sha is None:
        return None
    diff = await git(repo, *command.DIFF)
    if not diff.ok or diff.cut or not diff.out:
        return None
    done = await git(repo, "patch-id", "--stable", stdin=diff.out)
    return clean(done.text.partition(" ")[0]) or None if done.ok else None


async def _without_outputs(repo: Place, value: CodeValue, spec: CodeSpec) -> CodeValue:
    """Return the state without folders that hold nothing but what the cockpit and runs write.

    Git names a new folder as a whole: ``outputs/`` may be the root of a run's outputs alone.
    """
    above = [name for name in value.untracked if name.endswith("/") and _holds_own(name, spec)]
    if not above:
        return value
    words = ("ls-files", "--others", "--exclude-standard", "-z", "--full-name")
    done = await git(repo, *words, "--", *(f":(top,literal){name}" for name in above))
    if not done.ok or done.cut:
        return value
    names = [clean(name, 1000) for name in done.text.split("\0") if name]
    mixed = tuple(name for name in names if touches(name, spec) is not Touches.IGNORE)
    gone = frozenset(above)
    return value.model_copy(
        update={
            "dirty": (*(each for each in value.dirty if each not in gone), *mixed),
            "untracked": (*(each for each in value.untracked if each not in gone), *mixed),
        }
    )


def _without_own(value: CodeValue, spec: CodeSpec) -> CodeValue:
    """Return the state without the files that the cockpit and the runs write: they say nothing."""
    dirty = tuple(each for each in value.dirty if not is_own(each, spec))
    if dirty == value.dirty:
        return value
    untracked = tuple(each for each in value.untracked if not is_own(each, spec))
    patch = value.patch_id if dirty != untracked else None
    return value.model_copy(update={"dirty": dirty, "untracked": untracked, "patch_id": patch})


def _holds_own(folder: str, spec: CodeSpec) -> bool:
    """Tell whether something of the cockpit's or of a run's lies in a folder, or may."""
    return any(each.startswith(folder) for each in (*spec.own_files, *spec.output_folders))
