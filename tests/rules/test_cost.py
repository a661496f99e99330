"""What a run has cost: against lives whose truth is known, and where it cannot be known."""

from __future__ import annotations

import pytest

from cockpit.model.cost import Cost, burning, cost_lines, spending
from cockpit.model.goodput import Looks
from cockpit.model.history import History
from cockpit.model.observed import Gpu, HostValue, Phase, Row, TaskValue
from cockpit.model.run import JobSpec, RunSpec, TeardownSpec
from cockpit.rules.cost import cost
from cockpit.rules.goodput import goodput
from cockpit.rules.judge import judge
from tests.rules.making import T0, blind, job, run_spec
from tests.rules.test_goodput import DEATH, ROWS, H, life, mark, steps

SLURM = JobSpec(kind="slurm")
PRICED = run_spec(price_per_hour=36.0, currency="EUR", job=SLURM)
HELD = (2000 - 600) + (6499 - 5400)
"""Seconds in which the two jobs of ``DEATH`` held their machines."""


def costed(run: RunSpec, past: History) -> Cost:
    found = cost(run, past, goodput(run, past), tuple(judge(run, past)))
    assert found is not None
    return found


def test_without_a_price_nothing_is_said_of_cost() -> None:
    past = life(6500, ROWS, DEATH)
    assert cost(run_spec(), past, goodput(run_spec(), past), ()) is None


def test_a_job_costs_while_it_holds_its_machines_not_in_the_queue_nor_when_it_is_dead() -> None:
    found = costed(PRICED, life(6500, ROWS, DEATH))
    assert found.spent == pytest.approx(HELD / H * 36, abs=0.1)
    assert found.lost_to_repeats == pytest.approx(199 / H * 36, abs=0.1)
    assert (found.burning, found.currency) == (0.0, "EUR")
    spent, lost = spending(found)
    assert spent == "24.99 EUR spent (41m, 36.00 EUR/h)"
    assert lost == "1.99 EUR of it lost to repeated steps"


def test_a_price_per_accelerator_counts_those_that_each_job_held() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)
    marks = [m.model_copy(update={"accelerators": 4}) if m.job_id == "1" else m for m in DEATH]
    present = job(id="2", started_at=T0 + 5400, accelerators=8)
    found = costed(run, life(6500, ROWS, marks, job=present))
    hours = ((2000 - 600) * 4 + (6499 - 5400) * 8) / H
    assert found.spent == pytest.approx(hours * 2.0, abs=0.1)
    assert (found.per_hour, found.accelerators) == (16.0, 8)
    assert any("8 accelerators by job" in each for each in found.basis)


def test_attempts_that_held_different_numbers_do_not_tell_what_repeats_cost() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)
    marks = [m.model_copy(update={"accelerators": 4}) if m.job_id == "1" else m for m in DEATH]
    found = costed(run, life(6500, ROWS, marks, job=job(id="2", started_at=T0 + 5400,
                                                        accelerators=8)))  # fmt: skip
    assert found.lost_to_repeats is None
    assert "different numbers" in (found.lost_why or "")


def test_an_array_is_priced_by_accelerator_while_as_many_of_its_tasks_run() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)

    def array(*tasks: tuple[float, float | None]) -> Cost:
        members = tuple(
            TaskValue(id=f"7_{at}", state="", phase=Phase.FAILED if end else Phase.RUNNING,
                      started_at=T0 + begin, ended_at=None if end is None else T0 + end)
            for at, (begin, end) in enumerate(tasks)
        )  # fmt: skip
        present = job(id="7", started_at=T0, accelerators=8, members=members)
        return costed(run, life(H, [], [mark(Phase.RUNNING, 0, "7")], job=present))

    assert array((0, None)).spent == pytest.approx(16.0)
    assert array((0, 1000), (1010, 2000), (2005, None)).spent == pytest.approx(16.0)
    assert array((0, None), (5, None)).spent == pytest.approx(16.0)
    changed = array((0, 1000), (0, 1000), (1000, None))
    assert (changed.spent, changed.per_hour) == (None, 16.0)
    assert (changed.spent_why or "").endswith("its tasks came and went beside one another")


def test_an_attempt_that_told_no_number_is_counted_as_the_present_one_and_that_is_said() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)
    present = job(id="2", started_at=T0 + 5400, accelerators=8)
    found = costed(run, life(6500, ROWS, DEATH, job=present))
    assert found.spent == pytest.approx(HELD / H * 16, abs=0.1)
    assert "for 23.3m no system told a number: taken to be the same" in cost_lines(found)[-1]


def test_what_was_spent_stays_known_while_the_job_gives_no_answer() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)
    marks = [m.model_copy(update={"accelerators": 4}) for m in DEATH]
    past = life(6500, ROWS, marks)
    silent = past.facets.model_copy(update={"job": blind(T0 + 6500)})
    found = costed(run, past.model_copy(update={"facets": silent}))
    assert found.spent is not None and found.per_hour is None
    assert "names none for this job" not in (found.accelerators_by or "")


def test_accelerators_that_no_system_names_leave_the_cost_unknown_with_the_reason() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)
    found = costed(run, life(6500, ROWS, DEATH))
    assert (found.spent, found.per_hour) == (None, None)
    assert next(spending(found)).startswith("cost unknown: how many accelerators it holds")
    assert list(burning(found)) == []


def test_what_a_system_said_while_the_job_ran_counts_when_it_is_over() -> None:
    run = run_spec(price_per_accelerator_hour=2.0, job=SLURM)
    marks = [m.model_copy(update={"accelerators": 4}) for m in DEATH]
    found = costed(run, life(6500, ROWS, [*marks, mark(Phase.FAILED, 6500, "2")]))
    assert found.accelerators == 4
    assert (found.accelerators_by or "").startswith("as its system said ")


def test_a_process_on_a_machine_of_ones_own_holds_its_accelerators() -> None:
    run = run_spec(price_per_accelerator_hour=2.0)
    host = HostValue(gpus=tuple(Gpu(index=at, name="H100") for at in range(8)), gpus_lost=0)
    assert costed(run, life(6500, ROWS, DEATH, host=host)).per_hour == 16.0
    some = job(id="2", accelerators=2, accelerators_by="by CUDA_VISIBLE_DEVICES of process 7")
    assert costed(run, life(6500, ROWS, DEATH, host=host, job=some)).per_hour == 4.0
    untold = job(id="2", accelerators_by="CUDA_VISIBLE_DEVICES of process 7 cannot be read")
    hidden = costed(run, life(6500, ROWS, DEATH, host=host, job=untold))
    assert (hidden.per_hour, hidden.spent) == (None, None)
    assert (hidden.spent_why or "").endswith("of process 7 cannot be read")
    none = costed(run, life(6500, ROWS, DEATH, host=HostValue()))
    assert "no nvidia-smi on" in (none.spent_why or "")


def test_what_nobody_saw_is_not_counted_and_said() -> None:
    marks = [mark(Phase.RUNNING, 0), mark(Phase.RUNNING, 6000, "2")]
    looks = Looks(since=T0, last=T0 + 6500, gaps=((T0 + 1000, T0 + 6000),))
    found = costed(PRICED, life(6500, ROWS, marks, looks=looks))
    assert found.unseen_s == pytest.approx(5500 - 1899, abs=2)
    assert found.held_s == pytest.approx(6499 - (5500 - 1899), abs=5)
    assert "in which nobody saw whether a job ran" in cost_lines(found)[-1]
    assert next(spending(found)).endswith("; 1h 00m more that nobody saw)")


def test_a_job_that_ran_while_its_steps_are_unknown_was_paid_for_all_the_same() -> None:
    marks = [mark(Phase.WAITING, 0), mark(Phase.RUNNING, 600)]
    silent = costed(PRICED, life(6500, [], marks))
    assert silent.held_s == pytest.approx(5900)
    former = [mark(Phase.RUNNING, -5000, "0"), mark(Phase.FAILED, -1000, "0", since=-1000), *DEATH]
    found = costed(PRICED, life(6500, ROWS, former))
    assert found.spent == pytest.approx((HELD + 4000) / H * 36, abs=0.1)
    assert found.lost_to_repeats is None
    assert "former attempt" in (found.lost_why or "")


def test_a_run_that_stands_still_burns_since_its_last_step() -> None:
    found = costed(PRICED, life(600 + 2 * H, steps(1, 600, T0), [mark(Phase.RUNNING, 0)]))
    assert found.burning == pytest.approx(2 * 36, abs=0.5)
    (words,) = burning(found)
    assert words.startswith("burning 36.00 EUR/h since 2027-01-15 08:0")
    assert "72.0" in words


def test_a_job_whose_system_dates_no_start_burns_since_it_was_seen_not_since_the_last_step() -> (
    None
):
    marks = [*DEATH[:3], mark(Phase.RUNNING, 2000 + 5 * H, "2")]
    past = life(2000 + 7 * H, steps(1, 1200, T0 + 700.0), marks)
    found = costed(PRICED, past)
    assert found.burning == pytest.approx(2 * 36, abs=0.1)


def test_a_job_that_is_over_burns_nothing_but_a_rented_box_that_answers() -> None:
    over = [mark(Phase.RUNNING, 0), mark(Phase.FAILED, 700, since=700)]
    past = life(700 + H, steps(1, 600, T0), over, host=HostValue())
    assert costed(PRICED, past).burning == 0.0
    rented = run_spec(
        price_per_hour=36.0,
        job=JobSpec(kind="box", host="gpu"),
        teardown=TeardownSpec(kind="terminate"),
    )
    found = costed(rented, past)
    assert found.burning == pytest.approx(36.0, abs=0.5)
    assert found.burning_why == "the job is over, the box still answers"
    assert found.spent == pytest.approx((700 + H) / H * 36, abs=0.5)


def test_a_job_that_gives_no_answer_may_or_may_not_burn() -> None:
    lost = [Row(601 + at, T0 + 600 + at, float("nan")) for at in range(10)]
    past = life(700, [*steps(1, 600, T0), *lost], [mark(Phase.RUNNING, 0)])
    assert costed(PRICED, past).burning == pytest.approx(1.0, abs=0.01)
    silent = past.facets.model_copy(update={"job": blind(T0 + 700)})
    found = costed(PRICED, past.model_copy(update={"facets": silent}))
    assert found.burning is None
    (words,) = burning(found)
    assert words.startswith("spent since 2027-01-15 08:10 UTC: unknown (")


@pytest.mark.parametrize("end", [Phase.FAILED, Phase.SUCCEEDED])
def test_what_a_rented_box_burns_after_its_job_is_a_part_of_what_was_spent(end: Phase) -> None:
    rented = run_spec(price_per_hour=36.0, job=JobSpec(kind="box", host="gpu"),
                      teardown=TeardownSpec(kind="terminate"))  # fmt: skip
    over = [mark(Phase.RUNNING, 0), mark(end, 700, since=700)]
    looks = Looks(since=T0, last=T0 + 10 * H, gaps=((T0 + 800, T0 + 10 * H - 1),))
    ended = job(end, id="1", started_at=T0, ended_at=T0 + 700)
    past = life(10 * H, steps(1, 600, T0), over, host=HostValue(), job=ended, looks=looks)
    found = costed(rented, past)
    assert found.burning == pytest.approx((10 * H - 700) / H * 36, abs=0.5)
    assert found.spent == pytest.approx(10 * 36, abs=0.5)
    assert (found.until, found.unseen_s) == (T0 + 10 * H, 0.0)


def test_a_job_that_its_system_dates_held_its_machines_while_nobody_watched() -> None:
    looks = Looks(since=T0, last=T0 + 10 * H, gaps=((T0 + 700, T0 + 10 * H - 1),))
    running = job(id="1", started_at=T0)
    past = life(10 * H, steps(1, 600, T0), [mark(Phase.RUNNING, 0)], job=running, looks=looks)
    found = costed(PRICED, past)
    assert found.spent == pytest.approx(10 * 36, abs=0.5)
    assert found.burning == pytest.approx((10 * H - 600) / H * 36, abs=0.5)
    assert found.unseen_s == 0.0


def test_an_account_without_a_start_says_so() -> None:
    found = cost(PRICED, History(now=T0), None, ())
    assert found is not None
    assert (found.spent, found.spent_why) == (None, "no start of the run is known")
