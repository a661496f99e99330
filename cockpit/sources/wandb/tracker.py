"""The tracker facet of W&B: a run's files, here or on a host, its server, or both joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock, machine_time
from cockpit.model.facet import WANDB, ErrorKind, Facet, Problem, not_configured, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import address_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.file_tracker import FileTracker
from cockpit.sources.wandb.away import HEAD, TAIL, AwayLaunches
from cockpit.sources.wandb.history import RowChunk
from cockpit.sources.wandb.listing import SUFFIX, Wanted, wanted_of
from cockpit.sources.wandb.online import OnlineWandb, where_of
from cockpit.sources.wandb.run_files import read_run
from cockpit.text.safe import clean


class OfflineWandb(FileTracker):
    """Reads the ``.wandb`` files that ``[run.wandb] dir`` names; never imports the client."""

    def __init__(self, clock: Clock, call: CallHost = call_blocking) -> None:
        """``call`` calls functions of the agents of ssh hosts."""
        away = AwayLaunches(call, SUFFIX, TAIL, HEAD, partial(machine_time, clock))

        def sought(spec: WandbSpec) -> Wanted | None:
            wanted = wanted_of(spec)
            return wanted if wanted.host else None

        super().__init__(
            clock,
            WANDB,
            lambda spec: spec.dir,
            lambda spec: read_run(spec, away),
            away,
            sought,
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


FILES: Final = "files"
SERVER: Final = "server"
URL_MEANT: Final = "https://wandb.ai/ENTITY/PROJECT/runs/ID"
_OF_THE_SERVER: Final = ("name", "entity", "project", "url", "heartbeat_at")
_OF_THE_FILES: Final = ("fragments", "files", "writers", "slurm_job_id")
_ENDED: Final = frozenset(("finished", "failed", "killed", "crashed"))
_ABSENT: Final = frozenset((ErrorKind.NOT_FOUND, ErrorKind.NOT_CONFIGURED))


def places(run: RunSpec) -> tuple[str, ...]:
    """Return where a run's tracker is asked for: where its files lie, its project's server."""
    spec = run.wandb
    if spec is None:
        return ()
    found = () if spec.dir is None else (spec.dir.endpoint,)
    where = where_of(spec)
    return found if where is None else (*found, where.place)


class Wandb:
    """The tracker of runs with ``[run.wandb]``; ``observe`` never raises."""

    def __init__(
        self, clock: Clock, files: OfflineWandb | None = None, server: OnlineWandb | None = None
    ) -> None:
        self._clock = clock
        self._files = files or OfflineWandb(clock)
        self._server = server or OnlineWandb(clock)
        self._parts: dict[str, _Parts] = {}

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, or only what is said of it ``at`` one place."""
        if at is not None:
            return await self._at(at, queries)
        facets = {query.name: self._nowhere(query.run) for query in queries}
        for place in dict.fromkeys(each for query in queries for each in places(query.run)):
            there = [query for query in queries if place in places(query.run)]
            facets |= self.join(place, await self._at(place, there))
        return facets

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the whole facet of each run that a place has answered for, or failed to."""
        joined = {}
        for name, answer in answers.items():
            parts = self._parts.get(name)
            joined[name] = answer if parts is None else parts.with_answer(at, answer)
        return joined

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from wherever the run is seen best."""
        return await self._rows(run).more_rows(run)

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as the last look found its source."""
        parts = self._parts.get(run.name)
        files = parts is not None and parts.best == parts.gives == FILES
        return not files or self._files.may_have_rows(run)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without those before them."""
        return await self._rows(run).recent(run, rows)

    def rewind(self, run: str) -> None:
        """Give out every row of a run from the first one again."""
        self._files.rewind(run)
        self._server.rewind(run)

    def forget(self, names: Iterable[str]) -> None:
        """Start again with runs: the next rows of each are its first ones."""
        for name in names:
            self._parts.pop(name, None)
            self._files.forget([name])
            self._server.forget([name])

    def seen_in_files(self, run: RunSpec) -> bool:
        """Tell whether the run is seen best in its files, else at its server."""
        parts = self._parts.get(run.name)
        if parts is None:
            return run.wandb is not None and run.wandb.dir is not None
        return parts.best == FILES

    @property
    def files(self) -> OfflineWandb:
        """Who reads the files."""
        return self._files

    @property
    def server(self) -> OnlineWandb:
        """Who asks the servers."""
        return self._server

    def _rows(self, run: RunSpec) -> OfflineWandb | OnlineWandb:
        """Return who gives out a run's rows; after a change, all of them from the first one."""
        parts = self._parts.get(run.name)
        if parts is None:
            return self._files if run.wandb is None or run.wandb.dir else self._server
        source = self._files if parts.best == FILES else self._server
        if parts.gives is not None and parts.gives != parts.best:
            source.rewind(run.name)
        parts.gives = parts.best
        return source

    async def _at(self, place: str, queries: Sequence[Query]) -> dict[str, Facet[TrackerValue]]:
        here, there = [], []
        facets: dict[str, Facet[TrackerValue]] = {}
        for query in queries:
            self._know(query.run)
            spec = query.run.wandb
            where = None if spec is None else where_of(spec)
            if where is not None and where.place == place:
                there.append(query)
            elif spec is not None and spec.dir is not None:
                here.append(query)
            else:
                facets[query.name] = self._nowhere(query.run)
        if here:
            facets |= await self._files.observe(here)
        if there:
            facets |= await self._server.observe(there, place)
        return facets

    def _know(self, run: RunSpec) -> None:
        former, named = self._parts.get(run.name), places(run)
        if former is None or former.places != named:
            self._parts[run.name] = _Parts(run, named)

    def _nowhere(self, run: RunSpec) -> Facet[TrackerValue]:
        if run.wandb is None:
            return not_configured("[run.wandb]")
        recorded = run.wandb.recorded
        if run.wandb.url is not None and address_of(run.wandb.url).project is None:
            text = f"wandb.url is not the URL of a run: {URL_MEANT} is meant"
            return unknown(ErrorKind.NOT_FOUND, text, "run file", self._clock.now())
        missing = "wandb.project" if recorded.project is None else "wandb.id"
        return not_configured(f"{missing} (or wandb.url, or wandb.dir)")


class _Parts:
    """What each place has said last of one run, and who gives out its rows."""

    def __init__(self, run: RunSpec, named: tuple[str, ...]) -> None:
        spec = run.wandb
        self.places = named
        self.best = FILES if spec is None or spec.dir is not None else SERVER
        self.gives: str | None = None
        self._files_at = None if spec is None or spec.dir is None else spec.dir.endpoint
        self._said: dict[str, Facet[TrackerValue]] = {}
        self._seen: TrackerValue | None = None
        """What the server said when it last said anything."""

    def with_answer(self, at: str, answer: Facet[TrackerValue]) -> Facet[TrackerValue]:
        """Take a place's answer in and return the facet of the run."""
        if len(self.places) < 2:
            return answer
        part = FILES if at == self._files_at else SERVER
        self._said[part] = answer
        if part == SERVER and answer.known:
            self._seen = answer.value
        files, server = self._said.get(FILES), self._said.get(SERVER)
        if files is None or server is None:
            self.best = part
            return answer
        return self._joined(files, server)

    def _joined(
        self, files: Facet[TrackerValue], server: Facet[TrackerValue]
    ) -> Facet[TrackerValue]:
        if files.value is not None and files.known:
            if server.value is not None and server.known:
                return self._fresher(files, files.value, server, server.value)
            return self._files_alone(files, files.value, server)
        if server.known:
            self.best = SERVER
            return server
        if files.error is None or files.error.kind in _ABSENT:
            return server
        return _both_failed(files.error, server)

    def _fresher(
        self,
        files: Facet[TrackerValue],
        here: TrackerValue,
        server: Facet[TrackerValue],
        there: TrackerValue,
    ) -> Facet[TrackerValue]:
        """Return the facet of the place that shows the newer step; the files' at a tie."""
        if _newer(there, here):
            self.best = SERVER
            value = there.model_copy(update={name: getattr(here, name) for name in _OF_THE_FILES})
            source = f"{server.source}, ahead of the {files.source.removeprefix('W&B ')}"
            return server.model_copy(update={"value": value, "source": source})
        self.best = FILES
        update = {name: getattr(there, name) or getattr(here, name) for name in _OF_THE_SERVER}
        if here.exit_code is None and here.state == "silent" and there.state in _ENDED:
            update["state"] = there.state
        source = f"{files.source}, {_lead(here, there)} {server.source.removeprefix('W&B at ')}"
        value = here.model_copy(update=update)
        return files.model_copy(update={"value": value, "source": source})

    def _files_alone(
        self, files: Facet[TrackerValue], here: TrackerValue, server: Facet[TrackerValue]
    ) -> Facet[TrackerValue]:
        """Return what the files say while the server says nothing.

        Files that are silent are no evidence against a run that may go on elsewhere: then what
        they hold is shown, with why the rest is unknown.
        """
        error = server.error
        absent = error is not None and error.kind in _ABSENT
        if self._seen is not None and _newer(self._seen, here) and not absent:
            return server
        goes_on = absent or here.state != "silent"
        self.best = FILES
        why = f"; {error.message}" if error is not None else ""
        update: dict[str, object] = {"source": f"{files.source}{why}"}
        if not goes_on:
            update |= {"error": error, "since": server.since, "observed_at": here.file_mtime}
        return files.model_copy(update=update)


def _newer(one: TrackerValue, other: TrackerValue) -> bool:
    """Tell whether ``one`` shows a newer training step than ``other``."""
    if one.last_step_at is not None and other.last_step_at is not None:
        return one.last_step_at > other.last_step_at + 1.0
    return other.last_step_at is None and one.last_step_at is not None


def _lead(here: TrackerValue, there: TrackerValue) -> str:
    return "ahead of" if _newer(here, there) else "as fresh as"


def _both_failed(problem: Problem, server: Facet[TrackerValue]) -> Facet[TrackerValue]:
    said = server.error.message if server.error is not None else "no answer yet"
    message = f"{problem.message}; {said}"
    return unknown(problem.kind, message, f"W&B files, {server.source}", server.since or 0.0)
