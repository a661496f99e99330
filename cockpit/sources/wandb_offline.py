"""W&B without its cloud: the tracker facet from ``.wandb`` files on this machine (SPEC S-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.observed import TrackerValue
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.offload import offload
from cockpit.sources.wandb_log import NotWandbError
from cockpit.sources.wandb_pass import Rows
from cockpit.sources.wandb_run import RunFiles
from cockpit.text.safe import clean

__all__ = ["OfflineWandb", "Rows"]

DEADLINE = 5.0
"""Seconds after which a file system that does not answer is given up for this time.

It is less than the watch gives a whole bulk and ``check`` a facet: a file that hangs is then
named as such by its own run.
"""

_THIS_MACHINE = (None, "", "localhost", "127.0.0.1")
_NOTHING = Rows((), caught_up=True, restarted=False, share=0.0)

T = TypeVar("T")


class OfflineWandb:
    """Reads the ``.wandb`` files that ``[run.wandb] dir`` names; never imports the client.

    ``observe`` is quick on a file of any size and never raises. ``more_rows`` and ``recent``
    give rows to the rules; of a run whose files cannot be read they give none.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, tuple[WandbSpec, RunFiles]] = {}

    async def observe(self, runs: Sequence[RunSpec]) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, by run name."""
        facets = await asyncio.gather(*(self._observe(run) for run in runs))
        return {run.name: facet for run, facet in zip(runs, facets, strict=True)}

    async def more_rows(self, run: RunSpec) -> Rows:
        """Return the next chunk of every logged row, from the first one on, then what is new.

        Call it until ``caught_up``, and again when the file may have grown.
        """
        files = self._readable(run)
        return _NOTHING if files is None else _rows(await _settled(files.more))

    async def recent(self, run: RunSpec, rows: int = 3000) -> Rows:
        """Return the last ``rows`` rows; ``share`` is the part of the run that they cover."""
        files = self._readable(run)
        return _NOTHING if files is None else _rows(await _settled(files.recent, rows))

    async def _observe(self, run: RunSpec) -> Facet[TrackerValue]:
        spec = run.wandb
        if spec is None:
            return not_configured("[run.wandb]")
        now = self._clock.now()
        reason = _why_not_here(run, spec)
        if reason is not None:
            return unknown(ErrorKind.REFUSED, reason, "W&B", now)
        source = f"W&B files in {clean(_path(spec))}"
        outcome = await _settled(self._files(run, spec).value, self._clock)
        now = self._clock.now()
        if isinstance(outcome, TrackerValue):
            return known(outcome, source, now)
        return unknown(*_problem(outcome, spec), source, now)

    def _readable(self, run: RunSpec) -> RunFiles | None:
        if run.wandb is None or _why_not_here(run, run.wandb) is not None:
            return None
        return self._files(run, run.wandb)

    def _files(self, run: RunSpec, spec: WandbSpec) -> RunFiles:
        former = self._runs.get(run.name)
        if former is None or former[0] != spec:
            former = self._runs[run.name] = (spec, RunFiles(spec))
        return former[1]


async def _settled(read: Callable[..., T], *args: object) -> T | OSError | NotWandbError:
    """Return what ``read`` returns, or the way in which the files could not be read."""
    try:
        return await offload(read, *args, deadline=DEADLINE)
    except (OSError, NotWandbError) as error:
        return error


def _rows(outcome: Rows | OSError | NotWandbError) -> Rows:
    return outcome if isinstance(outcome, Rows) else _NOTHING


def _why_not_here(run: RunSpec, spec: WandbSpec) -> str | None:
    """Return why this machine's files cannot tell about the run, or ``None``."""
    if spec.dir is None:
        return "online W&B is not read yet: give wandb.dir"
    host = spec.dir.host or (run.job.host if run.job is not None else None)
    if host not in _THIS_MACHINE:
        return f"wandb.dir is on {clean(host)}, which is not read yet"
    return None


def _path(spec: WandbSpec) -> str:
    return "" if spec.dir is None else spec.dir.path


def _problem(error: OSError | NotWandbError, spec: WandbSpec) -> tuple[ErrorKind, str]:
    place = clean(_path(spec))
    if isinstance(error, TimeoutError):
        return ErrorKind.TIMEOUT, f"{place} does not answer ({clean(error)})"
    if isinstance(error, PermissionError):
        return ErrorKind.PERMISSION, f"{place} may not be read by this user"
    if isinstance(error, FileNotFoundError):
        missing = clean(error) if error.errno is None else f"there is no {place}"
        return ErrorKind.NOT_FOUND, missing
    if isinstance(error, NotADirectoryError):
        return ErrorKind.NOT_FOUND, f"{place} is neither a folder nor a .wandb file"
    reason = clean(error.strerror if isinstance(error, OSError) and error.strerror else error)
    return ErrorKind.BAD_ANSWER, f"{place}: {reason}"
