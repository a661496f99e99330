"""Small objects of a bucket put there by compare-and-swap; nothing is ever deleted.

``s3://`` takes ``If-None-Match: *`` and ``If-Match`` with the etag that was read, ``gs://``
``x-goog-if-generation-match`` with the generation (0: there must be none).
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from cockpit.model.facet import ErrorKind
from cockpit.runtime.bucket_trouble import BucketError
from cockpit.runtime.buckets import Bucket, Client, Meta

T = TypeVar("T")

DEADLINE: Final = 20.0
"""Seconds for one request with all that the client does around it (credentials, a second try)."""
_RIGHTS: Final = {"s3": "s3:PutObject", "gs": "storage.objects.create and .delete (to overwrite)"}


class Whole(NamedTuple):
    """An object read in full; ``tag`` tells this content of it from every other."""

    data: bytes
    tag: str


@dataclass(eq=False)
class WritableBucket(Bucket):
    """One bucket whose small objects are replaced. Raises ``BucketError`` and nothing else."""

    async def whole(self, path: str, most: int) -> Whole | None:
        """Return an object as it is now, ``None`` if it is not there; ``most``: bytes."""

        async def ask(client: Client, store: object) -> Whole:
            found = await client.get_async(store, path)
            meta = found.meta
            if meta["size"] > most:
                text = (
                    f"{self.scheme}://{self.name}/{path} has {meta['size']} bytes: it is not ours"
                )
                raise BucketError(ErrorKind.BAD_ANSWER, text, whole=False)
            return Whole(bytes(await found.bytes_async()), _tag(meta))

        try:
            return await self._within(self._asked(ask, path))
        except BucketError as error:
            if error.kind is ErrorKind.NOT_FOUND and not error.whole:
                return None
            raise

    async def put(self, path: str, data: bytes, over: str) -> bool:
        """Put an object in the place of ``over`` (empty: of none); False if it is not that.

        False is an answer only if nothing was lost before: a second try meets the first one.
        Raises ``BucketError`` where it is refused, or where it is not known what became of it.
        """
        mode: object = "create" if not over else json.loads(over)

        async def ask(client: Client, store: object) -> bool:
            errors = importlib.import_module("obstore.exceptions")
            held = errors.AlreadyExistsError, errors.PreconditionError, errors.NotModifiedError
            try:
                await client.put_async(store, path, data, mode=mode, use_multipart=False)
            except held:
                return False
            except errors.PermissionDeniedError:
                raise self._forbidden(path) from None
            return True

        try:
            return await self._within(self._asked(ask, path))
        except BucketError as error:
            if over and error.kind is ErrorKind.NOT_FOUND and not error.whole:
                return False  # what was to be replaced is gone: S3 says so in this way
            raise

    def _forbidden(self, path: str) -> BucketError:
        text = f"{self.scheme}://{self.name}/{path} may not be written with these credentials"
        text += f" (access denied): grant {_RIGHTS[self.scheme]}"
        return BucketError(ErrorKind.FORBIDDEN, text, whole=False)

    async def _within(self, asking: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(DEADLINE):
                return await asking
        except TimeoutError:
            text = f"{self.scheme}://{self.name}: no answer within {DEADLINE:g} s"
            raise BucketError(ErrorKind.TIMEOUT, text) from None


def _tag(meta: Meta) -> str:
    known = {name: meta[name] for name in ("e_tag", "version") if meta[name]}
    return json.dumps(known, sort_keys=True)
