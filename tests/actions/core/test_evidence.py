"""The log and the platform's answer of a job elsewhere: kept, bounded and masked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core import evidence
from cockpit.actions.core.evidence import Archived, archive
from cockpit.hosts.link import Ask
from cockpit.model import wording
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.observed import LogValue
from cockpit.model.place import SSH, Place
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import Platform
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pieces import PageCache
from cockpit.sources.logs.remote import Host, RemoteLog
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool
from tests.hosts.here import CallsHere

NOW = 1_800_000_000.0
SECRET = "sk-plantedplantedplanted123456789"


class Box(CallsHere):
    """A host that is this machine; an answer larger than ``carries`` bytes takes it too long."""

    def __init__(self, carries: int | None = None) -> None:
        super().__init__()
        self.carries = carries

    def __call__(self, host: str, each: Ask, deadline: float) -> Any:
        before = self.bytes
        found = super().__call__(host, each, deadline)
        if self.carries is not None and self.bytes - before > self.carries:
            raise RemoteError(ErrorKind.TIMEOUT, "box: no answer within 4 s")
        return found


class Told(Platform):
    """A platform that gives what it was made with, or hangs."""

    kind = "slurm"

    def __init__(self, files: dict[str, bytes] | None) -> None:
        super().__init__(SystemClock(), Logs(SystemClock()))
        self._files = files

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        if self._files is None:
            await asyncio.Event().wait()
        return dict(self._files or {})


def seen(path: str | None, kind: str = "slurm") -> RunReport:
    spec = RunSpec(name="toy", job=JobSpec.model_validate({"kind": kind, "id": "7"}))
    log = (
        unknown(ErrorKind.REFUSED, "box: connection refused", "box", NOW)
        if path is None
        else known(LogValue(path=path, size=1, mtime=NOW), "log", NOW)
    )
    return RunReport(
        spec=spec, checked_at=NOW, verdict=Verdict.HEALTHY, facets=Facets(log=log), next_action="",
        progress=Progress(step=None, final_step=None, final_step_source=None, text="~0/unknown"),
    )  # fmt: skip


async def kept(report: RunReport, folder: Path, files: dict[str, bytes] | None = None) -> Archived:
    return await archive(report.spec, report, Told(files or {}), Live(), folder / "e")


def text(found: Archived, name: str) -> str:
    return (Path(str(found.path)) / name).read_text()


def on_box(monkeypatch: pytest.MonkeyPatch, box: Box) -> None:
    def log_at(place: Place) -> RemoteLog:
        assert place.scheme == SSH
        return RemoteLog(place, Host("box", box, PageCache()))

    monkeypatch.setattr(evidence, "log_at", log_at)


async def test_the_end_of_a_log_on_a_host_comes_in_one_trip_masked_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box()
    on_box(monkeypatch, box)
    monkeypatch.setattr(evidence, "LOG_TAIL", 100_000)
    log = tmp_path / "slurm-7.out"
    lines = [f"line {number:07} OPENAI_API_KEY={SECRET}" for number in range(4000)]
    log.write_text("\n".join(lines) + "\n")
    found = await kept(seen(f"ssh://box{log}"), tmp_path)
    tail = text(found, "log-tail.txt").splitlines()
    assert box.trips == 1 and SECRET not in "".join(tail)
    assert tail[-1].startswith("line 0003999 ") and tail[0].startswith("line 000")
    told = json.loads(text(found, "log.json"))
    size = log.stat().st_size
    assert told["path"] == f"ssh://box{log}" and told["size"] == size
    assert 99_000 < size - told["kept_from"] <= 100_000
    kept_bytes = wording.size(size - told["kept_from"])
    assert f"the last {kept_bytes} of {wording.size(size)} of ssh://box" in found.text


async def test_of_a_log_that_a_slow_host_does_not_bring_less_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box(carries=100_000)
    on_box(monkeypatch, box)
    log = tmp_path / "slurm-7.out"
    log.write_text("step 1 loss 2.5\n" * 400_000)
    found = await kept(seen(f"ssh://box{log}"), tmp_path)
    assert "the last 50.0 kB of 6.4 MB" in found.text and found.missing == () and box.trips == 3
    on_box(monkeypatch, Box(carries=1))
    none = await kept(seen(f"ssh://box{log}"), tmp_path)
    assert "log-tail.txt" not in none.files and "no answer within 4 s" in none.text


async def test_a_log_that_was_fetched_by_cursor_is_kept(tmp_path: Path) -> None:
    spool = Spool("toy", "/ada/toy", tmp_path / "logs" / "m")
    assert spool.append([b"step 1", b"step 2"], "c2", NOW, since=None)
    found = await kept(seen(str(spool.place), "iris"), tmp_path)
    assert text(found, "log-tail.txt") == "step 1\nstep 2\n"
    assert "all 14 B of" in found.text


async def test_a_log_that_nobody_could_read_is_named_with_the_reason(tmp_path: Path) -> None:
    found = await kept(seen(None), tmp_path)
    assert "the log: box: connection refused" in found.missing


async def test_what_a_platform_gives_is_bounded_and_named_plainly(tmp_path: Path) -> None:
    big = (f"token sk-{'ab' * 15} " * 200_000).encode()
    many = {f"f{number}": b"longer" for number in range(100)}
    found = await kept(seen(None), tmp_path, {"../../up/job.json": b"{}", "big.txt": big, **many})
    assert "_.._up_job.json" in found.files and "report.json" in found.files
    assert len(found.files) == evidence.MOST_FILES and text(found, "_.._up_job.json") == "{}\n"
    assert f"big.txt: {wording.size(len(big))}, too much beside the other files" in found.missing
    alone = await kept(seen(None), tmp_path, {"big.txt": big})
    assert any(line.startswith("big.txt: only the first 6.0 MB of") for line in alone.missing)
    assert "sk-abab" not in text(alone, "big.txt")
    assert len(text(alone, "big.txt")) <= evidence.FILE_CAP


async def test_a_platform_that_hangs_costs_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "DEADLINE", 0.3)
    report = seen(None)
    found = await archive(report.spec, report, Told(None), Live(), tmp_path / "e")
    assert found.files == ("report.json",)
    assert "what slurm tells of the job: no answer within 0.3 s" in found.missing
