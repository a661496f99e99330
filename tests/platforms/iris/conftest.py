"""What every test of Iris has: short pauses between tries, and time enough on a busy machine."""

from __future__ import annotations

import os

import pytest

from cockpit.platforms.iris import acting, jobs, lookup
from cockpit.runtime import http


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BACK_OFF", 0.01)
    monkeypatch.setattr(jobs, "QUICK", jobs.PATIENT)
    monkeypatch.setattr(jobs, "DETAILS", 30.0)
    mine = f"COCKPIT_SUBMITS_{os.getpid()}"  # other tests launch under the same ids meanwhile
    monkeypatch.setattr(lookup, "SUBMITS", mine)
    monkeypatch.setattr(acting, "SUBMITS", mine)
