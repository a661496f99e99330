"""A path of the host as a word of a POSIX shell."""

from __future__ import annotations

from cockpit.model.place import Place
from cockpit.runtime.ssh import quote


def spelled(place: Place) -> str:
    """Return a path of the host as a shell's word; one that starts at the home is expanded."""
    path = place.path
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{quote(path[1:]) if path[1:] else ""}'
    return quote(f"./{path}" if path.startswith("-") else path)
