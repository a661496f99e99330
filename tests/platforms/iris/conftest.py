"""What every test of Iris has: certificates that are read once, short pauses between tries, and
time enough on a busy machine.
"""

from __future__ import annotations

import functools
import os

import pytest

from cockpit.platforms.iris import jobs, lookup, submitting
from cockpit.runtime import http

_read_once = functools.cache(http._trust)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_trust", _read_once)
    monkeypatch.setattr(http, "BACK_OFF", 0.01)
    monkeypatch.setattr(jobs, "QUICK", jobs.PATIENT)
    monkeypatch.setattr(jobs, "DETAILS", 30.0)
    mine = f"COCKPIT_SUBMITS_{os.getpid()}"  # other tests launch under the same ids meanwhile
    monkeypatch.setattr(lookup, "SUBMITS", mine)
    monkeypatch.setattr(submitting, "SUBMITS", mine)
