"""What has changed in the code since it was launched last: asked of git, changing nothing."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.base import Frozen
from cockpit.model.observed import CodeValue
from cockpit.sources.git import git, trouble
from cockpit.text.safe import clean

_SHA: Final = re.compile(r"[0-9a-f]{7,64}")
_NAMES: Final = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")


class Changes(Frozen):
    """Changed files, as safe names from the repository's root; ``None``: cannot be told.

    ``base`` is the recorded commit and ``source`` who recorded it. ``committed`` changed from
    there to HEAD, ``unpushed`` in commits that the upstream does not have, ``untracked`` are
    new files that git does not know.
    """

    base: str | None = None
    source: str = ""
    committed: tuple[str, ...] | None = None
    unpushed: tuple[str, ...] | None = None
    untracked: tuple[str, ...] | None = None
    trouble: str | None = None


async def changes_since(
    repo: str, code: CodeValue | None, base: str | None, source: str
) -> Changes:
    """Return what changed in a repository since the recorded commit ``base``."""
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


async def _between(
    repo: str, base: str | None, head: str
) -> tuple[tuple[str, ...] | None, str | None]:
    if base is None:
        return None, "no launch has recorded its commit"
    if not _SHA.fullmatch(base):
        return None, f"the record names no commit: {clean(base, 80)}"
    if head.startswith(base):
        return (), None
    done = await git(repo, "diff", *_NAMES, f"{base}^{{commit}}", "HEAD", "--")
    if done.ok and not done.cut:
        return _split(done.text), None
    if "unknown revision" in done.err.decode("utf-8", "replace") or done.rc == 128:
        return None, f"the recorded commit {base[:10]} is not in {clean(repo, 500)}"
    return None, trouble(repo, done).message


async def _names(repo: str, *words: str) -> tuple[str, ...] | None:
    done = await git(repo, *words)
    return _split(done.text) if done.ok and not done.cut else None


def _split(text: str) -> tuple[str, ...]:
    return tuple(_safe(name) for name in text.split("\0") if name)


def _safe(name: str) -> str:
    """Return a name that may be shown; one that had to be changed matches no pattern."""
    safe = clean(name, 1000)
    return safe if safe == name else f"{safe} (odd name)"
