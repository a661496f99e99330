"""A backtest for a screen: the verb in a process of its own, bounded, gone with the screen."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from cockpit.model.history import Backtested
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean

WITHIN: Final = 120.0
"""Seconds that it may take: a million rows take about ten."""
MOST: Final = 16_000_000
"""Bytes that it may tell: some ten thousand alerts."""


async def replayed(run_file: str, run: str) -> Backtested:
    """Return which alerts the rules would have opened; raises ``OSError`` of one line.

    Cancelled, the process is killed: neither reading nor judging is done in this one.
    """
    words = ("backtest", run, "--config", run_file, "--json", "--curve")
    done = await run_command(own_python("cockpit", *words), deadline=WITHIN, cap=MOST)
    if done.timed_out:
        raise OSError(0, f"it did not end within {WITHIN:.0f} s: cockpit backtest {clean(run)}")
    if not done.ok or done.cut:
        said = clean(done.err.decode("utf-8", "replace").strip().rpartition("\n")[2], 400)
        raise OSError(0, said or f"cockpit backtest {clean(run)} ended with {done.rc}")
    try:
        return Backtested.model_validate_json(done.out)
    except ValidationError as error:
        raise OSError(0, "cockpit backtest printed something of an unexpected shape") from error
