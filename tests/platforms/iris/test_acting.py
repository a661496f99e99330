"""A launch on Iris makes one job at most, whatever becomes of its client and its answers.

What an Iris command must say stands in the plan that a person reads: ``cockpit relaunch``.

What ``cockpit init`` is told of a user's jobs.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, CommandError, LostError
from cockpit.platforms.command import words_of
from cockpit.platforms.iris import acting, lookup
from cockpit.platforms.iris.spelling import command_checks
from cockpit.platforms.local.census import census
from cockpit.platforms.table import Platforms
from cockpit.runtime.account import login_name
from tests.actions.contexts import by_id, levels
from tests.platforms.iris.acting import JOB, LAUNCH, Lab
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import facets, platform_of


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        controller.put(job("/ada/bee", "FAILED"))
        yield controller


@pytest.fixture
def lab(iris: Controller, tmp_path: Path) -> Lab:
    return Lab(iris, tmp_path)


async def late(iris: Controller, name: str) -> str:
    """A launch that was given up arrives: as the client sends it, without a policy."""

    def post() -> str:
        address = f"{iris.url}/iris.cluster.ControllerService/LaunchJob"
        head = {"content-type": "application/json"}
        request = urllib.request.Request(address, json.dumps({"name": name}).encode(), head)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return str(answer.status)
        except urllib.error.HTTPError as error:
            return str(error.code)

    return await asyncio.to_thread(post)


@pytest.mark.parametrize("oddly", ["", "june"])
async def test_a_launch_makes_one_job_by_its_launch_id(
    iris: Controller, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oddly: str
) -> None:
    monkeypatch.setenv("ODDLY", oddly)
    accepted = await lab.accept(WANDB_RUN_ID="w1")
    assert accepted.id == JOB and iris.names() == []
    assert await lab.platform.go(lab.run, accepted) == JOB and iris.names() == [JOB]
    told = iris.status[JOB]["request"]["environment"]["envVars"]
    assert (told["COCKPIT_LAUNCH_ID"], told["WANDB_RUN_ID"]) == (LAUNCH, "w1")
    assert Path(told["PWD_OF_CLIENT"]) == tmp_path
    assert not any(name.startswith("COCKPIT_SUBMITS") for name in told)
    found = await lab.platform.look_up(lab.run, LAUNCH)
    assert (found.found, found.job_id, found.bundle) == (LaunchState.LIVE, JOB, "b1")
    assert [each.launch_id for each in await lab.live()] == [LAUNCH]
    with pytest.raises(CannotError, match="name is taken"):
        await lab.platform.go(lab.run, accepted)
    assert await lab.platform.launch_ids(lab.run) == {LAUNCH}


async def test_what_was_looked_up_is_never_started(iris: Controller, lab: Lab) -> None:
    accepted = await lab.accept()
    found = await lab.platform.look_up(lab.run, LAUNCH)
    assert found.found is LaunchState.ABSENT and "none can come" in found.text
    with pytest.raises(CannotError, match="closed"):
        await lab.platform.go(lab.run, accepted)
    other = Lab(iris, Path("/"))  # another machine, which has not seen that look
    with pytest.raises(CannotError, match="closed"):
        await other.platform.go(other.run, accepted)
    assert (await other.platform.look_up(other.run, LAUNCH)).found is LaunchState.ABSENT
    assert await late(iris, JOB) == "409" and iris.names() == []
    live = (await lab.platform.live([lab.run]))["bee"]
    assert live.jobs == () and [each.id for each in live.leftovers] == [JOB]
    assert await lab.launch("bee-i002") == "/ada/bee-i002"


async def test_a_client_that_hangs_is_killed_and_what_it_did_is_looked_up(
    iris: Controller, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "SUBMIT", 2.0)
    monkeypatch.setenv("ODDLY", "after")
    with pytest.raises(LostError, match="was killed"):
        await lab.launch()
    found = await lab.platform.look_up(lab.run, LAUNCH)
    assert (found.found, found.job_id) == (LaunchState.LIVE, JOB) and iris.names() == [JOB]
    iris.jobs[JOB]["state"] = "JOB_STATE_FAILED"
    assert (await lab.platform.look_up(lab.run, LAUNCH)).found is LaunchState.ENDED
    monkeypatch.setattr(acting, "SUBMIT", 0.2)
    monkeypatch.setenv("ODDLY", "before")
    with pytest.raises(LostError, match="was killed"):
        await lab.launch("bee-i002")
    assert (await lab.platform.look_up(lab.run, "bee-i002")).found is LaunchState.ABSENT
    assert await late(iris, "/ada/bee-i002") == "409"


async def test_a_look_up_without_an_answer_is_unknown_until_there_is_one(
    iris: Controller, lab: Lab
) -> None:
    iris.lose = {"LaunchJob"}
    lost = await lab.platform.look_up(lab.run, LAUNCH)
    assert lost.found is LaunchState.UNKNOWN and "cannot tell whether" in lost.text
    iris.lose = {"GetJobState"}
    assert (await lab.platform.look_up(lab.run, LAUNCH)).found is LaunchState.UNKNOWN
    iris.lose = set()
    found = await lab.platform.look_up(lab.run, LAUNCH)  # the closing job had arrived
    assert found.found is LaunchState.ABSENT and iris.counted["LaunchJob"] == 1
    gone = Lab(iris, Path("/"), job={"controller_url": "http://127.0.0.1:1", "id": "/ada/bee"})
    assert (await gone.platform.look_up(gone.run, LAUNCH)).found is LaunchState.UNKNOWN


@pytest.mark.parametrize(("oddly", "asked"), [("usage", 0), ("refused", 1)])
async def test_a_refusal_is_told_in_its_own_words(
    iris: Controller, lab: Lab, monkeypatch: pytest.MonkeyPatch, oddly: str, asked: int
) -> None:
    monkeypatch.setenv("ODDLY", oddly)
    with pytest.raises(CannotError, match=r"No such option|client is too old") as error:
        await lab.launch()
    assert "hunter2" not in str(error.value)
    assert iris.names() == [] and iris.counted["LaunchJob"] == asked  # a usage error closes nothing


async def test_a_client_that_repeats_itself_has_made_the_job(
    iris: Controller, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODDLY", "twice")
    assert await lab.launch() == JOB and iris.names() == [JOB]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"job": {"id": "/ada/bee", "workdir": "/nowhere/at/all"}}, "folder .* does not exist"),
        ({"resubmit": "/no/iris job run --no-wait -- true"}, "no program"),
        ({"resubmit": "env job run --no-wait -e K $NOT_SET_HERE -- true"}, "NOT_SET_HERE"),
        ({"output_root": None}, "no output root and no W&B id"),
        ({"job": {"id": "/ada/bee", "controller_url": "http://127.0.0.1:1"}}, "refused"),
        ({"job": {"id": "/ada/gone"}}, "does not list /ada/gone"),
    ],
)
async def test_what_cannot_be_launched_is_not_accepted(
    iris: Controller, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    lab = Lab(iris, tmp_path, **more)
    with pytest.raises(CannotError, match=why):
        await lab.accept()
    assert "LaunchJob" not in iris.asked


async def test_nothing_is_launched_beside_a_living_job_or_as_somebody_else(
    iris: Controller, lab: Lab
) -> None:
    accepted = await lab.accept()
    iris.jobs["/ada/bee"]["state"] = "JOB_STATE_RUNNING"
    with pytest.raises(CannotError, match="a job of this lineage is still alive: /ada/bee"):
        await lab.platform.go(lab.run, accepted)
    iris.reply["GetCurrentUser"] = (200, b'{"userId": "bob", "role": "user"}', ())
    with pytest.raises(CannotError, match="knows us as bob"):
        await lab.accept()
    with pytest.raises(CannotError, match="cannot name an Iris job"):
        lab.submission("a/b-i001")
    assert "LaunchJob" not in iris.asked


async def test_a_recorded_job_that_was_forgotten_is_no_riddle_once_it_was_relaunched(
    iris: Controller, tmp_path: Path
) -> None:
    lab = Lab(iris, tmp_path, job={"id": "/ada/of-last-month"})
    assert (await lab.platform.live([lab.run]))["bee"].unknown is not None
    iris.put(job(JOB, "SUCCEEDED"))
    assert await lab.live() == ()


async def test_a_fixed_name_is_known_by_its_launch_and_settled_by_time(
    iris: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(iris, tmp_path, options="--job-name bee")
    assert await lab.launch() == "/ada/bee"  # the one that had failed is replaced
    found = await lab.platform.look_up(lab.run, LAUNCH)
    assert (found.found, found.job_id) == (LaunchState.LIVE, "/ada/bee")
    with pytest.raises(CannotError, match="name is taken"):
        await lab.accept("bee-i002")
    began = lab.clock.monotonic()
    absent = await lab.platform.look_up(lab.run, "bee-i002")
    assert absent.found is LaunchState.ABSENT and lab.clock.monotonic() - began >= 60.0
    assert iris.counted["LaunchJob"] == 1, "a name that others use is not closed"


async def test_a_controller_that_stops_answering_within_the_minute_proves_nothing(
    iris: Controller, tmp_path: Path
) -> None:
    lab = Lab(iris, tmp_path, options="--job-name bee")
    real = lab.clock.sleep

    async def falls_silent(seconds: float) -> None:
        iris.lose = {"GetJobState"} if lab.clock.ahead > 30.0 else set()
        await real(seconds)

    lab.clock.sleep = falls_silent  # type: ignore[method-assign]
    assert (await lab.platform.look_up(lab.run, LAUNCH)).found is LaunchState.UNKNOWN


async def test_where_no_name_can_be_closed_time_settles_it(iris: Controller, lab: Lab) -> None:
    said = b'{"code": "failed_precondition", "message": "Job is unschedulable"}'
    iris.reply["LaunchJob"] = (400, said, ())
    began = lab.clock.monotonic()
    found = await lab.platform.look_up(lab.run, LAUNCH)
    assert found.found is LaunchState.ABSENT and lab.clock.monotonic() - began >= 60.0


async def test_a_machine_that_does_not_tell_what_runs_on_it_proves_nothing(
    iris: Controller, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "census", partial(census, tmp_path / "no-proc"))  # as on a Mac
    iris.reply["LaunchJob"] = (400, b'{"code": "failed_precondition", "message": "no"}', ())
    found = await lab.platform.look_up(lab.run, LAUNCH)
    assert found.found is LaunchState.UNKNOWN and "client still runs on this machine" in found.text


@pytest.mark.parametrize(
    ("generation", "backends", "peers", "why"),
    [
        ("october", ["worker-daemon", "kubernetes"], [], "its tasks are placed by kubernetes"),
        ("october", [], [], "placed by nobody named"),
        ("october", ["worker-daemon"], ["cw"], "it hands jobs on to cw"),
        ("june", ["kubernetes"], [], "its tasks are placed by kubernetes"),
        ("june", ["worker-daemon"], [], ""),
    ],
)
async def test_no_name_is_closed_where_that_job_might_run(
    tmp_path: Path, generation: str, backends: list[str], peers: list[str], why: str
) -> None:
    async with running(Controller(generation)) as iris:
        iris.backends, iris.peers = backends, peers
        iris.put(job("/ada/bee", "FAILED"))
        lab = Lab(iris, tmp_path)
        (told,) = await lab.platform.findings([lab.run])
        found = await lab.platform.look_up(lab.run, LAUNCH)
        assert found.found is LaunchState.ABSENT and ("LaunchJob" in iris.asked) == (not why)
        assert ("closed" in found.text) == ("never runs" in told.text) == (not why)
        assert why in told.text


async def test_a_controller_that_does_not_tell_what_places_its_tasks_closes_nothing(
    iris: Controller, lab: Lab
) -> None:
    iris.reply["ListBackends"] = (403, b'{"code": "permission_denied", "message": "no"}', ())
    assert "for 60 s" in (await lab.platform.look_up(lab.run, LAUNCH)).text
    iris.reply["ListBackends"] = (404, b"", ())  # nor is it of June
    assert "for 60 s" in (await lab.platform.look_up(lab.run, "bee-i002")).text
    assert "LaunchJob" not in iris.asked


async def test_what_closes_a_name_takes_nothing_from_others_and_may_be_cancelled_later(
    iris: Controller, lab: Lab
) -> None:
    await lab.platform.look_up(lab.run, LAUNCH)
    sent = iris.status[JOB]["request"]
    assert sent["resources"] == {"cpuMillicores": 1}
    assert sent["priorityBand"] == "PRIORITY_BAND_BATCH", "any other band evicts what is below it"
    live = (await lab.platform.live([lab.run]))["bee"]
    assert live.held == () and "needed until" in live.leftovers[0].why
    iris.skew += 3700.0
    live = (await lab.platform.live([lab.run]))["bee"]
    assert live.leftovers == () and [each.id for each in live.held] == [JOB]
    assert (await facets(lab.platform, lab.run))["bee"].value.held == live.held  # type: ignore[union-attr]
    await lab.platform.stop(lab.run, live.held)
    assert iris.jobs[JOB]["state"] == "JOB_STATE_KILLED"
    assert (await lab.platform.look_up(lab.run, LAUNCH)).found is LaunchState.ABSENT
    with pytest.raises(CannotError, match="closed"):
        await lab.accept()


def test_the_words_say_whose_the_job_is(iris: Controller, tmp_path: Path) -> None:
    words = Lab(iris, tmp_path).submission().command
    own = words[words.index("run") + 1 : words.index("--")]
    assert own == ("--job-name", LAUNCH, "--user", "ada", "--no-wait")
    mine = Lab(iris, tmp_path, options="--job-name x-{launch_id} --user bob").submission().command
    assert mine.count("--user") == 1 and f"x-{LAUNCH}" in mine
    with pytest.raises(CommandError, match="plain name"):
        Lab(iris, tmp_path, options="--user $USER").submission()


RUN = """
[[run]]
name = "toy"
dri = "ada"
output_root = "gs://b/toy"
resubmit = "iris job run {options} -- python train.py --no-wait --tpu v5p-8"
job = {{ kind = "iris", id = "/ada/toy", controller_url = "http://127.0.0.1:9" }}
"""
NAMES = ("iris:no-wait", "iris:tpu", "iris:extra", "iris:job-name")


def planned(
    options: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, str], dict[str, bool]]:
    """Return the level of each check on the command, and which of them a person may approve."""
    file = folder / "cockpit.toml"
    file.write_text(RUN.format(options=options))
    assert main(["relaunch", "toy", "--json", "--config", str(file)]) == 4
    checks = json.loads(capsys.readouterr().out)["checks"]
    own = [check for check in checks if check["id"] in NAMES]
    return (
        {check["id"]: check["level"] for check in own},
        {check["id"]: check["overridable"] for check in own if check["level"] == "block"},
    )


def test_what_speaks_against_a_command_blocks_and_nobody_approves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands behind ``--`` are the trainer's own words."""
    bad = "--job-name grug --reserve v5p-8 --extra marin-core:cpu"
    levels, blocks = planned(bad, tmp_path, capsys)
    assert levels == dict.fromkeys(NAMES[:3], "block") | {"iris:job-name": "warn"}
    assert blocks == dict.fromkeys(NAMES[:3], False)


def test_a_good_command_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels, blocks = planned("--no-wait --reserve v5p-8 --tpu v5p-8", tmp_path, capsys)
    assert (levels, blocks) == ({"iris:job-name": "pass"}, {})


@pytest.mark.parametrize("generation", ["june", "october"])
async def test_a_users_jobs_without_their_children(generation: str) -> None:
    me = login_name()
    async with running(Controller(generation)) as iris:
        ids = (f"/{me}/hero", f"/{me}/hero/child", f"/{me}x/other")
        iris.put(job(f"/{me}/old", "SUCCEEDED"), *map(job, ids))
        found = await platform_of().own_jobs(JobSpec(kind="iris", controller_url=iris.url))
        theirs = await platform_of().own_jobs(
            JobSpec(kind="iris", controller_url=iris.url, id=f"/{me}x/other")
        )
    assert [(each.id, each.name, each.text) for each in found] == [
        (f"/{me}/hero", "hero", "RUNNING"),
        (f"/{me}/old", "old", "SUCCEEDED"),
    ]
    assert [each.id for each in theirs] == [f"/{me}x/other"]


async def test_a_controller_that_wants_a_token() -> None:
    async with running(Controller()) as iris:
        iris.token = "t"
        with pytest.raises(CannotError, match=r"job\.auth"):
            await platform_of().own_jobs(JobSpec(kind="iris", controller_url=iris.url))


IRIS = RunSpec(name="toy", job=JobSpec(kind="iris"), hardware="v5p-512")
GOOD = "uv run iris job run --no-wait --job-name {launch_id} --tpu v5p-512 -- python x.py"


@pytest.mark.parametrize(
    ("command", "block"),
    [
        (GOOD, None),
        (GOOD.replace(" --no-wait", ""), "iris:no-wait"),
        (GOOD.replace("--tpu v5p-512", "--reserve v5p-512"), "iris:tpu"),
        (GOOD.replace("--tpu", "--extra marin-core:cpu --tpu"), "iris:extra"),
        (GOOD.replace("--tpu", "--extra=marin-core:cpu --tpu"), "iris:extra"),
        (GOOD + " --no-wait --extra marin-core:cpu", None),
    ],
)
def test_the_rules_of_iris(command: str, block: str | None) -> None:
    checks = command_checks(IRIS, words_of(command))
    blocks = [name for name, level in levels(checks).items() if level == "block"]
    assert blocks == ([] if block is None else [block])


def test_a_fixed_job_name_is_said() -> None:
    fixed = command_checks(IRIS, words_of(GOOD.replace("{launch_id}", "grug")))
    assert "fixed" in by_id(fixed, "iris:job-name").text
    unnamed = command_checks(IRIS, words_of(GOOD.replace("--job-name {launch_id} ", "")))
    assert levels(unnamed)["iris:job-name"] == "pass"  # it is added
    assert levels(command_checks(IRIS, words_of(GOOD)))["iris:job-name"] == "pass"


def test_a_script_of_ones_own_must_hold_the_launch_id() -> None:
    silent = command_checks(IRIS, words_of("./submit.sh --big"))
    assert levels(silent) == {"iris:job-name": "block"}
    assert levels(command_checks(IRIS, words_of("./submit.sh {launch_id}"))) == {
        "iris:job-name": "warn"
    }


def test_the_words_are_read_behind_whatever_runs_iris() -> None:
    words = words_of(GOOD.replace("uv run iris", "uv run -- iris"))
    assert not [name for name, level in levels(command_checks(IRIS, words)).items()
                if level == "block"]  # fmt: skip


def test_another_user_than_the_recorded_job_has_is_refused() -> None:
    run = IRIS.model_copy(update={"job": JobSpec(kind="iris", id="/ada/toy")})
    theirs = command_checks(run, words_of(GOOD.replace("--no-wait", "--no-wait --user bob")))
    assert levels(theirs)["iris:user"] == "block"
    own = command_checks(run, words_of(GOOD.replace("--no-wait", "--no-wait --user ada")))
    assert "iris:user" not in levels(own)


def test_the_platform_says_them() -> None:
    platform = Platforms(SystemClock()).of(IRIS)
    assert platform is not None
    words = words_of("iris job run -- python x.py")
    assert platform.command_checks(IRIS, words) == command_checks(IRIS, words) != []
