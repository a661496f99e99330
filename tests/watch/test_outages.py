"""One cause, one alert: a place that answers for none of its runs is told of once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.alert import Alert
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.observed import JobValue, Phase, TrackerValue
from cockpit.model.report import Facets, Verdict
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.platforms.table import Platforms
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import find_outages
from cockpit.watch.runstate import RunState
from tests.watch.fakes import FastClock, SteppedClock, running, until
from tests.watch.remote import CLUSTER, Cluster, on_cluster, world_of
from tests.watch.test_poller import watching

NAMES = tuple(f"run-{number:03}" for number in range(200))
GONE = unknown(ErrorKind.REFUSED, "connection refused", "cluster", 100.0)


def told(engine: Engine) -> list[tuple[str, Alert]]:
    runs = engine.report().runs
    return [(run.name, alert) for run in runs for alert in run.alerts if alert.id == "C-02"]


async def test_a_dead_controller_of_200_runs_opens_one_alert_and_closes_it() -> None:
    cluster = Cluster(SteppedClock(100.0))
    world = world_of(cluster, [on_cluster(name, cadence=60.0) for name in NAMES])
    cluster.answer = lambda facet: GONE.model_copy(update={"since": cluster.clock.now()})
    seen: set[tuple[str, str]] = set()
    async with watching(world) as engine:
        engine.subscribe(lambda run: seen.update((run.name, a.key) for a in run.alerts))
        await until(lambda: bool(told(engine)))
        ((name, alert),) = told(engine)
        assert alert.runs == NAMES and alert.key == f"C-02:{CLUSTER}"
        assert alert.title == f"Job, log, host unknown for 200 runs: {CLUSTER} does not answer"
        assert "run-000" in alert.evidence[1].text and "and 188 more" in alert.evidence[1].text
        others = [run for run in engine.report().runs if run.name != name]
        assert {run.verdict for run in others} == {Verdict.UNKNOWN}
        assert all("connection refused" in run.next_action for run in others)
        cluster.answer = None
        await until(lambda: not told(engine))
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
    async with watching(world) as engine:

        def facets() -> Facets:
            return engine.report().runs[0].facets

        await until(lambda: facets().log.known)
        cluster.answer = lambda facet: GONE
        await until(lambda: facets().job.error is not None)
        with file.open("a") as log:
            log.write("step 2 loss 2.4\n")
        await until(lambda: (value := facets().log.value) is not None and len(value.lines) == 2)
        assert facets().log.known and not facets().job.known
