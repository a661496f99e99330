"""Every launch id that was ever given out, wherever that is written: none is given out again.

A store can be new, be lost, or be another machine's. What is public outlives it: the logbook, and
the notes that each launch leaves under its output root or beside its pid file (SPEC A).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import asked
from cockpit.actions.core.context import ActionContext
from cockpit.model.lineage import local_root
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher import launches
from cockpit.runtime.offload import offload
from cockpit.sources.records import read_text
from cockpit.store.journal import Journal

DEADLINE: Final = 10.0


async def noted_ids(run: RunSpec) -> frozenset[str]:
    """Return the launch ids of a run that its logbook and its places name; never raises."""
    found: set[str] = set()
    logbook = run.records.logbook
    if logbook is not None:
        found |= await _quietly(_in_logbook, run.name, Path(logbook))
    for folder in _folders(run):
        found |= await _quietly(_in_folder, run.name, folder)
    return frozenset(found)


async def _quietly(look: Callable[[str, Path], set[str]], name: str, place: Path) -> set[str]:
    try:
        return await offload(look, name, place, deadline=DEADLINE)
    except (OSError, ValueError, TimeoutError):
        return set()


def _folders(run: RunSpec) -> Iterator[Path]:
    root, job = local_root(run), run.job
    if root is not None:
        yield Path(root) / launches.BELOW
    if job is not None and job.pid_file is not None and job.pid_file.here:
        yield Path(job.pid_file.path).expanduser().parent / launches.BELOW


def _in_folder(run: str, folder: Path) -> set[str]:
    return {name for name in launches.ids(folder) if launches.number_of(run, name)}


def _in_logbook(run: str, logbook: Path) -> set[str]:
    """Return the ids in a logbook, in whatever form: prose, an instance's heading, a title."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(run)}-i\d{{1,6}}(?![\w-])")
    return set(pattern.findall(read_text(logbook)))


async def known_here(journal: Journal | None, context: ActionContext) -> set[str]:
    """Return the launch ids that this machine knows of by itself; raises ``StoreError``."""
    known = set(await asked(journal.launch_ids, context.key)) if journal else set()
    job = context.report.facets.job.value
    if job is not None and job.launch_id:
        known.add(job.launch_id)
    return known | {each.launch_id for each in context.live.jobs if each.launch_id}
