"""A log on a host without Python: its newest bytes, over a real sshd."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.hosts.link import know_pythons
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Query
from cockpit.model.run import JobSpec, RunSpec
from cockpit.sources.logs.source import Logs
from tests.sshd import Sshd, needs_sshd, serving


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        know_pythons({server.host: "no-such-python"})
        yield server
        know_pythons({})


@needs_sshd
async def test_its_newest_lines_are_followed(box: Sshd) -> None:
    def asked(name: str) -> list[Query]:
        spec = JobSpec(kind="box", host=box.host, log=f"ssh://{box.host}/~/{name}")
        return [Query(run=RunSpec(name="r", job=spec))]

    log, logs = box.home / "run 1.log", Logs(SystemClock())
    log.write_text("".join(f"step {number} loss 2.5\n" for number in range(9000)))
    for query in (asked("run 1.log"), asked("run *.log")):
        value = (await logs.observe(query))["r"].value
        assert value is not None and value.rows[-1].step == 8999 and len(value.lines) == 50
    with log.open("a") as file:
        file.write("step 9000 loss 2.5\n")
    value = (await logs.observe(asked("run *.log")))["r"].value
    assert value is not None and value.rows[-1].step == 9000
    error = (await Logs(SystemClock()).observe(asked("none.log")))["r"].error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND
