"""How a head's token is found and sent: never in any text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue
from tests.platforms.ray.recorded import Recorded, head, platform, reply, run_of

TOKEN = "s3cret-" + "q1W2e3R4" * 3


@pytest.fixture(autouse=True)
def nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


async def asked(ray: Recorded, **job: Any) -> Facet[JobValue]:
    run = run_of(ray.url, "hero-i001", job=job)
    return (await platform().jobs([Query(run=run)]))["hero"]


def sent(ray: Recorded) -> bytes:
    return ray.headers[0].lower()


WANTED = f"authorization: bearer {TOKEN}".lower().encode()


async def test_the_variable_that_the_run_file_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", f"{TOKEN}\n")
    async with head() as ray:
        assert (await asked(ray, token_env="MY_TOKEN")).known
        assert WANTED in sent(ray)
    async with head() as ray:
        assert (
            await asked(ray, auth={"header": "X-Ray-Authorization", "token_env": "MY_TOKEN"})
        ).known
        assert b"x-ray-" + WANTED in sent(ray)


async def test_a_variable_that_is_not_set_is_said_and_nothing_is_asked() -> None:
    async with head() as ray:
        facet = await asked(ray, token_env="MY_TOKEN")
        assert not ray.asked
    assert facet.error is not None and facet.error.kind is ErrorKind.UNAUTHORIZED
    assert "$MY_TOKEN is not set" in facet.error.message


async def test_a_command_prints_it_and_is_run_once_until_it_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "pass"
    script.write_text(f"#!/bin/sh\necho x >> {tmp_path}/runs\necho {TOKEN}\n")
    script.chmod(0o755)
    async with head() as ray:
        run = run_of(ray.url, "hero-i001", job={"token_command": str(script)})
        source = platform()
        for _ in range(3):
            assert (await source.jobs([Query(run=run)]))["hero"].known
        assert (tmp_path / "runs").read_text() == "x\n" and WANTED in sent(ray)
        ray.answers("/api/jobs/", reply(403, b"Forbidden: Invalid authentication token"))
        facet = (await source.jobs([Query(run=run)]))["hero"]
        ray.handlers.clear()
        assert (await source.jobs([Query(run=run)]))["hero"].known
    assert (tmp_path / "runs").read_text() == "x\nx\n"
    assert facet.error is not None and TOKEN not in facet.error.message


async def test_a_command_that_hangs_keeps_no_other_head_waiting(tmp_path: Path) -> None:
    done = tmp_path / "done"
    waits = ("sh", "-c", f"while [ ! -e {done} ]; do sleep 0.05; done; echo {TOKEN}")
    other = ("sh", "-c", f"echo {TOKEN}; touch {done}")
    async with head() as one, head() as two:
        runs = [
            run_of(ray.url, f"{name}-i001", job={"token_command": command})
            for ray, name, command in ((one, "hero", waits), (two, "toy", other))
        ]
        facets = await platform().jobs([Query(run=run) for run in runs])
        assert one.asked and two.asked, facets


async def test_a_command_that_fails_is_run_once_for_all_that_wait_for_it(tmp_path: Path) -> None:
    command = ("sh", "-c", f"echo x >> {tmp_path}/runs; sleep 0.2; exit 3")
    async with head() as one, head() as two, head() as three:
        names = zip((one, two, three), ("hero", "toy", "bee"), strict=True)
        runs = [
            run_of(ray.url, f"{name}-i001", job={"token_command": command}) for ray, name in names
        ]
        source, queries = platform(), [Query(run=run) for run in runs]
        for looks in (1, 2):
            facets = await source.jobs(queries)
            assert (tmp_path / "runs").read_text() == "x\n" * looks
            assert all(
                each.error and "ended with 3" in each.error.message for each in facets.values()
            )


@pytest.mark.parametrize("command", ["false", "true", "no-such-program", "'"])
async def test_a_command_that_fails_is_named_and_its_output_is_not(command: str) -> None:
    async with head() as ray:
        facet = await asked(ray, token_command=command)
        assert not ray.asked
    assert facet.error is not None and facet.error.kind is ErrorKind.UNAUTHORIZED
    assert "job.token_command" in facet.error.message


async def test_rays_own_places_count_without_a_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    async with head() as ray:
        assert (await asked(ray)).known and WANTED in sent(ray)
    (tmp_path / "other").write_text("other")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "other"))
    async with head() as ray:
        assert (await asked(ray)).known and b"bearer other" in sent(ray)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "third")
    async with head() as ray:
        assert (await asked(ray)).known and b"bearer third" in sent(ray)


async def test_a_token_that_no_header_can_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", f"{TOKEN}\nx: y")
    async with head() as ray:
        facet = await asked(ray, token_env="MY_TOKEN")
    assert facet.error is not None and TOKEN not in facet.error.message
    assert "no header can carry" in facet.error.message
