"""Against a real controller with local workers; ``make test-iris`` installs one and runs these."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import FinelogSpec, JobSpec, RunSpec
from cockpit.platforms.iris import jobs as iris_jobs
from cockpit.platforms.iris.platform import IrisPlatform
from cockpit.watch.asking import real_trackers
from tests.platforms.iris.making import facet, facets, platform_of, run_of, value
from tests.platforms.iris.real import IRIS, Rig, controller_in

TRAIN = "for i in $(seq 600); do echo step $i loss 0.$((900 - i)); sleep 0.2; done"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with controller_in(tmp_path_factory.mktemp("iris")) as found:
        yield found


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


async def seen(
    platform: IrisPlatform, run: RunSpec, which: Callable[[JobValue], bool], seconds: float = 30.0
) -> JobValue:
    """Look until a job is as it must become."""
    end = time.monotonic() + seconds
    while True:
        found = await value(platform, run)
        if which(found):
            return found
        assert time.monotonic() < end, found
        await asyncio.sleep(0.3)


def runs(found: JobValue) -> bool:
    return found.phase is Phase.RUNNING


async def test_a_tree_its_log_and_its_rival(rig: Rig) -> None:
    patterns = {"production": "train*"}
    run = run_of(rig.url, "/ada/hero-i002", "hero", job=patterns, wandb={"id": "hero"})
    rig.launch("/ada/hero-i002", "sleep 600")
    rig.launch("/ada/hero-i002/train_lm", TRAIN, 2)
    rig.launch("/ada/hero-i002/eval", "exit 3")
    variables: Any = {"environment": {"envVars": {"WANDB_RUN_ID": "hero"}}}
    rig.launch("/ada/writer", "sleep 600", **variables)
    rig.launch("/ada/hero-i001", "sleep 600")
    platform = platform_of()
    found = await seen(platform, run, lambda each: runs(each) and len(each.rivals) == 2)
    assert found.children == ("/ada/hero-i002/train_lm",) and found.tasks is not None
    assert (found.tasks.running, found.tasks.total) == (2, 2)
    assert found.diagnostic == ("/ada/hero-i002/eval",)
    await seen(platform, run, lambda each: "eval FAILED" in (each.reason or ""))
    live = (await platform.live([run]))["hero"]
    ids = {"/ada/hero-i002", "/ada/writer", "/ada/hero-i001"}
    assert live.unknown is None and {each.id for each in live.jobs} == ids
    steps = []
    for _ in range(2):
        await asyncio.sleep(3.0)
        log = (await platform.logs([Query(run=run, job=found)]))["hero"]
        assert log.value is not None, log.error
        steps += [row.step for row in log.value.rows]
    assert steps and steps == sorted(steps, key=lambda step: step or 0) and len(set(steps)) > 10
    rig.call("KickTasks", {"targets": ["/ada/hero-i002/train_lm"],
                           "desiredState": "TASK_STATE_PREEMPTED", "reason": "test"})  # fmt: skip
    await seen(platform, run, lambda each: each.phase is Phase.WAITING)
    rig.call("TerminateJob", {"jobId": "/ada/hero-i002"})
    ended = await seen(platform, run, lambda each: each.phase is Phase.CANCELLED)
    assert "Terminated by user" in (ended.reason or "")


async def test_an_end_is_told_by_its_tasks(rig: Rig) -> None:
    script = "echo step 1 loss 2.0; echo 'RuntimeError: no memory' >&2; exit 7"
    rig.launch("/ada/fails", script)
    platform, run = platform_of(), run_of(rig.url, "/ada/fails")
    found = await seen(platform, run, lambda each: each.exit_code is not None)
    assert (found.phase, found.exit_code) == (Phase.FAILED, 7)
    assert "RuntimeError: no memory" in (found.reason or "")


async def test_what_can_never_start_is_said(rig: Rig) -> None:
    tpu = {"tpu": {"variant": "v5litepod-16", "count": 4}}
    pairs = (("device-type", "tpu"), ("device-variant", "v5litepod-16"))
    wanted = [
        {"key": key, "op": "CONSTRAINT_OP_EQ", "value": {"stringValue": word}}
        for key, word in pairs
    ]
    resources = {"resources": {"cpuMillicores": 100, "device": tpu}}
    rig.launch("/ada/tpu", "true", 4, constraints=wanted, **resources)
    platform, run = platform_of(), run_of(rig.url, "/ada/tpu")
    found = await seen(platform, run, lambda each: each.never)
    assert found.phase is Phase.WAITING and "at_max_slices" in (found.reason or "")


async def test_two_hundred_jobs_are_one_look(rig: Rig) -> None:
    names = [f"/bulk/run{n}" for n in range(200)]
    for name in names:
        rig.launch(name, "true", resources={"cpuMillicores": 64_000})
    platform = platform_of()
    all_runs = [run_of(rig.url, name, name[6:]) for name in names]
    counted: list[str] = []
    controller: Any = (await platform._jobs.place(all_runs)).controller
    ask = controller._answered

    async def counting(work: Callable[..., Awaitable[Any]]) -> Any:
        counted.append("asked")
        return await ask(work)

    controller._answered = counting
    for _ in range(3):
        counted.clear()
        found = await facets(platform, *all_runs)
        assert all(each.value is not None for each in found.values())
    assert len(counted) <= 10
    for name in names:
        rig.call("TerminateJob", {"jobId": name})


async def test_a_stopped_controller_is_unknown_and_comes_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iris_jobs, "QUICK", 1.0)
    rig.launch("/ada/stays", "sleep 600")
    platform, run = platform_of(), run_of(rig.url, "/ada/stays")
    await seen(platform, run, runs)
    rig.process.send_signal(signal.SIGSTOP)
    try:
        error = (await facet(platform, run)).error
        assert error is not None and error.kind is ErrorKind.TIMEOUT
    finally:
        rig.process.send_signal(signal.SIGCONT)
    await seen(platform, run, runs)


async def test_doctor_hears_who_we_are(rig: Rig) -> None:
    (found,) = await platform_of().findings([run_of(rig.url, "/ada/stays")])
    assert "answers as anonymous (admin), of October 2026" in found.text and found.remedy is None


REPORTS = """
import sys, time
from dataclasses import dataclass
from typing import ClassVar
from finelog.client import LogClient

@dataclass(frozen=True)
class Row:
    key_column: ClassVar[str] = "timestamp_ms"
    timestamp_ms: int
    run_id: str
    execution_uid: str | None
    job_id: str | None
    step: int | None
    name: str
    kind: str
    value: float | None

client = LogClient.connect(sys.argv[1] + "/proxy/system.log-server")
table = client.get_table("levanter.metrics.hero-toy", Row)
for uid, first, last in (("iris:a", 0, 40), ("iris:b", 25, 60)):
    for step in range(first, last):
        loss = float("nan") if step == 59 else 5 / (step + 1)
        for name, value in (("train_loss", loss), ("progress_time_seconds", time.time())):
            now = time.time_ns() // 1_000_000
            table.write([Row(now, "hero-toy", uid, "/ada/hero-toy", step, name, "scalar", value)])
print(table.flush(20.0).value)
client.close()
"""
"""As Levanter's own tracker writes, with the columns that matter here."""


async def test_what_levanter_reports_to_finelog_is_read(rig: Rig, tmp_path: Path) -> None:
    pytest.importorskip("nanoarrow", reason="install the extra finelog (nanoarrow)")
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        [str(IRIS.with_name("python")), "-c", REPORTS, rig.url], capture_output=True, text=True,
        env={**os.environ, "HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "succeeded", done.stderr[-500:]
    job = JobSpec(kind="iris", id="/ada/hero-toy", controller_url=rig.url)
    spec = FinelogSpec(run="hero-toy", controller=job.model_copy(update={"id": None}))
    run = RunSpec(name="hero-toy", job=job, finelog=spec)
    source = real_trackers(SystemClock())
    found = (await source.observe([Query(run=run)]))["hero-toy"]
    assert found.value is not None, found.error
    assert found.value.step == 59 and math.isnan(found.value.loss or 0.0)
    chunk = await source.more_rows(run)
    assert [row.step for row in chunk.rows] == [*range(40), *range(25, 60)] and chunk.caught_up
