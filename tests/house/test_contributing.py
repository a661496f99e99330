"""CONTRIBUTING and docs/actions.md name the floors, folders and files that there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = {
    "cockpit/platforms/kubernetes/__init__.py",
    "cockpit/verbs/triage.py",
}
"""What the walk-throughs add: it is not there yet."""
SHOWN = {"screens", "widgets", "themes"}
"""Floors that stand beside the package."""


def test_the_floors_are_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["name"] == "One direction")
    rows = re.findall(r"^\| (`[^|]*`) \|", PAGE, re.M)
    named = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    floors = [re.sub(r"\.py$|/$", "", path).removeprefix("cockpit/") for path in named]
    assert [floor for floor in floors if floor not in SHOWN] == layers
    assert set(floors) >= SHOWN


@pytest.mark.parametrize(
    "name", ["CONTRIBUTING.md", "docs/actions.md", "docs/babysit.md", "README.md"]
)
def test_every_path_of_the_documents_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    roots = "cockpit|screens|widgets|themes|tests|bench"
    paths = set(re.findall(rf"`((?:{roots})/[\w/]*(?:\.\w+)?)`", text))
    assert {path for path in paths - EXAMPLES if not (ROOT / path).exists()} == set()


def test_the_glossary_is_short() -> None:
    glossary = PAGE[PAGE.index("## Glossary") :].partition("\n## Add")[0]
    assert glossary.strip().count("\n") < 40
