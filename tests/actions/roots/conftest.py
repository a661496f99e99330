"""A bucket of the tests' own, asked as the user's own would be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.runtime import buckets
from cockpit.sources.checkpoints import source
from tests.sources.checkpoints.store_server import ObjectStore, serving, variables


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    """Serve a store on loopback, with the variables that lead there."""
    with serving(ObjectStore()) as served:
        monkeypatch.setattr(buckets, "TIMEOUT", 30.0)  # however busy this machine is
        monkeypatch.setattr(source, "AT_FIRST", 60.0)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name, value in variables(served.url).items():
            monkeypatch.setenv(name, value)
        yield served
