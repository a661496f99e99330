from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platforms.slurm.rig import Rig, lacking


@pytest.fixture(scope="session")
def slurm() -> Iterator[Rig]:
    """A real Slurm; skipped where there is none, with a line that says how to get it."""
    why = lacking()
    if why is not None:
        pytest.skip(f"{why} (CI installs it)")
    folder = Path(tempfile.mkdtemp(prefix="cks-", dir="/tmp"))  # a socket's path must be short
    rig = Rig(folder)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that stand before all others on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder
