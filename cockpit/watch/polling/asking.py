"""How each facet is asked for: what one facet's source needs to know from another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from cockpit.model.facet import Facet
from cockpit.model.query import Query
from cockpit.model.report import FACETS
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.watch.polling.current_job import with_current_job
from cockpit.watch.polling.places import places_of
from cockpit.watch.polling.sources_bundle import Sources
from cockpit.watch.runstate import RunState

Answers = Mapping[str, Facet[Any]]
Key = tuple[str, str]
"""(facet, place)."""
WITH_JOB = frozenset({"log", "host"})
"""Facets whose sources are told of the current job: it may say where to look."""


class Asker:
    """Asks the sources on behalf of the engine or of a single check."""

    def __init__(self, sources: Sources, states: Mapping[str, RunState]) -> None:
        self._sources = sources
        self._states = states
        self._made: dict[str, tuple[tuple[object, ...], Query]] = {}
        """Of each run the last query, and what it was made of: most looks ask the same again."""

    def platform_of(self, run: RunSpec) -> Platform | None:
        """Return the platform of a run's job; ``None`` for a run that names no job."""
        return self._sources.platform_of(run)

    def by_place(
        self, runs: Sequence[RunSpec], facets: Sequence[str] = FACETS
    ) -> dict[Key, list[RunSpec]]:
        """Return the runs that are asked for together, by facet and place."""
        groups: dict[Key, list[RunSpec]] = {}
        for facet in facets:
            for run in runs:
                for place in places_of(facet, run, self.platform_of(run)):
                    groups.setdefault((facet, place), []).append(run)
        return groups

    async def ask(self, facet: str, place: str, runs: Sequence[RunSpec]) -> Answers:
        """Return what a place answers about one facet of ``runs``; see ``join``.

        Of runs that an edit of the run file has removed meanwhile nothing is asked any more.
        """
        runs = [run for run in runs if run.name in self._states]
        if not runs:
            return {}
        if facet == "job":
            return await self._job(runs)
        if facet == "checkpoints":
            return await self._sources.checkpoints.observe(self._queries(runs), place)
        if facet == "tracker":
            return await self._sources.tracker.observe(self._queries(runs), place)
        if facet == "code":
            return await self._sources.code.observe(runs, self._launched(runs))
        asked = self._queries(runs) if facet in WITH_JOB else runs
        answers: Answers = await getattr(self._sources, facet).observe(asked)
        return answers

    def _launched(self, runs: Sequence[RunSpec]) -> dict[str, str]:
        """Return the commits of the last launches, as the store knows them."""
        used = {run.name: self._states[run.name].shared.used for run in runs}
        return {name: each.sha for name, each in used.items() if each is not None and each.sha}

    def join(self, facet: str, place: str, answers: Answers) -> Answers:
        """Return the facets that a place's answers make, with what other places said of them."""
        if facet == "checkpoints":
            return self._sources.checkpoints.join(place, answers)
        if facet == "tracker":
            return self._sources.tracker.join(place, answers)
        return answers

    async def _job(self, runs: Sequence[RunSpec]) -> Answers:
        current = [
            with_current_job(run, self._states[run.name], self.platform_of(run)) for run in runs
        ]
        queries = [self._about_job(run) for run, _ in current]
        answers = dict(await self._sources.job.observe(queries))
        for run, named in current:
            if named is not None and (facet := answers.get(run.name)) is not None:
                source = f"{facet.source}; id from {named}"
                answers[run.name] = facet.model_copy(update={"source": source})
        return answers

    def _about_job(self, run: RunSpec) -> Query:
        state = self._states[run.name]
        last = state.facets.job.value
        ended = last if last is not None and last.phase.terminal else None
        return Query(run=run, exit_record=state.exit_record, ended=ended)

    def _queries(self, runs: Sequence[RunSpec]) -> list[Query]:
        return [self._query(run) for run in runs]

    def _query(self, run: RunSpec) -> Query:
        """Return a run with its current job, as far as that is known."""
        state = self._states[run.name]
        job, records = state.facets.job, state.facets.records.value
        told = () if records is None else records.rejected
        current = job.value if job.known else None
        last_log = None if job.known else self._last_log(run, state)
        made_of = run, current, state.exit_record, state.shared.rejected, told, last_log
        former = self._made.get(run.name)
        if former is not None and all(map(is_, former[0], made_of)):
            return former[1]
        query = Query(
            run=run,
            job=current,
            exit_record=state.exit_record,
            rejected=(*state.shared.rejected, *told),
            last_log=last_log,
        )
        self._made[run.name] = made_of, query
        return query

    def _last_log(self, run: RunSpec, state: RunState) -> str | None:
        """Return where the log was read last, if that was the log of the job that is current."""
        job, log = state.facets.job.value, state.facets.log.value
        spec = with_current_job(run, state, self.platform_of(run))[0].job
        if job is None or log is None or spec is None or spec.id not in (None, job.id):
            return None
        return log.path
