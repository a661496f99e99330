from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cockpit.model.observed import JobValue, Phase
from cockpit.platforms.slurm.book import Job
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.value import value_of
from cockpit.rules.triage.classify import word_of
from tests.platforms.slurm.asking import Recording, observed, reader, run_of
from tests.rules.asking import triage


def value(**more: Any) -> JobValue:
    record = Record(id="9", raw="9", base="9", state="FAILED", name="hero", ended=5.0)
    return value_of(run_of("toy", "9"), Job("9", (replace(record, **more),)))


def test_a_step_that_lost_its_memory_is_the_diagnosis() -> None:
    """Slurm calls the job itself FAILED with exit 1: only its step says why."""
    found = value(exit=(1, 0), reason="NonZeroExitCode", steps=(("0", "OUT_OF_MEMORY"),))
    assert (found.state, found.exit_code) == ("FAILED", 1)
    assert found.reason is not None and "step 0 OUT_OF_MEMORY" in found.reason
    lines = ["step 3 loss 1.0", "srun: error: task 0: Exited with exit code 1"]
    assert triage(lines, word_of(found), found.exit_code).name == "oom_host"
    plain = value(exit=(1, 0), reason="NonZeroExitCode")
    assert triage(lines, word_of(plain), plain.exit_code).name != "oom_host"


def test_a_lost_node_may_still_run_what_it_ran() -> None:
    found = value(state="NODE_FAIL", reason="NodeDown", node="gpu7")
    assert found.phase is Phase.FAILED and found.node == "gpu7"
    assert "gpu7 does not answer: its processes may run on" in (found.reason or "")
    assert triage(["step 3 loss 1.0"], word_of(found), found.exit_code).name == "node_death"


@pytest.mark.parametrize(
    ("told", "code"),
    [((3, 0), 3), ((0, 9), -9), ((139, 0), 139), ((0, 53), None), ((0, 125), None), (None, None)],
)
def test_exit_codes(told: tuple[int, int] | None, code: int | None) -> None:
    assert value(exit=told).exit_code == code


def test_a_limit_is_no_exit_code() -> None:
    found = value(state="TIMEOUT", reason="TimeLimit", exit=(0, 0))
    assert found.exit_code is None and "its time limit was reached" in (found.reason or "")


def queued(expected: str) -> str:
    fields = ["9", "9", "N/A", "9", "PENDING", "Resources", expected, "N/A", "1:00"]
    fields += ["2026-11-22T12:00:00", "0", "(null)", "/w", "hero", "(null)"]
    line = "MARK\x1f" + "\x1fMARK\x1f".join(fields)
    head = "\nMARK squeue.rc\n0\n\nMARK squeue.out\n"
    return f"{head}{line}\n\nMARK scontrol.out\n\nMARK scontrol.rc\n0\n\nMARK end\n"


async def test_an_estimate_that_slips_is_late_by_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = (queued("2026-11-22T13:00:00"), queued("2026-11-22T19:00:00"))
    jobs = reader(monkeypatch, *answers)
    starts = []
    for _ in answers:
        found = (await observed(jobs, run_of("toy", "9")))["toy"].value
        assert found is not None and found.expected_start is not None
        starts.append(found.expected_start - (found.pending_since or 0.0))
    assert starts == [3600.0, 3600.0]


async def test_a_year_ahead_is_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = reader(monkeypatch, queued("2027-11-22T12:00:00"))
    found = (await observed(jobs, run_of("toy", "9")))["toy"].value
    assert found is not None and found.expected_start is None
    assert isinstance(jobs._run, Recording) and len(jobs._run.asked) == 1


def test_when_it_was_told_to_make_room_counts_while_it_runs_and_of_this_start() -> None:
    running = {"state": "RUNNING", "ended": None, "started": 100.0}
    assert value(**running, preempted=150.0).preempted_at == 150.0
    assert value(**running, preempted=50.0).preempted_at is None, "of the start before a requeue"
    assert value(preempted=150.0).preempted_at is None


def test_an_array_holds_the_accelerators_of_its_running_tasks_alone() -> None:
    base = Record(id="7", raw="7", base="7", state="RUNNING", kind="array", accelerators=8)
    ended = replace(base, id="7_0", tasks="0", state="TIMEOUT", ended=5.0)
    runs = replace(base, id="7_1", tasks="1")
    waits = replace(base, id="7_[2-9%1]", tasks="2-9", state="PENDING")

    def held(*records: Record) -> int | None:
        return value_of(run_of("toy", "7"), Job("7", records)).accelerators

    assert held(waits, runs, ended) == 8
    assert held(waits, runs, replace(runs, id="7_2", tasks="2")) == 16
    assert held(waits, ended) is None
    parts = [replace(base, kind="het", id=f"7+{at}", state="PENDING") for at in range(2)]
    assert held(*parts) == 16, "the parts of a heterogeneous job begin together"


def test_each_task_of_an_array_is_told_apart_and_those_that_wait_are_counted() -> None:
    base = Record(id="7", raw="7", base="7", state="RUNNING", name="hero", kind="array")
    records = (
        replace(base, id="7_0", tasks="0", state="FAILED", exit=(1, 0), started=1.0, ended=5.0),
        replace(base, id="7_1", tasks="1", started=2.0, node="gpu7"),
        replace(base, id="7_[2-9]", tasks="2-9", state="PENDING"),
    )
    job = value_of(run_of("toy", "7"), Job("7", (*records[1:], records[0])))
    assert job.tasks is not None and (job.tasks.failed, job.tasks.total) == (1, 10)
    found = job.members
    assert [(each.id, each.phase, each.count) for each in found] == [
        ("7_0", Phase.FAILED, 1), ("7_1", Phase.RUNNING, 1), ("7_[2-9]", Phase.WAITING, 8),
    ]  # fmt: skip
    assert (found[0].exit_code, found[0].ended_at, found[1].node) == (1, 5.0, "gpu7")
    assert not value().members
