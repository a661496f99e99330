"""The HPC run log: the steps that add a line or fill its results, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import Execution, SkipStep, Step, StepError
from cockpit.actions.core.recording import lasting
from cockpit.model.run import RunSpec
from cockpit.records.git.committing import Edit
from cockpit.records.logbook.run_logs import new_run_log, run_log_of, with_results, with_status
from cockpit.text.scrub import scrub

RUN_LOG: Final = "run-log"
"""The name of each step that writes into the run log."""
NO_RUN_LOG: Final = "no run log in cockpit.toml (records.run_log)"


def status_step(make: Callable[[Execution], str], commit: str) -> Step:
    """Return the step that appends a dated line to ``## Status``; ``make`` gives its words."""

    async def write(execution: Execution) -> str:
        at, text = execution.entry.begun_at, scrub(make(execution))
        begun = begin(execution, path := run_log_path(execution.context.spec, at))
        return await save(execution, path, lambda data: with_status(begun(data), at, text), commit)

    return Step(RUN_LOG, write, records=True)


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
        begun = begin(execution, path := run_log_path(execution.context.spec, at))
        return await save(
            execution,
            path,
            lambda data: with_results(with_status(begun(data), at, line), values),
            commit,
        )

    return Step(RUN_LOG, write, records=True)


def run_log_path(run: RunSpec, at: float) -> Path:
    """Return the run log; raises ``SkipStep`` without one, ``StepError`` for a folder's trouble."""
    if run.records.run_log is None:
        raise SkipStep(NO_RUN_LOG)
    try:
        return run_log_of(run.records.run_log, run.name, at)
    except OSError as error:
        raise StepError(f"{run.records.run_log}: {error.strerror or error}") from error


def begin(execution: Execution, path: Path, used: tuple[str, str] | None = None) -> Edit:
    """Return what makes a run log of an empty file and leaves every other one alone.

    ``used`` are the script and the commit of a first launch.
    """
    run = execution.context.spec
    task = path.stem.partition("_")[2] or path.stem
    config = {"config": f"`{run.config_file}`" if run.config_file else ""}
    if used is not None:
        config = {"script": used[0], **config, "code": used[1]}
    values = {
        "Mode": _masked({"run_type": run.records.run_type or "", "objective": run.goal or ""}),
        "Config": _masked(config),
    }
    new = new_run_log(scrub(task), scrub(run.name), values)
    return lambda data: data if data.strip() else new


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    return {label: scrub(value) for label, value in values.items()}


async def save(execution: Execution, path: Path, edit: Edit, message: str) -> str:
    """Save, commit that file alone, push; raises ``StepError`` for what will not last."""
    done = await execution.context.parts.recorder.document(path, edit, message)
    return lasting(done, execution, path)
