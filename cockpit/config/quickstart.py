"""Import much, quickly: the first paint waits for it.

Nothing here may change what is imported, only what it takes.
"""

from __future__ import annotations

import gc
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


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
        with annotations_compiled_once():
            yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@contextmanager
def annotations_compiled_once() -> Iterator[None]:
    """Compile each text that is an annotation once, however many fields have it.

    ``typing`` compiles every one to see whether it is an expression: 1,200 at a start, of which
    300 differ, pydantic's own most of all.
    """
    vars(typing)["compile"] = cache(compile)  # as a global of its own it comes before the builtin
    try:
        yield
    finally:
        vars(typing).pop("compile", None)


def collect_again() -> None:
    """Have garbage collected, if a start has put that off: it is over, something is seen.

    All that is there by now is set apart: most of it stays.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
