"""What a cluster that does not answer well is told of: unknown, and why, in one line.

The words of a submit: what the cockpit adds, and what it does not let pass (SPEC A-2).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Live
from cockpit.model.observed import JobValue, Phase
from cockpit.model.plan import Level
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.slurm import ask
from cockpit.platforms.slurm import command as platform_command
from cockpit.platforms.slurm.book import Job
from cockpit.platforms.slurm.jobs import SlurmJobs
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.value import value_of
from cockpit.rules.triage.classify import word_of
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from tests.platforms.slurm.asking import Recording, observed, platform, reader, recorded, run_of
from tests.rules.asking import triage

RUN = run_of("toy", "4")
SAID = {
    "slurm_load_jobs error: Socket timed out on send/recv operation": ErrorKind.TIMEOUT,
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)": (
        ErrorKind.REFUSED
    ),
    "squeue: error: Munge encode failed: Failed to access: No such file or directory\n"
    "slurm_load_jobs error: Protocol authentication error": ErrorKind.UNAUTHORIZED,
    "slurm_load_jobs error: Access/permission denied": ErrorKind.PERMISSION,
    "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
    "squeue: fatal: Could not establish a configuration source": ErrorKind.NOT_FOUND,
    "sh: 1: squeue: not found": ErrorKind.NOT_FOUND,
    "something else": ErrorKind.BAD_ANSWER,
}


def command(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


async def refused(jobs: SlurmJobs) -> tuple[ErrorKind, str]:
    facet = (await observed(jobs, RUN))["toy"]
    assert facet.value is None and facet.error is not None and facet.configured
    assert "\n" not in facet.error.message and len(facet.error.message) < 400
    return facet.error.kind, facet.error.message


def real() -> SlurmJobs:
    return SlurmJobs(SystemClock(), run_script)


@pytest.mark.parametrize(("said", "kind"), SAID.items())
async def test_what_squeue_says_has_its_kind(commands: Path, said: str, kind: ErrorKind) -> None:
    command(commands, "squeue", f"cat >&2 <<'X'\n{said}\nX\nexit 1")
    found, message = await refused(real())
    assert found is kind and message.startswith("slurm here: ")
    assert said.rpartition(": ")[2][:40] in message


@pytest.mark.parametrize("text", ["echo '<html><body>Log in'", "printf 'm\\037x\\n'"])
async def test_anything_else_than_a_list_is_a_bad_answer(commands: Path, text: str) -> None:
    command(commands, "squeue", text)
    kind, message = await refused(real())
    assert kind is ErrorKind.BAD_ANSWER and "no list of jobs" in message


@pytest.mark.parametrize("before", ["", "echo half a line"])
async def test_a_command_that_hangs_is_given_up_there(
    commands: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(ask, "CONTROLLER", 0.2)
    command(commands, "squeue", f"{before}\nexec sleep 60")
    kind, message = await refused(real())
    assert kind is ErrorKind.TIMEOUT and "did not answer in time" in message


async def test_a_machine_that_hangs_is_given_up_here(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What squeue has said until then tells why."""
    monkeypatch.setattr(ask, "DEADLINE", 0.4)
    command(commands, "squeue", "echo 'squeue: error: cannot stat file /x' >&2; exec sleep 5")
    kind, message = await refused(real())
    assert kind is ErrorKind.NOT_FOUND and "SLURM_CONF" in message


async def test_an_answer_without_end_is_cut(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "CAP", 1_000_000)
    command(commands, "squeue", "head -c 4000000 /dev/zero | tr '\\0' x")
    kind, message = await refused(real())
    assert kind is ErrorKind.BAD_ANSWER and "larger than 1 MB" in message


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.95])
async def test_an_answer_that_breaks_off_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, kept: float
) -> None:
    text = recorded("24.11")
    jobs = reader(monkeypatch, text[: int(len(text) * kept)])
    kind, message = await refused(jobs)
    assert kind is ErrorKind.BAD_ANSWER and "cut off" in message


async def test_the_controller_may_fall_silent_between_two_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = recorded("22.05")
    begin, end = text.index("MARK scontrol.out"), text.index("MARK scontrol.rc")
    said = "MARK scontrol.out\nslurm_load_jobs error: Socket timed out on send/recv operation\n\n"
    cut = (text[:begin] + said + text[end:]).replace("MARK scontrol.rc\n0", "MARK scontrol.rc\n1")
    assert (await refused(reader(monkeypatch, cut)))[0] is ErrorKind.TIMEOUT


@pytest.mark.parametrize("job", ["x; rm -rf /", "$(id)", "12 13", "-1", "1" * 30, "4\n5"])
async def test_an_id_that_is_none_never_reaches_a_shell(
    monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    jobs = reader(monkeypatch, recorded("22.05"))
    facet = (await observed(jobs, run_of("toy", job)))["toy"]
    assert facet.error is not None and "is not a Slurm job id" in facet.error.message
    assert isinstance(jobs._run, Recording)
    assert all(job not in script for _, script in jobs._run.asked)


async def test_a_state_that_nobody_knows_is_shown_and_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = recorded("24.11").replace("\x1fFAILED\x1f", "\x1fBRAND_NEW\x1f")
    jobs = reader(monkeypatch, text.replace("JobState=FAILED", "JobState=BRAND_NEW"))
    value = (await observed(jobs, RUN))["toy"].value
    assert value is not None and (value.state, value.phase) == ("BRAND_NEW", Phase.UNKNOWN)


async def test_a_host_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(*_args: object, **_more: object) -> Completed:
        raise RemoteError(ErrorKind.REFUSED, "login: connection refused")

    jobs = SlurmJobs(SystemClock(), unreachable)
    run = run_of("toy", "4", host="login")
    facet = (await observed(jobs, run))["toy"]
    assert facet.error is not None and facet.error.kind is ErrorKind.REFUSED
    assert facet.error.message == "slurm login: login: connection refused"
    assert (await jobs.live([run]))["toy"] == Live(unknown=facet.error.message)


async def test_one_cluster_that_fails_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = Recording(recorded("22.05"))

    async def either(host: str | None, script: str, *, deadline: float, cap: int) -> Completed:
        if host == "dark":
            raise RemoteError(ErrorKind.TIMEOUT, "dark: no answer within 5 s")
        return await good(host, script, deadline=deadline, cap=cap)

    monkeypatch.setattr(ask, "new_mark", lambda: "MARK")
    jobs = SlurmJobs(SystemClock(), either)
    found = await observed(jobs, RUN, run_of("other", "4", host="dark"))
    assert found["toy"].known and not found["other"].known


async def test_it_recovers_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    down = (
        "\nMARK squeue.err\nUnable to contact slurm controller\n\nMARK squeue.rc\n1\n\nMARK end\n"
    )
    jobs = reader(monkeypatch, down, recorded("22.05"))
    assert (await refused(jobs))[0] is ErrorKind.REFUSED
    assert (await observed(jobs, RUN))["toy"].known


async def test_a_host_whose_clock_is_off_tells_times_on_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = recorded("22.05")
    there = float(text.split("MARK date\n")[1].split()[0])
    monkeypatch.setattr(ask, "new_mark", lambda: "MARK")
    starts = []
    for off in (0.0, 1.0, 3600.0):
        jobs = SlurmJobs(SystemClock(), Recording(text), functools.partial(add, there, off))
        value = (await observed(jobs, run_of("toy", "9", host="login")))["toy"].value
        assert value is not None and value.started_at is not None
        starts.append(value.started_at)
    assert [each - starts[0] for each in starts] == [0.0, 0.0, 3600.0]


async def test_two_hundred_runs_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = reader(monkeypatch, recorded("24.11"))
    assert isinstance(jobs._run, Recording)
    found = await observed(jobs, *(run_of(f"r{n}", str(n % 25)) for n in range(200)))
    assert len(found) == 200 and len(jobs._run.asked) == 1


async def test_an_end_that_is_known_is_not_asked_for_again_and_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller forgets a job after some minutes; where accounting is off nobody knows it."""
    text = recorded("22.05")
    empty = "\nMARK squeue.rc\n0\n\nMARK squeue.out\n\nMARK scontrol.rc\n0\n\nMARK end\n"
    jobs = reader(monkeypatch, text, empty)
    first = (await observed(jobs, RUN))["toy"].value
    later = (await observed(jobs, RUN))["toy"].value
    assert first == later and first is not None and first.phase is Phase.FAILED
    assert isinstance(jobs._run, Recording)
    asked = [" 4 " in f" {script} " for _, script in jobs._run.asked]
    assert asked == [False, False] or "wanted=' 4 '" not in jobs._run.asked[1][1]


async def test_doctor_names_what_is_wrong(commands: Path) -> None:
    command(commands, "squeue", "echo 'squeue: fatal: Could not establish a configuration source'")
    command(commands, "scontrol", "exit 1")
    (found,) = await platform().findings([RUN, run_of("other", "5")])
    assert found.endpoint == "slurm here" and "no Slurm: its" in found.text
    assert found.remedy is not None and "SLURM_CONF" in found.remedy


def value(**more: Any) -> JobValue:
    record = Record(id="9", raw="9", base="9", state="FAILED", name="hero", ended=5.0)
    return value_of(run_of("toy", "9"), Job("9", (replace(record, **more),)))


def test_a_step_that_lost_its_memory_is_the_diagnosis() -> None:
    """Slurm calls the job itself FAILED with exit 1: only its step says why."""
    found = value(exit=(1, 0), reason="NonZeroExitCode", steps=(("0", "OUT_OF_MEMORY"),))
    assert (found.state, found.exit_code) == ("FAILED", 1)
    assert found.reason is not None and "step 0 OUT_OF_MEMORY" in found.reason
    lines = ["step 3 loss 1.0", "srun: error: task 0: Exited with exit code 1"]
    assert triage(lines, word_of(found), found.exit_code).name == "oom_host"
    plain = value(exit=(1, 0), reason="NonZeroExitCode")
    assert triage(lines, word_of(plain), plain.exit_code).name != "oom_host"


def test_a_lost_node_may_still_run_what_it_ran() -> None:
    found = value(state="NODE_FAIL", reason="NodeDown", node="gpu7")
    assert found.phase is Phase.FAILED and found.node == "gpu7"
    assert "gpu7 does not answer: its processes may run on" in (found.reason or "")
    assert triage(["step 3 loss 1.0"], word_of(found), found.exit_code).name == "node_death"


@pytest.mark.parametrize(
    ("told", "code"),
    [((3, 0), 3), ((0, 9), -9), ((139, 0), 139), ((0, 53), None), ((0, 125), None), (None, None)],
)
def test_exit_codes(told: tuple[int, int] | None, code: int | None) -> None:
    assert value(exit=told).exit_code == code


def test_a_limit_is_no_exit_code() -> None:
    found = value(state="TIMEOUT", reason="TimeLimit", exit=(0, 0))
    assert found.exit_code is None and "its time limit was reached" in (found.reason or "")


def queued(expected: str) -> str:
    fields = ["9", "9", "N/A", "9", "PENDING", "Resources", expected, "N/A", "1:00"]
    fields += ["2026-11-22T12:00:00", "0", "(null)", "/w", "hero", "(null)"]
    line = "MARK\x1f" + "\x1fMARK\x1f".join(fields)
    head = "\nMARK squeue.rc\n0\n\nMARK squeue.out\n"
    return f"{head}{line}\n\nMARK scontrol.out\n\nMARK scontrol.rc\n0\n\nMARK end\n"


async def test_an_estimate_that_slips_is_late_by_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = (queued("2026-11-22T13:00:00"), queued("2026-11-22T19:00:00"))
    jobs = reader(monkeypatch, *answers)
    starts = []
    for _ in answers:
        found = (await observed(jobs, run_of("toy", "9")))["toy"].value
        assert found is not None and found.expected_start is not None
        starts.append(found.expected_start - (found.pending_since or 0.0))
    assert starts == [3600.0, 3600.0]


async def test_a_year_ahead_is_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = reader(monkeypatch, queued("2027-11-22T12:00:00"))
    found = (await observed(jobs, run_of("toy", "9")))["toy"].value
    assert found is not None and found.expected_start is None
    assert isinstance(jobs._run, Recording) and len(jobs._run.asked) == 1


def test_when_it_was_told_to_make_room_counts_while_it_runs_and_of_this_start() -> None:
    running = {"state": "RUNNING", "ended": None, "started": 100.0}
    assert value(**running, preempted=150.0).preempted_at == 150.0
    assert value(**running, preempted=50.0).preempted_at is None, "of the start before a requeue"
    assert value(preempted=150.0).preempted_at is None


def test_an_array_holds_the_accelerators_of_its_running_tasks_alone() -> None:
    base = Record(id="7", raw="7", base="7", state="RUNNING", kind="array", accelerators=8)
    ended = replace(base, id="7_0", tasks="0", state="TIMEOUT", ended=5.0)
    runs = replace(base, id="7_1", tasks="1")
    waits = replace(base, id="7_[2-9%1]", tasks="2-9", state="PENDING")

    def held(*records: Record) -> int | None:
        return value_of(run_of("toy", "7"), Job("7", records)).accelerators

    assert held(waits, runs, ended) == 8
    assert held(waits, runs, replace(runs, id="7_2", tasks="2")) == 16
    assert held(waits, ended) is None
    parts = [replace(base, kind="het", id=f"7+{at}", state="PENDING") for at in range(2)]
    assert held(*parts) == 16, "the parts of a heterogeneous job begin together"


def test_each_task_of_an_array_is_told_apart_and_those_that_wait_are_counted() -> None:
    base = Record(id="7", raw="7", base="7", state="RUNNING", name="hero", kind="array")
    records = (
        replace(base, id="7_0", tasks="0", state="FAILED", exit=(1, 0), started=1.0, ended=5.0),
        replace(base, id="7_1", tasks="1", started=2.0, node="gpu7"),
        replace(base, id="7_[2-9]", tasks="2-9", state="PENDING"),
    )
    job = value_of(run_of("toy", "7"), Job("7", (*records[1:], records[0])))
    assert job.tasks is not None and (job.tasks.failed, job.tasks.total) == (1, 10)
    found = job.members
    assert [(each.id, each.phase, each.count) for each in found] == [
        ("7_0", Phase.FAILED, 1), ("7_1", Phase.RUNNING, 1), ("7_[2-9]", Phase.WAITING, 8),
    ]  # fmt: skip
    assert (found[0].exit_code, found[0].ended_at, found[1].node) == (1, 5.0, "gpu7")
    assert not value().members


PLATFORM_RUN = RunSpec(name="toy", job=JobSpec(kind="slurm"))
SLURM = SlurmPlatform(SystemClock(), Logs(SystemClock()))


def levels(words: Sequence[str]) -> list[Level]:
    return [check.level for check in SLURM.command_checks(PLATFORM_RUN, words)]


def test_slurm_gets_its_hold_and_its_comment_behind_sbatch() -> None:
    words = SLURM.formed(("env", "A=1", "/usr/bin/sbatch", "job.sh"), PLATFORM_RUN, "toy-i001")
    assert words[2:6] == ("/usr/bin/sbatch", "-H", "--parsable", "--comment=toy-i001")
    assert SLURM.formed(("bash", "job.sh"), PLATFORM_RUN, "toy-i001") == ("bash", "job.sh")
    assert SLURM.formed(("./go", "sbatch"), PLATFORM_RUN, "toy-i001") == ("./go", "sbatch")


def test_launches_are_compared_without_what_is_added() -> None:
    plain = ("sbatch", "-p", "gpu", "job.sh", "--comment=of-the-script")
    for n in (1, 2):
        assert SLURM.unformed(SLURM.formed(plain, PLATFORM_RUN, f"toy-i00{n}")) == plain
    assert SLURM.unformed(("sbatch", "--comment", "x", "--hold", *plain[1:])) == plain
    assert SLURM.unformed(("./go", "--comment=x")) == ("./go", "--comment=x")


@pytest.mark.parametrize(
    "said",
    ["--comment=x", "--comment x", "--com x", "-H", "--hold", "--ho", "-W", "--wait", "-QW",
     "--test-only", "--te", "-M other", "-Mother", "--clusters=other", "-p gpu --hold"],
)  # fmt: skip
def test_words_that_would_undo_the_hold_block(said: str) -> None:
    assert levels(("sbatch", *said.split(), "job.sh")) == [Level.BLOCK]


@pytest.mark.parametrize(
    "said",
    ["-J -H", "--job-name --hold", "-p gpu --wait-all-nodes=1", "--export=ALL", "-N1 -n 8",
     "--exclusive --mail-type end", "-JH"],
)  # fmt: skip
def test_other_words_and_those_of_the_script_pass(said: str) -> None:
    assert levels(("sbatch", *said.split(), "job.sh", "--wait", "-H")) == [Level.PASS]


def test_a_wrapper_is_fenced_and_what_cannot_be_fenced_blocks() -> None:
    for words in (("./submit.sh",), ("bash", "submit.sh"), ("make", "resubmit")):
        assert levels(words) == [Level.WARN]
    for said in ("bash -c x", "ssh login sbatch", "env -i sbatch"):
        assert levels(said.split()) == [Level.BLOCK]


def test_an_environment_goes_the_way_that_the_words_allow() -> None:
    def sent(*words: str) -> tuple[str, ...]:
        return platform_command.with_names(words, ["A", "B"])

    assert sent("sbatch", "job.sh") == ("sbatch", "job.sh")
    assert sent("sbatch", "--export=ALL,C=1", "job.sh") == ("sbatch", "--export=ALL,C=1", "job.sh")
    assert sent("sbatch", "--export=C", "job.sh") == ("sbatch", "--export=C,A,B", "job.sh")
    assert sent("sbatch", "--export", "C", "job.sh") == ("sbatch", "--export", "C,A,B", "job.sh")
    with pytest.raises(CannotError, match="A, B"):
        sent("sbatch", "--export=NONE", "job.sh")
    assert sent("sbatch", "job.sh", "--export=NONE") == ("sbatch", "job.sh", "--export=NONE")


def test_words_for_a_shell_stay_what_they_are() -> None:
    words = ("~/bin/go", "a b$HOME'c", "$(x)", "`x`", "${U}", "")
    assert platform_command.variables_of(words) == ("HOME", "U")
    assert platform_command.for_shell(words) == (
        "\"$HOME\"/bin/go 'a b'\"${HOME}\"''\"'\"'c' '$(x)' '`x`' \"${U}\" ''"
    )


def test_a_launch_id_must_name_a_file() -> None:
    assert SLURM.name_for("llama-3.1-i001") == "llama-3.1-i001"
    for bad in ("a/b-i001", "-H", "a b-i001", ""):
        with pytest.raises(CannotError):
            SLURM.name_for(bad)
