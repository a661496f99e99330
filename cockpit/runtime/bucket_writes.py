"""Objects put and taken away by compare-and-swap: nothing that someone else wrote is overwritten.

A request whose answer was lost is read back by who asked; what is not known stays a
``BucketError`` with its kind. Deleting needs a right of its own, which many buckets do not give.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar, cast

from cockpit.model.facet import ErrorKind
from cockpit.runtime.bucket_trouble import BucketError
from cockpit.runtime.buckets import Bucket
from cockpit.text.safe import clean

T = TypeVar("T")
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
    """Return what ``Held.word`` told of an object; of none (an empty word) ``None``."""
    return Held(b"", *json.loads(word)) if word else None


class _Got(Protocol):
    meta: Mapping[str, Any]

    async def bytes_async(self) -> bytes: ...


class _Writing(Protocol):
    """What is used of ``obstore`` beside what reading uses."""

    async def get_async(self, store: object, path: str) -> _Got: ...

    async def head_async(self, store: object, path: str) -> Mapping[str, Any]: ...

    async def put_async(
        self, store: object, path: str, file: bytes, *, mode: object, use_multipart: bool
    ) -> Mapping[str, Any]: ...

    async def delete_async(self, store: object, paths: Sequence[str]) -> None: ...


class WritableBucket(Bucket):
    """A bucket that is written too. Every method raises ``BucketError`` and nothing else."""

    polls: ClassVar[bool] = False

    async def get(self, path: str, most: int) -> Held | None:
        """Return an object, ``None`` if there is none; one of more than ``most`` bytes raises."""

        async def ask(client: _Writing, store: object) -> Held:
            found = await client.get_async(store, path)
            if found.meta["size"] > most:
                text = f"{self._at(path)} has {found.meta['size']:,} bytes: too many to hold"
                raise BucketError(ErrorKind.BAD_ANSWER, clean(text, _LIMIT), whole=False)
            data = bytes(await found.bytes_async())
            return Held(data, found.meta["e_tag"], found.meta["version"])

        return await self._if_there(ask, path)

    async def head(self, path: str) -> Held | None:
        """Return what tells an object from others, without its bytes; ``None`` if there is none."""

        async def ask(client: _Writing, store: object) -> Held:
            found = await client.head_async(store, path)
            return Held(b"", found["e_tag"], found["version"])

        return await self._if_there(ask, path)

    async def _if_there(
        self, ask: Callable[[_Writing, object], Awaitable[Held]], path: str
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
        mode = {name: told for name, told in held.items() if told is not None} or "create"

        async def ask(client: _Writing, store: object) -> bool:
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

            async def ask(client: _Writing, store: object, batch: Sequence[str] = batch) -> None:
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
        self, ask: Callable[[_Writing, object], Awaitable[T]], where: str, what: str
    ) -> T:
        async def asked(client: object, store: object) -> T:
            known = importlib.import_module("obstore.exceptions")
            try:
                return await ask(cast(_Writing, client), store)
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
