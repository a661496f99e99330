"""Where the details of an internal error are kept: a file only its owner can read."""

from __future__ import annotations

import os
import traceback
from datetime import UTC, datetime
from pathlib import Path

from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

KEPT = 20


def write_details(error: BaseException, folder: Path, now: float) -> Path | None:
    """Write the traceback (no local variables, secrets masked) to a 0600 file; return its path.

    Returns ``None`` if it cannot be written: a fault while reporting a fault is not reported.
    """
    stamp = datetime.fromtimestamp(now, tz=UTC).strftime("%Y%m%d-%H%M%S")
    path = folder / f"{stamp}-{os.getpid()}.txt"
    text = scrub("".join(traceback.format_exception(error)))
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        for old in sorted(folder.glob("*.txt"))[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path


def told(error: BaseException, folder: Path, now: float) -> str:
    """Return the one line about what ended some work; a fault's details are kept in ``folder``.

    Work that waits for a file, a program or a machine which does not answer is no fault.
    """
    if isinstance(error, TimeoutError):
        why = scrub(clean(error)) or "it took too long"
        return f"no answer in time: {why}"
    return fault_line(error, write_details(error, folder, now))


def fault_line(error: BaseException, details: Path | None) -> str:
    """Return the one line that a person sees: what, and where the details lie."""
    where = f"details in {details}" if details is not None else "details could not be written"
    return f"an internal error: {type(error).__name__}; {where}"
