"""What is known of one host's paths is not told of another's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.link import Ask
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState
from cockpit.model.observed import Phase
from cockpit.platforms.local.jobs import ProcessJobs, View
from tests.platforms.box.making import Here, box, files, spec
from tests.queries import queries_of


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
