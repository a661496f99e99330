"""Evidence is kept before anything is stopped: whole, private, scrubbed, and honest."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.core import evidence
from cockpit.actions.core.evidence import archive
from cockpit.model.jobs import Live
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RunSpec
from tests.platforms.local.making import (
    contents,
    living,
    local,
    modes,
    slay,
    spec,
    submission,
    submit,
    text,
    trainers,
)
from tests.waiting import until

NOW = 1_800_000_000.0
SECRET = "sk-plantedplantedplanted123456789"


def report(run: RunSpec) -> RunReport:
    return RunReport(
        spec=run, checked_at=NOW, verdict=Verdict.HEALTHY, facets=Facets(), next_action="",
        progress=Progress(step=None, final_step=None, final_step_source=None, text="~0/unknown"),
    )  # fmt: skip


def write_log(run: RunSpec, told: str) -> None:
    Path(str(run.job and run.job.log)).write_text(told)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunSpec]:
    found = spec(tmp_path)
    yield found
    slay(found)


async def test_a_live_job_is_described_whole_and_private(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    code = (
        f"import time\nprint('\\x1b[31mstep 1\\x1b[0m OPENAI_API_KEY={SECRET}', flush=True)\n"
        "time.sleep(60)"
    )
    await submit(platform, run, submission(run, code=code))
    assert run.job is not None
    log = run.job.log
    until(lambda: text(log))
    live = await living(platform, run)
    kept = await archive(run, report(run), platform, live, tmp_path / "evidence")
    assert kept.path is not None
    folder = Path(kept.path)
    assert folder == tmp_path / "evidence" / "toy" / "20270115T080000Z-no-launch"
    assert modes(folder.parent) == {0o700} and modes(folder) == {0o600}
    told = contents(folder)
    assert set(told) == set(kept.files)
    assert {"log-tail.txt", "report.json", "job.txt", "processes.txt"} <= set(kept.files)
    assert kept.size == sum(len(each.encode()) for each in told.values())
    everything = "".join(told.values())
    assert SECRET not in everything and "\x1b" not in everything
    assert json.loads((folder / "report.json").read_text())["live"]["jobs"][0]["id"] == (
        f"pid:{trainers(run)[0]}"
    )
    assert text(folder / "log-tail.txt").startswith("step 1 OPENAI_API_KEY=")


async def test_a_second_time_in_one_second_overwrites_nothing(tmp_path: Path, run: RunSpec) -> None:
    first = await archive(run, report(run), None, Live(), tmp_path / "e", launch_id="toy-i001")
    second = await archive(run, report(run), None, Live(), tmp_path / "e", launch_id="toy-i001")
    assert first.path is not None and second.path == f"{first.path}-2"


async def test_only_the_end_of_a_long_log_is_kept(
    tmp_path: Path, run: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "LOG_TAIL", 50_000)
    write_log(run, "".join(f"line {number:09}\n" for number in range(5_000)))
    kept = await archive(run, report(run), None, Live(), tmp_path / "e")
    tail = (Path(str(kept.path)) / "log-tail.txt").read_text()
    assert 49_500 < len(tail) <= 50_001
    assert tail.startswith("line ") and tail.endswith("line 000004999\n")


async def test_what_could_not_be_had_is_said(tmp_path: Path, run: RunSpec) -> None:
    kept = await archive(run, report(run), local(tmp_path), Live(), tmp_path / "e")
    assert any("run.log: No such file" in line for line in kept.missing)
    assert any(line.startswith("gpu.txt: ") for line in kept.missing) or "gpu.txt" in kept.files
    os.mkfifo(str(run.job and run.job.log))
    kept = await archive(run, report(run), None, Live(), tmp_path / "e")
    assert any("not a regular file" in line for line in kept.missing)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "tiny"
    place.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(argv, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_full_disk_is_said_and_leaves_nothing_half(tiny: Path, run: RunSpec) -> None:
    write_log(run, "step 1 of many\n" * 20_000)
    kept = await archive(run, report(run), None, Live(), tiny)
    assert kept.path is None and "No space left" in kept.text
    assert contents(tiny) == {}


async def test_a_place_that_cannot_be_made_is_said(tmp_path: Path, run: RunSpec) -> None:
    (tmp_path / "file").write_text("")
    kept = await archive(run, report(run), None, Live(), tmp_path / "file")
    assert kept.path is None and "cannot write under" in kept.text
