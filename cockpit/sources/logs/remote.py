"""A log that is a file of an ssh host: measured and read in one trip, usually that of many logs.

A look brings what it will need (``Wish``) together with the file's size; what else it reads costs a
trip more, with some bytes around it. Bytes that came once are kept. Times of files are put on this
machine's clock. Blocking. ``log_at`` is the log at any place.

A log that is an object of a store (``s3://``, ``gs://``), measured by one request.

Whoever writes such a log puts all of it anew. Its identity stays, so that a follower goes on where
it was, and looks whether the text before still stands there; its version is another one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, TypeVar

from cockpit.hosts.link import Ask as Question
from cockpit.hosts.link import CallHost, NoPythonError, call_blocking, called
from cockpit.hosts.link import ask as question_of
from cockpit.hosts.ranges import PAGE, SEARCHING
from cockpit.hosts.script import script_call
from cockpit.model.clock import OtherClock, SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import SSH, Place
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import Bucket
from cockpit.runtime.http import Http
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs import pieces
from cockpit.sources.logs.pieces import (
    Answer,
    Ask,
    LaterError,
    LocalLog,
    PageCache,
    Told,
    answers,
    is_pattern,
    question,
    read_plainly,
)
from cockpit.sources.logs.ranged import NOTHING, Opened, Ranged, Span, Stat, Wish
from cockpit.sources.logs.spool import SpoolLog, is_spool

TRIP: Final = 4.0
"""Seconds for one trip within a look."""
BULK: Final = 8.0
"""Seconds for the one trip that brings the wishes of all logs of a host."""
MOST_SENT: Final = 32 << 20
"""Bytes that one trip brings at most; more wishes take another one."""
NEAR: Final = 65536
"""Bytes around those asked for that come along: at first, then more with every trip of a look."""
FARTHEST: Final = 262_144
RENAMED_EVERY: Final = 30.0
"""Seconds after which a host is asked again where the writer of a log without a name goes on."""
_COLOUR: Final = rb"(?:\x1b\[[0-9;:]*m)*"


HERE_NAME: Final = ""
"""The name of this machine among hosts, as a place has it."""


class HostError(OSError):
    """The host was not reached, or did not answer in time; ``kind`` says which."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(errno.EHOSTUNREACH, message)
        self.kind = kind


class Host:
    """A host that is asked for pieces of its files: one behind ssh, or ``HERE_NAME``.

    ``now`` is this machine's clock (epoch, s).
    """

    def __init__(
        self,
        name: str,
        call: CallHost = call_blocking,
        cache: PageCache | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.cache = PAGES if cache is None else cache
        self._call = call
        self._now = now
        self.clock = OtherClock()
        self._renamed: dict[str, tuple[float, str | None]] = {}

    @property
    def here(self) -> bool:
        """Whether it is this machine, whose functions are called in process."""
        return self.name == HERE_NAME

    def log(self, path: str, told: Answer | None = None) -> Ranged:
        """Return a file of it; one behind ssh as it was ``told`` of, if it was."""
        if self.here:
            return LocalLog(path)
        return RemoteLog(Place(SSH, self.name, path), self, told)

    def ask(
        self, asks: Sequence[Ask], deadline: float = TRIP, room: int | None = None
    ) -> list[Told]:
        """Return what is told of each file, on our clock; in one trip if it can carry that.

        Raises ``HostError`` when the host did not answer.
        """
        until, room = time.monotonic() + deadline, MOST_SENT if room is None else room
        found: list[Told] = []
        while len(found) < len(asks):
            left = max(0.5, until - time.monotonic())
            told = self._trip(asks[len(found) :], left, room)
            late = (at for at, each in enumerate(told) if isinstance(each, LaterError))
            found += told[: next(late, len(told))]
        return found

    def _trip(self, asks: Sequence[Ask], deadline: float, room: int) -> list[Told]:
        try:
            return self.look(asks, deadline, room)[0]
        except NoPythonError:
            sent = self._now()
            return self._on_our_clock(read_plainly(self.name, asks, deadline), sent)
        except RemoteError as error:
            raise HostError(error.kind, str(error)) from error

    def look(
        self, asks: Sequence[Ask], deadline: float, room: int = MOST_SENT, **more: object
    ) -> tuple[list[Told], list[Any]]:
        """Return what one trip tells of each file, on our clock, and what ``more`` was asked for.

        Raises ``RemoteError``.
        """
        sent = self._now()
        value = self.call(question(asks, room, **more), deadline)
        return self._on_our_clock(answers(asks, value), sent, value[0]), value[2:]

    def _on_our_clock(self, told: Sequence[Told], sent: float, now: float = 0.0) -> list[Told]:
        """Return answers with their files' times as our clock would have told them.

        The host's clock was read between sending and getting: only beyond that is it known to be
        off.
        """
        if self.here:
            return list(told)
        now = now or max((each.now for each in told if isinstance(each, Answer)), default=0.0)
        if now > 0.0:
            self.clock.heed(now, sent, self._now())
        return [on_our_clock(each, self.clock.ahead) for each in told]

    def renamed(self, path: str) -> str | None:
        """Return where the writer of a log goes on that has lost its name; asked now and then."""
        at, found = self._renamed.get(path, (float("-inf"), None))
        if time.monotonic() - at >= RENAMED_EVERY:
            real, written = self.asked("its open files", TRIP, "written", path=path)
            found = pieces.goes_on_in(real, written)
            self._renamed[path] = time.monotonic(), found
        return found

    def asked(self, what: str, deadline: float, call: str, **arguments: object) -> Any:  # noqa: ANN401
        """Return what a function of the agent tells; raises ``OSError``."""
        try:
            return self.call(question_of(what, call, **arguments), deadline)
        except RemoteError as error:
            raise HostError(error.kind, str(error)) from error

    def call(self, each: Question, deadline: float) -> Any:  # noqa: ANN401 - as the agent's
        """Return the agent's answer; raises ``RemoteError`` and ``OSError``."""
        return called(each) if self.here else self._call(self.name, each, deadline)

    def script(self, script: str, deadline: float, cap: int) -> bytes:
        """Return what a script prints; raises ``HostError``."""
        try:
            done = script_call(self.name, script, deadline=deadline, cap=cap, call=self._call)
        except RemoteError as error:
            raise HostError(error.kind, str(error)) from error
        return done.out


def on_our_clock(told: Told, off: float) -> Told:
    """Return an answer with its file's times on our clock; its host's is ``off`` (s) from that."""
    if isinstance(told, OSError) or told.now <= 0.0 or not off:
        return told
    beside = tuple(each._replace(mtime=each.mtime - off) for each in told.beside)
    return told._replace(mtime=told.mtime - off, beside=beside)


class RemoteLog(Ranged):
    """A file of an ssh host, or the newest of those that a pattern matches there.

    ``answer`` is what a trip for many logs has brought for the next look.
    """

    far = True

    def __init__(self, place: Place, host: Host, answer: Told | None = None) -> None:
        self.place = place
        self._host = host
        self._answer = answer
        self._beside: tuple[str, tuple[Answer, ...]] | None = None

    def ask(self, wish: Wish, own: Ranged | None = None) -> Ask:
        """Return what to ask for on the way, for a look at the log ``own`` that was found last."""
        found = "" if own is None or own.place == self.place else own.place.path
        return Ask(self.place.path, wish, found)

    def asking(self, wish: Wish) -> Ask:
        """Return what opening it with a wish asks for: who has that may open it ``answered``."""
        return Ask(self.place.path, wish, beside=self._start(wish.beside) if wish.beside else "")

    def answered(self, told: Told) -> RemoteLog:
        """Return the log with what was told of it."""
        return RemoteLog(self.place, self._host, told)

    def newest(self) -> RemoteLog:
        """Return the newest file that its name, perhaps a pattern, matches there."""
        if not is_pattern(self.place.path):
            return self
        told = self._answer or self._host.ask([Ask(self.place.path)])[0]
        if isinstance(told, OSError):
            raise told
        return RemoteLog(self._at(told.path), self._host, told)

    def beside(self, prefix: str) -> list[tuple[Ranged, Stat]]:
        """Return the files of its folder whose names begin so."""
        start = self._start(prefix)
        known, self._beside = self._beside, None
        if known is None or known[0] != prefix:
            told = self._host.ask([Ask(self.place.path, beside=start)])[0]
            if isinstance(told, OSError):
                raise told
            known = prefix, told.beside
        return [(RemoteLog(self._at(each.path), self._host), stat_of(each)) for each in known[1]]

    @contextmanager
    def open(self, wish: Wish = NOTHING) -> Iterator[Opened]:
        """Look at it, in one trip; in none if one for many logs has just brought what it needs."""
        told, self._answer = self._answer, None
        if told is None:
            told = self._host.ask([self.asking(wish)])[0]
        if wish.beside and isinstance(told, Answer):
            self._beside = wish.beside, told.beside
        if isinstance(told, OSError):
            raise told
        yield _OpenRemote(self._host, told)

    def renamed(self) -> RemoteLog | None:
        """Return where its writer goes on, by the open files that can be seen on its host."""
        if is_pattern(self.place.path):
            return None
        found = self._host.renamed(self.place.path)
        return None if found is None else RemoteLog(self._at(found), self._host)

    def _start(self, prefix: str) -> str:
        return str(PurePosixPath(self.place.path).parent / prefix)

    def _at(self, path: str) -> Place:
        return Place(self.place.scheme, self.place.host, path)


class OpenFar(Opened):
    """One look at a log elsewhere: what is read costs a trip, so some bytes around it come along.

    ``key`` names the text in ``cache``, which looks to come have, too.
    """

    def __init__(self, stat: Stat, key: Hashable, cache: PageCache) -> None:
        self.stat = stat
        self._key = key
        self._caches = (PageCache(most=_OWN, altogether=_OWN), cache)
        self._near = NEAR
        cache.seen(key, stat.size)

    @abstractmethod
    def fetch(self, begin: int, end: int) -> tuple[int, Iterable[tuple[int, bytes]]]:
        """Return the log's size now, and the pages that hold the bytes ``[begin, end)`` of it."""

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer if the file has become shorter."""
        end = min(end, self.stat.size)
        data, at = self._known(start, end)
        if at < end:
            first = max(0, at - self._near)
            size, pieces = self.fetch(first - first % NEAR, end + self._near)
            self._near = min(2 * self._near, FARTHEST)
            self.keep(pieces)
            data, at = self._known(start, end)
            if at < end <= size:
                raise OSError(errno.EIO, "its bytes could not be read")
        return data

    def _known(self, start: int, end: int) -> tuple[bytes, int]:
        """Return what is known from ``start`` on; of this look first, then of looks before."""
        parts, at, before = [], start, -1
        while before < at < end:
            before = at
            for pages in self._caches:
                data, at = pages.get(self._key, at, end)
                parts.append(data)
        return b"".join(parts), at

    def keep(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Keep pages for this look, and for looks to come."""
        for start, data in pieces:
            for pages in self._caches:
                pages.put(self._key, start, data)


class _OpenRemote(OpenFar):
    def __init__(self, host: Host, told: Answer) -> None:
        super().__init__(stat_of(told), (host.name, told.path, told.identity), host.cache)
        self._host, self._path = host, told.path
        self.keep(told.pieces)

    def fetch(self, begin: int, end: int) -> tuple[int, Iterable[tuple[int, bytes]]]:
        """Return the file's size now, and the pages that hold the bytes ``[begin, end)``."""
        told = self._host.ask([Ask(self._path, Wish((Span(begin, end, to=NEAR),)))])[0]
        if isinstance(told, OSError):
            raise told
        if told.identity != self.stat.identity:
            raise OSError(errno.ESTALE, "the log was replaced while it was read")
        return told.size, told.pieces

    def breaks_before(self, end: int) -> int:
        """Return how many line breaks stand before offset ``end``, counted where the log lies."""
        found: int = self._asked("breaks_before", end=end) if end > 0 else 0
        return found

    def after_breaks(self, breaks: int) -> int | None:
        """Return the offset behind so many line breaks; ``None`` if there are fewer."""
        if breaks <= 0:
            return 0
        at: int | None = self._asked("after_breaks", breaks=breaks)
        return at if at is not None and at <= self.stat.size else None

    def find_there(
        self, raw: bytes, ignore_case: bool, begin: int, end: int, back: bool
    ) -> int | None:
        """Return where a text first (``back``: last) stands in ``[begin, end)``."""
        letters = (re.escape(raw[at : at + 1]) for at in range(len(raw)))
        found: int | None = self._asked(
            "find", expression=_COLOUR.join(letters).decode("latin-1"), ignore_case=ignore_case,
            begin=begin, end=end, back=back,
        )  # fmt: skip
        return found

    def _asked(self, call: str, **arguments: object) -> Any:  # noqa: ANN401 - as the agent's
        within = SEARCHING + 2.0
        return self._host.asked("its log", within, call, path=self._path, **arguments)


def keep(host: Host, told: Answer) -> None:
    """Keep the bytes that came with an answer for all who read the file."""
    key = (host.name, told.path, told.identity)
    host.cache.seen(key, told.size)
    for start, data in told.pieces:
        host.cache.put(key, start, data)


def stat_of(told: Answer) -> Stat:
    """Return what a host says of a file."""
    return Stat(told.size, told.mtime, told.identity, told.version)


_OWN: Final = 32 << 20
PAGES: Final = PageCache()
"""What is kept of all logs elsewhere."""


def remote_log(place: Place) -> RemoteLog:
    """Return the log at an ssh place."""
    return RemoteLog(place, host_named(place.host))


def host_named(
    name: str, call: CallHost = call_blocking, now: Callable[[], float] = time.time
) -> Host:
    """Return the one ``Host`` of a name, for all of the program that reach it the usual way."""
    if call is not call_blocking:
        return Host(name, call, now=now)
    return _HOSTS.setdefault(name, Host(name))


_HOSTS: Final[dict[str, Host]] = {}


BUCKETS: Final = ("s3", "gs")
MATCHED_EVERY: Final = 30.0
"""Seconds after which a host is asked again which files a pattern matches."""


class HostAsk(NamedTuple):
    """What is wanted of a file, and the host that has it."""

    host: str
    ask: Ask


class Hosts:
    """The hosts that logs lie on, each asked once for all of them."""

    def __init__(self, call: CallHost) -> None:
        self._call = call
        self._hosts: dict[str, Host] = {}
        self._matched: dict[Place, tuple[float, Sequence[Answer]]] = {}
        """What each pattern matched, and when that was asked (monotonic)."""

    def log(self, place: Place) -> RemoteLog:
        """Return the log at an ssh place."""
        return RemoteLog(place, self._host(place.host))

    def _host(self, name: str) -> Host:
        if name not in self._hosts:
            self._hosts[name] = host_named(name, self._call)
        return self._hosts[name]

    async def bring(self, asks: Mapping[str, HostAsk]) -> dict[str, Told]:
        """Return what is told of each file, by the names of ``asks``; never raises."""
        groups: dict[str, dict[str, Ask]] = {}
        for name, (host, ask) in asks.items():
            groups.setdefault(host, {})[name] = ask
        answers = await asyncio.gather(*(self._trip(host, own) for host, own in groups.items()))
        return {name: told for answer in answers for name, told in answer.items()}

    async def matching(self, patterns: Iterable[Place]) -> dict[Place, Sequence[Answer]]:
        """Return the files that patterns match on their hosts, as measured; never raises.

        A host is asked anew every ``MATCHED_EVERY`` s. Without an answer the former one stands.
        """
        wanted = list(dict.fromkeys(patterns))
        now = time.monotonic()
        due = {
            str(place): HostAsk(place.host, Ask(place.path, every=True))
            for place in wanted
            if now - self._matched.get(place, (float("-inf"), ()))[0] >= MATCHED_EVERY
        }
        told = await self.bring(due)
        for place in wanted:
            found = told.get(str(place))
            if isinstance(found, Answer):
                self._matched[place] = now, found.beside
            elif isinstance(found, FileNotFoundError):
                self._matched[place] = now, ()
        return {place: self._matched[place][1] for place in wanted if place in self._matched}

    async def _trip(self, name: str, asks: Mapping[str, Ask]) -> dict[str, Told]:
        host, wanted = self._host(name), list(asks.values())
        try:
            found = await offload(host.ask, wanted, BULK, deadline=BULK + 1.0, key=host)
        except HostError as error:
            return dict.fromkeys(asks, error)
        except TimeoutError as error:
            return dict.fromkeys(asks, HostError(ErrorKind.TIMEOUT, f"{name}: {error}"))
        return dict(zip(asks, found, strict=True))


def log_at(place: Place) -> Ranged:
    """Return the log at a place; raises ``OSError`` for one that cannot be read by this version."""
    if is_spool(place):
        return SpoolLog(place)
    if place.here:
        return LocalLog(place.path)
    if place.scheme == SSH:
        return remote_log(place)
    if place.scheme in BUCKETS:
        return StoredLog(place)
    raise OSError(0, f"logs at {place.endpoint} are not read yet by this version")


T = TypeVar("T")
IDENTITY: Final = (0, 1)
"""That of every object: one that is put anew is the same log."""


class StoredLog(Ranged):
    """An object of a bucket as a log."""

    far = True

    def __init__(self, place: Place) -> None:
        self.place = place

    @contextmanager
    def open(self, wish: Wish = NOTHING) -> Iterator[Opened]:
        """Look at it, by one request."""
        bucket, path = _bucket(self.place.scheme, self.place.host), self.place.path

        async def measured() -> tuple[Stat, str]:
            skew, key = await bucket.skew(), await bucket.key(path)
            return Stat(key.size, key.at - skew, IDENTITY, key.tag), key.tag

        try:
            stat, tag = _waited(measured(), str(self.place))
        except HostError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                raise FileNotFoundError(errno.ENOENT, "no such object", self.path) from error
            raise
        yield _OpenObject(bucket, self.place, stat, tag)


class _OpenObject(OpenFar):
    def __init__(self, bucket: Bucket, place: Place, stat: Stat, tag: str) -> None:
        super().__init__(stat, (place, tag), PAGES)
        self._bucket, self._place = bucket, place

    def fetch(self, begin: int, end: int) -> tuple[int, Iterable[tuple[int, bytes]]]:
        """Return its size when the look began, and the pages that hold the bytes."""
        end = min(self.stat.size, -(-end // PAGE) * PAGE)
        read = self._bucket.read(self._place.path, begin, end - begin)
        return self.stat.size, [(begin, _waited(read, str(self._place)))]


def _waited(asked: Coroutine[Any, Any, T], where: str) -> T:
    """Return an answer; raises ``HostError``."""
    future: Future[T] = asyncio.run_coroutine_threadsafe(asked, _loop())
    try:
        return future.result(TRIP)
    except TimeoutError as error:
        future.cancel()
        raise HostError(ErrorKind.TIMEOUT, f"{where}: no answer within {TRIP:g} s") from error
    except BucketError as error:
        raise HostError(error.kind, str(error)) from error


@cache
def _bucket(scheme: str, name: str) -> Bucket:
    clock = SystemClock()
    return Bucket(scheme, name, clock, Http(clock, deadline=TRIP / 2))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop that asks stores for the threads which read logs."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="stores", daemon=True).start()
    return loop


def _forget() -> None:
    """Forget, in a process that was forked, the loop whose thread is its parent's."""
    _loop.cache_clear()
    _bucket.cache_clear()


os.register_at_fork(after_in_child=_forget)
