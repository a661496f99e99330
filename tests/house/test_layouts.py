"""Every layout of checkpoints is found by the command line in the smallest tree that it makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config import build as config
from cockpit.config.file import load
from cockpit.sources.checkpoints.judge import (
    Circumstances,
    judge_listing,
    layout_by_files,
    with_singles,
)
from cockpit.sources.checkpoints.layouts import LAYOUTS
from cockpit.sources.checkpoints.look import complete_of, survey_here
from tests.sources.checkpoints.layout_examples import EXAMPLES, SHOWN
from tests.sources.checkpoints.trees import NOW, put, roots_at, settle

CUSTOM = ("--pattern", r"snap_(\d+)", "--marker", "DONE")
TREES: dict[str, Mapping[str, bytes]] = {
    **EXAMPLES,
    "custom": {"snap_500/DONE": b"x", "snap_500/weights": b"x"},
}


def grown(folder: Path, layout: str) -> Path:
    root = folder / layout
    for path, content in TREES[layout].items():
        put(root / path, content)
    return settle(root, NOW - 3600)


def listed(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["checkpoints", str(root), "--json", *words]) == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


def test_no_row_misses_a_part() -> None:
    for layout in LAYOUTS.values():
        assert layout.name in EXAMPLES, f"{layout.name}: no example of its files"
        example = EXAMPLES[layout.name]
        assert layout.loads or layout.by_command or layout.name == "accelerate", (
            f"{layout.name}: what does its trainer load by itself?"
        )
        saves = {path.partition("/")[0] for path in example if "/" in path or layout.files}
        pointers = [path for path in example if "/" not in path and not layout.files]
        assert any(map(layout.pattern.fullmatch, saves)), f"{layout.name}: its pattern names none"
        for path in pointers:
            assert layout.beside is not None and layout.beside.fullmatch(path), path
    assert sorted([*LAYOUTS, "auto", "custom"]) == sorted(config.LAYOUTS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_other_row_takes_an_example(layout: str, tmp_path: Path) -> None:
    (root,) = roots_at(grown(tmp_path, layout))
    root = with_singles(root, None)
    for save in (*root.folders, *root.singles, *root.lookalikes):
        assert layout_by_files(save, root) == layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_later_look_says_the_same(layout: str, tmp_path: Path) -> None:
    root, survey = grown(tmp_path, layout), survey_here()
    found = []
    for _ in range(3):  # of what is whole only a summary is kept
        value = judge_listing(roots_at(root, survey), Circumstances(NOW))
        survey.settle(complete_of(value), {item.path for item in value.items})
        found.append([(item.step, item.state, item.note) for item in value.items])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("layout", [name for name, row in LAYOUTS.items() if row.loads])
def test_the_trainer_would_load_the_example(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = grown(tmp_path, layout)
    if layout == "composer":
        (root / "latest-rank0.pt").symlink_to("ep0-ba500-rank0.pt")
    if layout == "fairseq":
        (root / "checkpoint_2_500.pt").rename(root / "checkpoint_last.pt")
    assert main(["checkpoints", str(root), "--json"]) == 0
    load = json.loads(capsys.readouterr().out)["trainer_would_load"]
    assert load is not None
    assert load["step"] == (None if layout in ("fairseq", "speechbrain") else 500)


@pytest.mark.parametrize("layout", TREES)
def test_a_layout_is_listed_by_its_name(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = CUSTOM if layout == "custom" else ()
    (item,) = listed(grown(tmp_path, layout), capsys, "--layout", layout, *more)
    assert (item["step"], item["state"]) == SHOWN.get(layout, (500, "complete"))


@pytest.mark.parametrize("layout", [layout for layout in TREES if layout != "custom"])
def test_a_layout_is_recognised(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (item,) = listed(grown(tmp_path, layout), capsys)
    assert (item["step"], item["state"]) == SHOWN.get(layout, (500, "complete"))


@pytest.mark.parametrize("layout", ["auto", *TREES])
def test_the_run_file_takes_a_layout_and_a_check_uses_it(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = "levanter" if layout == "auto" else layout
    root = grown(tmp_path, tree)
    custom = "custom = { pattern = 'snap_(\\d+)', marker = 'DONE' }\n" if tree == "custom" else ""
    path = tmp_path / "cockpit.toml"
    path.write_text(
        f'[[run]]\nname = "toy"\n[run.checkpoints]\npath = "{root}"\nlayout = "{layout}"\n{custom}'
    )
    assert load(path).runs[0].checkpoints is not None
    main(["check", "--json", "--config", str(path)])
    facet = json.loads(capsys.readouterr().out)["runs"][0]["facets"]["checkpoints"]
    assert facet["error"] is None
    (item,) = facet["value"]["items"]
    assert (item["step"], item["state"]) == SHOWN.get(tree, (500, "complete"))
