"""What is mounted, and what other machines may see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cockpit.runtime.mounts import LOCAL, NETWORK, file_system, shared_source

SOURCES = {
    "nas:/export/big": True,
    "10.0.0.1@tcp:/fs": True,
    "10.1.1.1:6789,10.1.1.2:6789:/": True,
    "//nas/my share": True,
    "ada@box:/data": True,
    "/dev/sda1": False,
    "overlay": False,
    "localhost:/export": False,
    "127.0.0.1:/export": False,
    "//localhost/c": False,
    "/dev/disk/by-path/pci:/x": False,
    ":/": False,
    "//": False,
    "": False,
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_other_machines_can_mount_too(source: str) -> None:
    assert shared_source(source) == (source if SOURCES[source] else None)


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


@needs_linux
@pytest.mark.parametrize(
    ("kind", "shared"),
    [("nfs4", True), ("lustre", True), ("fuse.sshfs", True), ("xfs", False), ("fuse.mine", None)],
)
def test_the_mount_that_holds_it_decides_not_the_one_above(
    kind: str, shared: bool | None, tmp_path: Path
) -> None:
    proc = fake(tmp_path, f"7 1 8:1 / / rw - ext4 /dev/a rw\n31 7 0:5 / /h rw - {kind} a:/h rw\n")
    found = file_system(tmp_path, proc)
    assert (found.kind, found.shared) == (kind, shared)


@needs_linux
def test_what_cannot_be_told_is_said_and_is_no_local_one(tmp_path: Path) -> None:
    for text in ("", "31 7 0:5 / /h rw nothing\n", "32 7 0:5 / /h rw - ext4 a rw\n"):
        assert file_system(tmp_path, fake(tmp_path, text)).shared is None
    assert file_system(tmp_path, tmp_path / "no proc").shared is None
    assert "cannot be told" in file_system(tmp_path, tmp_path / "no proc").text


def fake(folder: Path, mountinfo: str) -> Path:
    proc = folder / "proc"
    (proc / "fdinfo").mkdir(parents=True, exist_ok=True)
    for number in range(200):
        (proc / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t012000000\nmnt_id:\t31\n")
    (proc / "mountinfo").write_text(mountinfo)
    return proc


def test_no_type_is_both() -> None:
    assert not LOCAL & NETWORK
