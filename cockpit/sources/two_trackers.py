"""A run that two trackers know: their facets joined into one, its rows from the better of both."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from cockpit.model.clock import Clock
from cockpit.model.facet import OF_A_RUN, ErrorKind, Facet, Problem, not_configured, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.run import RunSpec
from cockpit.sources.curve_fold import RowChunk
from cockpit.sources.file_tracker import TrackedRuns
from cockpit.sources.run_rows import ENDED

Value = Facet[TrackerValue]
"""The tracker facet of one run."""


class Tracker(Protocol):
    """What tells of runs: one tracker, or two of them. No method raises."""

    async def observe(self, queries: Sequence[Query], at: str | None = None) -> dict[str, Value]:
        """Return what is said ``at`` a place (``None``: everywhere) of each run."""

    def join(self, at: str, answers: Mapping[str, Value]) -> dict[str, Value]:
        """Return the facet of each run, of which one place has answered."""

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as far as the last look tells."""

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without those before them."""

    def rewind(self, run: str) -> None:
        """Give out every row of a run from the first one again."""

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with runs: the next rows of each are its first ones."""

    def best(self, run: RunSpec) -> TrackedRuns:
        """Return what a run is read by."""


class Part(NamedTuple):
    """One of two trackers, and the places at which it is asked about a run."""

    tracker: Tracker
    places: Callable[[RunSpec], tuple[str, ...]]


class TwoFacets(ABC):
    """What two trackers have said last of one run: ``best`` is the number of the one it is read by.

    ``gives`` is the one that has given out its rows last.
    """

    def __init__(self, places: tuple[str, ...], best: int) -> None:
        self.places = places
        self.best = best
        self.gives: int | None = None
        self._said: dict[int, Value] = {}

    def with_answer(self, part: int, answer: Value, now: float) -> Value:
        """Take an answer in that came at ``now`` (monotonic), and return the facet of the run."""
        self._said[part] = answer
        self._heed(part, answer, now)
        if len(self._said) < 2:
            self.best = part
            return answer
        self.best, joined = self._joined(self._said[0], self._said[1], now)
        return joined

    @abstractmethod
    def _heed(self, part: int, answer: Value, now: float) -> None:
        """Remember of an answer what later ones are judged by."""

    @abstractmethod
    def _joined(self, first: Value, second: Value, now: float) -> tuple[int, Value]:
        """Return which one the run is read by, and its facet."""


class TwoTrackers:
    """Two trackers that are asked about the same runs; no method raises."""

    def __init__(
        self,
        clock: Clock,
        parts: tuple[Part, Part],
        facets: Callable[[tuple[str, ...], int], TwoFacets],
    ) -> None:
        """``facets`` makes what joins the two facets of one run."""
        self._clock = clock
        self._parts = parts
        self._make = facets
        self._runs: dict[str, TwoFacets] = {}
        self._asked: dict[str, RunSpec] = {}

    async def observe(self, queries: Sequence[Query], at: str | None = None) -> dict[str, Value]:
        """Return the tracker facet of each run, or only what is said of it ``at`` one place."""
        found: dict[str, Value] = {}
        for query in queries:
            if not self._know(query.run).places:
                found[query.name] = self._nowhere(query.run)
        for number, part in enumerate(self._parts):
            own = [query for query in queries if self._is_asked(query.run, number, at)]
            if own:
                answers = await part.tracker.observe(own, at)
                found |= answers if at is not None else self._joined(number, answers)
        return found

    def join(self, at: str, answers: Mapping[str, Value]) -> dict[str, Value]:
        """Return the whole facet of each run that a place has answered for, or failed to."""
        joined = dict(answers)
        for number, part in enumerate(self._parts):
            own = {
                name: answer for name, answer in answers.items()
                if name in self._asked and self._is_asked(self._asked[name], number, at)
            }  # fmt: skip
            joined |= self._joined(number, part.tracker.join(at, own)) if own else {}
        return joined

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from wherever the run is seen best."""
        return await self._giving(run).more_rows(run)

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as the last look found its source."""
        known = self._runs.get(run.name)
        if known is None or known.gives != known.best:
            return True
        return self._parts[known.best].tracker.may_have_rows(run)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without those before them."""
        return await self._giving(run).recent(run, rows)

    def rewind(self, run: str) -> None:
        """Give out every row of a run from the first one again."""
        for part in self._parts:
            part.tracker.rewind(run)

    def forget(self, names: Iterable[str]) -> None:
        """Start again with runs: the next rows of each are its first ones."""
        names = tuple(names)
        for name in names:
            self._runs.pop(name, None)
        for part in self._parts:
            part.tracker.forget(names)

    def best(self, run: RunSpec) -> TrackedRuns:
        """Return what a run is seen best by."""
        return self._parts[self._know(run).best].tracker.best(run)

    def _nowhere(self, run: RunSpec) -> Value:
        """Return the facet of a run that has no place to ask."""
        return not_configured("a tracker")

    def _know(self, run: RunSpec) -> TwoFacets:
        places = tuple(place for part in self._parts for place in part.places(run))
        self._asked[run.name] = run
        known = self._runs.get(run.name)
        if known is None or known.places != places:
            first = next((at for at, part in enumerate(self._parts) if part.places(run)), 0)
            known = self._runs[run.name] = self._make(places, first)
        return known

    def _is_asked(self, run: RunSpec, number: int, at: str | None) -> bool:
        """Tell whether a part answers for a run at a place."""
        places = [part.places(run) for part in self._parts]
        if at is None or at in places[number] or not any(at in each for each in places):
            return bool(places[number])
        return False

    def _joined(self, number: int, answers: Mapping[str, Value]) -> dict[str, Value]:
        now = self._clock.monotonic()
        runs = {name: self._know(self._asked[name]) for name in answers}
        return {
            name: runs[name].with_answer(number, answer, now) if len(runs[name].places) > 1
            else answer
            for name, answer in answers.items()
        }  # fmt: skip

    def _giving(self, run: RunSpec) -> Tracker:
        """Return who gives out a run's rows; after a change, all of them from the first one."""
        known = self._know(run)
        tracker = self._parts[known.best].tracker
        if known.gives not in (None, known.best):
            tracker.rewind(run.name)
        known.gives = known.best
        return tracker


def leads(one: TrackerValue, other: TrackerValue, lead: float) -> bool:
    """Tell whether the last step that ``one`` shows is newer, by more than ``lead`` seconds."""
    if one.last_step_at is not None and other.last_step_at is not None:
        return one.last_step_at > other.last_step_at + lead
    return other.last_step_at is None and one.last_step_at is not None


def taken(value: TrackerValue, other: TrackerValue, fields: Iterable[str]) -> TrackerValue:
    """Return a value with those fields of another one that this one has."""
    known = {name: getattr(other, name) or getattr(value, name) for name in fields}
    return value.model_copy(update=known)


_OF_THE_SERVER: Final = ("name", "entity", "project", "url", "heartbeat_at")
_OF_THE_FILES: Final = ("fragments", "files", "writers", "slurm_job_id")
_ABSENT: Final = frozenset((ErrorKind.NOT_FOUND, ErrorKind.NOT_CONFIGURED))
TOGETHER: Final = 1.0
"""Seconds by which the files and the server of W&B may show a step at different times."""


class FilesAndServer(TwoFacets):
    """A run's W&B files and its server: it is read where the newer step is seen, else in files."""

    _seen: TrackerValue | None = None
    """What the server said when it last said anything."""

    def _heed(self, part: int, answer: Value, now: float) -> None:
        if part == 1 and answer.known:
            self._seen = answer.value

    def _joined(self, first: Value, second: Value, now: float) -> tuple[int, Value]:
        if first.value is not None and first.known:
            if second.value is not None and second.known:
                return self._fresher(first, first.value, second, second.value)
            return self._files_alone(first, first.value, second)
        if second.known:
            return 1, second
        if first.error is None or first.error.kind in _ABSENT:
            return self.best, second
        said = second.error.message if second.error is not None else "no answer yet"
        text, source = f"{first.error.message}; {said}", f"W&B files, {second.source}"
        return self.best, unknown(first.error.kind, text, source, second.since or 0.0)

    def _fresher(
        self, files: Value, here: TrackerValue, server: Value, there: TrackerValue
    ) -> tuple[int, Value]:
        """Return the facet of the place that shows the newer step; the files' at a tie."""
        if leads(there, here, TOGETHER):
            value = there.model_copy(update={name: getattr(here, name) for name in _OF_THE_FILES})
            source = f"{server.source}, ahead of the {files.source.removeprefix('W&B ')}"
            return 1, server.model_copy(update={"value": value, "source": source})
        value = taken(here, there, _OF_THE_SERVER)
        if here.exit_code is None and here.state == "silent" and there.state in ENDED:
            value = value.model_copy(update={"state": there.state})
        lead = "ahead of" if leads(here, there, TOGETHER) else "as fresh as"
        source = f"{files.source}, {lead} {server.source.removeprefix('W&B at ')}"
        return 0, files.model_copy(update={"value": value, "source": source})

    def _files_alone(self, files: Value, here: TrackerValue, server: Value) -> tuple[int, Value]:
        """Return what the files say while the server says nothing.

        Files that are silent are no evidence against a run that may go on elsewhere: then what
        they hold is shown, with why the rest is unknown.
        """
        error = server.error
        absent = error is not None and error.kind in _ABSENT
        if self._seen is not None and leads(self._seen, here, TOGETHER) and not absent:
            return self.best, server
        goes_on = absent or here.state != "silent"
        why = f"; {error.message}" if error is not None else ""
        update: dict[str, object] = {"source": f"{files.source}{why}"}
        if not goes_on:
            update |= {"error": error, "since": server.since, "observed_at": here.file_mtime}
        return 0, files.model_copy(update=update)


PATIENCE: Final = 600.0
"""Seconds for which finelog may fail to answer before another tracker stands in."""
LEAD: Final = 300.0
"""Seconds by which the other tracker's last step is newer where finelog has lost its writer."""
_OF_THE_OTHER: Final = (
    "id", "name", "entity", "project", "url", "config", "config_since", "git_commit",
    "slurm_job_id", "alerts",
)  # fmt: skip
"""What finelog does not know."""


class FinelogAndOther(TwoFacets):
    """A run's finelog and another tracker, which stands in where finelog does not answer."""

    _answered = -math.inf

    def _heed(self, part: int, answer: Value, now: float) -> None:
        if part == 0 and answer.known:
            self._answered = now

    def _joined(self, first: Value, second: Value, now: float) -> tuple[int, Value]:
        if first.value is not None and first.known:
            its = second.value
            if its is None:
                source = f"{first.source}; {second.why_unknown('')}"
                return 0, first.model_copy(update={"source": source})
            # After a resume from an earlier checkpoint a newer step has a lower number.
            if second.known and leads(its, first.value, LEAD) and its.step != first.value.step:
                source = f"{second.source}, ahead of {first.source}"
                return 1, second.model_copy(update={"source": source})
            source = f"{first.source}, preferred to {second.source}"
            joined = taken(first.value, its, _OF_THE_OTHER)
            return 0, first.model_copy(update={"value": joined, "source": source})
        assert first.error is not None, "no value without a reason"
        if not second.known:
            why = f"{first.error.message}; {second.why_unknown('no answer')}"
            problem = Problem(kind=first.error.kind, message=why)
            return self.best, first.model_copy(update={"error": problem})
        if first.error.kind not in OF_A_RUN and now - self._answered < PATIENCE:
            return self.best, first
        source = f"{second.source}; {first.error.message}"
        return 1, second.model_copy(update={"source": source})
