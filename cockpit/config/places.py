"""Where the run file and what the cockpit remembers lie; light, for it is asked at every Tab."""

from __future__ import annotations

import os
from pathlib import Path

FILE_NAME = "cockpit.toml"


def find(start: Path) -> Path | None:
    """Return the nearest run file from ``start`` upwards, else the user's own, else none."""
    start = start.absolute()
    for folder in (start, *start.parents, config_dir()):
        if os.path.lexists(folder / FILE_NAME):
            return folder / FILE_NAME
    return None


def config_dir() -> Path:
    """Return the folder of the user's own run file (``$XDG_CONFIG_HOME/cockpit``)."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def state_dir() -> Path:
    """Return the folder for what the cockpit remembers (``$XDG_STATE_HOME/cockpit``)."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def store_path() -> Path:
    """Return where the store lies unless a run file is asked for with another."""
    return state_dir() / "store.sqlite"


def _xdg(variable: str, default: str) -> Path:
    base = Path(os.environ.get(variable, ""))
    return (base if base.is_absolute() else Path.home() / default) / "cockpit"
