"""Make docs/*.svg from real runs: starts the demo, waits for its situations, photographs the UI."""

from __future__ import annotations

import asyncio
import os
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
    "run-120x40": ((120, 40), "cockpit-light", ("enter",)),
    "plan": ((120, 40), "cockpit-dark", ("slash", *"torn", "enter", "r")),
}


def stand_alone(drawing: str) -> str:
    """Return the drawing with the reader's own fonts, and with short names inside."""
    without = re.sub(r"@font-face\s*{[^}]*}", "", drawing)
    without = re.sub(r"terminal-\d+-", "t", without)
    without = without.replace(' shape-rendering="crispEdges"', "")
    without = without.replace("<svg ", '<svg shape-rendering="crispEdges" ', 1)  # once, for all
    return re.sub(r"font-family:\s*Fira Code", f"font-family: {FONTS}", without)


async def photograph(config: Path, out: Path) -> None:
    """Open the UI on ``config`` in each size and theme and save what it shows."""
    from cockpit.app.application import CockpitApp
    from cockpit.app.opening import make
    from cockpit.config.file import load

    for name, (size, theme, keys) in SHOTS.items():
        file = load(config)
        made = make(file, read_only=False)
        app = CockpitApp(file, made.engine, means=made.means)
        async with app.run_test(size=size) as pilot:
            app.theme = theme
            await asyncio.sleep(6)
            await pilot.press(*keys)
            await asyncio.sleep(3)
            drawing = stand_alone(app.export_screenshot(title="cockpit"))
            (out / f"{name}.svg").write_text(drawing, encoding="utf-8")


def interpreter(folder: Path) -> str:
    """Return this Python under a name in ``folder``: plans show it, and no machine's own paths."""
    (folder / "venv").symlink_to(sys.prefix)
    return str(folder / "venv" / "bin" / "python")


def main() -> None:
    """Run the demo headless, keep it, photograph it, stop it."""
    with tempfile.TemporaryDirectory(prefix="cockpit-demo-") as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        python = interpreter(Path(folder))
        demo = [python, "-m", "cockpit", "demo", "--dir", f"{folder}/demo"]
        try:
            subprocess.run([*demo, "--headless", "--keep"], check=False, cwd=HERE.parent)
            asyncio.run(photograph(Path(folder) / "demo" / "cockpit.toml", HERE))
        finally:
            subprocess.run([*demo, "--clean"], check=False, cwd=HERE.parent)


if __name__ == "__main__":
    main()
