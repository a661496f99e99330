"""Checkpoints on a local path (SPEC S-8, K): listed in a thread, judged by pure code."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, kind_of, known, not_configured, unknown
from cockpit.model.observed import CheckpointsValue
from cockpit.model.place import Place, place_of
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.runtime.offload import offload
from cockpit.sources.checkpoints.judge import (
    Circumstances,
    SeenFolder,
    chosen_layout,
    judge_listing,
    remember,
)
from cockpit.sources.checkpoints.listing import Root
from cockpit.sources.checkpoints.rejected import Books, read_marks
from cockpit.sources.checkpoints.scan import Scanner
from cockpit.text.safe import clean

DEADLINE: Final = 12.0
_LIMIT: Final = 4096


class Checkpoints:
    """The checkpoints of many runs; remembers each run's former listing to see growth."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks: dict[tuple[str, CheckpointSpec], _Look] = {}

    async def observe(
        self,
        runs: Sequence[RunSpec],
        alive: Mapping[str, bool] | None = None,
        rejected: Mapping[str, tuple[Rejected, ...]] | None = None,
    ) -> dict[str, Facet[CheckpointsValue]]:
        """Return the checkpoints of each run; ``alive`` tells which jobs are known to live.

        ``rejected`` is what else is known of rejected ones, beside the logbook and the roots.
        """
        lives, known_bad = alive or {}, rejected or {}
        found = await asyncio.gather(
            *(self._one(run, lives.get(run.name), known_bad.get(run.name, ())) for run in runs)
        )
        return {run.name: facet for run, facet in zip(runs, found, strict=True)}

    async def _one(
        self, run: RunSpec, alive: bool | None, rejected: tuple[Rejected, ...]
    ) -> Facet[CheckpointsValue]:
        spec = run.checkpoints
        if spec is None or not spec.path:
            return not_configured("[run.checkpoints]")
        source = clean(" + ".join(map(str, spec.path)), _LIMIT)
        remote = next((root for root in spec.path if not root.here), None)
        if remote is not None:
            return unknown(ErrorKind.UNSUPPORTED, _not_yet(remote), source, self._clock.now())
        try:
            look = self._look(run, spec)
            value = await offload(
                look.observe, alive, run.final_step, run.records.logbook, rejected,
                deadline=DEADLINE,
            )  # fmt: skip
        except TimeoutError:
            message = f"{source}: no listing within {DEADLINE:g} s"
            return unknown(ErrorKind.TIMEOUT, message, source, self._clock.now())
        except OSError as error:
            return unknown(kind_of(error), _line(error), source, self._clock.now())
        except ValueError as error:
            return unknown(ErrorKind.BAD_ANSWER, clean(error), source, self._clock.now())
        return known(value, source, self._clock.now())

    def _look(self, run: RunSpec, spec: CheckpointSpec) -> _Look:
        key = (run.name, spec)
        if key not in self._looks:
            self._looks[key] = _Look(spec, self._clock, _folder_names(run))
        return self._looks[key]


class _Look:
    """One run's roots, its scanner's memory and its former listing."""

    def __init__(self, spec: CheckpointSpec, clock: Clock, prefer: frozenset[str]) -> None:
        self._spec = spec
        self._clock = clock
        self._scanner = _scanner(spec, prefer)
        self._before: Mapping[str, SeenFolder] = {}
        self._books = Books()
        self._lock = threading.Lock()

    def observe(
        self,
        alive: bool | None,
        final_step: int | None,
        logbook: str | None,
        rejected: tuple[Rejected, ...],
    ) -> CheckpointsValue:
        """List and judge; blocking.

        Raises ``OSError`` when the roots cannot be listed, ``ValueError`` when they hold more
        than one run's checkpoints.
        """
        with self._lock:  # a look that was given up may still be at work
            bad = (*self._books.rejected(logbook), *rejected)
            roots = _roots(self._scanner, _paths(self._spec))
            bad += _marked(roots)
            around = Circumstances(self._clock.now(), alive, self._before, final_step, bad)
            value = judge_listing(roots, around, self._spec)
            _one_run_only(value, [_plain(path) for path in _paths(self._spec)])
            self._before = remember(value, roots, self._before)
            self._scanner.settle(value)
            return value


def list_checkpoints(
    paths: Sequence[str],
    layout: str = "auto",
    custom: CustomLayout | None = None,
    *,
    now: float,
) -> CheckpointsValue:
    """Return the checkpoints under one run's ``paths`` (permanent root first); blocking.

    Raises ``OSError`` for a path that cannot be listed, ``ValueError`` for an unknown layout
    or a remote address.
    """
    places = tuple(place_of(path) for path in paths)
    remote = next((place for place in places if not place.here), None)
    if remote is not None:
        raise ValueError(_not_yet(remote))
    spec = CheckpointSpec(path=places, layout=layout, custom=custom)
    scanner = _scanner(spec, frozenset())
    roots = [root for path in paths for root in scanner.roots(_plain(path))]
    return judge_listing(roots, Circumstances(now, rejected=_marked(roots)), spec)


def without(
    run: RunSpec, gone: Collection[str], rejected: tuple[Rejected, ...], now: float
) -> CheckpointsValue:
    """Return what the listing of a dead run would say if the paths in ``gone`` were not there.

    Blocking; raises as ``list_checkpoints`` does.
    """
    spec = run.checkpoints or CheckpointSpec()
    scanner = _scanner(spec, _folder_names(run))
    roots = [_left(root, gone) for root in _roots(scanner, _paths(spec))]
    bad = (*Books().rejected(run.records.logbook), *rejected, *_marked(roots))
    return judge_listing(roots, Circumstances(now, False, {}, run.final_step, bad), spec)


def _folder_names(run: RunSpec) -> frozenset[str]:
    """Return what the run's own folder may be called where a root holds many runs."""
    return frozenset({run.name} | ({run.wandb.id} if run.wandb and run.wandb.id else set()))


def _left(root: Root, gone: Collection[str]) -> Root:
    def stays(name: str) -> bool:
        return clean(f"{root.path.rstrip('/')}/{name}", _LIMIT) not in gone

    folders = tuple(folder for folder in root.folders if stays(folder.name))
    return replace(root, folders=folders, files=tuple(f for f in root.files if stays(f.path)))


def _marked(roots: Sequence[Root]) -> tuple[Rejected, ...]:
    paths = dict.fromkeys(root.path for root in roots)
    return tuple(one for path in paths for one in read_marks(path))


def _scanner(spec: CheckpointSpec, prefer: frozenset[str]) -> Scanner:
    layout = chosen_layout(spec)
    if layout is None or layout.name not in ("levanter", "custom"):
        return Scanner(prefer=prefer)
    return Scanner(layout.pattern, (layout.marker,), prefer)


def _roots(scanner: Scanner, paths: Sequence[str]) -> list[Root]:
    """Return all roots; one of several that does not exist (yet) holds nothing."""
    found: list[Root] = []
    missing: list[OSError] = []
    for index, path in enumerate(paths):
        temporary = index > 0 if len(paths) > 1 else None
        try:
            found += scanner.roots(_plain(path), temporary)
        except FileNotFoundError as error:
            missing.append(error)
    if len(missing) == len(paths):
        raise missing[0]
    return found


_PAIR: Final = re.compile(r"[-_.]?(?:temporary|permanent|temp|tmp|perm)[-_.]?")


def _one_run_only(value: CheckpointsValue, paths: Sequence[str]) -> None:
    """Refuse to mix lineages (C-17): a path above the folders of several runs names none."""
    below = sorted({item.root for item in value.items} - set(paths))
    runs = {_PAIR.sub("", root) for root in below}
    if len(runs) > 1:
        names = ", ".join(Path(root).name for root in below[:4])
        where = Path(below[0]).parent
        raise ValueError(f"{where} holds several runs ({names}); name this run's own folder")


def _plain(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _paths(spec: CheckpointSpec) -> list[str]:
    return [root.path for root in spec.path]


def _not_yet(place: Place) -> str:
    return f"{clean(place.scheme, 20)}:// checkpoints are not read yet by this version"


def _line(error: OSError) -> str:
    reason = {
        FileNotFoundError: "does not exist",
        NotADirectoryError: "is not a folder",
        PermissionError: "may not be read (permission denied)",
    }.get(type(error), (error.strerror or "cannot be listed").lower())
    return clean(f"{error.filename or 'checkpoint root'} {reason}", _LIMIT)
