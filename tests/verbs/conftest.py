from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verbs.tiny_run import TinyRun


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyRun]:
    run = TinyRun(tmp_path)
    yield run
    run.stop()
