"""The end of jobs on a head, a save that is asked for, and what is kept of them before that."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.jobs import LiveJob
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.ray.jobs import OUTSIDE
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.sources.logs.source import Logs
from tests.platforms.ray.recorded import Recorded, Skips, head, platform, reply, run_of

ID = "hero-i001"


@pytest.fixture
async def server() -> AsyncIterator[Recorded]:
    async with head() as made:
        yield made


async def live(made: RayPlatform, run: RunSpec) -> LiveJob:
    (job,) = (await made.live([run]))[run.name].jobs
    return job


async def test_another_job_under_its_id_is_left_alone(server: Recorded) -> None:
    made, run = platform(), run_of(server.url, ID)
    job = await live(made, run)
    server.job(ID)["start_time"] += 60_000
    with pytest.raises(CannotError, match="another job now"):
        await made.stop(run, [job])
    server.documents["/api/jobs/"].remove(server.job(ID))
    with pytest.raises(CannotError, match="no longer lists hero-i001"):
        await made.stop(run, [job])
    assert not server.stopped


async def test_one_that_waits_and_does_not_heed_it(server: Recorded) -> None:
    clock = Skips()
    made, run = RayPlatform(clock, Logs(clock)), run_of(server.url, ID)
    server.job(ID)["status"] = "PENDING"
    with pytest.raises(CannotError, match=r"does not heed its stop.*RAY_JOB_START_TIMEOUT_SECONDS"):
        await made.stop(run, [await live(made, run)])
    assert server.stopped == [ID]


@pytest.mark.parametrize(
    "answer", [reply(500, b"Traceback"), reply(503, b"", "retry-after: 0"), reply(408, b"")]
)
async def test_a_stop_without_any_answer_is_unknown(server: Recorded, answer: bytes) -> None:
    clock = Skips()
    made, run = RayPlatform(clock, Logs(clock)), run_of(server.url, ID)
    job = await live(made, run)
    server.answers(f"/api/jobs/{ID}/stop", answer)
    with pytest.raises(LostError, match="its stop was lost"):
        await made.stop(run, [job])
    server.answers(f"/api/jobs/{ID}/stop", reply(401, b"Unauthorized"))
    with pytest.raises(CannotError, match="wants a token"):
        await made.stop(run, [job])


async def test_a_driver_from_outside_is_beyond_us(server: Recorded) -> None:
    made, run = platform(), run_of(server.url, "02000000", name="out")
    (driver,) = (each for each in server.documents["/api/jobs/"] if each["type"] == "DRIVER")
    driver["status"], driver["job_id"] = "RUNNING", "02000000"
    job = await live(made, run)
    assert job.beyond == OUTSIDE
    with pytest.raises(CannotError, match="attached from outside"):
        await made.stop(run, [job])


async def test_a_save_is_asked_for_by_a_command_run_here(server: Recorded, tmp_path: Path) -> None:
    made = platform()
    plain = run_of(server.url, ID)
    job = await live(made, plain)
    why = made.can_save(plain, job)
    assert why is not None and "job.save_command" in why
    with pytest.raises(CannotError, match=r"job\.save_command"):
        await made.save(plain, job)
    words = [sys.executable, "-c", "import sys; open('asked', 'w').write(sys.argv[1])", "{job_id}"]
    folder = {"workdir": place_of(str(tmp_path))}
    run = run_of(server.url, ID, job={"save_command": tuple(words), **folder})
    assert made.can_save(run, job) is None
    await made.save(run, job)
    assert (tmp_path / "asked").read_text() == ID
    for command, said in (
        (("sh", "-c", "echo no such actor >&2; exit 3"), "ended with 3: no such actor"),
        (("x", "{pid}"), r"\{pid\}, which is not known"),
        (("x", "$NOT_SET_AT_ALL"), "which is not set"),
        ("'", "shell words"),
    ):
        with pytest.raises(CannotError, match=said):
            await made.save(run_of(server.url, ID, job={"save_command": command}), job)


async def test_evidence_is_the_heads_own_words_without_their_secrets(server: Recorded) -> None:
    made, run = platform(), run_of(server.url, ID)
    secret = "hf_" + "a1B2" * 9
    server.job(ID)["runtime_env"] = {"env_vars": {"HF_TOKEN": secret, "COCKPIT_RUN": "hero"}}
    server.logs[f"job-driver-{ID}.log"] = f"step 1\nHF_TOKEN={secret}\n".encode()
    found = await made.evidence(run, [await live(made, run)])
    assert set(found) == {"ray-job-1.json", "ray-log-1.txt", "ray-cluster.json"}
    assert b"step 1" in found["ray-log-1.txt"] and b"COCKPIT_RUN" in found["ray-job-1.json"]
    assert b"clusterStatus" in found["ray-cluster.json"]
    assert not any(secret.encode() in data for data in found.values())
    server.answers("/api/cluster_status", reply(404, b"no"))
    server.logs.clear()
    found = await made.evidence(run, [])
    assert found["ray-cluster.json"].startswith(b"missing: ")
    assert found["ray-log-1.txt"].startswith(b"missing: ")
