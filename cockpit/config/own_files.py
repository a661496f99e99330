"""What the cockpit and the runs themselves write into a code repository: never code (SPEC C-15).

Told as globs from the repository's top, as ``code.ignore`` is: the run file itself, logbooks and
run logs, state files, logs, pid and exit files, trackers' folders, and the folders that runs save
into. They are those of all runs of the file: one run's output makes no other run's code dirty.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cockpit.model.place import Place
from cockpit.model.run import RunSpec

_BESIDE = ("timeline.md", "experiments.md")
"""What the HPC run logs' folder holds besides them."""


def with_own_files(runs: Iterable[RunSpec], run_file: Path) -> list[RunSpec]:
    """Return the runs, each knowing which files of its code repository are not code."""
    runs = list(runs)
    known: dict[Place, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    made = []
    for run in runs:
        repo = None if run.code is None else run.code.repo
        if run.code is None or repo is None:
            made.append(run)
            continue
        if repo not in known:
            known[repo] = _of_repository(repo, runs, run_file)
        own, outputs = known[repo]
        code = run.code.model_copy(update={"own_files": own, "output_folders": outputs})
        made.append(run.model_copy(update={"code": code}))
    return made


def _of_repository(
    repo: Place, runs: Iterable[RunSpec], run_file: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    top = _top(repo)
    files = [Place("file", "", str(run_file)), *(place for run in runs for place in _files(run))]
    folders = [place for run in runs for place in _folders(run)]
    own = (below for place in files if (below := _below(top, place)) is not None)
    outputs = (below for place in folders if (below := _below(top, place)) is not None)
    return tuple(dict.fromkeys(own)), tuple(dict.fromkeys(outputs))


def _files(run: RunSpec) -> Iterator[Place]:
    job, records, monitor = run.job, run.records, run.monitor
    if job is not None:
        logs = (job.log, *job.other_logs)
        yield from filter(None, (*logs, job.pid_file, job.exit_file, job.done_marker))
    named = [records.logbook, records.run_log]
    if monitor is not None:
        named += [monitor.state, monitor.events]
    for path in filter(None, named):
        yield Place("file", "", path)
    if records.run_log is not None:
        folder = Path(records.run_log).parent
        yield from (Place("file", "", str(folder / name)) for name in _BESIDE)


def _folders(run: RunSpec) -> Iterator[Place]:
    if run.output_root is not None:
        yield run.output_root
    if run.checkpoints is not None:
        yield from run.checkpoints.path
    for tracker in (run.wandb, run.tensorboard):
        if tracker is not None and tracker.dir is not None:
            yield tracker.dir
    if run.teardown is not None and run.teardown.pulled_to is not None:
        yield Place("file", "", run.teardown.pulled_to)


def _top(repo: Place) -> Place:
    """Return where the repository begins: git names its files from there."""
    if not repo.here:
        return repo.normal()
    real = Path(os.path.realpath(repo.path))
    found = next((each for each in (real, *real.parents) if (each / ".git").exists()), real)
    return Place(repo.scheme, repo.host, str(found))


def _below(top: Place, place: Place) -> str | None:
    """Return a place as a path from the repository's top, ``None`` where it lies elsewhere."""
    real = Place("file", "", os.path.realpath(place.path)) if place.here else place.normal()
    if not top.contains(real) or real.normal().path == top.normal().path:
        return None
    return real.normal().path.removeprefix(top.normal().path.rstrip("/") + "/")
