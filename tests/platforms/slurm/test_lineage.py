"""Which jobs are a run's: by comment, command and folders; what lives beside the current one.

A job known by its comment alone, which ended and was forgotten between two looks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.judgement.clock import SetClock
from bench.judgement.cluster import FORGETS, Cluster, Job
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, Phase
from cockpit.platforms.slurm.book import Book, Chains, links_of
from cockpit.platforms.slurm.jobs import SlurmJobs
from cockpit.platforms.slurm.lineage import Lineage, lineage_of, mark_of
from cockpit.platforms.slurm.record import Record, never_starts
from cockpit.rules.jobs.jobstate import pending_too_long
from tests.platforms.slurm.asking import run_of
from tests.rules.making import T0, history, job, run_spec

TOY = run_of("toy", "12", root="/runs/toy", wandb="abc123", diagnostic=("*-eval*",))


def record(raw: str = "12", state: str = "RUNNING", **more: object) -> Record:
    plain = Record(id=raw, raw=raw, base=raw, state=state, name="train", workdir="/home/ada")
    return replace(plain, **more)  # type: ignore[arg-type]


def found(*records: Record, chains: Chains | None = None, job: str | None = "12") -> Lineage:
    book, chains = Book({each.raw: each for each in records}), chains or Chains()
    chains.learn(book)
    assert TOY.job is not None
    run = TOY.model_copy(update={"job": TOY.job.model_copy(update={"id": job})})
    return lineage_of(run, book, chains)


@pytest.mark.parametrize(
    ("more", "proven"),
    [
        ({"comment": "toy-i003"}, True),
        ({"comment": "team=x, toy-i003"}, True),
        ({"command": "/home/ada/train.sh --output-dir /runs/toy"}, True),
        ({"command": "train.sh --output-dir=/runs/toy/seed0 --x 1"}, True),
        ({"command": "train.sh /runs/toy"}, False),
        ({"command": "sbatch --export=ALL,WANDB_RUN_ID=abc123 train.sh"}, True),
        ({"comment": "wandb=abc123"}, True),
        ({"output": "/runs/toy/slurm-12.out"}, True),
        ({"workdir": "/runs/toy"}, False),
    ],
)
def test_what_shows_the_lineage(more: dict[str, str], proven: bool) -> None:
    mark = mark_of(TOY, record(**more))
    assert mark is not None and mark.proven is proven


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"comment": "toy2-i003"},
        {"comment": "my-toy-i003"},
        {"command": "train.sh --output-dir /runs/toy2"},
        {"command": "train.sh --init-from /runs/toy/step-100"},
        {"command": "plot.py /runs/toy"},
        {"command": "train.sh --seed abc123"},
        {"output": "/runs/toys/slurm-12.out"},
    ],
)
def test_what_does_not(more: dict[str, str]) -> None:
    assert mark_of(TOY, record(**more)) is None


def test_another_living_job_of_the_lineage_is_a_rival() -> None:
    other = record("13", comment="toy-i004")
    lineage = found(record(), other, record("14"), record("15", "COMPLETED", comment="toy-i001"))
    (rival,) = lineage.beside.rivals
    assert (rival.id, rival.launch_id, rival.handle["job"]) == ("13", "toy-i004", "13")


def test_one_that_never_starts_by_itself_is_only_possible() -> None:
    held = record("13", "PENDING", reason="JobHeldUser", comment="toy-i004")
    lineage = found(record(), held)
    assert lineage.beside.rivals == [] and [job.id for job in lineage.beside.possible] == ["13"]


def test_a_diagnostic_job_stands_apart() -> None:
    lineage = found(record(), record("13", name="toy-eval-100", output="/runs/toy/eval.out"))
    assert lineage.beside.rivals == [] and [job.id for job in lineage.beside.spared] == ["13"]


def test_without_an_id_the_newest_launch_is_the_job() -> None:
    jobs = (record("20", "FAILED", comment="toy-i002"), record("19", comment="toy-i010"))
    lineage = found(*jobs, job=None)
    assert lineage.job is not None and lineage.job.id == "19"
    assert lineage.why == "found by launch id toy-i010"


def test_without_an_id_and_a_launch_the_living_writer_is_the_job() -> None:
    lineage = found(record("20", output="/runs/toy/log"), record("21"), job=None)
    assert lineage.job is not None and lineage.job.id == "20" and "output root" in lineage.why
    assert found(record("21"), job=None).job is None


def test_an_id_that_nothing_lists_gives_way_to_the_living_writer() -> None:
    lineage = found(record("20", comment="toy-i002"))
    assert lineage.job is not None and lineage.job.id == "20"
    assert lineage.why.endswith("12 is not listed any more")


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("afterany:12(unfulfilled)", [("afterany", "12")]),
        ("afternotok:12_*(unfulfilled)", [("afternotok", "12")]),
        ("afterany:12(failed),afterok:13(x)", [("afterany", "12"), ("afterok", "13")]),
        ("afterany:12(x)?afterok:14+0(x)", [("afterany", "12"), ("afterok", "14")]),
        ("singleton(unfulfilled)", [("singleton", "")]),
        ("after:12+5(unfulfilled)", []),
        ("(null)", []),
    ],
)  # fmt: skip
def test_what_a_job_waits_for(text: str, links: list[tuple[str, str]]) -> None:
    assert [tuple(link) for link in links_of(record(dependency=text))] == links


def test_newer_versions_show_the_words_of_sbatch() -> None:
    told = record(command="sbatch --parsable -d afterany:12:13 train.sh")
    assert [link.before for link in links_of(told)] == ["12", "13"]
    told = record(command="sbatch --dependency=singleton train.sh")
    assert [link.kind for link in links_of(told)] == ["singleton"]


def waiting(raw: str, before: str, kind: str = "afterany", **more: object) -> Record:
    told = f"{kind}:{before}(unfulfilled)"
    return record(raw, "PENDING", reason="Dependency", dependency=told, **more)


def test_all_that_waits_comes_next_in_order() -> None:
    lineage = found(record(), waiting("13", "12"), waiting("14", "13", "afternotok"))
    assert [(job.id, job.why) for job in lineage.queued] == [
        ("13", "afterany 12"), ("14", "afternotok 13"),
    ]  # fmt: skip
    assert lineage.beside.rivals == []


def test_what_waits_for_a_success_never_starts_behind_a_stop() -> None:
    either = record("16", "PENDING", dependency="afterok:12(unfulfilled)?afterany:9(unfulfilled)")
    jobs = (waiting("13", "12", "afterok"), waiting("14", "13", "afterok"), waiting("15", "12"))
    lineage = found(record(), *jobs, either)
    assert [(job.id, job.needs_success) for job in lineage.queued] == [
        ("13", True), ("15", False), ("16", False), ("14", False),
    ]  # fmt: skip


def test_what_can_never_start_does_not_come_next() -> None:
    never = waiting("13", "12", "afterok", comment="toy-i009")
    never = replace(never, reason="DependencyNeverSatisfied")
    lineage = found(record(state="FAILED", ended=5.0), never)
    assert lineage.job is not None and lineage.job.id == "12" and lineage.queued == ()


def test_a_chain_moves_on_and_its_links_are_remembered() -> None:
    """Slurm clears a dependency once it is met, and forgets jobs that have ended."""
    chains = Chains()
    found(record(), waiting("13", "12"), waiting("14", "13"), chains=chains)
    second = record("13", "TIMEOUT", ended=9.0)
    lineage = found(second, record("14"), chains=chains)
    assert lineage.job is not None and lineage.job.id == "14"
    assert lineage.passed == ("12", "13") and lineage.queued == ()


def test_another_kind_of_job_that_waits_is_no_successor() -> None:
    chains = Chains()
    found(record(), waiting("13", "12", name="upload"), chains=chains)
    ended = record(state="FAILED", ended=9.0)
    lineage = found(ended, record("13", name="upload"), chains=chains)
    assert lineage.job is not None and lineage.job.id == "12" and lineage.passed == ()


def test_a_namesake_that_was_free_to_start_before_is_no_successor() -> None:
    ended = record(state="FAILED", ended=1000.0)
    free = record("13", submitted=900.0, eligible=900.0, started=1000.0)
    assert found(ended, free).passed == ()
    freed = replace(free, eligible=1001.0)
    assert found(ended, freed).passed == ("12",)
    assert found(ended, freed, replace(freed, id="14", raw="14", base="14")).passed == ()


def test_jobs_that_nobody_named_are_not_alike() -> None:
    ended = record(state="FAILED", name="wrap", ended=1000.0)
    freed = record("13", name="wrap", submitted=900.0, eligible=1001.0)
    assert found(ended, freed).passed == ()
    both = (replace(each, command="/home/ada/train.sh") for each in (ended, freed))
    assert found(*both).passed == ("12",)


def test_a_job_that_was_eligible_a_moment_after_it_came_waited_for_nothing() -> None:
    ended = record(state="FAILED", ended=1000.0)
    at_once = record("13", submitted=999.0, eligible=1000.0)
    assert found(ended, at_once).passed == ()


@pytest.mark.parametrize(
    ("more", "follows"),
    [
        ({}, True),
        ({"started": None, "state": "PENDING"}, True),
        ({"submit_host": "node3.cluster"}, True),
        ({"submitted": 500.0, "eligible": 500.0}, False),
        ({"submit_host": "login1"}, False),
        ({"started": 900.0}, False),
        ({"uid": "1001"}, False),
        ({"script": "/home/ada/train.sh --output-dir /runs/other"}, False),
    ],
)
def test_a_job_that_submits_its_successor_with_its_last_words_goes_on(
    more: dict[str, object], follows: bool
) -> None:
    """A trap of ``--signal`` calls sbatch and ends: the two meet within one second."""
    script = "/home/ada/train.sh"
    ended = record(
        state="COMPLETED", script=script, uid="1000", node="node3", started=100.0, ended=1000.0
    )
    at: dict[str, object] = {"submitted": 1000.0, "eligible": 1000.0, "started": 1000.0}
    at |= {"script": script, "uid": "1000", "submit_host": "node3"}
    after = replace(record("13"), **{**at, **more})  # type: ignore[arg-type]
    assert (found(ended, after).passed == ("12",)) is follows
    twin = replace(record("14"), **at)  # type: ignore[arg-type]
    assert found(ended, after, twin).passed == (() if follows else ("12",))


@pytest.mark.parametrize(
    ("former", "later", "follows"),
    [
        ({}, {}, True),
        ({"submit_host": "login1"}, {}, True),
        ({"submit_session": "77"}, {"submit_session": "77"}, False),
        ({"submit_session": "77"}, {"submit_session": "80"}, True),
        ({"script": "train.sh --lr 3"}, {"script": "train.sh --lr 4"}, False),
        ({"script": "train.sh 3"}, {"script": "train.sh 4"}, False),
        ({"script": "train.sh 3", "submit_host": "login1"}, {"script": "train.sh 4"}, True),
        ({"script": "train.sh"}, {"script": "train.sh --resume-step 40"}, True),
    ],
)
def test_on_a_machine_where_people_submit_a_job_of_a_sweep_is_no_successor(
    former: dict[str, Any], later: dict[str, Any], follows: bool
) -> None:
    """On one machine that is all of the cluster, every job comes from the node of the others."""
    one: dict[str, Any] = {"script": "train.sh", "uid": "1000", "submit_host": "box"}
    times = {"started": 100.0, "ended": 1000.0}
    ended = record(state="COMPLETED", node="box", **{**one, **times, **former})
    at: dict[str, Any] = {"submitted": 950.0, "eligible": 950.0, "started": 1001.0}
    after = record("13", **{**one, **at, **later})
    assert (found(ended, after).passed == ("12",)) is follows


def test_the_newest_launch_wins_over_a_named_job_that_is_over() -> None:
    """A cockpit was killed between the start of a job and its records."""
    old = record("12", "CANCELLED", submitted=100.0, ended=200.0)
    new = record("15", comment="toy-i002", submitted=210.0)
    seen = found(old, new)
    assert seen.job is not None and seen.job.id == "15" and not seen.beside.rivals
    assert seen.why == "found by launch id toy-i002, newer than 12"
    ended = replace(new, state="FAILED", ended=300.0, node="n1")
    seen = found(old, ended)
    assert seen.job is not None and seen.job.id == "15"


@pytest.mark.parametrize(
    "launch",
    [
        {"submitted": 50.0},  # the named one was submitted later, by hand
        {"submitted": 150.0, "state": "FAILED", "ended": 180.0},  # it has not outlived it
        {"submitted": 210.0, "state": "PENDING", "reason": "JobHeldUser", "said_by": "scontrol"},
        {
            "submitted": 210.0, "state": "CANCELLED", "ended": 220.0, "reason": "JobHeldUser",
            "said_by": "scontrol",
        },
    ],
)  # fmt: skip
def test_what_was_never_let_go_or_came_before_is_not_the_newest(launch: dict[str, object]) -> None:
    old = record("12", "FAILED", submitted=100.0, ended=200.0)
    seen = found(old, replace(record("9"), comment="toy-i002", **launch))  # type: ignore[arg-type]
    assert seen.job is not None and seen.job.id == "12"


def test_a_named_job_that_lives_stays_the_current_one_beside_a_launch() -> None:
    seen = found(record("12", submitted=100.0), record("15", comment="toy-i002", submitted=210.0))
    assert seen.job is not None and seen.job.id == "12"
    assert [job.id for job in seen.beside.rivals] == ["15"]


def ended_at(raw: str, submitted: float, eligible: float, ended: float | None) -> Record:
    state = "RUNNING" if ended is None else "FAILED"
    return record(raw, state, submitted=submitted, eligible=eligible, ended=ended)


@pytest.mark.parametrize("long", [0.0, 1.0, 20.0, 700.0])
def test_the_newest_link_of_a_chain_is_the_job_however_short_the_links_were(long: float) -> None:
    """Slurm has forgotten who waited for whom: each was eligible from the former one's end on."""
    ends = [100.0 + long * link for link in range(3)]
    links = [
        ended_at("12", 0.0, 0.0, ends[0]),
        ended_at("13", 1.0, ends[0], ends[1]),
        ended_at("14", 2.0, ends[1], ends[2]),
        ended_at("15", 3.0, ends[2], None),
    ]
    seen = found(*links)
    assert seen.job is not None and seen.job.id == "15" and seen.job.lives
    assert seen.passed[0] == "12" and not seen.beside.possible


def test_a_chain_beside_it_goes_its_own_way() -> None:
    """Two chains of one script: each job follows the last one that ended before it could start."""
    seen = found(
        ended_at("12", 0.0, 0.0, 100.0), ended_at("13", 2.0, 100.0, 160.0),
        ended_at("22", 1.0, 1.0, 130.0), ended_at("23", 3.0, 130.0, None),
    )  # fmt: skip
    assert seen.job is not None and seen.job.id == "13"
    assert [job.id for job in seen.beside.possible] == ["23"]  # alike: a person says what it is


def test_a_job_that_completes_for_minutes_holds_up_the_next() -> None:
    seen = found(ended_at("12", 0.0, 0.0, 100.0), ended_at("13", 1.0, 500.0, None))
    assert seen.job is not None and seen.job.id == "13"


def matching(*records: Record, job: str | None = "12") -> Lineage:
    book, chains = Book({each.raw: each for each in records}, "1000"), Chains()
    chains.learn(book)
    return lineage_of(run_of("toy", job, match="llama-*", diagnostic=("*-eval",)), book, chains)


def test_the_newest_of_mine_that_fits_the_pattern_is_the_current_job() -> None:
    """It was submitted by hand, and the former one lives on beside it: two writers."""
    old = record("12", submitted=100.0, uid="1000")
    new = record("20", name="llama-70b", submitted=300.0, uid="1000")
    seen = matching(old, new, record("15", name="llama-7b", submitted=200.0, uid="1000"))
    assert seen.job is not None and seen.job.id == "20"
    assert seen.why == "the newest of your jobs that fits job.match, newer than 12"
    assert [job.id for job in seen.beside.rivals] == ["12"]
    assert seen.mark is not None and seen.mark.why == "its name fits job.match"
    alone = matching(new, job=None)
    assert alone.job is not None and alone.job.id == "20"


@pytest.mark.parametrize(
    "more",
    [
        {"name": "train"},
        {"uid": "1001"},
        {"name": "llama-eval"},
        {"comment": "other-i003"},
        {"submitted": 50.0},
        {"state": "PENDING", "reason": "JobHeldUser", "said_by": "scontrol"},
    ],
)
def test_what_does_not_fit_is_not_the_current_job(more: dict[str, object]) -> None:
    """Another name, another user's, a diagnostic one, another run's, an older one, one held."""
    told = replace(record("20"), name="llama-70b", submitted=300.0, uid="1000")
    seen = matching(record("12", submitted=100.0, uid="1000"), replace(told, **more))  # type: ignore[arg-type]
    assert seen.job is not None and seen.job.id == "12"


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


WORDS = ("DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "PartitionNodeLimit")


@pytest.mark.parametrize("reason", [*WORDS, "BadConstraints", "(jobheldadmin)"])
def test_what_never_starts(reason: str) -> None:
    assert never_starts(reason)


@pytest.mark.parametrize("reason", ["Priority", "Resources", "BeginTime", "Dependency", "", None])
def test_what_has_its_turn_some_time(reason: str | None) -> None:
    assert not never_starts(reason)


@pytest.mark.parametrize("reason", WORDS)
def test_the_rule_says_so_at_once(reason: str) -> None:
    value = job(Phase.WAITING, pending_since=T0, reason=reason, never=never_starts(reason))
    (alert,) = pending_too_long(run_spec(), history(T0 + 1, job=value))
    assert (
        alert.title == "Job can never start" and "change the resource request" in alert.next_action
    )
