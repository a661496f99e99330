"""Acting on a real Slurm: held, let go once, closed by a look-up, stopped exactly (SPEC A).

What ``tests/platforms/local/test_platform.py`` promises for processes, counted at the controller.

Orders to a real Slurm whose answer is late or lost, and about a job that ended meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.execution import settled
from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Accepted, LaunchState, LiveJob, Query, SchedulerOrder, Submission
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm import scripts
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.platforms.slurm.record import seconds_of
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from tests.platforms.slurm.asking import platform, run_of
from tests.platforms.slurm.rig import Rig
from tests.sshd import needs_sshd, serving
from tests.waiting import until

NUMBERS = itertools.count(1)
SLOW = """#!/bin/sh
touch "$0.up"; until [ -e "$0.go" ]; do sleep 0.05; done; exec /usr/bin/sbatch "$@"
"""
SCRIPT = "#!/bin/sh\nexec sleep 60\n"


class Quick(SlurmPlatform):
    look_every = 0.1


def quick(run: Any = run_script) -> Quick:
    clock = SystemClock()
    return Quick(clock, Logs(clock), run)


@pytest.fixture
async def toy(
    slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunSpec]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    (tmp_path / "job.sh").write_text(SCRIPT)
    name = f"toy{next(NUMBERS)}"  # the controller remembers the launch ids of former tests
    yield run_of(name, root=str(tmp_path / "root"), workdir=place_of(str(tmp_path)), grace=5.0)
    slurm.clear()


def id_of(run: RunSpec, number: int) -> str:
    return f"{run.name}-i{number:03d}"


def submission(run: RunSpec, number: int, *words: str, **env: str) -> Submission:
    launch_id = id_of(run, number)
    words = words or ("sbatch", "--mem=10", "--output=out-%j", "job.sh")
    formed = quick().formed(words, run, launch_id)
    return Submission(run=run.name, launch_id=launch_id, command=formed, env=env)


def states(slurm: Rig, launch_id: str) -> dict[str, str]:
    rows = slurm.told("squeue", "-h", "-t", "all", "-o", "%k %A %T").splitlines()
    return {row.split()[1]: row.split()[2] for row in rows if row.split()[0] == launch_id}


async def live_of(run: RunSpec) -> tuple[LiveJob, ...]:
    found = (await quick().live([run]))[run.name]
    assert found.unknown is None
    return found.jobs


async def test_two_machines_choose_the_same_job(slurm: Rig, toy: RunSpec, tmp_path: Path) -> None:
    """Their notes lie apart, and both have accepted before either lets go."""
    other = toy.model_copy(update={"output_root": place_of(str(tmp_path / "other"))})
    first = slurm.sbatch("-H", f"--comment={id_of(toy, 1)}")
    late = slurm.sbatch("-H", f"--comment={id_of(toy, 1)}")
    mine, its = (Accepted(id=job, submission=submission(toy, 1)) for job in (first, late))
    told = await asyncio.gather(
        quick().go(toy, mine), quick().go(other, its), return_exceptions=True
    )
    assert told[0] == first and isinstance(told[1], CannotError), told
    seen = states(slurm, id_of(toy, 1))
    assert seen[late] == "CANCELLED" and seen[first] in ("PENDING", "RUNNING")


async def test_a_job_with_another_comment_never_runs(slurm: Rig, toy: RunSpec) -> None:
    own = quick()
    accepted = await own.accept(toy, submission(toy, 1))
    slurm.told("scontrol", "update", f"JobId={accepted.id}", "Comment=site-policy")
    with pytest.raises(CannotError, match="site-policy"):
        await own.go(toy, accepted)
    assert states(slurm, "site-policy") == {accepted.id: "CANCELLED"}


async def test_a_late_twin_stays_held_and_is_told(slurm: Rig, toy: RunSpec) -> None:
    """The controller hung while it was submitted; what it did afterwards runs never."""
    own = quick()
    twin = slurm.sbatch("-H", f"--comment={id_of(toy, 1)}")
    accepted = await own.accept(toy, submission(toy, 2))
    await own.go(toy, accepted)
    slurm.wait_for(accepted.id, "RUNNING")
    live = (await own.live([toy]))[toy.name]
    assert [job.id for job in live.jobs] == [accepted.id]
    assert [(job.id, job.launch_id) for job in live.held] == [(twin, id_of(toy, 1))]
    await own.stop(toy, live.held)
    assert states(slurm, id_of(toy, 1)) == {twin: "CANCELLED"}
    assert states(slurm, id_of(toy, 2)) == {accepted.id: "RUNNING"}
    released = slurm.sbatch("-H", f"--comment={id_of(toy, 3)}")
    held = (await own.live([toy]))[toy.name].held
    slurm.told("scontrol", "release", released)
    slurm.wait_for(released, "RUNNING")
    with pytest.raises(CannotError, match="it was released"):
        await own.stop(toy, held)


async def test_a_job_that_requeues_itself_does_not_come_back(
    slurm: Rig, toy: RunSpec, tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text(
        "#!/bin/sh\ntrap 'scontrol requeue $SLURM_JOB_ID; exit 0' TERM\n"
        "touch up; while :; do sleep 0.1; done\n"
    )
    own = quick()
    job = await own.go(toy, await own.accept(toy, submission(toy, 1)))
    until(lambda: (tmp_path / "up").exists())
    await own.stop(toy, await live_of(toy))
    assert states(slurm, id_of(toy, 1)) == {job: "CANCELLED"}


async def test_a_job_that_was_requeued_since_it_was_seen_is_stopped(
    slurm: Rig, toy: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number stays, and its submit time moves; Slurm counts whole seconds."""
    monkeypatch.setattr(scripts, "SAME_WITHIN", 0.5)
    own = quick()
    job = await own.go(toy, await own.accept(toy, submission(toy, 1)))
    slurm.wait_for(job, "RUNNING")
    (seen,) = await live_of(toy)
    until(lambda: time.time() > float(seen.handle["submitted"]) + 2.0)
    another = seen.model_copy(update={"handle": {**seen.handle, "submitted": "1"}})
    await own.stop(toy, [another])
    assert states(slurm, id_of(toy, 1)) == {job: "RUNNING"}
    slurm.told("scontrol", "requeue", job)
    slurm.wait_for(job, "PENDING")
    await own.stop(toy, [seen])
    assert states(slurm, id_of(toy, 1)) == {job: "CANCELLED"}


async def test_what_starts_by_itself_after_a_job_is_cancelled_by_its_own_handle(
    slurm: Rig, toy: RunSpec
) -> None:
    """The task that runs stays, and so does an array of the same tasks beside it."""
    array = slurm.sbatch("-a", "0-3%1", f"--comment={id_of(toy, 1)}")
    beside = slurm.sbatch("-H", "-a", "0-3")
    slurm.wait_for(f"{array}_0", "RUNNING")
    next_one = slurm.sbatch("-d", f"afterany:{array}", f"--comment={id_of(toy, 2)}")
    own, query = quick(), _query(toy, array)
    facet = (await own.jobs([query]))[toy.name]
    assert facet.value is not None
    queued = facet.value.queued
    assert [job.id for job in queued] == [f"{array}_[1-3%1]", next_one]
    assert not {job.id for job in queued} & {job.id for job in await live_of(query.run)}
    await own.stop(toy, queued)
    left = slurm.told("squeue", "-h", "-o", "%F %K %T").splitlines()
    assert sorted(left) == sorted([f"{array} 0 RUNNING", f"{beside} 0-3 PENDING"])


async def test_wrappers_submit_held_or_not_at_all(slurm: Rig, toy: RunSpec, tmp_path: Path) -> None:
    """One that calls sbatch by its path, or twice, gets no second job; none that is not held."""
    own = quick()
    job = "sbatch --mem=10 job.sh"
    (tmp_path / "good.sh").write_text(f"echo preparing; {job}\n")
    (tmp_path / "twice.sh").write_text(f"{job}; {job}\n")
    (tmp_path / "path.sh").write_text(f"/usr/bin/{job}\n")
    (tmp_path / "none.sh").write_text("true\n")
    for number, name in enumerate(("good.sh", "twice.sh"), 1):
        accepted = await own.accept(toy, submission(toy, number, "sh", name))
        assert states(slurm, id_of(toy, number)) == {accepted.id: "PENDING"}
    with pytest.raises((CannotError, LostError)):
        await own.accept(toy, submission(toy, 3, "sh", "path.sh"))
    with pytest.raises(LostError, match="did not call sbatch"):
        await own.accept(toy, submission(toy, 4, "sh", "none.sh"))
    assert (await own.look_up(toy, id_of(toy, 4))).found is LaunchState.UNKNOWN
    listed = slurm.told("squeue", "-h", "-t", "PD,R,CG", "-o", "%k %r").splitlines()
    assert sorted(listed) == [f"{id_of(toy, 1)} JobHeldUser", f"{id_of(toy, 2)} JobHeldUser"]


@needs_sshd
async def test_the_connection_is_cut_while_it_is_submitted(
    slurm: Rig, toy: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun on the login node goes on there: its job is held, found and ended."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert toy.job is not None
    with serving(tmp_path) as box:
        slow = tmp_path / "slow"
        slow.mkdir()
        (slow / "sbatch").write_text(SLOW)
        (slow / "sbatch").chmod(0o700)
        box.rc(f"export SLURM_CONF={slurm.conf} PATH={slow}:$PATH")
        there = toy.model_copy(
            update={"job": toy.job.model_copy(update={"host": box.host}), "output_root": None}
        )
        own = quick()
        accepting = asyncio.create_task(own.accept(there, submission(toy, 1)))
        await asyncio.to_thread(until, (slow / "sbatch.up").exists)
        box.signal(signal.SIGKILL)
        with pytest.raises(LostError):
            await accepting
        (slow / "sbatch.go").touch()
        until(lambda: states(slurm, id_of(toy, 1)))
        found = await own.look_up(there, id_of(toy, 1))
        assert found.found is LaunchState.ABSENT, found
        assert list(states(slurm, id_of(toy, 1)).values()) == ["CANCELLED"]
        assert (box.home / ".cockpit" / "launches" / id_of(toy, 1)).exists()
        accepted = await own.accept(there, submission(toy, 2))
        assert await own.go(there, accepted) == accepted.id
        assert (await own.look_up(there, id_of(toy, 2))).found is LaunchState.LIVE


async def test_saves_reach_the_steps_or_are_refused(
    slurm: Rig, toy: RunSpec, tmp_path: Path
) -> None:
    (tmp_path / "train.sh").write_text(
        "trap 'touch saved' USR1\ntouch up\nwhile :; do sleep 0.1; done\n"
    )
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsrun --mpi=none --mem=0 sh train.sh\n")
    assert toy.job is not None
    asked = toy.model_copy(update={"job": toy.job.model_copy(update={"save_signal": "USR1"})})
    own = quick()
    job = await own.go(toy, await own.accept(toy, submission(toy, 1)))
    until(lambda: (tmp_path / "up").exists())
    (live,) = await live_of(asked)
    assert own.can_save(toy, live) is not None and own.can_save(asked, live) is None
    await own.save(asked, live)
    until(lambda: (tmp_path / "saved").exists())
    assert states(slurm, id_of(toy, 1)) == {job: "RUNNING"}
    none = live.model_copy(update={"handle": {**live.handle, "steps": "no"}})
    assert "no step of srun" in (own.can_save(asked, none) or "")
    by_hand = {"save_command": "touch by-{job_id}-{launch_id}"}
    told = toy.model_copy(update={"job": toy.job.model_copy(update=by_hand)})
    await own.save(told, none)
    assert (tmp_path / f"by-{job}-{id_of(toy, 1)}").exists()
    files = await own.evidence(toy, [live])
    assert f"JobId={job} ".encode() in files["slurm.txt"]


async def test_a_name_that_forges_a_record_hides_nothing(slurm: Rig, toy: RunSpec) -> None:
    job = slurm.sbatch(f"--comment={id_of(toy, 1)}", "-o", "mine.log")
    forged = f"x\nJobId={job} JobName=y\n   UserId=root(0) GroupId=root(0)\n   JobState=FAILED"
    slurm.sbatch("-H", "-J", forged + "\n   StdOut=/etc/passwd")
    facet = (await quick().jobs([_query(toy, job)]))[toy.name]
    assert facet.value is not None and facet.value.output == f"{slurm.folder}/jobs/mine.log"
    assert facet.value.phase.lives


def _query(run: RunSpec, job: str) -> Any:
    from cockpit.model.jobs import Query

    assert run.job is not None
    return Query(run=run.model_copy(update={"job": run.job.model_copy(update={"id": job})}))


async def test_where_no_note_can_be_made_nothing_starts(slurm: Rig, toy: RunSpec) -> None:
    """A disk that is full on the way: what was accepted is cancelled, and no look-up is certain."""
    own = quick()
    assert toy.output_root is not None
    notes = Path(toy.output_root.path) / ".cockpit"
    slurm.sbatch("-H", f"--comment={id_of(toy, 5)}")
    assert (await own.look_up(toy, id_of(toy, 3))).found is LaunchState.ABSENT
    assert await own.launch_ids(toy) == {id_of(toy, 3), id_of(toy, 5)}
    accepted = await own.accept(toy, submission(toy, 1))
    (notes / "launches" / id_of(toy, 3)).unlink()
    (notes / "launches").rmdir()  # there, and nothing is left in it by having tried
    notes.rmdir()
    notes.write_text("no folder")
    found = await own.look_up(toy, id_of(toy, 2))
    assert found.found is LaunchState.UNKNOWN and "cannot be closed" in found.text
    with pytest.raises(CannotError, match="cannot be noted"):
        await own.go(toy, accepted)
    assert states(slurm, id_of(toy, 1)) == {accepted.id: "CANCELLED"}
    with pytest.raises(CannotError, match="nothing was submitted"):
        await own.accept(toy, submission(toy, 2))


LOST = """
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
"""
LATE = (
    """#!/bin/sh
(until [ -e "{go}" ]; do sleep 0.05; done; exec /usr/bin/sbatch "$@") >/dev/null 2>&1 </dev/null &
"""
    + LOST
)


async def test_a_lost_sbatch_is_unknown_until_no_late_job_can_come(
    slurm: Rig, toy: RunSpec, tmp_path: Path, commands: Path
) -> None:
    """The controller stood still: it takes the job in after it has answered a look-up."""
    (commands / "sbatch").write_text(LATE.format(go=tmp_path / "go"))
    (commands / "sbatch").chmod(0o755)
    own = quick()
    with pytest.raises(LostError, match="timed out"):
        await own.accept(toy, submission(toy, 1))
    found = await own.look_up(toy, id_of(toy, 1))
    assert found.found is LaunchState.UNKNOWN and "sbatch got no answer" in found.text
    (tmp_path / "go").touch()
    until(lambda: states(slurm, id_of(toy, 1)))
    found = await own.look_up(toy, id_of(toy, 1))
    assert found.found is LaunchState.ABSENT and "cancelled before it ran" in found.text
    assert set(states(slurm, id_of(toy, 1)).values()) == {"CANCELLED"}


async def test_a_lost_sbatch_is_absent_once_the_controller_has_told_of_no_job_for_a_while(
    slurm: Rig, toy: RunSpec, commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "COMES_WITHIN", 1)
    (commands / "sbatch").write_text(f"#!/bin/sh\n{LOST}")
    (commands / "sbatch").chmod(0o755)
    own = quick()
    with pytest.raises(LostError):
        await own.accept(toy, submission(toy, 1))
    assert (await own.look_up(toy, id_of(toy, 1))).found is LaunchState.UNKNOWN
    found = await settled(own, toy, id_of(toy, 1), SystemClock())
    assert found.found is LaunchState.ABSENT, found.text
    assert not states(slurm, id_of(toy, 1))


REQUEUE = SchedulerOrder(verb="requeue")


@pytest.fixture
async def ordering_toy(
    slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunSpec]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    yield run_of(f"ordered{next(NUMBERS)}", workdir=place_of(str(tmp_path)), grace=5.0)
    slurm.clear()


async def started(slurm: Rig, toy: RunSpec, *options: str) -> LiveJob:
    job = slurm.sbatch(f"--comment={toy.name}-i001", "--requeue", *options)
    slurm.wait_for(job, "RUNNING")
    (live,) = (await platform().live([toy]))[toy.name].jobs
    return live


def around(before: Callable[[], object] = int, after: Callable[[], object] = int) -> Any:
    """Run the script of an order between these two."""

    async def run(host: str | None, script: str, **options: Any) -> Any:
        gives = "\nsay said;" in script
        if gives:
            before()
        done = await run_script(host, script, **options)
        if gives:
            after()
        return done

    return run


async def test_a_job_that_ended_meanwhile_does_not_run_again(
    slurm: Rig, ordering_toy: RunSpec
) -> None:
    live = await started(slurm, ordering_toy)

    def end() -> None:
        slurm.told("scancel", live.id)
        slurm.wait_for(live.id, "CANCELLED")

    with pytest.raises(CannotError, match="is CANCELLED now: nothing was ordered"):
        await platform(around(before=end)).order(ordering_toy, live, REQUEUE)
    assert slurm.told("squeue", "-h", "-t", "all", "-j", live.id, "-o", "%T") == "CANCELLED"


async def test_an_order_whose_answer_was_lost_is_looked_up(
    slurm: Rig, ordering_toy: RunSpec
) -> None:
    live = await started(slurm, ordering_toy)

    def lose() -> None:
        raise RemoteError(ErrorKind.TIMEOUT, "the connection broke off", sent=True)

    with pytest.raises(LostError, match="the connection broke off"):
        await platform(around(after=lose)).order(ordering_toy, live, REQUEUE)
    slurm.wait_for(live.id, "PENDING")
    assert await platform().shown_order(ordering_toy, live, REQUEUE) == f"job {live.id} is requeued"
    assert await platform().shown_order(ordering_toy, live, SchedulerOrder(verb="hold")) is None


@pytest.mark.parametrize("where", ["command", "script"])
async def test_the_signal_before_the_limit_is_read(
    slurm: Rig, ordering_toy: RunSpec, tmp_path: Path, where: str
) -> None:
    script = tmp_path / "job.sh"
    asks = "#SBATCH --signal=B:SIGUSR1@120\n" if where == "script" else ""
    script.write_text(f"#!/bin/sh\n{asks}exec sleep 60\n")
    words = [f"--comment={ordering_toy.name}-i001", "--mem=10", "--time=10"]
    if where == "command":
        words.append("--signal=USR1@120")
        ordering_toy = ordering_toy.model_copy(update={"resubmit": ("sbatch", *words, str(script))})
    job = slurm.told("sbatch", "--parsable", *words, str(script))
    slurm.wait_for(job, "RUNNING")
    facet = (await platform().jobs([Query(run=ordering_toy)]))[ordering_toy.name]
    assert facet.value is not None
    assert facet.value.signal_before_end == ("USR1", 120.0)


async def test_what_slurm_would_refuse_is_known_before(slurm: Rig, ordering_toy: RunSpec) -> None:
    live = await started(slurm, ordering_toy, "--no-requeue")
    why = await platform().why_no_order(ordering_toy, live, REQUEUE)
    assert why == "it was submitted with --no-requeue, or the cluster's default says so"
    gone = live.model_copy(update={"id": "4000000", "handle": {"job": "4000000"}})
    assert "not listed any more" in (
        await platform().why_no_order(ordering_toy, gone, REQUEUE) or ""
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:30:00", 95400.0), ("30:00", 1800.0), ("2:00:00", 7200.0), ("UNLIMITED", None)],
)
def test_a_time_limit_as_slurm_prints_it(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
