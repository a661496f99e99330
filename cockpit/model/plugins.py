"""Keeps pydantic from looking for plugins.

Before its first model it reads about every installed package, with the standard library's mail
parser, which is a tenth of a start. The cockpit has no plugin, and what is installed beside it has
no business with its values.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Final

LOADER: Final = "pydantic.plugin._loader"


def keep_plugins_out() -> None:
    """Have pydantic find no plugins, without a look; the environment of children is untouched."""
    loader = ModuleType(LOADER)
    vars(loader)["get_plugins"] = tuple
    sys.modules.setdefault(LOADER, loader)
