"""Of all processes of a machine only those are held against a run that may have to do with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.lineage import tag_of
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.platforms.local.belonging import Files, belongs, candidate_of
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.lineage import Around, Recorded
from cockpit.platforms.local.marks import RunMarks, marks_of
from cockpit.platforms.local.recorded import Sight

UID = 1000
FILES = Files(Path("/nowhere"), UID)


def run_named(name: str) -> RunSpec:
    wandb = WandbSpec(entity="e", project="p", id=f"{name}-id")
    return RunSpec(name=name, output_root=place_of(f"/data/runs/{name}"), wandb=wandb)


def marks(run: RunSpec, _recorded: object = None) -> RunMarks:
    return marks_of(run, None, lambda path: path)


def around(processes: Sequence[Process]) -> Around:
    sight = cast(Sight, SimpleNamespace(files=FILES, marks=marks))
    return Around([candidate_of(each) for each in processes], sight)


def process(pid: int, argv: Sequence[str], cwd: str = "/", **variables: str | None) -> Process:
    given = {name: value for name, value in variables.items() if value is not None}
    env = b"".join(f"{name}={value}\0".encode() for name, value in given.items())
    return Process(pid, 1, pid, pid, UID, "S", -1, tuple(argv), env, cwd)


RUNS = [run_named(name) for name in ("a", "ab", "b", "a-1")]
NAMES = st.sampled_from([None, "", "a", "ab", "abc", "b", "a-1", "c"])
TAGS = st.sampled_from([None, "", "root:0", *map(tag_of, RUNS), *tag_of(RUNS[0]).split(",")])
PATHS = st.sampled_from(
    ["/data/runs/a", "/data/runs/abc", "/data/runs", "runs/a", "/", "x", "../b"]
)
WORDS = st.sampled_from(
    ["--out", "--wandb-id=a-id", "a-id-2", "b-id", "train.py", "tail", "sbatch"]
)


@given(
    st.lists(
        st.builds(
            lambda argv, cwd, tag, run, submits: (argv, cwd, tag, run, submits),
            st.lists(st.one_of(PATHS, WORDS), min_size=1, max_size=4), PATHS, TAGS, NAMES,
            st.sampled_from([None, "a-i001"]),
        ),
        max_size=6,
    )
)  # fmt: skip
def test_nobody_is_left_out_who_has_to_do_with_a_run(
    told: list[tuple[list[str], str, str | None, str | None, str | None]],
) -> None:
    processes = [
        process(pid, argv, cwd, COCKPIT_LINEAGE=tag, COCKPIT_RUN=run, COCKPIT_SUBMITS=submits)
        for pid, (argv, cwd, tag, run, submits) in enumerate(told, 100)
    ]
    found = around(processes)
    for run in RUNS:
        meant = found.of(run, Recorded())
        others = [each for each in found.all if each not in meant]
        assert [belongs(marks(run), each, FILES) for each in others] == [None] * len(others)
        assert meant == [each for each in found.all if each in meant]


def test_of_a_fleet_that_was_launched_each_run_is_held_against_its_own_processes() -> None:
    runs = [run_named(f"run-{number:03}") for number in range(60)]
    processes = [
        process(
            10 * number + worker, ["python", "train.py", "--out", str(run.output_root)],
            COCKPIT_LINEAGE=tag_of(run), COCKPIT_RUN=run.name,
        )
        for number, run in enumerate(runs, 100)
        for worker in range(3)
    ]  # fmt: skip
    found = around(processes)
    for number, run in enumerate(runs, 100):
        meant = [each.process.pid for each in found.of(run, Recorded())]
        assert meant == [10 * number, 10 * number + 1, 10 * number + 2]
