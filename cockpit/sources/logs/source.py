"""The tail of each run's own log, its clocks, and the training progress in its new lines."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue, Row
from cockpit.model.place import SSH, Place, on_host
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import Announced
from cockpit.runtime.offload import Call, Outcome, offload_each
from cockpit.sources.logs import follow, stamp
from cockpit.sources.logs.file import show
from cockpit.sources.logs.pieces import Answer, Ask, PackedError, Told, refuse_packed
from cockpit.sources.logs.present import Several, logs_of, patterned, patterns_away, plainly
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.remote import HostAsk, HostError, Hosts, RemoteLog, log_at
from cockpit.text.announced import announced
from cockpit.text.progress import is_drawn_bar
from cockpit.text.progress_lines import Nesting
from cockpit.text.safe import safe_line

AWAY: Final = 5.0
"""The same for a log of another machine, after the one trip that has brought what most looks need:
both together take less than its poller waits."""
DEADLINE: Final = 4.0
"""Less than a whole bulk is given: one log that hangs does not cost the others their answer."""
WHOLE: Final = 524_288
"""Bytes of logs that first looks read from their beginning, over all runs that are asked at once:
rows cost one to two seconds for a megabyte. A log beyond its share is read from near its end."""
FAR: Final = 65_536
"""The same for one log of another machine."""
WORTH: Final = 0.005
"""Seconds below which the unread part of a log is not searched at a first look: too many logs."""
TAIL: Final = 50
"""Lines of a log that are kept in its facet."""


class Logs:
    """Observes the logs of the runs; remembers per run how far it has read.

    ``find`` tells alarming lines among bytes that are not read line by line; ``call`` calls
    functions of the agents of ssh hosts.
    """

    def __init__(
        self, clock: Clock, find: follow.Find = lambda _data: (), call: CallHost = call_blocking
    ) -> None:
        self._clock = clock
        self._hosts = Hosts(call)
        self._find = find
        self._followed: dict[str, _Followed] = {}
        self._shown: dict[str, str] = {}
        """By run, which of several logs is shown."""
        self._share = follow.FIRST

    async def observe(
        self,
        queries: Sequence[Query],
        places: Mapping[str, Place] | None = None,
        others: Mapping[str, Sequence[Place]] | None = None,
    ) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run, by run name; of all logs of a host in one trip.

        ``places`` says where a run's log lies (by run name) if not at ``job.log``; ``others`` what
        each run writes besides.
        """
        named = {query.name: _named(query.run) for query in queries}
        own = named | {name: place for name, place in (places or {}).items() if name in named}
        several = await self._several(queries, own, others or {})
        named = {key: place for each in several.values() for key, place in each.places.items()}
        share = self._shared(len(named))
        brought = await self._hosts.bring(self._asks(named, share.busy))
        facets = {name: self._begun(place, name) for name, place in named.items()}
        followed = {name: one for name, one in facets.items() if isinstance(one, _Followed)}
        answers = {name: one for name, one in facets.items() if isinstance(one, Facet)}
        # All of this machine in one hop to a thread, those of others in one. A log that is as it
        # was according to its host needs no thread: most are, at most looks.
        now = self._clock.now()
        found = {
            name: known(value, value.path, now)
            for name, one in followed.items()
            if (value := one.as_before(brought.get(name))) is not None
        }
        rest = {name: one for name, one in followed.items() if name not in found}
        here = {name: one for name, one in rest.items() if one.place.here}
        away = {name: one for name, one in rest.items() if name not in here}
        hops = (_in_a_hop(here, share, {}, DEADLINE), _in_a_hop(away, share, brought, AWAY))
        for looked in await asyncio.gather(*hops):
            found |= {name: _facet_of(rest[name].place, each, now) for name, each in looked.items()}
        answers |= found
        # Nothing waits from here on: rows that are taken are also delivered.
        return {name: self._together(each, answers) for name, each in several.items()}

    async def _several(
        self,
        queries: Sequence[Query],
        own: Mapping[str, Place | None],
        others: Mapping[str, Sequence[Place]],
    ) -> dict[str, Several]:
        """Return the logs of each run; patterns are looked for apart, as a disk may hang."""
        found = {
            each.name: plainly(each, own[each.name], others.get(each.name, ())) for each in queries
        }
        wanted = {each.name: each for each in queries if patterned(each)}
        patterns = [
            each for name, query in wanted.items() for each in patterns_away(query, own[name])
        ]
        away = await self._hosts.matching(patterns)
        calls = [
            Call(partial(logs_of, query, own[name], others.get(name, ()), away), (logs_of, name))
            for name, query in wanted.items()
        ]
        for name, outcome in zip(wanted, await offload_each(calls, deadline=1.0), strict=True):
            with suppress(OSError):
                found[name] = outcome.value
        return found

    def _together(self, logs: Several, answers: Mapping[str, Facet[LogValue]]) -> Facet[LogValue]:
        """Return the facet of the log of a run that steps, with the others by name."""
        found = {key: self._with_rows(key, answers[key]) for key in logs.places}
        if len(found) == 1:
            return found[logs.name]
        steps = {
            key for key in found if key in self._followed and self._followed[key].step is not None
        }
        shown = self._shown[logs.name] = logs.shown(found, steps, self._shown.get(logs.name))
        step = self._followed[shown].step if shown in self._followed else None
        return logs.joined(shown, found, step)

    def _with_rows(self, name: str, facet: Facet[LogValue]) -> Facet[LogValue]:
        followed = self._followed.get(name)
        if facet.value is None or followed is None or not (rows := followed.take_rows()):
            return facet
        value = facet.value.model_copy(update={"rows": rows})
        return facet.model_copy(update={"value": value})

    def _asks(self, places: Mapping[str, Place | None], busy: int) -> dict[str, HostAsk]:
        found = {}
        for name, place in places.items():
            if place is not None and place.scheme == SSH:
                found[name] = HostAsk(place.host, self._following(name, place).ask(busy))
        return found

    def _shared(self, asked: int) -> Share:
        self._share = max(follow.FIRST, WHOLE // max(asked, 1))
        return Share(asked, sum(each.budget.busy for each in self._followed.values()))

    def _following(self, name: str, place: Place) -> _Followed:
        """Return what is followed for a run; raises ``OSError`` if such a place is not read."""
        followed = self._followed.get(name)
        if followed is None or followed.place != place:
            log = self._hosts.log(place) if place.scheme == SSH else log_at(place)
            whole = min(self._share, FAR) if log.far else self._share
            followed = self._followed[name] = _Followed(log, self._find, whole)
        return followed

    def _begun(self, place: Place | None, name: str) -> _Followed | Facet[LogValue]:
        """Return what is followed for a run, or why nothing is."""
        if place is None:
            return not_configured("job.log")
        try:
            return self._following(name, place)
        except OSError as error:
            now = self._clock.now()
            return unknown(ErrorKind.UNSUPPORTED, str(error.strerror), str(place), now)


def _named(run: RunSpec) -> Place | None:
    """Return where the run file says that the log lies."""
    job = run.job
    if job is None or job.log is None or not job.log.here:
        return None if job is None else job.log
    return on_host(job.host, job.log.path)


class Share(NamedTuple):
    """Among how many logs that are asked for together, and that are busy, the time is shared."""

    asked: int
    busy: int


async def _in_a_hop(
    followed: Mapping[str, _Followed], share: Share, told: Mapping[str, Told], deadline: float
) -> dict[str, Outcome[LogValue]]:
    calls = [Call(partial(one.look, share, told.get(name)), one) for name, one in followed.items()]
    return dict(zip(followed, await offload_each(calls, deadline=deadline), strict=True))


def _facet_of(place: Place, outcome: Outcome[LogValue], now: float) -> Facet[LogValue]:
    path = str(place)
    try:
        value = outcome.value
    except HostError as error:
        return unknown(error.kind, str(error.strerror), path, now)
    except TimeoutError as error:
        return unknown(ErrorKind.TIMEOUT, f"{path}: {error.strerror or error}", path, now)
    except (FileNotFoundError, NotADirectoryError):
        return unknown(ErrorKind.NOT_FOUND, f"no log {path}", path, now)
    except PermissionError:
        return unknown(ErrorKind.PERMISSION, f"no permission to read {path}", path, now)
    except PackedError as error:
        text = f"{path} is packed with {error.strerror}: name the log that is being written"
        return unknown(ErrorKind.UNSUPPORTED, text, path, now)
    except OSError as error:
        return unknown(ErrorKind.BAD_ANSWER, f"cannot read {path}: {error.strerror}", path, now)
    return known(value, value.path, now)


class _Followed:
    """One run's log between two looks. ``look`` blocks; the rest is called by the event loop."""

    def __init__(self, configured: Ranged, find: follow.Find, whole: int = follow.FIRST) -> None:
        self.place = configured.place
        self._configured = configured
        self.budget = follow.Budget()
        self._find = find
        self._left = follow.Left()
        self._whole = whole
        self._follower: follow.Follower | None = None
        self._value: LogValue | None = None
        self._rows: list[Row] = []
        self._bar = b""
        self._nesting = Nesting()
        self._step: int | None = None
        self._newest_loss: Row | None = None
        self._begin = 0
        self._anew: tuple[float | None, tuple[str, ...]] = None, ()
        self._offset = 0.0
        self._asked: tuple[object, Ask] | None = None
        """What the last look asked for, and what that followed from."""
        self._lock = threading.Lock()

    def ask(self, busy: int) -> Ask:
        """Return what the next look will need of a log on an ssh host."""
        assert isinstance(self._configured, RemoteLog)
        follower = self._follower
        if follower is None:
            return self._configured.ask(follow.Follower(self._configured, whole=self._whole).wish())
        most = self.budget.bytes(busy)
        of = follower, follower.at, most
        if self._asked is None or self._asked[0] != of:
            self._asked = of, self._configured.ask(follower.wish(most), follower.log)
        return self._asked[1]

    def look(self, share: Share, told: Told | None = None) -> LogValue:
        """Return the newest value, the same object as before if nothing has changed.

        ``told`` was brought for it from its host. Raises ``OSError`` when it cannot be read.
        """
        with self._lock:
            log = self._configured
            if told is not None and isinstance(log, RemoteLog):
                log = log.answered(told)
            log = log.newest()
            if self._value is None:
                refuse_packed(log)
            if self._follower is None or self._follower.log.place != log.place:
                known = self._follower is not None
                self._follower = follow.Follower(log, from_start=known, whole=self._whole)
                self._value = self._newest_loss = None
                self._left = follow.Left()
            self._follower.log = log
            news = self._follower.look(TAIL, self.budget.bytes(share.busy))
            if news is not None:
                broken = self._leave_out(log, news, share)
                began = time.thread_time()  # what others take of the machine is not its cost
                moved = self._follower.moved_to
                self._digest(moved or log.path, news, broken, None if moved is None else log.path)
                read = sum(map(len, news.states))
                self.budget.took(read, time.thread_time() - began)
            if self._value is None:
                raise FileNotFoundError(log.path)
            return self._value

    def as_before(self, told: Told | None) -> LogValue | None:
        """Return the newest value where its host has ``told`` that nothing has changed since.

        ``None`` where a look is needed to tell, or one is still under way.
        """
        log = self._configured
        if not isinstance(told, Answer) or not isinstance(log, RemoteLog):
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            follower, place = self._follower, log.answered(told).newest().place
            read = follower is not None and follower.has_read(place, told.version)
            return self._value if read else None
        finally:
            self._lock.release()

    @property
    def step(self) -> int | None:
        """The newest step that it has told."""
        return self._step

    def take_rows(self) -> tuple[Row, ...]:
        """Return the rows read since the last call: none is lost to a deadline."""
        rows, self._rows = self._rows, []
        return tuple(rows)

    def _leave_out(self, log: Ranged, news: follow.News, share: Share) -> tuple[bytes, ...]:
        """Account for what was skipped; return the lines in it whose numbers are none.

        Those of a first look may be an earlier job's, and are looked for apart.
        """
        if self._value is not None and news.size < self._value.size:
            self._left = follow.Left()
        self._left.dropped = news.begin
        if news.skipped is None:
            return ()
        begin, end = news.skipped
        seconds = follow.SCAN_S / max(1, share.asked if news.first else share.busy)
        if news.first and (log.far or seconds < WORTH):
            found = follow.Search((), 0, end - begin)
        else:
            found = follow.search(log, begin, end, self._find, seconds)
        self._left.add(begin, end, found)
        broken = () if news.first else found.lines
        return tuple(line.raw for line in broken if line.name == "numeric_instability")

    def _digest(
        self, path: str, news: follow.News, broken: tuple[bytes, ...], moved_from: str | None = None
    ) -> None:
        lines = tuple(show(raw) for raw in news.tail)
        newest_first = [line.plain for line in reversed(lines)]
        utc = stamp.writes_utc(newest_first, news.mtime)
        since = None if news.first or self._value is None else self._value.mtime
        states = self._states(news)
        off = self._offset = stamp.clock_offset(
            newest_first, news.mtime, utc, self._offset, grown=bool(states) and not news.first
        )
        if news.anew:
            self._nesting = Nesting()
        new = (*broken, *states)
        rows = stamp.read_rows(new, news.mtime, since, utc, self._step, off, self._nesting)
        if news.first and self._follower is not None:
            rows = self._with_first_broken(rows, self._follower, news, utc)
        self._step = next((row.step for row in reversed(rows) if row.step is not None), self._step)
        self._rows += rows
        self._newest_loss = next(
            (row for row in reversed(rows) if row.loss is not None),
            None if news.anew else self._newest_loss,
        )
        former = Announced() if self._value is None else self._value.announced
        written = partial(stamp.written_until, news.states, mtime=news.mtime, utc=utc, offset=off)
        if news.anew and self._value is not None:
            self._anew = news.mtime, tuple(line.plain for line in self._value.lines)
        self._value = LogValue(
            path=path,
            size=news.size,
            mtime=news.mtime,
            last_line_at=stamp.last_line_at(newest_first, news.mtime, utc, off),
            lines=lines,
            offsets=news.starts,
            inode=news.inode,
            torn=bool(news.rest) and not self._bar,
            skipped=self._left.value,
            newest_loss=self._newest_loss,
            rows_begin=self._begin,
            announced=announced(news.states, former, written, news.first),
            clock_offset_s=off or None,
            moved_from=moved_from,
            begun_anew_at=self._anew[0],
            former_end=self._anew[1],
        )

    def _with_first_broken(
        self, rows: list[Row], follower: follow.Follower, news: follow.News, utc: bool
    ) -> list[Row]:
        """Return the first look's rows; before a loss that is no number, those that led to it.

        The first look reads the end of the log only, and the trouble may be much older.
        """
        self._begin = follower.begin
        losses = [row.true_loss for row in rows if row.true_loss is not None]
        if not self._begin or all(math.isfinite(loss) for loss in losses):
            return rows
        earlier = follow.before(follower.log, self._begin)
        self._begin = earlier.begin
        old = stamp.read_rows(earlier.states, news.mtime, None, utc, None, self._offset)
        timed = [row if row.at != news.mtime else row._replace(at=None) for row in old]
        return [*timed, *rows]

    def _states(self, news: follow.News) -> tuple[bytes, ...]:
        """Return the new states, among them a bar that is drawn but not overwritten yet.

        A bar writes no line break behind its newest state, only before the next one; it is
        whole once its bracket is closed.
        """
        states = news.states
        if self._bar and states[:1] == (self._bar,):
            states = states[1:]  # it was taken when it was the newest
        if news.rest == self._bar and not news.states:
            return states
        drawn = is_drawn_bar(safe_line(news.rest).plain)
        self._bar = news.rest if drawn else b""
        return (*states, self._bar) if drawn else states
