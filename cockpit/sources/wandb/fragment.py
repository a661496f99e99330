"""One ``.wandb`` file of a run: what has been learned of it, and how far its rows were read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.run_folders import RunThere, beside, living
from cockpit.sources.wandb.alike import AlikeRows, passed
from cockpit.sources.wandb.decode import (
    CONFIG,
    HISTORY,
    BadMessageError,
    KeyLayout,
    RowReader,
    StepRate,
    config_update,
    kind_of,
    rated,
)
from cockpit.sources.wandb.file import MAGIC, LaunchFile, Span, WandbLog
from cockpit.sources.wandb.metrics import ClockReading as Look
from cockpit.sources.wandb.metrics import MetricKeys, offset_of
from cockpit.sources.wandb.tail import (
    HEAD_BYTES,
    Head,
    Latest,
    head,
    latest,
    learn,
    learn_newest,
    sample,
)

MOST_LAUNCHES: Final = 64
"""Newest launches of a folder among which the run that goes on is looked for."""
HEADER: Final = 7
"""Bytes of a file in which nothing was written yet."""
_OFFLINE: Final = "offline-"


class Launch(NamedTuple):
    """A launch's file: its path, its size, and when it was last written to (epoch, s)."""

    path: str
    size: int
    written: float

    @property
    def run_id(self) -> str:
        """The run's id, by the file's name."""
        return id_in_name(self.path)

    @property
    def name(self) -> str:
        """The launch's name; sorting by it gives the order of the launches."""
        return launch_name(self.path)


def id_in_name(path: str) -> str:
    """Return the run id that a file's name gives: ``run-<id>.wandb``."""
    return PurePosixPath(path).stem.removeprefix("run-")


def launch_name(path: str) -> str:
    """Return the name of a file's folder, ``run-20260311_084100-ID``, offline or not."""
    return PurePosixPath(path).parent.name.removeprefix(_OFFLINE)


def runs_of(
    launches: Iterable[Launch], held: Collection[str] | None, zone: str = ""
) -> list[RunThere]:
    """Return the runs by their ids, each with what its newest launch tells of it.

    ``held`` are the paths that a process writes, ``None`` where that cannot be seen. ``zone`` is
    that of the machine which named the folders (``+0100``); empty: this one's.
    """
    by_id: dict[str, list[Launch]] = {}
    for each in launches:
        by_id.setdefault(each.run_id, []).append(each)
    return [
        RunThere(
            name=run_id,
            began=_launch_time(max(own, key=lambda each: each.name), zone),
            written=max(each.written for each in own),
            empty=all(each.size <= HEADER for each in own),
            held=None if held is None else any(each.path in held for each in own),
        )
        for run_id, own in by_id.items()
    ]


def notes_on(runs: Sequence[RunThere], run_id: str) -> tuple[str, ...]:
    """Return a line that names the other runs which go on, or started, beside the one read."""
    chosen = next((each for each in runs if each.name == run_id), None)
    if chosen is None:
        return ()
    return beside([each for each in runs if each.written >= chosen.began], chosen)


def _launch_time(launch: Launch, zone: str) -> float:
    """Return when a launch began, by the name of its folder."""
    try:
        if zone:
            return datetime.strptime(launch.name[4:19] + zone, "%Y%m%d_%H%M%S%z").timestamp()
        return datetime.strptime(launch.name[4:19], "%Y%m%d_%H%M%S").astimezone().timestamp()
    except ValueError:
        return launch.written


STALE_SAMPLE = 0.1
"""Share by which a file may grow before it is sampled again: a sample reads all along it."""


class Fragment:
    """What one launch of the run has written; grows with its file.

    ``ready`` is False until the file's header is there. A file that was replaced or cut is
    another fragment: see ``replaced``. Of a file that lies elsewhere only what was brought is read;
    ``missed`` are the ranges that a closer look needs, and ``learn_again`` is told when they came.
    """

    def __init__(self, file: LaunchFile, configured: MetricNames) -> None:
        self.file = file
        self.path = file.path
        self.missed: set[tuple[int, int]] = set()
        self.head = Head()
        self.layout = KeyLayout(configured)
        self._configured = configured
        self._turns = 0
        self.ready = False
        self.size = 0
        self.mtime = 0.0
        self.offset = 0.0
        """The trainer's clock minus ours, as far as it is known (s), its host's included."""
        self._clock: Look | None = None
        self._identity: tuple[int, int] | None = None
        self._length = 0
        """Bytes it had at the last look, whatever of it is to be learned again."""
        self._latest: tuple[MetricKeys, Latest] | None = None
        self._sample: tuple[MetricKeys, int, int, list[Row]] | None = None

    @property
    def name(self) -> str:
        """The directory's name, which tells when the launch was."""
        return self.file.name

    @property
    def id(self) -> str:
        """The run's id: the run record's, else the file name's."""
        run = self.head.run
        return (run.id if run is not None else None) or id_in_name(self.path)

    @property
    def started_at(self) -> float:
        """When the launch began: the run record's start, else when the file last changed."""
        run = self.head.run
        recorded = run.started_at if run is not None else None
        return self.mtime if recorded is None else recorded - self.offset

    @property
    def version(self) -> tuple[str, int, float, int]:
        """What a later look is compared with: equal means that nothing is new."""
        return self.path, self.size, self.mtime, self._turns

    def replaced(self) -> bool:
        """Tell whether the path now holds another file, or less of the same, or nothing."""
        try:
            now = self.file.stat()
        except FileNotFoundError:
            return True
        known = self._identity in (None, now.identity)
        return not known or now.size < self._length

    def refresh(self) -> None:
        """Look at the file again: one ``stat`` when nothing is new.

        Raises ``OSError``, or ``NotWandbError`` when the file is something else.
        """
        now = self.file.stat()
        self._identity = now.identity
        self._length = now.size
        self.mtime = now.mtime
        if now.size == self.size:
            return
        with self._opened() as log:
            self.ready = (self.ready and self.file.far) or log.started()
            if self.ready and not self.head_known:
                found = head(log)  # what is not here any more unsays nothing
                self.head = self.head if log.missed and self.head.run is not None else found
            if self.ready:
                (learn_newest if self.layout.rows else learn)(log, self.layout)
        self.size = now.size

    def learn_again(self) -> None:
        """Start again with a file of which more is here now; no row is given out twice for it."""
        self._turns += 1
        self.layout = KeyLayout(self._configured)
        self._latest = None
        self.size = 0
        self.missed.clear()

    @contextmanager
    def _opened(self) -> Iterator[WandbLog]:
        with self.file.open() as log:
            yield log
            self.missed.update(log.missed)

    @property
    def head_known(self) -> bool:
        """Whether its first records have said all that is looked for there."""
        return self.head.whole or self.size >= HEAD_BYTES

    @property
    def read_to(self) -> int:
        """The offset up to which the newest rows were read; 0 before the first look."""
        return 0 if self._latest is None else self._latest[1].offset

    def latest(self, keys: MetricKeys) -> Latest:
        """Return the newest of everything in this file."""
        if not self.ready:
            return Latest()
        former = self._latest[1] if self._latest and self._latest[0] == keys else None
        if former is None or former.size != self.size:
            with self._opened() as log:
                former = latest(log, self.reader(keys), former)
            self._latest = (keys, former)
        return former

    def judge_clock(self, keys: MetricKeys) -> None:
        """Find out how far the trainer's clock is off, from what is new in the file."""
        stamps = self.latest(keys).stamps
        written = self.mtime + self.file.skew
        if self._clock is None or self._clock[:2] != (stamps, written):
            off = offset_of(stamps, written, self._clock)
            self._clock = Look(stamps, written, off)
            self.offset = off + self.file.skew

    def on_our_clock(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows with their times on our clock: none lies after the file's last write."""
        off, last = self.offset, self.mtime
        if not off:
            return list(rows)
        return [row if row.at is None else row._replace(at=min(row.at - off, last)) for row in rows]

    def sample(self, keys: MetricKeys, points: int) -> list[Row]:
        """Return about ``points`` rows with a loss, evenly spread over the file.

        A file that has grown by less than ``STALE_SAMPLE`` since is not sampled again. One that
        lies elsewhere is not sampled: all along it bytes would have to be brought.
        """
        if not self.ready or keys.loss is None or self.file.far:
            return []
        former = self._sample
        if (
            former is None
            or former[:2] != (keys, points)
            or not former[2] <= self.size <= former[2] * (1 + STALE_SAMPLE)
        ):
            with self._opened() as log:
                rows = sample(log, self.reader(keys), points)
            former = self._sample = (keys, points, self.size, rows)
        return former[3]

    def reader(self, keys: MetricKeys) -> RowReader:
        """Return a reader of this file's rows."""
        return RowReader(keys, self.layout)


Holding = Callable[[Collection[str]], frozenset[str] | None]
"""Which of some files a process has open for writing; ``None`` where that cannot be seen."""


def unseen(_: Collection[str]) -> frozenset[str] | None:
    """Return that it cannot be seen."""
    return None


def find(place: str, run_id: str | None, holding: Holding = unseen) -> list[str]:
    """Return the ``.wandb`` files of a run, sorted by path.

    ``place`` is such a file, a run's directory (``offline-run-…``), a folder of them
    (``wandb``) or the folder that holds ``wandb``. Without ``run_id`` a folder means the run in
    it that goes on, else its newest one. Links such as ``latest-run`` add nothing twice. Raises
    ``OSError`` if ``place`` cannot be read; an empty list says that the run is not there.
    """
    root = Path(place)
    if root.is_file():
        return [str(root)]
    below = root / "wandb"
    own = _in_folder(root, run_id, holding)
    return own or (_in_folder(below, run_id, holding) if below.is_dir() else [])


def others_in(place: str, run_id: str, holding: Holding = unseen) -> tuple[str, ...]:
    """Return a line that names the other runs which go on, or started, beside the one read."""
    root = Path(place)
    folder = root / "wandb" if (root / "wandb").is_dir() else root
    if root.is_file():
        return ()
    return notes_on(
        _runs_there(folder, sorted(each.name for each in folder.iterdir()), holding), run_id
    )


def ids_in(place: str) -> list[str]:
    """Return the ids of the runs that lie where :func:`find` looks, the newest start first.

    Raises ``OSError`` if ``place`` cannot be read.
    """
    root = Path(place)
    if root.is_file():
        return [id_in_name(str(root))]
    below = root / "wandb"
    return _ids(root) or (_ids(below) if below.is_dir() else [])


def _in_folder(folder: Path, run_id: str | None, holding: Holding) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    logs = [name for name in names if name.startswith("run-") and name.endswith(".wandb")]
    own = [folder / name for name in logs]
    if own:
        return [str(path) for path in own if run_id in (None, id_in_name(str(path)))]
    if run_id is None:
        runs = _runs_there(folder, names, holding)
        if not runs:
            return []
        run_id = living(runs).name
    likely = [name for name in names if run_id in name]
    found = set(_logs(folder, likely, run_id)) or set(_logs(folder, names, run_id))
    return sorted(found)


def _logs(folder: Path, names: list[str], run_id: str) -> Iterator[str]:
    for name in names:
        path = folder / name / f"run-{run_id}.wandb"
        if path.is_file():
            yield str(path.resolve())


def _runs_there(folder: Path, names: list[str], holding: Holding) -> list[RunThere]:
    launches: list[Launch] = []
    for _, path in islice(_launches(folder, names), MOST_LAUNCHES):
        with suppress(OSError):
            status = Path(path).stat()
            launches.append(Launch(path, status.st_size, status.st_mtime))
    several = len({each.run_id for each in launches}) > 1
    return runs_of(launches, holding([each.path for each in launches]) if several else None)


def _launches(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each run directory and its file, that of the last start first, by their names."""
    runs = [name for name in names if name.removeprefix("offline-").startswith("run-")]
    for name in sorted(runs, key=lambda name: name.removeprefix("offline-"), reverse=True):
        for path in sorted((folder / name).glob("run-*.wandb"))[:1]:
            yield name, str(path)


def _ids(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    own = [
        id_in_name(name) for name in names if name.startswith("run-") and name.endswith(".wandb")
    ]
    newest_first = (id_in_name(path) for _, path in _launches(folder, names))
    return list(dict.fromkeys(own or newest_first))


CHUNK_ROWS = 5000
"""Rows in one chunk at most."""
CHUNK_BYTES = 512 * 1024
"""Bytes of the log that are read at once: a few hundredths of a second at most."""
ENOUGH = 1500
"""Rows that make a chunk worth its way to whoever asked: long rows are read ``PIECES`` times."""
PIECES = 4


class Cursor:
    """How far one fragment has been read."""

    def __init__(self, fragment: Fragment, keys: MetricKeys) -> None:
        self.fragment = fragment
        self.offset = len(MAGIC)
        self.skipped = 0
        self.lacks = 0
        """Up to which offset bytes must be brought before more can be read; 0 if none."""
        self.config: dict[str, object] = {}
        self._keys = keys
        self._rate = StepRate()
        self._waiting_at = 0
        self._waiting: list[Row] = []
        self._alike: AlikeRows | None = None

    @property
    def caught_up(self) -> bool:
        """True when nothing more can be read from what is there."""
        size = self.fragment.size
        at_end = self.offset >= size or self._waiting_at == size
        return not self._waiting and (at_end or not self.fragment.ready)

    @property
    def read(self) -> int:
        """Bytes that are done with."""
        return self.fragment.size if self.caught_up else self.offset

    def chunk(self, most: int) -> list[Row]:
        """Read on, ``most`` rows; an empty list can mean that there were records but no rows."""
        if not self._waiting and self.fragment.ready:
            with self.fragment.file.open() as log:
                piece = log.read(self.offset, CHUNK_BYTES, passed)
                at_end = self.offset + CHUNK_BYTES >= log.size
                self.lacks = max((stop for _, stop in log.missed), default=0)
            if not self.lacks and (at_end or piece.offset == self.offset):
                self._waiting_at = self.fragment.size
            self.offset = piece.offset
            self.skipped += piece.skipped
            self._waiting = self._rows(piece.spans)
        chunk, self._waiting = self._waiting[:most], self._waiting[most:]
        return chunk

    def _rows(self, spans: Sequence[Span]) -> list[Row]:
        reader, layout = self.fragment.reader(self._keys), self.fragment.layout

        def by_itself(span: Span) -> Row | None:
            kind, message = kind_of(span)
            try:
                if kind == HISTORY:
                    layout.notice(message)
                    return reader.read(message)
                if kind == CONFIG:
                    self.config.update(config_update(message))
            except BadMessageError:
                self.skipped += 1
            return None

        if self._alike is None or not self._alike.fits(reader, layout):
            self._alike = AlikeRows(reader, layout)
        rows = self._alike.read(spans, by_itself)
        return rated(self.fragment.on_our_clock(rows), self._keys, self._rate)


def read_rows(cursor: Cursor) -> list[Row]:
    """Read on until it is worth it; what was read before a piece that cannot be is not lost."""
    rows: list[Row] = []
    for _ in range(PIECES):
        try:
            rows += cursor.chunk(CHUNK_ROWS - len(rows))
        except OSError:
            if not rows:
                raise
            break  # the next call says so, if it is so still
        if cursor.caught_up or cursor.lacks or len(rows) >= ENOUGH:
            break
    return rows
