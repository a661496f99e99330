"""What an Iris command must say stands in the plan that a person reads: ``cockpit relaunch``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.cli import main

RUN = """
[[run]]
name = "toy"
dri = "ada"
output_root = "gs://b/toy"
resubmit = "iris job run {options} -- python train.py --no-wait --tpu v5p-8"
job = {{ kind = "iris", id = "/ada/toy", controller_url = "http://127.0.0.1:9" }}
"""
NAMES = ("iris:no-wait", "iris:tpu", "iris:extra", "iris:job-name")


def planned(
    options: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, str], dict[str, bool]]:
    """Return the level of each check on the command, and which of them a person may approve."""
    file = folder / "cockpit.toml"
    file.write_text(RUN.format(options=options))
    assert main(["relaunch", "toy", "--json", "--config", str(file)]) == 4
    checks = json.loads(capsys.readouterr().out)["checks"]
    own = [check for check in checks if check["id"] in NAMES]
    return (
        {check["id"]: check["level"] for check in own},
        {check["id"]: check["overridable"] for check in own if check["level"] == "block"},
    )


def test_what_speaks_against_a_command_blocks_and_nobody_approves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands behind ``--`` are the trainer's own words."""
    bad = "--job-name grug --reserve v5p-8 --extra marin-core:cpu"
    levels, blocks = planned(bad, tmp_path, capsys)
    assert levels == dict.fromkeys(NAMES[:3], "block") | {"iris:job-name": "warn"}
    assert blocks == dict.fromkeys(NAMES[:3], False)


def test_a_good_command_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels, blocks = planned("--no-wait --reserve v5p-8 --tpu v5p-8", tmp_path, capsys)
    assert (levels, blocks) == ({"iris:job-name": "pass"}, {})
