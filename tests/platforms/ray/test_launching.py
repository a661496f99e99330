"""A launch on a head, at most once: what is sent, whose it is, and when it can never come."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from cockpit.actions.core.recovery import settle
from cockpit.model.jobs import Accepted, LaunchState, LookUp, Query, Submission
from cockpit.model.place import place_of
from cockpit.model.plan import Outcome, StepState
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.ray import head as heads
from cockpit.platforms.ray import launching
from cockpit.platforms.ray.answers import entrypoint_of
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.sources.logs.source import Logs
from tests.actions.contexts import done, entry
from tests.platforms.ray.recorded import Recorded, Skips, head, platform, reply, run_of
from tests.rules.making import T0

ID = "toy-i002"
NO_RAY = reply(404, b"404: Not Found")
"""What a proxy says whose head is gone: no word of Ray's."""


@pytest.fixture
async def server() -> AsyncIterator[Recorded]:
    async with head() as made:
        yield made


def toy(server: Recorded, **parts: object) -> RunSpec:
    return run_of(server.url, None, name="toy", output_root=place_of("/data/toy"), **parts)


def submission(*words: str, **env: str) -> Submission:
    command = words or ("python3", "train.py", "--out", "$HOME/a b")
    return Submission(run="toy", launch_id=ID, command=command, env=env)


async def looked(made: RayPlatform, run: RunSpec, accepted: Accepted) -> LookUp:
    return await made.look_up(run, ID, accepted.handle, settle=True)


async def once(true: Callable[[], object]) -> None:
    for _ in range(5000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


async def test_what_is_sent_and_found_again(server: Recorded) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission(WANDB_RUN_ID="w"))
    assert not server.posted and accepted.handle["session"].startswith("session_")
    assert await made.go(run, accepted) == ID
    (document,) = server.posted
    assert document["submission_id"] == ID
    assert document["entrypoint"] == 'python3 train.py --out "${HOME-\\$HOME}/a b"'
    assert document["metadata"]["cockpit_run"] == "toy"
    assert document["metadata"]["nonce"] == accepted.handle["nonce"]
    variables = document["runtime_env"]["env_vars"]
    assert variables["COCKPIT_LAUNCH_ID"] == ID and variables["WANDB_RUN_ID"] == "w"
    assert variables["COCKPIT_LINEAGE"] == document["metadata"]["lineage"]
    for found in (await made.look_up(run, ID), await looked(made, run, accepted)):
        assert (found.found, found.job_id, found.waits) == (LaunchState.LIVE, ID, False)
    (job,) = (await made.live([run]))["toy"].jobs
    assert (job.id, job.launch_id, job.why) == (ID, ID, "its lineage")
    server.job(ID)["status"] = "SUCCEEDED"
    assert (await looked(made, run, accepted)).found is LaunchState.ENDED
    with pytest.raises(CannotError, match="has a job toy-i002 already"):
        await made.accept(run, submission())


async def test_what_only_closes_an_id_is_shown_as_nothing(server: Recorded) -> None:
    made, run = platform(), toy(server)
    await made.look_up(run, ID)
    server.begins = "RUNNING"
    server.job(ID)["status"] = "RUNNING"
    assert not (await made.live([run]))["toy"].jobs
    facet = (await made.jobs([Query(run=run)]))["toy"]
    assert facet.value is None and "lists no job" in (facet.error.message if facet.error else "")
    assert ID not in {
        each.id for each in await made.own_jobs(JobSpec(kind="ray", address=server.url))
    }
    assert await made.launch_ids(run) == {ID}, "and is not given out again"
    server.job(ID)["entrypoint"] = "python3 train.py"  # one that runs something is never hidden
    assert [each.id for each in (await made.live([run]))["toy"].jobs] == [ID]


async def test_a_head_that_answers_with_an_error_is_not_believed(server: Recorded) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    server.answers("/api/jobs/", reply(200, b"[]"), reply(500, b"Traceback"), reply(200, b"[]"))
    with pytest.raises(LostError, match="500"):
        await made.go(run, accepted)
    del server.handlers["/api/jobs/"]
    found = await looked(made, run, accepted)
    assert found.found is LaunchState.ABSENT and [each["entrypoint"] for each in server.posted] == [
        "true"
    ]


@pytest.mark.parametrize("status", [400, 409, 429, 302])
async def test_no_other_answer_says_that_nothing_came(server: Recorded, status: int) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    server.answers("/api/jobs/", reply(200, b"[]"), reply(status, b"no"))
    with pytest.raises(LostError):
        await made.go(run, accepted)


async def test_one_that_refuses_the_token_was_not_asked(server: Recorded) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    server.answers("/api/jobs/", reply(200, b"[]"), reply(403, b"Forbidden"))
    with pytest.raises(CannotError, match="refuses the token"):
        await made.go(run, accepted)


async def test_a_submit_on_its_way_is_refused_once_its_id_is_closed(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "ACT_WITHIN", 0.3)
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    arrives = server.slow[ID] = asyncio.Event()
    with pytest.raises(LostError, match="no answer in time"):
        await made.go(run, accepted)
    assert (await looked(made, run, accepted)).found is LaunchState.ABSENT
    arrives.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert [each["entrypoint"] for each in server.posted] == ["true"]


async def test_a_submit_that_arrives_before_its_id_is_closed_is_found(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "ACT_WITHIN", 0.3)
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    arrives = server.slow[ID] = asyncio.Event()
    with pytest.raises(LostError):
        await made.go(run, accepted)
    closes = server.slow[ID] = asyncio.Event()
    looking = asyncio.create_task(looked(made, run, accepted))
    await once(lambda: ID not in server.slow)
    arrives.set()
    await once(lambda: server.posted)
    closes.set()
    assert (await looking).found is LaunchState.LIVE
    assert [each["metadata"].get("nonce") for each in server.posted] == [accepted.handle["nonce"]]


async def test_two_cockpits_that_gave_one_id(server: Recorded) -> None:
    one, two, run = platform(), platform(), toy(server)
    mine, theirs = await one.accept(run, submission()), await two.accept(run, submission())
    server.documents["/api/jobs/"] = []
    answers = await asyncio.gather(one.go(run, mine), two.go(run, theirs), return_exceptions=True)
    assert sum(each == ID for each in answers) == 1 and len(server.posted) == 1
    refused = next(each for each in answers if each != ID)
    assert isinstance(refused, CannotError)
    won, lost = (mine, theirs) if answers[0] == ID else (theirs, mine)
    assert (await looked(one, run, won)).found is LaunchState.LIVE
    told = await looked(one, run, lost)
    assert told.found is LaunchState.ABSENT and "another cockpit" in told.text


async def test_an_entry_whose_handle_cannot_be_read_does_not_say_that_nothing_was_sent(
    server: Recorded,
) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    await made.go(run, accepted)
    begun = done("submit", state=StepState.BEGUN)
    for facts in ({"accepted": ID}, {"accepted": ID, "handle": "{"}, {"handle": "[]"}):
        left = entry("relaunch", T0, begun, outcome=None, launch_id=ID, facts=facts)
        settled = await settle(run, left, made, alive=False)
        assert (settled.outcome, settled.job_id) == (Outcome.DONE, ID), settled.text
    assert len(server.posted) == 1


async def test_a_head_that_began_anew_cannot_tell(server: Recorded) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    server.documents["/api/version"]["session_name"] = "session_2026-12-01_00-00-00_1_1"
    found = await looked(made, run, accepted)
    assert found.found is LaunchState.UNKNOWN and found.final and "begun anew" in found.text
    never_let_go = await made.look_up(run, ID, {}, settle=True)
    assert never_let_go.found is LaunchState.ABSENT
    del server.documents["/api/version"]["session_name"]
    found = await looked(made, run, accepted)
    assert found.found is LaunchState.UNKNOWN and "does not tell" in found.text


async def test_a_head_that_gives_no_answer_of_its_own_is_unknown(server: Recorded) -> None:
    made, run = platform(), toy(server)
    accepted = await made.accept(run, submission())
    server.answers(f"/api/jobs/{ID}", NO_RAY)
    found = await looked(made, run, accepted)
    assert found.found is LaunchState.UNKNOWN and not found.final and not server.posted
    server.answers("/api/jobs/", NO_RAY)
    with pytest.raises(CannotError, match="nothing was started"):
        await made.go(run, accepted)


async def test_one_that_waits_is_told_so_with_rays_own_message(server: Recorded) -> None:
    clock = Skips()
    made, run = RayPlatform(clock, Logs(clock)), toy(server)
    accepted = await made.accept(run, submission())
    server.begins = "PENDING"
    await made.go(run, accepted)
    server.job(ID)["message"] = "Job has not started yet. It may be waiting for resources."
    found = await looked(made, run, accepted)
    assert found.found is LaunchState.LIVE and found.waits
    assert server.count(f"/api/jobs/{ID}") > 4, "it was given the time to begin"
    assert found.reason == "Job has not started yet. It may be waiting for resources."
    server.job(ID)["status"] = "RUNNING"
    assert not (await looked(made, run, accepted)).waits


@pytest.mark.parametrize("name", ["a/b-i001", "", "a b", "..", "a?b", "a%2fb", "x" * 201, "ä"])
def test_an_id_that_nobody_could_ask_for(name: str) -> None:
    with pytest.raises(CannotError, match="submission id"):
        platform().name_for(name)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_shell_splits_an_entrypoint_into_the_words_again(shell: str) -> None:
    words = [
        "a b",
        "it's",
        '"',
        "$SET",
        "${SET}/x",
        "$UNSET y",
        "${UNSET}z",
        "$1 `id` $(id)",
        "\\$SET",
    ]
    line = entrypoint_of(["printf", "%s\\n", *words])
    done = subprocess.run(
        line, shell=True, executable=shell, env={"SET": "one two"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    filled = ["one two", "one two/x", "$UNSET y", "${UNSET}z", "$1 `id` $(id)", "\\one two"]
    assert done.stdout.splitlines() == ["a b", "it's", '"', *filled]


POSTS = """
import json, os, sys, urllib.request
url = os.environ["RAY_API_SERVER_ADDRESS"] + "/api/jobs/"
data = json.dumps({"submission_id": sys.argv[1], "entrypoint": "train"}).encode()
if sys.argv[2] == "posts":
    urllib.request.urlopen(urllib.request.Request(url, data, method="POST")).read()
print("no such option", file=sys.stderr)
sys.exit(3)
"""


async def test_a_submitter_of_the_users_own_is_judged_by_what_came(server: Recorded) -> None:
    made, run = platform(), toy(server, job={"resubmit_runs": "command"})
    words = (sys.executable, "-c", POSTS, ID)
    accepted = await made.accept(run, submission(*words, "posts"))
    assert await made.go(run, accepted) == ID  # whatever it printed, and however it ended
    assert (await looked(made, run, accepted)).found is LaunchState.LIVE
    server.documents["/api/jobs/"].clear()
    with pytest.raises(LostError, match=r"ended with 3 \(no such option\)"):
        await made.go(run, Accepted(id=ID, submission=submission(*words, "no"), handle={}))
    assert (await looked(made, run, accepted)).found is LaunchState.ABSENT
    assert [each["entrypoint"] for each in server.posted] == ["train", "true"]
    server.documents["/api/jobs/"].clear()
    with pytest.raises(CannotError, match=r"\$NOT_SET"):
        await made.go(run, Accepted(id=ID, submission=submission("x", "$NOT_SET"), handle={}))


async def test_a_submitter_that_hangs_is_ended_with_all_it_started(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "WITHIN", 0.3)
    made, run = platform(), toy(server, job={"resubmit_runs": "command"})
    accepted = await made.accept(run, submission("sh", "-c", "sleep 60 & sleep 60"))
    with pytest.raises(LostError, match="was ended after"):
        await made.go(run, accepted)


@pytest.mark.parametrize(
    ("runs", "words", "blocks"),
    [
        ("entrypoint", "python3 train.py", set()),
        ("entrypoint", "cd /x && python3 train.py", {"ray:shell"}),
        ("entrypoint", "sh -c 'cd /x && python3 train.py'", set()),
        ("entrypoint", "ray job submit --no-wait -- python3 train.py", {"ray:submitter"}),
        ("command", "uv run ray job submit --no-wait --submission-id {launch_id} -- t", set()),
        ("command", "ray job submit --submission-id {launch_id} -- t", {"ray:no-wait"}),
        ("command", "ray job submit --submission-id {launch_id} -- t --no-wait", {"ray:no-wait"}),
        ("command", "./submit.sh {run}", {"ray:launch-id"}),
        ("command", "./submit.sh {launch_id}", set()),
    ],
)
def test_what_a_plan_says_of_the_command(runs: str, words: str, blocks: set[str]) -> None:
    run = run_of("http://h", None, name="toy", job={"resubmit_runs": runs})
    checks = platform().command_checks(run, shlex.split(words))
    assert {each.id for each in checks if each.level == "block"} == blocks
    assert "ray:memory" in {each.id for each in checks if each.level == "warn"}
