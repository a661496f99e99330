"""Checkpoints on an ssh host: the same judgement as here, one round trip for all its runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cockpit.hosts import link
from cockpit.hosts.here import ask_host
from cockpit.hosts.link import Answers, Ask, know_pythons
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.jobs import Query
from cockpit.model.observed import CheckpointsValue, JobValue, Phase
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.sources.checkpoints import host
from cockpit.sources.checkpoints import source as reading
from cockpit.sources.checkpoints.source import Checkpoints, list_checkpoints
from tests.house.test_layouts import TREES
from tests.sources.checkpoints.layout_examples import SHOWN
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import levanter, metadata, put, settle
from tests.sshd import Sshd, needs_sshd, reachable, serving

QUIET = 3600.0
HOSTILE = ("it's", '"$(touch pwned)" `id`', "a\nb", "-rf", "*", "é 日本", "\x1b[31m")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[Ask]]:
    """Return what is asked in each round trip; a host of the name ``self`` is this machine."""
    trips: list[list[Ask]] = []

    async def ask(where: str | None, asks: Iterable[Ask], *limits: float, **more: Any) -> Answers:
        trips.append(list(asks))
        return await ask_host(None if where == "self" else where, trips[-1], *limits, **more)

    monkeypatch.setattr(host, "ask_host", ask)
    monkeypatch.setattr(reading, "AT_FIRST", 60.0)  # however busy this machine is
    monkeypatch.setattr(reading, "SECONDS", 60.0)
    return trips


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
    layout: str, asked: list[list[Ask]], tmp_path: Path
) -> None:
    root = tmp_path / "run's ckpt"
    for path, content in TREES[layout].items():
        put(root / path, content, time.time() - QUIET)
    settle(root, time.time() - QUIET)
    custom = CustomLayout(pattern=r"snap_(\d+)", marker="DONE") if layout == "custom" else None
    more: dict[str, Any] = {"layout": "custom", "custom": custom} if custom else {}
    facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://self{root}", **more))
    assert states(facet) == [SHOWN.get(layout, (500, "complete"))]
    assert facet.value is not None
    (here,) = list_checkpoints([str(root)], now=time.time(), **more).items
    (item,) = facet.value.items
    assert item.path == f"ssh://self{here.path}" and item.root == f"ssh://self{root}"
    assert (item.note, item.size, item.marker) == (here.note, here.size, here.marker)
    assert abs((item.saved_at or 0.0) - (here.saved_at or 0.0)) < 1.0


async def test_two_hundred_runs_of_a_host_are_one_round_trip_a_look(
    asked: list[list[Ask]], tmp_path: Path
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


async def test_hostile_names_are_names(asked: list[list[Ask]], tmp_path: Path) -> None:
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
    assert {step for step, state in states(facet) if state == "unknown"} == unshown
    assert facet.value is not None and all("\x1b" not in item.path for item in facet.value.items)
    made = [name for folder in (tmp_path, Path("/")) for name in os.listdir(folder)]  # noqa: PTH208
    assert "pwned" not in made


async def test_no_checkpoint_below_a_name_that_is_not_shown_is_picked(
    asked: list[list[Ask]], tmp_path: Path
) -> None:
    root = tmp_path / "\x1b[2Jrun"
    levanter(root, 100, at=time.time() - QUIET)
    facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://self{root}"))
    assert states(facet) == [(100, "unknown")]
    assert facet.value is not None and "\x1b" not in facet.value.items[0].path


async def test_a_link_counts_once_and_a_file_of_torch_is_looked_into(
    asked: list[list[Ask]], tmp_path: Path
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


@pytest.mark.parametrize("how", ["removed", "truncated"])
async def test_data_that_goes_later_is_missed(
    how: str, asked: list[list[Ask]], tmp_path: Path
) -> None:
    for step in range(1, 11):
        levanter(tmp_path, step, at=time.time() - QUIET)
    source, run = Checkpoints(SystemClock()), run_of(f"ssh://self{tmp_path}")
    await looked(source, run)
    await looked(source, run)
    data = tmp_path / "step-3" / "d" / "0c0ffee0"
    if how == "removed":
        data.unlink()
        looks = 1
    else:  # no folder's time tells that: it is seen when its turn comes
        data.write_bytes(b"")
        looks = 10
    found = [dict(states(await looked(source, run)))[3] for _ in range(looks)]
    assert found[-1] == "incomplete"


@pytest.mark.parametrize(
    ("path", "kind", "told"),
    [
        ("{tmp}/nowhere", ErrorKind.NOT_FOUND, "does not exist"),
        ("{tmp}/file", ErrorKind.NOT_FOUND, "is not a folder"),
    ],
)
async def test_a_root_that_cannot_be_listed_is_one_line(
    path: str, kind: ErrorKind, told: str, asked: list[list[Ask]], tmp_path: Path
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
    assert (facet.error is None) == (told == "does not exist"), "one may not exist yet"


@needs_sshd
async def test_a_host_without_python_says_so_in_one_line() -> None:
    with reachable() as server:
        know_pythons({server.host: "no-such-python"})
        facet = await looked(Checkpoints(SystemClock()), run_of(f"ssh://{server.host}/x"))
        know_pythons({})
    assert facet.value is None and facet.error is not None
    assert facet.error.message.startswith(f"{server.host}: it has no no-such-python: install it")


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
    text = link._text
    fast = (
        "import time\nif not hasattr(time, 'real'):\n    time.real = time.time\n"
        f"    time.time = lambda: time.real() + {ahead}\n"
    )
    monkeypatch.setattr(
        link, "_text", lambda name: text(name) + fast * (name == "cockpit.hosts.walking")
    )
    link._load.cache_clear()
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
    monkeypatch.setattr(reading, "SECONDS", 60.0)
    box.start()
    assert states(await looked(source, run)) == [(100, "complete"), (200, "writing")]
    link._load.cache_clear()


class Clock(NamedTuple):
    """A clock that runs fast for whoever looks at it often."""

    monotonic: Callable[[], float]

    def time(self) -> float:
        return time.time()


@needs_sshd
async def test_a_disk_that_hangs_is_asked_once_and_keeps_no_other_waiting(
    asked: list[list[Ask]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levanter(tmp_path / "run", 100, at=time.time() - QUIET)
    good, bad = run_of(f"ssh://self{tmp_path}/run"), run_of("ssh://self/dead/disk/run", name="b")
    answered = vars(host)["ask_host"]

    async def ask(where: str | None, asks: Iterable[Ask], *limits: float, **more: Any) -> Answers:
        late = Problem(kind=ErrorKind.TIMEOUT, message="self: a disk hangs there")
        found = await answered(where, asks, *limits, **more)
        return {each: late if "/dead" in each.arguments else found[each] for each in found}

    monkeypatch.setattr(host, "ask_host", ask)
    source = Checkpoints(SystemClock())
    assert states(await looked(source, good, bad)) == [(100, "complete")]
    facet = await looked(source, bad, good)
    assert facet.value is None and facet.error is not None
    assert facet.error.message == "self: a disk hangs there"
    assert all(sum("/dead" in each.arguments for each in trip) <= 1 for trip in asked)
