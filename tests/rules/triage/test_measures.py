"""A run of whose steps no word tells is seen to move by what it measures (SPEC T)."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage

NOTEBOOK = "epoch     train_loss  valid_loss  accuracy  time"
PAINTED = ["|  epoch | train loss | val loss |", "|--------|------------|----------|"]
MOVING = [
    [f"Gen {at} best fitness 1{at}.4" for at in range(3)],
    [f"2022-03-03 12:1{at}:14 next: psnr 25.{at}" for at in range(3)],
    [f"fold 0: Training: 0.5 Validation: 0.6 Acc: 51.{at}" for at in range(3)],
    [f"pass {at}, all of it, validation error 5.{at} %" for at in range(30)],
    [f"pass {at}, all of it, test error of best model 5.{at} %" for at in range(30)],
    [f"pass {at}: Train error 0.3{at} | Test error 0.45" for at in range(3)],
    [NOTEBOOK, *(f"{at}         0.51312{at}    0.400012    0.812000  00:03" for at in range(3))],
    ["Step\tTraining Loss", *(f"{at}0\t1.2{at}00" for at in range(3))],
    ["step,lr,loss", *(f"{at},0.1,2.{at}" for at in range(3))],
    [f"batch of frames {at}00/3161 seen by now" for at in range(3)],
    [f"{at} (8{at}.18%)       43.1 ms" for at in range(3)],
    [f"INFO for 'output' the objective function for minibatches is -3{at}.0" for at in range(3)],
    [*PAINTED, *(f"| {at} | 0.{at} | 0.6 |" for at in range(3))],
]
STANDING = [
    [f"heartbeat {at} uptime {at}0.0s" for at in range(3)],
    [f"2022-03-03 12:1{at}:14 alive, newest loss seen 0.5" for at in range(3)],
    ["time gpu_mem util", *(f"{at} 10.{at} 3{at}" for at in range(3))],
    [f"retry {at}/10" for at in range(3)],
    [f"waited {at}/300 s for the others" for at in range(3)],
    [f"GPU {at}% busy" for at in range(3)],
    [f"the queue is {share}% full" for share in (40, 38, 43)],
    [f"waiting for rank {at}, score board 1/8" for at in range(3)],
    ["psnr 25.1"],
    [f"ib0: packet loss {at}.5%" for at in range(5)],
    [f"loss of link {at}" for at in range(5)],
    [f"node health score 0.9{at}" for at in range(5)],
]


@pytest.mark.parametrize("lines", MOVING, ids=lambda lines: lines[-1][:20])
def test_a_measure_that_comes_again_with_another_figure_is_work(lines: list[str]) -> None:
    found = triage(lines, "running", None)
    assert (found.name, found.action) == ("harmless_noise", "none")


@pytest.mark.parametrize("lines", STANDING, ids=lambda lines: lines[-1][:20])
def test_what_beats_on_in_a_hang_is_no_work(lines: list[str]) -> None:
    assert triage(lines, "running", None).action == "escalate"


@pytest.mark.parametrize("lines", MOVING, ids=lambda lines: lines[-1][:20])
def test_a_measure_heals_no_trouble_that_came_after_it(lines: list[str]) -> None:
    failed = "RuntimeError: the solver gave up"
    assert triage([*lines, failed], "running", None).action == "escalate"
    again = "one line of another rank: psnr 21.7"
    assert triage([*lines, failed, again], "running", None).action == "escalate"


STEPS = [f"step {at} loss 2.{at}" for at in range(1, 8)]
PART = ["the actor has drawn its lot", "the critic has seen it, too"]


def test_what_came_between_two_steps_before_is_usual_work() -> None:
    before = [line for step in STEPS for line in (step, *PART)]
    assert triage(before, "running", None).name == "harmless_noise"
    assert triage([*STEPS, *PART], "running", None).name == "unknown"
    assert triage([*before, *PART, *PART], "running", None).name == "unknown"
    bad = ["rank 3 failed", "its neighbour is stuck"]
    told = [line for step in STEPS for line in (step, *bad)]
    assert triage(told, "running", None).action == "escalate"
