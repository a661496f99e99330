"""A host of this user's own for all tests of a module."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sshd import Sshd, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here: apt-get install tmux")
    with (
        tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as root,
        serving(Path(root)) as found,
    ):
        yield found
        with suppress(OSError):
            os.kill(int((found.home / "tmux.pid").read_text()), signal.SIGKILL)


@pytest.fixture
def box(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    monkeypatch.setenv("PATH", f"{server.root}/bin:{os.environ['PATH']}")
    return server
