from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platforms.local.zoo import Zoo


@pytest.fixture
def zoo(tmp_path: Path) -> Iterator[Zoo]:
    found = Zoo(tmp_path)
    yield found
    found.end()
