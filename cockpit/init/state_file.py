"""What a monitoring state file tells of the run that it watches (SPEC S-9). Blocking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from cockpit.init.proposal import Clue
from cockpit.model.facet import Problem
from cockpit.sources.monitor.file import StateRead, read_state
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

PATTERN: Final = "*_monitoring_state.json"
MOST: Final = 200
"""State files beside one that are looked at."""
KINDS: Final = (
    ("iris", re.compile(r"/[^/\s]+/\S+")),
    ("ray", re.compile(r"raysubmit_\w+")),
    ("slurm", re.compile(r"\d+(?:_\d+)?")),
)
"""The shapes of job ids by which a kind is known."""


class SourceError(Exception):
    """A source that cannot be read; the text is one line that says what was expected."""


def kind_of_id(job_id: str) -> str | None:
    """Return the kind of job that has ids of this shape, ``None`` if several or none do."""
    return next((kind for kind, shape in KINDS if shape.fullmatch(job_id)), None)


def state_clues(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield what the file tells; raises ``SourceError``.

    ``folder`` is where the run file is to stand: paths are written as seen from there.
    """
    found = read_state(str(path))
    if found is None or isinstance(found, Problem):
        raise SourceError(f"{clean(path)} does not exist" if found is None else found.message)
    source = relative(path, folder)
    yield Clue(("monitor", "state"), _pattern(path, folder, found.job_id), source)
    if found.cadence_s is not None:
        yield Clue(("monitor", "cadence"), f"{found.cadence_s:g}s", source)
    for key, value in ((("name",), found.run), (("dri",), found.owner)):
        if value is not None:
            yield Clue(key, value, source)
    if found.job_id is not None:
        yield from _job(found.job_id, source)
    yield from _setup(path, folder, found.job_id, source)


def _job(job_id: str, source: str) -> Iterator[Clue]:
    yield Clue(("job", "id"), job_id, source)
    kind = kind_of_id(job_id)
    if kind is not None:
        yield Clue(("job", "kind"), kind, f"{source}: the shape of its job id")


def _setup(path: Path, folder: Path, job_id: str | None, source: str) -> Iterator[Clue]:
    """Yield what the loop's own set-up tells: how to submit again, which cluster."""
    document = _document(path)
    command = document.get("resubmit_command")
    # A secret in the clear must not reach another file; its variable's name may.
    if isinstance(command, str) and command.strip() and scrub(command) == command:
        yield Clue(("resubmit",), clean(command, 4096), source)
    cluster = document.get("config") or document.get("cluster")
    if isinstance(cluster, str) and cluster and kind_of_id(job_id or "") == "iris":
        yield Clue(("job", "cluster"), clean(cluster, 1024), source)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _pattern(path: Path, folder: Path, job_id: str | None) -> str:
    """Return a pattern that the next monitor's file matches too, if it is this job's alone."""
    if not path.match(PATTERN):
        return relative(path, folder)
    beside = sorted(path.parent.glob(PATTERN))
    alone = len(beside) == 1 or (job_id is not None and len(beside) <= MOST)
    return relative(path.parent / PATTERN if alone and _all_of(beside, job_id) else path, folder)


def _all_of(paths: Iterable[Path], job_id: str | None) -> bool:
    """Tell whether all files are surely of one job; one that cannot be read may be another's."""
    found = (read_state(str(path)) for path in paths)
    return all(isinstance(each, StateRead) and each.job_id == job_id for each in found)


def relative(path: Path, folder: Path) -> str:
    """Return a path as the run file in ``folder`` would write it."""
    whole, base = path.absolute(), folder.absolute()
    return str(whole.relative_to(base)) if whole.is_relative_to(base) else str(whole)
