"""Why a job of Slurm belongs to a run (SPEC J, C-25): by its comment, its command, its folders."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher.launches import number_of
from cockpit.platforms.local.naming import (
    Use,
    arguments,
    names_the_tracker_run,
    only_looks,
    use_of,
)
from cockpit.platforms.slurm.record import Record

_WORDS: Final = re.compile(r"[\s'\"`;,()]+")
_SBATCH: Final = re.compile(r"^(-o|-e|-i|--output|--error|--input|-J|--job-name)$")


class Mark(NamedTuple):
    """Why a job is one of the run, whether that is proven, and its launch id if it tells one."""

    why: str
    proven: bool = True
    launch_id: str | None = None


def words_of(text: str) -> list[str]:
    """Return the words of a job's command or comment."""
    return [word for word in _WORDS.split(text) if word]


def values_of(record: Record) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of what a job's command and comment say."""
    return tuple(_values(words_of(f"sbatch {record.command} {record.comment}")))


def launch_of(run: RunSpec, record: Record) -> str | None:
    """Return the launch id of the run in a job's comment (``sbatch --comment=<run>-i003``)."""
    for word in _WORDS.split(record.comment):
        if number_of(run.name, word) is not None:
            return word
    return None


def is_diagnostic(run: RunSpec, record: Record) -> bool:
    """Tell whether the run file calls a job of this name diagnostic (C-21)."""
    patterns = run.job.diagnostic if run.job is not None else ()
    return any(fnmatch.fnmatchcase(record.name, pattern) for pattern in patterns)


def mark_of(run: RunSpec, record: Record) -> Mark | None:
    """Return why a job is one of the run's lineage, ``None`` if nothing says so."""
    if not _may_be(run, record):
        return None
    launch_id = launch_of(run, record)
    if launch_id is not None:
        return Mark(f"its comment says launch {launch_id}", True, launch_id)
    told = next(_told(run, record), None)
    return told or _by_folder(run, record)


def _may_be(run: RunSpec, record: Record) -> bool:
    """Tell at little cost whether a job's texts hold any of the run's names at all."""
    root = run.output_root
    names = (
        f"{run.name}-i",
        None if root is None else posixpath.basename(root.path.rstrip("/")),
        None if run.wandb is None else run.wandb.run_id,
    )
    told = (record.comment, record.command, record.output, record.workdir)
    return any(name in text for name in names if name for text in told if text)


def _told(run: RunSpec, record: Record) -> Iterator[Mark]:
    """Yield what its command and its comment say, what is proven first."""
    if any(only_looks(word) for word in record.command.split()[:1]):
        return
    told = values_of(record)
    found = [mark for key, value in told if (mark := _named(run, record, key, value))]
    yield from sorted(found, key=lambda mark: not mark.proven)


def _values(words: list[str]) -> Iterator[tuple[str, str]]:
    for key, value in arguments(words):
        if not _SBATCH.match(f"-{key}" if len(key) == 1 else f"--{key}"):
            yield key, value


def _named(run: RunSpec, record: Record, key: str, value: str) -> Mark | None:
    use = use_of(key) if key else Use.EITHER
    shown = f" ({key})" if key else ""
    root = None if use is Use.READS else run.output_root
    if root is not None and _within(run, root, value, record.workdir):
        return Mark(f"its command names the output root{shown}", use is Use.WRITES)
    wandb_id = None if run.wandb is None else run.wandb.run_id
    if wandb_id and value == wandb_id:
        certain = "wandb" in key.lower() or names_the_tracker_run(key)
        if certain is not False:
            return Mark(f"its command or comment names the W&B id{shown}", certain is True)
    return None


def _by_folder(run: RunSpec, record: Record) -> Mark | None:
    """Return that its output or its working folder lies where only the run writes."""
    root = run.output_root
    if root is None:
        return None
    if record.output and _within(run, root, posixpath.dirname(record.output), None):
        return Mark("its output goes into the output root")
    if record.workdir and _within(run, root, record.workdir, None):
        return Mark("it works in the output root", proven=False)
    return None


def _within(run: RunSpec, root: Place, value: str, workdir: str | None) -> bool:
    """Tell whether a value is the output root as the job sees it, or lies below it."""
    seen = root.normal().seen_from(run.job)
    if not value or value in (".", ".."):
        return False
    path = value.rstrip("/")
    if "://" not in value:
        if not value.startswith("/") and (workdir is None or "/" not in value):
            return False
        path = posixpath.normpath(posixpath.join(workdir or "/", value))
    return path == seen or path.startswith(seen.rstrip("/") + "/")
