"""What doctor hears, what is archived, which config a trainer shows, and whose jobs there are."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Query
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, EndpointFinding
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import platform_of, run_of, value

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
