"""The tracker facet of W&B: a run's files, here or on a host, its server, or both joined."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock, machine_time
from cockpit.model.facet import ErrorKind, Facet, Problem, known, not_configured, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import SSH, address_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.offload import Call, Outcome, offload, offload_each
from cockpit.sources.logs.pieces import LaterError
from cockpit.sources.logs.remote import HostError
from cockpit.sources.wandb.away import HEAD, TAIL, AwayLaunches
from cockpit.sources.wandb.file import NotWandbError
from cockpit.sources.wandb.history import Delivery, RowChunk, unreadable
from cockpit.sources.wandb.listing import SUFFIX, wanted_of
from cockpit.sources.wandb.online import OnlineWandb, where_of
from cockpit.sources.wandb.run_files import RunFiles
from cockpit.text.safe import clean

DEADLINE = 5.0
"""Seconds after which a file system that does not answer is given up for this time.

It is less than the watch gives a whole bulk and ``check`` a facet: a file that hangs is then
named as such by its own run.
"""

AWAY: Final = 10.0
"""The same for files on a host, whose bytes are asked for in a few trips."""
_NOTHING = RowChunk((), caught_up=True, restarted=False, share=0.0)
"""Of a run that has no files which are read."""

T = TypeVar("T")


class _OwnFiles(NamedTuple):
    """The files of one run as its ``[run.wandb]`` names them, and the rows on their way."""

    spec: WandbSpec
    files: RunFiles
    rows: Delivery

    @property
    def deadline(self) -> float:
        """How long one read may take (s)."""
        return AWAY if wanted_of(self.spec).host else DEADLINE


class OfflineWandb:
    """Reads the ``.wandb`` files that ``[run.wandb] dir`` names; never imports the client.

    ``observe`` is quick on a file of any size and never raises; the files of all runs on one ssh
    host take one trip. ``more_rows`` and ``recent`` give rows to the rules, of files on a host
    those that have come with the last look; of a run whose files cannot be read they give none.
    """

    def __init__(self, clock: Clock, call: CallHost = call_blocking) -> None:
        """``call`` calls functions of the agents of ssh hosts."""
        self._clock = clock
        self._away = AwayLaunches(call, SUFFIX, TAIL, HEAD, partial(machine_time, clock))
        self._runs: dict[str, _OwnFiles] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, by run name."""
        named = {query.name: self._files_or_reason(query.run) for query in queries}
        facets = {name: one for name, one in named.items() if isinstance(one, Facet)}
        files = {name: one for name, one in named.items() if isinstance(one, RunFiles)}
        calls = [
            Call(partial(one.value, self._clock), (RunFiles.value, one)) for one in files.values()
        ]
        wanted = [one.wanted for one in files.values()]
        await self._away.look(each for each in wanted if each.host)
        deadline = AWAY if any(each.host for each in wanted) else DEADLINE
        outcomes = await offload_each(calls, deadline=deadline)
        specs = {query.name: query.run.wandb or WandbSpec() for query in queries}
        for name, outcome in zip(files, outcomes, strict=True):
            facets[name] = self._facet(specs[name], outcome)
        return {query.name: facets[query.name] for query in queries}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from the first one on, then what is new.

        Call it until ``caught_up``, and again when the file may have grown. What a read that
        took too long has read comes with the next call.
        """
        own = self._rows_of(run)
        return _NOTHING if own is None else await _chunk(own, own.rows.next(own.deadline))

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as the last look found the files."""
        former = self._runs.get(run.name)
        if former is None or former.spec != run.wandb:
            return True
        return not former.files.read_out or former.rows.waiting

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the last ``rows`` rows; ``share`` is the part of the run that they cover."""
        own = self._rows_of(run)
        if own is None:
            return _NOTHING
        return await _chunk(own, offload(RunFiles.recent, own.files, rows, deadline=own.deadline))

    def reader(self, spec: WandbSpec) -> RunFiles:
        """Return a reader of all rows that a run's settings name, from the first one on."""
        return RunFiles(spec, self._away)

    def rewind(self, run: str) -> None:
        """Give out every row of a run from the first one again."""
        former = self._runs.get(run)
        if former is not None:
            former.rows.rewind()

    def forget(self, run: str) -> None:
        """Start again with a run: its next rows are its first ones."""
        self._runs.pop(run, None)

    def _files_or_reason(self, run: RunSpec) -> RunFiles | Facet[TrackerValue]:
        """Return the files to look at, or why there are none."""
        spec, now = run.wandb, self._clock.now()
        if spec is None:
            return not_configured("[run.wandb]")
        reason = _why_not_read(spec)
        if reason is not None:
            return unknown(ErrorKind.UNSUPPORTED, reason, "W&B", now)
        if run.same_tracker:
            return unknown(ErrorKind.BAD_ANSWER, _whose(run), _source(spec), now)
        return self._files(run, spec).files

    def _facet(self, spec: WandbSpec, outcome: Outcome[TrackerValue]) -> Facet[TrackerValue]:
        now = self._clock.now()
        try:
            return known(outcome.value, _source(spec), now)
        except (OSError, NotWandbError) as error:
            return unknown(*problem(error, spec), _source(spec), now)

    def _rows_of(self, run: RunSpec) -> _OwnFiles | None:
        """Return the files that tell a run's rows, ``None`` where none are read."""
        if run.wandb is None or run.same_tracker or _why_not_read(run.wandb) is not None:
            return None
        return self._files(run, run.wandb)

    def _files(self, run: RunSpec, spec: WandbSpec) -> _OwnFiles:
        former = self._runs.get(run.name)
        if former is None or former.spec != spec:
            own = self.reader(spec)
            former = self._runs[run.name] = _OwnFiles(spec, own, Delivery(own.more, own.rewind))
        return former


async def _chunk(own: _OwnFiles, reading: Awaitable[RowChunk]) -> RowChunk:
    """Return the rows, or why there are none."""
    try:
        return await reading
    except (OSError, NotWandbError) as error:
        return unreadable(problem(error, own.spec)[1])


def _why_not_read(spec: WandbSpec) -> str | None:
    """Return why the files cannot tell about the run, or ``None``."""
    if spec.dir is None:
        return "wandb.dir is not set"
    if not spec.dir.here and spec.dir.scheme != SSH:
        return f"W&B files at {clean(spec.dir.endpoint, 300)} are not read yet by this version"
    return None


def _source(spec: WandbSpec) -> str:
    return f"W&B files in {clean(_path(spec))}"


def _path(spec: WandbSpec) -> str:
    return "" if spec.dir is None else str(spec.dir)


def problem(error: OSError | NotWandbError, spec: WandbSpec) -> tuple[ErrorKind, str]:
    """Return what an error of reading a run's files is, and its words for people."""
    place = clean(_path(spec))
    if isinstance(error, HostError):
        return error.kind, clean(error.strerror, 500)
    if isinstance(error, LaterError):
        return ErrorKind.TIMEOUT, f"{place}: {clean(error.strerror)}"
    if isinstance(error, TimeoutError):
        return ErrorKind.TIMEOUT, f"{place} does not answer ({clean(error)})"
    if isinstance(error, PermissionError):
        return ErrorKind.PERMISSION, f"{place} may not be read by this user"
    if isinstance(error, FileNotFoundError):
        missing = clean(error) if error.errno is None else f"there is no {place}"
        return ErrorKind.NOT_FOUND, missing
    if isinstance(error, NotADirectoryError):
        return ErrorKind.NOT_FOUND, f"{place} is neither a folder nor a .wandb file"
    reason = clean(error.strerror if isinstance(error, OSError) and error.strerror else error)
    return ErrorKind.BAD_ANSWER, f"{place}: {reason}"


def _whose(run: RunSpec) -> str:
    others = ", ".join(clean(name) for name in run.same_tracker)
    why = f"{others} reads the same folder, so the newest run may be theirs"
    return f"{why}: set wandb.id, or one dir each"


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

    def forget(self, names: Iterable[str]) -> None:
        """Start again with runs: the next rows of each are its first ones."""
        for name in names:
            self._parts.pop(name, None)
            self._files.forget(name)
            self._server.forget(name)

    def seen_in_files(self, run: RunSpec) -> bool:
        """Tell whether the run is seen best in its files, else at its server."""
        parts = self._parts.get(run.name)
        if parts is None:
            return run.wandb is not None and run.wandb.dir is not None
        return parts.best == FILES

    def reader(self, spec: WandbSpec) -> RunFiles:
        """Return a reader of all rows of a run's files, here or on a host."""
        return self._files.reader(spec)

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
