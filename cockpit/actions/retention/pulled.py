"""Are the artifacts here? A pulled copy held against its source, file by file (SPEC A-12).

Blocking. A source that lies elsewhere is listed first (``listed_away``).
Links in a copy are no copies, and a copy inside its source is none either.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from cockpit.model.base import Frozen

OWN: Final = ".cockpit"
_SHOWN: Final = 3
_VERIFIED: Final = re.compile(r"\bOK[ :]+(\d{1,9})\s*/\s*(\d{1,9})\b", re.I)
_ERRORS: Final = re.compile(r"\berrors?\b[ :=]+(\d{1,9})\b", re.I)


class Tree(Frozen):
    """The files below a folder: relative path → bytes; ``links`` are paths that are links."""

    files: dict[str, int]
    links: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """How many bytes all files have."""
        return sum(self.files.values())


class PulledComparison(Frozen):
    """How a copy compares with its source; ``trouble`` is one line when it is not complete."""

    count: int
    size: int
    trouble: str | None = None


def tree_of(folder: str) -> Tree:
    """Return every file below ``folder`` but our own notes; raises ``OSError``."""
    files, links = {}, []

    def fail(error: OSError) -> None:
        raise error

    for path, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if name != OWN)
        for name in (*names, *(each for each in folders if Path(path, each).is_symlink())):
            place = Path(path, name)
            found = place.lstat()
            relative = os.path.relpath(place, folder)
            if stat.S_ISLNK(found.st_mode):
                links.append(relative)
            else:
                files[relative] = found.st_size
    return Tree(files=files, links=tuple(links))


def compare(source: str, copy: str) -> PulledComparison:
    """Return whether ``copy`` holds every file of ``source`` at its size; raises ``OSError``."""
    one, other = os.path.realpath(source), os.path.realpath(copy)
    if one == other or other.startswith(f"{one}/") or one.startswith(f"{other}/"):
        return PulledComparison(
            count=0, size=0, trouble=f"{copy} is not a copy: it is inside its own source"
        )
    return held_against(tree_of(source), copy)


def held_against(there: Tree, copy: str, beside: frozenset[str] = frozenset()) -> PulledComparison:
    """Return whether ``copy`` holds every file that a source has listed; raises ``OSError``.

    Files called as in ``beside`` may lie in the copy alone.
    """
    here = tree_of(copy)
    more = {name for name in here.files if name not in there.files and Path(name).name in beside}
    here = Tree(files={n: s for n, s in here.files.items() if n not in more}, links=here.links)
    return PulledComparison(count=len(here.files), size=here.bytes, trouble=_trouble(there, here))


def _trouble(there: Tree, here: Tree) -> str | None:
    odd = [name for name in here.links if name not in there.links]
    if odd:
        return f"{len(odd)} files of the copy are links, not copies: {_some(odd)}"
    if not there.files:
        return "the source holds no file: nothing proves that anything was pulled"
    missing = sorted(there.files.keys() - here.files.keys())
    if missing:
        return f"{len(missing)} of {len(there.files)} files are not pulled: {_some(missing)}"
    shared = there.files.keys() & here.files.keys()
    differ = sorted(name for name in shared if there.files[name] != here.files[name])
    if differ:
        return f"{len(differ)} files differ in size: {_some(differ)}"
    more = sorted(here.files.keys() - there.files.keys() - set(there.links))
    if more:
        return f"the copy holds {len(more)} files that its source does not: {_some(more)}"
    return None


def _some(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def verified(output: str, artifacts: int) -> int | str:
    """Return how many artifacts a verify command that ended well has loaded, or what is wrong.

    It says ``OK N/N``; one that says no number has loaded all of them.
    """
    errors = [int(found) for found in _ERRORS.findall(output)]
    if any(errors):
        return f"it reports {max(errors)} errors"
    counts = _VERIFIED.findall(output)
    if not counts:
        return artifacts
    good, of = (int(figure) for figure in counts[-1])
    if good != of:
        return f"only {good} of {of} could be loaded"
    return good if good else "it has verified nothing"
