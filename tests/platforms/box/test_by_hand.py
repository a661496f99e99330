"""On a host, too, a copy that was started by hand and names nothing of the run is seen (C-25).

The health of a host: a real one, and what others have been seen to answer.

A disk of a host that hangs costs only the runs whose files lie on it.

A process of a host that was started by hand is noted in the run's pid file there.

What is known of one host's paths is not told of another's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.link import Ask
from cockpit.model.clock import OtherClock, SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LaunchState, Query
from cockpit.model.observed import Phase
from cockpit.model.place import on_host
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.local.census import census
from cockpit.platforms.local.finding import screens, sessions
from cockpit.platforms.local.jobs import ProcessJobs, View
from cockpit.platforms.local.sight import sight_of
from tests.platforms.box.making import Here, box, files, living, spec, told
from tests.platforms.box.making import box as platform
from tests.queries import queries_of
from tests.sshd import Sshd, needs_sshd
from tests.waiting import until

WAIT = "import time\nopen('up', 'w').close()\ntime.sleep(60)\n"
PY = f"{sys.executable} -S"
Begin = Callable[..., int]


def ids(jobs: object) -> list[str]:
    return [job.id for job in jobs]  # type: ignore[attr-defined]


@needs_sshd
async def test_the_runs_script_by_hand_is_for_a_person(
    box: Sshd, start: Begin, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(WAIT)
    made = spec(box.host, tmp_path)
    for command in (f"{PY} train.py --resume {{checkpoint}}", "bash launch.sh"):
        run = made.model_copy(update={"resubmit": command})
        pid = start("env", "-C", str(tmp_path), *PY.split(), "train.py")
        until(lambda: (tmp_path / "up").exists())
        found = await living(platform(), run)
        assert f"pid:{pid}" in ids(found.alike) and not found.jobs


@needs_sshd
async def test_who_writes_the_log_through_tee_is_a_job(
    box: Sshd, start: Begin, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text(WAIT)
    run = spec(box.host, tmp_path)
    log = tmp_path / "runs" / "buoy" / "run.log"
    log.parent.mkdir(parents=True)
    start("sh", "-c", f"cd {tmp_path}; {PY} x.py | tee {log}; true")
    until(lambda: (tmp_path / "up").exists() and log.exists())
    (found,) = (await living(platform(), run)).jobs
    process = census()[int(found.id.removeprefix("pid:"))]
    assert "x.py" in " ".join(process.argv)
    assert "through another program" in found.why


def test_a_clock_is_off_only_beyond_what_the_trip_can_explain() -> None:
    def ahead(now: float) -> float:
        return OtherClock().heed(now, 9000.0, 9004.0)

    assert [ahead(now) for now in (8998, 8999, 9000, 9004, 9006)] == [0.0] * 5
    assert (ahead(12604), ahead(5400)) == (3600.0, -3600.0)


def test_a_clock_is_as_it_was_found_while_no_answer_tells_a_difference() -> None:
    clock = OtherClock()
    assert clock.heed(12_604.0, 9000.0, 9004.0) == 3600.0
    assert clock.heed(12_702.0, 9100.0, 9101.5) == 3600.0, "the trip was shorter"
    assert clock.heed(13_200.0, 9200.0, 9200.0) == 4000.0, "it was set"
    assert clock.heed(9301.0, 9300.0, 9300.0) == 0.0


def test_a_slow_answer_does_not_move_the_times_of_a_host() -> None:
    """A host that is 10 s ahead seemed 3 s ahead, or right, after an answer that took longer."""
    clock = OtherClock()
    assert clock.heed(9011.0, 9000.0, 9001.0) == 10.0
    assert clock.heed(9115.0, 9100.0, 9112.0) == 10.0
    assert clock.heed(9214.0, 9200.0, 9216.0) == 10.0
    assert clock.heed(9300.5, 9300.0, 9301.0) == 0.0, "it was set"


def test_a_host_an_hour_ahead_is_told_by_our_clock() -> None:
    about = {"pid": 1, "now": 8600.0, "uid": 0, "hz": 100, "btime": 1000}
    listed = [[7, 1, 7, 7, 0, "S", 600000, ["python", "train.py"], "/", None, None, []]]
    host = sight_of(about, listed, None, 5000.0, 3600.0)
    assert host.processes[7].argv == ("python", "train.py")
    assert host.started_at(host.processes[7]) == 7000.0
    assert host.ours(7000.0) == 3400.0


def test_what_tmux_and_screen_say() -> None:
    found = sessions("1795349751|19119|0|||a|b\n1|2|1|7||dead\n1|3|1||9|x\nno server running\n")
    assert [(each.name, each.pid, each.dead, each.status) for each in found] == [
        ("a|b", 19119, False, None),
        ("dead", 2, True, 7),
        ("x", 3, True, -9),
    ]
    assert sessions("error connecting to /tmp/tmux-0/default (No such file or directory)\n") == []
    text = "There are screens on:\n\t12.train\t(Detached)\n\t13.old\t(Dead ???)\n1 Socket in /x.\n"
    assert [each.name for each in screens(text)] == ["train"]
    dated = "\t7.a b\t(11/22/26 15:42:56)\t(Attached)\n\t8.old\t(11/22/26 15:42:56)\t(Dead ???)\n"
    assert [(each.name, each.pid) for each in screens(dated)] == [("a b", 7)]


DEAD = "/mnt/dead"
GONE = 4_194_300


def dead_mount() -> Here:
    link = Here()
    link.hangs = lambda each: DEAD in each.arguments and each.call != "real"
    return link


async def test_the_other_runs_are_known_and_the_dead_mount_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{GONE}\n")
    runs = [
        RunSpec(name=name, job=JobSpec(kind="box", host="box", pid_file=on_host("box", path)))
        for name, path in (("a", f"{tmp_path}/pid"), ("b", f"{DEAD}/pid"), ("c", f"{tmp_path}/pid"))
    ]
    link = dead_mount()
    jobs = ProcessJobs(SystemClock(), lambda host: link, reap_wait=0.0)
    for _ in range(2):
        found = await jobs.observe("box", queries_of(runs))
        states = [facet.value.state for facet in found.values() if facet.value]
        assert states == ["gone", "gone"]
        assert found["b"].value is None
        assert found["b"].error is not None and found["b"].error.kind is ErrorKind.TIMEOUT
    assert len([each for each in link.asked if each.what == "the files of b"]) == 1
    link.released.set()
    link.hangs = lambda each: False
    while not all(future.done() for future in link._hung.values()):
        await link.ask([])
    found = await jobs.observe("box", queries_of(runs))
    assert found["b"].error is not None and found["b"].error.kind is ErrorKind.NOT_FOUND


UP = "import time\nopen('up', 'w').close()\ntime.sleep(60)\n"


@needs_sshd
async def test_a_process_is_named_and_noted_with_its_own_start(
    box: Sshd, start: Callable[..., int], tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text(UP)
    run = spec(box.host, tmp_path)
    there = ("env", "-C", str(tmp_path), "OUTPUT_DIR=/data/runs/b", "API_TOKEN=secret")
    pid = start(*there, sys.executable, "-S", "x.py", "--lr", "3")
    until(lambda: (tmp_path / "up").exists())
    boat = platform()
    job = await boat.named_job(run, str(pid))
    assert (job.id, job.lives, job.launch_id) == (f"pid:{pid}", True, None)
    assert ("lr", "3") in job.values and ("OUTPUT_DIR", "/data/runs/b") in job.values
    assert "secret" not in str(job)
    assert (await boat.jobs([Query(run=run)]))[run.name].value is None
    await boat.adopt(run, job)
    value = (await boat.jobs([Query(run=run)]))[run.name].value
    assert value is not None and value.id == f"pid:{pid}" and not value.phase.terminal
    lines = told(run, "pid_file").splitlines()
    assert lines[0] == str(pid) and f"ticks={job.handle['ticks']}" in lines
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(CannotError, match="has ended meanwhile"):
        await boat.adopt(run, job)
    value = (await boat.jobs([Query(run=run)]))[run.name].value
    assert value is not None and value.phase is Phase.FAILED


@needs_sshd
async def test_what_cannot_be_adopted_says_why(box: Sshd, tmp_path: Path) -> None:
    run, boat = spec(box.host, tmp_path), platform()
    assert "no process 4194303 lives" in (await boat.named_job(run, "4194303")).text
    assert "not a process id" in (await boat.named_job(run, "tmux")).text
    nowhere = await boat.named_job(spec("nobody@127.0.0.1", tmp_path), "1")
    assert nowhere.lives is None, nowhere.text
    assert run.job is not None
    blind = run.model_copy(update={"job": run.job.model_copy(update={"pid_file": None})})
    job = await boat.named_job(run, str(os.getpid()))
    assert job.lives
    with pytest.raises(CannotError, match="pid_file must be set"):
        await boat.adopt(blind, job)
    (tmp_path / "runs").write_text("a file where a folder must be")
    with pytest.raises(CannotError, match="cannot be written"):
        await boat.adopt(run, job)


def aliased(name: str) -> Here:
    """Return this machine under a host's name; on ``near`` each folder is a link elsewhere."""
    link = Here(name)
    if name == "near":
        link.edit = lambda each, value: f"/elsewhere{value}" if each.call == "real" else value
    return link


async def test_a_path_that_is_a_link_on_one_host_is_none_on_another(tmp_path: Path) -> None:
    actors = {name: aliased(name) for name in ("near", "far")}
    jobs = ProcessJobs(SystemClock(), actors.__getitem__)
    led = {}
    for host in actors:
        view = await jobs.look(host, [spec(host, tmp_path, host)])
        assert isinstance(view, View)
        led[host] = view.sight.places.real(str(tmp_path))
    assert led == {"near": f"/elsewhere{tmp_path}", "far": str(tmp_path)}


def started(text: str) -> subprocess.Popen[bytes]:
    """Start a process whose command line holds a text."""
    return subprocess.Popen((sys.executable, "-S", "-c", f"import time; time.sleep(60)  # {text}"))


async def test_a_job_of_one_host_is_not_gone_from_another(tmp_path: Path) -> None:
    """The run file was edited: nothing of it was ever seen there."""
    asked, child = Here(), started(str(tmp_path))
    jobs = ProcessJobs(SystemClock(), lambda _: asked, reap_wait=0.0)
    nothing: dict[str, Any] = {"log": None, "pid_file": None, "exit_file": None}
    here = spec("near", tmp_path, match=str(tmp_path), **nothing)
    there = spec("far", tmp_path, match=f"{tmp_path}/far", **nothing)
    try:
        (facet,) = (await jobs.observe("near", queries_of([here]))).values()
        assert facet.value is not None and facet.value.phase is Phase.RUNNING
    finally:
        child.kill()
        child.wait()
    (facet,) = (await jobs.observe("far", queries_of([there]))).values()
    assert facet.value is None and facet.error is not None
    assert "nothing was launched there" in facet.error.message
    (facet,) = (await jobs.observe("near", queries_of([here]))).values()
    assert facet.value is not None and facet.value.phase is Phase.FAILED


def mounting(spoilt: str = "/nothing") -> Here:
    """Return this machine, its disks mounted from elsewhere; what ``spoilt`` holds has none."""
    link = Here()

    def edit(each: Ask, value: Any) -> Any:
        if each.call != "disk":
            return value
        return value | {"source": "nas:/home"}

    link.edit, link.hangs = edit, lambda each: each.call == "disk" and spoilt in each.arguments
    return link


@pytest.mark.parametrize(
    ("link", "phase"), [(Here, Phase.FAILED), (mounting, Phase.UNKNOWN)], ids=["own", "shared"]
)
async def test_a_plain_pid_file_on_a_disk_that_hosts_share_may_be_another_hosts(
    tmp_path: Path, link: Callable[[], Here], phase: Phase
) -> None:
    asked = link()
    jobs = ProcessJobs(SystemClock(), lambda _: asked, reap_wait=0.0)
    run = spec("near", tmp_path)
    files(run, "pid_file").parent.mkdir(parents=True)
    files(run, "pid_file").write_text(f"{2**31 - 2}\n")
    (facet,) = (await jobs.observe("near", queries_of([run]))).values()
    assert facet.value is not None and facet.value.phase is phase
    unknown = (await jobs.live("near", [run]))[run.name].unknown
    found = await box(link=lambda _: asked).look_up(run, "buoy-i001")
    assert found.found is LaunchState.ABSENT
    files(run, "pid_file").write_text(f"{2**31 - 2}\nlaunch_id=buoy-i002\n")  # the first is closed
    found = await box(link=lambda _: asked).look_up(run, "buoy-i002")
    if phase is Phase.FAILED:
        assert unknown is None and found.found is LaunchState.ENDED
    else:
        told = "is on nas:/home, a network file system, and names no machine"
        assert facet.error is not None and told in facet.error.message
        assert told in str(unknown) and found.found is LaunchState.UNKNOWN and told in found.text


async def test_a_disk_that_is_not_told_hides_no_other_disk_that_hosts_share(tmp_path: Path) -> None:
    asked = mounting(spoilt="/gone")
    jobs = ProcessJobs(SystemClock(), lambda _: asked, reap_wait=0.0)
    run, beside = spec("near", tmp_path / "a"), spec("near", tmp_path / "gone", "beside")
    for each in (run, beside):
        files(each, "pid_file").parent.mkdir(parents=True)
        files(each, "pid_file").write_text(f"{2**31 - 2}\n")
    found = await jobs.observe("near", queries_of([run, beside]))
    value = found[run.name].value
    assert value is not None and value.phase is Phase.UNKNOWN
