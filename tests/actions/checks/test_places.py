"""Everything that a submit needs is proven, as this user, before anything is stopped."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.checks.places import _Folder, _program, _room, _tried, _unreadable
from cockpit.model.observed import Pick
from cockpit.runtime.mounts import missing_disk

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
    assert tried(tmp_path / "missing") == [] and list(tmp_path.iterdir()) == []
    assert tried(tmp_path / "out" / "my-run" / "deep") == [] and list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    assert "is not writable by this user" in tried(tmp_path / "file" / "root")[0]
    assert "is not a folder" in tried(tmp_path / "file")[0]


def test_a_disk_that_is_not_mounted_is_not_written_beside(tmp_path: Path) -> None:
    fstab = tmp_path / "fstab"
    fstab.write_text(f"# a\n/dev/a / ext4\n/dev/b {tmp_path}/my\\040disk ext4\nnone swap\n")
    missing = missing_disk(tmp_path / "my disk" / "out" / "run", fstab)
    assert missing is not None and missing.sure and "my disk is not mounted" in missing.text
    assert missing_disk(tmp_path / "out" / "run", fstab) is None
    perhaps = missing_disk(Path("/mnt/no-such-disk/out/run"), fstab)
    assert perhaps is not None and not perhaps.sure


@pytest.fixture
def entered() -> Iterator[Path]:
    """Return a folder that everybody may enter.

    Not pytest's own: each session of this user closes the folders above those of all others.
    """
    with tempfile.TemporaryDirectory(prefix="cockpit-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_is_tried_as_the_user_who_acts(entered: Path) -> None:
    closed, group, log = entered / "closed", entered / "group", entered / "open" / "run.log"
    for folder, mode in ((closed, 0o755), (group, 0o2770), (log.parent, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    log.write_text("")
    log.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(log), str(closed), str(group), str(log.parent)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    first, second, third = done.stdout.splitlines()
    assert "is not writable by this user" in first and "closed" in first
    assert "is not writable by this user" in second and "permission denied" in second
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
    assert "has inodes for only" in _room(root, None)[0].text


def test_a_command_that_cannot_begin_blocks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert _program(tmp_path, (sys.executable, "-S", "train.py", "--x")) == []
    assert _program(tmp_path, ("python3", "-m", "no.such")) == []
    assert "trian.py does not exist" in _program(tmp_path, ("python3", "trian.py"))[0].text
    assert "no executable program" in _program(tmp_path, ("no-such-program-here",))[0].text
    assert "no executable program ./train.py" in _program(tmp_path, ("./train.py",))[0].text
    assert "workdir does not exist" in _program(tmp_path / "x", ("python3",))[0].text


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m pkg x.py", "python3 -um pkg x.py", "python3 -mpkg x.py", "python3 -c 1 x.py",
        "python3 -cpass x.py", "python3 - x.py", "python3 -u -X dev train.py",
        "python3 -W x.py -m y", "bash -c 'cd sub && python3 x.py'",
        "python3 $CODE/x.py", "python3 -u", "env A=b python3 x.py",
        "sh run.sh x.py", "python3 train.py --from x.py", "./go.sh x.py", "~/no/../../$X x.py",
        "timeout 9 python3 x.py", "python3 sub", "nice -n 5 python3 x.py",
    ],
)  # fmt: skip
def test_what_may_be_a_good_command_is_never_stopped_by_a_guess(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "go.sh").write_text("")
    (tmp_path / "go.sh").chmod(0o755)
    assert _program(tmp_path, shlex.split(command)) == []


def test_a_program_below_home_is_found_and_a_script_that_is_missing_can_be_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "go.sh").write_text("")
    assert "chmod +x" in _program(tmp_path, ("~/go.sh",))[0].text
    (tmp_path / "go.sh").chmod(0o755)
    assert _program(tmp_path, ("~/go.sh",)) == []
    (guess,) = _program(tmp_path, ("python3", "-u", "trian.py"))
    assert guess.overridable and guess.level.value == "block"


def test_a_checkpoint_that_is_gone_or_shut_blocks(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"x")
    pick = Pick(path=str(tmp_path), step=7, why="newest")
    assert list(_unreadable(tmp_path, pick)) == []
    (tmp_path / "model" / "lost").symlink_to(tmp_path / "nowhere")
    assert list(_unreadable(tmp_path, pick)) == []
    (said,) = _unreadable(tmp_path / "gone", pick)
    assert "step 7 cannot be read" in said.text
