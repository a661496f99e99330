"""Which ``.wandb`` files a run has at a place, here or on a host, and which run is meant there."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.run import WandbSpec
from cockpit.sources import run_folders
from cockpit.sources.wandb.file import HEAD_AWAY, TAIL_AWAY

SUFFIX: Final = ".wandb"
MOST: Final = 300
"""Chosen that are named of one folder: those of the newest launches, as their names sort."""
MOST_LAUNCHES: Final = 64
"""Newest launches of a folder among which the run that goes on is looked for."""
HEADER: Final = 7
"""Bytes of a file in which nothing was written yet."""
_SHOWN_IDS: Final = 5
_THIS_MACHINE: Final = ("", "localhost", "127.0.0.1")
FOLDERS: Final = ("", ".wandb/", "wandb/")
"""Where runs lie below a place: the client prefers ``.wandb`` where that is there."""
_ONE: Final = ("run-*.wandb",)
_LAUNCHES: Final = ("run-*/run-*.wandb", "offline-run-*/run-*.wandb")
ANY: Final = tuple(
    tuple(f"{folder}{each}" for each in patterns)
    for folder in FOLDERS
    for patterns in (_ONE, _LAUNCHES)
)
"""The patterns of any run's files; the first that find some count, each second finds launches."""


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
    return PurePosixPath(path).parent.name.removeprefix("offline-")


def _runs_of(
    launches: Iterable[Launch], held: Collection[str] | None, zone: str = ""
) -> list[run_folders.RunThere]:
    """Return the runs by their ids, each with what its newest launch tells of it.

    ``held`` are the paths that a process writes, ``None`` where that cannot be seen. ``zone`` is
    that of the machine which named the folders (``+0100``); empty: this one's.
    """
    by_id: dict[str, list[Launch]] = {}
    for each in launches:
        by_id.setdefault(each.run_id, []).append(each)
    return [
        run_folders.RunThere(
            name=run_id,
            began=_launch_time(max(own, key=lambda each: each.name), zone),
            written=max(each.written for each in own),
            empty=all(each.size <= HEADER for each in own),
            held=None if held is None else any(each.path in held for each in own),
        )
        for run_id, own in by_id.items()
    ]


def _notes_on(runs: Sequence[run_folders.RunThere], run_id: str) -> tuple[str, ...]:
    """Return a line that names the other runs which go on, or started, beside the one read."""
    chosen = next((each for each in runs if each.name == run_id), None)
    if chosen is None:
        return ()
    return run_folders.beside([each for each in runs if each.written >= chosen.began], chosen)


def _launch_time(launch: Launch, zone: str) -> float:
    """Return when a launch began, by the name of its folder."""
    try:
        if zone:
            return datetime.strptime(launch.name[4:19] + zone, "%Y%m%d_%H%M%S%z").timestamp()
        return datetime.strptime(launch.name[4:19], "%Y%m%d_%H%M%S").astimezone().timestamp()
    except ValueError:
        return launch.written


class Wanted(NamedTuple):
    """Where the files of a run lie (a file or a folder, as its machine spells it), and which run.

    The folder is a run's directory (``offline-run-…``), a folder of them (``wandb``) or the one
    that holds ``wandb`` or ``.wandb``. ``label`` is what the place is called in what is said of it.
    ``host`` is the ssh host that has it.
    """

    place: str
    run_id: str | None
    label: str
    host: str = ""

    @property
    def named(self) -> list[Sequence[str]]:
        """Return the patterns of its files by its id; the first that find any count."""
        if self.run_id is None:
            return []
        run = glob.escape(self.run_id)
        patterns = [f"run-{run}.wandb", f"*{run}*/run-{run}.wandb", f"*/run-{run}.wandb"]
        return [(f"{folder}{each}",) for folder in FOLDERS for each in patterns]

    @property
    def below(self) -> run_folders.Below:
        """Return what asks for its files. Links such as ``latest-run`` add nothing twice."""
        return run_folders.Below(self.place, [*self.named, *ANY], MOST, MOST_LAUNCHES, real=True)


def wanted_of(spec: WandbSpec) -> Wanted:
    """Return what is looked for."""
    place = spec.dir
    if place is None or place.here:
        path = "" if place is None else place.path
        return Wanted(path, spec.run_id, path)
    host = "" if place.host in _THIS_MACHINE else place.host
    return Wanted(place.path, spec.run_id, str(place), host)


class LaunchFiles(run_folders.TrackerFiles[Wanted]):
    """The runs whose files lie here or on hosts."""

    def __init__(
        self, call: CallHost = call_blocking, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__(call, SUFFIX, TAIL_AWAY, HEAD_AWAY, now)

    def below(self, place: Wanted) -> run_folders.Below:
        """Return what asks for a run's files."""
        return place.below

    def choose(
        self, place: Wanted, found: run_folders.Found, among: run_folders.Among, zone: str
    ) -> run_folders.Chosen:
        """Return the files of the run that is meant."""
        return files_in(found, place, among, zone)


def files_in(
    found: run_folders.Found, wanted: Wanted, among: run_folders.Among, zone: str = ""
) -> run_folders.Chosen:
    """Return a run's files among those at a place; raises ``OSError`` where there are none.

    Without an id a folder means the run in it that goes on, else its newest one. ``zone`` is that
    of the machine which named the folders (``+0100``); empty: this one's.
    """
    if found.kind == "other":
        raise NotADirectoryError(f"{wanted.label} is neither a folder nor a .wandb file")
    level = found.level - len(wanted.named)
    if found.kind == "file" or level < 0:
        return _files(found.paths, among)
    newest_first = sorted(found.paths, key=launch_name, reverse=True)
    if wanted.run_id is not None or not newest_first:
        raise FileNotFoundError(_missing(wanted, newest_first))
    if level % 2 == 0:
        return _files(found.paths, among)
    measured = [Launch(path, *_size_and_time(*more)) for path, *more in found.files if more]
    newest = sorted(measured, key=lambda each: each.name)[-MOST_LAUNCHES:]
    several = len({each.run_id for each in newest}) > 1
    runs = _runs_of(newest, among([each.path for each in newest]) if several else None, zone)
    chosen = run_folders.living(runs)
    own = [path for path in found.paths if id_in_name(path) == chosen.name]
    notes, before = _notes_on(runs, chosen.name), run_folders.earlier(runs, chosen)
    return _files(own, among)._replace(notes=notes, earlier=before)


def _files(paths: Sequence[str], among: run_folders.Among) -> run_folders.Chosen:
    written = among(paths) if len(paths) > 1 else None
    return run_folders.Chosen(sorted(paths), written or frozenset())


def _size_and_time(version: str) -> tuple[int, float]:
    _, _, size, mtime, _ = version.split()
    return int(size), float(mtime)


def _missing(wanted: Wanted, newest_first: Sequence[str]) -> str:
    """Say that the run is not there, and what is: an id is seldom what its trainer made up."""
    place, run_id = wanted.label, wanted.run_id
    there = list(filter(None, dict.fromkeys(map(id_in_name, newest_first))))
    if run_id is None or not there:
        what = "no W&B run" if run_id is None else f"no W&B run {run_id}, nor any other,"
        return f"{what} in {place} yet"
    shown = ", ".join(there[:_SHOWN_IDS])
    more = f" and {len(there) - _SHOWN_IDS} more" if len(there) > _SHOWN_IDS else ""
    advice = "without wandb.id the newest is read"
    return f"no W&B run {run_id} in {place}; there: {shown}{more} (newest first; {advice})"
