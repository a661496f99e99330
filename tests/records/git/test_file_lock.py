from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.records.git.documents import BusyError, locked

HOLDER = """
import asyncio, sys
from pathlib import Path
from cockpit.model.clock import SystemClock
from cockpit.records.git.documents import locked
async def go():
    async with locked(Path(sys.argv[1]), SystemClock(), 5.0):
        print("held", flush=True)
        await asyncio.sleep(600)
asyncio.run(go())
"""


@pytest.mark.parametrize("folder", [False, True])
async def test_one_holder_at_a_time(tmp_path: Path, folder: bool) -> None:
    path, clock, inside = tmp_path / "lock", SystemClock(), 0
    if folder:
        path.mkdir()

    async def enter() -> None:
        nonlocal inside
        async with locked(path, clock, 60.0):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0.01)
            inside -= 1

    await asyncio.gather(*(enter() for _ in range(8)))
    async with locked(path, clock, 1.0):
        with pytest.raises(BusyError, match="another cockpit"):
            async with locked(path, clock, 0.1):
                pass


def test_a_holder_that_is_killed_leaves_it_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    argv = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"

        async def enter(patience: float) -> None:
            async with locked(path, SystemClock(), patience):
                pass

        with pytest.raises(BusyError):
            asyncio.run(enter(0.1))
        process.kill()
        process.wait()
        asyncio.run(enter(30.0))


async def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="lock"):
        async with locked(tmp_path / "lock", SystemClock(), 1.0):
            pass
    assert not (tmp_path / "victim").exists()
