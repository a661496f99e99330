"""Leaves Textual's command palette out: the cockpit has its own, loaded when it is asked for.

Textual loads its own with the app, and with it trees, lists and selections: a twentieth of a start.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Final

COMMANDS: Final = "textual.command"


class _LeftOut:
    """Stands for a class of a palette that is never opened (``ENABLE_COMMAND_PALETTE``)."""


def _part(name: str) -> type[_LeftOut]:
    if name.startswith("__"):  # whatever asks what kind of module it is
        raise AttributeError(name)
    return _LeftOut


def leave_out_palette() -> None:
    """Have Textual load no command palette; to be called before it is loaded itself."""
    left_out = ModuleType(COMMANDS)
    vars(left_out)["__getattr__"] = _part
    sys.modules.setdefault(COMMANDS, left_out)
