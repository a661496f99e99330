"""Where a place is, there is its log."""

from __future__ import annotations

from cockpit.model.place import SSH, Place
from cockpit.sources.logs.local import LocalLog
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.remote import remote_log
from cockpit.sources.logs.spool import SpoolLog, is_spool


def log_at(place: Place) -> Ranged:
    """Return the log at a place; raises ``OSError`` for one that cannot be read by this version."""
    if is_spool(place):
        return SpoolLog(place)
    if place.here:
        return LocalLog(place.path)
    if place.scheme == SSH:
        return remote_log(place)
    raise OSError(0, f"logs at {place.endpoint} are not read yet by this version")
