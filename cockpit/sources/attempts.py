"""The attempts of one run that its tracker has under different ids, joined into one log.

Which they are is a person's word (``former`` in the tracker's table): what lies in one folder or
project may be another training. What cannot be joined is said in the run's notes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from cockpit.model.facet import Attempt, TrackerKind
from cockpit.model.observed import Row
from cockpit.model.run import (
    FinelogSpec,
    MlflowSpec,
    TensorboardSpec,
    TrackioSpec,
    WandbSpec,
)
from cockpit.sources.run_folders import BadFileError
from cockpit.sources.run_rows import About, Newest, RowBatch, RowLog
from cockpit.sources.wandb.metrics import MetricKeys
from cockpit.text.safe import clean


def specs_of(
    kind: TrackerKind,
    spec: WandbSpec | TrackioSpec | TensorboardSpec | MlflowSpec | FinelogSpec,
) -> list[Any]:
    """Return the settings that name each former attempt, and those of the run itself, last."""
    former = [spec.model_copy(update={kind.named_by: each, "former": ()}) for each in spec.former]
    return [*former, spec]


def joined(kind: TrackerKind, spec: Any, log: Callable[[Any], RowLog]) -> RowLog:  # noqa: ANN401
    """Return the log of a run, with those of its former attempts before it."""
    *former, own = map(log, specs_of(kind, spec))
    return JoinedLog(own, dict(zip(map(str, spec.former), former, strict=True))) if former else own


class JoinedLog(RowLog):
    """The logs of a run's attempts, one after the other; all but the last have ended."""

    def __init__(self, own: RowLog, former: dict[str, RowLog]) -> None:
        self.kind = own.kind
        self._own = own
        self._former = former
        self._found: dict[str, Attempt] = {}
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
        """Look at the present attempt, and at the former ones until each was found."""
        identity = self._own.look()
        self._newest = self._own.newest()
        own, notes = self._own.about().id, []
        for name, log in self._former.items():
            try:
                if name not in self._found:
                    log.look()
                    known = log.newest().known
                    self._found[name] = Attempt(id=log.about().id, step=known.step, at=known.at)
            except (OSError, BadFileError) as error:
                why = clean(error.strerror if isinstance(error, OSError) else error, 300)
                notes.append(f"former attempt {clean(name, 100)} is not joined: {why or error}")
        self._notes = tuple(notes)
        before = sorted(
            (name for name, each in self._found.items() if each.id != own),
            key=lambda name: self._found[name].at or 0.0,
        )
        self._attempts = tuple(self._found[name] for name in before)
        self._parts = [*(self._former[name] for name in before), self._own]
        return (identity, *before)

    def about(self) -> About:
        """Return what is said of the present attempt, and what stands before it."""
        about = self._own.about()
        notes = (*about.notes, *self._notes)
        version = about.version, self._attempts, self._notes
        return about._replace(notes=notes, attempts=self._attempts, version=version)

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
                rows, share = [*found, *rows], share + covered / len(self._parts)
        return rows, share

    def next(self) -> RowBatch:
        """Return the next rows of the first attempt that was not read to its end."""
        batch, last = self._parts[self._place].next(), len(self._parts) - 1
        share = 1.0 if batch.share >= 1.0 and self._place == last else (
            (self._place + batch.share) / (last + 1)
        )  # fmt: skip
        goes_on = batch.caught_up and self._place < last
        caught_up = batch.caught_up and self._place == last
        batch = batch._replace(caught_up=caught_up, share=share, joint=self._joint)
        self._joint = self._joint and not batch.rows
        if goes_on:
            self._place, self._joint = self._place + 1, True
        return batch

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
