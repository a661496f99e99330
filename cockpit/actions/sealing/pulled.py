"""A pulled copy held against its source, file by file, wherever that lies (SPEC A-12, A-13)."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import ActionContext, plural, safe
from cockpit.model import check_rows as rows
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.place import Place
from cockpit.model.plan import Check
from cockpit.model.wording import duration, size
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BUCKETS, Bucket, Key
from cockpit.runtime.http import Http
from cockpit.runtime.offload import offload
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.source import CLOCK_WITHIN
from cockpit.text.checks import blocked, passed

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


MOST: Final = 2_000_000
"""Objects of one root at most."""
WITHIN: Final = 110.0


class NotListedError(Exception):
    """It could not be listed to its end; the text is one line."""


async def listed(root: Place, clock: Clock) -> Tree:
    """Return the files below a root, but for our own notes; raises ``NotListedError``."""
    try:
        files = await (_bucket(root, clock) if root.scheme in BUCKETS else _host(root))
    except (BucketError, ListingError, TimeoutError) as error:
        raise NotListedError(f"{root} cannot be listed: {safe(error)}") from error
    own = {name: size for name, size in files.items() if OWN not in name.split("/")[:-1]}
    return Tree(files=own)


async def _bucket(root: Place, clock: Clock) -> dict[str, int]:
    bucket = Bucket(root.scheme, root.host, clock, Http(clock, deadline=CLOCK_WITHIN))
    prefix = root.path.strip("/")
    keys: list[Key] = []
    async with asyncio.timeout(WITHIN):
        if not await bucket.keys(prefix, MOST, keys):
            raise NotListedError(f"{root} holds more than {MOST:,} objects")
        if not keys:
            await bucket.see_nothing(prefix)
    cut = len(prefix) + 1 if prefix else 0
    return {key.path[cut:]: key.size for key in keys if key.path != prefix}


async def _host(root: Place) -> dict[str, int]:
    until = time.monotonic() + WITHIN
    path = root.path.rstrip("/")
    found = (await HostTree(root.host).fetch([], [path], until)).walk(path)
    if isinstance(found, ListingError):
        raise found
    if found is None:
        raise NotListedError(f"{root} was not listed to its end in time")
    return {entry.path: entry.size for entry in found.files}


COMPARE_WITHIN: Final = 120.0
CONSOLE: Final = "check the provider's console"


async def pulled(context: ActionContext, pulled_to: str | None) -> tuple[Check, int]:
    """Compare the pulled copy with its source; return how many files it holds, too."""
    sources = _sources(context)
    if not sources:
        return blocked(rows.PULLED, "no output_root in cockpit.toml to compare with"), 0
    if pulled_to is None:
        text = "no folder is named that the artifacts are pulled to (teardown.pulled_to)"
        return blocked(rows.PULLED, text), 0
    named = " + ".join(map(str, sources))
    try:
        parts = [
            await compared(context, source, _copy_of(source, sources, pulled_to))
            for source in sources
        ]
    except TimeoutError:
        text = f"{named} did not answer within {duration(COMPARE_WITHIN)}; {CONSOLE}"
        return blocked(rows.PULLED, text), 0
    except NotListedError as error:
        return blocked(rows.PULLED, f"{error}; {CONSOLE}"), 0
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        where = error.filename or named
        return blocked(rows.PULLED, f"{where}: {reason}; {CONSOLE}"), 0
    count, bytes_ = sum(part.count for part in parts), sum(part.size for part in parts)
    trouble = next((part.trouble for part in parts if part.trouble is not None), None)
    if trouble is not None:
        return blocked(rows.PULLED, trouble), count
    text = f"{plural(count, 'file')}, {size(bytes_)}, equal to {named}"
    return passed(rows.PULLED, text, value=str(count)), count


def _sources(context: ActionContext) -> tuple[Place, ...]:
    """Return what must be pulled: the output root, else the checkpoints' roots."""
    root, spec = context.spec.output_root, context.spec.checkpoints
    if root is not None:
        return (root,)
    return spec.path if spec is not None else ()


def _copy_of(source: Place, sources: Sequence[Place], copy: str) -> str:
    """Return where a source's copy lies; of several, each has a folder of its name."""
    return copy if len(sources) == 1 else str(Path(copy, Path(source.path).name))


async def compared(
    context: ActionContext, source: Place, copy: str, beside: frozenset[str] = frozenset()
) -> PulledComparison:
    """Return how a copy compares with its source, listed where it lies."""
    if source.here and not beside:
        return await offload(compare, source.path, copy, deadline=COMPARE_WITHIN)
    if source.here:
        there = await offload(tree_of, source.path, deadline=COMPARE_WITHIN)
    else:
        there = await listed(source, context.parts.clock)
    return await offload(held_against, there, copy, beside, deadline=COMPARE_WITHIN)
