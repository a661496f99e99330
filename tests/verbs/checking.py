"""What ``cockpit check`` says of the runs of a folder, through the real entry."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from cockpit.cli import main


def check(folder: Path, now: str | None = None) -> dict[str, Any]:
    """Return what ``check --json`` says of the first run of ``folder/cockpit.toml``."""
    out = io.StringIO()
    at = [] if now is None else ["--now", now]
    with redirect_stdout(out):
        main(["check", "--json", "--config", str(folder / "cockpit.toml"), *at])
    run: dict[str, Any] = json.loads(out.getvalue())["runs"][0]
    return run
