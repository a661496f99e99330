"""What every test of Iris has: certificates that are read once, and short pauses between tries."""

from __future__ import annotations

import functools

import pytest

from cockpit.runtime import http

_read_once = functools.cache(http._trust)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_trust", _read_once)
    monkeypatch.setattr(http, "BACK_OFF", 0.01)
