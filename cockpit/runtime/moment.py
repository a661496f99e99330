"""The moment that it is on this machine: wall clock, steady clock, and the boot that counts it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock, Moment

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def moment(clock: Clock) -> Moment:
    """Return what ``clock`` shows now; comparable with other processes of this machine."""
    return Moment(clock.now(), clock.monotonic(), this_boot())


@functools.cache
def this_boot() -> str | None:
    """Return what tells this boot of the machine from every other, where the kernel says."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None
