"""What ``cockpit init`` is told of a box's sessions, by a real tmux behind a real sshd."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.hosts.script import run_script_blocking
from cockpit.model.clock import SystemClock
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.sources.logs.source import Logs
from tests.sshd import Sshd, needs_sshd, serving


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield server


def platform() -> BoxPlatform:
    clock = SystemClock()
    return BoxPlatform(clock, Logs(clock))


@needs_sshd
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here: apt-get install tmux")
async def test_the_sessions_of_a_host(box: Sshd) -> None:
    spec = JobSpec(kind="box", host=box.host)
    assert await platform().own_jobs(spec) == []  # no server runs
    folder = box.home / "a folder"
    folder.mkdir()
    start = f"tmux new-session -d -s train -c '{folder}' 'sleep 60'; tmux new-session -d -s two; "
    split = "tmux split-window -t two -c /; "
    # a pane's folder and command are those of its process, which is not there at once
    seen = "tmux list-panes -a -F '#{pane_current_command} #{pane_current_path}'"
    wait = (
        f'until t=$({seen}) && echo "$t" | grep -q "sleep .*a folder" && echo "$t" | grep -q " /$"'
    )
    split += wait + "; do sleep 0.05; done"
    try:
        assert run_script_blocking(box.host, start + split, deadline=20.0).rc == 0
        found = {job.id: job for job in await platform().own_jobs(spec)}
    finally:
        run_script_blocking(box.host, "tmux kill-server", deadline=20.0)
    assert set(found) == {"train", "two"}
    assert found["train"].settings == {"job.workdir": str(folder)}
    assert found["train"].text == "tmux session, runs sleep"
    assert found["two"].settings == {}  # two folders: neither is certain


@needs_sshd
async def test_a_host_without_tmux_or_without_us(box: Sshd) -> None:
    few = box.root / "few"
    few.mkdir()
    for name, program in (("sh", "/bin/sh"), ("python3", sys.executable)):
        (few / name).symlink_to(program)
    box.rc(f"PATH={few}; export PATH")
    with pytest.raises(CannotError, match="tmux is not installed there"):
        await platform().own_jobs(JobSpec(kind="box", host=box.host))
    with pytest.raises(CannotError, match="nowhere"):
        await platform().own_jobs(JobSpec(kind="box", host="nowhere.invalid"))
    with pytest.raises(CannotError, match="box@HOST"):
        await platform().own_jobs(JobSpec(kind="box"))
