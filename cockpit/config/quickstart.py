"""Import much, quickly: the first paint waits for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import inside without the garbage collector walking what is being made.

    Modules and classes live until the end, so a third of an import's time is looking in vain
    for something to free. Afterwards they are set apart (frozen), which shortens every later
    collection, and with it the longest wait for a key.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
