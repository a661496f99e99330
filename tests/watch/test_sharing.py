"""Which runs of one run file write to the same place."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.config.advice import shared_places
from cockpit.model.facet import known
from cockpit.model.history import Sharer
from cockpit.model.lineage import shared_place
from cockpit.model.observed import JobValue, Phase
from cockpit.model.report import Facets
from cockpit.model.run import CheckpointSpec, CockpitFile, JobSpec, RunSpec, WandbSpec
from cockpit.watch.fleet import pairs_of, sharers_of
from cockpit.watch.runstate import RunState


def run(name: str, root: str | None = None, **wandb: Any) -> RunSpec:
    spec = WandbSpec(**wandb) if wandb else None
    return RunSpec(name=name, output_root=root, job=JobSpec(kind="local"), wandb=spec)


def find_sharers(states: list[RunState]) -> dict[str, tuple[Sharer, ...]]:
    by_name = {state.spec.name: state for state in states}
    return sharers_of(by_name, pairs_of(state.spec for state in states))


def state(spec: RunSpec, pid: int, phase: Phase = Phase.RUNNING, *below: int) -> RunState:
    job = JobValue(id=f"pid:{pid}", state=phase.value, phase=phase, processes=below)
    return RunState(spec, spec.name, facets=Facets(job=known(job, "process table", 1.0)))


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (run("a", "/r"), run("b", "/r/"), ("output root /r", True)),
        (run("a", "/r"), run("b", "/rb"), None),
        (run("a", id="x", entity="e", project="p"), run("b", id="x", entity="e", project="p"),
         ("W&B id x", True)),
        (run("a", id="x", dir="/a/w", project="p"), run("b", id="x", dir="/b/w", project="p"),
         ("W&B id x", True)),
        (run("a", url="https://wandb.ai/e/p/runs/x"), run("b", id="x", entity="e", project="p"),
         ("W&B id x", True)),
        (run("a", id="x", dir="/a/wandb"), run("b", id="x", dir="/b/wandb"), ("W&B id x", False)),
        (run("a", id="x", project="p"), run("b", id="x", project="q"), None),
        (run("a"), run("b"), None),
    ],
)  # fmt: skip
def test_one_place_of_two_runs(
    one: RunSpec, other: RunSpec, answer: tuple[str, bool] | None
) -> None:
    assert shared_place(one, other) == answer


def test_both_are_told_whether_the_other_lives() -> None:
    states = [state(run("a", "/r"), 7), state(run("b", "/r"), 9, Phase.FAILED), state(run("c"), 8)]
    found = find_sharers(states)
    assert list(found) == ["a", "b"]
    (of_a,), (of_b,) = found["a"], found["b"]
    assert (of_a.run, of_a.lives, of_a.job_id) == ("b", False, "pid:9")
    assert (of_b.run, of_b.lives, of_b.same_job) == ("a", True, False)


def test_one_process_under_two_names_is_one_job() -> None:
    twice = find_sharers([state(run("a", "/r"), 7), state(run("b", "/r"), 7)])
    assert twice["a"][0].same_job
    below = find_sharers(
        [state(run("a", "/r"), 7, Phase.RUNNING, 8), state(run("b", "/r"), 8, Phase.RUNNING, 8)]
    )
    assert below["b"][0].same_job


def test_a_run_file_that_names_one_place_twice_is_told() -> None:
    pair = (run("a", "/r"), run("b", "/r"))
    (found,) = shared_places(CockpitFile(path="x", runs=pair))
    assert found.text == "runs a and b share the same output root /r"
    saves = CheckpointSpec(path=["/c"])
    both = tuple(RunSpec(name=name, checkpoints=saves) for name in "ab")
    (found,) = shared_places(CockpitFile(path="x", runs=both))
    assert "checkpoints.path (/c)" in found.text
    assert shared_places(CockpitFile(path="x", runs=(run("a", "/r"), run("b", "/q")))) == ()
    book = {"logbook": "/book.md"}
    both = tuple(RunSpec.model_validate({"name": name, "records": book}) for name in "ab")
    (found,) = shared_places(CockpitFile(path="x", runs=both))
    assert found.text == "runs a and b share the same records.logbook (/book.md)"
