"""A log that is an object of a store (``s3://``, ``gs://``), measured by one request.

Whoever writes such a log puts all of it anew. Its identity stays, so that a follower goes on where
it was, and looks whether the text before still stands there; its version is another one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

from cockpit.hosts.ranges import PAGE
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import Bucket
from cockpit.runtime.http import Http
from cockpit.sources.logs.ranged import NOTHING, Opened, Ranged, Stat, Wish
from cockpit.sources.logs.remote import PAGES, TRIP, HostError, OpenFar

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
