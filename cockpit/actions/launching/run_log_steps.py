"""The steps that keep a run's HPC run log (SPEC S-12): its jobs, its status lines, its results.

Each may be done again after a crash: what it writes rests on the journal's facts alone, and an
entry that is there already stays as it is. A run without ``records.run_log`` skips them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import Execution, SkipStep, Step, StepError
from cockpit.actions.core.recording import lasting
from cockpit.actions.launching.launch_records import job_of
from cockpit.actions.launching.snapshot import recorded_code
from cockpit.actions.launching.submitting import snapshot_in, submitted_at
from cockpit.model.run import RunSpec
from cockpit.records.git.committing import Edit
from cockpit.records.runlog.experiments import experiments_of
from cockpit.records.runlog.run_logs import (
    new_run_log,
    run_log_of,
    with_first_job,
    with_results,
    with_resumed_job,
    with_status,
)
from cockpit.records.runlog.timeline import timeline_of
from cockpit.store.memory import Snapshot
from cockpit.text.scrub import scrub

NAME: Final = "run-log"
NO_RUN_LOG: Final = "no run log in cockpit.toml (records.run_log)"
EXPERIMENT: Final = "experiment"


def launched_step(run: str) -> Step:
    """Return the step that begins the run log of a first launch, and lists it."""

    async def write(execution: Execution) -> str:
        spec, at = execution.context.spec, submitted_at(execution)
        path = _path(spec, at)
        begun, fields = (
            _begun(execution, path, snapshot_in(execution)),
            _submitted(execution, "submitted/start"),
        )
        first = lambda data: with_first_job(begun(data), fields)  # noqa: E731
        await _saved(execution, path, first, f"{run}: begin the run log")
        await _saved(execution, *timeline_of(path, at), f"{run}: list the run log")
        if (spec.records.run_type or "").startswith(EXPERIMENT):
            listed = experiments_of(path, spec.name, spec.goal or "")
            await _saved(execution, *listed, f"{run}: list the experiment")
        return str(path)

    return Step(NAME, write, records=True)


def resumed_step(run: str) -> Step:
    """Return the step that appends ``## Job (resumed)`` after a relaunch (HPC, Resumptions)."""

    async def write(execution: Execution) -> str:
        path = _path(execution.context.spec, submitted_at(execution))
        used, fields = snapshot_in(execution), _submitted(execution, "submitted")
        if used.checkpoint is not None:
            step = "unknown" if used.checkpoint.step is None else used.checkpoint.step
            fields["resumed from"] = f"`{used.checkpoint.path}` (step {step})"
        begun = _begun(execution, path)
        return await _saved(
            execution,
            path,
            lambda data: with_resumed_job(begun(data), fields),
            f"{run}: log relaunch in the run log",
        )

    return Step(NAME, write, records=True)


def status_step(make: Callable[[Execution], str], commit: str) -> Step:
    """Return the step that appends a dated line to ``## Status``; ``make`` gives its words."""

    async def write(execution: Execution) -> str:
        at, text = execution.entry.begun_at, scrub(make(execution))
        begun = _begun(execution, path := _path(execution.context.spec, at))
        return await _saved(
            execution, path, lambda data: with_status(begun(data), at, text), commit
        )

    return Step(NAME, write, records=True)


def results_step(
    results: Callable[[Execution], Mapping[str, str]],
    status: Callable[[Execution], str],
    commit: str,
) -> Step:
    """Return the step that fills ``## Results`` and says the end in ``## Status``."""

    async def write(execution: Execution) -> str:
        at, values, line = (
            execution.entry.begun_at,
            _masked(results(execution)),
            scrub(status(execution)),
        )
        begun = _begun(execution, path := _path(execution.context.spec, at))
        return await _saved(
            execution,
            path,
            lambda data: with_results(with_status(begun(data), at, line), values),
            commit,
        )

    return Step(NAME, write, records=True)


def _path(run: RunSpec, at: float) -> Path:
    """Return the run log; raises ``SkipStep`` without one, ``StepError`` for a folder's trouble."""
    if run.records.run_log is None:
        raise SkipStep(NO_RUN_LOG)
    try:
        return run_log_of(run.records.run_log, run.name, at)
    except OSError as error:
        raise StepError(f"{run.records.run_log}: {error.strerror or error}") from error


def _begun(execution: Execution, path: Path, used: Snapshot | None = None) -> Edit:
    """Return what makes a run log of an empty file and leaves every other one alone."""
    run = execution.context.spec
    task = path.stem.partition("_")[2] or path.stem
    config = {"config": f"`{run.config_file}`" if run.config_file else ""}
    if used is not None:
        script = recorded_code(used.command)
        config = {"script": script, **config, "code": used.sha or ""}
    values = {
        "Mode": _masked({"run_type": run.records.run_type or "", "objective": run.goal or ""}),
        "Config": _masked(config),
    }
    new = new_run_log(scrub(task), scrub(run.name), values)
    return lambda data: data if data.strip() else new


def _submitted(execution: Execution, label: str) -> dict[str, str]:
    moment = datetime.fromtimestamp(submitted_at(execution), tz=UTC)
    return {
        "execution_id": f"{job_of(execution)} ({execution.launch_id})",
        label: f"{moment:%Y-%m-%d %H:%M} UTC",
    }


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    return {label: scrub(value) for label, value in values.items()}


async def _saved(execution: Execution, path: Path, edit: Edit, message: str) -> str:
    """Save, commit that file alone, push; raises ``StepError`` for what will not last."""
    done = await execution.context.parts.recorder.document(path, edit, message)
    return lasting(done, execution, path)
