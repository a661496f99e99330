"""Object stores: ``s3://`` and ``gs://`` buckets listed and read; ``bucket_writes`` writes them.

The client is ``obstore`` (an extra of this package, imported when the first bucket is asked). What
it does not show is asked beside it: the server's clock is the ``Date`` of a plain request. Settings
are those of the store's own tools: the variables of ``bucket_settings``.
"""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.runtime.bucket_settings import Settings, settings_of
from cockpit.runtime.bucket_trouble import BucketError, no_listing, trouble
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.offload import offload

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


class Answer(Protocol):
    """One object that is being read."""

    @property
    def meta(self) -> Meta:
        """What the client tells of it."""

    async def bytes_async(self) -> bytes:
        """Read it to its end."""


class Client(Protocol):
    """What is used of ``obstore``; its first argument is a bucket that it has opened."""

    async def list_with_delimiter_async(self, store: object, prefix: str | None) -> Meta:
        """List one level."""

    def list(
        self, store: object, prefix: str | None, *, offset: str | None = None, chunk_size: int
    ) -> AsyncIterator[Sequence[Meta]]:
        """List all that is below, in pages."""

    async def head_async(self, store: object, path: str) -> Meta:
        """Ask for one object without its bytes."""

    async def get_range_async(self, store: object, path: str, *, start: int, length: int) -> bytes:
        """Read some bytes."""

    async def get_async(self, store: object, path: str) -> Answer:
        """Begin to read one object."""

    async def put_async(
        self, store: object, path: str, file: bytes, *, mode: object, use_multipart: bool
    ) -> Meta:
        """Put one object, if ``mode`` says so only on a condition."""


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
        began = self.clock.now()
        try:
            answer = await self.http.send("HEAD", settings.url)
            told = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        except (HttpError, ValueError, TypeError, OverflowError):
            return self._skew
        if settings.region is None:
            settings.region = answer.headers.get("x-amz-bucket-region")
        found = told + 0.5 - (began + self.clock.now()) / 2
        if abs(found) < SKEWED:
            self._skew = 0.0
        elif abs(found - self._skew) >= SKEWED:
            self._skew = found
        return self._skew

    async def _asked(self, ask: Callable[[Client, object], Awaitable[T]], where: str) -> T:
        self._refuse_while_left_alone()
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
                await self._heed()
            raise found from None

    def _refuse_while_left_alone(self) -> None:
        """Refuse to look before the server wants to be asked again; who acts asks all the same."""
        left = self._left_alone_until - self.clock.monotonic()
        if left > 0 and self.polls:
            text = f"{self.scheme}://{self.name} limits requests: next"
            raise BucketError(ErrorKind.RATE_LIMITED, f"{text} in {math.ceil(left)} s")

    async def _heed(self) -> None:
        """Learn for how long: the client shows no header (``Retry-After``), one plain request does.

        A server that answers that one well names no time: then the usual back-off holds.
        """
        settings = self._settings or settings_of(self.scheme, self.name)
        try:
            await self.http.send("HEAD", settings.url)
        except HttpError as error:
            self._left_alone_until = self.clock.monotonic() + (error.retry_in or 0.0)

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
