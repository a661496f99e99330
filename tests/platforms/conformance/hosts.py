"""Processes of this machine, and of a host behind a real sshd; both are counted in ``/proc``."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cockpit.hosts import notes
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from tests.platforms.box import making as box_making
from tests.platforms.conformance.seat import Seat, Way, lost_by
from tests.platforms.local import making
from tests.platforms.local.making import PYTHON, slay, stranger, trainers
from tests.sshd import Sshd
from tests.waiting import until

TRAINER = "import sys, time; open(sys.argv[1], 'a').write('ran\\n'); time.sleep(600)"
LOST = lost_by(lambda: RemoteError(ErrorKind.TIMEOUT, "no answer", sent=True))


class LocalSeat(Seat):
    kind = "local"
    ways = (Way("cockpit.hosts.here:HereLink", "act", LOST),)
    hangs = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.strangers: dict[str, list[subprocess.Popen[bytes]]] = {}

    def _plain(self, name: str) -> RunSpec:
        return making.spec(self.folder, name)

    def made(self, name: str) -> RunSpec:
        run = self._plain(name)
        (self.folder / "runs" / name).mkdir(parents=True, exist_ok=True)
        # its lock is one for all tests of this user
        return run.model_copy(update={"wandb": WandbSpec(id=f"{name}-wb", dir=str(self.folder))})

    def words(self, launch_id: str) -> Sequence[str]:
        return (*PYTHON, TRAINER, str(self.marker(launch_id)))

    def living(self, run: RunSpec) -> list[str]:
        by_hand = self.strangers.get(run.name, [])
        pids = [*trainers(run), *(each.pid for each in by_hand if each.poll() is None)]
        return [f"pid:{pid}" for pid in pids]

    def finish(self, job_id: str) -> None:
        pid = int(job_id.removeprefix("pid:"))
        os.kill(pid, signal.SIGKILL)
        for each in (each for group in self.strangers.values() for each in group):
            if each.pid == pid:
                each.wait()
        until(lambda: not any(job_id in self.living(run) for run in self.runs))

    def by_hand(self, run: RunSpec) -> str:
        assert run.output_root is not None
        process = stranger("--out", run.output_root.path)
        self.strangers.setdefault(run.name, []).append(process)
        return f"pid:{process.pid}"

    def take_name(self, run: RunSpec, launch_id: str) -> None:
        assert run.output_root is not None
        folder = notes.launches_folder(Path(run.output_root.path), Path("/nowhere"))
        folder.mkdir(parents=True)
        elsewhere = {"machine": "0" * 32, "boot": "0", "host": "elsewhere", "pid": 7, "ticks": 9}
        note = {"state": notes.RUNNING, "launch_id": launch_id, **elsewhere}
        notes.write_note(folder / launch_id, note)

    def end(self) -> None:
        for each in (each for group in self.strangers.values() for each in group):
            each.kill()
            each.wait()
        slay(*self.runs)


class BoxSeat(LocalSeat):
    kind = "box"
    ways = (Way("cockpit.hosts.link:HostLink", "act", LOST),)
    hangs = True

    def __init__(self, folder: Path, server: Sshd) -> None:
        super().__init__(folder)
        self.server = server

    @classmethod
    def platform(cls) -> Platform:
        clock = SystemClock()
        return BoxPlatform(clock, Logs(clock), answer_within=10.0)

    def _plain(self, name: str) -> RunSpec:
        return box_making.spec(self.server.host, self.folder, name)

    @contextmanager
    def halted(self) -> Iterator[None]:
        stopped = [self.server.pid, *self.server.sessions()]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
