"""A host that has busybox and nothing else: what is told of it is what is told of any other."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.place import Place
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec, TensorboardSpec, TrackioSpec
from cockpit.platforms.table import Platforms
from cockpit.sources.checkpoints.source import Checkpoints
from cockpit.sources.trackers import Trackers
from tests.sshd import Sshd, needs_sshd, serving

BUSYBOX = shutil.which("busybox")
DATA = Path(__file__).resolve().parents[2] / "data"
EVENTS = "events.out.tfevents.1795340000.node-1"
pytestmark = [
    needs_sshd,
    pytest.mark.skipif(BUSYBOX is None, reason="no busybox here: apt-get install busybox"),
]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """Give a host on whose PATH every program is busybox's, its shell too."""
    folder = tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp", ignore_cleanup_errors=True)
    with folder as root, serving(Path(root)) as box:  # a shell there may still be ending
        monkeypatch.setenv("PATH", f"{box.root}/bin:{os.environ['PATH']}")
        applets = box.root / "applets"
        applets.mkdir()
        assert BUSYBOX is not None
        listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True)
        for name in listed.stdout.split():
            (applets / name).symlink_to(BUSYBOX)
        box.rc(f'PATH="{applets}"; export PATH')
        enter = box.root / "enter"
        enter.write_text(enter.read_text().replace("exec /bin/sh", f'exec "{applets}/sh"'))
        yield box


def filled(home: Path) -> None:
    """Lay out a run: its log, a checkpoint, event files, a database."""
    (home / "run.log").write_text("".join(f"step {n}/900 loss=2.{n}\n" for n in range(300)))
    step = home / "saves" / "step-10"
    (step / "model").mkdir(parents=True)
    (step / "model" / "weights").write_bytes(bytes(5000))
    stamp = {"step": 10, "timestamp": "2026-11-22T10:00:00", "is_temporary": False}
    (step / "metadata.json").write_text(json.dumps(stamp))
    (home / "events").mkdir()
    (home / "events" / EVENTS).write_bytes((DATA / "tensorboard/scalars.tfevents").read_bytes())
    database = gzip.decompress((DATA / "trackio/proj.db.gz").read_bytes())
    (home / "proj.db").write_bytes(database)
    os.utime(home / "proj.db", (1.7e9, 1.7e9))


def test_all_facets_are_told(host: Sshd) -> None:
    home = host.home
    filled(home)

    def place(name: str) -> Place:
        return Place("ssh", host.host, str(home / name))

    def job(**more: str | Place) -> JobSpec:
        return JobSpec.model_validate({"kind": "box", "host": host.host, **more})

    trainer = subprocess.Popen(["sleep", "60"], cwd=home)
    (home / "run.pid").write_text(f"{trainer.pid}\n")
    (home / "run.exit").write_text("3\n")
    alive = RunSpec(
        name="alive",
        job=job(log=place("*.log"), pid_file=place("run.pid")),
        output_root=place("."),
        checkpoints=CheckpointSpec(path=(place("saves"),), layout="levanter"),
        tensorboard=TensorboardSpec(dir=place("events")),
    )
    over = RunSpec(
        name="over",
        job=job(log=place("run.log"), pid_file=place("none.pid"), exit_file=place("run.exit")),
        trackio=TrackioSpec(db=place("proj.db"), run="run-a"),
    )
    clock = SystemClock()
    platforms, queries = Platforms(clock), [Query(run=run) for run in (alive, over)]

    async def look() -> None:
        # what has just looked at the logs may linger for a second, and is no job
        logs = await platforms.logs(queries)
        jobs = await platforms.jobs(queries)
        hosts, trackers, saved = await asyncio.gather(
            platforms.hosts(queries),
            Trackers(clock).observe(queries),
            Checkpoints(clock).observe(queries[:1], host.host),
        )
        for each in logs.values():
            assert (
                each.value is not None and each.value.lines[-1].plain == "step 299/900 loss=2.299"
            )
        own, ended = jobs["alive"].value, jobs["over"].value
        assert own is not None and own.id == f"pid:{trainer.pid}", jobs
        assert not own.rivals and not own.possible
        assert ended is not None and (ended.state, ended.exit_code) == ("exited", 3), jobs
        health = hosts["alive"].value
        assert health is not None and health.load is not None and health.disks and health.mem_frac
        assert trackers["alive"].value is not None and trackers["alive"].value.step == 2000
        assert trackers["over"].value is not None and trackers["over"].value.name == "run-a"
        found = saved["alive"].value
        assert found is not None and found.latest_complete == 10

    try:
        asyncio.run(look())
    finally:
        trainer.kill()
        trainer.wait()
