"""Opening the store where even that may not come back, as on a home whose server is away."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from cockpit.store.store import NO_HISTORY, Store, StoreError

OPEN_WITHIN: Final = 9.0
"""Seconds: longer than a store waits for whoever has locked it."""


def open_within(path: Path, *, read_only: bool = False, seconds: float = OPEN_WITHIN) -> Store:
    """Return the open store; raises ``StoreError``, also when there is no answer in time."""
    opened: list[Store] = []
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            opened.append(Store(path, read_only=read_only))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            trouble.append(error)

    thread = threading.Thread(target=work, name="opens the store", daemon=True)
    thread.start()
    thread.join(seconds)
    if trouble:
        raise trouble[0]
    if not opened:
        raise StoreError(f"{path}: no answer within {seconds:g} s; {NO_HISTORY}")
    return opened[0]
