"""A job known by its comment alone, which ended and was forgotten between two looks."""

from __future__ import annotations

import pytest

from bench.judgement.clock import SetClock
from bench.judgement.cluster import FORGETS, Cluster, Job
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, Phase
from cockpit.platforms.slurm.jobs import SlurmJobs
from tests.platforms.slurm.asking import run_of


class Site:
    """A cluster with one job of the run, and what is said of it."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.cluster = Cluster(self.clock.now)
        self.jobs = SlurmJobs(self.clock, self.cluster)
        job = Job(id="7", name="x", submitted=self.clock.at, output="/o/log", comment="toy-i001")
        job.begin(self.clock.at)
        self.job = self.cluster.jobs["7"] = job

    async def value(self) -> JobValue | None:
        found = await self.jobs.observe([Query(run=run_of("toy"))])
        return found["toy"].value if found["toy"].error is None else None


@pytest.mark.parametrize("seen_ended", [True, False])
async def test_its_end_is_told_by_accounting_under_the_same_name(seen_ended: bool) -> None:
    site = Site()
    before = await site.value()
    assert before is not None and before.phase is Phase.RUNNING
    site.clock.at += 60
    site.job.end(site.clock.at, "FAILED", "3:0", "NonZeroExitCode")
    if seen_ended:
        await site.value()
    site.clock.at += FORGETS + 1
    after = await site.value()
    assert after is not None
    assert (after.id, after.phase, after.exit_code) == ("7", Phase.FAILED, 3)
    assert after.launch_id == before.launch_id == "toy-i001"


async def test_a_later_job_of_the_run_takes_its_place() -> None:
    site = Site()
    await site.value()
    site.job.end(site.clock.at, "FAILED", "3:0")
    site.clock.at += FORGETS + 1
    newer = Job(id="8", name="x", submitted=site.clock.at, output="/o/log", comment="toy-i002")
    newer.begin(site.clock.at)
    site.cluster.jobs["8"] = newer
    found = await site.value()
    assert found is not None and found.id == "8"


async def test_one_that_no_look_has_seen_alive_is_not_made_up() -> None:
    site = Site()
    site.job.end(site.clock.at, "FAILED", "3:0")
    site.clock.at += FORGETS + 1
    assert await site.value() is None


@pytest.mark.parametrize("named", [None, "7"])
async def test_an_end_that_another_process_saw_stands_where_nothing_keeps_it(
    named: str | None,
) -> None:
    """A cockpit of a night later, on a cluster without accounting: the store has seen the end."""
    site = Site()
    site.cluster.accounting = False
    site.job.end(site.clock.at, "FAILED", "3:0")
    ended = await site.value()
    assert ended is not None and ended.phase is Phase.FAILED
    site.clock.at += FORGETS + 1
    run = run_of("toy", named)
    later = SlurmJobs(site.clock, site.cluster)
    facet = (await later.observe([Query(run=run, ended=ended)]))["toy"]
    assert facet.known and facet.value is not None
    assert (facet.value.phase, facet.value.exit_code) == (Phase.FAILED, 3)
    assert "not listed any more" in facet.source


async def test_what_lived_beside_it_then_is_not_told_as_living_now() -> None:
    """Both ended while nobody looked: the end that was seen stands, its company does not."""
    site = Site()
    site.cluster.accounting = False
    beside = Job(id="8", name="x", submitted=site.clock.at, output="/o/log", comment="wandb=abc1")
    beside.begin(site.clock.at)
    site.cluster.jobs["8"] = beside
    site.job.end(site.clock.at, "FAILED", "3:0")
    run = run_of("toy", "7", wandb="abc1")
    ended = (await site.jobs.observe([Query(run=run)]))["toy"].value
    assert ended is not None and [each.id for each in ended.rivals] == ["8"]
    ended = ended.model_copy(update={"queued": ended.rivals, "possible": ended.rivals})
    beside.end(site.clock.at, "COMPLETED", "0:0")
    site.clock.at += FORGETS + 1
    jobs = SlurmJobs(site.clock, site.cluster)
    later = (await jobs.observe([Query(run=run, ended=ended)]))["toy"]
    assert later.known and later.value is not None
    assert (later.value.id, later.value.phase) == ("7", Phase.FAILED)
    assert later.value.rivals == later.value.queued == later.value.possible == ()


async def test_the_end_of_one_job_is_none_of_another_nor_of_a_silent_cluster() -> None:
    site = Site()
    site.cluster.accounting = False
    site.job.end(site.clock.at, "FAILED", "3:0")
    ended = await site.value()
    site.clock.at += FORGETS + 1
    jobs = SlurmJobs(site.clock, site.cluster)
    other = (await jobs.observe([Query(run=run_of("toy", "8"), ended=ended)]))["toy"]
    assert other.value is None and other.error is not None
    site.cluster.silent = "timed out"
    silent = (await jobs.observe([Query(run=run_of("toy"), ended=ended)]))["toy"]
    assert silent.value is None and silent.error is not None


async def test_what_lives_is_not_told_of_a_run_whose_job_no_job_can_be_called() -> None:
    """An empty answer would be taken for *nothing lives*, and a person could say it is over."""
    live = (await Site().jobs.live([run_of("toy", "toy-i001")]))["toy"]
    assert live.unknown is not None and "not a Slurm job id" in live.unknown


async def test_a_suspended_job_waits_since_then_and_has_begun_before() -> None:
    site = Site()
    began = site.clock.at
    site.clock.at += 7200
    site.job.state = "SUSPENDED"
    found = await site.value()
    assert found is not None and (found.phase, found.pending_since) == (Phase.WAITING, None)
    site.job.suspended = site.clock.at
    found = await site.value()
    assert found is not None
    assert (found.pending_since, found.started_at) == (site.clock.at, began)
