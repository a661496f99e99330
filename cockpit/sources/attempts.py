"""The attempts of one run that its tracker has under different ids, joined into one log.

Which they are is a person's word (``former`` in the tracker's table): what lies in one folder or
project may be another training. What cannot be joined is said in the run's notes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from cockpit.model.facet import Attempt, TrackerKind
from cockpit.model.observed import Row
from cockpit.model.run import (
    FinelogSpec,
    MlflowSpec,
    TensorboardSpec,
    TrackioSpec,
    WandbSpec,
)
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.run_folders import BadFileError
from cockpit.sources.run_rows import SILENT_AFTER, About, Newest, RowBatch, RowLog
from cockpit.text.safe import clean


def specs_of(
    kind: TrackerKind, spec: WandbSpec | TrackioSpec | TensorboardSpec | MlflowSpec | FinelogSpec
) -> list[Any]:
    """Return the settings that name each former attempt, and those of the run itself, last."""
    former = [spec.model_copy(update={kind.named_by: each, "former": ()}) for each in spec.former]
    return [*former, spec]


def joined(kind: TrackerKind, spec: Any, log: Callable[[Any], RowLog]) -> RowLog:  # noqa: ANN401
    """Return the log of a run, with those of its former attempts before it."""
    *former, own = map(log, specs_of(kind, spec))
    return JoinedLog(own, dict(zip(map(str, spec.former), former, strict=True))) if former else own


class _Found(NamedTuple):
    """What one look has found of a former attempt."""

    attempt: Attempt
    files: frozenset[str]
    identity: Hashable
    record_at: float | None

    def is_over(self, present_at: float | None) -> bool:
        """Tell whether it has long been silent when the present attempt has logged last."""
        known = present_at is not None and self.record_at is not None
        return known and (present_at or 0.0) - (self.record_at or 0.0) > SILENT_AFTER


class JoinedLog(RowLog):
    """The logs of a run's attempts, one after the other; all but the last are to have ended."""

    def __init__(self, own: RowLog, former: dict[str, RowLog]) -> None:
        self.kind = own.kind
        self._own = own
        self._former = former
        self._found: dict[str, _Found] = {}
        """What is joined of each former attempt."""
        self._latest: dict[str, _Found] = {}
        self._over: set[str] = set()
        """Those that have ended, and are not looked at any more."""
        self._beside: set[str] = set()
        """Those that have logged later than the present one, until they have ended."""
        self._notes: tuple[str, ...] = ()
        self._newest: Newest | None = None
        self._attempts: tuple[Attempt, ...] = ()
        self._parts: list[RowLog] = [own]
        self._place = 0
        self._joint = False
        """Whether the next rows are the first of another attempt."""

    @property
    def keys(self) -> MetricKeys:  # type: ignore[override]
        """Those of the present attempt."""
        return self._own.keys

    @property
    def offset(self) -> float:  # type: ignore[override]
        """That of the present attempt's trainer."""
        return self._own.offset

    def look(self) -> Hashable:
        """Look at the present attempt, and at the former ones while more may come of them."""
        at_last_look = None if self._newest is None else self._newest.record_at
        identity = self._own.look()
        self._newest = self._own.newest()
        at = self._newest.record_at
        notes: list[str] = []
        for name in self._former:
            try:
                self._look_at(name, at, at if at_last_look is None else at_last_look)
            except (OSError, BadFileError) as error:
                if name not in self._found:
                    why = clean(error.strerror if isinstance(error, OSError) else error, 300)
                    notes.append(f"{_called(name)} is not joined: {why or error}")
        before = self._each_once(notes)
        for name in before:
            notes += self._doubts(name)
        self._notes = tuple(notes)
        self._attempts = tuple(self._found[name].attempt for name in before)
        self._parts = [*(self._former[name] for name in before), self._own]
        joined = (
            (name, self._latest[name].identity, self._former[name].keys, self._found[name].attempt)
            for name in before
        )
        return (identity, *joined)

    def _look_at(self, name: str, present_at: float | None, at_last_look: float | None) -> None:
        """Look at a former attempt, unless it has long ended.

        What it logs beside the present one is joined once it has ended: not with each look, for
        then all is read from the first row on again.
        """
        if name in self._over:
            return
        known = self._latest.get(name)
        found = self._latest[name] = _look(self._former[name])
        has_news = known is None or known.record_at != found.record_at
        if has_news and at_last_look is not None and (found.record_at or 0.0) > at_last_look:
            self._beside.add(name)
        self._found.setdefault(name, found)
        if found.is_over(present_at):
            self._over.add(name)
            self._beside.discard(name)
            self._found[name] = found

    def _each_once(self, notes: list[str]) -> list[str]:
        """Return the names of the former attempts in the order of their times, each once."""
        present = self._own.about()
        read = [(present.id, frozenset(present.files))]
        before = []
        for name, found in self._found.items():
            if any(_same((found.attempt.id, found.files), each) for each in read):
                notes.append(f"{_called(name)} is {clean(found.attempt.id, 100)}: read already")
            else:
                read.append((found.attempt.id, found.files))
                before.append(name)
        return sorted(before, key=lambda name: self._found[name].attempt.at or 0.0)

    def _doubts(self, name: str) -> Iterator[str]:
        """Yield what speaks against a former attempt's end."""
        joined, latest = self._found[name].attempt, self._latest[name].attempt
        if name in self._beside:
            yield (
                f"{_called(name)} has logged later than the present one:"
                " it may still run, or the ids are the wrong way round"
            )
        if latest != joined:
            yield (
                f"{_called(name)} was logging still:"
                f" its rows after step {joined.step} may not be joined yet"
            )

    def about(self) -> About:
        """Return what is said of the present attempt, and what stands before it."""
        about = self._own.about()
        notes = (*about.notes, *self._notes)
        version = about.version, self._attempts, self._notes
        return about._replace(notes=notes, attempts=self._attempts, earlier=(), version=version)

    def newest(self) -> Newest:
        """Return what stands at the end of the present attempt."""
        assert self._newest is not None, "it is looked at first"
        return self._newest

    def last(self, most: int) -> tuple[list[Row], float]:
        """Return the last rows, of the present attempt first of all."""
        rows: list[Row] = []
        share = 0.0
        for part in reversed(self._parts):
            if len(rows) < most:
                found, covered = part.last(most - len(rows))
                found = self._comparable(part, found)
                rows, share = [*found, *rows], share + covered / len(self._parts)
        return rows, share

    def next(self) -> RowBatch:
        """Return the next rows of the first attempt that was not read to its end."""
        part, last = self._parts[self._place], len(self._parts) - 1
        batch = part.next()
        share = 1.0 if batch.share >= 1.0 and self._place == last else (
            (self._place + batch.share) / (last + 1)
        )  # fmt: skip
        goes_on = batch.caught_up and self._place < last
        caught_up = batch.caught_up and self._place == last
        rows = self._comparable(part, batch.rows)
        batch = batch._replace(rows=rows, caught_up=caught_up, share=share, joint=self._joint)
        self._joint = self._joint and not batch.rows
        if goes_on:
            self._place, self._joint = self._place + 1, True
        return batch

    def _comparable(self, part: RowLog, rows: list[Row]) -> list[Row]:
        """Return an attempt's rows without what the present one logs under another name.

        Another name may be another unit, or another data set: a change would be none of training.
        """
        own, its = self.keys, part.keys
        of_one_name = {limit.metric for _, limit in {*own.limited} & {*its.limited}}
        one_rate = own.throughput == its.throughput
        if one_rate and own.limited == its.limited:
            return rows
        return [
            row._replace(
                throughput=row.throughput if one_rate else None,
                limited=tuple(each for each in row.limited or () if each[0] in of_one_name) or None,
            )
            for row in rows
        ]

    def rewind(self) -> None:
        """Begin at the first row of the first attempt again."""
        self._place, self._joint = 0, False
        for part in self._parts:
            part.rewind()

    @property
    def read_out(self) -> bool:
        """Whether every row of every attempt was given out."""
        return self._place == len(self._parts) - 1 and self._own.read_out

    def sampled(self) -> Sequence[Row]:
        """Return rows all along the attempts."""
        return [row for part in self._parts for row in part.sampled()]

    def names(self) -> set[str]:
        """Return the metrics that any attempt has logged."""
        return {name for part in self._parts for name in part.names()}


def _look(log: RowLog) -> _Found:
    identity, newest, about = log.look(), log.newest(), log.about()
    attempt = Attempt(id=about.id, step=newest.known.step, at=newest.known.at)
    return _Found(attempt, frozenset(about.files), identity, newest.record_at)


def _same(one: tuple[str, frozenset[str]], other: tuple[str, frozenset[str]]) -> bool:
    """Tell whether two attempts are one: folders of event files may only share their names."""
    (name, files), (other_name, other_files) = one, other
    return name == other_name and (files == other_files or not files.isdisjoint(other_files))


def _called(name: str) -> str:
    return f"former attempt {clean(name, 100)}"
