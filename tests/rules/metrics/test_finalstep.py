"""Which final step counts, and that a disagreement is said (SPEC C-20)."""

from __future__ import annotations

import pytest

from cockpit.model.finalstep import FinalStepSource
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.rules.lineage.success import success_without_artifacts
from cockpit.rules.metrics.progress import progress, with_final_step
from tests.rules.making import (
    T0,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    losses,
    run_spec,
    tracker,
)

ROWS = losses([2.0] * 100)
LEVANTER = {"trainer": {"num_train_steps": 100}}


def unnamed(**changes: object) -> RunSpec:
    return run_spec(**{"final_step": None, "final_step_source": None, **changes})


def test_the_config_that_the_job_shows_tells_it_where_the_run_file_does_not() -> None:
    past = history(T0, folded(ROWS), job=job(config=LEVANTER), tracker=tracker(step=40))
    found = progress(with_final_step(unnamed(), past), past)
    assert (found.text, found.final_step_doubt) == ("~40/100", None)
    assert found.final_step_source == "the job's own config: trainer.num_train_steps"


def test_the_living_config_outranks_that_of_the_next_launch() -> None:
    after = FinalStepSource(step=300, source="config file: max_steps")
    run = unnamed(final_step=300, final_step_source=after.source, final_step_told=(after,))
    past = history(T0, job=job(), tracker=tracker(step=40, config={"max_steps": 200}))
    found = progress(with_final_step(run, past), past)
    assert (found.final_step, found.final_step_source) == (200, "the tracker's config: max_steps")
    assert found.final_step_doubt == "config file: max_steps: 300"


def test_the_run_files_word_stands_and_what_speaks_against_it_is_said() -> None:
    past = history(T0, job=job(config=LEVANTER), tracker=tracker(step=40))
    found = progress(with_final_step(run_spec(final_step=90), past), past)
    assert (found.final_step, found.text) == (90, "~40/90")
    assert found.final_step_doubt == "the job's own config: trainer.num_train_steps: 100"
    same = progress(with_final_step(run_spec(final_step=99), past), past)
    assert same.final_step_doubt is None


def test_without_any_config_it_stays_unknown() -> None:
    past = history(T0, job=job(), tracker=tracker(step=4600, config={"lr": 0.1}))
    found = progress(with_final_step(unnamed(), past), past)
    assert (found.text, found.final_step_source) == ("~4600/unknown", None)


@pytest.mark.parametrize(("last", "alerts"), [(98, 1), (99, 0), (100, 0)])
def test_both_ways_to_count_to_the_end_are_the_final_step(last: int, alerts: int) -> None:
    """N training steps end at N - 1 (counted from 0) or at N; SPEC K, C-19."""
    done = job(Phase.SUCCEEDED, config=LEVANTER, ended_at=T0 + 200.0)
    past = history(
        T0 + 300.0,
        folded(losses([2.0] * (last + 1))),
        job=done,
        tracker=tracker(step=last, state="finished", exit_code=0),
        checkpoints=checkpoints(checkpoint(last, T0 + 190.0)),
    )
    run = with_final_step(unnamed(), past)
    assert len(list(success_without_artifacts(run, past))) == alerts
