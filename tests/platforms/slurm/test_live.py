"""Against a real Slurm: what costs no waiting; all else is recorded (``test_recorded``)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, Phase, Tasks
from cockpit.model.run import RunSpec
from cockpit.platforms.slurm.jobs import SlurmJobs
from cockpit.runtime.shell import Completed
from tests.platforms.slurm.asking import observed, platform, queries, run_of
from tests.platforms.slurm.rig import Rig
from tests.sshd import needs_sshd, serving


@pytest.fixture(autouse=True)
def here(slurm: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Slurm's commands find the rig, and each test leaves it without jobs."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    yield
    slurm.clear()


async def value_of(*runs: RunSpec) -> dict[str, JobValue]:
    found = await platform().jobs(queries(*runs))
    assert all(facet.error is None for facet in found.values()), found
    return {name: facet.value for name, facet in found.items() if facet.value is not None}


async def test_a_job_its_log_and_its_machine(slurm: Rig) -> None:
    job = slurm.sbatch("-t", "60", "--comment=toy-i003", "-o", "a b|%x-%j.out", "-J", 'we"ird',
                       wrap="echo step 1; sleep 60")  # fmt: skip
    slurm.wait_for(job, "RUNNING")
    run, own = run_of("toy"), platform()
    value = (await own.jobs(queries(run)))["toy"].value
    assert value is not None and (value.id, value.phase) == (job, Phase.RUNNING)
    assert value.launch_id == "toy-i003" and value.started_at is not None
    assert value.ends_by == value.started_at + 3600
    assert value.output == f'{slurm.folder}/jobs/a b|we"ird-{job}.out'
    query = Query(run=run, job=value)
    log, host = (await own.logs([query]))["toy"], (await own.hosts([query]))["toy"]
    assert log.value is not None and log.value.path == value.output
    assert host.value is not None and host.value.load is not None, host


async def test_standard_error_of_its_own_is_read_beside_the_output(slurm: Rig) -> None:
    bar = r'printf "\r  7%%|#| 7/100 [00:10<10:00, 1.0it/s, loss=2.5]" >&2'
    job = slurm.sbatch("-o", "%j_log.out", "-e", "%j_log.err", wrap=f"echo up; {bar}; sleep 60")
    slurm.wait_for(job, "RUNNING")
    run, own = run_of("toy", job), platform()
    value = (await own.jobs(queries(run)))["toy"].value
    assert value is not None and value.output is not None
    assert value.error_output == value.output.replace(".out", ".err")
    query = Query(run=run, job=value)
    until = time.monotonic() + 20
    while time.monotonic() < until:  # the job writes when it gets round to it
        log = (await own.logs([query]))["toy"].value
        if log is not None and log.path == value.error_output and log.rows:
            break
        await asyncio.sleep(0.05)
    assert log is not None and log.path == value.error_output
    assert [(row.step, row.loss) for row in log.rows] == [(7, 2.5)]
    assert [each.path for each in log.others] == [value.output]


async def test_what_waits_and_what_never_starts(slurm: Rig) -> None:
    first = slurm.sbatch("-J", "chain")
    jobs = {
        "held": slurm.sbatch("-H"),
        "nodes": slurm.sbatch("-N2"),
        "next": slurm.sbatch("-d", f"afterany:{first}", "-J", "chain"),
    }
    slurm.wait_for(jobs["nodes"], "PartitionNodeLimit")
    values = await value_of(run_of("first", first), *(run_of(*each) for each in jobs.items()))
    assert [values[name].never for name in ("first", "held", "nodes", "next")] == [
        False, True, True, False,
    ]  # fmt: skip
    assert "JobHeldUser" in (values["held"].reason or "")
    assert [(job.id, job.why) for job in values["first"].queued] == [
        (jobs["next"], f"afterany {first}")
    ]


async def test_an_end_a_requeue_and_an_array(slurm: Rig) -> None:
    bad = slurm.sbatch(wrap="exit 3")
    again = slurm.sbatch("--requeue")
    array = slurm.sbatch("-a", "0-4%2")
    slurm.wait_for(bad, "FAILED")
    slurm.wait_for(again, "RUNNING")
    slurm.told("scontrol", "requeue", again)
    slurm.wait_for(again, "PENDING")
    runs = (run_of("bad", bad), run_of("again", again), run_of("array", array))
    values = await value_of(*runs)
    assert (values["bad"].phase, values["bad"].exit_code) == (Phase.FAILED, 3)
    assert (values["again"].phase, values["again"].restarts) == (Phase.WAITING, 1)
    assert values["again"].started_at is None
    assert values["array"].tasks is not None and values["array"].tasks.total == 5
    assert values["array"].tasks in [Tasks(running=n, total=5) for n in range(3)]


async def test_two_jobs_on_one_output_root(slurm: Rig) -> None:
    root = slurm.folder / "runs"
    root.mkdir()
    first, second = (slurm.sbatch("-o", f"{root}/%j.out") for _ in range(2))
    run = run_of("toy", first, root=str(root))
    value = (await value_of(run))["toy"]
    assert [rival.id for rival in value.rivals] == [second]
    live = (await platform().live([run]))["toy"]
    assert [job.id for job in live.jobs] == [first, second] and live.unknown is None


async def test_a_controller_that_hangs_is_unknown_and_comes_back(slurm: Rig) -> None:
    job = slurm.sbatch("-H")
    jobs = SlurmJobs(SystemClock(), run_script)
    slurm.stop()
    try:
        dark = (await observed(jobs, run_of("toy", job)))["toy"]
    finally:
        slurm.resume()
    assert dark.error is not None and dark.error.kind is ErrorKind.TIMEOUT
    assert (await observed(jobs, run_of("toy", job)))["toy"].known


async def test_a_fleet_is_one_shell(slurm: Rig) -> None:
    ids = [slurm.sbatch("-H") for _ in range(3)]
    shells: list[str | None] = []

    async def counted(host: str | None, script: str, *, deadline: float, cap: int) -> Completed:
        shells.append(host)
        return await run_script(host, script, deadline=deadline, cap=cap)

    jobs = SlurmJobs(SystemClock(), counted)
    runs = [run_of(f"r{n}", ids[n % 3]) for n in range(199)]
    found = await observed(jobs, *runs, run_of("gone", "999999"))
    assert len(shells) == 1
    assert all(found[run.name].known for run in runs)
    assert found["gone"].error is not None and found["gone"].error.kind is ErrorKind.NOT_FOUND


async def test_doctor_tells_of_the_cluster(slurm: Rig) -> None:
    up, accounting = await platform().findings([run_of("toy", "1"), run_of("other", "2")])
    assert "is UP" in up.text and up.remedy is None
    assert "accounting is off" in accounting.text and accounting.remedy is not None


def test_check_reads_it(slurm: Rig, tmp_path: Path) -> None:
    job = slurm.sbatch(wrap='echo "step 7 loss 2.5"; exit 1')
    slurm.wait_for(job, "FAILED")
    config = tmp_path / "cockpit.toml"
    config.write_text(f'[[run]]\nname = "toy"\n[run.job]\nkind = "slurm"\nid = "{job}"\n')
    done = subprocess.run(
        [sys.executable, "-m", "cockpit", "check", "--config", config, "--json"],
        capture_output=True, env={**slurm.environment, "XDG_STATE_HOME": str(tmp_path)},
        cwd=Path(__file__).parents[3], check=False, timeout=60,
    )  # fmt: skip
    (run,) = json.loads(done.stdout)["runs"]
    assert run["verdict"] == "critical" and run["facets"]["job"]["value"]["exit_code"] == 1
    assert run["facets"]["log"]["value"]["lines"] == ["step 7 loss 2.5"]
    assert [alert["id"] for alert in run["alerts"]] == ["C-01"]


@needs_sshd
async def test_a_cluster_behind_a_login_node(
    slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands run there, with what the login gives them; so do the readers of its logs."""
    job = slurm.sbatch(wrap="echo step 1; sleep 60")
    slurm.wait_for(job, "RUNNING")
    with serving(tmp_path) as box:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        monkeypatch.delenv("SLURM_CONF")
        run, own = run_of("toy", job, host=box.host), platform()
        (lost,) = (await own.jobs(queries(run))).values()
        assert lost.error is not None and f"slurm {box.host}: no Slurm: its" in lost.error.message
        box.rc(f"export SLURM_CONF={slurm.conf}")
        run = run_of("toy", job, host=f"{box.host}-b")  # another login
        value = (await own.jobs(queries(run)))["toy"].value
        assert value is not None and value.phase is Phase.RUNNING
        log = (await own.logs([Query(run=run, job=value)]))["toy"]
        assert log.value is not None, log.error
        assert [line.plain for line in log.value.lines] == ["step 1"]
        assert log.value.path == f"ssh://{box.host}-b{value.output}"


async def test_a_chain_of_short_links_is_followed_to_the_one_that_lives(slurm: Rig) -> None:
    """Nobody has seen the first links wait: a fresh look finds the last one all the same."""
    first = slurm.sbatch("-J", "chain", wrap="sleep 4; exit 1")
    second = slurm.sbatch("-J", "chain", "-d", f"afterany:{first}", wrap="sleep 1; exit 1")
    third = slurm.sbatch("-J", "chain", "-d", f"afterany:{second}", wrap="sleep 90")
    slurm.wait_for(third, "RUNNING")
    value = (await value_of(run_of("toy", first)))["toy"]
    assert (value.id, value.phase) == (third, Phase.RUNNING)
    assert "follows" in (value.reason or "")


async def test_a_node_that_drains_tells_its_reason(slurm: Rig) -> None:
    job = slurm.sbatch()
    slurm.wait_for(job, "RUNNING")
    run, own = run_of("toy", job), platform()
    value = (await own.jobs(queries(run)))["toy"].value
    assert value is not None and value.node is not None
    query = Query(run=run, job=value)
    whole = (await own.hosts([query]))["toy"].value
    assert whole is not None and whole.out_of_service is None
    slurm.told("scontrol", "update", f"node={value.node}", "state=drain", "reason=bad fan, RMA 7")
    try:
        host = (await own.hosts([query]))["toy"].value
    finally:
        slurm.told("scontrol", "update", f"node={value.node}", "state=resume")
    assert host is not None and host.out_of_service is not None
    assert "DRAIN" in host.out_of_service and "bad fan, RMA 7" in host.out_of_service
