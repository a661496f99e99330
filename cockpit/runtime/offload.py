"""Blocking work, done in daemon threads: a hang costs its caller a deadline, and nobody else.

The event loop's default executor is never used: the interpreter joins its threads at exit, so
that one ``stat`` on a dead NFS mount would keep the program from leaving. The threads here are
reused. More are started, up to a cap, when those at work hang; not when they only wait for one
another because the process computes: then one more would make everything slower. Those leave
again once they are idle: each keeps what the C library has set aside for it, megabytes for good.
One kind of call (one function) may hold half of the threads: whatever hangs, the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, ref

from cockpit.runtime.awake import LAP, Awake

T = TypeVar("T")
A = TypeVar("A")

READY: Final = 3
"""Threads that are started without waiting to see whether the others are slow."""
IDLE: Final = 30.0
"""Seconds without work after which a thread beyond those leaves."""
CAP: Final = 64
"""Threads at most; beyond it calls queue up, each until its own deadline."""
WIDTH: Final = 32
"""Calls of one bulk that are under way at once."""
PATIENCE: Final = 0.05
"""Seconds after which a running call counts as slow, so that another thread is worth it."""
HANGS: Final = 1.0
"""The same while the process computes: a call that only waits for its turn is not slow."""
COMPUTING: Final = 0.002
"""Processor time (s) of all threads in ``PATIENCE`` from which on they are held to compute."""
LATE: Final = 0.004
"""So is one whose event loop is late by as much (s): the interpreter's turns take 5 ms."""


_Outcome = tuple[Any, BaseException | None]
_Loop = asyncio.AbstractEventLoop


class _Mail:
    """Outcomes on their way to one event loop: it is woken once for all that have come."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = ref(loop)  # it is the key under which this is kept, and could never go
        self._done: deque[tuple[_Call, _Outcome]] = deque()
        self._rung = False

    def put(self, call: _Call, outcome: _Outcome) -> None:
        """Give an outcome to the loop, if that still exists; from any thread."""
        self._done.append((call, outcome))
        loop = self._loop()
        if loop is not None and not self._rung:
            self._rung = True
            with contextlib.suppress(RuntimeError):  # closed: nobody waits any more
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._rung = False
        while self._done:
            call, outcome = self._done.popleft()
            call.settle(*outcome)


@dataclass(eq=False)
class _Call:
    """One function to run and the future of the coroutine that waits for it."""

    work: Callable[[], Any]
    kind: Hashable
    mail: _Mail
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

    def settle(self, result: object, error: BaseException | None) -> None:
        """Let the coroutine go on; on its event loop."""
        if self.future.done():
            return
        if isinstance(error, StopIteration):  # a future cannot carry it
            error = RuntimeError("the offloaded function raised StopIteration")
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


def _time_of(clock: int) -> float:
    """Return the processor time of a thread; one that has just left has none."""
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


class _Load:
    """Whether the threads compute, or wait for a processor: seen from an event loop."""

    def __init__(self, loop: _Loop) -> None:
        self._due = loop.time() + PATIENCE
        self._spent = 0.0
        self.timer: asyncio.TimerHandle | None = None
        """The next look."""

    def look(self, loop: _Loop, clocks: Iterable[int]) -> bool:
        """Return that, ``PATIENCE`` after the last look: a loop that has to wait comes too late.

        ``clocks`` tell the processor time of the threads: one that hangs spends none.
        """
        now, spent = loop.time(), sum(map(_time_of, tuple(clocks)))
        busy = now - self._due >= LATE or spent - self._spent >= COMPUTING
        self._due, self._spent = now + PATIENCE, spent
        return busy


@dataclass(eq=False)
class Pool:
    """Reusable daemon threads; calls are taken in turn, none of a kind that has its share.

    The event loop takes no lock that a thread may hold while it waits for the interpreter.
    """

    ready: int = READY
    cap: int = CAP
    idle: float = IDLE
    _calls: deque[_Call] = field(default_factory=deque)
    _tokens: SimpleQueue[None] = field(default_factory=SimpleQueue)
    """One for each call that may be taken: threads wait for these."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: dict[_Call, None] = field(default_factory=dict)
    _kinds: Counter[Hashable] = field(default_factory=Counter)
    _stuck: set[Hashable] = field(default_factory=set)
    _threads: int = 0
    _clocks: list[int] = field(default_factory=list)
    _relieving: WeakKeyDictionary[_Loop, _Load] = field(default_factory=WeakKeyDictionary)
    _started: int = 0

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._threads

    @property
    def share(self) -> int:
        """How many threads one kind of call may hold."""
        return max(1, self.cap // 2)

    def submit(self, call: _Call, loop: _Loop) -> None:
        """Queue ``call``; start a thread for it if few have been started so far."""
        self._calls.append(call)
        if len(self._running) + len(self._calls) > self._threads < self.ready:
            self._start()
        self._tokens.put(None)
        if loop not in self._relieving:
            self._relieving[loop] = _Load(loop)
            self._look_soon(loop)

    def relieved(self, loop: _Loop) -> None:
        """Look no more whether calls wait in vain, where none waits: a timer would wake for it."""
        load = None if self._calls else self._relieving.pop(loop, None)
        if load is not None and load.timer is not None:
            load.timer.cancel()

    def _look_soon(self, loop: _Loop) -> None:
        self._relieving[loop].timer = loop.call_later(PATIENCE, self._relieve, loop)

    def _relieve(self, loop: _Loop) -> None:
        """Start more threads while calls wait and every thread hangs; look again while they do."""
        if not self._calls:
            del self._relieving[loop]
            return
        busy = self._relieving[loop].look(loop, self._clocks)
        horizon = time.monotonic() - (HANGS if busy else PATIENCE)
        slow = sum((each.started or horizon) <= horizon for each in tuple(self._running))
        if slow >= self._threads:
            for _ in range(min(self.ready, len(self._calls), self.cap - self._threads)):
                self._start()
        self._look_soon(loop)

    def stuck(self, key: Hashable) -> bool:
        """Tell whether an abandoned call with this ``key`` still runs."""
        return key in self._stuck

    def abandon(self, call: _Call) -> None:
        """Note that nobody waits for ``call``: skip it, or leave its thread behind."""
        call.future.cancel()  # what comes too late is dropped, a late exception too
        with self._lock:
            call.abandoned = True
            if call.started is None:
                with contextlib.suppress(ValueError):
                    self._calls.remove(call)
            elif call in self._running and call.key is not None:
                self._stuck.add(call.key)

    def _start(self) -> None:
        self._threads += 1
        self._started += 1
        name = f"offload-{self._started}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        clock = time.pthread_getcpuclockid(threading.get_ident())
        self._clocks.append(clock)
        while True:
            try:
                self._tokens.get(timeout=self.idle)
            except Empty:
                if self._leaves(clock):
                    return
                continue
            call = self._take()
            if call is not None:
                outcome = call.run()
                self._give_back(call)
                call.mail.put(call, outcome)
                del outcome
            del call  # neither may live on until the next call

    def _leaves(self, clock: int) -> bool:
        """Tell whether an idle thread is one too many, and count it out."""
        with self._lock:
            spare = self._threads > self.ready and not self._calls
            if spare:
                self._threads -= 1
                self._clocks.remove(clock)
        return spare

    def _take(self) -> _Call | None:
        """Return the first call whose kind has not its share of threads yet.

        The event loop may append meanwhile, without the lock: what iterates would break off.
        """
        with self._lock:
            for place in range(len(self._calls)):
                call = self._calls[place]
                if self._kinds[call.kind] < self.share:
                    del self._calls[place]
                    break
            else:
                return None
            call.started = time.monotonic()
            self._running[call] = None
            self._kinds[call.kind] += 1
            return call

    def _give_back(self, call: _Call) -> None:
        with self._lock:
            self._running.pop(call, None)
            self._kinds[call.kind] -= 1
            if not self._kinds[call.kind]:
                del self._kinds[call.kind]
            if call.abandoned:
                self._stuck.discard(call.key)
            if self._calls:  # one of this kind may have been passed over
                self._tokens.put(None)


_POOL = Pool()
_MAIL: WeakKeyDictionary[_Loop, _Mail] = WeakKeyDictionary()


def _mail_of(loop: _Loop) -> _Mail:
    mail = _MAIL.get(loop)
    if mail is None:
        mail = _MAIL[loop] = _Mail(loop)
    return mail


def _kind(fn: Callable[..., object]) -> Hashable:
    """Return what calls of one function have in common, whatever they are about."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    kind: Hashable = getattr(fn, "__code__", None) or getattr(fn, "__qualname__", type(fn).__name__)
    return kind


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

    Raises ``TimeoutError`` after ``deadline`` seconds, those in which this process was stopped
    not counted; the thread is then left behind. While
    it hangs, the same call (equal ``fn`` and ``args``) waits for it instead of taking another
    thread, so that polling a dead mount does not use up all threads. ``key`` tells that calls
    are the same whose ``args`` differ each time.
    """
    pool = pool or _POOL
    key = _key(fn, args) if key is None else key
    loop = asyncio.get_running_loop()
    until = Awake(deadline, 2 * LAP, loop.time)
    await _former(pool, key, until)
    work = functools.partial(fn, *args)
    call = _Call(work, _kind(fn), _mail_of(loop), loop.create_future(), key)
    pool.submit(call, loop)
    try:
        await _wait(call, until)
    except asyncio.CancelledError:
        if call.future.done():
            call.future.exception()  # one that it raised is nobody's now
        else:
            pool.abandon(call)
        raise
    if not call.future.done():
        pool.abandon(call)
        raise TimeoutError(f"no answer within {deadline:.2g} s")
    pool.relieved(loop)
    result: T = call.future.result()
    return result


async def _former(pool: Pool, key: Hashable, until: Awake) -> None:
    """Wait until no abandoned call with this ``key`` runs any more."""
    pause = PATIENCE
    while key is not None and pool.stuck(key):
        left = until.left()
        if left <= 0:
            raise TimeoutError("an earlier call of the same kind still hangs")
        await asyncio.sleep(min(pause, left))
        pause = min(1.0, pause * 2)


async def _wait(call: _Call, until: Awake) -> None:
    """Wait for the outcome or until time is up."""
    while not call.future.done() and (left := until.left()) > 0:
        await asyncio.wait({call.future}, timeout=min(left, LAP))


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
