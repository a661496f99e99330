"""The demo's runs as processes of a real ssh host: started, found by name, taken away again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.demo.away import session, site
from cockpit.demo.away.kinds import BoxSite
from cockpit.demo.away.session import prepare, remove, running, situations_of
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import SITUATIONS
from cockpit.platforms.base import CannotError
from tests.sshd import Sshd, needs_sshd, serving
from tests.waiting import until

pytestmark = needs_sshd


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    monkeypatch.setattr(session, "SITUATIONS", SITUATIONS[4:5])
    monkeypatch.setattr(session, "SETTLE", 0.0)
    monkeypatch.setattr(site, "LOOK_EVERY", 0.1)
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield server


def test_it_is_started_and_gone_without_a_trace(box: Sshd, layout: DemoLayout) -> None:
    other = ["sh", "-c", "sleep 60", "-m", "cockpit.demo.trainer", "--config", "../demo-healthy/x"]
    with subprocess.Popen(other) as neighbour:
        journal = prepare(layout, BoxSite(box.host, sys.executable))
        assert journal.ground is not None and journal.ground.host == box.host
        (situation,) = situations_of(journal)
        run = Path(journal.ground.folder) / "runs" / situation.name
        assert run.parents[1].parent == box.home
        with running(journal, keep=False) as demo:
            until(lambda: journal.jobs.get(situation.launch_id))
            pid, launch_id = (run / "run.pid").read_text().splitlines()
            assert launch_id == f"launch_id={situation.launch_id}"
            assert journal.jobs == {situation.launch_id: pid}
            until(lambda: "train step" in (run / "run.log").read_text())
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert f"COCKPIT_LAUNCH_ID={situation.launch_id}".encode() in environment
            lock = Path(f"/tmp/cockpit-locks-{os.getuid()}/{journal.token}.lock")
            lock.parent.mkdir(mode=0o700, exist_ok=True)
            lock.write_text(f"supervisor=1\nlaunch_id=demo-torn-{journal.token}-i002\n")
        assert demo.trouble is None
        assert not lock.exists()
        assert not run.parents[1].exists() and not layout.folder.exists()
        assert not Path(f"/proc/{pid}").exists()
        assert neighbour.poll() is None
        neighbour.kill()


def test_a_launch_id_starts_one_process_and_a_lost_one_is_found(
    box: Sshd, layout: DemoLayout
) -> None:
    journal = prepare(layout, BoxSite(box.host, sys.executable))
    assert journal.ground is not None
    (situation,) = situations_of(journal)
    journal.note(situation.launch_id, None)  # the demo dies before it notes the process
    pid = journal.site.submit(situation, journal.ground)
    assert journal.site.living(journal.token) == {pid: situation.name}
    with pytest.raises(Exception, match="was not started"):
        journal.site.submit(situation, journal.ground)
    remove(layout)
    assert journal.site.living(journal.token) == {}
    assert not Path(journal.ground.folder).exists() and not layout.folder.exists()


@pytest.mark.parametrize(
    ("python", "text"),
    [("/nowhere/python3", "not found"), ("old", r"Python 3\.6, the training needs 3\.10")],
)
def test_a_python_that_cannot_train(box: Sshd, layout: DemoLayout, python: str, text: str) -> None:
    if python == "old":
        python = str(box.root / "old")
        box._program(box.root / "old", "#!/bin/sh\necho 3 6; echo False\n")
    with pytest.raises(CannotError, match=text):
        prepare(layout, BoxSite(box.host, python))
    assert not layout.folder.exists() and not list(box.home.iterdir())


def test_a_host_that_is_not_there(layout: DemoLayout) -> None:
    with pytest.raises(CannotError, match=r"nowhere\.invalid"):
        site.look("nowhere.invalid", "bcdfg", "python3")
