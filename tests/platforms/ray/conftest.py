"""What all tests of Ray share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest

from cockpit.runtime import http


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once() -> Iterator[None]:
    """Reading them is most of what a client costs that asks one question."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_trust", lru_cache(http._trust))
        yield
