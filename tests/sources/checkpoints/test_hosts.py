"""Checkpoints on an ssh host: the same judgement as here, one script for all runs of the host."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import CheckpointsValue, JobValue, Phase
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.runtime.shell import Completed
from cockpit.sources.checkpoints import host
from cockpit.sources.checkpoints import source as reading
from cockpit.sources.checkpoints.source import Checkpoints, list_checkpoints
from tests.house.test_layouts import FOUND, TREES
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import levanter, metadata, put, settle
from tests.sshd import Sshd, needs_sshd, serving

QUIET = 3600.0
HOSTILE = ("it's", '"$(touch pwned)" `id`', "a\nb", "-rf", "*", "é 日本", "\x1b[31m")


async def here(where: str | None, script: str, **more: Any) -> Completed:
    return await run_script(None, script, **more)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the scripts that are run; one for a host of no name runs on this machine."""
    scripts: list[str] = []

    async def run(where: str | None, script: str, **more: Any) -> Completed:
        scripts.append(script)
        return await run_script(None if where == "self" else where, script, **more)

    monkeypatch.setattr(host, "run_script", run)
    monkeypatch.setattr(reading, "AT_FIRST", 60.0)  # however busy this machine is
    monkeypatch.setattr(reading, "SECONDS", 60.0)
    return scripts


@pytest.fixture(params=["find", "stat"])
def lister(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the script list by ``find -printf``, or as where that does not exist."""
    if request.param == "stat":
        plain = host.HEAD.replace("find /dev/null -printf ''", "false")
        assert plain != host.HEAD
        monkeypatch.setattr(host, "HEAD", plain)
    return str(request.param)


def run_of(*paths: str, name: str = "a", **more: Any) -> RunSpec:
    return RunSpec(name=name, checkpoints=CheckpointSpec(path=paths, **more))


async def looked(source: Checkpoints, *runs: RunSpec) -> Facet[CheckpointsValue]:
    job = JobValue(id="1", state="?", phase=Phase.RUNNING)
    return (await source.observe([Query(run=run, job=job) for run in runs]))[runs[0].name]


def states(facet: Facet[CheckpointsValue]) -> list[tuple[int | None, str]]:
    assert facet.value is not None, facet.error
    return [(item.step, item.state.value) for item in facet.value.items]


@pytest.mark.parametrize("layout", TREES)
async def test_a_layout_is_judged_as_on_a_disk_here(
    layout: str, lister: str, asked: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "run's ckpt"
    for path, content in TREES[layout].items():
        put(root / path, content, time.time() - QUIET)
    settle(root, time.time() - QUIET)
    custom = CustomLayout(pattern=r"snap_(\d+)", marker="DONE") if layout == "custom" else None
    more: dict[str, Any] = {"layout": "custom", "custom": custom} if custom else {}
    facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://self{root}", **more))
    assert states(facet) == [FOUND.get(layout, (500, "complete"))]
    assert facet.value is not None
    (here,) = list_checkpoints([str(root)], now=time.time(), **more).items
    (item,) = facet.value.items
    assert item.path == f"ssh://self{here.path}" and item.root == f"ssh://self{root}"
    assert (item.note, item.size, item.marker) == (here.note, here.size, here.marker)
    assert abs((item.saved_at or 0.0) - (here.saved_at or 0.0)) < 1.0


async def test_two_hundred_runs_of_a_host_are_one_script_a_look(
    asked: list[str], tmp_path: Path
) -> None:
    runs = []
    for number in range(200):
        levanter(tmp_path / f"run-{number}", 100, at=time.time() - QUIET)
        runs.append(run_of(f"ssh://self{tmp_path}/run-{number}", name=f"run-{number}"))
    source = Checkpoints(SystemClock())
    assert states(await looked(source, *runs)) == [(100, "complete")]
    assert len(asked) <= 5, "names, then files and markers: of the newest first"
    levanter(tmp_path / "run-0", 200, at=time.time(), marker=None)
    del asked[:]
    await looked(source, *runs[1:])
    assert len(asked) == 1
    assert states(await looked(source, *runs)) == [(100, "complete"), (200, "writing")]
    levanter(tmp_path / "run-0", 200, at=time.time() - 1.0)
    assert states(await looked(source, *runs)) == [(100, "complete"), (200, "complete")]


async def test_hostile_names_are_names(lister: str, asked: list[str], tmp_path: Path) -> None:
    root = tmp_path / "it's $(touch pwned)"
    for number, name in enumerate(HOSTILE, 1):
        put(root / name / "metadata.json", metadata(number, time.time()), time.time() - QUIET)
        put(root / name / "d" / name, b"x", time.time() - QUIET)
    facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://self{root}"))
    known = {item.step for item in list_checkpoints([str(root)], now=time.time()).items}
    found = {step for step, state in states(facet) if state == "complete"}
    unshown = {number for number, name in enumerate(HOSTILE, 1) if not name.isprintable()}
    assert known == set(range(1, len(HOSTILE) + 1))
    assert found == known - unshown, "no shown path leads to those"
    unlisted = {HOSTILE.index("a\nb") + 1} if lister == "stat" else set[int]()
    assert {step for step, state in states(facet) if state == "unknown"} == unshown - unlisted
    assert facet.value is not None and all("\x1b" not in item.path for item in facet.value.items)
    made = [name for folder in (tmp_path, Path("/")) for name in os.listdir(folder)]  # noqa: PTH208
    assert "pwned" not in made


async def test_no_checkpoint_below_a_name_that_is_not_shown_is_picked(
    lister: str, asked: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "\x1b[2Jrun"
    levanter(root, 100, at=time.time() - QUIET)
    facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://self{root}"))
    assert states(facet) == [(100, "unknown")]
    assert facet.value is not None and "\x1b" not in facet.value.items[0].path


async def test_a_link_counts_once_and_a_file_of_torch_is_looked_into(
    asked: list[str], tmp_path: Path
) -> None:
    levanter(tmp_path / "run", 100, at=time.time() - QUIET)
    (tmp_path / "run" / "latest").symlink_to("step-100")
    (tmp_path / "other").symlink_to("run")
    source = Checkpoints(SystemClock())
    facet = await looked(source, run_of(f"ssh://self{tmp_path}/other"))
    assert states(facet) == [(100, "complete")]
    whole = archive({"iter_num": 700, "model": {}})
    put(tmp_path / "out" / "ckpt.pt", whole, time.time() - QUIET)
    run = run_of(f"ssh://self{tmp_path}/out", name="b")
    assert states(await looked(source, run)) == [(700, "complete")]
    del asked[:]
    await looked(source, run)
    assert len(asked) == 1


async def test_data_that_goes_later_is_missed_in_turn(asked: list[str], tmp_path: Path) -> None:
    for step in range(1, 11):
        levanter(tmp_path, step, at=time.time() - QUIET)
    source, run = Checkpoints(SystemClock()), run_of(f"ssh://self{tmp_path}")
    await looked(source, run)
    (tmp_path / "step-3" / "d" / "0c0ffee0").unlink()
    found = [dict(states(await looked(source, run)))[3] for _ in range(10)]
    assert found[-1] == "incomplete"


async def test_more_files_than_an_answer_holds_are_judged_over_several_looks(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 41):
        levanter(tmp_path, step, at=time.time() - QUIET)
    monkeypatch.setattr(host, "CAP", 6000)
    source, run = Checkpoints(SystemClock()), run_of(f"ssh://self{tmp_path}")
    first = await looked(source, run)
    assert first.value is not None and first.value.unjudged
    assert len(first.value.items) + first.value.unjudged == 40
    assert first.value.latest_complete == 40 and first.value.trainer_would_load is None
    for _ in range(6):
        last = await looked(source, run)
    assert last.value is not None and not last.value.unjudged
    assert [step for step, state in states(last) if state == "complete"] == list(range(1, 41))


@pytest.mark.parametrize(
    ("path", "kind", "told"),
    [
        ("{tmp}/nowhere", ErrorKind.NOT_FOUND, "does not exist"),
        ("{tmp}/file", ErrorKind.BAD_ANSWER, "is not a folder"),
    ],
)
async def test_a_root_that_cannot_be_listed_is_one_line(
    path: str, kind: ErrorKind, told: str, asked: list[str], tmp_path: Path
) -> None:
    put(tmp_path / "file")
    levanter(tmp_path / "run", 100, at=time.time() - QUIET)
    where = path.format(tmp=tmp_path)
    facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://self{where}"))
    assert facet.value is None and facet.error is not None and facet.error.kind is kind
    assert facet.error.message == f"self:{where} {told}"
    both = run_of(f"ssh://self{tmp_path}/run", f"ssh://self{where}", name="both")
    facet = await looked(Checkpoints(SystemClock()), both)
    assert states(facet) == [(100, "complete")]
    assert (facet.error is None) == (kind is ErrorKind.NOT_FOUND), "one may not exist yet"


async def test_what_a_shell_answers_that_is_not_understood_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = [b"", b"Welcome to the cluster!\n", b"C 12", b"C x\0B 0\0E 0\0", b"\0" * 2000]

    async def run(where: str | None, script: str, **more: Any) -> Completed:
        return Completed(0, answers[0], b"sh: od: not found")

    monkeypatch.setattr(host, "run_script", run)
    while answers:
        facet = await looked(Checkpoints(SystemClock()), run_of("ssh://self/x"))
        assert facet.value is None and facet.error is not None
        assert facet.error.kind is ErrorKind.BAD_ANSWER
        assert facet.error.message.startswith("self: its shell's answer cannot be parsed")
        del answers[0]


def test_odd_records_are_left_out() -> None:
    odd = b"C 5\0B 0\0f x 1.0 1.2 /r\0a\0f 1 1.0\0b\0f 3 1.5 1.2 /r\0c\0=weird\nx|y\0E 0\0B 1\0f 1"
    clock, answers = host.taken_apart(odd)
    assert clock == 5.0 and [line.path for line in answers[0].lines] == ["c"]
    assert answers[0].status == 0 and answers[1].status is None


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    (tmp_path / "sshd").mkdir()
    with serving(tmp_path / "sshd") as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/sshd/bin:{os.environ['PATH']}")
        yield server


@needs_sshd
async def test_a_real_host_is_listed_with_its_own_clock_and_loses_its_link(
    box: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 3600.0
    programs = tmp_path / "programs"
    put(programs / "date", f"#!/bin/sh\necho $(($(/bin/date +%s) + {ahead:.0f}))\n").chmod(0o755)
    box.rc(f'PATH="{programs}:$PATH"; export PATH')
    levanter(box.home / "run", 100, at=time.time() + ahead - QUIET)
    levanter(box.home / "run", 200, at=time.time() + ahead - 10.0, marker=None)
    monkeypatch.setattr(reading, "AT_FIRST", 60.0)
    source, run = Checkpoints(SystemClock()), run_of(f"ssh://{box.host}/~/run")
    facet = await looked(source, run)
    assert states(facet) == [(100, "complete"), (200, "writing")]
    assert facet.value is not None
    assert facet.value.items[0].path == f"ssh://{box.host}/~/run/step-100"
    assert abs(time.time() - QUIET - (facet.value.items[0].saved_at or 0.0)) < 30.0
    monkeypatch.setattr(reading, "SECONDS", 2.0)
    box.stop()
    began = time.monotonic()
    facet = await looked(source, run)
    assert facet.value is None and facet.error is not None and box.host in facet.error.message
    assert time.monotonic() - began < 15.0
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{tmp_path}/sshd/bin:{os.environ['PATH']}")
    box.start()
    assert states(await looked(source, run)) == [(100, "complete"), (200, "writing")]


async def test_what_was_listed_before_the_time_was_over_counts(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 31):
        levanter(tmp_path, step, at=time.time() - QUIET)
    slow = host.HEAD.replace("whole='", 'whole=\'[ "$#" -lt 10 ] || sleep 60; ')
    assert slow != host.HEAD
    monkeypatch.setattr(host, "HEAD", slow)
    monkeypatch.setattr(reading, "AT_FIRST", 3.0)
    source, run = Checkpoints(SystemClock()), run_of(f"ssh://self{tmp_path}")
    first = await looked(source, run)
    assert first.value is not None and first.value.latest_complete == 30
    assert first.value.unjudged == 30 - len(first.value.items) > 0
    monkeypatch.undo()
    monkeypatch.setattr(host, "run_script", here)
    assert len(states(await looked(source, run))) == 30
