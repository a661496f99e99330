"""Waiting for what another process or thread does, never for a guess of how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY = 0.01
PATIENCE = 180.0
"""Seconds that even a machine with twenty times its work does not take; spent only to fail."""


def until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    """Return once it is true; fail after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(LOOK_EVERY)
