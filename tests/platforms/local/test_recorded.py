"""One look at this machine: what it finds out once is what the system says each time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.platforms.local.sight import PlacesHere


@pytest.mark.parametrize(
    "path",
    ["plain/file", "link/file", "plain/to-file", "link/gone/far", "loop/x", "plain/../link/file"],
)
def test_a_look_follows_links_as_the_system_does(tmp_path: Path, path: str) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").touch()
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "plain" / "to-file").symlink_to(tmp_path / "link" / "file")
    (tmp_path / "loop").symlink_to("loop")
    look = PlacesHere()
    for each in (f"{tmp_path}/{path}", f"{tmp_path}/{path}/", f"{tmp_path}/./{path}", "/", path):
        assert look.real(each) == os.path.realpath(each)
    assert look.real(f"{tmp_path}/{path}") == os.path.realpath(f"{tmp_path}/{path}")
