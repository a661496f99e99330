"""How each facet is asked for: what one facet's source needs to know from another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cockpit.model.facet import Facet
from cockpit.model.observed import Phase
from cockpit.model.query import Query
from cockpit.model.run import RunSpec
from cockpit.watch.polling.current_job import with_current_job
from cockpit.watch.polling.sources_bundle import Sources
from cockpit.watch.runstate import RunState

Answers = Mapping[str, Facet[Any]]


class Asker:
    """Asks the sources on behalf of the engine or of a single check."""

    def __init__(self, sources: Sources, states: Mapping[str, RunState]) -> None:
        self._sources = sources
        self._states = states

    async def ask(self, facet: str, runs: Sequence[RunSpec]) -> Answers:
        """Return the answers of one facet for ``runs``."""
        if facet == "job":
            return await self._job(runs)
        if facet in ("log", "host"):
            observe = getattr(self._sources, facet).observe
            found: Answers = await observe([self._query(run) for run in runs])
            return found
        if facet == "checkpoints":
            rejected = {run.name: self._states[run.name].shared.rejected for run in runs}
            return await self._sources.checkpoints.observe(runs, self._alive(runs), rejected)
        answers: Answers = await getattr(self._sources, facet).observe(runs)
        return answers

    async def _job(self, runs: Sequence[RunSpec]) -> Answers:
        current = [with_current_job(run, self._states[run.name]) for run in runs]
        queries = [
            Query(run=run, exit_record=self._states[run.name].exit_record) for run, _ in current
        ]
        answers = dict(await self._sources.job.observe(queries))
        for run, named in current:
            if named is not None and (facet := answers.get(run.name)) is not None:
                source = f"{facet.source}; id from {named}"
                answers[run.name] = facet.model_copy(update={"source": source})
        return answers

    def _query(self, run: RunSpec) -> Query:
        """Return a run with its current job, as far as that is known."""
        state = self._states[run.name]
        job = state.facets.job
        return Query(
            run=run,
            job=job.value if job.known else None,
            exit_record=state.exit_record,
            rejected=state.shared.rejected,
        )

    def _alive(self, runs: Sequence[RunSpec]) -> dict[str, bool]:
        """Say of which runs the job is known to be alive or over; the rest stay unknown."""
        jobs = ((run.name, self._states[run.name].facets.job) for run in runs)
        return {
            name: not job.value.phase.terminal
            for name, job in jobs
            if job.known and job.value is not None and job.value.phase is not Phase.UNKNOWN
        }
