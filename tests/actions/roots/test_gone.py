"""What is said of a checkpoint that was deleted, or could not be changed, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.actions.retention.ways import FolderWays, RootError, ToReject, Ways
from tests.machines import Machine
from tests.machines import machine as machine
from tests.sources.checkpoints.trees import levanter


@pytest.fixture
def ways(machine: Machine, tmp_path: Path) -> Ways:
    return FolderWays(machine.host, [machine.at(tmp_path / "root")])


async def test_what_is_half_deleted_is_not_gone(
    ways: Ways, machine: Machine, tmp_path: Path
) -> None:
    saved = levanter(tmp_path / "root", 100)
    path = str(machine.at(saved))
    assert await ways.gone(path) is False
    half = saved.with_name(f"{saved.name}.deleting-abcdef")
    saved.rename(half)
    assert await ways.gone(path) is False
    levanter(tmp_path / "root", 1000)
    half.rename(tmp_path / "elsewhere")
    assert await ways.gone(path) is True


async def test_nothing_is_gone_where_its_folder_cannot_be_seen(
    ways: Ways, machine: Machine, tmp_path: Path
) -> None:
    with pytest.raises(RootError):
        await ways.gone(str(machine.at(tmp_path / "root" / "step-100")))


async def test_why_a_root_refuses_is_told_as_it_is(
    ways: Ways, machine: Machine, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.write_text("no folder")
    access = await ways.access(machine.at(root), delete=False)
    assert access.trouble == f"{machine.at(root)} may not be written by this user: not a directory"


async def test_why_one_cannot_be_moved(ways: Ways, machine: Machine, tmp_path: Path) -> None:
    saved = levanter(tmp_path / "root", 100)
    root = str(machine.at(saved.parent))
    gone = ToReject(path=f"{root}/step-200", root=root, step=200)
    here = ToReject(path=f"{root}/step-100", root=root, step=100)
    deep = ToReject(path=f"{root}/step-100/d", root=root, step=100)
    assert await ways.why_not_movable([here]) is None
    assert await ways.why_not_movable([here, gone]) == f"{gone.path} is not there"
    assert "directly in its root" in (await ways.why_not_movable([deep]) or "")
    assert {path.name for path in saved.parent.iterdir()} == {"step-100"}
