"""What a stop promises on every platform, counted at its system: this job ends, and no other."""

from __future__ import annotations

import itertools

import pytest

from cockpit.model.jobs import LaunchState, LiveJob, Query
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from tests.platforms.conformance.halting import halted
from tests.platforms.conformance.seat import Seat, exchanges
from tests.platforms.conformance.test_launching import is_true, launch, live, looked_up


async def begun(seat: Seat, run: RunSpec, number: int = 1) -> LiveJob:
    """Launch a job, and return it as a stop is given it."""
    job_id = await launch(seat, run, number)
    (job,) = (await live(seat, run)).jobs
    assert job.id == job_id
    return job


async def test_a_stop_ends_exactly_the_job_and_nothing_beside_it(seat: Seat) -> None:
    run = seat.spec()
    beside = [seat.spec("-eval"), seat.spec("2")]
    others = [await launch(seat, each) for each in beside]
    job, rival = await begun(seat, run), seat.by_hand(run)
    assert {each.id for each in (await live(seat, run)).jobs} == {job.id, rival}
    await seat.platform().stop(run, [job])
    assert seat.living(run) == [rival]
    assert [seat.living(each) for each in beside] == [[each] for each in others]
    found = await looked_up(seat, run)
    assert (found.found, found.job_id) == (LaunchState.ENDED, job.id)
    await seat.platform().stop(run, [job])  # it has ended: there is nothing to do
    assert seat.living(run) == [rival]


async def test_a_job_that_ended_meanwhile_is_stopped_already(seat: Seat) -> None:
    run = seat.spec()
    job = await begun(seat, run)
    seat.finish(job.id)
    next_one = await launch(seat, run, 2)
    await seat.platform().stop(run, [job])
    assert seat.living(run) == [next_one]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_stop_whose_answer_is_lost_is_not_known(seat: Seat, when: str) -> None:
    for number in itertools.count(1):
        run, point = seat.spec(), f"exchange {number}, {when}"
        job, why = await begun(seat, run), ""
        dropped: list[str] = []

        def drops(now: str, point: str = point, dropped: list[str] = dropped) -> bool:
            if now == point:
                dropped.append(now)
            return now == point

        with exchanges(seat.ways, drops):
            try:
                await seat.platform().stop(run, [job])
            except (CannotError, LostError) as error:
                why = type(error).__name__
        assert why or not seat.living(run), point
        assert why != CannotError.__name__ or seat.living(run) == [job.id], point
        await seat.platform().stop(run, [job])
        assert not seat.living(run), point
        seat.end()
        if not dropped:
            assert not why and number > 1
            return


async def test_a_job_of_another_system_is_not_ours_to_stop(seat: Seat) -> None:
    run = seat.spec()
    job = await begun(seat, run)
    strange = LiveJob(id="no/such job", name="x", why="y")
    with pytest.raises(CannotError):
        await seat.platform().stop(run, [strange])
    assert seat.living(run) == [job.id]


async def test_what_waits_for_its_end_is_cancelled_by_its_own_handle(seat: Seat) -> None:
    run = seat.spec()
    if not seat.chains:
        pytest.skip(f"no {seat.kind} job can wait for another one")
    job = await begun(seat, run)
    waiting = seat.chain(run, job.id)
    assert run.job is not None
    named = run.model_copy(update={"job": run.job.model_copy(update={"id": job.id})})
    value = (await seat.platform().jobs([Query(run=named)]))[run.name].value
    assert value is not None and value.id == job.id
    assert [each.id for each in value.queued] == [waiting]
    found = (await live(seat, named)).without_waiting(value.queued)
    assert [each.id for each in found.jobs] == [job.id]
    await seat.platform().stop(run, value.queued)
    assert seat.living(run) == [job.id]


async def test_a_system_that_stands_still_stops_nothing_and_says_so(seat: Seat) -> None:
    if not seat.hangs:
        pytest.skip(f"nothing stands between a cockpit and {seat.kind} jobs")
    run, own = seat.spec(), seat.platform()
    job = await begun(seat, run)
    with halted(seat), pytest.raises((CannotError, LostError)):
        await own.stop(run, [job])
    await own.stop(run, [job])
    assert seat.living(run) == []
    assert (await looked_up(seat, run)).found is LaunchState.ENDED
    await is_true_of_the_next(seat, run)


async def is_true_of_the_next(seat: Seat, run: RunSpec) -> None:
    await launch(seat, run, 2)
    await is_true(seat, run, await looked_up(seat, run, 2), 2)
