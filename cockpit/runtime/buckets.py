"""Lists, reads and writes objects of ``s3://`` and ``gs://`` buckets.

The client is ``obstore``, an extra of this package that is imported with the first request. The
server's clock is the ``Date`` of a plain request, which obstore does not show.

An object is written or deleted by compare-and-swap, so that nothing another writer put there is
lost. If the answer to a write was lost, the caller reads the object to find out what happened.
Deleting needs a right of its own, which many buckets do not give.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from cockpit.model.clock import Clock, machine_time
from cockpit.model.facet import ErrorKind
from cockpit.runtime.bucket_client import BucketError, Settings, no_listing, settings_of, trouble
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.offload import offload
from cockpit.text.safe import clean

T = TypeVar("T")

TIMEOUT: Final = 8.0
"""Seconds within which one request must be answered in full."""
CONNECT: Final = 4.0
RETRIES: Final = 2
AGAIN_WITHIN: Final = 6.0
"""Seconds after the first attempt beyond which none is made: a hang costs one request."""
OPENING: Final = 10.0
PAGE: Final = 1000
"""Keys in one page of a listing: what the stores themselves give at most."""
CLOCK_EVERY: Final = 600.0
"""Seconds for which what is known of the server's clock holds."""
SKEWED: Final = 5.0
"""Seconds from which on two clocks disagree: a ``Date`` is exact to one, and takes its way."""
BUCKETS: Final = ("s3", "gs")
"""The schemes of places that are buckets."""
NOBODYS: Final = ".cockpit/nobodys-key"
EXTRA: Final = "pip install 'run-cockpit[stores]'"


class Key(NamedTuple):
    """One object: bytes, last change (epoch seconds by the server's clock) and its etag."""

    path: str
    size: int
    at: float
    tag: str


class Level(NamedTuple):
    """What lies directly under a prefix: objects, and the prefixes below it (no slash behind)."""

    keys: tuple[Key, ...]
    prefixes: tuple[str, ...]


Meta = Mapping[str, Any]
"""What the client tells of one object: path, size, last_modified, e_tag, version."""


Client = Any
"""The module ``obstore``; the first argument of its functions is a bucket that it has opened."""


class _Opened(NamedTuple):
    client: Client
    store: object


@dataclass(eq=False)
class Bucket:
    """One bucket. Every method raises ``BucketError`` and nothing else."""

    polls: ClassVar[bool] = True
    """Whether it only looks, now and then: what can wait until the server wants to be asked."""
    scheme: str
    name: str
    clock: Clock
    http: Http
    _opened: _Opened | None = None
    _settings: Settings | None = None
    _skew: float = 0.0
    _asked_clock: float = float("-inf")
    _left_alone_until: float = float("-inf")
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def level(self, prefix: str) -> Level:
        """Return what lies directly under a prefix (delimiter listing, all pages)."""

        async def ask(client: Client, store: object) -> Level:
            found = await client.list_with_delimiter_async(store, prefix or None)
            return Level(tuple(map(_key, found["objects"])), tuple(found["common_prefixes"]))

        return await self._asked(ask, prefix)

    async def keys(self, prefix: str, most: int, into: list[Key], after: str | None = None) -> bool:
        """List the objects below a prefix, and tell whether these are all: ``most`` are enough.

        They are added to ``into`` page by page: what has come of a listing that is given up stays.
        ``after``: only keys that sort after this one.
        """

        async def ask(client: Client, store: object) -> bool:
            async for page in client.list(store, prefix or None, offset=after, chunk_size=PAGE):
                into.extend(map(_key, page))
                if len(into) > most:
                    return False
            return True

        return await self._asked(ask, prefix)

    async def read(self, path: str, start: int, length: int) -> bytes:
        """Return bytes of an object; ``length`` must lie within it."""

        async def ask(client: Client, store: object) -> bytes:
            return bytes(await client.get_range_async(store, path, start=start, length=length))

        return b"" if length <= 0 else await self._asked(ask, path)

    async def key(self, path: str) -> Key:
        """Return what one object is now."""

        async def ask(client: Client, store: object) -> Key:
            return _key(await client.head_async(store, path))

        return await self._asked(ask, path)

    async def see_nothing(self, prefix: str) -> None:
        """Make sure that a listing without any key is one: to the client a web page looks so too.

        A store says of a key that nobody has made that it is not there; whatever else answers
        does not. Raises ``BucketError`` for that.
        """

        async def ask(client: Client, store: object) -> bool:
            try:
                await client.head_async(store, f"{prefix}/{NOBODYS}".lstrip("/"))
            except FileNotFoundError:
                return True
            return False

        if not await self._asked(ask, prefix):
            raise no_listing(f"{self.scheme}://{self.name}")

    async def skew(self) -> float:
        """Return by how many seconds the server's clock is ahead of ours; 0.0 if that is little.

        It is asked now and then. What does not tell is taken to agree.
        """
        from email.utils import parsedate_to_datetime  # few runs lie in buckets

        now = self.clock.monotonic()
        if now - self._asked_clock < CLOCK_EVERY:
            return self._skew
        self._asked_clock = now
        settings = self._settings or settings_of(self.scheme, self.name)
        began = machine_time(self.clock)
        try:
            answer = await self.http.send("HEAD", settings.url)
            theirs = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        except (HttpError, ValueError, TypeError, OverflowError):
            return self._skew
        if settings.region is None:
            settings.region = answer.headers.get("x-amz-bucket-region")
        found = theirs + 0.5 - (began + machine_time(self.clock)) / 2
        if abs(found) < SKEWED:
            self._skew = 0.0
        elif abs(found - self._skew) >= SKEWED:
            self._skew = found
        return self._skew

    async def _asked(self, ask: Callable[[Client, object], Awaitable[T]], where: str) -> T:
        # Before the server wants to be asked again only who acts asks.
        left = self._left_alone_until - self.clock.monotonic()
        if left > 0 and self.polls:
            text = f"{self.scheme}://{self.name} limits requests: next"
            raise BucketError(ErrorKind.RATE_LIMITED, f"{text} in {math.ceil(left)} s")
        try:
            opened = await self._open()
            return await ask(opened.client, opened.store)
        except asyncio.CancelledError:
            raise
        except BucketError:
            raise
        except Exception as error:  # noqa: BLE001 - the client's errors have no common base
            found = trouble(f"{self.scheme}://{self.name}", where, error)
            if found.kind in (ErrorKind.UNAUTHORIZED, ErrorKind.FORBIDDEN):
                self._opened = None  # new credentials are heeded without a restart
            if found.kind is ErrorKind.RATE_LIMITED:
                # For how long: the client shows no header (``Retry-After``), one plain request
                # does. A server that answers that one well names no time: then the usual
                # back-off holds.
                settings = self._settings or settings_of(self.scheme, self.name)
                try:
                    await self.http.send("HEAD", settings.url)
                except HttpError as error:
                    self._left_alone_until = self.clock.monotonic() + (error.retry_in or 0.0)
            raise found from None

    async def _open(self) -> _Opened:
        """Return the bucket as the client has it, with the credentials as they are now."""
        async with self._opening:
            if self._opened is None:
                self._settings = self._settings or settings_of(self.scheme, self.name)
                if self._settings.asks_region:
                    await self.skew()
                make = self._settings, self.scheme, self.name
                self._opened = await offload(_opened, *make, deadline=OPENING, key=object())
            return self._opened


def _opened(settings: Settings, scheme: str, name: str) -> _Opened:
    """Let the client open a bucket; blocking (certificates, files with credentials)."""
    try:
        client = importlib.import_module("obstore")
        stores = importlib.import_module("obstore.store")
    except ImportError:
        text = f"{scheme}:// needs the package obstore, which is not installed: {EXTRA}"
        raise BucketError(ErrorKind.UNSUPPORTED, text) from None
    make = stores.S3Store if scheme == "s3" or settings.by_s3 else stores.GCSStore
    seconds = {"timeout": timedelta(seconds=TIMEOUT), "connect_timeout": f"{CONNECT:g}s"}
    options = {**seconds, "allow_http": True} if settings.plain else seconds
    backoff = {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    }
    retry = {
        "max_retries": RETRIES,
        "retry_timeout": timedelta(seconds=AGAIN_WITHIN),
        "backoff": backoff,
    }
    store = make(name, client_options=options, retry_config=retry, **settings.options())
    return _Opened(client, store)


def _key(found: Meta) -> Key:
    tag = found["e_tag"] or found["version"] or ""
    at = found["last_modified"].timestamp()
    return Key(found["path"], found["size"], at, f"{tag} {found['size']} {at}")


DEADLINE: Final = 20.0
"""Seconds for one request with all that the client does around it (credentials, a second try)."""
BATCH: Final = 500
"""Keys that are deleted by one request at most, where the store takes several."""
_LIMIT: Final = 600
_READ: Final = 8192
_LOST: Final = (ErrorKind.TIMEOUT, ErrorKind.REFUSED)
_RIGHTS: Final = {
    "write": {"s3": "s3:PutObject", "gs": "storage.objects.create and .update"},
    "delete": {"s3": "s3:DeleteObject", "gs": "storage.objects.delete"},
}


class Held(NamedTuple):
    """One object as it was read: its bytes, and what tells it from any other of that key."""

    data: bytes
    tag: str | None
    version: str | None

    @property
    def word(self) -> str:
        """What tells it from every other object of its key, as one word to keep (``known_by``)."""
        return json.dumps([self.tag, self.version])

    def same(self, other: Held) -> bool:
        """Tell whether two readings are of the very same object."""
        if self.version is not None and other.version is not None:
            return self.version == other.version
        return (self.tag, self.data) == (other.tag, other.data)


def known_by(word: str) -> Held | None:
    """Return the object that ``Held.word`` describes; ``None`` for an empty word."""
    return Held(b"", *json.loads(word)) if word else None


class WritableBucket(Bucket):
    """A bucket that is written too. Every method raises ``BucketError`` and nothing else."""

    polls: ClassVar[bool] = False

    async def get(self, path: str, most: int) -> Held | None:
        """Return an object, ``None`` if there is none; one of more than ``most`` bytes raises."""

        async def ask(client: Client, store: object) -> Held:
            found = await client.get_async(store, path)
            if found.meta["size"] > most:
                text = f"{self._at(path)} has {found.meta['size']:,} bytes: too many to hold"
                raise BucketError(ErrorKind.BAD_ANSWER, clean(text, _LIMIT), whole=False)
            data = bytes(await found.bytes_async())
            return Held(data, found.meta["e_tag"], found.meta["version"])

        return await self._if_there(ask, path)

    async def head(self, path: str) -> Held | None:
        """Return what tells an object from others, without its bytes; ``None`` if there is none."""

        async def ask(client: Client, store: object) -> Held:
            found = await client.head_async(store, path)
            return Held(b"", found["e_tag"], found["version"])

        return await self._if_there(ask, path)

    async def _if_there(
        self, ask: Callable[[Client, object], Awaitable[Held]], path: str
    ) -> Held | None:
        """Return what is there; that there is no such bucket says nothing of its objects."""
        try:
            return await self._written(ask, path, "write")
        except BucketError as error:
            if error.kind is ErrorKind.NOT_FOUND and not error.whole:
                return None
            raise

    async def put_new(self, path: str, data: bytes) -> bool:
        """Put an object where none is; ``False`` if another one is there."""
        return await self._put(path, data, None)

    async def replace(self, path: str, data: bytes, was: Held) -> bool:
        """Put an object in the place of the one that was read; ``False`` if it is another one."""
        return await self._put(path, data, was)

    async def swap(self, path: str, data: bytes, was: Held | None) -> bool:
        """Put an object in the place of ``was`` (``None``: of none); ``False`` if it is not that.

        False is an answer only if nothing was lost before: a second try meets the first one.
        Raises where it is refused, or where it is not known what became of it.
        """
        held = {} if was is None else {"e_tag": was.tag, "version": was.version}
        mode = {name: value for name, value in held.items() if value is not None} or "create"

        async def ask(client: Client, store: object) -> bool:
            errors = importlib.import_module("obstore.exceptions")
            other = errors.AlreadyExistsError, errors.PreconditionError, errors.NotModifiedError
            try:
                await client.put_async(store, path, data, mode=mode, use_multipart=False)
            except other:
                return False
            return True

        try:
            return await self._written(ask, path, "write")
        except BucketError as error:
            if was is not None and error.kind is ErrorKind.NOT_FOUND and not error.whole:
                return False  # what was to be replaced is gone: S3 says so in this way
            raise

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; one that is not there is no error."""
        for at in range(0, len(paths), BATCH):
            batch = paths[at : at + BATCH]

            async def ask(client: Client, store: object, batch: Sequence[str] = batch) -> None:
                with suppress(FileNotFoundError):
                    await client.delete_async(store, list(batch))

            await self._written(ask, batch[0], "delete")

    async def take_away(self, path: str, was: Held, instead: bytes) -> bool:
        """Delete the object that was read, and no other; ``False`` if it is another one.

        Stores delete whatever is there, so ``instead`` takes its place first, by compare-and-swap.
        Where deleting is refused what was there is put back, and the refusal raised.
        """
        if not await self.replace(path, instead, was):
            return False
        return await self.delete_own(path, instead, was.data)

    async def delete_own(self, path: str, own: bytes, back: bytes | None = None) -> bool:
        """Delete what we have put there ourselves; ``False`` if something else is there now."""
        now = await self.get(path, max(len(own), 1 << 24))
        if now is None:
            return True
        if now.data != own:
            return False
        try:
            await self.delete([path])
        except BucketError as error:
            if error.kind is ErrorKind.FORBIDDEN and back is not None:
                await self.replace(path, back, now)
            raise
        return True

    async def _put(self, path: str, data: bytes, was: Held | None) -> bool:
        """Put by compare-and-swap; a lost answer, and a refusal of our own, are read back."""
        try:
            if await self.swap(path, data, was):
                return True
        except BucketError as error:
            if error.kind not in _LOST:
                raise
            with suppress(BucketError):
                if await self._holds(path, data):
                    return True
            raise
        return await self._holds(path, data)

    async def _holds(self, path: str, data: bytes) -> bool:
        now = await self.get(path, max(len(data), 1 << 24))
        return now is not None and now.data == data

    async def _written(
        self, ask: Callable[[Client, object], Awaitable[T]], where: str, what: str
    ) -> T:
        async def asked(client: Client, store: object) -> T:
            known = importlib.import_module("obstore.exceptions")
            try:
                return await ask(client, store)
            except known.PermissionDeniedError as error:
                raise self._denied(where, what) from error
            except known.GenericError as error:  # of a request for many keys
                if "code: AccessDenied" not in str(error)[:_READ]:
                    raise
                raise self._denied(where, what) from error

        try:
            async with asyncio.timeout(DEADLINE):
                return await self._asked(asked, where)
        except TimeoutError:
            text = f"{self.scheme}://{self.name}: no answer within {DEADLINE:g} s"
            raise BucketError(ErrorKind.TIMEOUT, text) from None

    def _denied(self, where: str, what: str) -> BucketError:
        verb = {"write": "written", "delete": "deleted"}[what]
        text = f"{self._at(where)} may not be {verb} with these credentials: grant "
        text += _RIGHTS[what].get(self.scheme, "the right to do so")
        return BucketError(ErrorKind.FORBIDDEN, clean(text, _LIMIT), whole=False)

    def _at(self, path: str) -> str:
        return f"{self.scheme}://{self.name}/{path}"
