"""What all tests of Ray share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from cockpit.runtime import http
from tests.platforms.ray.real_head import RealHead, real_head


@pytest.fixture(scope="session")
def head() -> Iterator[RealHead]:
    """A real head for all tests that need one; they are skipped without a Ray."""
    with real_head(Path(os.environ["COCKPIT_RAY"])) as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once() -> Iterator[None]:
    """Reading them is most of what a client costs that asks one question."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_trust", lru_cache(http._trust))
        yield
