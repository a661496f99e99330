"""Which files changed between two commits, and which are not pushed or known to git (C-15)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cockpit.model.base import Frozen
from cockpit.model.lineage import Touches, touches
from cockpit.model.observed import CodeValue
from cockpit.model.place import Place
from cockpit.model.run import CodeSpec
from cockpit.sources.git.away import NO_LINK
from cockpit.sources.git.command import git, trouble
from cockpit.text.safe import clean

_MARK: Final = "\x01"
_BEFORE: Final = 50
_AFTER: Final = 5000
"""Commits before and after a recorded one that are looked at: weeks of a logbook."""
_SHA: Final = re.compile(r"[0-9a-f]{7,64}")
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
    unpushed = await _names(repo, "diff", *_NAMES, "@{upstream}", "HEAD", "--")
    untracked = await _names(
        repo, "ls-files", "--others", "--exclude-standard", "-z", "--full-name"
    )
    return Changes(
        base=base,
        source=source,
        committed=committed,
        unpushed=unpushed if code.unpushed else () if code.unpushed == 0 else None,
        untracked=untracked,
        trouble=why,
    )


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
