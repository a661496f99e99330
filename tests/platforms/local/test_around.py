"""Of all processes of a machine only those are held against a run that may have to do with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.lineage import tag_of
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.platforms.local.belonging import Files, belongs, candidate_of
from cockpit.platforms.local.census import OpenFile, Process
from cockpit.platforms.local.lineage import Around, Recorded
from cockpit.platforms.local.marks import RunMarks, marks_of
from cockpit.platforms.local.sight import Sight

UID = 1000
NOWHERE = Path("/nowhere")


def run_named(name: str) -> RunSpec:
    wandb = WandbSpec(entity="e", project="p", id=f"{name}-id")
    return RunSpec(name=name, output_root=place_of(f"/data/runs/{name}"), wandb=wandb)


def marks(run: RunSpec, _recorded: object = None) -> RunMarks:
    return marks_of(run, UID, lambda place: (place.path,))


def around(processes: Sequence[Process], files: Files) -> Around:
    sight = cast(Sight, SimpleNamespace(files=files, marks=marks))
    return Around([candidate_of(each) for each in processes], sight)


def process(pid: int, argv: Sequence[str], cwd: str = "/", **variables: str | None) -> Process:
    given = {name: value for name, value in variables.items() if value is not None}
    env = b"".join(f"{name}={value}\0".encode() for name, value in given.items())
    return Process(pid, 1, pid, pid, UID, "S", 5, tuple(argv), env, cwd)


RUNS = [run_named(name) for name in ("a", "ab", "b", "a-1")]
LOCKS = [
    "/tmp/x.lock",
    "/data/runs/ab/.cockpit/job.lock",
    *(f"/l/{x}" for x in marks(RUNS[0]).locks),
]
PATHS = ["/data/runs/a", "/data/runs/abc", "/data/runs", "runs/a", "/", "x", "../b"]
WORDS = ["--out", "--wandb-id=a-id", "a-id-2", "b-id", "train.py", "tail", "sbatch"]
TAGS = [None, "", "root:0", *map(tag_of, RUNS), *tag_of(RUNS[0]).split(",")]


PLAIN = st.just(["train.py"])


class Shape(NamedTuple):
    argv: list[str]
    cwd: str
    tag: str | None
    run: str | None
    submits: str | None
    wandb_id: str | None
    files: list[OpenFile]


SHAPES = st.builds(
    Shape,
    argv=PLAIN | st.lists(st.sampled_from([*PATHS, *WORDS]), min_size=1, max_size=4),
    cwd=st.just("/") | st.sampled_from(PATHS),
    tag=st.none() | st.sampled_from(TAGS),
    run=st.sampled_from([None, "", "a", "ab", "abc", "b", "a-1", "c"]),
    submits=st.sampled_from([None, "a-i001"]),
    wandb_id=st.sampled_from([None, "a-id", "b-id-2"]),
    files=st.lists(
        st.builds(
            OpenFile,
            st.sampled_from([*LOCKS, "/data/runs/a/log", "/data/runs/b/x", "/var/log/x"]),
            st.booleans(), st.booleans(), st.booleans(),
        ),
        max_size=2,
    ),
)  # fmt: skip


@settings(max_examples=300 if os.environ.get("SOAK") else 60)
@given(st.lists(SHAPES, max_size=6))
def test_nobody_is_left_out_who_has_to_do_with_a_run(shapes: list[Shape]) -> None:
    files = Files(NOWHERE, UID, {pid: tuple(each.files) for pid, each in enumerate(shapes, 100)})
    processes = [
        process(
            pid, each.argv, each.cwd, COCKPIT_LINEAGE=each.tag, COCKPIT_RUN=each.run,
            COCKPIT_SUBMITS=each.submits, WANDB_RUN_ID=each.wandb_id,
        )
        for pid, each in enumerate(shapes, 100)
    ]  # fmt: skip
    found = around(processes, files)
    for run in RUNS:
        meant = found.of(run, Recorded())
        others = [each for each in found.all if each not in meant]
        assert [belongs(marks(run), each, files) for each in others] == [None] * len(others)
        assert meant == [each for each in found.all if each in meant]


def test_of_a_fleet_that_was_launched_each_run_is_held_against_its_own_processes() -> None:
    """Beside whoever holds a lock of any name: it may be anybody's."""
    runs = [run_named(f"run-{number:03}") for number in range(60)]
    processes = [
        process(
            10 * number + worker, ["python", "train.py", "--out", str(run.output_root)],
            COCKPIT_LINEAGE=tag_of(run), COCKPIT_RUN=run.name,
        )
        for number, run in enumerate(runs, 100)
        for worker in range(3)
    ]  # fmt: skip
    held = tuple(() if each.pid % 10 else (OpenFile("/x/y", True, True),) for each in processes)
    seen = {each.pid: files for each, files in zip(processes, held, strict=True)}
    locker = process(7, ["jupyter"])
    files = Files(NOWHERE, UID, {**seen, 7: (OpenFile("/home/j.db", True, True, locked=True),)})
    found = around([locker, *processes], files)
    for number, run in enumerate(runs, 100):
        meant = [each.process.pid for each in found.of(run, Recorded())]
        assert meant == [7, 10 * number, 10 * number + 1, 10 * number + 2]
