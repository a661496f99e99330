"""Curves on demand: what is asked for is read in short turns, kept, and grows when asked again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from cockpit.model.clock import Clock
from cockpit.model.curve import Curve, Curves, Span
from cockpit.model.run import RunSpec
from cockpit.runtime.offload import offload
from cockpit.sources.curves.files import FileCurves
from cockpit.sources.curves.naming import NoCurveError, wanted_of
from cockpit.sources.wandb.sampled import SampledCurves
from cockpit.text.safe import clean

TURN: Final = 0.2
"""Seconds of reading in one answer, for all its curves: the rest comes with the next."""
DEADLINE: Final = 10.0
MOST_RUNS: Final = 16
"""Runs whose curves are kept: the last that were asked for."""
MOST_PARTS: Final = 2000


class CurveFiles(Protocol):
    """What knows the files of runs' trackers."""

    def curve_files(self, run: RunSpec) -> FileCurves | None:
        """Return a new reader of the run's files, ``None`` where its server is to be asked.

        Raises ``NoCurveError``.
        """

    def curve_server(self, run: RunSpec) -> SampledCurves:
        """Return who asks the run's server."""


class CurveReading:
    """The curves of runs; nothing here raises, why a curve is not known stands in it."""

    def __init__(self, trackers: CurveFiles, clock: Clock) -> None:
        self._trackers = trackers
        self._clock = clock
        self._kept: dict[str, tuple[RunSpec, FileCurves]] = {}
        self._turn = asyncio.Lock()

    async def curves(self, run: RunSpec, metrics: Sequence[str], span: Span) -> Curves:
        """Return these metrics of a run, as far as they are read; ``share`` tells how far."""
        wanted = wanted_of(metrics)
        span = span._replace(most=max(1, min(MOST_PARTS, span.most)))
        try:
            files = self._files(run)
        except NoCurveError as error:
            return Curves((), tuple(Curve(each, why=str(error)) for each in wanted))
        if files is None:
            return await self._trackers.curve_server(run).curves(run, wanted, span)
        async with self._turn:
            try:
                return await offload(_read, files, wanted, span, deadline=DEADLINE)
            except TimeoutError:
                why = f"its files do not answer within {DEADLINE:.0f} s"
            except (OSError, ValueError) as error:
                why = _told(error)
        return Curves((), tuple(Curve(each, why=why) for each in wanted))

    def _files(self, run: RunSpec) -> FileCurves | None:
        """Return who reads the run's files, with all that was read before."""
        former = self._kept.pop(run.name, None)
        files = self._trackers.curve_files(run)
        if files is None:
            return None
        kept = former if former is not None and _where(former[0]) == _where(run) else (run, files)
        self._kept[run.name] = kept
        while len(self._kept) > MOST_RUNS:
            del self._kept[next(iter(self._kept))]
        return kept[1]


def _where(run: RunSpec) -> tuple[object, ...]:
    return run.wandb, run.trackio, run.tensorboard


def _read(files: FileCurves, wanted: Sequence[str], span: Span) -> Curves:
    """Read on for one turn, shared by the curves (it runs in a thread)."""
    end = time.monotonic() + TURN
    found = []
    for at, metric in enumerate(wanted):
        until = end - TURN * (len(wanted) - at - 1) / len(wanted)
        try:
            found.append(files.curve(metric, span, partial(_before, until)))
        except NoCurveError as error:
            found.append(Curve(metric, why=str(error)))
    return Curves(files.names(), tuple(found))


def _before(until: float) -> bool:
    return time.monotonic() < until


def _told(error: OSError | ValueError) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return clean(strerror or error, 300)
