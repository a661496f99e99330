"""What all tests of Ray share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platforms.ray.real_head import RealHead, real_head


@pytest.fixture(scope="session")
def head() -> Iterator[RealHead]:
    """A real head for all tests that need one; they are skipped without a Ray."""
    with real_head(Path(os.environ["COCKPIT_RAY"])) as made:
        yield made
