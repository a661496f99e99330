"""Ctrl-C ends a verb that reads what does not end."""

from __future__ import annotations

import signal
import subprocess

import pytest

from cockpit.verbs.common import INTERRUPTED
from tests.verbs.tiny_run import command


@pytest.mark.parametrize("verb", ["backtest", "plot", "progress", "triage"])
def test_one_ctrl_c_ends_what_reads_rows_that_do_not_end(verb: str) -> None:
    """An event loop takes the first one and hears it only where something is awaited."""
    reading = subprocess.Popen(
        command(verb, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reading.stdin is not None
    try:
        for step in range(20_000):  # more than a pipe holds: it is within the rows by then
            reading.stdin.write(b'{"step": %d, "loss": 2.5}\n' % step)
        reading.stdin.flush()
        reading.send_signal(signal.SIGINT)
        assert reading.wait(60.0) == INTERRUPTED
    finally:
        reading.kill()
        reading.communicate()
