"""Who monitors the run, and whether the monitor itself is alive (SPEC S-9, C-03)."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from cockpit.hosts.here import ask_host
from cockpit.hosts.link import Answers, Ask, ask
from cockpit.model import wording
from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, not_configured, unknown
from cockpit.model.observed import MonitorValue, OtherMonitor
from cockpit.model.run import RunSpec
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_SIZE: Final = 1 << 20
TOGETHER: Final = 10.0
"""Seconds by which ``ts`` and the file's own time may move apart between two writes."""
BEHIND: Final = 60.0
"""Seconds from which on a clock counts as behind."""
_MILLISECONDS: Final = 1e11
"""A ``ts`` from here on is in milliseconds: as seconds it would lie after the year 5000."""


class StateRead(Frozen):
    """One state file: its stamp (``None`` without ``ts``), its mtime, and what it names."""

    path: str
    mtime: Instant
    stamp: Instant | None = None
    job_id: str | None = None
    run: str | None = None
    owner: str | None = None
    cadence_s: Seconds | None = None
    restart_count: int | None = None
    last_signal: str | None = None
    tunnel_session: str | None = None
    server_session: str | None = None
    mcp_url: str | None = None
    wandb: str | None = None
    """The address of the W&B run that it watches, by whichever of its usual names."""
    retired: str | None = None
    """The job that a relaunch has retired in this file (``retired_job_id``)."""
    behind: Seconds = 0.0
    """By how much its writer's clock is behind ours, where two writes have shown that."""
    compared: bool = False
    """Two writes have been seen: what lies between its stamp and its file's time is settled."""

    @property
    def doubtful(self) -> bool:
        """Tell whether its stamp is old or its writer's clock is behind: one write cannot tell."""
        late = 0.0 if self.stamp is None else self.mtime - self.stamp
        return not self.compared and late > BEHIND

    def after(self, former: StateRead | None) -> StateRead:
        """Return it with what the ``former`` reading of the same file shows of its writer's clock.

        Where ``ts`` has moved on by as much as the file's own time, it was written when the file
        was: what lies between the two is the clock. A file that was touched, or copied, with the
        ``ts`` that it had shows none.
        """
        if former is None or None in (self.stamp, former.stamp):
            return self
        moved, written = (self.stamp or 0.0) - (former.stamp or 0.0), self.mtime - former.mtime
        late = self.mtime - (self.stamp or 0.0)
        if not moved and not written:
            known = {"behind": former.behind, "compared": former.compared}
            return self.model_copy(update=known)
        live = moved > 0 and abs(moved - written) <= TOGETHER
        behind = late if live and late > BEHIND else 0.0
        return self.model_copy(update={"behind": behind, "compared": True})


def read_state(path: str) -> StateRead | Problem | None:
    """Return the file at ``path``, why it cannot be used, or ``None`` when it is gone."""
    try:
        with open_regular(path) as (fd, found):
            raw = os.read(fd, _SIZE)
    except FileNotFoundError:
        return None
    except PermissionError:
        return Problem(kind=ErrorKind.PERMISSION, message=f"{clean(path, 4096)}: permission denied")
    except OSError as error:
        return _bad(path, (error.strerror or "cannot be read").lower())
    return _parsed(path, raw, found.st_mtime)


def _parsed(path: str, raw: bytes, mtime: float) -> StateRead | Problem:
    if not raw.strip():
        return _bad(path, "is empty or only partly written")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return _bad(path, "is only partly written, or not JSON")
    if not isinstance(document, dict):
        return _bad(path, "is not a JSON object")
    if not _KNOWN & document.keys():
        return _bad(
            path, f"is not a monitor state file: it has none of {', '.join(sorted(_KNOWN))}"
        )
    for key, fits, expected in _FIELDS:
        value = document.get(key)
        if value is not None and not fits(value):
            return _bad(path, f"has {key} = {clean(json.dumps(value), 60)}; expected {expected}")
    return _state(path, mtime, document)


def _bad(path: str, what: str) -> Problem:
    return Problem(kind=ErrorKind.BAD_ANSWER, message=f"{clean(path, 4096)} {what}")


def _state(path: str, mtime: float, document: dict[str, Any]) -> StateRead:
    def text(key: str) -> str | None:
        value = document.get(key)
        plain = isinstance(value, str | int | float) and value != ""
        return scrub(clean(value)) if plain else None

    return StateRead(
        path=path,
        mtime=mtime,
        stamp=_instant(document.get("ts")),
        job_id=text("job_id"),
        run=text("run"),
        owner=text("owner"),
        cadence_s=document.get("cadence_s"),
        restart_count=document.get("restart_count"),
        last_signal=text("last_signal"),
        tunnel_session=text("tunnel_session"),
        server_session=text("server_session"),
        mcp_url=text("mcp_url"),
        wandb=next(filter(None, map(text, _WANDB)), None),
        retired=text("retired_job_id"),
    )


def _instant(value: object) -> float | None:
    """Return epoch seconds for milliseconds (IRIS), seconds or an ISO time with a zone."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return moment.timestamp() if moment.tzinfo is not None else None
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value <= 0:
        return None
    return value / 1000.0 if value >= _MILLISECONDS else float(value)


def _is_stamp(value: object) -> bool:
    try:
        return _instant(value) is not None
    except OverflowError:
        return False


def _is_name(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < 1e9


_WANDB: Final = ("wandb_url", "wandb_run_url", "wandb_link", "tracker_url", "wandb")
_KNOWN: Final = frozenset({*("ts", "job_id", "run", "owner", "restart_count"), "cadence_s"})
_FIELDS: Final[tuple[tuple[str, Callable[[object], bool], str], ...]] = (
    ("ts", _is_stamp, "a time in milliseconds"),
    ("job_id", _is_name, "a name"),
    ("restart_count", _is_count, "a count"),
    ("cadence_s", _is_seconds, "a number of seconds"),
)


K = TypeVar("K")
V = TypeVar("V")

LIFELINES_DEADLINE: Final = 3.0
"""Less than what a monitor's facet is given, its files read before."""
ABOUT: Final = ask("its facts", "about")
PROGRAMS: Final = (
    ask("tmux", "run", argv=["tmux", "-u", "list-sessions", "-F", "=#{session_name}"], seconds=2.5),
    ask("screen", "run", argv=["screen", "-ls"], seconds=2.5),
)
"""What lists sessions."""
_SCREEN: Final = re.compile(r"\s+\d+\.([^\t]+)\t\((?!.*Dead \?)")
_NONE: Final = re.compile(
    r"no server running|No such file or directory|No Sockets found|no sessions"
)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class AskMachine(Protocol):
    """Asks a host's agent or (``None``) this machine (``ask_host``)."""

    async def __call__(self, host: str | None, asks: Iterable[Ask], deadline: float) -> Answers:
        """Return each question's answer or problem."""


class Wanted(NamedTuple):
    """What one monitor needs: names of sessions, where they may be, the endpoint's address."""

    sessions: Mapping[str, str]
    """By what they are for ("tunnel session")."""
    host: str | None = None
    mcp_url: str | None = None


class Gone(NamedTuple):
    """Lines about what is gone, and about what could not be looked at."""

    gone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Lifelines:
    """Looks at what many monitors need: each machine, and each endpoint, once."""

    def __init__(self, clock: Clock, ask: AskMachine = ask_host) -> None:
        self._ask = ask
        self._http = Http(clock, deadline=LIFELINES_DEADLINE)

    async def look(self, wanted: Mapping[str, Wanted]) -> dict[str, Gone]:
        """Return what is gone of each monitor, by name. Never raises."""
        hosts = {one.host for one in wanted.values() if one.sessions and one.host is not None}
        places = [None, *sorted(hosts)] if any(one.sessions for one in wanted.values()) else []
        urls = sorted({one.mcp_url for one in wanted.values() if one.mcp_url is not None})
        listed, answered = await asyncio.gather(
            _each(places, self._sessions), _each(urls, self._answers)
        )
        return {name: _gone(one, listed, answered) for name, one in wanted.items()}

    async def _sessions(self, host: str | None) -> frozenset[str] | str:
        """Return the sessions of a machine, or why they are not known."""
        answers = await self._ask(host, (ABOUT, *PROGRAMS), LIFELINES_DEADLINE)
        if isinstance(problem := answers[ABOUT], Problem):
            return problem.message
        said = []
        for answer in (answers[each] for each in PROGRAMS):
            if not isinstance(answer, Problem):
                said.append("\n".join(answer[1:3]))
            elif answer.kind is not ErrorKind.NOT_FOUND:  # else it is not installed there
                return answer.message
        found = sessions_in(said)
        where = host or "this machine"
        return f"{where}: its sessions cannot be listed" if found is None else found

    async def _answers(self, url: str) -> bool | str:
        """Return whether somebody listens; any answer over HTTP is one."""
        if urlsplit(url).hostname not in _LOOPBACK:
            return f"{clean(url, 200)} is not on this machine: not asked"
        try:
            await self._http.send("GET", url)
        except HttpError as error:
            if error.status is not None or error.kind is ErrorKind.BAD_ANSWER:
                return True
            return False if error.kind is ErrorKind.REFUSED else str(error)
        return True


async def _each(keys: Sequence[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    return dict(zip(keys, await asyncio.gather(*(ask(key) for key in keys)), strict=True))


def sessions_in(listings: Iterable[str]) -> frozenset[str] | None:
    """Return the sessions in what each program has printed; ``None`` if one could not tell.

    Without tmux and screen there is no session; what they refuse to tell is unknown.
    """
    names: set[str] = set()
    for said in (listing.splitlines() for listing in listings):
        found = [line[1:] for line in said if line.startswith("=")]
        found += [match[1] for line in said if (match := _SCREEN.match(line))]
        if not found and any(said) and not any(_NONE.search(line) for line in said):
            return None
        names |= set(found)
    return frozenset(names)


def _gone(
    one: Wanted,
    listed: Mapping[str | None, frozenset[str] | str],
    answered: Mapping[str, bool | str],
) -> Gone:
    gone, notes = [], []
    places = [None] if one.host is None else [None, one.host]
    for purpose, name in one.sessions.items():
        told = [listed[place] for place in places]
        spellings = {name, name.replace(".", "_").replace(":", "_")}
        if any(isinstance(each, frozenset) and each & spellings for each in told):
            continue
        silent = [each for each in told if isinstance(each, str)]
        where = "this machine" if one.host is None else f"this machine or {one.host}"
        if silent:
            notes.append(f"cannot tell whether its {purpose} {name} is alive: {silent[0]}")
        else:
            none = f"no tmux or screen session of that name on {where}"
            gone.append(f"its {purpose} {name} is gone: {none}")
    if one.mcp_url is not None:
        alive = answered[one.mcp_url]
        if alive is False:
            gone.append(f"its MCP server is down: {clean(one.mcp_url, 200)} refuses connections")
        elif isinstance(alive, str):
            notes.append(f"cannot tell whether its MCP server is up: {alive}")
    return Gone(tuple(gone), tuple(notes))


DEADLINE: Final = 4.0
"""Less than a whole bulk is given: one that hangs does not cost the others their answer."""
SPARE: Final = 1.0
"""Seconds that reading files may take for there to be time to look at what monitors need."""
STALE_AFTER: Final = 2.0
"""Cadences without an update after which a monitor is stale (C-03)."""
FEW: Final = 3
_TAIL: Final = 16384


class Events(NamedTuple):
    """An event log's two clocks; ``problem`` is why there are none."""

    mtime: float | None = None
    last_line: float | None = None
    problem: str | None = None


class FoundFiles(NamedTuple):
    """What lies on the disk: good state files, what is wrong with others, the event log."""

    states: tuple[StateRead, ...]
    problems: tuple[Problem, ...]
    events: Events


class Monitors:
    """The monitors of many runs; keeps the former content of a half-written state file."""

    def __init__(self, clock: Clock, lifelines: Lifelines | None = None) -> None:
        self._clock = clock
        self._lifelines = lifelines or Lifelines(clock)
        self._former: dict[str, StateRead] = {}

    async def observe(self, runs: Sequence[RunSpec]) -> dict[str, Facet[MonitorValue]]:
        """Return whether each run's monitor is fresh."""
        began = asyncio.get_running_loop().time()
        found = await asyncio.gather(*(self._one(run) for run in runs))
        facets = {run.name: facet for run, facet in zip(runs, found, strict=True)}
        named = {run.name: wanted_of(run, facets[run.name].value) for run in runs}
        wanted = {name: one for name, one in named.items() if one is not None}
        spent = asyncio.get_running_loop().time() - began
        gone = await self._lifelines.look(wanted) if wanted and spent < SPARE else {}
        return {name: _with(facet, gone.get(name)) for name, facet in facets.items()}

    async def _one(self, run: RunSpec) -> Facet[MonitorValue]:
        spec = run.monitor
        if spec is None or (spec.state is None and spec.events is None):
            return not_configured("[run.monitor]")
        source = clean(spec.state or spec.events, 4096)
        now = self._clock.now()
        try:
            found = await offload(self._look, spec.state, spec.events, deadline=DEADLINE)
        except TimeoutError:
            message = f"{source}: no answer within {DEADLINE:g} s"
            return unknown(ErrorKind.TIMEOUT, message, source, now)
        problem = _blind(run, found)
        if problem is not None:
            return unknown(problem.kind, problem.message, source, now)
        value = judge(run, found, now)
        return known(value, value.path or source, now)

    def _look(self, state: str | None, events: str | None) -> FoundFiles:
        states: list[StateRead] = []
        problems: list[Problem] = []
        paths = _matching(state) if state else []
        if state and not paths:
            problems += _unlisted(state)
        for path in paths:
            read = read_state(path)
            if isinstance(read, StateRead):
                read = self._former[path] = read.after(self._former.get(path))
                states.append(read)
            elif read is not None:
                problems.append(read)
                former = self._former.get(path)
                if former is not None and read.kind is ErrorKind.BAD_ANSWER:
                    states.append(former)
        return FoundFiles(tuple(states), tuple(problems), _read_events(events))


def wanted_of(run: RunSpec, value: MonitorValue | None) -> Wanted | None:
    """Return what a monitor needs to live, ``None`` if its state file names nothing."""
    if value is None:
        return None
    named = {"tunnel session": value.tunnel_session, "server session": value.server_session}
    sessions = {purpose: name for purpose, name in named.items() if name is not None}
    host = run.job.host if run.job is not None else None
    wanted = Wanted(sessions, host, value.mcp_url)
    return wanted if sessions or value.mcp_url is not None else None


def _with(facet: Facet[MonitorValue], gone: Gone | None) -> Facet[MonitorValue]:
    if facet.value is None or gone is None:
        return facet
    told = {"gone": gone.gone, "notes": (*facet.value.notes, *gone.notes)}
    return facet.model_copy(update={"value": facet.value.model_copy(update=told)})


def _matching(pattern: str) -> list[str]:
    whole = Path(pattern)
    try:
        found = list(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))
    except (OSError, ValueError, NotImplementedError):  # no pattern at all, or it may not be read
        return []
    return sorted(str(path) for path in found if not path.name.startswith("."))


def _unlisted(pattern: str) -> list[Problem]:
    """Return the reason if nothing matched only because the folder may not be listed."""
    folder = str(Path(pattern).parent)
    try:
        os.scandir(folder).close()
    except PermissionError:
        message = f"{clean(folder, 4096)}: permission denied"
        return [Problem(kind=ErrorKind.PERMISSION, message=message)]
    except (OSError, ValueError):
        pass
    return []


def _blind(run: RunSpec, found: FoundFiles) -> Problem | None:
    """Return why nothing can be said, if that is so."""
    if _mine(run, found) or found.events.mtime is not None:
        return None
    if found.problems:
        return found.problems[-1]
    if found.states:
        message = _foreign(run, found.states)[0]
        return Problem(kind=ErrorKind.BAD_ANSWER, message=message)
    spec = run.monitor
    if spec is not None and spec.state is not None:
        message = f"no file matches {clean(spec.state, 4096)}"
        return Problem(kind=ErrorKind.NOT_FOUND, message=message)
    return Problem(kind=ErrorKind.NOT_FOUND, message=found.events.problem or "no event log")


def _mine(run: RunSpec, found: FoundFiles) -> list[StateRead]:
    return [state for state in found.states if state.run in (None, run.name)]


def _foreign(run: RunSpec, states: Sequence[StateRead]) -> list[str]:
    """Name the state files of other runs; the newest first, a few of them."""
    newest = sorted(states, key=lambda state: state.mtime, reverse=True)
    return [
        f"{clean(state.path, 4096)} is the state of run {clean(state.run, 100)}"
        f" ({clean(state.owner or 'no owner', 100)}); expected run {clean(run.name, 100)}"
        for state in newest[:FEW]
    ]


def judge(run: RunSpec, found: FoundFiles, now: float) -> MonitorValue:
    """Return who monitors ``run`` and whether that monitor has moved within two cadences."""
    mine = _mine(run, found)
    newest = max(mine, key=lambda state: _update(state, now, run)[0] or 0.0, default=None)
    cadence = _cadence(run, newest)
    update, notes = (None, []) if newest is None else _update(newest, now, run)
    believable = [
        clock
        for clock in (update, found.events.mtime, found.events.last_line)
        if clock is not None and clock <= now + cadence
    ]
    last = max(believable, default=None)
    notes += [problem.message for problem in found.problems]
    notes += [] if mine else _foreign(run, found.states)
    notes += [found.events.problem] if found.events.problem else []
    fresh = last is not None and now - last <= STALE_AFTER * cadence
    return MonitorValue(
        fresh=fresh,
        doubt=None if fresh or newest is None else _doubt(newest, now, cadence),
        last_update=last,
        cadence_s=cadence,
        others=_others(newest, mine, run, now),
        notes=tuple(notes),
        **_identity(newest),
    )


def _doubt(state: StateRead, now: float, cadence: float) -> str | None:
    """Return why nobody can tell yet whether a monitor is silent, ``None`` where one can.

    Its file was written lately and its own stamp is old: either its clock is behind, or somebody
    has copied or touched what it left. The next write shows which (``StateRead.after``).
    """
    if not state.doubtful or state.stamp is None or now - state.mtime > STALE_AFTER * cadence:
        return None
    late = wording.span(state.mtime - state.stamp)
    written = wording.span(max(0.0, now - state.mtime))
    said = f"{clean(state.path, 4096)}: written {written} ago with a ts that is {late} older"
    return f"{said}; its next write will show whether its clock is behind"


def _identity(state: StateRead | None) -> dict[str, str | int | None]:
    names = (
        *("owner", "restart_count", "job_id", "path"),
        *("last_signal", "tunnel_session", "server_session", "mcp_url", "wandb", "retired"),
    )
    return {name: None if state is None else getattr(state, name) for name in names}


def _cadence(run: RunSpec, state: StateRead | None) -> float:
    """Return the cadence that the run file sets, else the monitor's own word, else the run's."""
    set_by_file = run.monitor is not None and run.monitor.cadence is not None
    if set_by_file or state is None or state.cadence_s is None:
        return run.monitor_cadence
    return state.cadence_s


def _update(state: StateRead, now: float, run: RunSpec) -> tuple[float | None, list[str]]:
    """Return when the file was last updated: its stamp on our clock, unless that cannot be."""
    slack = _cadence(run, state)
    if state.stamp is not None and state.stamp <= now + slack:
        said = f"{clean(state.path, 4096)}: its ts is {state.behind:.0f} s behind at every write"
        return state.stamp + state.behind, [said] if state.behind else []
    notes = []
    if state.stamp is not None:
        notes.append(f"{clean(state.path, 4096)}: its ts is in the future; using its mtime")
    return (state.mtime if state.mtime <= now + slack else None), notes


def _others(
    newest: StateRead | None, mine: Sequence[StateRead], run: RunSpec, now: float
) -> tuple[OtherMonitor, ...]:
    """Return the other files on the same job that are fresh, or of another owner."""
    if newest is None or newest.job_id is None:
        return ()
    rivals = []
    for state in mine:
        if state is newest or state.job_id != newest.job_id:
            continue
        update, _ = _update(state, now, run)
        fresh = update is not None and now - update <= STALE_AFTER * _cadence(run, state)
        other_owner = state.owner is not None and state.owner != newest.owner
        if fresh or other_owner:
            path = clean(state.path, 4096)
            rivals.append(
                OtherMonitor(path=path, owner=state.owner, last_update=update, fresh=fresh)
            )
    return tuple(rivals)


def _read_events(path: str | None) -> Events:
    if path is None:
        return Events()
    try:
        with open_regular(path) as (fd, found):
            tail = os.pread(fd, _TAIL, max(0, found.st_size - _TAIL))
        mtime = found.st_mtime
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "cannot be read").lower()
        return Events(problem=f"event log {clean(path, 4096)}: {reason}")
    lines = tail.decode("utf-8", "replace").splitlines()[::-1]
    utc = writes_utc(lines, mtime)
    stamps = (line_time(line, mtime, utc) for line in lines)
    return Events(mtime, next((stamp for stamp in stamps if stamp is not None), None))
