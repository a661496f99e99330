"""Checkpoints and roots that lie elsewhere, really looked at: one listing, a few bytes."""

from __future__ import annotations

import asyncio
from typing import Final

from cockpit.actions.checks.checkpoint import ORIGIN, begins_with, named_step
from cockpit.actions.core.parameters import safe
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.model.plan import Check
from cockpit.runtime.bucket_client import BucketError
from cockpit.sources.checkpoints.contents import (
    Entry,
    Level,
    ListingError,
    Piece,
    Tree,
    join,
    latest,
)
from cockpit.sources.checkpoints.source import list_anywhere, tree_at
from cockpit.text.checks import blocked, passed

READABLE: Final = "C-17:readable"
SECONDS: Final = 15.0
SOME: Final = 4
"""Files of a checkpoint of which a byte is read: its marker, its largest ones."""


async def origin(source: Place, clock: Clock) -> Check:
    """Return whether ``initialize_from`` is a complete checkpoint, and of which step.

    What cannot be read blocks: a person may answer for it.
    """
    where = str(source)
    try:
        value = await list_anywhere([where], clock=clock)
    except (OSError, ValueError, TimeoutError, ListingError) as error:
        gone = isinstance(error, ListingError) and error.kind is ErrorKind.NOT_FOUND
        text = f"initialize_from {source} cannot be read: {safe(error)}"
        return blocked(ORIGIN, text, value=where, overridable=not gone)
    path = where.rstrip("/")
    item = next((item for item in value.items if item.path.rstrip("/") == path), None)
    if item is None:
        text = f"initialize_from {source} is not a checkpoint: no marker in it"
        return blocked(ORIGIN, text, value=where)
    if not item.complete or item.step is None:
        why = item.note or item.state.value
        text = f"initialize_from {source} is not complete: {why}"
        return blocked(ORIGIN, text, value=where)
    return begins_with(where, item.step, named_step(source.path))


async def occupied(root: Place, clock: Clock) -> str | None:
    """Return why a root is not free: something lies there, or that cannot be told."""
    tree = tree_at(root, clock)
    if tree is None:
        return f"{root} is on a system that cannot be read from here"
    path = root.path.rstrip("/")
    try:
        found = await tree.fetch([path], [], _until())
    except (ListingError, BucketError, TimeoutError) as error:
        return f"cannot tell whether {root} is empty: {safe(error)}"
    level = found.level(path)
    if isinstance(level, ListingError):
        missing = level.kind is ErrorKind.NOT_FOUND and not level.whole
        return None if missing else f"cannot tell whether {root} is empty: {safe(level)}"
    if level is None:
        return f"cannot tell whether {root} is empty: no answer within {SECONDS:g} s"
    return _first(root, level)


def _first(root: Place, level: Level) -> str | None:
    names = sorted((*level.folders, *(entry.path for entry in level.files)))
    return f"{root} is not empty: {safe(names[0])}" if names else None


async def unreadable(pick: Place, clock: Clock) -> list[Check]:
    """Return why a checkpoint could not be loaded, as read from here: a byte of a few files."""
    tree = tree_at(pick, clock)
    if tree is None:
        return []
    try:
        trouble = await _unread(tree, pick.path.rstrip("/"))
    except (ListingError, BucketError, TimeoutError) as error:
        trouble = safe(error)
    if trouble is None:
        return [passed(READABLE, f"{pick} could be read from here")]
    return [blocked(READABLE, f"{pick} cannot be read from here: {trouble}", value=str(pick))]


async def _unread(tree: Tree, path: str) -> str | None:
    until = _until()
    parent, _, name = path.rpartition("/")
    found = await tree.fetch([], [path], until)
    files = found.walk(path)
    if isinstance(files, ListingError) or not files:
        level = (await tree.fetch([parent], [], until)).level(parent)
        single = level.files if isinstance(level, Level) else ()
        files, path = tuple(each for each in single if each.path == name), parent
    some = _some(files)
    if not some:
        return "nothing is there"
    pieces = {Piece(join(path, each.path), 0, 1): each for each in some}
    read = await tree.read(list(pieces), until)
    for piece, each in pieces.items():
        said = read.get(piece)
        if not isinstance(said, bytes):
            return f"{safe(each.path)}: {safe(said) if said is not None else 'no answer in time'}"
    return None


def _some(files: tuple[Entry, ...]) -> list[Entry]:
    full = [each for each in files if each.size]
    markers = sorted((e for e in full if "/" not in e.path), key=lambda e: latest(e.path))
    largest = sorted(full, key=lambda e: -e.size)
    return list(dict.fromkeys((*largest[: SOME // 2], *markers)))[:SOME]


def _until() -> float:
    return asyncio.get_running_loop().time() + SECONDS
