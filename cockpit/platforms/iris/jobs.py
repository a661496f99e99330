"""Jobs of kind ``iris``: one look at a controller tells of all runs that it has (SPEC S-1, J).

What the controller does not list is unknown, never over. A job that is called running may have
no task that runs; a parent that succeeded may have a child that failed: see ``answers``, ``trees``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.hosts.notes import number_of
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, Query
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.command import Tokens, auth_of
from cockpit.platforms.iris import trees
from cockpit.platforms.iris.answers import Job, job_of, phase_of, request_of, waiting_of
from cockpit.platforms.iris.lineage import FITS, OWN, LiveJobs, of_interest, roots_of
from cockpit.platforms.iris.memory import OFFERS, Details, Memory, TreesNow
from cockpit.platforms.iris.rpc import (
    Controller,
    address_of,
    endpoint_of,
)
from cockpit.platforms.iris.spelling import user_for
from cockpit.platforms.local.programs import arguments
from cockpit.platforms.table import PlaceClock, ask_each, by_place, unanswered, unknown_lives
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.offload import offload
from cockpit.text.safe import clean

QUICK: Final = 4.5
"""Seconds that a look may take: a single check gives a facet six."""
PATIENT: Final = 15.0
"""The same after a look that was not answered in time: a slow tunnel is no dead one."""
SPARE: Final = 0.3
DETAILS: Final = 1.0
"""Seconds that a look waits for what single jobs tell; what comes later is shown later."""
FILES: Final = 2.0
LIVE_DEADLINE: Final = 20.0
MOST_ASKED: Final = 200
CONTROL: Final = "training_control"
"""The key of a handle that names the job through which a trainer can be asked to save."""
WRONG: Final = "not an Iris job; expected /user/name"
NOT_NAMED: Final = "no job yet: job.id is not set, and no launch of the run is recorded"


class _Place:
    """A controller, and what is remembered of it."""

    def __init__(self, controller: Controller, clock: Clock) -> None:
        self.controller = controller
        self.memory = Memory(clock)
        self.details = Details(clock)
        self.be_patient(False)
        self.clock = PlaceClock()
        self._asking: asyncio.Task[None] | None = None

    def be_patient(self, patient: bool) -> None:
        """Say how long a look may take; a request takes less, so that its own error is reported."""
        self.patience = PATIENT if patient else QUICK
        self.controller.deadline = self.patience - SPARE

    async def ask(self, runs: Sequence[RunSpec], look: TreesNow) -> None:
        """Ask about single jobs, and wait a moment for it: the rest comes with a later look."""
        if self._asking is None:
            lives = [tree for tree in look.trees.values() if phase_of(tree.own).lives]
            ended, new = list(_badly_ended(runs, look)), list(of_interest(look))
            self._asking = asyncio.create_task(
                self.details.ask(self.controller, ended, new, lives), name="details of Iris jobs"
            )
        await asyncio.wait({self._asking}, timeout=DETAILS)
        if self._asking.done():
            asked, self._asking = self._asking, None
            asked.result()


class TreesAnswer(NamedTuple):
    """The answer of one look, and what is known of single jobs."""

    place: _Place
    look: TreesNow
    never: frozenset[str]
    beside: LiveJobs


class IrisJobs:
    """Observes the jobs of any number of controllers; asks each once for all of its runs."""

    def __init__(self, clock: Clock, http: Http, tokens: Tokens) -> None:
        self._clock = clock
        self._http = http
        self._tokens = tokens
        self._places: dict[tuple[str, str], _Place] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run, by run name; never raises."""
        groups = by_place([query.run for query in queries], endpoint_of_run)
        failed = unanswered(lambda endpoint: endpoint, self._clock)
        return await ask_each(groups, self._of_one, failed)

    async def _of_one(self, endpoint: str, runs: Sequence[RunSpec]) -> dict[str, Facet[JobValue]]:
        facets = {run.name: self._unnamed(run, endpoint) for run in runs}
        asked = [run for run in runs if facets[run.name] is None]
        found = await self._facets_of(endpoint, asked) if asked else {}
        return {name: facet or found[name] for name, facet in facets.items()}

    def _unnamed(self, run: RunSpec, endpoint: str) -> Facet[JobValue] | None:
        """Return why a run's job cannot be asked about, if it cannot."""
        job_id = id_of(run)
        if trees.is_job_id(job_id) or (not job_id and run.job is not None and run.job.match):
            return None
        text = f"job.id {clean(job_id, 80)} is not an Iris job; expected /user/name"
        text = text if job_id else NOT_NAMED
        return unknown(ErrorKind.NOT_FOUND, text, endpoint, self._clock.now())

    async def _facets_of(
        self, endpoint: str, runs: Sequence[RunSpec]
    ) -> dict[str, Facet[JobValue]]:
        """Return the facets of runs of one controller; raises ``HttpError``."""
        place = await self.place(runs)
        try:
            ids = sorted({_root_of(run) for run in runs})
            async with asyncio.timeout(place.patience):
                look = await place.memory.refresh(place.controller, ids)
                never = await _never(place.controller, look)
            place.clock.learn(place.controller.server_date, self._clock.now())
            await place.ask(runs, look)
            now = place.controller.server_date or self._clock.now()
            asked = TreesAnswer(place, look, never, LiveJobs(look, place.details, now))
        except (HttpError, TimeoutError) as error:
            late = f"{endpoint} did not answer within {place.patience:.2g} s"
            kind = error.kind if isinstance(error, HttpError) else ErrorKind.TIMEOUT
            text = f"{error if isinstance(error, HttpError) else late}"
            if kind is ErrorKind.TIMEOUT:
                place.be_patient(True)
            if kind in (ErrorKind.REFUSED, ErrorKind.TIMEOUT):
                text += "; is it up, and its tunnel?"
            raise HttpError(kind, text, retry_in=getattr(error, "retry_in", None)) from None
        place.be_patient(False)
        return {run.name: self._facet(run, asked, endpoint) for run in runs}

    async def place(self, runs: Sequence[RunSpec]) -> _Place:
        """Return the controller of some runs; raises ``HttpError``."""
        job = next((run.job for run in runs if run.job and auth_of(run.job)), runs[0].job)
        assert job is not None
        try:
            address = await offload(address_of, job, deadline=FILES)
        except TimeoutError:
            text = "the configuration of its cluster was not read in time"
            raise HttpError(ErrorKind.TIMEOUT, text) from None
        key = (address, repr(auth_of(job)))
        if key not in self._places:
            controller = Controller(self._http, self._tokens, job, address)
            self._places[key] = _Place(controller, self._clock)
        return self._places[key]

    def _facet(self, run: RunSpec, asked: TreesAnswer, endpoint: str) -> Facet[JobValue]:
        now, job_id = self._clock.now(), _root_of(run)
        recorded = tree = asked.look.trees.get(job_id) if id_of(run) else None
        source = endpoint
        newer = _launched_since(run, asked, tree)
        if newer is not None:
            source += (
                f"; found by launch id {trees.launch_id_of(newer.own.id)}, newer than {job_id}"
            )
            tree, job_id = newer, newer.own.id
        fits = _fitting(run, asked.beside, tree)
        if fits is not None:
            than = f", newer than {clean(id_of(run), 200)}" if id_of(run) else ""
            source += f"; the newest that fits job.match, {clean(fits.id, 200)}{than}"
            tree, job_id = trees.tree_of(fits.id, asked.look.live.values()), fits.id
        if tree is None and run.job is not None and not id_of(run):
            user = trees.user_of(job_id)
            text = f"no living job of {user} fits job.match {clean(run.job.match, 80)}"
            return unknown(ErrorKind.NOT_FOUND, text, endpoint, now)
        if tree is None or run.job is None:
            text = f"{endpoint} does not list {clean(job_id, 200)}: it may not have ended"
            return unknown(ErrorKind.NOT_FOUND, text, endpoint, now)
        details = asked.place.details
        shown = trees.deciding(tree, run.job)
        value = trees.value_of(tree, run.job, details.end_of(shown), never=shown.id in asked.never)
        request = details.request_of(tree.own)
        live = asked.beside.of(run, job_id)
        if fits is not None and recorded is not None and phase_of(recorded.own).lives:
            former = asked.beside.live_job(recorded.own, OWN)
            live = live.model_copy(update={"jobs": (former, *live.jobs)})
        update: dict[str, object] = {
            "bundle": None if request is None else trees.bundle_of(request),
            "accelerators": None if request is None else request.accelerators,
            "config": details.config_of(tree),
            "rivals": live.jobs,
            "possible": live.possible,
            "held": live.held,
            "rivals_source": endpoint if live.jobs or live.possible or live.held else "",
        }
        return known(asked.place.clock.value(value.model_copy(update=update)), source, now)

    async def live(self, runs: Sequence[RunSpec]) -> dict[str, Live]:
        """Return what lives of each run's lineage, from a fresh look; never raises.

        Unlike in a facet, every job that lives of these users is looked into: an answer that
        leaves one out would be taken for *nothing lives*.
        """
        return await ask_each(by_place(runs, endpoint_of_run), self._live, unknown_lives)

    async def _live(self, endpoint: str, runs: Sequence[RunSpec]) -> dict[str, Live]:
        wrong = [run for run in runs if id_of(run) and not trees.is_job_id(id_of(run))]
        found = {
            run.name: Live(unknown=f"job.id {clean(id_of(run), 80)}: {WRONG}") for run in wrong
        }
        named = [run for run in runs if run.job is not None and run not in wrong]
        found |= {run.name: Live(unknown=NOT_NAMED) for run in runs if run.job is None}
        if not named:
            return found
        try:
            async with asyncio.timeout(LIVE_DEADLINE):
                place = await self.place(named)
                controller = await self.acting(named[0])
                look = await Memory(self._clock).refresh(controller, sorted(map(_root_of, named)))
                await place.details.requests(controller, roots_of(look), MOST_ASKED)
                offers = {
                    user: await place.details.offered(controller, user)
                    for user in sorted({trees.user_of(_root_of(run)) for run in named})
                }
                followed = await _followed(controller, named, look)
        except (HttpError, TimeoutError) as error:
            text = str(error) or f"{endpoint} did not answer within {LIVE_DEADLINE:g} s"
            return found | {run.name: Live(unknown=text) for run in named}
        beside = LiveJobs(look, place.details, controller.server_date or self._clock.now())
        for run in named:
            live = _of_lineage(run, look, place.details, beside, followed=run.name in followed)
            names = offers[trees.user_of(_root_of(run))]
            jobs = tuple(_with_control(job, names, run) for job in live.jobs)
            found[run.name] = live.model_copy(update={"jobs": jobs})
        return found

    async def named(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what a controller tells of a job by its id; never raises."""
        if not trees.is_job_id(job_id):
            return NamedJob(id=job_id, text=f"job.id {clean(job_id, 80)}: {WRONG}", lives=False)
        try:
            controller = await self.acting(run)
            if job_id not in await controller.states([job_id]):
                text = f"{endpoint_of(run.job) if run.job else 'iris'} does not list {job_id}"
                return NamedJob(id=job_id, text=clean(text, 300), lives=False)
            document = await controller.status(job_id)
        except (HttpError, TimeoutError) as error:
            return NamedJob(id=job_id, text=clean(str(error) or "no answer in time", 400))
        job, request = job_of(document.get("job")), request_of(document)
        phase, launch_id = phase_of(job), trees.launch_id_of(job_id)
        return NamedJob(
            id=job_id,
            text=clean(f"{job_id} is {job.state.removeprefix('JOB_STATE_')}", 300),
            lives=None if not (phase.lives or phase.terminal) else phase.lives,
            launch_id=request.variables.get(trees.LAUNCH_ID) or launch_id,
            started_at=job.started_at,
            values=(*arguments(request.argv), *request.variables.items()),
        )

    async def acting(self, run: RunSpec) -> Controller:
        """Return a run's controller for who acts: patient; raises as ``place`` does."""
        place = await self.place([run])
        assert run.job is not None
        controller = Controller(self._http, self._tokens, run.job, place.controller.address)
        controller.deadline = PATIENT
        return controller


def endpoint_of_run(run: RunSpec) -> str:
    """Return the name of the controller that answers for a run; empty where it names no job."""
    return "" if run.job is None else endpoint_of(run.job)


def _root_of(run: RunSpec) -> str:
    """Return the id of a run's job; one that has none yet has its jobs at its user all the same."""
    return id_of(run) or f"/{user_for(run)}/{run.name}"


async def _followed(
    controller: Controller, runs: Sequence[RunSpec], look: TreesNow
) -> frozenset[str]:
    """Return the runs whose recorded job is not listed any more and that were launched since.

    A controller forgets a job a week after its end; what was launched after it has seen it gone.
    """
    found = set()
    for run in runs:
        if not id_of(run) or id_of(run) in look.trees:
            continue
        listed = await controller.jobs(f"/{trees.user_of(id_of(run))}/{run.name}-i", pages=1)
        if any(job.id.count("/") == 2 and trees.launch_id_of(job.id) for job in listed):
            found.add(run.name)
    return frozenset(found)


def _launched_since(run: RunSpec, asked: TreesAnswer, tree: trees.Tree | None) -> trees.Tree | None:
    """Return the newest launch that lives, where the job that is named is over.

    A cockpit that was killed between a start and its records leaves the old job named.
    """
    if tree is None or not phase_of(tree.own).terminal:
        return None
    beside, launches = asked.beside.of(run, tree.own.id).jobs, dict[int, str]()
    for job in beside:
        number = number_of(run.name, job.launch_id or "")
        launches |= {} if number is None else {number: job.id}
    newest = max(launches, default=0)
    if newest <= (number_of(run.name, trees.launch_id_of(tree.own.id) or "") or 0):
        return None
    return trees.tree_of(launches[newest], asked.look.live.values())


def _fitting(run: RunSpec, beside: LiveJobs, tree: trees.Tree | None) -> Job | None:
    """Return the job that fits ``job.match``, where it is newer than the one that is known."""
    fits = beside.matching(run, trees.user_of(_root_of(run)))
    if fits is None or tree is None:
        return fits
    newer = (fits.submitted_at or 0.0) > (tree.own.submitted_at or 0.0)
    return fits if newer and fits.id != tree.own.id else None


def _of_lineage(
    run: RunSpec, look: TreesNow, details: Details, beside: LiveJobs, *, followed: bool
) -> Live:
    """Return what lives of a run's lineage; *unknown* where something that lives is not known."""
    root = _root_of(run)
    live, tree = beside.of(run, root), look.trees.get(root)
    if tree is None and id_of(run) and not followed:
        text = f"the controller does not list {root}: it may not have ended"
        return live.model_copy(update={"unknown": text})
    if tree is not None and phase_of(tree.own) is Phase.UNKNOWN:
        return live.model_copy(update={"unknown": f"{tree.own.id} is {tree.own.state}"})
    jobs = live.jobs
    if tree is not None and phase_of(tree.own).lives:
        jobs = (beside.live_job(tree.own, OWN), *jobs)
    fits = beside.matching(run, trees.user_of(root))
    if fits is not None and all(job.id != fits.id for job in jobs):
        jobs = (beside.live_job(fits, FITS), *jobs)
        possible = tuple(job for job in live.possible if job.id != fits.id)
        live = live.model_copy(update={"possible": possible})
    told = {job.id for job in jobs}
    unread = [job for job in beside.roots if trees.user_of(job.id) == trees.user_of(root)]
    unread = [job for job in unread if details.request_of(job) is None and job.id not in told]
    named = ", ".join(job.id for job in unread[:3])
    why = f"{len(unread)} live jobs could not be read: {named}" if unread else None
    return live.model_copy(update={"jobs": jobs, "unknown": why})


def _with_control(job: LiveJob, offers: Sequence[str], run: RunSpec) -> LiveJob:
    """Return a live job with the one that offers its training control: itself, or a child."""
    names = [name.removesuffix(OFFERS) for name in offers if name.endswith(OFFERS)]
    mine = [name for name in names if trees.belongs_to(name, job.id)]
    spec = run.job
    if len(mine) > 1 and spec is not None:
        mine = [name for name in mine if trees.trains(name[len(job.id) + 1 :], name, spec)]
    if len(mine) != 1:
        return job
    return job.model_copy(update={"handle": {**job.handle, CONTROL: mine[0]}})


def id_of(run: RunSpec) -> str:
    """Return the id of a run's current job, empty if it has none."""
    return (run.job.id if run.job is not None else None) or ""


async def _never(controller: Controller, look: TreesNow) -> frozenset[str]:
    """Return the jobs that wait for what cannot come: nothing is large enough, or may ever be.

    A group that has all its slices is full and will have room; one that may have none will not.
    """
    waiting = {
        job.id: waiting_of(job) for tree in look.trees.values() for job in (tree.own, *tree.below)
    }
    never = {job_id for job_id, why in waiting.items() if why.never}
    full = {job_id: why.full_groups for job_id, why in waiting.items() if why.full_groups}
    if full:
        try:
            empty = await controller.empty_groups()
            never |= {each for each, groups in full.items() if empty >= set(groups)}
        except HttpError:
            never |= full.keys()
    return frozenset(never)


def _badly_ended(runs: Sequence[RunSpec], look: TreesNow) -> Iterator[Job]:
    for run in runs:
        tree = look.trees.get(id_of(run))
        if tree is None or run.job is None:
            continue
        shown = trees.deciding(tree, run.job)
        if phase_of(shown) in (Phase.FAILED, Phase.CANCELLED):
            yield shown
