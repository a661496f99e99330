"""The state of a run's code repository: what a launch now would run (SPEC S-10, C-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, not_configured, unknown
from cockpit.model.observed import CodeValue
from cockpit.model.run import RunSpec
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text
from cockpit.sources.git.command import DEADLINE, GitStatus, git, status
from cockpit.text.logbook_scan import launched_sha, read_entries
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SEALS: Final = "refs/tags/seal"
_DIFF: Final = ("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")


class Code:
    """The code repositories of many runs; one that several runs share is asked once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tags: dict[str, tuple[str, ...]] = {}

    async def observe(self, runs: Sequence[RunSpec]) -> dict[str, Facet[CodeValue]]:
        """Return commit, branch, changed files and unpushed commits of each run's code."""
        repos = sorted({repo for run in runs if (repo := _repo(run)) is not None})
        found = await asyncio.gather(*(self._one(repo) for repo in repos))
        by_repo = dict(zip(repos, found, strict=True))
        facets = await asyncio.gather(*(self._of_run(run, by_repo) for run in runs))
        return {run.name: facet for run, facet in zip(runs, facets, strict=True)}

    async def _one(self, repo: str) -> Facet[CodeValue]:
        source = f"git {clean(repo, 4096)}"
        found = await status(repo)
        if isinstance(found, Problem):
            return unknown(found.kind, found.message, source, self._clock.now())
        words = ("for-each-ref", "--sort=creatordate", "--format=%(refname:strip=2)", SEALS)
        tags = await git(repo, *words)  # none where git cannot tell; the newest last
        self._tags[repo] = tuple(tags.text.splitlines()) if tags.ok and not tags.cut else ()
        value = CodeValue(
            sha=found.sha,
            branch=None if found.branch is None else scrub(found.branch),
            dirty=tuple(map(scrub, found.files)),
            unpushed=found.ahead,
            patch_id=await _patch_id(repo, found),
        )
        return known(value, source, self._clock.now())

    async def _of_run(self, run: RunSpec, facets: dict[str, Facet[CodeValue]]) -> Facet[CodeValue]:
        """Add the run's own seal, and the commit that its logbook records for its newest launch."""
        if run.code is None or run.code.repo is None:
            return not_configured("[run.code]")
        repo = _repo(run)
        if repo is None:
            where = str(run.code.repo)
            message = f"code on {clean(run.code.repo.endpoint)} is not read yet by this version"
            return unknown(ErrorKind.UNSUPPORTED, message, f"git {clean(where)}", self._clock.now())
        facet = facets[repo]
        update: dict[str, str | None] = {}
        if facet.value is None:
            return facet
        tags = reversed(self._tags.get(repo, ()))  # seal/<run>/<step>
        tag = next((tag for tag in tags if tag.rpartition("/")[0] == f"seal/{run.name}"), None)
        if tag is not None:
            update["sealed"] = clean(tag)
        if run.records.logbook is not None:
            with suppress(OSError, ValueError):  # the records facet says what is wrong with it
                sha = await offload(_recorded, run.records.logbook, deadline=DEADLINE)
                update["record_sha"] = sha
        if not update:
            return facet
        value = facet.value.model_copy(update=update)
        return facet.model_copy(update={"value": value})


def _repo(run: RunSpec) -> str | None:
    """Return the path of the run's repository if it lies on this machine."""
    return None if run.code is None or run.code.repo is None else run.code.repo.local


def _recorded(path: str) -> str | None:
    return launched_sha(read_entries(read_text(Path(path))))


async def _patch_id(repo: str, found: GitStatus) -> str | None:
    """Return the identity of the uncommitted changes of tracked files, if there are any.

    It stays the same when line numbers shift. ``None`` too when the change is too large.
    """
    if not found.files or found.sha is None:
        return None
    diff = await git(repo, *_DIFF)
    if not diff.ok or diff.cut or not diff.out:
        return None
    done = await git(repo, "patch-id", "--stable", stdin=diff.out)
    return clean(done.text.partition(" ")[0]) or None if done.ok else None
