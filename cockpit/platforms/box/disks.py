"""The disks of an ssh host that runs write to: many in one look, each told apart if one hangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.observed import Disk
from cockpit.model.place import Place
from cockpit.platforms.box import words
from cockpit.platforms.box.probe import Actor, Answers, Piece
from cockpit.runtime.mounts import shared_source
from cockpit.text.safe import clean

KIB: Final = 1024
TOGETHER: Final = 32
"""Places whose disks are asked for by one piece."""
_NUMBERS: Final = 3
Told = dict[Place, Disk | Problem]


async def disks_of(actor: Actor, places: Sequence[Place]) -> Told:
    """Return the disk of each place; those of a group that was not told whole, one by one.

    A host that tells nothing at all is not asked again.
    """
    asked = asked_of(places)
    answers = await actor.ask([words.LOAD, *asked])
    found = told_by(answers, asked)
    if not isinstance(answers[words.LOAD], bytes):
        return found
    return found | await asked_alone(actor, asked, found)


def asked_of(places: Sequence[Place]) -> dict[Piece, Sequence[Place]]:
    """Return what asks for the disks of places, with the places that each piece tells of."""
    groups = (places[at : at + TOGETHER] for at in range(0, len(places), TOGETHER))
    return {words.disks(group): group for group in groups}


async def asked_alone(
    actor: Actor, asked: Mapping[Piece, Sequence[Place]], found: Mapping[Place, Disk | Problem]
) -> Told:
    """Ask again for each disk that was not told beside others: one of them spoils the answer."""
    groups = (group for group in asked.values() if len(group) > 1)
    again = [place for group in groups for place in group if isinstance(found[place], Problem)]
    alone = {words.disks([place]): [place] for place in again}
    return told_by(await actor.ask(alone), alone) if alone else {}


def told_by(answers: Answers, asked: Mapping[Piece, Sequence[Place]]) -> Told:
    """Return the disk of each place by what its piece has said."""
    found: Told = {}
    for piece, group in asked.items():
        said = answers[piece]
        told = [said] * len(group) if isinstance(said, Problem) else told_of(said, len(group))
        found |= zip(group, told, strict=True)
    return found


def shared_by(told: Told) -> dict[Place, str | None]:
    """Return from where the disk of each place is mounted, if from a network; else ``None``.

    Of a place whose disk was not told nothing is said.
    """
    return {place: disk.shared for place, disk in told.items() if isinstance(disk, Disk)}


def told_of(said: bytes, count: int) -> Sequence[Disk | Problem]:
    """Return ``count`` disks from lines of ``df -Pk`` and, after a blank one, of ``df -Pi``."""
    sizes, _, inodes = said.decode("utf-8", "replace").partition("\n\n")
    lines = [line for line in sizes.split("\n") if line]
    files = [line for line in inodes.split("\n") if line]
    if len(lines) != count:
        return [_untold(lines)] * count
    files = files if len(files) == count else [""] * count
    told = list(zip(lines, files, strict=True))
    disks = {each: _disk(*each) for each in dict.fromkeys(told)}  # of most runs it is one disk
    return [disks[each] for each in told]


def _untold(lines: Sequence[str]) -> Problem:
    denied = any("Permission denied" in line for line in lines)
    kind = ErrorKind.PERMISSION if denied else ErrorKind.BAD_ANSWER
    return Problem(kind=kind, message=clean(lines[-1] if lines else "df says nothing", 160))


def _disk(line: str, more: str) -> Disk | Problem:
    bytes_of, inodes_of = _figures(line), _figures(more)
    if bytes_of is None:
        return _untold([line])
    mount, _, used, free = bytes_of
    usable = used + free
    source = line.rpartition("% ")[0].rsplit(None, _NUMBERS + 1)
    shared = shared_source(source[0].strip()) if source else None
    counted = inodes_of is not None and inodes_of[1] > 0
    return Disk(
        mount=clean(mount),
        shared=None if shared is None else clean(shared),
        free=free * KIB,
        used_frac=used / usable if usable else 1.0,
        inodes_frac=inodes_of[2] / inodes_of[1] if counted and inodes_of is not None else None,
    )


def _figures(line: str) -> tuple[str, int, int, int] | None:
    """Return (mount, total, used, free) of a line of ``df -P``; a name before may hold blanks."""
    head, sign, mount = line.rpartition("% ")
    if not sign:
        head, sign, mount = line.rpartition(" - ")  # no share of inodes that are not counted
    numbers = [int(field) for field in head.split()[-_NUMBERS - 1 :] if field.isdigit()]
    if not sign or len(numbers) < _NUMBERS:
        return None
    total, used, free = numbers[:_NUMBERS]
    return mount.strip(), total, used, free
