"""Every launch id that was ever given out, wherever that is written: none is given out again.

A store can be new, be lost, or be another machine's. What is public outlives it: the logbook, and
the notes that each launch leaves under its output root or beside its pid file (SPEC A).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.actions.core.action import asked
from cockpit.actions.core.context import ActionContext
from cockpit.model.lineage import local_root
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, Platform
from cockpit.platforms.local.launcher import launches
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text
from cockpit.store.journal import Journal
from cockpit.text.checks import warned
from cockpit.text.scrub import shown

DEADLINE: Final = 10.0


class Noted(NamedTuple):
    """The launch ids that are written somewhere; ``unread``: what could not be read, and why."""

    ids: frozenset[str]
    unread: tuple[str, ...] = ()


async def noted_ids(run: RunSpec, platform: Platform | None = None) -> Noted:
    """Return the launch ids of a run that logbook, places and platform name; never raises.

    What is not there names none; what does not answer, or may not be read, may name any.
    """
    logbook = run.records.logbook
    looks: list[tuple[Callable[[str, Path], set[str]], Path]] = []
    if logbook is not None:
        looks.append((_in_logbook, Path(logbook)))
    looks += [(_in_folder, folder) for folder in _folders(run)]
    found: set[str] = set()
    unread = []
    for look, place in looks:
        try:
            found |= await offload(look, run.name, place, deadline=DEADLINE)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or "it cannot be read"
            unread.append(f"{shown(place)}: {shown(why).lower()}")
    try:
        found |= await platform.launch_ids(run) if platform is not None else frozenset()
    except CannotError as error:
        unread.append(shown(error))
    return Noted(frozenset(found), tuple(unread))


def unread_ids(context: ActionContext) -> list[Check]:
    """Return the warning that a launch id may have been given out before, unseen from here."""
    if not context.ids_unread:
        return []
    where = "; ".join(context.ids_unread)
    text = f"not all earlier launch ids could be read ({where})"
    return [warned("launch-ids", text).model_copy(update={"about_acting": True})]


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
