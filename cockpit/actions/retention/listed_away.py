"""Every file below a folder in a bucket or on a host, with its bytes: what a copy must hold."""

from __future__ import annotations

import asyncio
from typing import Final

from cockpit.actions.core.parameters import safe
from cockpit.actions.retention.pulled import OWN, Tree
from cockpit.model.clock import Clock
from cockpit.model.place import Place
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BUCKETS, Bucket, Key
from cockpit.runtime.http import Http
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.source import CLOCK_WITHIN

MOST: Final = 2_000_000
"""Objects of one root at most."""
WITHIN: Final = 110.0


class NotListedError(Exception):
    """It could not be listed to its end; the text is one line."""


async def listed(root: Place, clock: Clock) -> Tree:
    """Return the files below a root, but for our own notes; raises ``NotListedError``."""
    try:
        files = await (_bucket(root, clock) if root.scheme in BUCKETS else _host(root))
    except (BucketError, ListingError, TimeoutError) as error:
        raise NotListedError(f"{root} cannot be listed: {safe(error)}") from error
    own = {name: size for name, size in files.items() if OWN not in name.split("/")[:-1]}
    return Tree(files=own)


async def _bucket(root: Place, clock: Clock) -> dict[str, int]:
    bucket = Bucket(root.scheme, root.host, clock, Http(clock, deadline=CLOCK_WITHIN))
    prefix = root.path.strip("/")
    keys: list[Key] = []
    async with asyncio.timeout(WITHIN):
        if not await bucket.keys(prefix, MOST, keys):
            raise NotListedError(f"{root} holds more than {MOST:,} objects")
        if not keys:
            await bucket.see_nothing(prefix)
    cut = len(prefix) + 1 if prefix else 0
    return {key.path[cut:]: key.size for key in keys if key.path != prefix}


async def _host(root: Place) -> dict[str, int]:
    until = asyncio.get_running_loop().time() + WITHIN
    path = root.path.rstrip("/")
    found = (await HostTree(root.host).fetch([], [path], until)).walk(path)
    if isinstance(found, ListingError):
        raise found
    if found is None:
        raise NotListedError(f"{root} was not listed to its end in time")
    return {entry.path: entry.size for entry in found}
