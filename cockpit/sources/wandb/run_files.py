"""All ``.wandb`` files of one run, joined: the tracker facet's value, and its rows in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import WandbSpec
from cockpit.runtime.process import Held
from cockpit.sources.wandb.file import BLOCK, NotWandbError
from cockpit.sources.wandb.fragment import Fragment, find, ids_in, others_in
from cockpit.sources.wandb.history import Pass, RowChunk
from cockpit.sources.wandb.launches import LaunchFile, LocalFile
from cockpit.sources.wandb.metrics import MetricKeys, choose
from cockpit.sources.wandb.rows import StepRate, rated
from cockpit.sources.wandb.tail import newest_rows
from cockpit.sources.wandb.value import ShownConfig, newest_head, tracker_value, with_state

_SHOWN_IDS = 5


class Wants(NamedTuple):
    """What the readers of one file need of it next, where not all of its bytes are here.

    ``read_to``: up to where its newest rows were read, 0 before that. ``missed``: ranges without
    which they are not all known. ``unread``: from where on every row is still to be given out, and
    up to where bytes are needed for the next ones (0: all that is here was read). ``done``: up to
    where all was read that there is to read, as long as the file only grows.
    """

    read_to: int = 0
    missed: tuple[tuple[int, int], ...] = ()
    unread: tuple[int, int] | None = None
    done: int = 0

    @property
    def behind(self) -> bool:
        """Whether bytes must be brought before its rows go on."""
        return self.unread is not None and self.unread[1] > 0


def together(wants: Sequence[Wants]) -> Wants:
    """Return what several readers of one file need of it.

    Its end is brought for the first of them, where that one has not begun for the others. Of those
    that are behind the farthest back goes first: what is brought for it is there for the others.
    """
    own, behind = wants[0], [each.unread for each in wants if each.unread and each.behind]
    missed = sorted({span for each in wants for span in each.missed})
    read_to = own.read_to or min((each.read_to for each in wants if each.read_to), default=0)
    done = min(each.done for each in wants)
    return Wants(read_to, tuple(missed), min(behind) if behind else own.unread, done)


class RunFiles:
    """The files of one run and everything that was read of them; safe to use from any thread.

    Methods block; they raise ``OSError`` where the files cannot be read, ``FileNotFoundError``
    where there are none of this run, and ``NotWandbError`` where they are something else.
    """

    def __init__(
        self,
        spec: WandbSpec,
        found: Callable[[], Sequence[LaunchFile]] | None = None,
        beside: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        """Take how its files are found; without that they are looked for on this machine.

        ``beside`` says which other runs lie there, where the run file names none.
        """
        self._spec = spec
        self._beside = beside or self._beside_here
        self._found = found or self._found_here
        self._lock = Lock()
        self._fragments: dict[str, Fragment] = {}
        self._order: list[Fragment] = []
        self._keys = MetricKeys()
        self._pass = Pass()
        self._config = ShownConfig()
        self._held = Held()
        self._held_files = Held()
        self._value: tuple[object, TrackerValue] | None = None
        self.read_out = False
        """Whether by the last ``value`` every row of the files had been given out."""

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as the files were looked at."""
        return self._keys

    def value(self, clock: Clock) -> TrackerValue:
        """Return what is known now: newest rows, exact columns as far as read, else samples."""
        with self._lock:
            self.read_out = False
            self._list()
            self._look()
            self.read_out = self._pass.read_out(self._order, self._keys)
            held = self._writing()
            seen = (self._keys, self._pass.progress, tuple(one.seen for one in self._order), held)
            if self._value is None or self._value[0] != seen:
                self._value = (seen, self._made(held))
            return with_state(self._value[1], clock.now())

    def more(self) -> RowChunk:
        """Return the next chunk of every logged row (see ``RowChunk``)."""
        with self._lock:
            if not self._fragments or any(one.replaced() for one in self._order):
                self._list()
            self._look()
            return self._pass.next(self._order, self._keys)

    def rewind(self) -> None:
        """Give out every row from the first one again: another source has stood in meanwhile."""
        with self._lock:
            self._pass.rewind()
            self.read_out = False

    def recent(self, most: int) -> RowChunk:
        """Return the last ``most`` rows; ``share`` is how much of the files they cover."""
        with self._lock:
            self._list()
            self._look()
            return self._recent(most)

    @property
    def lacking(self) -> bool:
        """True where it cannot go on before more of its files has been brought."""
        return any(each.missed or each.behind for each in self.wants().values())

    def wants(self) -> dict[str, Wants]:
        """Return what is needed of each file, by its path; empty before the first look."""
        with self._lock:
            return {
                path: Wants(
                    one.read_to, tuple(sorted(one.missed)), self._pass.unread(one), self._done(one)
                )
                for path, one in self._fragments.items()
            }

    def _done(self, one: Fragment) -> int:
        """Return where the first block begins that is read again once the file has grown."""
        if one.missed or not one.head_known:
            return 0
        return min(one.read_to, self._pass.done(one)) // BLOCK * BLOCK

    def closer(self, path: str) -> None:
        """Say that what was missed of a file is here now: it is looked at anew."""
        with self._lock:
            if path in self._fragments:
                self._fragments[path].learn_again()

    def _list(self) -> None:
        """Find the run's files again; one that was replaced begins anew."""
        files = self._found()
        kept = {path: one for path, one in self._fragments.items() if not one.replaced()}
        metrics = self._spec.metrics
        self._fragments = {
            file.path: kept.get(file.path) or Fragment(file, metrics) for file in files
        }

    def _found_here(self) -> list[LaunchFile]:
        place, run_id = "" if self._spec.dir is None else self._spec.dir.path, self._spec.run_id
        paths = find(place, run_id, self._held.of)
        if not paths:
            raise FileNotFoundError(missing(place, run_id, ids_in(place)))
        return [LocalFile(path) for path in paths]

    def _look(self) -> None:
        """Stat each file, learn from what is new, and keep the order of the starts."""
        wrong: list[NotWandbError] = []
        sound: list[Fragment] = []
        for fragment in self._fragments.values():
            try:
                fragment.refresh()
                sound.append(fragment)
            except NotWandbError as error:
                wrong.append(error)
        if not sound:
            raise wrong[0]
        self._order = sorted(sound, key=lambda one: (one.started_at, one.name))
        rows = [row for one in self._order for row in one.layout.rows]
        self._keys = choose(rows, self._spec.metrics, self._keys)
        for fragment in sound:
            fragment.judge_clock(self._keys)

    def _writing(self) -> frozenset[str]:
        """Return which of the run's files a process has open for writing, of several."""
        if len(self._order) < 2:
            return frozenset()
        if any(one.file.far for one in self._order):
            return frozenset(one.path for one in self._order if one.file.written)
        return self._held_files.of([one.path for one in self._order]) or frozenset()

    def _beside_here(self) -> tuple[str, ...]:
        """Return what is said of other runs in the folder, where the run file names none."""
        place = self._spec.dir
        if place is None or not place.here or self._spec.run_id is not None:
            return ()
        return others_in(place.path, self._order[-1].id, self._held.of)

    def _made(self, held: frozenset[str]) -> TrackerValue:
        run = newest_head(self._order).run
        config = {**(run.config if run else {}), **self._pass.config_of(self._order[-1])}
        shown = self._config.shown(config)
        value = tracker_value(self._spec, self._order, self._keys, self._pass, shown, held)
        return value.model_copy(update={"notes": self._beside()})

    def _recent(self, most: int) -> RowChunk:
        total = sum(one.size for one in self._order)
        parts: list[tuple[Row, ...]] = []
        covered = wanted = 0
        for fragment in reversed(self._order):
            wanted = most - sum(len(part) for part in parts)
            if wanted <= 0 or not fragment.ready:
                continue
            with fragment.file.open() as log:
                rows, start = newest_rows(log, fragment.reader(self._keys), wanted)
            rows = fragment.on_our_clock(rows)
            parts.insert(0, tuple(rated(rows, self._keys, StepRate())))
            covered += fragment.size - start
        flat = tuple(row for part in parts for row in part)
        return RowChunk(flat, True, False, min(1.0, covered / total) if total else 1.0)


def missing(place: str, wanted: str | None, ids: Sequence[str]) -> str:
    """Say that the run is not there, and what is: an id is seldom what its trainer made up."""
    there = [one for one in ids if one]
    if wanted is None or not there:
        what = "no W&B run" if wanted is None else f"no W&B run {wanted}, nor any other,"
        return f"{what} in {place} yet"
    shown = ", ".join(there[:_SHOWN_IDS])
    more = f" and {len(there) - _SHOWN_IDS} more" if len(there) > _SHOWN_IDS else ""
    advice = "without wandb.id the newest is read"
    return f"no W&B run {wanted} in {place}; there: {shown}{more} (newest first; {advice})"
