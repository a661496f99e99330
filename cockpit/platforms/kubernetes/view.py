"""What a namespace holds: a list of each kind, then only what the server says has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import RunSpec
from cockpit.platforms.kubernetes.api import UNREADABLE, ApiError, Cluster, mapping
from cockpit.platforms.kubernetes.objects import KINDS, Object, ObjectKind, part
from cockpit.platforms.kubernetes.states import Job, Top, by_owner, is_child, owner_of, root_of
from cockpit.platforms.kubernetes.waits import Wait, about, wait_of
from cockpit.runtime.http import HttpError

KUEUE: Final = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
PAGE: Final = 500
SIZED_FOR: Final = 300.0
"""Seconds for which the sizes of the nodes serve: a large cluster has thousands."""
MISSING_FOR: Final = 300.0
"""Seconds for which a kind that is not installed is not asked for again."""
SEEN_GONE: Final = "cockpit/seen-gone"
"""The key of our own in an object that was deleted: when the answer came that says so."""
GONE: Final = 500
"""Objects of a kind that are remembered as they were when they were deleted."""
_LARGE: Final = ("managedFields",)


class Kept:
    """One list, as the server's own account of its changes keeps it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._version: str | None = None
        self.items: dict[str, Object] = {}
        self.gone: dict[str, Object] = {}
        """By uid, what was deleted while we looked, as it was then."""

    async def refresh(self, cluster: Cluster, now: float) -> None:
        """Bring it up to ``now``; raises ``HttpError``."""
        if self._version is not None:
            try:
                for event in await cluster.changes(self._path, self._version):
                    self._take(str(event.get("type")), event["object"], now)
                return
            except ApiError as error:
                if error.status != 410:
                    raise
        found = await cluster.get(self._path, limit=PAGE)
        self.items = {each["metadata"]["uid"]: _brief(each) for each in found["items"]}
        self._version = found["metadata"]["resourceVersion"]

    def _take(self, word: str, body: Object, at: float) -> None:
        self._version = body["metadata"]["resourceVersion"]
        if word == "BOOKMARK":
            return
        uid = body["metadata"]["uid"]
        if word == "DELETED":
            self.items.pop(uid, None)
            self.gone[uid] = {**_brief(body), SEEN_GONE: at}
            while len(self.gone) > GONE:
                self.gone.pop(next(iter(self.gone)))
        else:
            self.items[uid] = _brief(body)


def _brief(body: Object) -> Object:
    meta = {name: value for name, value in body["metadata"].items() if name not in _LARGE}
    return {**body, "metadata": meta}


class Look(NamedTuple):
    """A namespace at one moment."""

    tops: tuple[Top, ...]
    pods: Mapping[str, Sequence[Object]]
    """By the uid of the object that they are of; under "" those that none has made."""
    gone: tuple[Top, ...]
    left: Mapping[str, Sequence[Object]]
    """The pods of what is gone, as they were when they were deleted."""
    up: Mapping[str, str]
    """The uid of its owner, by that of an object which belongs to one that trains."""
    errors: Mapping[str, HttpError]
    """Why the objects of a kind are not known, by its word (``jobset``)."""

    jobs: dict[tuple[str, str | None], Job]
    """What ``job`` has returned, by uid and container: every run asks for the same ones."""

    def job(self, top: Top, run: RunSpec | None = None) -> Job:
        """Return an object with its pods; a run may say which of their containers trains."""
        wanted = run.job.container if run is not None and run.job is not None else None
        key = (top.uid, wanted)
        if key not in self.jobs:
            pods = self.pods.get(top.uid) or self.left.get(top.uid, ())
            self.jobs[key] = Job.of(top, pods, wanted)
        return self.jobs[key]


class Namespace:
    """One namespace of a cluster; those who ask meanwhile share the next answer."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self.cluster = cluster
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        self._missing: dict[str, float] = {}
        self._asking: asyncio.Task[Look] | None = None
        self._last: Look | None = None
        self._last_at = float("-inf")
        self._told: tuple[Look, Sequence[Object] | None, Sequence[Object] | None] | None = None
        self._sizes: list[Object] = []
        self._sized_at = float("-inf")

    async def look(self, within: float = 0.0) -> Look:
        """Return what is there from now on; raises ``HttpError`` where nothing can be told.

        An answer serves for ``within`` seconds. One that was asked for before is waited for, not
        shared: what has been begun since may be missing in it.
        """
        if self._last is not None and self._clock.monotonic() - self._last_at < within:
            return self._last
        before = self._asking
        if before is not None and not before.done():
            await asyncio.wait([before])
        if self._asking is before:
            self._asking = asyncio.create_task(self._look())
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        assert self._asking is not None
        self._last = await asyncio.shield(self._asking)
        self._last_at = self._clock.monotonic()
        return self._last

    async def _look(self) -> Look:
        try:
            return await self._looked()
        except (AttributeError, KeyError, TypeError, ValueError):
            self._kept.clear()
            text = f"{self.cluster.name}: {UNREADABLE}"
            raise HttpError(ErrorKind.BAD_ANSWER, text) from None

    async def _looked(self) -> Look:
        space = await self.cluster.namespace()
        paths = {word: row.path(space) for word, row in KINDS.items()}
        wanted = {"pods": f"/api/v1/namespaces/{space}/pods"} | {
            word: path
            for word, path in paths.items()
            if self._clock.monotonic() >= self._missing.get(word, 0.0)
        }
        kept = {word: self._kept.setdefault(path, Kept(path)) for word, path in wanted.items()}
        answers = await asyncio.gather(
            *(each.refresh(self.cluster, self._clock.now()) for each in kept.values()),
            return_exceptions=True,
        )
        errors: dict[str, HttpError] = {}
        for word, answer in zip(kept, answers, strict=True):
            if isinstance(answer, HttpError) and word in KINDS and await self._lacks(word, answer):
                self._missing[word] = self._clock.monotonic() + MISSING_FOR
                del self._kept[paths[word]]
            elif isinstance(answer, HttpError):
                errors[word] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._missing.pop(word, None)
        if "pods" in errors:
            raise errors["pods"]
        there = {word: each for word, each in kept.items()
                 if word in KINDS and word not in {*errors, *self._missing}}  # fmt: skip
        tops = [top for word, each in there.items() for top in _tops(KINDS[word], each.items)]
        gone = [top for word, each in there.items() for top in _tops(KINDS[word], each.gone)]
        bodies = [body for each in there.values() for body in each.items.values()]
        up = {each["metadata"]["uid"]: owner["uid"] for each in bodies
              if is_child(each) and (owner := owner_of(each)) is not None}  # fmt: skip
        left = by_owner(gone, up, kept["pods"].gone.values())
        pods = by_owner(tops, up, kept["pods"].items.values())
        return Look(tuple(tops), pods, tuple(gone), left, up, errors, {})

    async def _lacks(self, word: str, error: HttpError) -> bool:
        """Tell whether a kind that was not listed is not installed."""
        refused = error.kind is ErrorKind.FORBIDDEN
        return error.status == 404 or (refused and not await self.cluster.serves(KINDS[word]))

    async def wait(self, look: Look, job: Job, now: float) -> Wait:
        """Return why a job waits, as far as that may be read; ``now`` by the server's clock."""
        if self._told is None or self._told[0] is not look:
            space = await self.cluster.namespace()
            workloads, events = await asyncio.gather(
                self._items(*(f"/apis/{each}/namespaces/{space}/workloads" for each in KUEUE)),
                self._items(f"/api/v1/namespaces/{space}/events"),
            )
            self._told = look, workloads, events
        _, workloads, events = self._told
        uids = {job.top.uid, *(pod.uid for pod in job.pods)}
        own = [each for each in events or () if root_of(about(each), look.up) in uids]
        unplaced = any(not pod.node and not pod.over for pod in job.pods)
        if unplaced and self._clock.monotonic() - self._sized_at > SIZED_FOR:
            self._sizes = [
                mapping(part(node, "status.allocatable"))
                for node in await self._items("/api/v1/nodes") or ()
            ]
            self._sized_at = self._clock.monotonic()
        return wait_of(job, workloads, None if events is None else own, self._sizes, now)

    async def _items(self, *paths: str) -> Sequence[Object] | None:
        """Return the list of the first path that is there, ``None`` where it cannot be read."""
        for path in paths:
            try:
                found: Sequence[Object] = (await self.cluster.get(path, limit=PAGE))["items"]
                return found
            except HttpError as error:
                if error.status != 404:
                    return None
        return ()


def _tops(row: ObjectKind, bodies: Mapping[str, Object]) -> list[Top]:
    return [Top(row, body) for body in bodies.values() if not is_child(body)]
