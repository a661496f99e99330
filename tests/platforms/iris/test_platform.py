"""What doctor hears, what is archived, which config a trainer shows, and whose jobs there are.

A controller that refuses, hangs or talks nonsense: unknown with the reason, then well again.

Stops are exact and end with the workers' own word; a trainer that offers it is asked to save.
"""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LiveJob, Query
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, EndpointFinding, LostError
from cockpit.platforms.iris import acting
from cockpit.platforms.iris import jobs as iris_jobs
from tests.platforms.iris.acting import Lab
from tests.platforms.iris.controller import Controller, Fault, Reply, job, running, task_of
from tests.platforms.iris.making import Later, facet, facets, platform_of, run_of, value

COORDINATOR = "/ada/hero-toy-coord"


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        yield controller


async def finding(*runs: object) -> EndpointFinding:
    (found,) = await platform_of().findings(runs)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(("generation", "word"), [("june", "June"), ("october", "October")])
async def test_doctor_says_as_whom_and_of_which_generation(generation: str, word: str) -> None:
    async with running(Controller(generation)) as iris:
        runs = [run_of(iris.url, "/ada/x", name) for name in "abc"]
        found = await finding(*runs)
    assert found.endpoint == f"iris {iris.url}" and found.remedy is None
    assert found.text.startswith(f"answers as anonymous (admin), of {word} 2026")
    assert "; for a, b, c; a launch that is lost is closed" in found.text
    assert len(iris.asked) <= 5


async def test_doctor_says_what_is_wrong_and_what_helps(iris: Controller) -> None:
    run = run_of(iris.url, "/ada/x")
    iris.skew = -3600.0
    assert "s behind ours" in (found := await finding(run)).text and "NTP" in str(found.remedy)
    iris.skew, iris.token = 0.0, "secret"
    found = await finding(run_of(iris.url, "/ada/x", job={"token_command": "echo wrong"}))
    assert "Missing authentication" in found.text and "token_command" in str(found.remedy)
    iris.token = None
    iris.reply["GetCurrentUser"] = (200, b'{"userId": "bob", "role": "user"}', ())
    found = await finding(run)
    assert "answers as bob (user)" in found.text and found.remedy == "act as ada"
    iris.reply["GetCurrentUser"] = (404, b"", ())
    assert "job.controller_url" in str((await finding(run)).remedy)
    gone = await finding(run_of("http://127.0.0.1:1", "/ada/x"))
    assert "refused" in gone.text and "tunnel" in str(gone.remedy)
    nowhere = await finding(run_of("http://x", "/ada/x", job={"controller_url": None}))
    assert "says which controller" in nowhere.text and nowhere.remedy


async def test_evidence_holds_the_answers_and_no_secret(iris: Controller) -> None:
    run = run_of(iris.url, COORDINATOR)
    variables = iris.status[COORDINATOR]["request"]["environment"]["envVars"]
    variables["HIDDEN_IN_A_NAME"] = "hunter2hunter2"
    found = await platform_of().evidence(run, [])
    assert sorted(found) == ["iris-job-1-status.json", "iris-job-1-tasks.json"]
    text = found["iris-job-1-status.json"].decode()
    assert "toy-not-a-key" not in text and "hunter2" not in text
    document = json.loads(text)
    assert document["job"]["state"] == "JOB_STATE_RUNNING"
    assert document["request"]["bundleId"].startswith("5a0a43bf")
    assert "train_lev.py" in document["request"]["entrypoint"]["runCommand"]["argv"]


async def test_evidence_that_cannot_be_had_says_why(iris: Controller) -> None:
    iris.put()
    found = await platform_of().evidence(run_of(iris.url, "/ada/x"), [])
    assert b"Job /ada/x not found" in found["iris-job-1-status.json"]
    found = await platform_of().evidence(run_of("nowhere", "/ada/x"), [])
    assert b"is not an address" in found["iris.txt"]


def page(config: object) -> bytes:
    """A training dashboard as the recorded one is."""
    text = html.escape(json.dumps(config, indent=2))
    head = "<!doctype html>\n<h1>Levanter training</h1>\n<h2>Resolved configuration</h2>\n"
    return f"{head}  <pre>{text}</pre>\n<h2>Environment</h2>\n  <pre>{{}}</pre>".encode()


async def test_the_config_that_a_trainer_shows_is_read_once(iris: Controller) -> None:
    path = "/proxy/ada.hero-toy-coord.training-control/"
    iris.pages[path] = page({"trainer": {"num_train_steps": 400, "name": "<a&b>"}})
    platform, run = platform_of(), run_of(iris.url, COORDINATOR)
    found = await value(platform, run)
    assert found.config == {"trainer": {"num_train_steps": 400, "name": "<a&b>"}}
    await value(platform, run)
    assert iris.counted["ada.hero-toy-coord.training-control"] == 1
    assert iris.counted["ListEndpoints"] == 1


@pytest.mark.parametrize(
    "body", [b"", b"<pre>{}</pre>", b"Resolved configuration</h2><pre>{</pre>"]
)
async def test_a_page_without_a_config_shows_none(iris: Controller, body: bytes) -> None:
    iris.pages["/proxy/ada.hero-toy-coord.training-control/"] = body
    assert (await value(platform_of(), run_of(iris.url, COORDINATOR))).config == {}


async def test_june_is_asked_for_no_endpoints_again() -> None:
    async with running(Controller("june")) as iris:
        iris.put(job("/ada/x"))
        platform, run = platform_of(), run_of(iris.url, "/ada/x")
        for _ in range(3):
            assert (await value(platform, run)).config == {}
        assert iris.counted["ListEndpoints"] == 1


async def test_a_users_own_jobs_are_listed_living_first(iris: Controller) -> None:
    iris.put(job("/ada/old", "FAILED", 1_795_250_000), job("/ada/new"), job("/ada/new/child"),
             job("/bob/x"))  # fmt: skip
    iris.reply["GetCurrentUser"] = (200, b'{"userId": "ada", "role": "user"}', ())
    spec = JobSpec(kind="iris", controller_url=iris.url)
    found = await platform_of().own_jobs(spec)
    assert [each.id for each in found] == ["/ada/new", "/ada/old"]
    assert found[0].text == "RUNNING" and found[1].text == "FAILED"
    with pytest.raises(CannotError, match="refused"):
        await platform_of().own_jobs(JobSpec(kind="iris", controller_url="http://127.0.0.1:1"))


async def test_an_iris_job_has_no_host_of_its_own() -> None:
    run = run_of("http://127.0.0.1:1", "/ada/x")
    facet = (await platform_of().hosts([Query(run=run)]))["toy"]
    assert facet.error is not None and facet.error.kind is ErrorKind.NOT_CONFIGURED


def test_recorded_answers_hold_no_real_place() -> None:
    folder = Path(__file__).parents[2] / "data" / "iris"
    text = "".join(path.read_text() for path in folder.iterdir())
    assert "/home/" not in text and "192.168" not in text


HTML = b"<!doctype html><title>502 Bad Gateway</title>"
METHODS = ("GetJobState", "ListJobs")


@pytest.fixture
async def refused_iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        controller.put(job("/ada/x"))
        yield controller


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        ((401, b'{"code":"unauthenticated","message":"Missing authentication"}', ()),
         ErrorKind.UNAUTHORIZED, "Missing authentication: set job.auth"),
        ((403, b'{"code":"permission_denied","message":"User \'bob\' cannot"}', ()),
         ErrorKind.FORBIDDEN, "User 'bob' cannot"),
        ((404, b"", ()), ErrorKind.NOT_FOUND, "is this the address of an Iris controller"),
        ((404, b"Not Found", ()), ErrorKind.NOT_FOUND, "is this the address of an Iris controller"),
        ((404, b'{"code":"not_found","message":"Job /ada/x not found"}', ()),
         ErrorKind.NOT_FOUND, "Job /ada/x not found"),
        ((429, b"", ("retry-after: 30",)), ErrorKind.RATE_LIMITED, "next in 30 s"),
        ((429, b"", ()), ErrorKind.RATE_LIMITED, "next in 60 s"),
        ((302, b"", ("location: https://accounts.example.com/login",)),
         ErrorKind.UNAUTHORIZED, "asks to log in"),
        ((200, HTML, ("content-type: text/html",)), ErrorKind.BAD_ANSWER, "not JSON"),
        ((200, b'{"jobs": [{"jobId": "/ada', ()), ErrorKind.BAD_ANSWER, "not JSON"),
        ((200, b"[]", ()), ErrorKind.BAD_ANSWER, "no document"),
        ((200, b'{"jobs": {}, "states": []}', ()), ErrorKind.BAD_ANSWER, "is this an Iris"),
        ((200, b'{"jobs": [7], "states": {"/ada/x": {}}}', ()),
         ErrorKind.BAD_ANSWER, "is this an Iris"),
        ((200, b'{"jobs": [{"jobId": "/ada/x"}], "states": {"/ada/x": true}}', ()),
         ErrorKind.BAD_ANSWER, "is this an Iris"),
        ((200, b" " * 9_000_000, ()), ErrorKind.BAD_ANSWER, "longer than 8,000,000 B"),
    ],
)  # fmt: skip
async def test_a_bad_answer_is_unknown_and_passes(
    refused_iris: Controller, method: str, reply: Reply, kind: ErrorKind, words: str
) -> None:
    platform, run = platform_of(clock := Later()), run_of(refused_iris.url, "/ada/x")
    refused_iris.reply[method] = reply
    found = await facet(platform, run)
    assert found.value is None and found.error is not None and found.error.kind is kind
    assert words in found.error.message and "\n" not in found.error.message
    assert found.retry_after == (float(words.split()[-2]) if "next in" in words else None)
    assert len(refused_iris.asked) <= 8, "retries are bounded"
    live = (await platform.live([run]))["toy"]
    assert live.unknown and not live.jobs
    refused_iris.reply.clear()
    clock.ahead += 61.0
    assert (await value(platform, run)).state == "JOB_STATE_RUNNING"


async def test_a_server_error_is_told_in_its_own_words(refused_iris: Controller) -> None:
    reply = b'{"code":"unknown","message":"no such table: jobs"}'
    refused_iris.reply["GetJobState"] = (500, reply, ())
    found = await facet(platform_of(), run_of(refused_iris.url, "/ada/x"))
    assert found.error is not None and found.error.message.endswith("500: no such table: jobs")
    assert refused_iris.counted["GetJobState"] <= 3


async def silent(writer: asyncio.StreamWriter) -> None:
    """Accepts, and never answers: a stopped process."""
    await asyncio.sleep(60)


async def half(writer: asyncio.StreamWriter) -> None:
    """Hangs in the middle of a body."""
    writer.write(b'HTTP/1.1 200 X\r\ncontent-length: 500\r\n\r\n{"jobs": [')
    await writer.drain()
    await asyncio.sleep(60)


async def cut(writer: asyncio.StreamWriter) -> None:
    """Breaks off in the middle of a body."""
    writer.write(b'HTTP/1.1 200 X\r\ncontent-length: 500\r\n\r\n{"jobs": [')
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(silent, ErrorKind.TIMEOUT), (half, ErrorKind.TIMEOUT), (cut, ErrorKind.REFUSED)],
)
async def test_who_hangs_is_given_up_and_found_again(
    refused_iris: Controller, fault: Fault, kind: ErrorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iris_jobs, "QUICK", 1.5)
    monkeypatch.setattr(iris_jobs, "PATIENT", 2.5)
    platform, run = platform_of(), run_of(refused_iris.url, "/ada/x")
    refused_iris.fault = fault
    found = await facet(platform, run)
    assert found.error is not None and found.error.kind is kind
    assert "is it up, and its tunnel?" in found.error.message
    refused_iris.fault = None
    assert (await value(platform, run)).state == "JOB_STATE_RUNNING"


async def test_a_closed_port_is_refused_at_once_and_the_others_go_on(
    refused_iris: Controller,
) -> None:
    gone = run_of("http://127.0.0.1:1", "/ada/x", "gone")
    found = await facets(platform_of(), gone, run_of(refused_iris.url, "/ada/x", "good"))
    error = found["gone"].error
    assert error is not None and error.kind is ErrorKind.REFUSED
    assert found["good"].value is not None


@pytest.mark.parametrize("method", ["ListTasks", "GetTaskStatus", "GetJobStatus", "ListEndpoints"])
async def test_what_only_adds_details_costs_only_them(
    refused_iris: Controller, method: str
) -> None:
    refused_iris.put(job("/ada/x", "FAILED", error="Exit code: 3"), job("/ada/y"))
    refused_iris.reply[method] = (400, b'{"code":"invalid_argument","message":"no"}', ())
    platform = platform_of()
    found = await value(platform, run_of(refused_iris.url, "/ada/x"))
    assert found.reason is not None and found.reason.startswith("Exit code: 3")
    asked = refused_iris.counted[method]
    await value(platform, run_of(refused_iris.url, "/ada/x"))
    assert refused_iris.counted[method] == asked, "what failed is not asked again at once"


async def test_slow_details_come_with_a_later_look(
    refused_iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iris_jobs, "DETAILS", 0.1)
    go = asyncio.Event()
    refused_iris.put(job("/ada/toy-fail", "FAILED", error="Exit code: 1"))
    held = refused_iris._one

    async def slow(head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if "ListTasks" in head:
            await go.wait()
        await held(head, body, writer)

    monkeypatch.setattr(refused_iris, "_one", slow)
    platform, run = platform_of(), run_of(refused_iris.url, "/ada/toy-fail")
    assert (await value(platform, run)).exit_code is None
    go.set()
    assert (await value(platform, run)).exit_code == 1


BEE = "/ada/bee"
CONTROL = "/proxy/ada.bee.train.training-control/checkpoint"


@pytest.fixture
async def stopping_iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        ids = (BEE, f"{BEE}/train", "/ada/bee2", "/ada/bee-eval")
        controller.put(*(job(each, at=1_795_246_900 + n) for n, each in enumerate(ids)))
        controller.tasks = {each: {"tasks": [task_of(each)]} for each in ids}
        yield controller


@pytest.fixture
def lab(stopping_iris: Controller, tmp_path: Path) -> Lab:
    return Lab(stopping_iris, tmp_path)


def states(iris: Controller) -> dict[str, str]:
    return {name: each["state"].removeprefix("JOB_STATE_") for name, each in iris.jobs.items()}


async def own(lab: Lab) -> LiveJob:
    (found,) = await lab.live()
    return found


async def test_a_stop_ends_the_job_and_what_is_below_it_and_nothing_else(
    stopping_iris: Controller, lab: Lab
) -> None:
    stopping_iris.lingers = 3
    await lab.platform.stop(lab.run, [await own(lab)])
    assert states(stopping_iris) == {
        BEE: "KILLED", f"{BEE}/train": "KILLED", "/ada/bee2": "RUNNING", "/ada/bee-eval": "RUNNING",
    }  # fmt: skip
    assert stopping_iris.lingers < 0, "it has waited until the workers said so"
    assert await lab.live() == ()


async def test_another_execution_of_that_name_is_left_alone(
    stopping_iris: Controller, lab: Lab
) -> None:
    before = await own(lab)
    stopping_iris.put(job(BEE, at=1_795_250_000))
    await lab.platform.stop(lab.run, [before])
    assert states(stopping_iris) == {BEE: "RUNNING"}


async def test_what_the_workers_never_say_is_unknown(
    stopping_iris: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting.EndingIrisJobs, "slack", 5.0)
    stopping_iris.lingers, lab = (
        10_000,
        Lab(stopping_iris, tmp_path, job={"id": BEE, "grace": "0s"}),
    )
    with pytest.raises(LostError, match="worker of /ada/bee/0 has not said"):
        await lab.platform.stop(lab.run, [await own(lab)])


async def test_a_job_that_is_slow_to_end_is_told_once_and_once_more_after_its_grace(
    stopping_iris: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting.EndingIrisJobs, "slack", 5.0)
    stopping_iris.heedless, lab = (
        True,
        Lab(stopping_iris, tmp_path, job={"id": BEE, "grace": "10s"}),
    )
    with pytest.raises(LostError, match="not gone in 15 s: /ada/bee is RUNNING"):
        await lab.platform.stop(lab.run, [await own(lab)])
    assert stopping_iris.asked.count("TerminateJob") == 2


async def test_a_lost_answer_of_a_stop_is_unknown_and_a_refusal_is_none(
    stopping_iris: Controller, lab: Lab
) -> None:
    living = await own(lab)
    stopping_iris.reply["TerminateJob"] = (
        403,
        b'{"code": "permission_denied", "message": "not yours"}',
        (),
    )
    with pytest.raises(CannotError, match="not yours"):
        await lab.platform.stop(lab.run, [living])
    del stopping_iris.reply["TerminateJob"]
    stopping_iris.lose = {"GetJobStatus"}
    with pytest.raises(CannotError, match="nothing was told to stop"):
        await lab.platform.stop(lab.run, [living])
    assert set(states(stopping_iris).values()) == {"RUNNING"}
    stopping_iris.lose = set()
    stopping_iris.reply["TerminateJob"] = (500, b"", ())
    with pytest.raises(LostError, match="whether /ada/bee was told to stop"):
        await lab.platform.stop(lab.run, [living])
    del stopping_iris.reply["TerminateJob"]
    stopping_iris.lose = {"TerminateJob"}
    await lab.platform.stop(lab.run, [living])
    assert states(stopping_iris)[BEE] == "KILLED", "it was told, and is seen to have ended"
    with pytest.raises(CannotError, match="not an Iris job"):
        await lab.platform.stop(lab.run, [LiveJob(id="pid:1", name="x", why="y")])


async def test_a_trainer_that_offers_its_control_is_asked_to_save(
    stopping_iris: Controller, lab: Lab
) -> None:
    stopping_iris.endpoints = {"endpoints": [{"name": f"{BEE}/train/training-control"}]}
    living = await own(lab)
    assert lab.platform.can_save(lab.run, living) is None
    stopping_iris.posts[CONTROL] = (202, b"Temporary checkpoint requested.", ())
    await lab.platform.save(lab.run, living)
    assert "x-levanter-training-control: request-checkpoint" in stopping_iris.heads[-1].lower()
    stopping_iris.posts[CONTROL] = (404, b'{"error": "No endpoint"}', ())
    with pytest.raises(CannotError, match="answered 404"):
        await lab.platform.save(lab.run, living)
    stopping_iris.lose = {"checkpoint"}
    with pytest.raises(LostError, match="whether /ada/bee/train was asked"):
        await lab.platform.save(lab.run, living)


async def test_one_that_offers_none_cannot_be_asked(lab: Lab) -> None:
    living = await own(lab)
    assert "offers no training control" in (lab.platform.can_save(lab.run, living) or "")
    with pytest.raises(CannotError, match="no training control"):
        await lab.platform.save(lab.run, living)
