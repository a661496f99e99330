"""A disk of a host that hangs costs only the runs whose files lie on it."""

from __future__ import annotations

from pathlib import Path

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import on_host
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.jobs import ProcessJobs
from tests.platforms.box.making import Here
from tests.queries import queries_of

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
