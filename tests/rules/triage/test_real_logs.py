"""What the logs of public trainers say in their own way, of a run that trains and of its loss."""

from __future__ import annotations

import pytest

from cockpit.rules.triage.patterns import COUNTS
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


def test_epochs_over_each_rollout_are_no_new_training() -> None:
    """The step goes on: a climb over many rollouts was never compared with what stood before."""
    losses = [0.5] * 12 + [2.0] * 8
    lines = [f"step {at} | epoch {at % 4} | loss {loss}" for at, loss in enumerate(losses, 100)]
    assert triage(lines, "running", None).name == "numeric_instability"
    again = [*lines[:12], *(f"step {at} | epoch {at % 4} | loss 2.0" for at in range(8))]
    assert triage(again, "running", None).name != "numeric_instability"


@pytest.mark.parametrize("path", ["loss/policy_avg", "loss/train/total"])
def test_a_loss_with_a_path_shows_training_at_work(path: str) -> None:
    lines = [f"{{'{path}': 0.1{at}, 'epoch': 0.9{at}, 'lr': 1e-05}}" for at in range(4)]
    assert triage(lines, "running", None).name == "harmless_noise"
    tested = [line.replace(path, "loss/eval/total") for line in lines]
    failed = "RuntimeError: the solver gave up"
    assert triage([failed, *lines], "running", None).action == "none"
    assert triage([failed, *tested], "running", None).action == "escalate"


def test_an_average_that_never_was_a_number_is_the_loss() -> None:
    """A part of the loss that never was one is not in use; an average is of all of it."""
    bar = "steps:   {0}%|▋    | {0}1/3280 [00:50<1:06:54,  1.24s/it, avr_loss=nan]"
    found = triage([bar.format(at) for at in range(1, 6)], "running", None)
    assert (found.name, found.action) == ("numeric_instability", "escalate")


def test_a_metric_that_is_named_error_is_none() -> None:
    bar = "423/423 [====] - 187s 443ms/step - loss: 0.9{0} - mean_squared_error: 0.0{0} - acc: 0.7"
    lines = [bar.format(at) for at in range(4)]
    assert triage(lines, "running", None).name == "harmless_noise"


def test_a_line_of_many_figures_is_told_from_a_cause_in_no_time() -> None:
    """Whoever tries all ways to part its commas does not end."""
    figures = ", ".join(f"metric_{at}=0.43646878" for at in range(40))
    line = f"iter 100:, {figures}, hard or full='full'"
    assert COUNTS.search(figures)
    assert not COUNTS.search(line)


SAID = "I0811 21:55:27.377263     769 tpu_vxc_driver.cc:3016] ReadGlobalTimeCounter returning data"


@pytest.mark.parametrize(
    "lines",
    [
        [SAID, SAID.replace("tpu_vxc", "gfc").replace("I0811", "W0811")],
        ["(main_task pid=7) logging3: 0.0 seconds", "(main_task pid=7) 264"],
        ["│ Elapsed: 05:15:35 │ ETA: 213:54:03 │", "│env/interact=426.2   │actor/run=413.3 │"],
        ["|    iterations      | 147      |", "|    time_elapsed    | 207      |", "----------"],
        ["video : pred.mean(): 0.2529", "image : pred.mean(): 0.1085"],
        ["DEBUG get_mask: rows of rank 0", "DEBUG cache: of one length alone"],
    ],
)
def test_what_is_told_of_a_step_behind_it_is_usual_work(lines: list[str]) -> None:
    steps = [f"step {at} loss 2.{at}" for at in range(1, 8)]
    assert triage([*steps, *lines], "running", None).name == "harmless_noise"
    strange = ["the relay of rack 7 is silent", "its neighbour is silent, too"]
    assert triage([*steps, *strange], "running", None).name == "unknown"


WARNED = "W0811 21:55:2{0}.377263     769 agent{0}.cc:30] {1}"


@pytest.mark.parametrize(
    "lines",
    [
        [WARNED.format(1, "RPC to task 3 failed twice"), WARNED.format(2, "barrier 7 failed")],
        ["DEBUG ring: rank 3 aborted", "DEBUG ring: fatal for its neighbour"],
        ["│ rank 3 failed │", "│ its neighbour has failed, too │"],
        ["seconds since rank 3 failed: 312.55", "and since the ring failed: 412.55"],
    ],
)
def test_what_tells_of_a_failure_is_no_usual_work_whoever_writes_it(lines: list[str]) -> None:
    steps = [f"step {at} loss 2.{at}" for at in range(1, 8)]
    assert triage([*steps, *lines], "running", None).action == "escalate"


def test_what_tells_of_a_stand_after_a_preemption_is_no_usual_work() -> None:
    steps = [f"step {at} loss 2.{at}" for at in range(1, 8)]
    taken = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-06-16T12:00:11 DUE TO PREEMPTION"
    begun = [f"{taken} ***", "Resuming from checkpoint step-3", *steps]
    assert triage([*steps, *begun], "running", None).action == "none"
    stands = ["DEBUG ring: stuck in barrier 7", "DEBUG neighbour: hung in all_reduce 9"]
    assert triage([*steps, *begun, *stands], "running", None).action == "escalate"


def test_a_job_whose_last_words_tell_of_a_stand_did_not_just_stop() -> None:
    steps = [f"step {at} loss 2.{at}" for at in range(1, 8)]
    said = WARNED.format(1, "{}").replace("W0811", "I0811")
    usual = triage([*steps, said.format("compiled a module")], "failed", None)
    assert (usual.name, usual.action) == ("killed", "relaunch")
    stands = triage([*steps, said.format("the ring is stuck in barrier 7")], "failed", None)
    assert stands.action == "escalate"


def test_memory_that_a_node_does_not_register_is_no_matter_of_a_relaunch() -> None:
    raised = "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO)"
    warned = (
        "n1:7:9 [0] misc/ibvwrap.cc:182 NCCL WARN Call to {} failed with error Invalid argument"
    )
    found = triage([raised, warned.format("ibv_reg_mr_iova2")], "failed", 1)
    assert (found.name, found.action) == ("bad_node", "escalate")
    found = triage([raised, warned.format("ibv_modify_qp")], "failed", 1)
    assert found.name == "hardware_fault"
