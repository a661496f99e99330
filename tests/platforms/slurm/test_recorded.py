"""What three versions of Slurm have answered, recorded: one reader, the same facts from each."""

from __future__ import annotations

import pytest

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import JobValue, Phase, Tasks
from cockpit.platforms.slurm.record import (
    PHASE_OF,
    Record,
    first_node,
    in_words,
    instant,
    sacct_records,
    scontrol_records,
    squeue_records,
    task_numbers,
)
from cockpit.platforms.slurm.value import output_of
from tests.platforms.slurm.asking import VERSIONS, observed, reader, recorded, run_of

R, W, F, C, S = Phase.RUNNING, Phase.WAITING, Phase.FAILED, Phase.CANCELLED, Phase.SUCCEEDED
JOBS = "/home/ada/jobs"
every_version = pytest.mark.parametrize("version", VERSIONS)


async def read(monkeypatch: pytest.MonkeyPatch, version: str, job: str) -> Facet[JobValue]:
    jobs = reader(monkeypatch, recorded(version))
    return (await observed(jobs, run_of("toy", job)))["toy"]


async def value(monkeypatch: pytest.MonkeyPatch, version: str, job: str) -> JobValue:
    facet = await read(monkeypatch, version, job)
    assert facet.value is not None and facet.error is None
    return facet.value


@every_version
@pytest.mark.parametrize(
    ("job", "phase", "reason", "code"),
    [
        ("3", S, None, 0),
        ("4", F, "its command failed: NonZeroExitCode", 3),
        ("7_1", F, "its command failed: NonZeroExitCode", 1),
        ("11", W, "DependencyNeverSatisfied; afterok:10(failed)", None),
        ("13", W, "held: never starts before it is released: JobHeldUser", None),
        ("14", W, "waiting for its begin time: BeginTime", None),
        ("16", W, "requeued once", None),
        ("21", W, "waiting for other jobs: Resources", None),
        ("22", W, "waiting for other jobs: Resources", None),
    ],
)
async def test_each_version_tells_the_same(
    monkeypatch: pytest.MonkeyPatch,
    version: str, job: str, phase: Phase, reason: str | None, code: int | None,
) -> None:  # fmt: skip
    found = await value(monkeypatch, version, job)
    assert (found.id, found.phase, found.exit_code) == (job, phase, code)
    assert (reason or "") in (found.reason or "") and bool(reason) == bool(found.reason)
    assert found.never is (job in ("11", "13"))


@every_version
async def test_a_job_killed_by_a_signal(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    found = await value(monkeypatch, version, "5")
    assert (found.phase, found.exit_code) == (F, -9)
    assert found.reason is not None and "folder" not in found.reason


@every_version
async def test_who_cancelled_a_job_is_told_by_accounting(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    found = await value(monkeypatch, version, "6")
    assert (found.phase, found.exit_code) == (C, -15)
    told = ("CANCELLED by 0", "cancelled by user 0") if version != "22.05" else ("CANCELLED", None)
    assert (found.state, found.reason) == told


@every_version
async def test_a_hostile_name_leads_to_the_right_file(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    found = await value(monkeypatch, version, "9")
    assert found.output == f'{JOBS}/out dir we|ird "name" é,{{x}}-9.txt'


@every_version
async def test_a_name_that_holds_another_jobs_record_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Job 17 is called like a record of job 2, and its comment names another output."""
    second = await value(monkeypatch, version, "2")
    spoof = await value(monkeypatch, version, "17")
    assert second.phase is R and second.output is None
    assert spoof.phase is R and spoof.output != "/etc/passwd"


@every_version
async def test_an_array_counts_its_tasks(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    found = await value(monkeypatch, version, "7")
    assert found.tasks is not None and found.tasks.total == 6
    assert found.phase in (R, W) and "tasks did not succeed: 7_" in (found.reason or "")
    assert any(child.startswith("7_0") for child in found.children)
    assert sum(each.count for each in found.members) == 6


@every_version
async def test_tasks_one_by_one_are_a_chain(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    found = await value(monkeypatch, version, "8")
    assert (found.phase, found.restarts, found.tasks) == (R, 2, None)
    assert found.output == f"{JOBS}/one_8_2.log"
    (after,) = found.queued
    assert after.id in ("8_3", "8_[3%1]") and "one by one" in after.why
    assert after.part_of == "8"


@every_version
@pytest.mark.parametrize("named", ["22", "22+1", "23"])
async def test_a_heterogeneous_job_is_one_job_by_whatever_part_it_is_named(
    monkeypatch: pytest.MonkeyPatch, version: str, named: str
) -> None:
    found = await value(monkeypatch, version, named)
    assert (found.tasks, found.children) == (Tasks(running=0, total=2), ("22+0", "22+1"))
    assert found.id == "22", "what a stop cancels, and says so"


@every_version
async def test_what_waited_for_a_jobs_end_goes_on_for_it(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Job 10 has failed; 12 waited for that, 11 for its success: nothing tells but the times."""
    facet = await read(monkeypatch, version, "10")
    assert facet.value is not None and facet.source.endswith("follows 10")
    assert (facet.value.id, facet.value.phase, facet.value.restarts) == ("12", R, 1)


@every_version
async def test_a_job_that_the_controller_forgot(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    facet = await read(monkeypatch, version, "1")
    if version == "22.05":  # there accounting is off
        assert facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND
        assert "accounting storage is disabled" in facet.error.message
    else:
        assert facet.value is not None and facet.source == "slurm here, sacct"
        assert (facet.value.phase, facet.value.exit_code) == (F, 3)


@every_version
async def test_times_are_the_hosts_and_waiting_has_no_start(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    runs = await value(monkeypatch, version, "9")
    waits = await value(monkeypatch, version, "14")
    assert runs.started_at is not None and runs.pending_since is None
    assert waits.started_at is None and waits.pending_since is not None
    assert waits.expected_start is not None
    assert 3590 <= waits.expected_start - waits.pending_since <= 3610


@every_version
def test_both_commands_tell_of_the_same_jobs(version: str) -> None:
    parts = recorded(version).split("\nMARK ")
    queue = next(part for part in parts if part.startswith("squeue.out\n"))[len("squeue.out\n") :]
    shown = next(part for part in parts if part.startswith("scontrol.out"))
    queued = {each.raw for each in squeue_records(queue, "MARK")}
    told = {each.raw for each in scontrol_records(shown)}
    assert queued - told == {"2", "17"} and len(queued) >= 20


MATRIX = {
    Phase.RUNNING: "RUNNING COMPLETING STAGE_OUT SIGNALING RESIZING",
    Phase.WAITING: "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT SUSPENDED",
    Phase.SUCCEEDED: "COMPLETED",
    Phase.FAILED: "FAILED TIMEOUT NODE_FAIL OUT_OF_MEMORY PREEMPTED BOOT_FAIL DEADLINE",
    Phase.CANCELLED: "CANCELLED",
    Phase.UNKNOWN: "REVOKED BRAND_NEW",
}


def record(**more: object) -> Record:
    plain: dict[str, object] = {"id": "7", "raw": "7", "base": "7", "state": "RUNNING"}
    return Record(**{**plain, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "phase"), [(word, phase) for phase, words in MATRIX.items() for word in words.split()]
)
def test_every_state_has_its_phase(word: str, phase: Phase) -> None:
    assert record(state=word).phase is phase
    assert PHASE_OF.get(word, Phase.UNKNOWN) is phase


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("CANCELLED by 1000", Phase.CANCELLED),
        ("CANCELLED,COMPLETING", Phase.RUNNING),
        ("PENDING,SPECIAL_EXIT", Phase.WAITING),
        ("", Phase.UNKNOWN),
    ],
)
def test_more_than_one_word(state: str, phase: Phase) -> None:
    assert record(state=state).phase is phase


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/o/slurm-%j.out", "/o/slurm-71.out"),
        ("%x_%A_%a.log", "/w/my job_70_3.log"),
        ("/o/%5a-%b-%N", "/o/00003-3-gpu1"),
        ("/o/100%%-%s%t%n", "/o/100%-batch00"),
        ("/o/\\%j", "/o/%j"),
        ("/o/plain", "/o/plain"),
    ],
)
def test_patterns_of_the_output_are_filled(pattern: str, path: str) -> None:
    task = record(
        id="70_3", raw="71", base="70", kind="array", tasks="3", name="my job", workdir="/w",
        node="gpu1.cluster", output=pattern,
    )  # fmt: skip
    assert output_of(task) == path


def test_an_output_that_is_not_known_yet_is_not_guessed() -> None:
    waiting = record(kind="array", tasks="2-5%2", output="/w/arr_70_4294967294.log")
    assert output_of(waiting) is None
    assert output_of(record(output="/w/%u.log")) is None
    assert output_of(record(output="slurm.out")) is None and output_of(record()) is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("gpu1", "gpu1"), ("gpu[003-007,9],login1", "gpu003"), ("a1,a2", "a1"), ("", "")],
)
def test_the_first_machine_of_a_list(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


def test_index_ranges_are_read_and_nonsense_is_not() -> None:
    assert [len(each) for each in task_numbers("0,4-8:2,10-12%3")] == [1, 3, 3]
    assert task_numbers("9-99999999999,x,-") == []


def test_no_time_is_no_instant() -> None:
    assert instant("2026-11-21T07:42:54") == 1795246974.0
    assert [instant(each) for each in ("Unknown", "N/A", "", "99")] == [None] * 4


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "waiting for other jobs: Resources"),
        ("Priority", "waiting for other jobs: Priority"),
        ("ReqNodeNotAvail, UnavailableNodes:vm", "waiting for nodes: "),
        ("Nodes required for job are DOWN, DRAINED or", "waiting for nodes: Nodes required"),
        ("QOSMaxGRESPerUser", "waiting: a limit is reached: QOSMaxGRESPerUser"),
        ("launch_failed_requeued_held", "held: never starts"),
        ("SomethingNew", "SomethingNew"),
        ("None", None),
        ("(null)", None),
    ],
)
def test_reasons_in_words(reason: str, words: str | None) -> None:
    found = in_words(reason)
    assert found is words is None or (words is not None and (found or "").startswith(words))


def test_a_step_that_lost_its_memory_goes_to_its_job() -> None:
    lines = [
        ("9", "9", "FAILED", "1:0"), ("9.batch", "9.batch", "FAILED", "1:0"),
        ("9.0", "9.0", "OUT_OF_MEMORY", "0:125"), ("9.1", "9.1", "COMPLETED", "0:0"),
    ]  # fmt: skip
    rest = ("2026-11-21T07:42:54",) * 3 + (
        "UNLIMITED",
        "vm",
        "0",
        "cpu=8,gres/gpu=4,gres/gpu:a100=4",
    )
    out = "\n".join("\x1fM\x1f".join((*line, *rest)) for line in lines)
    (job,) = sacct_records(f"warning\n{out}\n", "M")
    assert job.accelerators == 4
    assert job.steps == (("batch", "FAILED"), ("0", "OUT_OF_MEMORY"))


@pytest.mark.parametrize(
    "text", ["", "\n\n", "<html>", "JobId=1 JobName=", "JobId=x\n   JobState=Y"]
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert scontrol_records(text) == []


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ("TRES=cpu=8,mem=64G,node=2,billing=8,gres/gpu=16", 16),
        ("ReqTRES=cpu=8 AllocTRES=cpu=8,gres/gpu=16,gres/gpu:a100=16", 16),
        ("AllocTRES=cpu=8,gres/gpu:a100=4,gres/gpu:h100=2", 6),
        ("AllocTRES=cpu=8,mem=64G", None),
        ("AllocTRES=(null)", None),
        ("NumNodes=3\n   TRES=cpu=8\n   TresPerNode=gres:gpu:2", 6),
        ("NumNodes=2\n   AllocTRES=cpu=8\n   TresPerNode=gres/gpu:a100:4", 8),
        ("NumNodes=2\n   TresPerJob=gres/gpu:16", 16),
        ("NumNodes=1\n   NumTasks=8\n   TresPerTask=cpu=2,gres/gpu=1", 8),
        ("NumNodes=1-4\n   TresPerNode=gres/gpu:4", None),
        ("NumNodes=2\n   TRES=cpu=8,gres/gpu=4\n   TresPerNode=gres/gpu:2", 4),
        ("NumNodes=2\n   TresPerNode=gres/shard:3", None),
        ("Nice=0", None),
    ],
)
def test_the_gpus_that_a_job_holds(told: str, count: int | None) -> None:
    shown = f"JobId=7 JobName=train\n   UserId=ada(1000)\n   JobState=RUNNING\n   {told}\n"
    (record,) = scontrol_records(shown)
    assert record.accelerators == count
