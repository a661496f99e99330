"""All ``.wandb`` files of one run, joined: the tracker facet's value, rows, metric names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.observed import Row, TrackerValue, Writer
from cockpit.model.run import WandbSpec
from cockpit.sources.run_folders import BadFileError, Chosen, WrittenHere
from cockpit.sources.wandb.away import AwayLaunches, HostFile
from cockpit.sources.wandb.decode import (
    HISTORY,
    STEPS_UNIT,
    BadMessageError,
    StepRate,
    history,
    kind_of,
    rated,
    usual_step_seconds,
)
from cockpit.sources.wandb.file import BLOCK, LaunchFile, LocalFile, Span, WandbLog
from cockpit.sources.wandb.fragment import CHUNK_BYTES, Fragment
from cockpit.sources.wandb.history import POINTS, Pass, RowChunk, Series
from cockpit.sources.wandb.listing import SUFFIX, find, wanted_of
from cockpit.sources.wandb.metrics import WANDB_STEP, MetricKeys, choose
from cockpit.sources.wandb.tail import Head, Latest, newest_rows, older
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

CLOCKS = 30.0
"""Seconds by which the clocks of two machines may differ that write one W&B run."""
TOGETHER = 180.0
"""Seconds between the newest records of two launches that both go on: the client writes of
itself every half minute or so."""
SILENT_AFTER = 600.0
"""Seconds without any write after which a run without an exit record counts as silent."""


def tracker_value(
    spec: WandbSpec,
    fragments: Sequence[Fragment],
    keys: MetricKeys,
    scan: Pass,
    config: dict[str, object],
    held: Collection[str] = (),
) -> TrackerValue:
    """Return what the files of a run (oldest first, at least one) say.

    ``held`` are those that a process of this machine has open for writing.

    ``config`` is shown as it is: it must be safe text already. The state is that of a run
    that has just written; see ``with_state``.
    """
    newest = fragments[-1]
    tails = [_on_our_clock(fragment, keys) for fragment in fragments]
    joined = _joined(tails)
    head = newest_head(fragments)
    run, series = head.run, _series(fragments, keys, scan)
    usual = _usual_step_seconds(tails)
    rate, unit = _throughput(joined, keys, usual)
    value = TrackerValue(
        id=clean(newest.id) or None,
        name=_text(run.name if run else None),
        entity=_text(run.entity if run else None),
        project=_text(run.project if run else None),
        url=spec.url,
        state=_state(newest, tails[-1]),
        step=joined.step,
        counts_calls=keys.step == WANDB_STEP,
        loss=joined.loss,
        throughput=rate,
        throughput_unit=unit,
        grad_norm=joined.grad_norm,
        last_step_at=joined.at,
        last_record_at=joined.record_at,
        file_mtime=max(fragment.mtime for fragment in fragments),
        exit_code=tails[-1].exit_code,
        git_commit=clean(head.git_commit, 64) or None,
        slurm_job_id=_text(head.slurm_job_id),
        producer=_text(head.producer),
        fragments=tuple(clean(fragment.name) for fragment in fragments),
        files=tuple(str(fragment.path) for fragment in fragments),
        writers=_still_writing(fragments, tails, held),
        skipped_blocks=max(scan.skipped, sum(tail.skipped for tail in tails)),
        scanned=series.share,
        usual_step_s=usual,
        clock_offset_s=newest.offset or None,
        config=config,
        config_since=_dated(fragments),
    )
    # A thousand columns of our own making, once a second for each run: not validated again.
    return value.model_copy(update={"history": series.points(), "columns": series.columns()})


def _on_our_clock(fragment: Fragment, keys: MetricKeys) -> Latest:
    """Return a file's newest of everything, none of it later than the file was written."""
    tail = fragment.latest(keys)
    if not fragment.offset:
        return tail
    (newest,) = fragment.on_our_clock([tail.row])
    at = tail.record_at
    at = None if at is None else min(at - fragment.file.skew, fragment.mtime)
    rows = tuple(fragment.on_our_clock(tail.rows))
    return tail.with_row(newest)._replace(rows=rows, record_at=at)


def _still_writing(
    fragments: Sequence[Fragment], tails: Sequence[Latest], held: Collection[str]
) -> tuple[Writer, ...]:
    """Return the launches that wrote on after a later one had begun, and about as lately (C-25).

    Each launch dates its own records. A launch whose exit record is there has ended. Of those
    that processes here have open for writing each lives.
    """
    newest = max((tail.record_at or 0.0 for tail in tails), default=0.0)
    pairs = list(zip(fragments, tails, strict=True))
    found = []
    for (one, tail), (later, _) in pairwise(pairs):
        at = tail.record_at
        both = one.path in held and any(each.path in held for each, _ in pairs if each is not one)
        if both:
            at = max(at or 0.0, one.mtime)
        overlaps = at is not None and at > later.started_at + CLOCKS and newest - at <= TOGETHER
        overlaps = overlaps or both
        if at is not None and overlaps and tail.exit_code is None:
            found.append(Writer(name=clean(one.name), since=later.started_at, last_record_at=at))
    return tuple(found)


def _usual_step_seconds(tails: Sequence[Latest]) -> float | None:
    """Return the seconds per step of the newest launch that has enough rows to say."""
    paces = (usual_step_seconds(tail.rows) for tail in reversed(tails))
    return next((pace for pace in paces if pace is not None), None)


def _throughput(
    joined: Latest, keys: MetricKeys, usual: float | None
) -> tuple[float | None, str | None]:
    """Return the logged throughput and its unit; steps per second where none is logged."""
    if keys.throughput is None and usual is not None:
        return 1.0 / usual, STEPS_UNIT
    return joined.throughput, keys.unit


def _text(raw: str | None) -> str | None:
    return scrub(clean(raw)) or None


def _joined(tails: Sequence[Latest]) -> Latest:
    """Return the newest of everything over all launches."""
    known = Row(None, None)
    for tail in reversed(tails):
        known = older(known, tail.row)
    times = [tail.record_at for tail in tails if tail.record_at is not None]
    return tails[-1].with_row(known)._replace(record_at=max(times, default=None))


def newest_head(fragments: Sequence[Fragment]) -> Head:
    """Return the newest launch's identity; a launch that has none yet has its former one's."""
    heads = [fragment.head for fragment in fragments if fragment.head.run is not None]
    return heads[-1] if heads else fragments[-1].head


def _dated(fragments: Sequence[Fragment]) -> float | None:
    """Return when the launch whose config is shown began, by its own record, on our clock."""
    told = [one for one in fragments if one.head.run is not None]
    run = told[-1].head.run if told else None
    return None if run is None or run.started_at is None else told[-1].started_at


def _state(newest: Fragment, tail: Latest) -> str:
    if tail.exit_code is not None:
        return "finished" if tail.exit_code == 0 else "failed"
    return "running" if newest.head.run is not None or tail.rows else "starting"


def with_state(value: TrackerValue, now: float) -> TrackerValue:
    """Return the value as it is at ``now``.

    A missing exit record is no crash (the file may only not be written yet): a run that has
    written nothing for ``SILENT_AFTER`` is "silent", and what became of it is for others to say.
    """
    written_at = max(value.file_mtime or 0.0, value.last_record_at or 0.0)
    if value.exit_code is not None or now - written_at <= SILENT_AFTER:
        return value
    return value.model_copy(update={"state": "silent"})


def _series(fragments: Sequence[Fragment], keys: MetricKeys, scan: Pass) -> Series:
    """Return the loss over the whole run: exact as far as it was read, sampled beyond."""
    total = sum(fragment.size for fragment in fragments)
    unread = total - scan.read
    share = 1.0 if scan.caught_up_once and unread <= CHUNK_BYTES else scan.share
    tails = [fragment.latest(keys).rows for fragment in fragments]
    newest = [row for rows in tails for row in rows]
    sampled = [] if share == 1.0 else _samples(fragments, keys, total)
    return Series(scan.columns, sampled, newest, share)


def _samples(fragments: Sequence[Fragment], keys: MetricKeys, total: int) -> list[Row]:
    """Return sampled rows with a step and a loss, the files' shares of them as their sizes."""
    rows: list[Row] = []
    for fragment in fragments:
        points = max(1, POINTS * fragment.size // max(1, total))
        rows += fragment.sample(keys, points)
    return rows


MOST_ENTRIES = 5000
"""Values that are kept of one configuration, nested ones counted."""
_DEPTH = 12


class ShownConfig:
    """Makes the shown form, and makes it again only when the configuration has changed."""

    def __init__(self) -> None:
        self._raw: dict[str, object] = {}
        self._shown: dict[str, object] = {}
        self._left = 0

    def shown(self, raw: dict[str, object]) -> dict[str, object]:
        """Return ``raw`` (JSON values) as it may be shown."""
        if raw != self._raw:
            self._raw = raw
            self._left = MOST_ENTRIES
            self._shown = self._mapping(raw, 0)
        return self._shown

    def _mapping(self, raw: dict[str, object], depth: int) -> dict[str, object]:
        safe: dict[str, object] = {}
        for key, value in raw.items():
            if self._left <= 0:
                break
            self._left -= 1
            name = scrub(clean(key))
            safe[name] = self._value(name, value, depth)
        return safe

    def _value(self, name: str, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict) and depth < _DEPTH:
            return self._mapping(value, depth + 1)
        if isinstance(value, list) and depth < _DEPTH:
            kept = value[: max(0, self._left)]
            self._left -= len(kept)
            return [self._value(name, one, depth + 1) for one in kept]
        label = f"{name}="
        return scrub(label + clean(value)).removeprefix(label)


class RunFiles:
    """The files of one run and everything that was read of them; safe to use from any thread.

    Methods block; they raise ``OSError`` where the files cannot be read, ``FileNotFoundError``
    where there are none of this run, and ``BadFileError`` where they are something else.
    """

    def __init__(self, spec: WandbSpec, away: AwayLaunches | None = None) -> None:
        """``away`` has the files that lie on hosts."""
        self._spec = spec
        self._away = away
        self.wanted = wanted_of(spec)
        self._written = WrittenHere(SUFFIX)
        self._chosen = Chosen(())
        self._lock = Lock()
        self._fragments: dict[str, Fragment] = {}
        self._order: list[Fragment] = []
        self._keys = MetricKeys()
        self._pass = Pass()
        self._config = ShownConfig()
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
            self._stat_files()
            self.read_out = self._pass.read_out(self._order, self._keys)
            held = self._writing()
            seen = (
                self._keys,
                self._pass.progress,
                tuple(one.version for one in self._order),
                held,
            )
            if self._value is None or self._value[0] != seen:
                self._value = (seen, self._tracker_value(held))
            return with_state(self._value[1], clock.now())

    def more(self) -> RowChunk:
        """Return the next chunk of every logged row (see ``RowChunk``)."""
        with self._lock:
            if self.wanted.host or any(one.replaced() for one in self._order) or not self._order:
                self._list()
            self._stat_files()
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
            self._stat_files()
            return self._recent(most)

    def names(self) -> set[str]:
        """Return the names of all numbers found in the newest files."""
        with self._lock:
            self._list()
            files = [self._fragments[path].file for path in newest([*self._fragments])]
        return {name for file in files for name in _names_in(file)}

    def _list(self) -> None:
        """Find the run's files again; one that was replaced starts again."""
        wanted = self.wanted
        if self._away is not None and wanted.host:
            self._chosen = self._away.chosen(wanted)
        else:
            self._chosen = find(wanted, self._written.among)
        kept = {path: one for path, one in self._fragments.items() if not one.replaced()}
        self._fragments = {
            path: kept.get(path) or Fragment(self._file(path), self._spec.metrics)
            for path in self._chosen.paths
        }

    def _file(self, path: str) -> LaunchFile:
        if self._away is not None and self.wanted.host:
            return HostFile(self.wanted.host, path, self._away)
        return LocalFile(path)

    def _stat_files(self) -> None:
        """Stat each file, learn from what is new, and keep the order of the starts."""
        wrong: list[BadFileError] = []
        sound: list[Fragment] = []
        for fragment in self._fragments.values():
            try:
                fragment.refresh()
                sound.append(fragment)
            except BadFileError as error:
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
        written = self._chosen.written or frozenset()
        return written if len(self._order) > 1 else frozenset()

    def _tracker_value(self, held: frozenset[str]) -> TrackerValue:
        run = newest_head(self._order).run
        config = {**(run.config if run else {}), **self._pass.config_of(self._order[-1])}
        shown = self._config.shown(config)
        value = tracker_value(self._spec, self._order, self._keys, self._pass, shown, held)
        return value.model_copy(update={"notes": self._chosen.notes})

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


NEWEST: Final = 4
"""Files of a run that are looked at: the newest."""
PLACES: Final = 8
"""Places along a file: what is logged seldom is found by one of them, or by its exact name."""
AT_ONCE: Final = 4 * BLOCK
SHAPES: Final = 200
"""Rows of one place that are decoded; of as many items as others, few."""
_OF_EACH: Final = 3


def newest(paths: Sequence[str]) -> list[str]:
    """Return the files of the last starts; a folder's name begins with when it was."""
    return sorted(paths)[-NEWEST:]


def _names_in(file: LaunchFile) -> Iterator[str]:
    try:
        with file.open() as log:
            if log.started():
                for spans in _places(log):
                    yield from _numbers(spans)
    except BadFileError:
        return


def _places(log: WandbLog) -> Iterator[Sequence[Span]]:
    blocks = max(1, -(-log.size // BLOCK))
    last = max(0, blocks - AT_ONCE // BLOCK)
    between = PLACES - 1 if log.places > 1 else 1
    for block in sorted({last * place // between for place in range(between + 1)}):
        yield log.block(block, AT_ONCE).spans


def _numbers(spans: Iterable[Span]) -> Iterator[str]:
    seen: dict[int, int] = {}
    for span in spans:
        kind, message = kind_of(span)
        size = message[0].count(b"\x82\x01", message[1], message[2]) if kind == HISTORY else 0
        if kind != HISTORY or seen.get(size, 0) >= _OF_EACH or len(seen) > SHAPES:
            continue
        seen[size] = seen.get(size, 0) + 1
        try:
            row = history(message)
        except BadMessageError:
            continue
        yield from (name for name, value in row.items() if _is_number(value))


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value in ("NaN", "Infinity", "-Infinity")
    return isinstance(value, int | float) and not isinstance(value, bool)
