"""W&B without its cloud: the tracker facet from ``.wandb`` files on this machine (SPEC S-7).

All launches of one run id are joined in the order of their start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.observed import TrackerValue
from cockpit.model.query import Query
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.offload import offload
from cockpit.sources.wandb.file import NotWandbError
from cockpit.sources.wandb.history import RowChunk
from cockpit.sources.wandb.run_files import RunFiles
from cockpit.text.safe import clean

DEADLINE = 5.0
"""Seconds after which a file system that does not answer is given up for this time.

It is less than the watch gives a whole bulk and ``check`` a facet: a file that hangs is then
named as such by its own run.
"""

_THIS_MACHINE = (None, "", "localhost", "127.0.0.1")
_NOTHING = RowChunk((), caught_up=True, restarted=False, share=0.0)

T = TypeVar("T")


class OfflineWandb:
    """Reads the ``.wandb`` files that ``[run.wandb] dir`` names; never imports the client.

    ``observe`` is quick on a file of any size and never raises. ``more_rows`` and ``recent``
    give rows to the rules; of a run whose files cannot be read they give none.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, tuple[WandbSpec, RunFiles]] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, by run name."""
        facets = await asyncio.gather(*(self._observe(query.run) for query in queries))
        return {query.name: facet for query, facet in zip(queries, facets, strict=True)}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from the first one on, then what is new.

        Call it until ``caught_up``, and again when the file may have grown.
        """
        return await self._rows(run, RunFiles.more)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the last ``rows`` rows; ``share`` is the part of the run that they cover."""
        return await self._rows(run, RunFiles.recent, rows)

    def rewind(self, run: str) -> None:
        """Give out every row of a run from the first one again."""
        former = self._runs.get(run)
        if former is not None:
            former[1].rewind()

    async def _observe(self, run: RunSpec) -> Facet[TrackerValue]:
        spec = run.wandb
        if spec is None:
            return not_configured("[run.wandb]")
        now = self._clock.now()
        reason = _why_not_here(run, spec)
        if reason is not None:
            return unknown(ErrorKind.UNSUPPORTED, reason, "W&B", now)
        source = f"W&B files in {clean(_path(spec))}"
        if run.same_tracker:
            return unknown(ErrorKind.BAD_ANSWER, _whose(run), source, now)
        outcome = await _settled(self._files(run, spec).value, self._clock)
        now = self._clock.now()
        if isinstance(outcome, TrackerValue):
            return known(outcome, source, now)
        return unknown(*_problem(outcome, spec), source, now)

    async def _rows(self, run: RunSpec, read: Callable[..., RowChunk], *args: object) -> RowChunk:
        if run.wandb is None or run.same_tracker or _why_not_here(run, run.wandb) is not None:
            return _NOTHING
        outcome = await _settled(read, self._files(run, run.wandb), *args)
        return outcome if isinstance(outcome, RowChunk) else _NOTHING

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


def _why_not_here(run: RunSpec, spec: WandbSpec) -> str | None:
    """Return why this machine's files cannot tell about the run, or ``None``."""
    if spec.dir is None:
        return "wandb.dir is not given"
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


def _whose(run: RunSpec) -> str:
    others = ", ".join(clean(name) for name in run.same_tracker)
    return f"{others} reads the same folder: whose run is the newest? set wandb.id, or a dir each"
