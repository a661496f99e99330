"""Blocking work, done in daemon threads: a hang costs its caller a deadline, and nobody else.

The event loop's default executor is never used: the interpreter joins its threads at exit, so
that one ``stat`` on a dead NFS mount would keep the program from leaving. The threads here are
reused; when all of them are busy with something slow, more are started, up to a cap. Those leave
again once they are idle: each keeps what the C library has set aside for it, megabytes for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")
A = TypeVar("A")

READY: Final = 4
"""Threads that are started without waiting to see whether the others are slow."""
IDLE: Final = 30.0
"""Seconds without work after which a thread beyond those leaves."""
CAP: Final = 64
"""Threads at most; beyond it calls queue up, each until its own deadline."""
WIDTH: Final = 32
"""Calls of one bulk that are under way at once."""
PATIENCE: Final = 0.05
"""Seconds after which a running call counts as slow, so that another thread is worth it."""


_Outcome = tuple[Any, BaseException | None]


@dataclass(eq=False)
class _Call:
    """One function to run and the future of the coroutine that waits for it."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    key: Hashable
    started: float | None = None
    abandoned: bool = False

    def run(self) -> _Outcome:
        """Run the function and return its result or its exception."""
        try:
            return self.work(), None
        except BaseException as failure:  # noqa: BLE001 - raised again in the task that awaits it
            return None, failure

    def hand_over(self, outcome: _Outcome) -> None:
        """Give the outcome to the loop, if that still exists."""
        with contextlib.suppress(RuntimeError):  # closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._settle, *outcome)

    def _settle(self, result: object, error: BaseException | None) -> None:
        if self.future.done():
            return
        if isinstance(error, StopIteration):  # a future cannot carry it
            error = RuntimeError("the offloaded function raised StopIteration")
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


@dataclass(eq=False)
class Pool:
    """Reusable daemon threads around one queue."""

    ready: int = READY
    cap: int = CAP
    idle: float = IDLE
    _calls: SimpleQueue[_Call] = field(default_factory=SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: set[_Call] = field(default_factory=set)
    _stuck: set[Hashable] = field(default_factory=set)
    _threads: int = 0
    _started: int = 0

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._threads

    def submit(self, call: _Call) -> None:
        """Queue ``call``; start a thread for it if few have been started so far."""
        with self._lock:
            if len(self._running) + self._calls.qsize() >= self._threads < self.ready:
                self._start()
        self._calls.put(call)

    def relieve(self, call: _Call) -> None:
        """Start one more thread if ``call`` still waits and every thread is slow."""
        with self._lock:
            horizon = time.monotonic() - PATIENCE
            slow = sum((other.started or 0.0) <= horizon for other in self._running)
            if call.started is None and slow >= self._threads and self._threads < self.cap:
                self._start()

    def stuck(self, key: Hashable) -> bool:
        """Tell whether an abandoned call with this ``key`` still runs."""
        with self._lock:
            return key in self._stuck

    def abandon(self, call: _Call) -> None:
        """Note that nobody waits for ``call``: skip it, or leave its thread behind."""
        call.future.cancel()  # what comes too late is dropped, a late exception too
        with self._lock:
            call.abandoned = True
            if call in self._running and call.key is not None:
                self._stuck.add(call.key)

    def _start(self) -> None:
        self._threads += 1
        self._started += 1
        name = f"offload-{self._started}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=self.idle)
            except Empty:
                if self._leaves():
                    return
                continue
            if self._take(call):
                outcome = call.run()
                self._give_back(call)
                call.hand_over(outcome)
                del outcome
            del call  # neither may live on until the next call

    def _leaves(self) -> bool:
        """Tell whether an idle thread is one too many, and count it out."""
        with self._lock:
            spare = self._threads > self.ready and self._calls.empty()
            self._threads -= spare
        return spare

    def _take(self, call: _Call) -> bool:
        with self._lock:
            if not call.abandoned:
                call.started = time.monotonic()
                self._running.add(call)
            return not call.abandoned

    def _give_back(self, call: _Call) -> None:
        with self._lock:
            self._running.discard(call)
            if call.abandoned:
                self._stuck.discard(call.key)


_POOL = Pool()


def _key(fn: Callable[..., object], args: tuple[object, ...]) -> Hashable:
    """Return an identity under which the same call is known again, or ``None``."""
    try:
        hash((fn, args))
    except TypeError:
        return None
    return (fn, args)


async def offload(
    fn: Callable[..., T],
    *args: object,
    deadline: float,
    pool: Pool | None = None,
    key: Hashable = None,
) -> T:
    """Run ``fn(*args)`` in a daemon thread and return what it returns, or raise what it raises.

    Raises ``TimeoutError`` after ``deadline`` seconds; the thread is then left behind. While
    it hangs, the same call (equal ``fn`` and ``args``) waits for it instead of taking another
    thread, so that polling a dead mount does not use up all threads. ``key`` tells that calls
    are the same whose ``args`` differ each time.
    """
    pool = pool or _POOL
    key = _key(fn, args) if key is None else key
    loop = asyncio.get_running_loop()
    until = loop.time() + deadline
    await _former(pool, key, until)
    call = _Call(lambda: fn(*args), loop, loop.create_future(), key)
    pool.submit(call)
    try:
        await _wait(pool, call, until)
    except asyncio.CancelledError:
        if call.future.done():
            call.future.exception()  # one that it raised is nobody's now
        else:
            pool.abandon(call)
        raise
    if not call.future.done():
        pool.abandon(call)
        raise TimeoutError(f"no answer within {deadline:g} s")
    result: T = call.future.result()
    return result


async def _former(pool: Pool, key: Hashable, until: float) -> None:
    """Wait until no abandoned call with this ``key`` runs any more."""
    pause = PATIENCE
    loop = asyncio.get_running_loop()
    while key is not None and pool.stuck(key):
        left = until - loop.time()
        if left <= 0:
            raise TimeoutError("an earlier call of the same kind still hangs")
        await asyncio.sleep(min(pause, left))
        pause = min(1.0, pause * 2)


async def _wait(pool: Pool, call: _Call, until: float) -> None:
    """Wait for the outcome or until the loop's clock shows ``until``; ask for help if it queues."""
    loop = asyncio.get_running_loop()
    while not call.future.done() and (left := until - loop.time()) > 0:
        waits = call.started is None
        await asyncio.wait({call.future}, timeout=min(PATIENCE, left) if waits else left)
        if waits:
            pool.relieve(call)


async def each(items: Iterable[A], ask: Callable[[A], Awaitable[T]]) -> list[T]:
    """Return ``ask(item)`` of each item, in order, ``WIDTH`` of them under way at once.

    So a bulk of a thousand calls does not spend its deadlines waiting in a queue.
    """
    todo = list(enumerate(items))
    todo.reverse()
    answers: dict[int, T] = {}

    async def work() -> None:
        while todo:
            place, item = todo.pop()
            answers[place] = await ask(item)

    await asyncio.gather(*(work() for _ in range(min(WIDTH, len(todo)))))
    return [answers[place] for place in sorted(answers)]
