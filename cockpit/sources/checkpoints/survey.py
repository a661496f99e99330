"""Roots away from this machine, listed for all runs of one endpoint and remembered.

Each look names what lies in the roots; only checkpoints that are new or not complete are listed,
and a few of the others in turns: a lifecycle rule may take their data and leave the marker. Small
markers are read when they are new or changed. All that a pass over the roots finds missing is
asked for together, until nothing is missing or the time is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cockpit.model.place import Place
from cockpit.sources.checkpoints.assembly import (
    Assembly,
    Outcome,
    Surveyed,
    Told,
    Want,
)
from cockpit.sources.checkpoints.contents import Contents
from cockpit.sources.checkpoints.listing import Folder, compact
from cockpit.sources.checkpoints.tree import ListingError, Tree, latest
from cockpit.text.safe import clean

ROTATION: Final = 4
"""Complete checkpoints of an endpoint that are listed anew at each look, in turns."""
UNFINISHED: Final = 64
"""Others of an endpoint that are listed anew at each look, in turns if there are more."""
MANY: Final = 24
NEWEST: Final = 6
"""Of more new checkpoints than ``MANY`` so many come first, with their markers."""
BARREN: Final = 5
"""Looks for which a folder in which no checkpoint was found is not looked into again."""
ROUNDS: Final = 8
"""Times that what is missing is asked for: names three levels deep, files, their contents."""
_LIMIT: Final = 4096


class _Kept(NamedTuple):
    """A checkpoint as it was when it was listed last, and at which look that was."""

    folder: Folder
    looked: int
    settled: bool = False


class Survey:
    """Remembers the roots at one endpoint from look to look."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._contents = Contents(tree)
        self._kept: dict[str, _Kept] = {}
        self._barren: dict[str, int] = {}
        self._levels: tuple[str, ...] = ()
        """Folders whose names the former look has needed: this one will need them too."""
        self._looks = 0
        self._place: Place | None = None

    async def look(
        self, wants: Collection[Want], until: float
    ) -> dict[Want, Surveyed | ListingError]:
        """List the wanted roots; what was not listed in time is an error, or not judged yet.

        ``until`` is on the event loop's clock. What nothing there survives is each root's error.
        """
        self._looks += 1
        self._contents.begin({name for want in wants for name in want.markers})
        kept = {path: kept.folder for path, kept in self._kept.items()}
        told = Told(self._contents, kept, self._barren)
        try:
            found, outcome = await self._told_all(wants, told, until)
        except ListingError as error:
            return dict.fromkeys(wants, error)
        self._remember(outcome)
        for want in wants:
            self._place = replace(want.place, path="")
        return found

    def settle(self, complete: Collection[str], there: Collection[str]) -> None:
        """Keep which of the checkpoints ``there`` (addresses) were found complete."""
        base = self._place
        if base is None:
            return
        for path, kept in list(self._kept.items()):
            address = clean(str(replace(base, path=path)), _LIMIT)
            if address in there and kept.settled != (address in complete):
                folder = compact(kept.folder) if address in complete else kept.folder
                self._kept[path] = _Kept(folder, kept.looked, address in complete)

    async def _told_all(
        self, wants: Collection[Want], told: Told, until: float
    ) -> tuple[dict[Want, Surveyed | ListingError], Outcome]:
        """Ask until nothing is missing, or the time is over."""
        roots = tuple({f"{want.path.rstrip('/')}/" if want.path else "" for want in wants})
        former = (path for path in self._levels if path.startswith(roots))
        levels = [*dict.fromkeys((*(want.path for want in wants), *former))]
        walks, begun = [*self._again(roots)], False
        for _ in range(ROUNDS):
            if levels or walks:
                told.answers.append(await self._tree.fetch(levels, walks, until))
            outcome = Outcome()
            found = {want: Assembly(want, told, outcome).result() for want in wants}
            levels = [path for path in outcome.missing.levels if path not in levels]
            new = sorted((p for p in outcome.missing.walks if p not in walks), key=latest)
            walks = new[:NEWEST] if len(new) > MANY and not begun else new
            begun = begun or bool(new)
            reads = bool(self._contents.missing)
            await self._contents.fill(until)
            if not (levels or walks or reads):
                break
        return found, outcome

    def _again(self, roots: tuple[str, ...]) -> Iterator[str]:
        """Yield what is listed anew though it is known: the unfinished, and some in turns.

        The newest of the complete ones is what a relaunch would load: its turn comes often.
        """

        def turn(path: str) -> tuple[int, tuple[bool, int]]:
            return (self._kept[path].looked, latest(path))

        wanted = {path: kept for path, kept in self._kept.items() if path.startswith(roots)}
        unfinished = [path for path, kept in wanted.items() if not kept.settled]
        yield from sorted(unfinished, key=turn)[:UNFINISHED]
        settled = sorted((path for path, kept in wanted.items() if kept.settled), key=turn)
        newest: dict[str, str] = {}
        for path in settled:
            root = path.rpartition("/")[0]
            newest[root] = min(path, newest.get(root, path), key=latest)
        first = sorted(newest.values(), key=turn)[: ROTATION // 2]
        yield from [*dict.fromkeys((*first, *settled))][:ROTATION]

    def _remember(self, outcome: Outcome) -> None:
        for path, folder in outcome.fresh.items():
            former = self._kept.get(path)
            self._kept[path] = _Kept(folder, self._looks, former is not None and former.settled)
        kept = set(self._kept) - outcome.seen
        gone = [path for path in kept if path.rpartition("/")[0] in outcome.listed]
        for path in gone:
            del self._kept[path]
        self._contents.forget(gone)
        self._levels = tuple(outcome.used & outcome.fruitful)
        barren = dict.fromkeys(outcome.used - outcome.fruitful - outcome.seen, self._looks)
        recent = {p: at for p, at in self._barren.items() if self._looks - at < BARREN}
        self._barren = {**recent, **barren}
