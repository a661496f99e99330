"""Goodput through whole engines: what one has watched, the next one knows; a gap is a gap.

A failure that a watch has seen counts for C-14, whoever has started the next job.

A full disk of one machine opens one alert, however many runs save to it (C-22).

One cause, one alert: a place that answers for none of its runs is told of once.

A job that is requeued keeps its id and its launch id, and may die again (SPEC J).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bench.judgement.clock import HOUR, MINUTE, START
from bench.judgement.scenarios.alike import suspend
from bench.judgement.scenarios.jobs import failing_again, requeue
from bench.judgement.stage import CADENCE, Stage
from bench.judgement.watching import Watch
from cockpit.model.alert import Acknowledgement, Alert
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.goodput import Goodput
from cockpit.model.observed import Disk, HostValue, JobValue, Phase, Row, TrackerValue
from cockpit.model.report import Facets, Verdict
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.platforms.table import Platforms
from cockpit.rules.judge import judge
from cockpit.runtime.offload import Pool
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.launches import Failures
from cockpit.store.store import Store, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import find_full_disks, find_outages
from cockpit.watch.reports import case_of
from cockpit.watch.runstate import CORE, RunState
from tests.rules.making import T0, job, run_spec
from tests.watch.fakes import FastClock, SteppedClock, World, failed, running, until
from tests.watch.remote import CLUSTER, Cluster, on_cluster, world_of
from tests.watch.test_engine import run_of, watching
from tests.watch.test_poller import watching as outages_watching

SETTLED = 50
"""Turns of the event loop without anything in a thread, after which nobody has more to do."""
PATIENCE = 200.0
"""Seconds of its own clock in which an engine must know what it is asked."""


class Hours(FastClock):
    """Time that jumps to whoever wakes first, once nobody has anything left to do until then.

    However late the machine is: what is done in a thread takes no time, and nobody is overtaken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.under_way: set[asyncio.Future[object]] = set()
        """What is being done in threads."""
        self._at = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = count()
        self._moves: asyncio.Task[None] | None = None

    def monotonic(self) -> float:
        return self._at

    def pass_by(self, seconds: float) -> None:
        self._at += seconds

    async def sleep(self, seconds: float) -> None:
        wakes = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._at + seconds, next(self._number), wakes))
        if self._moves is None or self._moves.done():
            self._moves = asyncio.create_task(self._move())
        await wakes

    async def _move(self) -> None:
        while self._sleepers:
            await self._all_is_done()
            at, _, wakes = heappop(self._sleepers)
            if not wakes.done():
                self._at = max(self._at, at)
                wakes.set_result(None)

    async def _all_is_done(self) -> None:
        quiet = 0
        while quiet < SETTLED:
            await asyncio.sleep(0.0005 if self.under_way else 0.0)
            quiet = 0 if self.under_way else quiet + 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours, submit = Hours(), Pool.submit

    def counted(pool: Pool, call: Any, loop: asyncio.AbstractEventLoop) -> None:
        hours.under_way.add(call.future)
        call.future.add_done_callback(hours.under_way.discard)
        submit(pool, call, loop)

    monkeypatch.setattr(Pool, "submit", counted)
    return hours


class Life(World):
    """A run that trains a step a second, on a clock that only waiting moves on."""

    clock: Hours

    def __init__(self, clock: Hours) -> None:
        super().__init__(cadence=10.0, clock=clock)
        self.trained(1, 120, self.clock.now() - 120.0)

    def trained(self, first: int, last: int, begin: float) -> None:
        self.tracker.rows += [
            Row(step, begin + step - first, 2.0) for step in range(first, last + 1)
        ]


async def account(life: Life, store: Store, phase: Phase) -> Goodput:
    """What an engine of its own says once it has seen this phase, and watched for five cadences."""
    life.tracker.read = 0
    async with watching(life, store) as engine:
        began = life.clock.now()
        while not _known(engine, phase, began + 50.0):
            assert life.clock.now() < began + PATIENCE, "it never knew"
            await life.clock.sleep(1.0)
        found = run_of(engine).goodput
    assert found is not None
    return found


def _known(engine: object, phase: Phase, at: float) -> bool:
    """Tell whether a report made past ``at`` knows the phase: the clock runs on meanwhile."""
    report = run_of(engine)  # type: ignore[arg-type]
    job = report.facets.job.value
    account = report.goodput
    if job is None or account is None:
        return False
    return job.phase is phase and account.until > at and bool(account.split)


async def test_what_an_engine_saw_is_known_to_the_next_and_what_none_saw_is_unwatched(
    tmp_path: Path, clock: Hours
) -> None:
    life, store = Life(clock), Store(tmp_path / "store.sqlite")
    begin = life.clock.now()
    life.fakes["job"].value = JobValue(
        id="pid:1", state="running", phase=Phase.RUNNING, started_at=begin - 125.0
    )
    first = await account(life, store, Phase.RUNNING)
    assert first.split.productive_s >= 118.0
    assert first.split.starting_s == 5.0
    died = life.clock.now()
    life.fakes["job"].value = failed(died)
    watched = await account(life, store, Phase.FAILED)
    assert 45.0 <= watched.split.down_s <= life.clock.now() - died
    assert watched.split.unwatched_s == 0.0

    life.clock.pass_by(1000.0)  # nobody watches; a job that no system dates comes and runs
    life.trained(101, 140, life.clock.now() - 40.0)
    life.fakes["job"].value = JobValue(id="pid:2", state="running", phase=Phase.RUNNING)
    again = await account(life, store, Phase.RUNNING)
    assert again.steps_lost == 20
    assert again.restarts.total == 1
    assert again.split.rework_s == 19.0
    assert 900.0 <= again.split.unwatched_s <= 1000.0
    assert watched.split.down_s <= again.split.down_s <= watched.split.down_s + 1.0
    assert again.share is not None
    lost = again.until - again.since - again.split.unwatched_s - again.split.productive_s
    assert abs(again.share - again.split.productive_s / (lost + again.split.productive_s)) < 1e-9


async def test_it_is_stored_when_another_job_begins_and_told_when_that_one_fails_too(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "run", seed=1)
    failing_again(stage, 1.1, 2.1)
    store = Store(tmp_path / "store.sqlite")
    watch = Watch(stage, store)
    await watch.begin()
    kept: list[int] = []
    for look in range(1, int(2.5 * HOUR / CADENCE)):
        stage.advance(START + look * CADENCE)
        await watch.look()
        kept.append(len(Failures(store).of(watch.state.key)))
    store.close()
    assert kept[0] == 0 and kept[-1] == 1
    (alert,) = (seen.alert for seen in watch.seen.values() if seen.alert.id == "C-14")
    assert alert.evidence[0].text.startswith("same failure as lm-1b-i001 at 2025-")
    assert ": code bug at train.py" in alert.evidence[0].text


async def test_restarts_under_one_number_are_counted_and_a_suspension_is_none(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "run", seed=1)
    stage.begin()
    stage.at(0.6 * HOUR, lambda: requeue(stage, 1))
    stage.at(1.3 * HOUR, lambda: suspend(stage, 20 * MINUTE))
    watch = Watch(stage, Store(tmp_path / "store.sqlite"))
    for look in range(1, 9):
        stage.advance(START + look * CADENCE)
        await watch.look()
    assert [at - START for at in watch.state.restarts] == [3 * CADENCE]


def saving(name: str, used: float, value: JobValue | None = None, **more: Any) -> RunState:
    """Return a run on ``/data`` of this machine, of which ``used`` is used."""
    disk = Disk(**{"mount": "/data", "free": 10**15, "used_frac": used, **more})
    host = HostValue(disks=(disk,), mem_frac=0.1, oom_kills=0, load=1.0, gpus=())
    facets = {"job": known(value or job(), "j", T0), "host": known(host, "h", T0)}
    state = RunState(run_spec(name=name), name, facets=Facets().model_copy(update=facets))
    state.looked = CORE
    return state


def nowhere(_: Any) -> Platform | None:
    return None


def told(*states: RunState) -> dict[str, Alert]:
    """Judge each once; return what each says of the disk, which stays open."""
    disks = find_full_disks(states, nowhere)
    found = {}
    for state in states:
        state.full_disks = disks.get(state.spec.name, ())
        alerts = judge(state.spec, case_of(state, T0 + 1).history)
        mine = [each for each in alerts if each.id == "C-22"]
        state.open = {each.key: Kept(alert=each, opened_at=T0) for each in mine}
        for each in mine:
            found[state.spec.name] = each
    return found


def test_one_run_tells_of_the_disk_and_the_others_follow_from_that() -> None:
    states = [saving("b", 0.95), saving("a", 0.95), saving("c", 0.5)]
    for _ in range(2):
        found = told(*states)
        assert found.keys() == {"a", "b"} and found["a"].runs == ("b", "a")
        assert found["a"].title == "Disk /data of this machine nearly full, used by 2 runs"
        assert (found["a"].caused_by, found["b"].caused_by) == (None, found["a"].key)


def test_who_tells_goes_on_telling_and_another_does_when_it_is_over() -> None:
    late, early = saving("a", 0.95), saving("b", 0.95)
    assert told(early)["b"].runs == ()
    found = told(late, early)
    assert (found["a"].caused_by, found["b"].caused_by) == (found["b"].key, None)
    over = job(Phase.FAILED, ended_at=T0)
    alone = told(late, saving("b", 0.95, over))
    assert alone["a"].caused_by is None and alone["a"].runs == () and "b" not in alone


def test_disks_of_two_machines_and_runs_that_are_not_judged_are_told_apart() -> None:
    near, far = saving("a", 0.95, job(node="n1")), saving("b", 0.95, job(node="n2"))
    assert find_full_disks([near, far], nowhere) == {}
    unread = saving("c", 0.95, job(node="n1"))
    unread.looked = frozenset()
    assert find_full_disks([near, unread], nowhere) == {}, "what tells nothing yet takes nothing"


def test_a_network_file_system_of_two_machines_is_one_disk() -> None:
    near = saving("a", 0.95, job(node="n1"), shared="nas:/data")
    far = saving("b", 0.95, job(node="n2"), shared="nas:/data", mount="/mnt/big")
    other = saving("c", 0.95, job(node="n2"), shared="nas:/home")
    for _ in range(2):
        found = told(near, far, other)
        assert found["a"].title == "Disk /data of n1, n2 nearly full, used by 2 runs"
        assert (found["a"].key, found["a"].caused_by) == ("C-22:a:disk:/data", None)
        assert (found["b"].key, found["b"].caused_by) == ("C-22:b:disk:/mnt/big", found["a"].key)
        assert found["c"].runs == () and found["c"].caused_by is None
    crowd = [saving(f"r{i}", 0.95, job(node=f"n{i}"), shared="nas:/data") for i in range(5)]
    assert find_full_disks(crowd, nowhere)["r0"][0].machine == "n0, n1, n2 and 2 more"


def test_a_new_look_and_a_new_limit_count_at_once() -> None:
    one, other = saving("a", 0.95), saving("b", 0.5)
    assert find_full_disks([one, other], nowhere) == {}
    other.facets = saving("b", 0.95).facets
    assert find_full_disks([one, other], nowhere).keys() == {"a", "b"}
    lenient = other.spec.thresholds.model_copy(update={"disk_frac": 0.99})
    other.spec = other.spec.model_copy(update={"thresholds": lenient})
    assert find_full_disks([one, other], nowhere) == {}


NAMES = tuple(f"run-{number:03}" for number in range(200))
GONE = unknown(ErrorKind.REFUSED, "connection refused", "cluster", 100.0)


def outages_told(engine: Engine) -> list[tuple[str, Alert]]:
    runs = engine.report().runs
    return [(run.name, alert) for run in runs for alert in run.alerts if alert.id == "C-02"]


async def test_a_dead_controller_of_200_runs_opens_one_alert_and_closes_it() -> None:
    cluster = Cluster(SteppedClock(100.0))
    world = world_of(cluster, [on_cluster(name, cadence=60.0) for name in NAMES])
    cluster.answer = lambda facet: GONE.model_copy(update={"since": cluster.clock.now()})
    seen: set[tuple[str, str]] = set()
    async with outages_watching(world) as engine:
        engine.subscribe(lambda run: seen.update((run.name, a.key) for a in run.alerts))
        await until(lambda: bool(outages_told(engine)))
        ((name, alert),) = outages_told(engine)
        assert alert.runs == NAMES and alert.key == f"C-02:{CLUSTER}"
        assert alert.title == f"Job, log, host unknown for 200 runs: {CLUSTER} does not answer"
        assert "run-000" in alert.evidence[1].text and "and 188 more" in alert.evidence[1].text
        others = [run for run in engine.report().runs if run.name != name]
        assert {run.verdict for run in others} == {Verdict.UNKNOWN}
        assert all("connection refused" in run.next_action for run in others)
        cluster.answer = None
        await until(lambda: not outages_told(engine))
    assert {key for _, key in seen if key.startswith("C-02")} == {alert.key}


def state(spec: RunSpec, error: ErrorKind | None = None, **facets: Facet[Any]) -> RunState:
    running = JobValue(id="1", state="RUNNING", phase=Phase.RUNNING)
    job = known(running, "c", 1.0)
    if error is not None:
        job = unknown(error, "why", "c", 100.0)
    changed = Facets().model_copy(update={"job": job, **facets})
    return RunState(spec, spec.name, facets=changed, looked=frozenset(("job", *facets)))


def of(spec: RunSpec) -> Platform | None:
    return Platforms(FastClock()).of(spec)


def outages(*states: RunState) -> dict[str, Sequence[tuple[str, tuple[str, ...]]]]:
    found = find_outages(states, of)
    return {name: [(each.place, each.facets) for each in of_run] for name, of_run in found.items()}


def test_a_place_that_answers_for_one_run_is_not_gone() -> None:
    one, other = on_cluster("a"), on_cluster("b")
    assert outages(state(one, ErrorKind.TIMEOUT), state(other)) == {}
    both = outages(state(one, ErrorKind.TIMEOUT), state(other, ErrorKind.REFUSED))
    assert both == {name: [(CLUSTER, ("job",))] for name in ("a", "b")}


def test_what_is_wrong_with_one_run_is_no_outage() -> None:
    states = [state(on_cluster(name), ErrorKind.NOT_FOUND) for name in ("a", "b")]
    assert outages(*states) == {}


def test_a_place_is_dark_since_its_last_answer_whatever_was_unknown_before() -> None:
    spec = on_cluster("a").model_copy(
        update={"checkpoints": CheckpointSpec(path=("ssh://cluster/c",))}
    )
    states = [state(run) for run in (spec, spec.model_copy(update={"name": "b"}))]
    for each in states:
        each.take("checkpoints", unknown(ErrorKind.NOT_FOUND, "does not exist", "cluster", 2.0))
        for at in (100.0, 130.0):
            gone = unknown(ErrorKind.TIMEOUT, "no answer", "cluster", at)
            each.take("checkpoints", gone)
            each.take("job", gone)
    ((first,), _) = find_outages(states, of).values()
    assert (first.facets, first.since) == (("job", "checkpoints"), 100.0)
    assert states[0].facets.checkpoints.since == 2.0


def test_a_run_that_was_not_asked_yet_speaks_for_its_place() -> None:
    fresh = RunState(on_cluster("b"), "b")
    assert outages(state(on_cluster("a"), ErrorKind.TIMEOUT), fresh) == {}


def test_the_only_run_of_a_place_keeps_its_own_alert() -> None:
    assert outages(state(on_cluster("a"), ErrorKind.TIMEOUT)) == {}


def test_what_a_dead_host_carries_is_one_outage() -> None:
    gone = unknown(ErrorKind.TIMEOUT, "no answer", "cluster", 100.0)
    spec = on_cluster("a").model_copy(
        update={"checkpoints": CheckpointSpec(path=("ssh://cluster/c",))}
    )
    other = spec.model_copy(update={"name": "b"})
    states = [state(run, ErrorKind.TIMEOUT, checkpoints=gone) for run in (spec, other)]
    assert outages(*states)["a"] == [("cluster", ("job", "checkpoints"))]


@pytest.mark.parametrize("root", ["gs://bucket/a", "s3://bucket/a"])
def test_a_dead_bucket_is_told_of_even_for_a_single_run(root: str) -> None:
    gone = unknown(ErrorKind.UNAUTHORIZED, "no credentials", root, 100.0)
    spec = on_cluster("a").model_copy(update={"checkpoints": CheckpointSpec(path=(root,))})
    place = root.rpartition("/")[0]
    assert outages(state(spec, checkpoints=gone)) == {"a": [(place, ("checkpoints",))]}


def test_the_files_of_this_machine_are_no_place_of_one_fate() -> None:
    specs = [RunSpec(name=name, job=JobSpec(kind="local")) for name in ("a", "b")]
    assert outages(*(state(spec, ErrorKind.TIMEOUT) for spec in specs)) == {}


def test_who_tells_of_a_place_goes_on_telling() -> None:
    slow, quick = on_cluster("slow"), on_cluster("quick", cadence=60.0)
    states = [state(run, ErrorKind.TIMEOUT) for run in (slow, quick)]
    (first,) = find_outages(states, of)["slow"]
    assert first.told_by == "quick" and first.since == 100.0
    states[1].open = {"C-01:quick": None}  # type: ignore[dict-item]
    assert find_outages(states, of)["slow"][0].told_by == "slow", "there it would not be seen"
    states[0].open = {first.key_of(CLUSTER): None}  # type: ignore[dict-item]
    assert find_outages(states, of)["quick"][0].told_by == "slow"


def test_all_projects_of_a_server_are_one_outage_and_one_project_is_its_own() -> None:
    def tracked(name: str, project: str, kind: ErrorKind | None) -> RunState:
        wandb = WandbSpec(url=f"http://w:8/acme/{project}/runs/{name}")
        tracker = known(TrackerValue(id=name, state="running"), "w", 1.0)
        if kind is not None:
            tracker = unknown(kind, "why", "w", 100.0)
        facets = Facets().model_copy(update={"tracker": tracker})
        return RunState(
            RunSpec(name=name, wandb=wandb), name, facets=facets, looked=frozenset(("tracker",))
        )

    refused = ErrorKind.REFUSED
    states = [tracked("a", "p", refused), tracked("b", "p", refused), tracked("c", "q", refused)]
    found = find_outages(states, Platforms(FastClock()).of)
    assert {outage.place for each in found.values() for outage in each} == {"http://w:8"}
    assert found["a"][0].runs == ("a", "b", "c")
    states[2] = tracked("c", "q", None)
    found = find_outages(states, Platforms(FastClock()).of)
    assert found.keys() == {"a", "b"} and found["a"][0].place == "http://w:8/acme/p"


class _Leaving(Cluster):
    """A cluster whose jobs write into real files."""

    logs = SlurmPlatform.logs


async def test_a_controller_that_went_takes_no_log_away(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text("step 1 loss 2.5\n")
    cluster = _Leaving(FastClock(60.0))
    spec = RunSpec(name="a", cadence=30.0, job=JobSpec(kind="slurm", id="pid:1"))
    world, now = world_of(cluster, [spec]), cluster.clock.now()
    alive = known(running(now, output=str(file)), CLUSTER, now)
    cluster.answer = lambda facet: alive if facet == "job" else GONE
    async with outages_watching(world) as engine:

        def facets() -> Facets:
            return engine.report().runs[0].facets

        await until(lambda: facets().log.known)
        cluster.answer = lambda facet: GONE
        await until(lambda: facets().job.error is not None)
        with file.open("a") as log:
            log.write("step 2 loss 2.4\n")
        await until(lambda: (value := facets().log.value) is not None and len(value.lines) == 2)
        assert facets().log.known and not facets().job.known


def died(world: World, restarts: int) -> JobValue:
    now = world.clock.now()
    return JobValue(
        id="12", state="FAILED", phase=Phase.FAILED, exit_code=1, launch_id="r-i001",
        started_at=now - 60, ended_at=now, restarts=restarts,
    )  # fmt: skip


async def test_a_death_that_was_acknowledged_does_not_hide_the_next(tmp_path: Path) -> None:
    """It ran again and died between two looks: nobody has seen it alive."""
    world, store = World(cadence=4.0), Store(tmp_path / "store.sqlite")
    world.fakes["job"].value = died(world, restarts=0)
    async with watching(world, store) as engine:
        key = run_key(world.file.path, "r")
        await until(lambda: Alerts(store).open(key))
        (first,) = (alert.key for alert in run_of(engine).alerts if alert.id == "C-01")
        ada = Acknowledgement(by="ada", at=world.clock.now())
        assert Alerts(Store(store.path)).acknowledge(key, first, ada)
        await until(lambda: engine.over("r"))
        world.fakes["job"].value = died(world, restarts=1)
        await engine.poke("r")
        await until(lambda: not engine.over("r"))
        (again,) = (alert for alert in run_of(engine).alerts if alert.id == "C-01")
    assert again.key != first and again.acknowledged is None
