"""Who monitors the run, and whether the monitor itself is alive (SPEC S-9, C-03).

Three clocks: the state file's time stamp, the event log's mtime, its last stamped line. The
newest believable one counts. Nothing here says anything about the run's own health.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, not_configured, unknown
from cockpit.model.observed import MonitorValue, OtherMonitor
from cockpit.model.run import RunSpec
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import open_regular
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.sources.monitor.file import StateRead, read_state
from cockpit.sources.monitor.lifelines import Gone, Lifelines, Wanted
from cockpit.text.safe import clean

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
