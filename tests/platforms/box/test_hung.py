"""A disk of a host that hangs costs only the runs whose files lie on it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.observed import Disk
from cockpit.model.place import Place, on_host
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.box.disks import disks_of
from cockpit.platforms.box.jobs import BoxJobs
from cockpit.platforms.box.probe import Actor
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import run_script
from tests.queries import queries_of

DEAD = "/mnt/dead"
GONE = 4_194_300


class Mount:
    """This machine, on which whatever touches ``DEAD`` hangs while it is down."""

    def __init__(self, pipe: Path) -> None:
        os.mkfifo(pipe)
        self.pipe = pipe
        self.down = True
        self.trips = 0

    async def __call__(self, host: str | None, script: str, **more: Any) -> Completed:
        self.trips += 1
        if self.down:
            script = script.replace(f"w={DEAD}", f"cat {self.pipe}; w={DEAD}")
            script = script.replace(f"for p in {DEAD}", f"cat {self.pipe}; for p in {DEAD}")
        return await run_script(None, script, **more)


def test_the_other_runs_are_told_and_the_dead_mount_is_asked_apart(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{GONE}\n")
    runs = [
        RunSpec(name=name, job=JobSpec(kind="box", host="box", pid_file=on_host("box", path)))
        for name, path in (("a", f"{tmp_path}/pid"), ("b", f"{DEAD}/pid"), ("c", f"{tmp_path}/pid"))
    ]
    mount = Mount(tmp_path / "pipe")
    actor = Actor("box", mount, limits=(1.5, 0.6))
    jobs = BoxJobs(SystemClock(), lambda host: actor)

    async def look() -> dict[str, Any]:
        return await jobs.observe("box", queries_of(runs))

    async def story() -> None:
        first = await look()
        assert [first[name].value.state for name in "ac"] == ["gone", "gone"]
        assert first["b"].value is None and first["b"].error.kind is ErrorKind.TIMEOUT
        trips = mount.trips
        second = await look()
        assert [second[name].value.state for name in "ac"] == ["gone", "gone"]
        assert second["b"].error.kind is ErrorKind.TIMEOUT
        assert mount.trips == trips + 1  # nobody is asked twice for it any more
        mount.down = False
        third = await look()
        assert third["b"].error.kind is ErrorKind.NOT_FOUND

    asyncio.run(story())


def test_the_other_disks_are_told(tmp_path: Path) -> None:
    places = [Place("ssh", "box", path) for path in (DEAD, str(tmp_path))]
    actor = Actor("box", Mount(tmp_path / "pipe"), limits=(1.0, 0.6))
    dead, good = asyncio.run(disks_of(actor, places)).values()
    assert isinstance(dead, Problem) and dead.kind is ErrorKind.TIMEOUT
    assert isinstance(good, Disk)
