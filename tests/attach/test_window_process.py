"""The process that paints imports nothing that reads, parses or judges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOREIGN = ("cockpit.sources", "cockpit.rules", "cockpit.watch", "cockpit.services")
PROGRAM = """
import asyncio, sys
from pathlib import Path
from cockpit.app.application import CockpitApp
from cockpit.app.opening import make
from cockpit.config.file import load
from screens.mask import Mask

async def until(pilot, true):
    async with asyncio.timeout(60):
        while not true():
            await pilot.pause(0.05)

def text_of(app):
    return "\\n".join(strip.text for strip in app.screen._compositor.render_strips())

async def main():
    file = load(Path(sys.argv[1]))
    made = make(file, False)
    app = CockpitApp(file, made.engine, means=made.means)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: made.engine.attached)
        await until(pilot, lambda: app.reports[0].facets.log.known)
        await pilot.press("enter")
        await until(pilot, lambda: "step 2" in text_of(app))
        for key in "12346":  # 5, the timeline, is the journal that the guarded service reads
            await pilot.press(key)
        await pilot.press("1", "slash", *"loss", "enter")
        await pilot.pause(0.5)
        await pilot.press("escape", "escape", "colon", "escape", "question_mark", "escape")
    Mask.of(file, {"ada"}, None)  # as for a shared screen
    print("\\n".join(name for name in sys.modules if name.startswith("cockpit")))

asyncio.run(main())
"""
RUN_FILE = """
[cockpit]
operator = "ada"
[[run]]
name = "one"
output_root = "{root}"
[run.job]
kind = "local"
log = "{root}/run.log"
"""


def test_a_window_imports_no_source_and_no_rule(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("step 1 loss 2.5\nstep 2 loss 2.25\n")
    path = tmp_path / "cockpit.toml"
    path.write_text(RUN_FILE.format(root=tmp_path))
    words = (sys.executable, "-c", PROGRAM, str(path))
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    names = done.stdout.split()
    assert {"cockpit.attach.client", "cockpit.platforms.kinds"} <= set(names)
    assert [name for name in names if name.startswith(FOREIGN)] == []
