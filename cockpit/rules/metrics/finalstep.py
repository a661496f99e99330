"""Which final step counts, by what the present job tells beside the run file (SPEC C-20)."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model.finalstep import FinalStepTold, differing, final_step_in
from cockpit.model.history import History
from cockpit.model.run import RunSpec


def told_final_step(run: RunSpec, history: History) -> tuple[FinalStepTold, ...]:
    """Return all that tells the final step, whose word counts most first.

    First whoever wrote it into the run file, then the config shown by the job, then the
    one that it logged; the config and the command of the next launch last.
    """
    explicit = tuple(each for each in run.final_step_told if each.explicit)
    rest = tuple(each for each in run.final_step_told if not each.explicit)
    if run.final_step is not None and not run.final_step_told:  # a run that no file was read for
        source = run.final_step_source or "run file"
        explicit = (FinalStepTold(step=run.final_step, source=source, explicit=True),)
    return (*explicit, *_living(history), *rest)


def _living(history: History) -> Iterator[FinalStepTold]:
    job, tracker = history.facets.job.value, history.facets.tracker.value
    for source, config in (
        ("the job's own config", {} if job is None else job.config),
        ("the tracker's config", {} if tracker is None else tracker.config),
    ):
        found = final_step_in(config, source) if config else None
        if found is not None:
            yield found


def with_final_step(run: RunSpec, history: History) -> RunSpec:
    """Return the run with the final step that counts, its source, and all that was told of it."""
    told = told_final_step(run, history)
    chosen = next((each for each in told if each.step is not None), None)
    if chosen is None:
        why = next((each.text for each in told if each.why is not None), None)
        if why is None or run.final_step_source:
            return run
        return run.model_copy(update={"final_step_source": why})
    changes = {
        "final_step": chosen.step,
        "final_step_source": chosen.source,
        "final_step_told": told,
    }
    return run.model_copy(update=changes)


def doubt_about(run: RunSpec) -> str | None:
    """Return what else is told of the final step, where that is something else."""
    return differing(run.final_step_told)
