"""Checkpoints on an ssh host: the same judgement as here, one round trip for all its runs.

One tree, here and on an ssh host: links, names, marks and changes are judged the same.
"""

from __future__ import annotations

import json
import os
import shutil
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
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Checkpoints, list_anywhere, list_checkpoints
from tests.house.test_layouts import TREES
from tests.machines import Machine
from tests.machines import machine as machine
from tests.queries import queries_of
from tests.sources.checkpoints.layout_examples import SHOWN
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import hugging_face, levanter, metadata, put, settle
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


def saved(root: Path, step: int, **more: Any) -> Path:
    return levanter(root, step, at=time.time() - QUIET, **more)


def linked(root: Path) -> None:
    saved(root, 100)
    saved(root, 200)
    (root / "latest").symlink_to("step-200")
    (root / "zz-best").symlink_to(root / "step-100")
    (root.parent / "best").symlink_to(root / "step-100")
    (root / "last.ckpt").symlink_to("step-200")


def linked_nowhere(root: Path) -> None:
    saved(root, 100)
    (root / "step-300").symlink_to("/nowhere/step-300")
    (root / "best").symlink_to("gone")


def linked_inside(root: Path) -> None:
    step = saved(root, 100)
    put(root.parent / "pool" / "shard.safetensors", b"x" * 700)
    (step / "shard.safetensors").symlink_to(root.parent / "pool" / "shard.safetensors")
    (step / "broken.pt").symlink_to("nowhere")


def one_file_twice(root: Path) -> None:
    put(root / "a-step=5.ckpt", archive({"global_step": 5}), time.time() - QUIET)
    os.link(root / "a-step=5.ckpt", root / "best.ckpt")
    (root / "last.ckpt").symlink_to("a-step=5.ckpt")


def only_a_link_has_the_name(root: Path) -> None:
    saved(root, 100)
    saved(root, 300, name="weird")
    (root / "step-300").symlink_to("weird")


def rejected(root: Path) -> None:
    saved(root, 100)
    saved(root, 200)
    mark = {"name": "step-200", "step": 200, "at": time.time(), "by": "ada", "reason": "spike"}
    put(root / ".cockpit" / "rejected.json", json.dumps({"rejected": [mark]}))


def named_elsewhere(root: Path) -> None:
    for step in (100, 200):
        saved(root, step)
    put(root / "best.txt", "step-100\n")


def half_a_folder(root: Path) -> None:
    os.mkfifo(saved(root, 100) / "metadata.json.new")
    step = saved(root, 200, marker=None)
    os.mkfifo(step / "metadata.json")


def nested(root: Path) -> None:
    for number in range(3):
        saved(root / f"run-{number}" / "checkpoints", 100 + number)


BOTH_TREES: tuple[Callable[[Path], None], ...] = (
    linked, linked_nowhere, linked_inside, one_file_twice, only_a_link_has_the_name, rejected,
    named_elsewhere, half_a_folder, nested,
)  # fmt: skip
PICKED = {
    "linked": 200, "linked_nowhere": 100, "linked_inside": 100, "one_file_twice": 5,
    "only_a_link_has_the_name": 300, "rejected": 100, "named_elsewhere": 200, "half_a_folder": 100,
    "nested": 102,
}  # fmt: skip
"""The step to relaunch from."""


@pytest.mark.parametrize("grow", BOTH_TREES, ids=lambda grow: grow.__name__)
async def test_a_tree_is_judged_the_same(
    grow: Callable[[Path], None], machine: Machine, tmp_path: Path
) -> None:
    root = tmp_path / "run" / "ckpts"
    root.mkdir(parents=True)
    grow(root)
    settle(root, time.time() - QUIET)
    here = await list_anywhere([str(root)], clock=SystemClock())
    value = await list_anywhere([str(machine.at(root))], clock=SystemClock())
    prefix = "" if machine.host is None else f"ssh://{machine.host}"
    text = json.dumps(value.to_json()).replace(prefix or "ssh://", "")
    assert json.loads(text) == json.loads(json.dumps(here.to_json()))
    assert value.relaunch_from is not None and value.relaunch_from.step == PICKED[grow.__name__]


async def test_a_checkpoint_that_is_named_itself_falls_under_the_marks_of_its_root(
    machine: Machine, tmp_path: Path
) -> None:
    rejected(tmp_path)
    (item,) = (
        await list_anywhere([str(machine.at(tmp_path / "step-200"))], clock=SystemClock())
    ).items
    assert item.state.value == "rejected"


@pytest.mark.parametrize("name", ["nowhere", "file"])
async def test_a_root_that_is_no_folder_says_so(
    name: str, machine: Machine, tmp_path: Path
) -> None:
    put(tmp_path / "file")
    with pytest.raises(ListingError) as found:
        await list_anywhere([str(machine.at(tmp_path / name))], clock=SystemClock())
    what = {"nowhere": "does not exist", "file": "is not a folder"}[name]
    assert str(found.value) == f"{machine.shown(tmp_path / name)} {what}"
    assert found.value.missing == (name == "nowhere"), "a file stands in its way"


async def test_a_complete_save_that_loses_data_is_seen_at_the_next_look(
    machine: Machine, tmp_path: Path
) -> None:
    for step in (100, 200):
        saved(tmp_path, step)
    path = (str(machine.at(tmp_path)),)
    (query,) = queries_of([RunSpec(name="a", checkpoints=CheckpointSpec(path=path))])
    source = Checkpoints(SystemClock())

    async def states() -> dict[int | None, str]:
        value = (await source.observe([query]))["a"].value
        assert value is not None
        return {item.step: item.state.value for item in value.items}

    assert [await states() for _ in range(3)] == [{100: "complete", 200: "complete"}] * 3
    (tmp_path / "step-100" / "d" / "0c0ffee0").unlink()
    assert await states() == {100: "incomplete", 200: "complete"}
    (tmp_path / "step-200" / "metadata.json").write_text("")
    assert (await states())[200] != "complete", "its marker was written again in place"
    shutil.rmtree(tmp_path / "step-200")
    assert set(await states()) == {100}


@pytest.mark.parametrize("state", [b"", b"\0" * 300, b'{"best_model_ch'])
async def test_a_state_that_cannot_be_read_is_not_one_without_a_best(
    state: bytes, machine: Machine, tmp_path: Path
) -> None:
    for step in (100, 200, 300):
        hugging_face(tmp_path, step, at=time.time() - QUIET)
    put(tmp_path / "checkpoint-200" / "trainer_state.json", state)
    value = await list_anywhere([str(machine.at(tmp_path))], clock=SystemClock())
    assert "the best one is unknown" in json.dumps(value.to_json())
