"""How a controller is reached: addresses, clusters, tokens (SPEC S-1)."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.command import Tokens
from cockpit.platforms.iris.rpc import COMMAND, address_of, controllers, endpoint_of
from cockpit.runtime.http import Http, HttpError
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import Later, facet, platform_of, run_of, value

SECRET = "eyJhbGciOi" + "q1W2e3R4t5Y6" * 3


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        controller.put(job("/ada/x"))
        yield controller


def spec(**job: object) -> JobSpec:
    return JobSpec.model_validate({"kind": "iris", "id": "/ada/x", **job})


@pytest.mark.parametrize("url", [
    "http://Iris.example:10000", "http://iris.example:10000/", " http://iris.example:10000",
])  # fmt: skip
def test_an_address_has_one_spelling(url: str) -> None:
    assert endpoint_of(spec(controller_url=url)) == "iris http://iris.example:10000"
    assert address_of(spec(controller_url=url)) == "http://iris.example:10000"


@pytest.mark.parametrize("url", ["iris:10000", "ftp://iris", "http://", "file:///etc/passwd", ""])
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(HttpError, match="is not an address"):
        address_of(spec(controller_url=url))


async def test_a_run_that_names_no_controller_is_unknown() -> None:
    run = run_of("http://x", "/ada/x", job={"controller_url": None})
    error = (await facet(platform_of(), run)).error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND
    assert "neither job.controller_url nor job.cluster" in error.message


IAP = "name: marin\nauth:\n  iap:\n    url: https://iris.example.org\ncontroller:\n  gcp: {}\n"
LOCAL = "controller:\n  local:\n    port: 18720\n"


@pytest.mark.parametrize(("text", "address"), [
    (IAP, "https://iris.example.org"), (LOCAL, "http://127.0.0.1:18720"),
])  # fmt: skip
def test_a_cluster_is_found_by_name_and_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, address: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "marin" / "clusters"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(text)
    assert address_of(spec(cluster="mine")) == address
    assert address_of(spec(cluster=str(folder / "mine.yaml"))) == address
    assert address_of(spec(cluster="clusters/mine.yaml", workdir=str(folder.parent))) == address
    tree = tmp_path / "marin" / "lib" / "iris" / "config"
    tree.mkdir(parents=True)
    (tree / "ours.yml").write_text(text)
    below = tmp_path / "marin" / "experiments"
    below.mkdir()
    assert address_of(spec(cluster="ours", workdir=str(below))) == address


@pytest.mark.parametrize(("name", "text", "words"), [
    ("none", None, "no configuration of cluster none in"),
    ("../../etc/passwd", None, "no configuration of cluster"),
    ("far", "controller:\n  gcp: {port: 10000}\n", "keep a tunnel open"),
    ("odd", "- a\n- b\n", "names no address of its own"),
    ("bad", "a: [\n", "is not valid YAML"),
    ("evil", "!!python/object/apply:os.system ['false']", "is not valid YAML"),
    ("plain", "auth: {iap: {url: 'http://iris.example.org'}}", "names no address of its own"),
])  # fmt: skip
def test_a_cluster_that_cannot_be_used_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, words: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".config" / "marin" / "clusters"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / f"{name}.yaml").write_text(text)
    with pytest.raises(HttpError) as caught:
        address_of(spec(cluster=name))
    assert words in str(caught.value) and "\n" not in str(caught.value)


async def test_a_token_of_a_variable_is_sent(
    iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    iris.token = SECRET.lower()
    run = run_of(iris.url, "/ada/x", job={"auth": {"token_env": "IRIS_TOKEN"}})
    platform = platform_of()
    missing = (await facet(platform, run)).error
    assert missing is not None and missing.kind is ErrorKind.UNAUTHORIZED
    assert "$IRIS_TOKEN is not set" in missing.message
    monkeypatch.setenv("IRIS_TOKEN", "wrong-" + SECRET)
    wrong = (await facet(platform, run)).error
    assert wrong is not None and wrong.kind is ErrorKind.UNAUTHORIZED
    assert "export a fresh token as IRIS_TOKEN" in wrong.message and SECRET not in str(wrong)
    monkeypatch.setenv("IRIS_TOKEN", SECRET)
    assert (await value(platform, run)).state == "JOB_STATE_RUNNING"


async def test_a_header_of_a_proxy_carries_it(
    iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IAP_TOKEN", SECRET)
    auth = {"header": "Proxy-Authorization", "token_env": "IAP_TOKEN"}
    await value(platform_of(), run_of(iris.url, "/ada/x", job={"auth": auth}))
    assert all(f"\r\nProxy-Authorization: Bearer {SECRET}\r\n" in head for head in iris.heads)


async def test_a_token_command_runs_once_and_again_when_it_is_refused(
    iris: Controller, tmp_path: Path
) -> None:
    script = tmp_path / "token.sh"
    script.write_text(f"#!/bin/sh\necho x >> {tmp_path}/runs\ncat {tmp_path}/token\n")
    script.chmod(0o700)
    (tmp_path / "token").write_text("first-token\n")
    iris.token = "first-token"
    run = run_of(iris.url, "/ada/x", job={"token_command": str(script)})
    platform = platform_of()
    for _ in range(3):
        await value(platform, run)
    assert len((tmp_path / "runs").read_text().split()) == 1
    iris.token = "second-token"
    (tmp_path / "token").write_text("second-token\n")
    assert (await value(platform, run)).state == "JOB_STATE_RUNNING"
    assert len((tmp_path / "runs").read_text().split()) == 2
    iris.token = "third-token"
    refused = (await facet(platform, run)).error
    assert refused is not None and refused.kind is ErrorKind.UNAUTHORIZED
    assert "token_command" in refused.message and "second-token" not in str(refused)


async def test_a_late_refusal_of_a_former_token_drops_no_newer_one(tmp_path: Path) -> None:
    """Two requests went with the former token: the second refusal had the command run again."""
    (tmp_path / "token").write_text("first-token\n")
    command = f"sh -c 'echo x >> {tmp_path}/runs; cat {tmp_path}/token'"
    job = spec(token_command=command, controller_url="http://127.0.0.1:1")
    tokens = Tokens(Later(), COMMAND)
    sent = await tokens.headers(job)
    (tmp_path / "token").write_text("second-token\n")
    for _ in range(2):
        assert tokens.refused(job, sent)
        assert "second-token" in str(await tokens.headers(job))
    assert len((tmp_path / "runs").read_text().split()) == 2


def jwt(until: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": until}).encode()).decode().rstrip("=")
    return f"head.{claims}.sign"


async def test_a_token_that_says_when_it_ends_is_made_anew_before(tmp_path: Path) -> None:
    clock = Later()
    (tmp_path / "token").write_text(jwt(clock.now() + 600.0))
    job = spec(token_command=f"cat {tmp_path}/token", controller_url="http://127.0.0.1:1")
    tokens = Tokens(clock, COMMAND)
    first = await tokens.headers(job)
    (tmp_path / "token").write_text(jwt(clock.now() + 6000.0))
    assert await tokens.headers(job) == first
    clock.ahead += 545.0
    assert await tokens.headers(job) != first


@pytest.mark.parametrize(("command", "words"), [
    ("false", "ended with 1"), ("true", "printed no token"), ("/nope/nothing", "ended with 127"),
    ("echo 'a b c'", "no header can carry"), ("printf 'a\\nb: c'", "no header can carry"),
    ("echo 'open", "not a list of shell words"), ("", "is empty"),
])  # fmt: skip
async def test_a_token_command_that_gives_none_says_so(command: str, words: str) -> None:
    job = spec(token_command=command)
    with pytest.raises(HttpError, match=words) as caught:
        await Tokens(SystemClock(), COMMAND).headers(job)
    assert caught.value.kind is ErrorKind.UNAUTHORIZED


async def test_a_token_is_not_sent_in_clear_to_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_TOKEN", SECRET)
    clock = SystemClock()
    for address in ("http://iris.example.org", "http://8.8.8.8:10000"):
        job = spec(auth={"token_env": "IRIS_TOKEN"}, controller_url=address)
        with pytest.raises(HttpError, match="no token is sent there"):
            await controllers(clock)(Http(clock), job).user()
    for address in ("https://localhost:1", "http://localhost:1", "http://127.0.0.7:1"):
        job = spec(auth={"token_env": "IRIS_TOKEN"}, controller_url=address)
        with pytest.raises(HttpError) as tried:
            await controllers(clock)(Http(clock), job).user()
        assert "token" not in str(tried.value), "it was sent, had anybody listened"
