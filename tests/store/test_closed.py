"""A store's folder that others may write to is closed to them, and that is said."""

from __future__ import annotations

from pathlib import Path

from cockpit.store.store import close_to_others


def test_a_folder_that_others_may_write_to_is_closed_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "cockpit"
    assert close_to_others(folder / "store.sqlite") is None, "it is not there yet"
    folder.mkdir(mode=0o700)
    assert close_to_others(folder / "store.sqlite") is None
    folder.chmod(0o777)
    said = close_to_others(folder / "store.sqlite")
    assert said is not None and "could be written by others (mode 0777)" in said
    assert folder.stat().st_mode & 0o777 == 0o755
    assert close_to_others(folder / "store.sqlite") is None
