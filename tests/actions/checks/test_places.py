"""Everything that a submit needs is proven, as this user, before anything is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.actions.checks.places import _Folder, _program, _room, _tried, _unreadable
from cockpit.model.observed import Pick

AS_NOBODY = """
import os, sys
from pathlib import Path
from cockpit.actions.checks.places import _Folder, _tried
os.setgid(65534); os.setuid(65534)
for path in sys.argv[2:]:
    file = Path(sys.argv[1])
    made = _Folder("the log's folder", Path(path), files=(file,))
    print([check.text for check in _tried(made)])
"""


def tried(path: Path, **more: object) -> list[str]:
    return [check.text for check in _tried(_Folder("the log's folder", path, **more))]  # type: ignore[arg-type]


def test_a_folder_that_takes_a_file_is_left_as_it_was(tmp_path: Path) -> None:
    assert tried(tmp_path) == [] and list(tmp_path.iterdir()) == []
    assert "is not there" in tried(tmp_path / "missing")[0]
    assert tried(tmp_path / "missing", may_make=True) == [] and list(tmp_path.iterdir()) == []
    lost = tmp_path / "unmounted" / "root"
    assert "is not there" in tried(lost, may_make=True, below_root=False)[0]
    (tmp_path / "file").write_text("")
    assert "is no folder" in tried(tmp_path / "file")[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_is_tried_as_the_user_who_acts(tmp_path: Path) -> None:
    closed, group, log = tmp_path / "closed", tmp_path / "group", tmp_path / "open" / "run.log"
    for folder, mode in ((closed, 0o755), (group, 0o2770), (log.parent, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(above.stat().st_mode | 0o055)
    log.write_text("")
    log.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(log), str(closed), str(group), str(log.parent)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    first, second, third = done.stdout.splitlines()
    assert "cannot be written by this user" in first and "closed" in first
    assert "cannot be written by this user" in second and "permission denied" in second
    assert "run.log" in third, "the folder takes files, the log that is there does not"


def test_a_full_disk_and_one_without_inodes_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _Folder("the output root", tmp_path)
    real = os.statvfs(tmp_path)
    assert _room(root, None) == []

    def told(**changed: int) -> None:
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree",
                 "f_favail", "f_flag", "f_namemax")  # fmt: skip
        values = [changed.get(name, getattr(real, name)) for name in names]
        monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))

    told(f_frsize=1, f_bfree=40_000_000, f_bavail=40_000_000, f_ffree=10**6, f_favail=10**6)
    assert [check.level.value for check in _room(root, 30_000_000)] == ["warn"]
    assert [check.level.value for check in _room(root, 50_000_000)] == ["block"]
    assert _room(_Folder("the log's folder", tmp_path), 50_000_000) == []
    told(f_frsize=1, f_bfree=10**9, f_bavail=10**9, f_files=10**6, f_ffree=3, f_favail=3)
    assert "no inodes" in _room(root, None)[0].text


def test_a_command_that_cannot_begin_blocks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert _program(tmp_path, (sys.executable, "-S", "train.py", "--x")) == []
    assert _program(tmp_path, ("python3", "-m", "no.such")) == []
    assert "trian.py is not there" in _program(tmp_path, ("python3", "trian.py"))[0].text
    assert "no program" in _program(tmp_path, ("no-such-program-here",))[0].text
    assert "no program ./train.py" in _program(tmp_path, ("./train.py",))[0].text
    assert "workdir is not there" in _program(tmp_path / "x", ("python3",))[0].text


def test_a_checkpoint_that_is_gone_or_shut_blocks(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"x")
    pick = Pick(path=str(tmp_path), step=7, why="newest")
    assert list(_unreadable(tmp_path, pick)) == []
    (tmp_path / "model" / "lost").symlink_to(tmp_path / "nowhere")
    assert list(_unreadable(tmp_path, pick)) == []
    (said,) = _unreadable(tmp_path / "gone", pick)
    assert "step 7 cannot be read" in said.text
