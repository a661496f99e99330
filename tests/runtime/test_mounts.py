"""Which of a machine's disks are shared with others, by what they are mounted from."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.runtime.mounts import shared_source, source_of

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


def test_what_lies_on_top_is_what_is_mounted_there(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "auto.home /home autofs rw 0 0\nnas:/my\\040home /home nfs4 rw 0 0\n"
        "/dev/sdb1 /mnt/my\\040disk ext4 rw 0 0\nshort\n"
    )
    assert source_of("/home", mounts) == "nas:/my home"
    assert source_of("/mnt/my disk", mounts) == "/dev/sdb1"
    assert source_of("/else", mounts) is None
    assert source_of("/", tmp_path / "none") is None
