"""Notes in a build the commit that it is made of, for ``cockpit --version``."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NotesCommit(BuildHookInterface):
    """Adds ``cockpit/COMMIT``; a source distribution has it already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, where the project lies in a clone; an editable install has its clone."""
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():
            return
        words = ("git", "rev-parse", "--short=12", "HEAD")
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            noted = Path(tempfile.mkdtemp()) / "COMMIT"
            noted.write_text(done.stdout)
            place = "run_cockpit/cockpit" if self.target_name == "wheel" else "cockpit"
            build_data["force_include"][str(noted)] = f"{place}/COMMIT"
