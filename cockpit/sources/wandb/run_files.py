"""All ``.wandb`` files of one run, joined: what they say of it, its rows, its metrics' names."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Final

from cockpit.model.facet import WANDB
from cockpit.model.observed import Row, Writer
from cockpit.model.run import WandbSpec
from cockpit.sources.attempts import joined
from cockpit.sources.curve_fold import POINTS
from cockpit.sources.metric_keys import WANDB_STEP, MetricKeys, choose
from cockpit.sources.run_folders import BadFileError, Chosen
from cockpit.sources.run_rows import About, Newest, RowBatch, RowLog, RunRows
from cockpit.sources.wandb import decode
from cockpit.sources.wandb.file import BLOCK, LaunchFile, Span, WandbLog
from cockpit.sources.wandb.fragment import (
    CHUNK_BYTES,
    Cursor,
    Fragment,
    Head,
    Latest,
    newest_rows,
    older,
    read_on,
)
from cockpit.sources.wandb.listing import LaunchFiles, wanted_of
from cockpit.text.safe import clean

CLOCKS = 30.0
"""Seconds by which the clocks of two machines may differ that write one W&B run."""
TOGETHER = 180.0
"""Seconds between the newest records of two launches that both go on: the client writes of
itself every half minute or so."""


def _on_our_clock(fragment: Fragment, keys: MetricKeys) -> Latest:
    """Return a file's newest of everything, none of it later than the file was written."""
    tail = fragment.latest(keys)
    if not fragment.offset:
        return tail
    (newest,) = fragment.on_our_clock([tail.known])
    at = tail.record_at
    at = None if at is None else min(at - fragment.file.skew, fragment.mtime)
    rows = tuple(fragment.on_our_clock(tail.rows))
    return tail._replace(known=newest, rows=rows, record_at=at)


def _still_writing(
    fragments: Sequence[Fragment], tails: Sequence[Latest], held: Collection[str]
) -> tuple[Writer, ...]:
    """Return the launches that wrote on after a later one had begun, and about as lately (C-25).

    Each launch dates its own records. A launch whose exit record is there has ended. Of those
    that processes here have open for writing each lives; where one of them alone logs a loss, the
    others that have begun with it are ranks of its training.
    """
    newest = max((tail.record_at or 0.0 for tail in tails), default=0.0)
    pairs = list(zip(fragments, tails, strict=True))
    logs_loss = [one.path in held and tail.known.loss is not None for one, tail in pairs]
    found = []
    for (one, tail), (later, _) in pairwise(pairs):
        at = tail.record_at
        both = one.path in held and any(each.path in held for each, _ in pairs if each is not one)
        at_once = later.started_at - one.started_at <= TOGETHER
        if both and at_once and sum(logs_loss) == 1:
            continue
        if both:
            at = max(at or 0.0, one.mtime)
        overlaps = at is not None and at > later.started_at + CLOCKS and newest - at <= TOGETHER
        overlaps = overlaps or both
        if at is not None and overlaps and tail.exit_code is None:
            found.append(Writer(name=clean(one.name), since=later.started_at, last_record_at=at))
    return tuple(found)


def _usual_step_seconds(tails: Sequence[Latest]) -> float | None:
    """Return the seconds per step of the newest launch that has enough rows to say."""
    paces = (decode.usual_step_seconds(tail.rows) for tail in reversed(tails))
    return next((pace for pace in paces if pace is not None), None)


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


def read_run(spec: WandbSpec, files: LaunchFiles | None = None) -> RunRows:
    """Return a reader of a run's files, which ``files`` look for."""
    known = files or LaunchFiles()
    return RunRows(joined(WANDB, spec, lambda each: RunFiles(each, known)))


class RunFiles(RowLog):
    """The files of one run and everything that was read of them.

    ``FileNotFoundError`` says that there are none of this run.
    """

    kind = WANDB

    def __init__(self, spec: WandbSpec, files: LaunchFiles) -> None:
        self._spec = spec
        self._files = files
        self._wanted = wanted_of(spec)
        self._chosen = Chosen(())
        self._fragments: dict[str, Fragment] = {}
        self._order: list[Fragment] = []
        self._tails: list[Latest] = []
        self._cursors: list[Cursor] = []
        self._begun = 0
        self._complete_once = False

    def look(self) -> Hashable:
        """Find the files, and learn from what is new in them."""
        self._list()
        self._stat_files()
        known = [cursor.fragment for cursor in self._cursors]
        if known != self._order[: len(known)]:
            self._begun += 1
            self.rewind()
        return self._begun

    @property
    def offset(self) -> float:  # type: ignore[override]
        """The clock of the newest launch's trainer minus ours (s)."""
        return self._order[-1].offset

    def newest(self) -> Newest:
        """Return the newest of everything over all launches."""
        tails = self._tails = [_on_our_clock(one, self.keys) for one in self._order]
        return Newest(
            [row for tail in tails for row in tail.rows],
            reduce(older, [tail.known for tail in reversed(tails)]),
            max((tail.record_at for tail in tails if tail.record_at is not None), default=None),
            _usual_step_seconds(tails),
            counts_calls=self.keys.step == WANDB_STEP,
            skipped=sum(tail.skipped for tail in tails),
        )

    def about(self) -> About:
        """Return what the files say, the newest launch first of all."""
        order, newest, head = self._order, self._order[-1], newest_head(self._order)
        # Of several files, those that a process has open for writing.
        written = self._chosen.written or frozenset()
        run, held = head.run, (written if len(self._order) > 1 else frozenset())
        read = self._cursors[len(order) - 1].config if len(self._cursors) == len(order) else {}
        return About(
            id=newest.id,
            name=run.name if run else None,
            entity=run.entity if run else None,
            project=run.project if run else None,
            url=self._spec.url,
            state=_state(newest, self._tails[-1]),
            producer=head.producer,
            files=tuple(one.path for one in order),
            fragments=tuple(clean(one.name) for one in order),
            mtime=max(one.mtime for one in order),
            identity=self._begun,
            version=(tuple(one.version for one in order), held),
            exit_code=self._tails[-1].exit_code,
            git_commit=head.git_commit,
            slurm_job_id=head.slurm_job_id,
            writers=_still_writing(order, self._tails, held),
            config={**(run.config if run else {}), **read},
            config_since=_dated(order),
            earlier=self._chosen.earlier,
            notes=self._chosen.notes,
        )

    def next(self) -> RowBatch:
        """Return the next rows of the first launch that was not read to its end."""
        for fragment in self._order[len(self._cursors) :]:
            self._cursors.append(Cursor(fragment, self.keys))
        behind = next((one for one in self._cursors if not one.caught_up), None)
        rows = [] if behind is None else read_on(behind)
        read, total = sum(one.read for one in self._cursors), self._size()
        caught_up = all(one.caught_up for one in self._cursors)
        self._complete_once = self._complete_once or caught_up
        whole = caught_up or (self._complete_once and total - read <= CHUNK_BYTES)
        share = 1.0 if whole else min(1.0, read / total)
        return RowBatch(rows, caught_up, share, sum(one.skipped for one in self._cursors))

    def rewind(self) -> None:
        """Read everything again from the first row on."""
        self._cursors = []
        self._complete_once = False

    @property
    def read_out(self) -> bool:
        """Whether every row of the files was given out."""
        read = len(self._cursors) == len(self._order)
        return read and all(cursor.caught_up for cursor in self._cursors)

    def last(self, most: int) -> tuple[list[Row], float]:
        """Return the last ``most`` rows, and how much of the files they cover."""
        parts: list[list[Row]] = []
        covered, total = 0, self._size()
        for fragment in reversed(self._order):
            wanted = most - sum(len(part) for part in parts)
            if wanted <= 0 or not fragment.ready:
                continue
            with fragment.file.open() as log:
                rows, start = newest_rows(log, fragment.reader(self.keys), wanted)
            rows = fragment.on_our_clock(rows)
            parts.insert(0, decode.rated(rows, self.keys, decode.StepRate()))
            covered += fragment.size - start
        return [row for part in parts for row in part], min(1.0, covered / total) if total else 1.0

    def sampled(self) -> Sequence[Row]:
        """Return rows with a step and a loss, the files' shares of them as their sizes."""
        rows: list[Row] = []
        for fragment in self._order:
            points = max(1, POINTS * fragment.size // max(1, self._size()))
            rows += fragment.sample(self.keys, points)
        return rows

    def names(self) -> set[str]:
        """Return the names of all numbers found in the newest files."""
        files = [self._fragments[path].file for path in newest([*self._fragments])]
        return {name for file in files for name in _names_in(file)}

    def _size(self) -> int:
        return sum(one.size for one in self._order)

    def _list(self) -> None:
        """Find the run's files again; one that was replaced starts again."""
        files, host = self._files, self._files.host(self._wanted)
        self._chosen = files.chosen(self._wanted)
        kept = {path: one for path, one in self._fragments.items() if not one.replaced()}
        self._fragments = {
            path: kept.get(path)
            or Fragment(LaunchFile(path, host, files.measured), self._spec.metrics)
            for path in self._chosen.paths
        }

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
        self.keys = choose(rows, self._spec.metrics, self.keys)
        for fragment in sound:
            fragment.judge_clock(self.keys)


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
        kind, message = decode.kind_of(span)
        size = (
            message[0].count(b"\x82\x01", message[1], message[2]) if kind == decode.HISTORY else 0
        )
        if kind != decode.HISTORY or seen.get(size, 0) >= _OF_EACH or len(seen) > SHAPES:
            continue
        seen[size] = seen.get(size, 0) + 1
        try:
            row = decode.history(message)
        except decode.BadMessageError:
            continue
        yield from (name for name, value in row.items() if _is_number(value))


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value in ("NaN", "Infinity", "-Infinity")
    return isinstance(value, int | float) and not isinstance(value, bool)
