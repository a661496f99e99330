"""Jobs of a lineage that another machine has noted under the shared output root (C-25). Blocking.

A note says what its machine last knew: one that was started before the job here may be a dead
machine's, which can take nothing back; one that was started after it is a second job.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.lineage import local_root
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher import launches
from cockpit.platforms.local.launcher.kernel import machine_id
from cockpit.text.safe import clean

NOTES: Final = "launch notes under the output root"
NEWEST: Final = 20
"""Launch notes that are looked at, the last ones by name."""


def launched_elsewhere(run: RunSpec, since: float | None) -> tuple[LiveJob, ...]:
    """Return what other machines have started after ``since`` and say that it runs."""
    root, here = local_root(run), machine_id()
    if root is None or here is None or since is None:
        return ()
    folder = Path(root) / launches.BELOW
    found = []
    with suppress(OSError):
        for name in sorted(launches.ids(folder))[-NEWEST:]:
            job = _running(name, launches.read(folder / name) or {}, here, since)
            found += [] if job is None else [job]
    return tuple(found)


def _running(name: str, note: Mapping[str, str], here: str, since: float) -> LiveJob | None:
    machine, host = note.get("machine"), clean(note.get("host", "?"), 80)
    if note.get("state") != launches.RUNNING or machine in (None, here):
        return None
    try:
        at = float(note.get("at", ""))
    except ValueError:
        return None
    if at <= since:
        return None
    return LiveJob(
        id=f"{clean(name, 80)} on {host}",
        name=f"pid {clean(note.get('pid', '?'), 20)} on {host}",
        why="by its launch note, which another machine wrote",
        launch_id=clean(name, 80),
        started_at=at,
        proven=False,
    )
