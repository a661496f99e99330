"""``check`` of a run whose files lie on an ssh host: it looks once more at what it has read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cockpit.cli import main
from tests.sources.wandb import writer
from tests.sshd import needs_sshd, serving
from tests.verbs.checking import check


@needs_sshd
@pytest.mark.parametrize("wide", [False, True], ids=["in one piece", "in many"])
def test_rows_that_were_all_read_are_not_said_to_be_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    now = time.time()
    rows = [
        writer.row(step, "2.5", now - 30 + step * 0.001, pad='"' + "x" * 900 + '"')
        for step in range(4000 if wide else 20)
    ]
    with serving(tmp_path) as sshd:
        monkeypatch.setenv("PATH", f"{sshd.root}/bin:{os.environ['PATH']}")
        path = sshd.home / "w/offline-run-20260101_000000-r1/run-r1.wandb"
        path.parent.mkdir(parents=True)
        path.write_bytes(writer.log([writer.run("r1", now - 31), *rows]))
        (tmp_path / "cockpit.toml").write_text(
            f'[[run]]\nname = "toy"\nwandb = {{ dir = "ssh://{sshd.host}/~/w", id = "r1" }}\n'
        )
        value = check(tmp_path)["facets"]["tracker"]["value"]
        assert (value["step"], value["scanned"]) == (len(rows) - 1, 1.0)
        assert main(["check", "--config", str(tmp_path / "cockpit.toml")]) == 0
