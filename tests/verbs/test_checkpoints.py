from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.verbs import checkpoints
from cockpit.verbs.common import UsageError
from tests.sources.checkpoints.trees import NOW, levanter


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    checkpoints.add_arguments(parser.add_subparsers(dest="verb").add_parser("checkpoints"))
    return checkpoints.run(parser.parse_args(["checkpoints", *words]))


def test_json_is_the_facets_value_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levanter(tmp_path / "p", 100)
    levanter(tmp_path / "t", 115, temporary=True)
    assert call(str(tmp_path / "p"), str(tmp_path / "t"), "--json") == 0
    out = capsys.readouterr()
    document = json.loads(out.out)
    assert out.err == ""
    shape = {"latest_complete", "relaunch_from", "trainer_would_load", "items"}
    assert set(document) == {"schema", *shape}
    assert document["schema"] == 1 and document["latest_complete"] == 115
    assert set(document["items"][0]) == {
        *("step", "name_step", "path", "root", "state", "marker", "saved_at", "size"),
        *("permanent", "protected", "suspect", "lineage", "note"),
    }


def test_the_table_marks_what_a_relaunch_takes_and_why_another_is_torn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levanter(tmp_path, 46000)
    levanter(tmp_path, 46250, marker=None)
    assert call(str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("▸" in line and "46,000" in line and "complete" in line for line in lines)
    assert any("46,250" in line and "no metadata.json" in line for line in lines)
    assert lines[-1].startswith("a relaunch would take step 46,000")


def test_the_table_tells_when_the_trainer_would_take_another(tmp_path: Path) -> None:
    levanter(tmp_path, 100)
    levanter(tmp_path, 200, marker='{"step": 200}')
    lines = checkpoints.table(list_checkpoints([str(tmp_path)], now=NOW), NOW)
    assert f"the trainer itself would load {tmp_path / 'step-100'}" in lines[-1]


def test_what_is_not_found_is_not_said_to_be_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hydra makes a folder for the date, one for the time, and the trainer one for its saves."""
    levanter(tmp_path / "llama" / "2026-11-29" / "10-00-00" / "checkpoints", 100)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path, tmp_path / "empty"):
        assert call(str(folder)) == 0
        out = capsys.readouterr().out
        assert "no checkpoint was found here or up to 2 folders below" in out
        assert "what a relaunch would start from cannot be told" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{tmp}/nowhere"], "does not exist"),
        (["{tmp}", "--layout", "orbix"], 'did you mean "orbax"'),
        (["hdfs://bucket/x"], "cannot be read"),
        (["{tmp}", "--pattern", r"a(\d+)"], "needs both"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(*(word.format(tmp=tmp_path) for word in words))
    assert len(caught.value.lines) == 1 and told in caught.value.lines[0]
