"""The logs of a job's pods: each is fetched by the time of its last line into a spool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.platforms.kubernetes.api import ApiError, Cluster
from cockpit.platforms.kubernetes.objects import instant
from cockpit.platforms.kubernetes.pods import Pod
from cockpit.platforms.kubernetes.states import Job
from cockpit.runtime.http import HttpError
from cockpit.runtime.offload import offload
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

FIRST: Final = 10_000
"""Lines that are fetched of a log that is first looked at: its newest."""
PAGE: Final = 4_000_000
"""Bytes of one answer."""
PAGES: Final = 4
AT_ONCE: Final = 12
"""Logs of one job that are fetched at one look: that of rank 0, and others in turn."""
WRITE: Final = 4.0
WAITS: Final = "is waiting to start"
"""How the API server says that a container has no log yet."""


class Fetched(NamedTuple):
    """Lines of a log with the cursor of the last one; ``full`` where more may follow."""

    lines: list[bytes]
    cursor: str | None
    hole: bool
    full: bool


def fetched(data: bytes, since: str | None, limit: int = PAGE) -> Fetched:
    """Return the lines of an answer that come after ``since``, without their stamps.

    The server knows whole seconds only: it gives the last line again, unless its file was rotated.
    Raises ``ValueError`` with what it says in place of a log.
    """
    full = len(data) >= limit
    rows = data[: data.rfind(b"\n") + 1 if full else len(data)].splitlines()
    found: list[bytes] = []
    cursor, joined = since, since is None
    for row in rows:
        stamp, _, line = row.partition(b" ")
        key = _key(stamp)
        if key is None and not found:
            raise ValueError(shown(row.decode("utf-8", "replace"), 200))
        joined = joined or key == since
        if since is None or key is None or key > since:
            found.append(line if key is not None else row)
            cursor = key or cursor
    return Fetched(found, cursor, bool(found) and not joined, full)


def _key(stamp: bytes) -> str | None:
    """Return a line's stamp as text that sorts as the times do."""
    text = stamp.decode("ascii", "replace")
    at = instant(text) if text[:4].isdigit() and "T" in text else None
    fraction = text.partition(".")[2]
    digits = fraction[: next((n for n, c in enumerate(fraction) if not c.isdigit()), None)]
    return None if at is None else f"{int(at):011d}.{digits[:9]:0<9}"


class Tail:
    """The log of one container of one pod, from its start to its end."""

    def __init__(self, run: str, pod: Pod, cluster: Cluster, *, former: bool = False) -> None:
        self.pod = pod
        self.looked_at = float("-inf")
        self.error: HttpError | None = None
        self.over = False
        self.former = former
        number = pod.restarts - former
        self._spool = Spool(run, f"{pod.name} {pod.uid} {pod.container} {number} {cluster.name}")
        self.place = self._spool.place
        self.any = False

    async def fetch(self, cluster: Cluster, path: str, now: float) -> None:
        """Fetch what is new into the spool; never raises."""
        try:
            self.error = None
            for _ in range(PAGES):
                if not await self._page(cluster, path, now):
                    self.over = self.pod.over or self.former
                    break
        except (OSError, TimeoutError) as error:
            text = f"the log cannot be kept in {clean(self.place, 200)}: {clean(error, 120)}"
            self.error = HttpError(ErrorKind.PERMISSION, text)
        except HttpError as error:
            self.error = error

    async def _page(self, cluster: Cluster, path: str, now: float) -> bool:
        since = await offload(self._spool.cursor, deadline=WRITE)
        self.any = self.any or since is not None
        query: dict[str, str | int] = {"container": self.pod.container, "timestamps": "true"}
        query |= {"previous": "true"} if self.former else {}
        query |= {"limitBytes": PAGE}
        if since is None:
            query |= {"tailLines": FIRST}
        else:
            start = datetime.fromtimestamp(int(since.partition(".")[0]), UTC)
            query |= {"sinceTime": start.strftime("%Y-%m-%dT%H:%M:%SZ")}
        data = await cluster.text(f"{path}/pods/{self.pod.name}/log", **query)
        try:
            found = fetched(data, since)
        except ValueError as error:
            text = f"{cluster.name} has no log of {self.pod.name}: {error}"
            raise HttpError(ErrorKind.NOT_FOUND, text) from None
        if not found.lines and not found.full:
            return False
        cursor = found.cursor
        if not found.lines and since is not None:  # one second that is longer than an answer
            cursor = f"{int(since.partition('.')[0]) + 1:011d}.{0:09d}"
        at = cluster.clock.ours(float(cursor or now))
        hole = found.hole or not found.lines or (since is None and len(found.lines) >= FIRST)
        put = partial(self._spool.append, found.lines, cursor, at, since=since, hole=hole)
        self.any = await offload(put, deadline=WRITE) or self.any
        return found.full


class PodLogs:
    """Reads the logs of jobs; ``logs`` follows what was spooled of them."""

    def __init__(self, clock: Clock, logs: Logs) -> None:
        self._clock = clock
        self._logs = logs
        self._tails: dict[str, dict[tuple[str, str, int], Tail]] = {}
        """By run; each by its pod, its container and how often that had begun again."""

    async def observe(
        self, cluster: Cluster, queries: Sequence[Query], jobs: Mapping[str, Job | None]
    ) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run of a namespace, by run name."""
        path = f"/api/v1/namespaces/{await cluster.namespace()}"
        asked = [(query, job) for query in queries if (job := jobs[query.name]) is not None]
        tails = await asyncio.gather(*(self._fetch(cluster, path, *each) for each in asked))
        named = {query.name: own for (query, _), own in zip(asked, tails, strict=True)}
        places = {name: [tail.place for tail in own if tail.any] for name, own in named.items()}
        spooled = [query for query in queries if places.get(query.name)]
        read = await self._logs.observe(
            spooled,
            {query.name: places[query.name][0] for query in spooled},
            {query.name: places[query.name][1:] for query in spooled},
        )
        return {
            query.name: self._facet(cluster, named.get(query.name, ()), read.get(query.name))
            for query in queries
        }

    async def _fetch(self, cluster: Cluster, path: str, query: Query, job: Job) -> list[Tail]:
        """Fetch some logs of a job, and return all: that of rank 0 first, former attempts last."""
        wanted = [(pod, False) for pod in (*job.pods, *job.former)]
        wanted += [(pod, True) for pod in job.pods[:1] if pod.restarts]
        kept = self._tails.get(query.name, {})
        own: dict[tuple[str, str, int], Tail] = {}
        for pod, former in wanted:
            key = (pod.uid, pod.container, pod.restarts - former)
            own[key] = kept.get(key) or Tail(query.name, pod, cluster, former=former)
            own[key].pod, own[key].former = pod, former  # what ran at the last look may be over
        self._tails[query.name] = own
        due = [tail for tail in own.values() if not tail.over]
        chosen = due[:1] + sorted(due[1:], key=lambda tail: tail.looked_at)[: AT_ONCE - 1]
        for tail in chosen:
            tail.looked_at = self._clock.monotonic()
        now = self._clock.now()
        await asyncio.gather(*(tail.fetch(cluster, path, now) for tail in chosen))
        return list(own.values())

    def _facet(
        self, cluster: Cluster, tails: Sequence[Tail], read: Facet[LogValue] | None
    ) -> Facet[LogValue]:
        """Return the facet: what was spooled, or why there is nothing; why no more comes beside."""
        error = tails[0].error if tails else None
        gone = error is not None and error.status == 404
        if read is not None and (error is None or gone or _waits(error)):
            source = f"{cluster.name}, {tails[0].pod.name}" + ("; the pod is gone" if gone else "")
            return read.model_copy(update={"source": source})
        now = self._clock.now()
        if error is None or _waits(error):
            text = "no pod of it has begun: no log yet" if tails else "it has no pods: no log"
            return unknown(ErrorKind.NOT_FOUND, text, cluster.name, now)
        return unknown(error.kind, str(error), cluster.name, now)


def _waits(error: HttpError) -> bool:
    return isinstance(error, ApiError) and error.status == 400 and WAITS in str(error)
