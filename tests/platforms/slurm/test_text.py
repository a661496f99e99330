from __future__ import annotations

import pytest

from cockpit.model.observed import Phase
from cockpit.platforms.slurm.record import (
    PHASE_OF,
    Record,
    first_node,
    in_words,
    instant,
    sacct_records,
    scontrol_records,
    task_numbers,
)
from cockpit.platforms.slurm.value import output_of

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
