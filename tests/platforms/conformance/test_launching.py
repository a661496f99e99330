"""What a launch promises on every platform, counted at its system: one job at most, ever."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import pickle
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from cockpit.actions.core.execution import settled
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState, Live, LookUp
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError, Platform
from tests.platforms.conformance.halting import halted
from tests.platforms.conformance.seat import Seat, exchanges
from tests.waiting import until
from tests.warm import Warm

SOAK = bool(os.environ.get("SOAK"))
REPO = Path(__file__).resolve().parents[3]
RACERS = 4


async def launch(seat: Seat, run: RunSpec, number: int = 1) -> str:
    """Launch as a cockpit does that has just been started."""
    return await launched(seat.platform(), seat, run, number)


async def launched(platform: Platform, seat: Seat, run: RunSpec, number: int = 1) -> str:
    return await platform.go(run, await platform.accept(run, seat.submission(run, number)))


async def live(seat: Seat, run: RunSpec) -> Live:
    found = (await seat.platform().live([run]))[run.name]
    assert found.unknown is None, found.unknown
    return found


async def looked_up(seat: Seat, run: RunSpec, number: int = 1) -> LookUp:
    """Look a launch up until that is definite, as a cockpit that has never heard of it."""
    launch_id = f"{run.name}-i{number:03d}"
    return await settled(seat.platform(), run, launch_id, SystemClock())


async def is_true(seat: Seat, run: RunSpec, found: LookUp, number: int = 1) -> None:
    """Compare a look-up with what the system has, and see that one job lives after a next launch.

    A launch that is absent leaves room for another one; one that lives does not.
    """
    launch_id = f"{run.name}-i{number:03d}"
    assert found.found in (LaunchState.LIVE, LaunchState.ABSENT), found
    alive = [found.job_id] if found.found is LaunchState.LIVE else []
    assert seat.living(run) == alive, found
    if alive:
        until(lambda: seat.began(launch_id))
        with pytest.raises(CannotError):
            await launch(seat, run, number + 1)
        assert seat.living(run) == alive
    else:
        assert seat.began(launch_id) == 0, found
        with pytest.raises(CannotError):
            await launch(seat, run, number)
        alive = [await launch(seat, run, number + 1)]
        assert seat.living(run) == alive
        assert seat.began(launch_id) == 0, found
    assert seat.began(launch_id) <= 1


async def test_a_launch_starts_one_job_that_every_cockpit_finds(seat: Seat) -> None:
    run, own = seat.spec(), seat.platform()
    launch_id = seat.submission(run).launch_id
    accepted = await own.accept(run, seat.submission(run))
    assert seat.living(run) == []
    job_id = await own.go(run, accepted)
    assert seat.living(run) == [job_id]
    found = await looked_up(seat, run)
    assert (found.found, found.job_id) == (LaunchState.LIVE, job_id)
    until(lambda: seat.began(launch_id))
    assert [(job.id, job.launch_id) for job in (await live(seat, run)).jobs] == [
        (job_id, launch_id)
    ]
    with pytest.raises(CannotError):
        await own.go(run, accepted)
    for number in (1, 2):
        with pytest.raises(CannotError):
            await launch(seat, run, number)
    assert seat.living(run) == [job_id]
    seat.finish(job_id)
    assert (await looked_up(seat, run)).found is LaunchState.ENDED
    with pytest.raises(CannotError):
        await launch(seat, run)
    assert seat.living(run) == [] and seat.began(launch_id) == 1
    third = await launch(seat, run, 3)
    assert seat.living(run) == [third]


async def test_what_was_accepted_and_looked_up_never_runs(seat: Seat) -> None:
    run, own = seat.spec(), seat.platform()
    accepted = await own.accept(run, seat.submission(run))
    found = await looked_up(seat, run)
    assert found.found is LaunchState.ABSENT, found
    with pytest.raises(CannotError):
        await own.go(run, accepted)
    await is_true(seat, run, await looked_up(seat, run))


async def test_an_id_that_was_looked_up_before_it_was_used_is_closed(seat: Seat) -> None:
    run = seat.spec()
    assert (await looked_up(seat, run)).found is LaunchState.ABSENT
    await is_true(seat, run, await looked_up(seat, run))


async def test_a_look_that_may_not_settle_stops_no_launch(seat: Seat) -> None:
    run, own = seat.spec(), seat.platform()
    accepted = await own.accept(run, seat.submission(run))
    launch_id = accepted.submission.launch_id
    found = await own.look_up(run, launch_id, accepted.handle, settle=False)
    assert found.found is LaunchState.UNKNOWN, found
    assert await own.go(run, accepted) == seat.living(run)[0]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_is_looked_up_and_never_tried_again(seat: Seat, when: str) -> None:
    """Of each exchange in turn: what was sent never arrives, or its answer does not."""
    for number in itertools.count(1):
        run, point = seat.spec(), f"exchange {number}, {when}"
        dropped: list[str] = []

        def drops(now: str, point: str = point, dropped: list[str] = dropped) -> bool:
            if now == point:
                dropped.append(now)
            return now == point

        with exchanges(seat.ways, drops):
            try:
                said = await launch(seat, run)
            except CannotError:
                said = CannotError.__name__
            except LostError:
                said = LostError.__name__
        if not dropped:
            assert number > 1, "nothing was sent"
            return
        found = await looked_up(seat, run)
        if said != LostError.__name__:
            expected = LaunchState.ABSENT if said == CannotError.__name__ else LaunchState.LIVE
            assert found.found is expected, (point, said, found)
        await is_true(seat, run, found)
        seat.end()


async def test_two_stores_race_for_one_launch_id(seat: Seat) -> None:
    for _ in range(20 if SOAK else 2):
        run = seat.spec()
        ends = await asyncio.gather(
            *(launch(seat, run) for _ in range(RACERS)), return_exceptions=True
        )
        lost = [end for end in ends if isinstance(end, CannotError)]
        (won,) = [end for end in ends if isinstance(end, str)]
        assert len(lost) == RACERS - 1, ends
        assert seat.living(run) == [won]
        assert seat.began(f"{run.name}-i001") <= 1
        await is_true(seat, run, await looked_up(seat, run))


async def test_of_two_launches_at_one_moment_one_lives_on(seat: Seat) -> None:
    """Elsewhere the guards of the lineage see to that, which an action takes before."""
    if not seat.one_a_lineage:
        pytest.skip(f"two {seat.kind} jobs of one moment are kept apart by the lineage's guards")
    for _ in range(20 if SOAK else 2):
        run, own = seat.spec(), [seat.platform() for _ in range(2)]
        accepted = [
            await each.accept(run, seat.submission(run, number))
            for number, each in enumerate(own, 1)
        ]
        ends = await asyncio.gather(
            *(each.go(run, one) for each, one in zip(own, accepted, strict=True)),
            return_exceptions=True,
        )
        (won,) = seat.living(run)
        assert sorted(end == won for end in ends) == [False, True], ends
        assert any(isinstance(end, CannotError) for end in ends), ends


async def test_a_job_by_hand_is_seen_and_nothing_starts_beside_it(seat: Seat) -> None:
    run, own = seat.spec(), seat.platform()
    accepted = await own.accept(run, seat.submission(run))
    rival = seat.by_hand(run)
    (seen,) = (await live(seat, run)).jobs
    assert (seen.id, seen.launch_id) == (rival, None)
    with pytest.raises(CannotError, match=rival):
        await own.go(run, accepted)
    with pytest.raises(CannotError, match=rival):
        await launch(seat, run, 2)
    assert seat.living(run) == [rival]
    for number in (1, 2):
        found = await looked_up(seat, run, number)
        assert found.found is LaunchState.ABSENT, found
    await own.stop(run, [seen])
    assert seat.living(run) == []
    assert await launch(seat, run, 3) == seat.living(run)[0]


async def test_a_name_that_somebody_else_has_used_is_not_used_again(seat: Seat) -> None:
    run = seat.spec()
    launch_id = seat.submission(run).launch_id
    seat.take_name(run, launch_id)
    before = seat.living(run)
    with pytest.raises(CannotError):
        await launch(seat, run)
    assert seat.living(run) == before and seat.began(launch_id) <= len(before)


def begun(seat: Seat, system: str, run: RunSpec, point: str, fate: str) -> Warm:
    """Start a cockpit in a process of its own, which meets its fate at a point."""
    both = pickle.dumps((run, seat.submission(run)))
    given = {"seat": system, "launch": base64.b64encode(both).decode(), "point": point}
    told = json.dumps({**given, "fate": fate})
    return Warm("tests.platforms.conformance.cockpit", told, stderr=None)


async def passed(process: Warm, point: str = "") -> list[str]:
    """Return what a cockpit says until it comes to a point, or ends."""
    assert process.stdout is not None
    said: list[str] = []
    while line := (await asyncio.to_thread(process.stdout.readline)).strip():
        said.append(line)
        if line == point:
            break
    return said


async def points_of(seat: Seat, system: str) -> list[str]:
    """Return the points that an undisturbed launch passes; the decisive ones but in a long run."""
    run = seat.spec()
    *points, went = await passed(begun(seat, system, run, "", "kill"))
    assert went == f"went {seat.living(run)[0]}", (points, went)
    seat.end()
    assert {"meant", "accepted", "let go", "exchange 1, before"} <= {*points}
    decisive = points[points.index("accepted") + 1 : points.index("let go")][-2:]
    return points if SOAK else ["accepted", *decisive, "let go"]


async def test_a_cockpit_killed_at_any_point_leaves_one_job_or_none(
    seat: Seat, system: tuple[str, object]
) -> None:
    for point in await points_of(seat, system[0]):
        run = seat.spec()
        process = begun(seat, system[0], run, point, "kill")
        assert (await passed(process))[-1] == point
        assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
        found = await looked_up(seat, run)
        assert (found.found is LaunchState.LIVE) >= (point == "let go"), (point, found)
        await is_true(seat, run, found)
        seat.end()


async def test_a_cockpit_halted_at_any_point_starts_nothing_that_was_looked_up(
    seat: Seat, system: tuple[str, object]
) -> None:
    points = await points_of(seat, system[0])
    for point in points if SOAK else points[:2]:
        run = seat.spec()
        process = begun(seat, system[0], run, point, "halt")
        try:
            await passed(process, point)
            status = Path(f"/proc/{process.pid}/stat")
            until(lambda status=status: status.read_text().rpartition(")")[2][1] == "T")  # type: ignore[misc]
            found = await looked_up(seat, run)
            process.send_signal(signal.SIGCONT)
            said = (await passed(process))[-1]
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)
        if found.found is LaunchState.ABSENT:
            assert said.startswith(CannotError.__name__), (point, said)
        await is_true(seat, run, found)
        seat.end()


@pytest.mark.parametrize("where", ["accepted", "mid-flight"])
async def test_a_system_that_stands_still_is_unknown_and_nothing_comes_late(
    seat: Seat, where: str
) -> None:
    if not seat.hangs:
        pytest.skip(f"nothing stands between a cockpit and {seat.kind} jobs")
    run, own = seat.spec(), seat.platform()
    accepted = await own.accept(run, seat.submission(run))
    with ExitStack() as stack:

        def halts(point: str) -> None:
            if point == "exchange 1, before":
                stack.enter_context(halted(seat))

        if where == "accepted":
            stack.enter_context(halted(seat))
        else:
            stack.enter_context(exchanges(seat.ways, halts))
        async with asyncio.timeout(120):
            with pytest.raises((CannotError, LostError)):
                await own.go(run, accepted)
            with pytest.raises((CannotError, LostError)):
                await launch(seat, run, 9)
            found = await seat.platform().look_up(run, accepted.submission.launch_id)
            assert found.found is LaunchState.UNKNOWN, found
    await is_true(seat, run, await looked_up(seat, run))
