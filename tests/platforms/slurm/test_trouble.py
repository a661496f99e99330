"""What a cluster that does not answer well is told of: unknown, and why, in one line."""

from __future__ import annotations

import functools
from operator import add
from pathlib import Path

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Live
from cockpit.model.observed import Phase
from cockpit.platforms.slurm import ask
from cockpit.platforms.slurm.jobs import SlurmJobs
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from tests.platforms.slurm.asking import Recording, observed, platform, reader, recorded, run_of

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
