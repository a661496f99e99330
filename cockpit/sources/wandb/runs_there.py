"""Which runs lie in a folder of W&B's, by what their launches have written. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.sources.run_folders import RunThere, beside

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
        """The launch's name, by which launches sort as they were begun."""
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
            began=_begun(max(own, key=lambda each: each.name), zone),
            written=max(each.written for each in own),
            empty=all(each.size <= HEADER for each in own),
            held=None if held is None else any(each.path in held for each in own),
        )
        for run_id, own in by_id.items()
    ]


def notes_on(runs: Sequence[RunThere], run_id: str) -> tuple[str, ...]:
    """Return a line that names the runs which go on, or were begun, beside the one that is read."""
    chosen = next((each for each in runs if each.name == run_id), None)
    if chosen is None:
        return ()
    return beside([each for each in runs if each.written >= chosen.began], chosen)


def _begun(launch: Launch, zone: str) -> float:
    """Return when a launch began, by the name of its folder."""
    try:
        if zone:
            return datetime.strptime(launch.name[4:19] + zone, "%Y%m%d_%H%M%S%z").timestamp()
        return datetime.strptime(launch.name[4:19], "%Y%m%d_%H%M%S").astimezone().timestamp()
    except ValueError:
        return launch.written
