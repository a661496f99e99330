"""A-11 on a host whose connection breaks: the client goes on there, and none is begun beside it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.core.service import ActionService
from cockpit.actions.telling.sync import Sync
from cockpit.model.place import SSH, Place
from cockpit.model.plan import Outcome, Request, Result
from cockpit.model.run import WandbSpec
from tests.actions.toys import RUN, World
from tests.sources.wandb import writer
from tests.sshd import Sshd, needs_sshd, serving
from tests.waiting import until

pytestmark = needs_sshd
ID = f"abc{os.getpid()}"
"""Of this process alone: all processes of the machine are looked at for a client of this run."""
FOLDERS = [f"offline-run-20260102_00000{number}-{ID}" for number in (1, 2)]
SLOW = """\
#!/bin/sh
# Uploads when it is let go; before that it waits, whoever has gone away.
case $* in *--dry-run*)
  for each; do case $each in */offline-run-*) echo "wandb: $each/run-RUN-ID.wandb";; esac; done
  exit;;
esac
echo $$ >>"$HOME/begun"
read -r go <"$HOME/gate"
for each; do case $each in */offline-run-*) : >"$each/run-RUN-ID.wandb.synced";; esac; done
""".replace("RUN-ID", ID)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        own = server.home / "bin"
        own.mkdir()
        (own / "wandb").write_text(SLOW)
        (own / "wandb").chmod(0o755)
        os.mkfifo(server.home / "gate")
        server.rc('PATH="$HOME/bin:$PATH"; WANDB_API_KEY=k; export PATH WANDB_API_KEY')
        for name in FOLDERS:
            (server.home / "runs" / name).mkdir(parents=True)
            data = writer.log([writer.run(ID)])
            (server.home / "runs" / name / f"run-{ID}.wandb").write_bytes(data)
        yield server


def service(folder: Path, host: Sshd) -> ActionService:
    world = World(folder)
    where = Place(SSH, host.host, str(host.home / "runs"))
    run = world.file.runs[0].model_copy(update={"wandb": WandbSpec(dir=where, id=ID)})
    file = world.file.model_copy(update={"runs": (run,)})
    return ActionService(lambda: file, world.parts, {"sync": Sync()})


def asked() -> Request:
    given = {"entity": "acme", "project": "hero"}
    return Request(action="sync", run=RUN, operator="ada", params=given)


async def done(acting: ActionService) -> Result:
    return await acting.act(asked(), f"sync {RUN}")


def begun(host: Sshd) -> list[str]:
    path = host.home / "begun"
    return path.read_text().split() if path.exists() else []


def marked(host: Sshd) -> list[str]:
    return sorted(path.parent.name for path in (host.home / "runs").glob("*/*.synced"))


async def test_a_client_that_lost_its_connection_is_waited_for(host: Sshd, tmp_path: Path) -> None:
    acting = service(tmp_path, host)
    first = asyncio.create_task(done(acting))
    await asyncio.to_thread(until, lambda: begun(host))
    host.signal(signal.SIGKILL)
    result = await first
    assert result.outcome is Outcome.UNKNOWN and "its .synced files tell" in result.message
    again = await done(acting)
    assert again.outcome is Outcome.REFUSED and "a wandb sync of it runs there" in again.message
    (host.home / "gate").write_text("go\n")
    await asyncio.to_thread(until, lambda: marked(host) == FOLDERS)
    await asyncio.to_thread(until, lambda: not Path("/proc", begun(host)[0]).exists())
    last = await done(acting)
    assert last.outcome is Outcome.DONE, last
    assert len(begun(host)) == 1, "one client in all"
