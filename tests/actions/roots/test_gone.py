"""What is said of a checkpoint that was deleted, or could not be changed, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.retention import host as acting
from cockpit.actions.retention.here import HereWays
from cockpit.actions.retention.host import HostWays
from cockpit.actions.retention.ways import RootError, ToReject, Ways
from cockpit.hosts.script import run_script
from cockpit.model.place import Place, place_of
from cockpit.runtime.shell import Completed
from tests.sources.checkpoints.trees import levanter


@pytest.fixture(autouse=True)
def _host_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(where: str | None, script: str, **more: Any) -> Completed:
        return await run_script(None, script, **more)

    monkeypatch.setattr(acting, "run_script", run)


@pytest.fixture(params=["here", "host"])
def ways(request: pytest.FixtureRequest, tmp_path: Path) -> Ways:
    root = place_of(str(tmp_path / "root"))
    if request.param == "here":
        return HereWays([root])
    return HostWays("self", [Place("ssh", "self", root.path)])


def address(ways: Ways, path: Path) -> str:
    return str(path) if isinstance(ways, HereWays) else f"ssh://self{path}"


async def test_what_is_half_deleted_is_not_gone(ways: Ways, tmp_path: Path) -> None:
    saved = levanter(tmp_path / "root", 100)
    path = address(ways, saved)
    assert await ways.gone(path) is False
    half = saved.with_name(f"{saved.name}.deleting-abcdef")
    saved.rename(half)
    assert await ways.gone(path) is False
    levanter(tmp_path / "root", 1000)
    half.rename(tmp_path / "elsewhere")
    assert await ways.gone(path) is True


async def test_nothing_is_gone_where_its_folder_cannot_be_seen(ways: Ways, tmp_path: Path) -> None:
    with pytest.raises(RootError):
        await ways.gone(address(ways, tmp_path / "root" / "step-100"))


async def test_why_a_host_refuses_is_told_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.write_text("no folder")
    ways = HostWays("self", [Place("ssh", "self", str(root))])
    access = await ways.access(Place("ssh", "self", str(root)), delete=False)
    assert (access.trouble or "").endswith("cannot be changed by this user: not a directory")


async def test_one_that_has_vanished_is_not_on_another_disk(tmp_path: Path) -> None:
    saved = levanter(tmp_path / "root", 100)
    root = f"ssh://self{saved.parent}"
    gone = ToReject(path=f"{root}/step-200", root=root, step=200)
    here = ToReject(path=f"{root}/step-100", root=root, step=100)
    ways = HostWays("self", [place_of(root)])
    assert await ways.why_not_movable([here]) is None
    why = await ways.why_not_movable([here, gone])
    assert why is not None and why.endswith("step-200 is not there")
