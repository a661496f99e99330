"""What is said of places that a launch writes to, here and on hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check
from cockpit.model.wording import size, steps
from cockpit.runtime.mounts import Missing
from cockpit.text.checks import blocked, warned
from cockpit.text.scrub import shown

ID: Final = "places"
DISK: Final = "disk"
PROGRAM: Final = "program"
READABLE: Final = "C-17:readable"
LEAST: Final = 16_000_000
"""Bytes that a log and a few notes need where the size of a checkpoint is not known."""
SAVES: Final = 2
"""Checkpoints for which there should be room: one beside the one that it follows (C-22)."""
FEW: Final = 64
"""Files that must still fit: a checkpoint of a few shards, the log, the notes."""
HOLDS_SAVES: Final = ("the output root", "the checkpoints' folder")


class Room(NamedTuple):
    """What a disk has left for this user: bytes and files; whether it counts them at all."""

    free: int
    files: int
    counts_bytes: int = 1
    counts_files: int = 1


def no_folder(what: str, path: str) -> Check:
    """Return that something else lies where a folder should be."""
    return blocked(ID, f"{what} is not a folder: {shown(path)}")


def unwritable(what: str, why: str, where: str) -> Check:
    """Return that a place takes no file of this user's."""
    return blocked(ID, f"{what} is not writable by this user: {why} ({shown(where)})")


def missing_place(what: str, path: str, missing: Missing) -> Check:
    """Return that a folder is not there, and what may be missing with it."""
    text = f"{what} is not there ({shown(path)}), and {missing.text}"
    return blocked(ID, text) if missing.sure else warned(ID, text)


def room_of(what: str, there: str, room: Room, need: int | None) -> list[Check]:
    """Return whether a disk has room for a save of ``need`` bytes, and for its files."""
    holds_saves = what in HOLDS_SAVES
    least = max(LEAST, need or 0) if holds_saves else LEAST
    where, checks = f"the disk of {what} ({shown(there)})", []
    if room.counts_bytes and room.free < least:
        kept = "a checkpoint" if need is not None and least == need else "a log"
        text = f"{where} has {size(room.free)} free, and {kept} takes {size(least)}"
        checks.append(blocked(DISK, text))
    elif room.counts_bytes and holds_saves and room.free < SAVES * (need or 0):
        text = f"{where} has {size(room.free)} free: less than {SAVES} checkpoints of {size(need)}"
        checks.append(warned(DISK, text))
    if room.counts_files and room.files < FEW:
        checks.append(blocked(DISK, f"{where} has inodes for only {room.files} more files"))
    return [check.model_copy(update={"moves": True}) for check in checks]


def no_workdir(workdir: str) -> Check:
    """Return that there is no folder to run the command in."""
    return blocked(PROGRAM, f"workdir does not exist: {shown(workdir)}")


def no_program(program: str, *, is_file: bool) -> Check:
    """Return that the command's program cannot be executed."""
    text = f"no executable program {shown(program)}"
    return blocked(PROGRAM, text + (f" (chmod +x {shown(program)})" if is_file else ""))


def no_script(script: str, workdir: str) -> Check:
    """Return that what Python should run is probably not there."""
    text = f"{shown(script)} does not exist, seen from workdir {shown(workdir)}"
    return blocked(PROGRAM, text, Basis.INFERRED, overridable=True)


def unreadable(pick: Pick, why: str, where: str) -> Check:
    """Return that a job of this user could not load a checkpoint."""
    text = f"step {steps(pick.step)} cannot be read by this user: {why} ({shown(where)})"
    return blocked(READABLE, text)


_TAKE_ONE: Final = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that are followed by a value."""


def script_of(words: Sequence[str]) -> str | None:
    """Return the Python file that a command probably runs, where that can be told.

    Only of a plain ``python [options] file.py``: anything else is the command's own affair.
    """
    if not Path(words[0]).name.startswith("python"):
        return None
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-" or (option[1:2] != "-" and set("cm") & set(option[1:])):
            return None
        if option in _TAKE_ONE:
            rest = rest[1:]
    plain = bool(rest) and rest[0].endswith(".py") and "$" not in rest[0]
    return rest[0] if plain else None
