"""What is loaded before something is seen: a heavy module that comes back there is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pydantic", "textual", "rich.console", "asyncio", "sqlite3", "ssl", "httpx", "argparse")
LATER = (
    *("apprise", "git", "httpx", "plotext", "wandb", "obstore"),
    *("cockpit.actions.core.table", "cockpit.actions.core.wiring", "cockpit.notify"),
    *("cockpit.model.history", "cockpit.rules", "cockpit.sources", "cockpit.watch"),
    *("screens.acting.offers", "screens.acting.palette", "screens.acting.plan", "screens.backtest"),
    *("screens.help", "screens.mask", "screens.past", "screens.run", "screens.welcome"),
    *("widgets.log_view", "widgets.metric_charts", "widgets.painting.chart"),
)
WAYS = {
    "the kept frame": ("import cockpit.app.frames.early", PACKAGES),
    "the first live paint": (
        "import cockpit.app.opening, cockpit.attach.client, cockpit.actions.core.open_plans",
        LATER,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_heavy_is_loaded_before(way: str) -> None:
    begin, heavy = WAYS[way]
    program = f"{begin}\nimport sys\nprint(*(each for each in {heavy!r} if each in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_version_is_told_by_almost_nothing() -> None:
    words = [sys.executable, "-X", "importtime", str(ROOT / "run_cockpit.py"), "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout.startswith("cockpit ")
    assert {"cockpit", "cockpit.__main__"} <= loaded
    assert not loaded & {*PACKAGES, "cockpit.cli", "json", "typing"}


def test_annotations_of_values_are_no_strings() -> None:
    """Pydantic compiles and evaluates every one that is, at every start."""
    values = [each for each in (ROOT / "cockpit/model").glob("*.py") if each.name != "base.py"]
    defining = {each.name: each.read_text() for each in values if "(Frozen" in each.read_text()}
    assert len(defining) > 20
    assert [name for name, text in defining.items() if "import annotations" in text] == []
