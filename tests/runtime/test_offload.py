from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cockpit.runtime import offload as module
from cockpit.runtime.moment import Limit
from cockpit.runtime.offload import Pool, offload
from tests.watch.fakes import until

ROOT = Path(__file__).resolve().parents[2]


async def test_stop_iteration_does_not_break_the_loop() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await offload(next, iter(()), deadline=5.0)


async def test_threads_are_reused() -> None:
    pool = Pool()
    for number in range(50):
        await offload(str, number, deadline=5.0, pool=pool)
    assert pool.threads == 1


async def test_gives_up_at_the_deadline() -> None:
    gate = threading.Event()
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        await offload(gate.wait, deadline=0.1)
    assert time.monotonic() - before < 30.0
    gate.set()


async def test_who_cleans_up_after_a_cancel_waits_until_the_deadline_as_others_do() -> None:
    gate, said = threading.Event(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await offload(gate.wait, deadline=0.01)
            except TimeoutError as error:
                said.append(str(error))

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert said == ["no answer within 0.01 s"]


async def test_a_cancel_that_comes_as_time_is_up_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, look = threading.Event(), Limit._check_time

    def looked(limit: Limit) -> None:
        look(limit)
        if limit.over:  # the task itself goes on at the next turn of the loop
            task.cancel()

    monkeypatch.setattr(Limit, "_check_time", looked)
    task = asyncio.create_task(offload(gate.wait, deadline=0.05))
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()


async def test_hanging_calls_delay_no_others() -> None:
    pool, gate = Pool(ready=2, cap=16), threading.Event()

    def hang(_: int) -> bool:
        return gate.wait()

    hanging = [asyncio.create_task(offload(hang, n, deadline=60.0, pool=pool)) for n in range(8)]
    await asyncio.sleep(0)
    before = time.monotonic()
    assert await offload(str, 1, deadline=30.0, pool=pool) == "1"
    assert time.monotonic() - before < 30.0
    gate.set()
    assert await asyncio.gather(*hanging) == [True] * 8


async def test_the_cap_holds_and_the_queue_moves_on() -> None:
    pool, gate = Pool(ready=1, cap=4), threading.Event()

    def hang(_: int) -> bool:
        return gate.wait()

    def hang_otherwise(_: int) -> bool:
        return gate.wait()

    hanging = [
        asyncio.create_task(offload(which, n, deadline=60.0, pool=pool))
        for n in range(4)
        for which in (hang, hang_otherwise)
    ]
    await until(lambda: pool.threads == 4)
    with pytest.raises(TimeoutError):
        await offload(str, 1, deadline=0.5, pool=pool)
    assert pool.threads == 4
    gate.set()
    assert await asyncio.gather(*hanging) == [True] * 8
    assert await offload(str, 2, deadline=5.0, pool=pool) == "2"


async def test_what_hangs_everywhere_holds_its_share_and_no_more() -> None:
    pool, gate = Pool(ready=1, cap=4), threading.Event()

    def hang(_: int) -> bool:
        return gate.wait()

    hanging = [asyncio.create_task(offload(hang, n, deadline=0.5, pool=pool)) for n in range(40)]
    assert await offload(str, 1, deadline=30.0, pool=pool) == "1"
    await asyncio.wait(hanging)
    assert await offload(str, 2, deadline=30.0, pool=pool) == "2"
    assert pool.threads <= 4
    gate.set()
    assert await offload(hang, 99, deadline=30.0, pool=pool)


async def test_computing_starts_no_threads_that_would_only_wait() -> None:
    pool = Pool()

    def compute(_: int) -> int:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
        return 1

    calls = (offload(compute, n, deadline=60.0, pool=pool) for n in range(20))
    assert sum(await asyncio.gather(*calls)) == 20
    assert pool.threads <= pool.ready


async def test_what_is_done_is_told_although_the_next_call_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HOLD", 60.0)
    pool, gate = Pool(ready=1, cap=1), threading.Event()
    first = asyncio.create_task(offload(str, 1, deadline=60.0, pool=pool))
    hangs = asyncio.create_task(offload(gate.wait, deadline=60.0, pool=pool))
    assert await asyncio.wait_for(first, 30.0) == "1"
    assert not hangs.done()
    gate.set()
    assert await hangs


async def test_calls_that_wait_for_something_are_shared_among_threads() -> None:
    pool, gate = Pool(ready=3), threading.Barrier(3)

    def meet(_: int) -> int:
        return gate.wait(30.0)

    met = await asyncio.gather(*(offload(meet, n, deadline=60.0, pool=pool) for n in range(3)))
    assert sorted(met) == [0, 1, 2] and pool.threads == 3


async def test_threads_for_a_slow_moment_leave_when_they_are_idle() -> None:
    pool, gate = Pool(ready=1, cap=16, idle=0.05), threading.Event()

    def hang(_: int) -> bool:
        return gate.wait()

    hanging = [asyncio.create_task(offload(hang, n, deadline=60.0, pool=pool)) for n in range(6)]
    while pool.threads < 6:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    gate.set()
    assert await asyncio.gather(*hanging) == [True] * 6
    until = time.monotonic() + 30.0
    while pool.threads > 1 and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert pool.threads == 1
    assert await offload(str, 1, deadline=30.0, pool=pool) == "1"


async def test_polling_something_dead_takes_one_thread() -> None:
    pool, gate = Pool(), threading.Event()
    for _ in range(10):
        with pytest.raises(TimeoutError):
            await offload(gate.wait, deadline=0.02, pool=pool)
    assert pool.threads == 1
    gate.set()
    assert await offload(gate.wait, deadline=5.0, pool=pool)


async def test_a_cancelled_caller_leaves_the_thread_behind() -> None:
    gate = threading.Event()
    task = asyncio.create_task(offload(gate.wait, deadline=30.0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()


def test_a_result_after_the_loop_has_closed_harms_nobody() -> None:
    gate, done = threading.Event(), threading.Event()
    pool = Pool()

    def late() -> None:
        gate.wait()

    async def abandon() -> None:
        with pytest.raises(TimeoutError):
            await offload(late, deadline=0.05, pool=pool)

    asyncio.run(abandon())
    failures: list[object] = []
    hook, threading.excepthook = threading.excepthook, failures.append
    try:
        gate.set()
        asyncio.run(offload(done.set, deadline=5.0, pool=pool))
    finally:
        threading.excepthook = hook
    assert done.is_set() and failures == []


HANGS = """
import asyncio, threading, time
from cockpit.runtime.offload import offload

async def main():
    try:
        await offload(time.sleep, 60, deadline=0.1)
    except TimeoutError:
        print("left at", time.monotonic(), flush=True)

asyncio.run(main())
"""


def test_the_interpreter_leaves_although_a_thread_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, cwd=ROOT, timeout=30
    )
    ended = time.monotonic()
    assert done.returncode == 0 and done.stderr == ""
    assert ended - float(done.stdout.split()[-1]) < 2.0


async def test_what_comes_after_the_deadline_is_nobody_s_business() -> None:
    gate, said = threading.Event(), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))

    def late() -> None:
        gate.wait()
        raise FileNotFoundError

    with pytest.raises(TimeoutError):
        await offload(late, deadline=0.05)
    gate.set()
    await offload(str, 1, deadline=5.0)
    await asyncio.sleep(0.05)
    gc.collect()
    assert not said


async def test_the_time_in_which_the_process_was_stopped_is_no_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, stopped = asyncio.get_running_loop(), [0.0]
    steady = loop.time
    monkeypatch.setattr(loop, "time", lambda: steady() + stopped[0])

    def work() -> str:
        stopped[0] += 600.0  # SIGSTOP, then SIGCONT
        time.sleep(0.1)
        return "done"

    assert await offload(work, deadline=15.0) == "done"
