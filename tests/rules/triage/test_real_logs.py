"""What the logs of public trainers say in their own way, of a run that trains and of its loss."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage

XENT = "[2018-11-26 15:0{}:01 INFO] Step {}/50000; acc: 4; ppl: {}; xent: {}; lr: 0.0007; 20 sec"


def epochs(losses: list[float], begins: int = 0) -> list[str]:
    """Return lines of training, of whose epochs each has four batches."""
    return [
        f"2025-06-18 15:44:{at:02} INFO Epoch [{begins + at // 4}], Batch [{at % 4}], Loss: {loss}"
        for at, loss in enumerate(losses)
    ]


def test_a_loss_of_another_name_that_is_no_number_is_seen() -> None:
    lines = [XENT.format(at, 5600 + 50 * at, 9.8, 2.2) for at in range(4)]
    assert triage(lines, "running", None).name == "harmless_noise"
    lost = [XENT.format(at, 5600 + 50 * at, "nan", "nan") for at in range(4, 8)]
    found = triage([*lines, *lost], "running", None)
    assert (found.name, found.action) == ("numeric_instability", "escalate")


def test_a_second_training_in_the_log_has_not_left_the_trend_of_the_first() -> None:
    first, second = epochs([0.01] * 12), epochs([0.08, 0.05, 0.04, 0.03])
    assert triage([*first, *second], "running", None).name == "harmless_noise"
    worse = epochs([0.08, 0.09, 0.08, 0.09], begins=3)
    assert triage([*first, *worse], "running", None).name == "numeric_instability"


@pytest.mark.parametrize("path", ["loss/policy_avg", "loss/train/total"])
def test_a_loss_with_a_path_shows_training_at_work(path: str) -> None:
    lines = [f"{{'{path}': 0.1{at}, 'epoch': 0.9{at}, 'lr': 1e-05}}" for at in range(4)]
    assert triage(lines, "running", None).name == "harmless_noise"
    tested = [line.replace(path, "loss/eval/total") for line in lines]
    assert triage(tested, "running", None).name == "unknown"


SAID = "I0811 21:55:27.377263     769 tpu_vxc_driver.cc:3016] ReadGlobalTimeCounter returning data"


@pytest.mark.parametrize(
    "lines",
    [
        [SAID, SAID.replace("tpu_vxc", "gfc").replace("I0811", "W0811")],
        ["(main_task pid=7) logging3: 0.0 seconds", "(main_task pid=7) 264"],
        ["│ Elapsed: 05:15:35 │ ETA: 213:54:03 │", "│env/interact=426.2   │actor/run=413.3 │"],
        ["video : pred.mean(): 0.2529", "image : pred.mean(): 0.1085"],
    ],
)
def test_what_is_told_of_a_step_behind_it_is_usual_work(lines: list[str]) -> None:
    steps = [f"step {at} loss 2.{at}" for at in range(1, 8)]
    assert triage([*steps, *lines], "running", None).name == "harmless_noise"
    strange = ["the relay of rack 7 is silent", "its neighbour is silent, too"]
    assert triage([*steps, *strange], "running", None).name == "unknown"


def test_memory_that_a_node_does_not_register_is_no_matter_of_a_relaunch() -> None:
    raised = "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO)"
    warned = (
        "n1:7:9 [0] misc/ibvwrap.cc:182 NCCL WARN Call to {} failed with error Invalid argument"
    )
    found = triage([raised, warned.format("ibv_reg_mr_iova2")], "failed", 1)
    assert (found.name, found.action) == ("bad_node", "escalate")
    found = triage([raised, warned.format("ibv_modify_qp")], "failed", 1)
    assert found.name == "hardware_fault"
