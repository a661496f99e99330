"""What a recorded command tells a Lightning trainer to load: ``--ckpt_path last``. Pure."""

from __future__ import annotations

import shlex
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.run import Command

LAST: Final = "last"
_FLAG: Final = late_regex(r"(?:--?|\+)?(?:[\w.-]*[._-])?ckpt[-_]path(?:=(?P<value>.*))?")


def ckpt_path_of(command: Command | None) -> str | None:
    """Return the value of ``ckpt_path`` in a command, as a flag or as a setting; else ``None``."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command or ())
    except ValueError:
        return None
    for place, word in enumerate(words):
        match = _FLAG.fullmatch(word)
        if match is None:
            continue
        after = words[place + 1] if place + 1 < len(words) else None
        return match["value"] if match["value"] is not None else after
    return None
