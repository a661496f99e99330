"""Orders to a real Slurm whose answer is late or lost, and about a job that ended meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LiveJob, Query, SchedulerOrder
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.record import seconds_of
from cockpit.runtime.ssh import RemoteError
from tests.platforms.slurm.asking import platform, run_of
from tests.platforms.slurm.rig import Rig

NUMBERS = itertools.count(1)
REQUEUE = SchedulerOrder(verb="requeue")


@pytest.fixture
async def toy(
    slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunSpec]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    yield run_of(f"ordered{next(NUMBERS)}", workdir=place_of(str(tmp_path)), grace=5.0)
    slurm.clear()


async def started(slurm: Rig, toy: RunSpec, *options: str) -> LiveJob:
    job = slurm.sbatch(f"--comment={toy.name}-i001", "--requeue", *options)
    slurm.wait_for(job, "RUNNING")
    (live,) = (await platform().live([toy]))[toy.name].jobs
    return live


def around(before: Callable[[], object] = int, after: Callable[[], object] = int) -> Any:
    """Run the script of an order between these two."""

    async def run(host: str | None, script: str, **options: Any) -> Any:
        gives = "\nsay said;" in script
        if gives:
            before()
        done = await run_script(host, script, **options)
        if gives:
            after()
        return done

    return run


async def test_a_job_that_ended_meanwhile_does_not_run_again(slurm: Rig, toy: RunSpec) -> None:
    live = await started(slurm, toy)

    def end() -> None:
        slurm.told("scancel", live.id)
        slurm.wait_for(live.id, "CANCELLED")

    with pytest.raises(CannotError, match="is CANCELLED now: nothing was ordered"):
        await platform(around(before=end)).order(toy, live, REQUEUE)
    assert slurm.told("squeue", "-h", "-t", "all", "-j", live.id, "-o", "%T") == "CANCELLED"


async def test_an_order_whose_answer_was_lost_is_looked_up(slurm: Rig, toy: RunSpec) -> None:
    live = await started(slurm, toy)

    def lose() -> None:
        raise RemoteError(ErrorKind.TIMEOUT, "the connection broke off", sent=True)

    with pytest.raises(LostError, match="the connection broke off"):
        await platform(around(after=lose)).order(toy, live, REQUEUE)
    slurm.wait_for(live.id, "PENDING")
    assert await platform().shown_order(toy, live, REQUEUE) == f"job {live.id} is requeued"
    assert await platform().shown_order(toy, live, SchedulerOrder(verb="hold")) is None


@pytest.mark.parametrize("where", ["command", "script"])
async def test_the_signal_before_the_limit_is_read(
    slurm: Rig, toy: RunSpec, tmp_path: Path, where: str
) -> None:
    script = tmp_path / "job.sh"
    asks = "#SBATCH --signal=B:SIGUSR1@120\n" if where == "script" else ""
    script.write_text(f"#!/bin/sh\n{asks}exec sleep 60\n")
    words = [f"--comment={toy.name}-i001", "--mem=10", "--time=10"]
    if where == "command":
        words.append("--signal=USR1@120")
        toy = toy.model_copy(update={"resubmit": ("sbatch", *words, str(script))})
    job = slurm.told("sbatch", "--parsable", *words, str(script))
    slurm.wait_for(job, "RUNNING")
    facet = (await platform().jobs([Query(run=toy)]))[toy.name]
    assert facet.value is not None
    assert facet.value.signal_before_end == ("USR1", 120.0)


async def test_what_slurm_would_refuse_is_known_before(slurm: Rig, toy: RunSpec) -> None:
    live = await started(slurm, toy, "--no-requeue")
    why = await platform().why_no_order(toy, live, REQUEUE)
    assert why == "it was submitted with --no-requeue, or the cluster's default says so"
    gone = live.model_copy(update={"id": "4000000", "handle": {"job": "4000000"}})
    assert "not listed any more" in (await platform().why_no_order(toy, gone, REQUEUE) or "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:30:00", 95400.0), ("30:00", 1800.0), ("2:00:00", 7200.0), ("UNLIMITED", None)],
)
def test_a_time_limit_as_slurm_prints_it(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
