"""Verbs for a screen: each in a process of its own, bounded, gone with the screen."""

from __future__ import annotations

from typing import Final, TypeVar

from pydantic import ValidationError

from cockpit.model.base import Printed
from cockpit.model.described import Description
from cockpit.model.history import Backtested
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean

WITHIN: Final = 120.0
"""Seconds that it may take: a million rows take about ten."""
OK, BLIND = 0, 3
"""Exit statuses with which a document is printed."""
MOST: Final = 16_000_000
"""Bytes that it may tell: some ten thousand alerts."""


DocumentT = TypeVar("DocumentT", bound=Printed)


async def replayed(run_file: str, run: str) -> Backtested:
    """Return which alerts the rules would have opened; raises ``OSError`` of one line.

    Cancelled, the process is killed: neither reading nor judging is done in this one.
    """
    return await _printed(Backtested, "backtest", run, "--config", run_file, "--json", "--curve")


async def described(run_file: str, run: str) -> Description:
    """Return what the run's own system tells of its job; raises ``OSError`` of one line."""
    return await _printed(Description, "describe", run, "--config", run_file, "--json")


async def _printed(shape: type[DocumentT], verb: str, run: str, *words: str) -> DocumentT:
    command = own_python("cockpit", verb, run, *words)
    done = await run_command(command, deadline=WITHIN, cap=MOST)
    if done.timed_out:
        raise OSError(0, f"it did not end within {WITHIN:.0f} s: cockpit {verb} {clean(run)}")
    if done.rc not in (OK, BLIND) or done.cut or not done.out:
        said = clean(done.err.decode("utf-8", "replace").strip().rpartition("\n")[2], 400)
        raise OSError(0, said or f"cockpit {verb} {clean(run)} ended with {done.rc}")
    try:
        return shape.model_validate_json(done.out)
    except ValidationError as error:
        raise OSError(0, f"cockpit {verb} printed something of an unexpected shape") from error
