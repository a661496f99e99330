"""Roots on an ssh host: the same renames and deletions as on this machine, done by its shell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from cockpit.actions.retention.deleting import LEFT
from cockpit.actions.roots import host_scripts as scripts
from cockpit.actions.roots.ways import Access, Half, Move, RootError, RootLostError
from cockpit.actions.stopping.rejecting import ASIDE, ToReject, day_of, merged
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.records import Rejected
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError, run_script
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.contents import parse_marks
from cockpit.sources.checkpoints.listing import MARKERS
from cockpit.text.safe import clean

DEADLINE: Final = 20.0
DELETE_WITHIN: Final = 3600.0
CAP: Final = 8 << 20
TRIES: Final = 5
ASIDES: Final = 100
NONE: Final = "none"


class HostWays:
    """Acts on one host; ``roots`` are the run's own there, below which it may delete."""

    def __init__(self, host: str, roots: Sequence[Place]) -> None:
        self._host = host
        self._roots = [root for root in roots if root.scheme == SSH and root.host == host]

    async def access(self, root: Place, *, delete: bool) -> Access:
        """Prove that the root takes a folder and lets it go."""
        try:
            why = await self._refusal(scripts.movable(root.path, ()))
        except (RootError, RootLostError) as error:
            return Access(str(error))
        return Access(None if why is None else f"{root} {why}")

    async def mark(self, root: Place, rejected: Iterable[Rejected]) -> None:
        """Replace the root's own file if nobody has since it was read, a few times."""
        wanted, folder = tuple(rejected), f"{root.path.rstrip('/')}/{FOLDER}"
        for _ in range(TRIES):
            said = await self._run(scripts.read_file(f"{folder}/{NAME}"), DEADLINE)
            if said.rc != 0:
                raise RootError(f"{root}/{FOLDER}/{NAME} cannot be read: {_said(said)}")
            was, _, content = said.out.partition(b"\n")
            there = was.decode("ascii", "replace").strip()
            try:
                known = () if there == NONE else parse_marks(str(root), content)
            except ValueError as error:
                raise RootError(str(error)) from error
            data = merged(str(root), known, wanted).encode()
            if data == content:
                return
            script = scripts.write_file(folder, NAME, there)
            done = await self._run(script, DEADLINE, stdin=data)
            if done.rc == 0:
                return
            if done.rc != scripts.CHANGED:
                raise RootError(f"{root}/{FOLDER} {_reason(done)}")
        raise RootError(f"{root}/{FOLDER}/{NAME} keeps being changed by others")

    async def why_not_movable(self, to_reject: Sequence[ToReject]) -> str | None:
        """Return why one of them cannot be renamed inside its root, if that is so."""
        for root in dict.fromkeys(each.root for each in to_reject):
            mine = [each.path for each in to_reject if each.root == root]
            odd = next((path for path in mine if path.rpartition("/")[0] != root.rstrip("/")), None)
            if odd is not None:
                return f"{odd} does not lie directly in its root"
            script = scripts.movable(place_of(root).path, (place_of(path).path for path in mine))
            done = await self._run(script, DEADLINE)
            if done.rc != 0:
                return f"{clean(done.text.strip()) or root} {_reason(done)}"
        return None

    def moves(self, each: ToReject) -> bool:
        """Tell that every folder can be renamed."""
        return True

    def unmarked(self, each: ToReject, at: float) -> tuple[str, str] | None:
        """Return nothing: all of it moves."""
        return None

    async def aside(self, each: ToReject, at: float) -> Move:
        """Return a free place in ``<root>/rejected-<date>/``."""
        name, day = each.path.rstrip("/").rpartition("/")[2], day_of(at)
        folders = [f"{ASIDE}{day}{f'-{n}' if n > 1 else ''}" for n in range(1, ASIDES)]
        targets = [f"{each.root.rstrip('/')}/{folder}/{name}" for folder in folders]
        found = await self._there(*targets)
        free = (target for target, taken in zip(targets, found, strict=True) if not taken)
        target = next(free, None)
        if target is None:
            raise RootError(f"{each.root}: {ASIDES} folders {ASIDE}{day} hold a {name}")
        return Move(each.path, target)

    async def move(self, each: Move) -> None:
        """Rename."""
        script = scripts.move(place_of(each.was).path, place_of(each.target).path)
        why = await self._refusal(script)
        if why is not None:
            raise RootError(f"{each.was} {why}")

    async def has_moved(self, each: Move) -> bool:
        """Tell whether the rename has happened."""
        return await self._there(each.was, each.target) == [False, True]

    async def identity(self, path: str, markers: Iterable[str]) -> str:
        """Return its inode and times, and those of its markers."""
        script = scripts.identity(place_of(path).path, _inner(markers))
        done = await self._run(script, DEADLINE)
        if done.rc != 0 or not done.out.strip():
            raise RootError(f"{path} {_reason(done)}")
        return done.out.decode("utf-8", "surrogateescape").rstrip("\n")

    async def delete(self, path: str, was: str, plan: str, markers: Iterable[str]) -> None:
        """Rename it, then its marker goes, then its data: one script, which looks first."""
        place = place_of(path)
        root = next((root for root in self._roots if root.contains(place)), None)
        if root is None or root.normal() == place.normal():
            raise RootError(f"{path} {scripts.REASONS[scripts.OUTSIDE]}")
        half = LEFT.fullmatch(place.path.rpartition("/")[2])
        aside = place.path if half else f"{place.path.rstrip('/')}.deleting-{plan}"
        script = scripts.delete(root.path, place.path, aside, was, _inner(markers))
        why = await self._refusal(script, DELETE_WITHIN)
        if why is not None:
            raise RootError(f"{path} {why}")

    async def left_over(self, roots: Sequence[Place]) -> list[Half]:
        """Return the folders whose deletion was begun."""
        mine = {root.path: root for root in roots if root.scheme == SSH and root.host == self._host}
        if not mine:
            return []
        done = await self._run(scripts.half_deleted(mine), DEADLINE)
        found = []
        for record in done.out.decode("utf-8", "surrogateescape").split("\0"):
            size, _, path = record.partition(" ")
            if path and LEFT.fullmatch(path.rpartition("/")[2]):
                address = str(replace(next(iter(mine.values())), path=path))
                found.append(Half(address, int(size) * 1024 if size.isdigit() else None))
        return found

    async def gone(self, path: str) -> bool:
        """Tell whether nothing has that name, nor the one it has while it is deleted."""
        done = await self._run(scripts.gone(place_of(path).path), DEADLINE)
        if done.rc != 0 or done.out.strip() not in (b"0", b"1"):
            raise RootError(f"{path} {_reason(done)}")
        return done.out.strip() == b"1"

    async def _there(self, *paths: str) -> list[bool]:
        script = scripts.there(*(place_of(path).path for path in paths))
        done = await self._run(script, DEADLINE)
        said = done.out.split()
        if len(said) != len(paths) or set(said) - {b"0", b"1"}:
            raise RootLostError(f"{self._host}: its shell's answer cannot be parsed")
        return [each == b"1" for each in said]

    async def _refusal(self, script: str, deadline: float = DEADLINE) -> str | None:
        done = await self._run(script, deadline)
        return None if done.rc == 0 else _reason(done)

    async def _run(self, script: str, deadline: float, stdin: bytes | None = None) -> Completed:
        try:
            return await run_script(self._host, script, deadline=deadline, cap=CAP, stdin=stdin)
        except RemoteError as error:
            kind = RootLostError if error.sent else RootError
            raise kind(clean(error, 500)) from error
        except TimeoutError as error:
            raise RootLostError(f"{self._host}: no answer within {deadline:g} s") from error


def _reason(done: Completed) -> str:
    known, said = scripts.REASONS.get(done.rc), _said(done)
    if known is None:
        return f"cannot be changed (status {done.rc}{f': {said}' if said else ''})"
    return f"{known}: {said}" if said else known


def _said(done: Completed) -> str:
    """Return why the host's last command failed, as it says itself."""
    lines = done.err.decode("utf-8", "replace").strip().splitlines()
    return clean(lines[-1].rpartition(": ")[2].lower(), 200) if lines else ""


def _inner(markers: Iterable[str]) -> list[str]:
    """Return the markers to look for inside a folder; a name that leads out of it is none."""
    names = {*MARKERS, *markers}
    return sorted(
        n for n in names if n and not n.startswith(("/", "-")) and ".." not in n.split("/")
    )
