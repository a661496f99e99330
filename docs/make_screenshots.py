"""Make docs/*.svg from real runs: starts the demo, waits for its situations, photographs the UI."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
SHOTS = {
    "fleet": ((200, 50), "cockpit-dark", ()),
    "fleet-80x24": ((80, 24), "cockpit-light", ()),
    "run": ((200, 50), "cockpit-dark", ("enter",)),
}


def stand_alone(drawing: str) -> str:
    """Return the drawing without fonts from elsewhere: the reader's own will do."""
    without = re.sub(r"@font-face\s*{[^}]*}", "", drawing)
    return re.sub(r"font-family:\s*Fira Code", f"font-family: {FONTS}", without)


async def photograph(config: Path, out: Path) -> None:
    """Open the UI on ``config`` in each size and theme and save what it shows."""
    from cockpit.app import CockpitApp
    from cockpit.config import load
    from cockpit.model.clock import SystemClock
    from cockpit.watch.engine import Engine

    for name, (size, theme, keys) in SHOTS.items():
        file = load(config)
        app = CockpitApp(file, Engine(file, store=None, clock=SystemClock()))
        async with app.run_test(size=size) as pilot:
            app.theme = theme
            await asyncio.sleep(6)
            await pilot.press(*keys)
            await asyncio.sleep(3)
            drawing = stand_alone(app.export_screenshot(title="cockpit"))
            (out / f"{name}.svg").write_text(drawing, encoding="utf-8")


def main() -> None:
    """Run the demo headless, keep it, photograph it, stop it."""
    with tempfile.TemporaryDirectory(prefix="cockpit-demo-") as folder:
        demo = [sys.executable, "-m", "cockpit", "demo", "--dir", f"{folder}/demo"]
        try:
            subprocess.run([*demo, "--headless", "--keep"], check=False, cwd=HERE.parent)
            asyncio.run(photograph(Path(folder) / "demo" / "cockpit.toml", HERE))
        finally:
            subprocess.run([*demo, "--clean"], check=False, cwd=HERE.parent)


if __name__ == "__main__":
    main()
