"""What is installed beside the cockpit does not reach its values, and nobody looks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
