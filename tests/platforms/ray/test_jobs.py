"""Ray's jobs as the cockpit takes them, from the answers of a real head (SPEC J, S-2).

What ``cockpit init`` is told of a head's jobs.

The end of jobs on a head, a save that is asked for, and what is kept of them before that.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LiveJob, Query
from cockpit.model.observed import Phase
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.ray.jobs import OUTSIDE
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.platforms.table import Platforms, describe
from cockpit.sources.logs.source import Logs
from tests.platforms.ray.recorded import (
    NODE,
    Recorded,
    Skips,
    head,
    job_of,
    platform,
    reply,
    run_of,
)

STATES = [
    ("hero-i001", "RUNNING", Phase.RUNNING, None, None),
    ("ok-i001", "SUCCEEDED", Phase.SUCCEEDED, 0, None),
    ("queued-i001", "STOPPED", Phase.CANCELLED, None, "Job was intentionally stopped."),
    ("fail-i001", "FAILED", Phase.FAILED, 3, "exit code 3"),
    ("kill9-i001", "FAILED", Phase.FAILED, -9, "JOB_ENTRYPOINT_COMMAND_ERROR"),
    ("badenv-i001", "FAILED", Phase.FAILED, None, "ValueError: /nonexistent is not a valid path."),
    ("never-i001", "FAILED", Phase.FAILED, None, "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"),
    ("cpus-i001", "PENDING", Phase.WAITING, None, "waiting for 2 CPU, which a node has"),
]


@pytest.mark.parametrize(("name", "state", "phase", "code", "reason"), STATES)
async def test_a_state_is_what_the_head_says(
    name: str, state: str, phase: Phase, code: int | None, reason: str | None
) -> None:
    async with head() as ray:
        ray.documents["/api/jobs/"] = [ray.job(name)]  # a later launch would be the current job
        job = await job_of(platform(), run_of(ray.url, name))
    assert (job.id, job.state, job.phase, job.exit_code) == (name, state, phase, code)
    assert job.launch_id == name and not job.never
    assert (job.reason is None) if reason is None else (reason in (job.reason or ""))
    assert "\n" not in (job.reason or "") and len(job.reason or "") < 500


async def test_an_unknown_word_is_shown_and_never_running() -> None:
    async with head() as ray:
        ray.job("hero-i001")["status"] = "HIBERNATING\x1b[31m"
        job = await job_of(platform(), run_of(ray.url, "hero-i001"))
    assert job.phase is Phase.UNKNOWN and job.state == "HIBERNATING"
    assert job.ended_at is None and job.exit_code is None


async def test_a_job_begins_when_its_driver_does_and_waits_from_its_submit() -> None:
    async with head() as ray:
        asked = platform()
        ran = await job_of(asked, run_of(ray.url, "queued-i001"))
        again = await job_of(asked, run_of(ray.url, "queued-i001"))
        waits = await job_of(asked, run_of(ray.url, "cpus-i001"))
        told = ray.documents["/logical/actors"]["data"]["actors"].values()
        (began,) = [one["startTime"] for one in told if one["name"].endswith("queued-i001")]
        submitted = ray.job("cpus-i001")["start_time"]
        assert ray.count("/logical/actors") == 1, "a driver begins once"
    assert ran.started_at == again.started_at == began / 1000
    assert ran.pending_since is None and ran.ended_at is not None
    assert waits.pending_since == submitted / 1000 and waits.started_at is None


async def test_without_the_state_api_a_start_is_unknown_and_the_job_is_read() -> None:
    async with head() as ray:
        ray.answers("/api/v0/actors", reply(404, b"404: Not Found"))
        job = await job_of(platform(), run_of(ray.url, "hero-i001"))
    assert job.phase is Phase.RUNNING and job.started_at is None


async def test_what_no_node_has_can_never_start_where_nothing_adds_nodes() -> None:
    async with head() as ray:
        never = await job_of(platform(), run_of(ray.url, "never-i003"))
        types = ray.documents["/api/cluster_status"]["data"]["clusterStatus"]["autoscalerReport"]
        types["nodeTypeMapping"] = {NODE: "ray.worker.gpu"}
        perhaps = await job_of(platform(), run_of(ray.url, "never-i003"))
        ray.documents["/api/v0/nodes"]["data"]["result"]["result"][0]["resources_total"]["GPU"] = 8
        queued = await job_of(platform(), run_of(ray.url, "never-i003"))
    assert never.never and never.reason is not None
    assert "waiting for 8 GPU, and no node has so much (the most of each: 0 GPU)" in never.reason
    assert not perhaps.never and "autoscaler" in (perhaps.reason or "")
    assert not queued.never and "which a node has" in (queued.reason or "")


async def test_a_job_that_is_not_listed_is_unknown_and_not_finished() -> None:
    async with head() as ray:
        run = run_of(ray.url, "gone-i001")
        facet = (await platform().jobs([Query(run=run)]))["gone"]
        ray.answers("/api/version", reply(500, b"Traceback"))
        silent = (await platform().jobs([Query(run=run)]))["gone"]
    assert facet.value is None and facet.error is not None
    assert facet.error.kind is ErrorKind.NOT_FOUND
    assert "unknown, not finished" in facet.error.message
    assert "when it restarts (this one began 2026-11-22 11:40:38, its" in facet.error.message
    assert silent.error is not None and "when it restarts or when" in silent.error.message


async def test_an_end_that_was_seen_stands_when_the_head_has_forgotten_the_job() -> None:
    async with head() as ray:
        run = run_of(ray.url, "fail-i001")
        ended = await job_of(platform(), run)
        ray.documents["/api/jobs/"] = []
        facet = (await platform().jobs([Query(run=run, ended=ended)]))["fail"]
        other = run_of(ray.url, "fail-i002")
        unseen = (await platform().jobs([Query(run=other, ended=ended)]))["fail"]
    assert facet.value is not None and facet.known
    assert (facet.value.phase, facet.value.exit_code) == (Phase.FAILED, 3)
    assert "not listed any more" in facet.source
    assert unseen.value is None and unseen.error is not None


async def test_an_empty_list_is_not_the_end_of_any_job() -> None:
    async with head() as ray:
        ray.documents["/api/jobs/"] = []
        facet = (await platform().jobs([Query(run=run_of(ray.url, "hero-i001"))]))["hero"]
    assert facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND


async def test_without_a_recorded_id_the_newest_launch_is_the_job() -> None:
    async with head() as ray:
        ray.add("hero-i002")
        ray.add("heroine-i009")
        job = await job_of(platform(), run_of(ray.url, None, "hero"))
        nobody = (await platform().jobs([Query(run=run_of(ray.url, None, "nobody"))]))["nobody"]
    assert job.id == "hero-i002" and [each.id for each in job.rivals] == ["hero-i001"]
    assert nobody.error is not None and "job.id is not in the run file" in nobody.error.message


async def test_a_driver_from_outside_is_found_by_its_job_id() -> None:
    async with head() as ray:
        job = await job_of(platform(), run_of(ray.url, "02000000", "hero"))
    assert job.phase in (Phase.RUNNING, Phase.SUCCEEDED) and job.id == "02000000"
    assert job.output is None and job.started_at is not None


async def test_an_id_with_a_slash_is_read_like_any_other() -> None:
    async with head() as ray:
        job = await job_of(platform(), run_of(ray.url, "a/b"))
    assert job.id == "a/b" and job.phase is Phase.WAITING and not job.never


BELONGS: list[tuple[str, dict[str, Any], str | None, bool]] = [
    ("argument", {"entrypoint": "python train.py --output_dir /data/hero"}, "entrypoint", True),
    ("equals", {"entrypoint": "python train.py trainer.output_dir=/data/hero/x"}, "(train", True),
    ("inside", {"entrypoint": "bash -lc 'python t.py --save-to=/data/hero'"}, "(save-to)", True),
    ("unsaid", {"entrypoint": "python train.py --dir /data/hero"}, "(dir)", False),
    ("variable", {"env": {"OUTPUT_DIR": "/data/hero/"}}, "environment (OUTPUT_DIR)", True),
    ("wandb", {"env": {"WANDB_RUN_ID": "w1"}}, "the W&B id in its environment", True),
    ("elsewhere", {"env": {"WANDB_RUN_ID": "w1", "WANDB_PROJECT": "other"}}, None, False),
    ("flag", {"entrypoint": "WANDB_RUN_ID=w1 python train.py"}, "the W&B id", True),
    ("resumes", {"entrypoint": "python t.py --resume-wandb-run-id w1"}, "the W&B id", True),
    ("forks", {"entrypoint": "python t.py --pretrained-wandb-run-id w1"}, "the W&B id", False),
    ("reads", {"entrypoint": "python train.py --checkpoint /data/hero/step-1"}, None, False),
    ("looks", {"entrypoint": "python eval.py --output_dir /data/hero"}, None, False),
    ("beside", {"entrypoint": "python train.py --output_dir /data/hero-2"}, None, False),
    ("broken", {"entrypoint": "python t.py --output_dir=/data/hero 'it's"}, "(output_dir)", True),
]


@pytest.mark.parametrize(("name", "job", "why", "sure"), BELONGS, ids=[one[0] for one in BELONGS])
async def test_another_job_that_writes_to_the_same_place_is_a_rival(
    name: str, job: dict[str, Any], why: str | None, sure: bool
) -> None:
    async with head() as ray:
        env = {"env_vars": job.get("env", {})}
        entrypoint = job.get("entrypoint", "python train.py")
        ray.add("other", entrypoint=entrypoint, runtime_env=env, metadata=None)
        ray.documents["/api/jobs/"] = [ray.job("fail-i001"), ray.job("other")]
        wandb = WandbSpec(entity="e", project="p", id="w1")
        place = place_of("/data/hero")
        run = run_of(ray.url, "fail-i001", "hero", output_root=place, wandb=wandb)
        value = await job_of(platform(), run)
    if why is None:
        assert not value.rivals and not value.possible
        return
    (found,) = value.rivals if sure else value.possible
    assert found.id == "other" and why in found.why and value.rivals_source.startswith("the jobs")
    assert len(value.rivals) == sure


async def test_the_lineage_that_a_job_carries_decides() -> None:
    async with head() as ray:
        ray.add("hero-i009", metadata={"lineage": "root:0000000000000000"}, entrypoint="train")
        ray.documents["/api/jobs/"] = [ray.job("fail-i001"), ray.job("hero-i009")]
        root = place_of("/data/hero")
        value = await job_of(platform(), run_of(ray.url, "fail-i001", "hero", output_root=root))
    assert not value.rivals, "another fleet's run of the same name"


async def test_what_lives_is_told_from_the_same_list() -> None:
    async with head() as ray:
        asked, run = platform(), run_of(ray.url, "hero-i001")
        live = (await asked.live([run]))["hero"]
        ray.answers("/api/jobs/", reply(403, b"Forbidden: Invalid authentication token"))
        unknown = (await asked.live([run]))["hero"]
    assert [job.id for job in live.jobs] == ["hero-i001"] and live.unknown is None
    assert live.jobs[0].handle["submission_id"] == "hero-i001"
    assert not unknown.jobs and "refuses the token" in (unknown.unknown or "")


async def test_a_job_with_the_same_entrypoint_may_be_a_second_one() -> None:
    """Whoever submits it by hand gives it another id; other values make it another run."""
    async with head() as ray:
        ray.job("hero-i001")["entrypoint"] = "python train.py --config hero.yaml"
        ray.job("hero-i001")["status"] = "FAILED"
        env = {"env_vars": {"WANDB_RUN_ID": "other"}}
        added = {
            "raysubmit_a": "python -u train.py --config hero.yaml --resume last",
            "raysubmit_b": "python train.py --config other.yaml",
            "other-i003": "python train.py --config hero.yaml",
            "raysubmit_c": "python eval.py --config hero.yaml",
        }
        for name, entrypoint in added.items():
            ray.add(name, status="RUNNING", entrypoint=entrypoint, metadata={}, runtime_env={})
        ray.add("raysubmit_d", status="RUNNING", entrypoint=added["other-i003"], runtime_env=env)
        run = run_of(ray.url, "hero-i001", wandb=WandbSpec(id="hero"))
        own = platform()
        live = (await own.live([run]))["hero"]
        value = (await own.jobs([Query(run=run)]))["hero"].value
    assert [job.id for job in live.alike] == ["raysubmit_a"] and not live.jobs, live
    assert value is not None and [job.id for job in value.possible] == ["raysubmit_a"]


SECRET = "hunter2hunter2hunter2"


async def test_no_secret_of_a_job_is_shown() -> None:
    async with head() as ray:
        asked = platform()
        entrypoint = f"python train.py --api-key={SECRET} --output_dir /data/hero"
        env = {"env_vars": {"WANDB_API_KEY": SECRET, "PLAIN": SECRET, "WANDB_RUN_ID": "w1"}}
        ray.add("other", entrypoint=entrypoint, runtime_env=env)
        ray.job("fail-i001")["message"] = f"boom WANDB_API_KEY={SECRET}"
        ray.documents["/api/jobs/other"] = ray.job("other")
        run = run_of(ray.url, "fail-i001", "hero", output_root=place_of("/data/hero"))
        value = await job_of(asked, run)
        files = await asked.evidence(run, value.rivals)
    assert value.rivals and SECRET not in str(value) + str(value.rivals)
    text = b"".join(files.values()).decode()
    assert SECRET not in text and '"PLAIN": "****"' in text and '"WANDB_RUN_ID": "w1"' in text
    assert "missing: " in text, "what could not be had is said"


@pytest.mark.parametrize("skew", [0.0, 3600.0, -3600.0])
async def test_times_are_on_our_clock(skew: float) -> None:
    async with head() as ray:
        ray.skew = skew
        job = ray.job("cpus-i001")
        waits = await job_of(platform(), run_of(ray.url, "cpus-i001"))
        expected = job["start_time"] / 1000 - skew
        (finding,) = await platform().findings([run_of(ray.url, "cpus-i001")])
    assert waits.pending_since is not None and abs(waits.pending_since - expected) < 3
    assert (finding.remedy is None) == (skew == 0.0)
    assert ("ahead of ours" in finding.text, "behind ours" in finding.text) == (skew > 0, skew < 0)


async def test_the_health_of_the_drivers_node() -> None:
    async with head() as ray:
        asked, run = platform(), run_of(ray.url, "hero-i001")
        summary = ray.documents["/nodes"]["data"]["summary"][0]
        summary["now"] = SystemClock().now() - 10
        facet = (await asked.hosts([Query(run=run)]))["hero"]
        summary["raylet"]["state"] = "DEAD"
        dead = (await asked.hosts([Query(run=run)]))["hero"]
    assert facet.value is not None and facet.value.disks[0].mount == "/"
    assert facet.value.mem_frac is not None and 0 < facet.value.mem_frac < 0.2
    assert facet.value.load is not None and len(facet.value.disks) == 1
    assert dead.value is None and "is DEAD" in str(dead.error)


async def test_what_a_new_run_file_may_begin_from() -> None:
    async with head() as ray:
        env = {"env_vars": {"WANDB_RUN_ID": "w1", "WANDB_API_KEY": SECRET}}
        ray.add("fresh", entrypoint="python t.py --save-to gs://b/fresh", runtime_env=env)
        ray.job("fresh")["start_time"] = 1795990000000
        ray.add("open", entrypoint=f"python t.py --api-key={SECRET}")
        spec = run_of(ray.url, None).job
        assert spec is not None
        own = await platform().own_jobs(spec)
    assert own[0].id == "fresh" and own[0].text.startswith("RUNNING since ")
    assert own[0].settings == {
        "job.id": "fresh", "wandb.id": "w1", "output_root": "gs://b/fresh",
        "resubmit": "python t.py --save-to gs://b/fresh",
    }  # fmt: skip
    states = [each.text.split()[0] for each in own]
    assert states == sorted(states, key=lambda word: word not in ("RUNNING", "PENDING"))
    assert {each.name for each in own} >= {"hero", "fail", "02000000", "a/b"}
    assert SECRET not in str(own)


async def test_the_newest_launch_wins_over_a_recorded_job_that_is_over() -> None:
    """A cockpit was killed between the start of a job and its records."""
    async with head() as ray:
        old = ray.job("fail-i001")
        began = old["end_time"] + 1000
        ray.add("fail-i002", start_time=began, end_time=None)
        facet = (await platform().jobs([Query(run=run_of(ray.url, "fail-i001"))]))["fail"]
        assert facet.value is not None and facet.value.id == "fail-i002"
        assert facet.value.phase is Phase.RUNNING and not facet.value.rivals
        assert facet.source.endswith("; found by launch id fail-i002, newer than fail-i001")
        ray.job("fail-i002")["start_time"] = old["start_time"] - 1000
        job = await job_of(platform(), run_of(ray.url, "fail-i001"))
        assert job.id == "fail-i001" and [each.id for each in job.rivals] == ["fail-i002"]


async def test_the_newest_job_that_fits_the_pattern_is_the_current_one() -> None:
    async with head() as ray:
        old = ray.job("fail-i001")
        began = old["end_time"] + 1000
        ray.add("llama-by-hand", start_time=began, end_time=None)
        ray.add("raysubmit_1", start_time=began + 5, end_time=None, metadata={"name": "llama-2"})
        ray.add("llama-i007", start_time=began + 9, end_time=None)  # a launch of another run
        run = run_of(ray.url, "fail-i001", job={"match": "llama-*"})
        facet = (await platform().jobs([Query(run=run)]))["fail"]
        assert facet.value is not None and facet.value.id == "raysubmit_1"
        live = (await platform().live([run]))["fail"]
        assert ("raysubmit_1", "its name fits job.match") in [(j.id, j.why) for j in live.jobs]
        assert facet.source.endswith(
            "the newest that fits job.match, raysubmit_1, newer than fail-i001"
        )


async def test_of_a_run_without_a_job_nothing_is_described() -> None:
    """The path of a job without an id is that of the list of everybody's jobs."""
    async with head() as ray:
        run = run_of(ray.url, "toy-i001")
        found = await describe(Platforms(SystemClock(), [platform()]), run, "", SystemClock())
    assert found.problem == f"{run.name}: no job id is known" and not found.text


async def test_all_jobs_are_told_living_ones_first_and_without_secrets() -> None:
    async with head() as ray:
        ray.add("grug-i002", submitted=0, entrypoint="train --key sk-abcdefghijklmnopqrstuv012345")
        jobs = await platform().own_jobs(JobSpec(kind="ray", address=ray.url))
        assert ray.asked == ["/api/jobs/"]
    lives = [job.text.startswith(("RUNNING", "PENDING")) for job in jobs]
    assert lives == sorted(lives, reverse=True) and {True, False} <= set(lives)
    (grug,) = [job for job in jobs if job.id == "grug-i002"]
    assert grug.name == "grug" and grug.text.startswith("RUNNING since 2026-")
    assert "sk-abc" not in grug.text


@pytest.mark.parametrize(
    ("status", "text"),
    [(401, "job.token_env"), (404, "must be the dashboard")],
)
async def test_why_a_head_does_not_tell_its_jobs(status: int, text: str) -> None:
    async with head() as ray:
        ray.answers("/api/jobs/", reply(status, b"no"))
        with pytest.raises(CannotError, match=text):
            await platform().own_jobs(JobSpec(kind="ray", address=ray.url))


@pytest.mark.parametrize("address", [None, "http://", "ftp://h"])
async def test_a_head_that_is_not_named(address: str | None) -> None:
    with pytest.raises(CannotError, match="dashboard"):
        await platform().own_jobs(JobSpec(kind="ray", address=address))


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
