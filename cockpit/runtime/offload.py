"""Runs blocking calls in daemon threads: a hang costs its caller a deadline, and nobody else.

The event loop's default executor is never used: the interpreter joins its threads at exit, so
that one ``stat`` on a dead NFS mount would keep the program from leaving. The threads here are
reused. More are started, up to a cap, when those at work hang; not when they only wait for one
another because the process computes: then one more would make everything slower. Those leave
again once they are idle: each keeps what the C library has set aside for it, megabytes for good.
One kind of call (one function) may hold half of the threads: whatever hangs, the others go on.

One thread works while it keeps up, and its completions are batched into one wake-up of the event
loop: two threads at work would hand the interpreter over at each system call, each time with a
wake-up (with twelve idle runs 450 of them within a tenth of a second).

``Load`` tells whether the threads compute or wait. ``offload_each`` makes the same call for many
runs in one hop to a thread, and separates only those that are slow: a hop costs more than the few
system calls of most looks, and for a thousand runs it was a fifth of what watching them took.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, ref

from cockpit.runtime.moment import LAP, Awake, Limit

COMPUTING: Final = 0.002
"""Processor time (s) of all threads between two looks from which on they are held to compute."""
LATE: Final = 0.004
"""So is one whose event loop is late by as much (s): the interpreter's turns take 5 ms."""
Loop = asyncio.AbstractEventLoop


def _time_of(clock: int) -> float:
    """Return the processor time of a thread; one that has just left has none."""
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


class Load:
    """Whether the threads compute, or wait for a processor: seen from an event loop.

    Measured without it (``bench many_runs``, 1,000 runs): 11 threads instead of 5, and the event
    loop is late by up to 512 ms instead of 173.
    """

    def __init__(self) -> None:
        self._due = self._spent = 0.0
        self.timer: asyncio.TimerHandle | None = None
        """The next look."""
        self.calling = False
        """Whether a thread is about to be called."""

    def look(self, loop: Loop, clocks: Iterable[int]) -> bool:
        """Return that, at the time that was set: a loop that has to wait comes too late.

        ``clocks`` tell the processor time of the threads: one that hangs spends none.
        """
        spent = sum(map(_time_of, tuple(clocks)))
        busy = loop.time() - self._due >= LATE or spent - self._spent >= COMPUTING
        self._spent = spent
        return busy

    def look_after(self, seconds: float, loop: Loop, look: Callable[[Loop], None]) -> None:
        """Set the time of the next look."""
        self._due = loop.time() + seconds
        self.timer = loop.call_later(seconds, look, loop)


T = TypeVar("T")
A = TypeVar("A")

READY: Final = 3
"""Threads that are kept, and take part as soon as a call takes ``STEP``."""
STEP: Final = 0.01
"""Seconds after which a running call counts as one that keeps the next ones waiting."""
HOLD: Final = 0.005
"""Seconds for which outcomes are gathered while more calls wait, before the loop is woken."""
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


_Outcome = tuple[Any, BaseException | None]
_Loop = asyncio.AbstractEventLoop


class _Mail:
    """Outcomes on their way to one event loop: it is woken once for all that have come.

    Who puts one in and does not ring goes on to a call of the same loop: that is looked after by
    ``Pool`` until it ends, which delivers what waits here.
    """

    def __init__(self, loop: _Loop) -> None:
        self._loop = ref(loop)  # it is the key under which this is kept, and could never go
        self._done: deque[tuple[_Call, _Outcome]] = deque()
        self._rung = False

    def __bool__(self) -> bool:
        return bool(self._done)

    def put(self, call: _Call, outcome: _Outcome) -> None:
        """Lay an outcome down for the loop; from any thread."""
        self._done.append((call, outcome))

    def ring(self) -> None:
        """Wake the loop, if that still exists, for what lies here; from any thread."""
        loop = self._loop()
        if loop is not None and not self._rung:
            self._rung = True
            with contextlib.suppress(RuntimeError):  # closed: nobody waits any more
                loop.call_soon_threadsafe(self.deliver)

    def deliver(self) -> None:
        """Let all go on whose outcome has come; on the loop."""
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


@dataclass(eq=False)
class Pool:
    """Reusable daemon threads; calls are taken in turn, none of a kind that has its share.

    The event loop takes no lock that a thread may hold while it waits for the interpreter.
    """

    ready: int = READY
    cap: int = CAP
    idle: float = IDLE
    _calls: deque[_Call] = field(default_factory=deque)
    _resting: list[threading.Lock] = field(default_factory=list)
    """Of each thread that waits to be called, what it waits for; the last one is called first."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _running: dict[_Call, None] = field(default_factory=dict)
    _kinds: Counter[Hashable] = field(default_factory=Counter)
    _stuck: set[Hashable] = field(default_factory=set)
    _threads: int = 0
    _clocks: list[int] = field(default_factory=list)
    _relieving: WeakKeyDictionary[_Loop, Load] = field(default_factory=WeakKeyDictionary)
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
        """Queue ``call``; a thread that works will take it, else one is called or started.

        That is done once the loop has turned: what else is due at this moment comes before.
        """
        self._calls.append(call)
        load = self._relieving.get(loop)
        if load is None:
            load = self._relieving[loop] = Load()
            load.look_after(STEP, loop, self._relieve)
        if not load.calling and len(self._resting) >= self._threads:
            load.calling = True
            loop.call_soon(self._call, load)

    def _call(self, load: Load) -> None:
        load.calling = False
        if self._calls and len(self._resting) >= self._threads:
            self._one_more()

    def relieved(self, loop: _Loop) -> None:
        """Cancel the timer that checks for waiting calls, once no call waits."""
        load = None if self._calls or _mail_of(loop) else self._relieving.pop(loop, None)
        if load is not None and load.timer is not None:
            load.timer.cancel()

    def _relieve(self, loop: _Loop) -> None:
        """Have more threads at work while calls wait and those there hang; look again so long."""
        none_wait = not self._calls  # asked first: who takes the last one has laid its mail down
        _mail_of(loop).deliver()
        if none_wait:
            del self._relieving[loop]
            return
        load = self._relieving[loop]
        if (self._resting or self._threads < self.ready) and self._more_to_take:
            if self._slow(STEP) >= self._threads - len(self._resting):
                self._one_more()
            load.look_after(STEP, loop, self._relieve)
            return
        busy = load.look(loop, self._clocks)
        if self._slow(HANGS if busy else PATIENCE) >= self._threads:
            for _ in range(min(self.ready, len(self._calls), self.cap - self._threads)):
                self._start()
        load.look_after(PATIENCE, loop, self._relieve)

    @property
    def _more_to_take(self) -> bool:
        """Whether a call waits whose kind has not its share; asked without the lock."""
        return any(self._kinds[each.kind] < self.share for each in tuple(self._calls))

    def _slow(self, seconds: float) -> int:
        """Return how many calls have been running for as long."""
        horizon = time.monotonic() - seconds
        return sum((each.started or horizon) <= horizon for each in tuple(self._running))

    def _one_more(self) -> None:
        """Have one more thread at work: one that rests, else a new one."""
        try:
            self._resting.pop().release()
        except IndexError:
            self._start()

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
        bell = threading.Lock()
        bell.acquire()
        self._work()
        while self._called(bell) or not self._leaves(clock):
            self._work()

    def _work(self) -> None:
        """Run calls while there are any to be taken."""
        mail, since = None, 0.0
        while (call := self._take()) is not None:
            if mail is not None and (mail is not call.mail or time.monotonic() - since >= HOLD):
                mail.ring()
                mail = None
            outcome = call.run()
            with self._lock:
                self._running.pop(call, None)
                self._kinds[call.kind] -= 1
                if not self._kinds[call.kind]:
                    del self._kinds[call.kind]
                if call.abandoned:
                    self._stuck.discard(call.key)
            call.mail.put(call, outcome)
            mail, since = call.mail, since if mail is not None else time.monotonic()
            del call, outcome  # neither may live on until the next call
        if mail is not None:
            mail.ring()

    def _called(self, bell: threading.Lock) -> bool:
        """Rest until this thread is called; return whether that was before ``idle`` was over.

        It rests first and then looks: whoever queues a call does the opposite.
        """
        self._resting.append(bell)
        if self._place() is None:
            beyond = self._threads > self.ready
            if bell.acquire(timeout=self.idle if beyond else -1):
                return True
            called = False
        else:
            called = True
        try:
            self._resting.remove(bell)
        except ValueError:  # called meanwhile
            return bell.acquire()
        return called

    def _leaves(self, clock: int) -> bool:
        """Tell whether an idle thread is one too many, and count it out."""
        with self._lock:
            self._threads -= 1
            spare = self._threads >= self.ready and not self._calls
            if spare:
                self._clocks.remove(clock)
            else:
                self._threads += 1
        return spare

    def _place(self) -> int | None:
        """Return where the first call stands whose kind has not its share of threads yet.

        The event loop may append meanwhile, without the lock: what iterates would break off.
        """
        with self._lock:
            kinds = (self._kinds[self._calls[at].kind] for at in range(len(self._calls)))
            return next((at for at, taken in enumerate(kinds) if taken < self.share), None)

    def _take(self) -> _Call | None:
        """Return that call, which is now under way."""
        with self._lock:
            place = self._place()
            if place is None:
                return None
            call = self._calls[place]
            del self._calls[place]
            call.started = time.monotonic()
            self._running[call] = None
            self._kinds[call.kind] += 1
            return call


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


def is_stuck(key: Hashable, pool: Pool | None = None) -> bool:
    """Tell whether a call with this ``key`` was given up and still runs."""
    return (pool or _POOL).stuck(key)


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
    limit, former = Limit(call.future, until, loop), _cancels()
    try:
        result: T = await call.future
    except asyncio.CancelledError:
        if not call.future.cancelled():
            call.future.exception()  # one that it raised is nobody's now
            raise
        pool.abandon(call)
        if limit.over and _cancels() == former:
            raise TimeoutError(f"no answer within {deadline:.2g} s") from None
        raise
    finally:
        limit.end()
        if not call.abandoned:
            pool.relieved(loop)
    return result


def _cancels() -> int:
    """Return how many cancellations the present task has received: its clean-up waits as well."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _former(pool: Pool, key: Hashable, until: Awake) -> None:
    """Wait until no abandoned call with this ``key`` runs any more."""
    pause = PATIENCE
    while key is not None and pool.stuck(key):
        left = until.left()
        if left <= 0:
            raise TimeoutError("an earlier call of the same kind still hangs")
        await asyncio.sleep(min(pause, left))
        pause = min(1.0, pause * 2)


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


BRIEF: Final = 0.5
"""Seconds in which one hop may look; what it has not come to then is looked at apart."""


class Call(NamedTuple, Generic[T]):
    """One blocking look; while one with an equal ``key`` hangs, it is not made again."""

    work: Callable[[], T]
    key: Hashable


class Outcome(NamedTuple, Generic[T]):
    """What a look returned, or what it raised."""

    found: T | None
    error: Exception | None = None

    @property
    def value(self) -> T:
        """What the look returned; raises what it raised, ``TimeoutError`` if it was late."""
        if self.error is not None:
            raise self.error
        return self.found  # type: ignore[return-value]  # ``T`` may be optional itself


async def offload_each(
    calls: Sequence[Call[T]], *, deadline: float, brief: float = BRIEF
) -> list[Outcome[T]]:
    """Return what each call gave, in order.

    One that hangs costs the others ``brief`` seconds, and itself ``deadline`` (s) beyond them.
    """
    found = await _in_one_hop(calls, brief) if len(calls) > 1 else {}
    rest = [at for at in range(len(calls)) if at not in found]

    async def apart(at: int) -> Outcome[T]:
        call = calls[at]
        try:
            return Outcome(await offload(call.work, deadline=deadline, key=call.key))
        except Exception as error:  # noqa: BLE001 - raised again by ``Outcome.value``
            return Outcome(None, error)

    found |= dict(zip(rest, await each(rest, apart), strict=True))
    return [found[at] for at in range(len(calls))]


async def _in_one_hop(calls: Sequence[Call[T]], brief: float) -> dict[int, Outcome[T]]:
    """Return what the calls gave that had their turn in time, by their place."""
    hop = _Hop([(at, call) for at, call in enumerate(calls) if not is_stuck(call.key)])
    try:
        await offload(hop.run, deadline=brief, key=hop)
    except TimeoutError:
        pass
    finally:
        found = hop.end()
    return found


class _Hop(Generic[T]):
    """Calls made one after the other in a thread, until somebody says that it takes too long."""

    def __init__(self, calls: Sequence[tuple[int, Call[T]]]) -> None:
        self._calls = calls
        self._found: dict[int, Outcome[T]] = {}
        self._over = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Make the calls; blocking."""
        for at, call in self._calls:
            try:
                outcome = Outcome(call.work())
            except Exception as error:  # noqa: BLE001 - raised again by ``Outcome.value``
                outcome = Outcome(None, error)
            with self._lock:
                if self._over:
                    return
                self._found[at] = outcome

    def end(self) -> dict[int, Outcome[T]]:
        """Return what was found by now; what comes later is nobody's."""
        with self._lock:
            self._over = True
            return self._found
