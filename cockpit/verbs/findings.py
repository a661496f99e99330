"""What ``doctor`` prints: one finding for each thing that it looked at."""

from __future__ import annotations

from typing import Literal

from cockpit.model.base import Frozen

Level = Literal["ok", "note", "problem"]


class Finding(Frozen):
    """One thing that was looked at. ``remedy`` is ``None`` where all is well."""

    name: str
    level: Level
    text: str
    remedy: str | None = None
    run: str | None = None
