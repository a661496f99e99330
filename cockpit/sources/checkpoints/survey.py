"""Checkpoint roots of an endpoint, listed for all runs that have some there, and remembered."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.model.place import Place
from cockpit.sources.checkpoints.assembly import Assembly, Outcome, Surveyed, Told, Want
from cockpit.sources.checkpoints.contents import Contents, ListingError, Stamp, Tree, latest
from cockpit.sources.checkpoints.listing import MARKERS, Folder, compact
from cockpit.text.safe import clean

WALK_EVERY: Final = 20
"""Looks after which a complete checkpoint is listed anew, whatever its times say."""
STAMPED: Final = 256
"""Known checkpoints of an endpoint that are asked for changes at each look, the newest first."""
_LIMIT: Final = 4096


class _Kept(NamedTuple):
    """A checkpoint as it was when it was listed last, and at which look that was."""

    folder: Folder
    looked: int
    settled: bool = False
    stamp: Stamp | None = None


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
        self._markers: set[str] = set()

    async def look(
        self, wants: Collection[Want], until: float
    ) -> dict[Want, Surveyed | ListingError]:
        """List the wanted roots; what was not listed in time is an error, or not judged yet.

        ``until`` is monotonic. What nothing there survives is each root's error.
        """
        self._looks += 1
        markers = {name for want in wants for name in want.markers}
        self._markers = {*MARKERS, *markers}
        self._contents.begin(markers)
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
                self._kept[path] = kept._replace(folder=folder, settled=address in complete)

    async def _told_all(
        self, wants: Collection[Want], told: Told, until: float
    ) -> tuple[dict[Want, Surveyed | ListingError], Outcome]:
        """Ask until nothing is missing, or the time is over: then what has come is put together."""
        roots = tuple({f"{want.path.rstrip('/')}/" if want.path else "" for want in wants})
        former = (path for path in self._levels if path.startswith(roots))
        levels = [*dict.fromkeys((*(want.path for want in wants), *former))]
        limits = self._tree.limits
        walks, some, stamps = [*self._again(roots)], limits.newest, self._stamps(roots)
        for turn in range(limits.rounds + 1):
            last = turn == limits.rounds or time.monotonic() >= until
            changed: Sequence[str] = ()
            if not last and (levels or walks or stamps):
                answer = await self._tree.fetch(levels, walks, until, self._markers, stamps)
                told.answers.append(answer)
                changed, stamps = [each for each in answer.changed if each not in walks], {}
            outcome = Outcome()
            found = {want: Assembly(want, told, outcome).result() for want in wants}
            levels = [path for path in outcome.missing.levels if path not in levels]
            new = sorted({*changed, *outcome.missing.walks} - {*walks}, key=latest)
            walks = new if len(new) <= 4 * some else new[:some]
            some *= limits.growth if new else 1
            if last or not (levels or walks or self._contents.missing):
                break
            await self._contents.fill(until)
        return found, outcome

    def _again(self, roots: tuple[str, ...]) -> Iterator[str]:
        """Yield what is listed anew though it is known: the unfinished, and some in turns.

        The newest of the complete ones is what a relaunch would load: its turn comes often.
        """

        def turn(path: str) -> tuple[int, tuple[bool, int]]:
            return (self._kept[path].looked, latest(path))

        wanted = {path: kept for path, kept in self._kept.items() if path.startswith(roots)}
        unfinished = [path for path, kept in wanted.items() if not kept.settled]
        limits = self._tree.limits
        yield from sorted(unfinished, key=turn)[: limits.unfinished]
        settled = sorted((path for path, kept in wanted.items() if kept.settled), key=turn)
        if not limits.rotation:
            due = self._looks - WALK_EVERY
            yield from (path for path in settled if wanted[path].looked < due)
            return
        newest: dict[str, str] = {}
        for path in settled:
            root = path.rpartition("/")[0]
            newest[root] = min(path, newest.get(root, path), key=latest)
        first = sorted(newest.values(), key=turn)[: limits.rotation // 2]
        yield from [*dict.fromkeys((*first, *settled))][: limits.rotation]

    def _stamps(self, roots: tuple[str, ...]) -> Mapping[str, Stamp]:
        """Return what tells of the complete checkpoints that are known that they have changed."""
        known = {
            path: kept.stamp
            for path, kept in self._kept.items()
            if kept.settled and kept.stamp is not None and path.startswith(roots)
        }
        most = STAMPED if self._tree.limits.rotation else len(known)
        return {path: known[path] for path in sorted(known, key=latest)[:most]}

    def _remember(self, outcome: Outcome) -> None:
        for path, (folder, stamp) in outcome.fresh.items():
            self._kept[path] = _Kept(folder, self._looks, stamp=stamp)
        kept = set(self._kept) - outcome.seen
        gone = [path for path in kept if path.rpartition("/")[0] in outcome.listed]
        for path in gone:
            del self._kept[path]
        self._contents.forget(gone)
        self._levels = tuple(outcome.used & outcome.fruitful)
        above = {each for path in outcome.late for each in map(str, PurePosixPath(path).parents)}
        known = outcome.listed - outcome.fruitful - outcome.seen - above
        barren = dict.fromkeys(known, self._looks)
        oldest = self._looks - self._tree.limits.barren
        self._barren = {p: at for p, at in {**self._barren, **barren}.items() if at > oldest}
