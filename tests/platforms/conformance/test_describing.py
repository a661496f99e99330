"""What every platform tells of a job when it is asked to describe it: it only looks."""

from __future__ import annotations

import pytest

from cockpit.model.clock import SystemClock
from cockpit.platforms.table import Platforms, describe
from tests.platforms.conformance.seat import Seat
from tests.platforms.conformance.test_launching import launch


async def test_a_job_is_described_by_its_own_system(seat: Seat) -> None:
    run = seat.spec()
    job_id = await launch(seat, run, 1)
    platforms = Platforms(SystemClock(), [seat.platform()])
    found = await describe(platforms, run, job_id, SystemClock())
    assert (found.run, found.job) == (run.name, job_id) and found.system
    assert run.name in found.text
    assert "\x1b" not in found.text
    assert seat.living(run) == [job_id]


async def test_a_system_that_does_not_answer_says_so_in_one_line(seat: Seat) -> None:
    if type(seat).halted is Seat.halted:
        pytest.skip("nothing stands between this machine and itself")
    run = seat.spec()
    job_id = await launch(seat, run, 1)
    platforms = Platforms(SystemClock(), [seat.platform()])
    with seat.halted():
        found = await describe(platforms, run, job_id, SystemClock())
    assert found.problem and "\n" not in found.problem and not found.text
