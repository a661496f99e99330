"""W&B as its server tells it (SPEC S-6): one query per project for all its runs, rows included.

The first look at a run takes two: which metrics there are, and how far it is, must be known
before rows can be asked for. From then on a look is one query, whatever the number of runs.

The tracker facet of W&B: a run's files, here or on a host, its server, or both joined.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock, machine_time
from cockpit.model.facet import WANDB, ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import address_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.http import Answer, Http, HttpError
from cockpit.runtime.offload import offload
from cockpit.sources.file_tracker import FileTracker, TrackedRuns
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.two_trackers import FilesAndServer, Part, TwoTrackers
from cockpit.sources.wandb.listing import LaunchFiles, wanted_of
from cockpit.sources.wandb.online_run import Came, Plan, ServerRows
from cockpit.sources.wandb.run_files import read_run
from cockpit.sources.wandb.server import Document, Key, key_for, pause_of, project_of, server_for
from cockpit.text.safe import clean

FIRST: Final = 5.0
"""Seconds for the first look of a process: ``check`` gives a facet six."""
DEADLINE: Final = 15.0
KEEP: Final = 120.0
CAP: Final = 16_000_000
BUDGET: Final = 4_000_000
"""Bytes of rows that one query asks for, for all its runs together."""
FIRST_BUDGET: Final = 1_500_000
"""Bytes of rows at the first look: those must come while somebody waits."""
LEAST_OLDER: Final = 200_000
"""Bytes of older rows worth asking a run for: where many are unread they take turns."""
LEAST_SCALE: Final = 1 / 64
"""The least share of the usual rows that is asked for of a slow server."""
READING: Final = 10.0
LOGIN: Final = 2.0
SAME_TROUBLE: Final = 15.0
"""Seconds for which a server that cannot be reached is not asked about another project."""
SKEW: Final = 5.0
"""Seconds by which a server's clock may differ from ours without being corrected."""
_SERVERS: Final = frozenset(
    (ErrorKind.REFUSED, ErrorKind.DNS, ErrorKind.TLS, ErrorKind.UNAUTHORIZED)
)
"""What has gone wrong with a server, not with one of its projects."""


class Where(NamedTuple):
    """A project at a server."""

    base_url: str
    entity: str | None
    project: str

    @property
    def place(self) -> str:
        """What its runs are asked for together by."""
        return f"{self.base_url}/{self.entity or '~'}/{self.project}"

    @property
    def host(self) -> str:
        """The server as it is shown to people."""
        return clean(urlsplit(self.base_url).netloc, 300)

    @property
    def label(self) -> str:
        """``entity/project``."""
        return clean("/".join(filter(None, (self.entity, self.project))), 300)


def where_of(spec: WandbSpec, env: Mapping[str, str] | None = None) -> Where | None:
    """Return the project that a run is asked for in, ``None`` if it is not online."""
    found = spec.recorded
    if not spec.online or found.project is None:
        return None
    return Where(server_for(spec, os.environ if env is None else env), found.entity, found.project)


class _RunQuestion(NamedTuple):
    """A look at one run: what is known of it, and what was asked."""

    query: Query
    run: ServerRows
    plan: Plan


class _Project:
    """What is remembered of one project between two looks."""

    def __init__(self) -> None:
        self.looks = 0
        self.turn = 0
        self.scale = 1.0


class _Server:
    """One server: while it cannot be reached, one project's query tells all of them."""

    def __init__(self) -> None:
        self.trouble: tuple[float, HttpError] | None = None
        self.probing = asyncio.Lock()


class OnlineWandb(TrackedRuns):
    """Asks W&B servers; ``observe`` never raises, ``more_rows`` and ``recent`` ask nobody.

    Rows ride in the answers: what was not in the last one comes with the next.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        env: Mapping[str, str] | None = None,
        first: float = FIRST,
        deadline: float = DEADLINE,
    ) -> None:
        self._env = os.environ if env is None else env

        def reader(spec: WandbSpec) -> ServerRows:
            return ServerRows(spec, server_for(spec, self._env))

        super().__init__(clock, WANDB, reader)
        self._first, self._patience = first, deadline
        self._http = Http(clock, deadline=deadline, cap=CAP, keep=KEEP)
        self._projects: dict[Where, _Project] = {}
        self._servers: dict[str, _Server] = {}

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each online run, or of those ``at`` one place only."""
        groups: dict[Where, list[Query]] = {}
        for query in queries:
            spec = query.run.wandb
            where = None if spec is None else where_of(spec, self._env)
            if where is not None and at in (None, where.place):
                groups.setdefault(where, []).append(query)
        found = await asyncio.gather(*(self._project(*group) for group in groups.items()))
        return {name: facet for facets in found for name, facet in facets.items()}

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return that ``more_rows`` might give some: they come with the answers."""
        return True

    def keys_of(self, run: RunSpec) -> MetricKeys:
        """Return which logged name is which, as far as the server was asked about the run."""
        former = self._runs.get(run.name)
        return MetricKeys() if former is None else former.reader.keys

    async def ask_run(self, run: RunSpec, fields: Callable[[Document], str]) -> Mapping[str, Any]:
        """Return what one question of its own tells of a run; raises ``HttpError``."""
        where = None if run.wandb is None else where_of(run.wandb, self._env)
        if where is None or run.wandb is None:
            text = "no W&B project in cockpit.toml (wandb.project)"
            raise HttpError(ErrorKind.NOT_CONFIGURED, text)
        document = Document(where.entity, where.project)
        document.add_run(run.wandb.recorded.run or "", fields(document))
        try:
            async with asyncio.timeout(self._patience):
                key = await self._key(where)
                answer = await self._sent(where, key, document)
        except TimeoutError:
            message = f"{where.host}: no answer within {self._patience:.3g} s"
            raise HttpError(ErrorKind.TIMEOUT, message) from None
        ids = [run.wandb.recorded.run or ""]
        (told,) = project_of(answer, ids, key, where.label).runs
        if told.problem is not None:
            raise HttpError(told.problem.kind, told.problem.message)
        return told.fields

    def _not_read(self, run: RunSpec, now: float) -> Facet[TrackerValue] | None:
        """Return that nothing is known of a run before the server has said anything."""
        own = self._runs.get(run.name)
        known = own is not None and isinstance(own.reader, ServerRows) and own.reader.run.known
        return None if known else not_configured("[run.wandb]")

    async def _project(self, where: Where, queries: list[Query]) -> dict[str, Facet[TrackerValue]]:
        began = self._clock.monotonic()
        project = self._projects.setdefault(where, _Project())
        allowed = self._first if project.looks == 0 else self._patience
        project.looks += 1
        try:
            key = await self._key(where)
            runs = [self._rows(query) for query in queries]
            facets = await self._ask_project(
                where, key, _planned(queries, runs, project, BUDGET), allowed
            )
            left = allowed - (self._clock.monotonic() - began)
            await self._first_rows(where, key, queries, facets, left)
        except HttpError as error:
            if error.kind in (ErrorKind.BAD_ANSWER, ErrorKind.TIMEOUT):
                project.scale = max(LEAST_SCALE, project.scale / 4)
            return {query.name: self._failed(where, error) for query in queries}
        project.scale = min(1.0, project.scale * 2)
        return facets

    async def _first_rows(
        self,
        where: Where,
        key: Key,
        queries: Sequence[Query],
        facets: dict[str, Facet[TrackerValue]],
        left: float,
    ) -> None:
        """Ask at once for the rows of runs that were seen for the first time, if time is left.

        What goes wrong here is said by the next look.
        """
        new = [query for query in queries if facets[query.name].known]
        new = [query for query in new if self._rows(query).run.fresh]
        paused = any(facet.retry_after for facet in facets.values())
        if not new or paused or left < 1.0:
            return
        runs = [self._rows(query) for query in new]
        planned = _planned(new, runs, self._projects[where], FIRST_BUDGET)
        try:
            facets.update(await self._ask_project(where, key, planned, left))
        except HttpError:
            self._projects[where].scale = max(LEAST_SCALE, self._projects[where].scale / 4)

    async def _ask_project(
        self, where: Where, key: Key, asked: Sequence[_RunQuestion], allowed: float
    ) -> dict[str, Facet[TrackerValue]]:
        """Ask once about some runs of a project, read what came; raises ``HttpError``."""
        document = Document(where.entity, where.project)
        for each in asked:
            each.run.ask(document, each.plan)
        try:
            async with asyncio.timeout(max(0.1, allowed)):
                answer = await self._sent(where, key, document)
                return await offload(self._read, where, key, asked, answer, deadline=READING)
        except TimeoutError:
            message = f"{where.host}: no answer within {allowed:.3g} s"
            raise HttpError(ErrorKind.TIMEOUT, message) from None

    async def _sent(self, where: Where, key: Key, document: Document) -> Answer:
        """Send a query; a server that was out of reach just now is not asked again."""
        server = self._servers.setdefault(where.base_url, _Server())
        if server.trouble is None:
            return await self._exchanged(server, where, key, document)
        async with server.probing:
            if server.trouble is not None:
                at, error = server.trouble
                if self._clock.monotonic() - at < SAME_TROUBLE:
                    raise error
            return await self._exchanged(server, where, key, document)

    async def _exchanged(
        self, server: _Server, where: Where, key: Key, document: Document
    ) -> Answer:
        headers = {"authorization": key.header, "user-agent": "run-cockpit"}
        try:
            answer = await self._http.query(f"{where.base_url}/graphql", document.body, headers)
            if answer.status == 401:
                project_of(answer, (), key, where.label)
        except HttpError as error:
            wide = error.kind in _SERVERS
            server.trouble = (self._clock.monotonic(), error) if wide else None
            raise
        server.trouble = None
        return answer

    def _read(
        self, where: Where, key: Key, asked: Sequence[_RunQuestion], answer: Answer
    ) -> dict[str, Facet[TrackerValue]]:
        """Take an answer in and return the facets; raises ``HttpError`` (it runs in a thread)."""
        ids = [each.query.run.wandb.recorded.run or "" for each in asked if each.query.run.wandb]
        said = project_of(answer, ids, key, where.label)
        now, pause = self._clock.now(), pause_of(answer.headers)
        came = Came(now, _ahead(answer.headers, now), said.entity or where.entity, said.project)
        facets = {}
        for each, told in zip(asked, said.runs, strict=True):
            # Without its summary nobody knows how far a run is that was not seen before.
            problem = told.problem or (told.lost if each.plan.whole else None)
            if problem is not None:
                if told.spoilt:
                    each.run.run.spoilt()
                facet = unknown(problem.kind, problem.message, _source(where), self._clock.now())
            else:
                each.run.run.take(told.fields, each.plan, came)
                facet = known(each.run.value(self._clock), _source(where), now)
            facets[each.query.name] = facet.model_copy(update={"retry_after": pause})
        return facets

    async def _key(self, where: Where) -> Key:
        """Return the key for a server; raises ``HttpError`` with what to do without one."""
        try:
            looked = await offload(key_for, where.base_url, self._env, deadline=LOGIN)
        except TimeoutError:
            message = f"{where.host}: the files that may hold the key did not respond"
            raise HttpError(ErrorKind.TIMEOUT, message) from None
        if looked.key is not None:
            return looked.key
        why = f" ({'; '.join(looked.faults)})" if looked.faults else ""
        message = f"no W&B key for {where.host}{why}: set WANDB_API_KEY, or run wandb login"
        raise HttpError(ErrorKind.UNAUTHORIZED, message)

    def _rows(self, query: Query) -> ServerRows:
        reader = self._own(query.run).reader
        assert isinstance(reader, ServerRows)
        return reader

    def _failed(self, where: Where, error: HttpError) -> Facet[TrackerValue]:
        facet = unknown(error.kind, str(error), _source(where), self._clock.now())
        return facet.model_copy(update={"retry_after": error.retry_in})


def _source(where: Where) -> str:
    return f"W&B at {where.host}"


def _planned(
    queries: Sequence[Query], runs: Sequence[ServerRows], project: _Project, most: float
) -> list[_RunQuestion]:
    """Share the bytes: first the newest rows of all runs, then older ones in turn."""
    budget = most * project.scale
    likely = sum(each.run.likely_bytes() for each in runs)
    spare = max(0.0, budget - likely)
    unread = [index for index, rows in enumerate(runs) if rows.run.unread()]
    many = max(1, int(spare / LEAST_OLDER))
    chosen = {unread[(project.turn + n) % len(unread)] for n in range(min(many, len(unread)))}
    project.turn += many
    older = spare / max(1, len(chosen))
    newest = budget / max(1, len(runs)) if likely > budget else budget
    plans = [run.plan(newest, older if at in chosen else 0.0) for at, run in enumerate(runs)]
    return [_RunQuestion(*each) for each in zip(queries, runs, plans, strict=True)]


def _ahead(headers: Mapping[str, str], now: float) -> float:
    """Return the server's clock minus ours (s), 0 where they agree or it does not say."""
    try:
        found = parsedate_to_datetime(headers["date"]).timestamp() - now
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    return found if abs(found) > SKEW else 0.0


class OfflineWandb(FileTracker):
    """Reads the ``.wandb`` files that ``[run.wandb] dir`` names; never imports the client."""

    def __init__(self, clock: Clock, call: CallHost = call_blocking) -> None:
        """``call`` calls functions of the agents of ssh hosts."""
        files = LaunchFiles(call, partial(machine_time, clock))

        super().__init__(
            clock,
            WANDB,
            lambda spec: spec.dir,
            lambda spec: read_run(spec, files),
            files,
            wanted_of,
            "W&B files",
        )

    def _not_read(self, run: RunSpec, now: float) -> Facet[TrackerValue] | None:
        """Return why nothing is read: also where the newest run may be another one's."""
        facet = super()._not_read(run, now)
        if facet is not None or not run.same_tracker:
            return facet
        others = ", ".join(clean(name) for name in run.same_tracker)
        text = (
            f"{others} reads the same folder, so the newest run may be theirs: "
            "set wandb.id, or one dir each"
        )
        source = self._source(None if run.wandb is None else run.wandb.dir)
        return unknown(ErrorKind.BAD_ANSWER, text, source, now)


URL_MEANT: Final = "https://wandb.ai/ENTITY/PROJECT/runs/ID"


def places(run: RunSpec) -> tuple[str, ...]:
    """Return where a run's tracker is asked for: where its files lie, its project's server."""
    return (*_files_at(run), *_server_at(run))


def _files_at(run: RunSpec) -> tuple[str, ...]:
    return () if run.wandb is None or run.wandb.dir is None else (run.wandb.dir.endpoint,)


def _server_at(run: RunSpec) -> tuple[str, ...]:
    where = None if run.wandb is None else where_of(run.wandb)
    return () if where is None else (where.place,)


class Wandb(TwoTrackers):
    """The tracker of runs with ``[run.wandb]``: the files, and the server."""

    def __init__(
        self, clock: Clock, files: OfflineWandb | None = None, server: OnlineWandb | None = None
    ) -> None:
        self.server = server or OnlineWandb(clock)
        parts = Part(files or OfflineWandb(clock), _files_at), Part(self.server, _server_at)
        super().__init__(clock, parts, FilesAndServer)

    def _nowhere(self, run: RunSpec) -> Facet[TrackerValue]:
        if run.wandb is None:
            return not_configured("[run.wandb]")
        recorded = run.wandb.recorded
        if run.wandb.url is not None and address_of(run.wandb.url).project is None:
            text = f"wandb.url is not the URL of a run: {URL_MEANT} is meant"
            return unknown(ErrorKind.NOT_FOUND, text, "run file", self._clock.now())
        missing = "wandb.project" if recorded.project is None else "wandb.id"
        return not_configured(f"{missing} (or wandb.url, or wandb.dir)")
