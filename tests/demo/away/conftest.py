from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.demo import folder
from cockpit.demo.layout import DemoLayout


@pytest.fixture
def layout(tmp_path: Path) -> DemoLayout:
    made = DemoLayout(tmp_path / "demo")
    folder.take(made)
    return made
