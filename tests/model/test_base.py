"""The base of values."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from cockpit.model.base import Frozen


class Sample(Frozen):
    a: int = 1
    b: tuple[int, ...] = ()
    c: str | None = None


@pytest.mark.parametrize("update", [None, {}, {"a": 2}, {"b": (1,), "c": "x"}, {"c": None}])
@pytest.mark.parametrize("sample", [Sample(), Sample(a=5), Sample(a=1, b=(3,), c="y")])
def test_a_copy_is_what_pydantic_would_make(sample: Sample, update: dict[str, Any] | None) -> None:
    before = deepcopy(sample)
    ours, theirs = sample.model_copy(update=update), BaseModel.model_copy(sample, update=update)
    assert ours == theirs and type(ours) is Sample
    assert ours.model_fields_set == theirs.model_fields_set
    assert ours.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
    assert (sample, sample.model_fields_set) == (before, before.model_fields_set), "as it was"


def test_a_copy_of_a_copy_has_no_set_of_its_own_and_stays_frozen() -> None:
    one = Sample().model_copy(update={"a": 2})
    other = one.model_copy(update={"a": 3})
    assert other.__pydantic_fields_set__ is one.__pydantic_fields_set__
    with pytest.raises(ValidationError):
        other.a = 4  # type: ignore[misc]
    assert hash(other) == hash(Sample(a=3))


def test_values_of_which_the_same_was_given_share_one_set_however_they_were_made() -> None:
    made = Sample(a=2), Sample.model_validate({"a": 3}), Sample.model_construct(a=4)
    other = Sample().model_copy(update={"a": 5})
    assert len({id(each.__pydantic_fields_set__) for each in (*made, other)}) == 1
    assert Sample(a=2, b=()).model_fields_set == {"a", "b"} and made[0].model_fields_set == {"a"}


def test_a_deep_copy_shares_nothing() -> None:
    one = Sample(b=(1,))
    other = one.model_copy(update={"a": 9}, deep=True)
    assert other == Sample(a=9, b=(1,)) and other.__dict__ is not one.__dict__


ROOT = Path(__file__).resolve().parents[2]
PLUGIN = """
raise SystemExit("a plugin was loaded")
"""
PROGRAM = """
import sys
from cockpit.model.run import UiSpec
assert UiSpec.model_validate({"ascii": True}).ascii
print(*(each for each in ("importlib.metadata", "email") if each in sys.modules))
"""


def test_no_plugin_is_looked_for(tmp_path: Path) -> None:
    about = tmp_path / "nosy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nosy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pydantic]\nnosy = nosy:plugin\n")
    (tmp_path / "nosy.py").write_text(PLUGIN)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
