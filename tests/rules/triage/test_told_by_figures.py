"""What no line says in words: memory at its limit, a fault by a kernel of one's own, a demand."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN

TABLE = ["task  state    exit  peak_mem  limit"]


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([*TABLE, "0  failed  137  127.4GiB  128GiB", "1  running  -  90GiB  128GiB"], "oom_host"),
        ([*TABLE, "0  failed  137  61.2GiB  128GiB"], "killed"),
        ([*TABLE, "0  failed  137  1GiB  128GiB", "1  running  -  127.9GiB  128GiB"], "killed"),
        (["max_rss: 31.9G of 32G, exit status: 137"], "oom_host"),
        (["max_rss: 3.2G of 32G, exit status: 137"], "killed"),
        (["GPU peak mem 79.1GB / 80GB", "Killed"], "killed"),
    ],
)
def test_what_was_killed_at_the_limit_of_its_memory_ran_out_of_it(
    lines: list[str], name: str
) -> None:
    found = triage([*TRAIN, *lines], "failed", 137)
    assert found.name == name
    assert found.action == ("escalate" if name == "oom_host" else "relaunch")


ACCESS = [
    "Traceback (most recent call last):",
    '  File "/home/ada/kernels/scan.py", line 31, in backward',
    "    scan_kernel[grid](x)",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
]


@pytest.mark.parametrize(
    ("xid", "raised", "action"),
    [(31, ACCESS, "escalate"), (13, ACCESS, "escalate"), (79, ACCESS, "relaunch"),
     (31, [], "relaunch")],
)  # fmt: skip
def test_a_fault_that_a_kernel_of_ones_own_may_have_made_is_for_a_person(
    xid: int, raised: list[str], action: str
) -> None:
    line = f"kernel: NVRM: Xid (PCI:0000:1b:00): {xid}, pid=4711, name=python"
    assert triage([*TRAIN, line, *raised], "failed", 1).action == action


def test_a_demand_that_no_group_of_machines_can_meet_never_fits() -> None:
    demand = "Autoscaler: Unsatisfied autoscaler demand: {}: ram: need 900, available 512"
    never, later = demand.format("insufficient_resources"), demand.format("at_max_slices")
    assert triage([never], "pending", None).action == "escalate"
    assert triage([later], "pending", None).action == "wait"


@pytest.mark.parametrize(("before", "name"), [([], "bad_node"), (TRAIN, "hardware_fault")])
def test_a_fabric_that_does_not_come_up_is_the_nodes_before_the_first_step(
    before: list[str], name: str
) -> None:
    said = "This is usually caused by a configuration error in the Fabric Manager or NVSwitches."
    lines = [*before, "Failed to bind NVLink SHARP (NVLS) memory: CUDA error 401", said]
    assert triage(lines, "failed", 1).name == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (["[mem] 99.4% of RAM used"], "oom_host"),
        (["roofline: 99.4% of memory bandwidth"], "killed"),
        (["mem: 99.4%"], "oom_host"),
        (["mem: 49.4%"], "killed"),
        (["GPU mem: 99.4%"], "killed"),
        (["step 31 | loss 2.1 | mem: 99.4%"], "killed"),
        (["index: 41% rss=254G/256G"], "oom_host"),
        (["index: 41% rss=254G/256G", "index: 0% rss=2G/256G"], "killed"),
        (["vram used=78G/80G"], "killed"),
        (["rss=2G/256G disk=99G/100G"], "killed"),
        (['{"OOMKilled":false,"ExitCode":137}'], "killed"),
        (["svmem(total=540, available=1, percent=99.7)"], "oom_host"),
        (["memory.max 68719476736", "memory.current 68719390720"], "oom_host"),
        (["memory.max 68719476736", "memory.current 28719390720"], "killed"),
        (["memory.current 68719390720"], "killed"),
    ],
)
def test_memory_that_had_run_out_is_told_in_many_ways(said: list[str], name: str) -> None:
    assert triage([*TRAIN, *said, "Killed"], "failed", 137).name == name


@pytest.mark.parametrize("nan", ["nan", "'nan'", '"NaN"', "inf", "'inf'"])
def test_a_norm_that_is_no_number_is_one_in_quotes_too(nan: str) -> None:
    lines = [f"{{'loss': 1.{at}, 'grad_norm': {nan}, 'step': {at}}}" for at in range(4)]
    assert triage(lines, "failed", 1).name == "numeric_instability"
