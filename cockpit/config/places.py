"""Where the run file and what the cockpit remembers lie; light, for it is asked at every Tab."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path
from typing import Final

FILE_NAME = "cockpit.toml"
MACHINE_ID: Final = Path("/etc/machine-id")


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
    """Return where this machine's store lies: others may have theirs beside it, on one home."""
    return state_dir() / f"store-{machine_name()}.sqlite"


def machine_name() -> str:
    """Return a name that no other machine with this home has: by its host name and its id.

    What follows the first dot of a host name changes with the network that a laptop is in.
    """
    host = re.sub(r"[^\w-]", "_", os.uname().nodename.partition(".")[0]) or "machine"
    try:
        own = MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return host
    return f"{host}-{zlib.crc32(own.encode()):08x}"


def _xdg(variable: str, default: str) -> Path:
    base = Path(os.environ.get(variable, ""))
    return (base if base.is_absolute() else Path.home() / default) / "cockpit"
