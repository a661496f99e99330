"""Advice is what can be done: by whom, and with what would really be loaded (SPEC A)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.model.observed import CheckpointState, Phase, Pick
from cockpit.model.run import RunSpec
from cockpit.rules.judge import judge
from tests.rules.making import (
    T0,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    run_spec,
    tracker,
)  # fmt: skip

NAN = float("nan")
WHOLE = checkpoint(500, T0)
TORN = checkpoint(550, T0 + 60, CheckpointState.INCOMPLETE)
FROM_500 = Pick(path=WHOLE.path, step=500, why="newest complete by step")
LOADS_550 = Pick(path=TORN.path, step=550, why="newest by step")


def advice(run: RunSpec, **facets: object) -> str:
    trend = folded(losses([2.0] * 40 + [NAN] * 3)) if facets.pop("lost", False) else None
    alerts = judge(run, history(T0 + 200, trend, **facets))
    return max(alerts, key=lambda each: each.severity.rank).next_action


@pytest.mark.parametrize(
    ("escalation", "said"),
    [
        ("reaches", "escalate to ada"),
        ("own", "decide what to do (you own this run)"),
        ("nobody", "tell ada yourself ([notify] has no route, and there is no issue)"),
    ],
)
def test_an_escalation_that_reaches_nobody_is_no_advice(escalation: str, said: str) -> None:
    run = run_spec(escalation=escalation)
    ended = job(Phase.FAILED, exit_code=1, state="failed")
    text = advice(run, job=ended, log=log("RuntimeError: CUDA error: out of memory"))
    assert text.startswith(said), text


def test_a_run_that_trains_on_without_numbers_is_stopped_and_rolled_back() -> None:
    saves = checkpoints(WHOLE).model_copy(update={"relaunch_from": FROM_500})
    lost = tracker(loss=NAN, step=43)
    text = advice(run_spec(), lost=True, job=job(), tracker=lost, checkpoints=saves)
    assert text.startswith("stop toy: ") and "a rollback to step 500" in text
    mine = run_spec(escalation="own")
    text = advice(mine, lost=True, job=job(), tracker=lost, checkpoints=saves)
    assert text.endswith("; then rollback toy to step 500")
    recovered = advice(run_spec(), lost=True, job=job(), tracker=tracker(loss=2.0))
    assert not recovered.startswith("stop") and "do not relaunch" in recovered


def test_what_the_trainer_would_load_decides_between_relaunch_and_rollback() -> None:
    saves = checkpoints(WHOLE, TORN)
    torn = saves.model_copy(update={"relaunch_from": FROM_500, "trainer_would_load": LOADS_550})
    fine = saves.model_copy(update={"relaunch_from": FROM_500, "trainer_would_load": FROM_500})
    ended = {"job": job(Phase.FAILED, exit_code=137), "log": log("step 560", "Killed")}
    assert advice(run_spec(), checkpoints=torn, **ended) == (
        "rollback toy to step 500: the trainer would load step 550"
    )
    named = run_spec(resubmit=["train", "--from", "{checkpoint}"])
    for run, value in ((run_spec(), fine), (named, torn)):
        assert advice(run, checkpoints=value, **ended) == "relaunch toy from step 500"


def test_the_run_file_says_whom_an_escalation_reaches(tmp_path: Path) -> None:
    text = '[cockpit]\noperator = "ada"\n[[run]]\nname = "a"\ndri = "ada"\n'
    text += '[[run]]\nname = "b"\ndri = "bob"\n'
    text += '[[run]]\nname = "c"\ndri = "bob"\nrecords.issue = "https://github.com/o/r/issues/1"\n'
    path = tmp_path / "cockpit.toml"
    path.write_text(text)
    assert [run.escalation for run in load(path).runs] == ["own", "nobody", "reaches"]
    path.write_text(text + '[notify]\nroutes = [{ url_env = "U" }]\n')
    assert [run.escalation for run in load(path).runs] == ["own", "reaches", "reaches"]
