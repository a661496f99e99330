"""What starting and leaving take: the first frame, new and kept; ``--version``, ``check``; ``q``.

Beside each its baseline, one after the other in the same run: a bare Textual app, an interpreter
that does nothing, one that imports httpx and pydantic. The shortest of some tries counts: what
makes one longer is the machine's.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.live import ROOT, Pace, feeding, make_live, name_of
from bench.program import Program, bare, cockpit, environment, opened
from cockpit.runtime.own_path import OWN

SIZE: Final = (120, 40)
RUNS: Final = 12
PATIENCE: Final = 30
"""Seconds for which a fleet is waited for on a busy machine."""


def compile_own() -> None:
    """Compile our modules, as an installation does: a fresh clone may never have been run.

    Where Python may write no bytecode (``PYTHONDONTWRITEBYTECODE``) each start compiled them anew.
    """
    for name in OWN:
        compileall.compile_dir(ROOT / name, quiet=2)


def painted(start: Callable[[], Program]) -> float:
    """Return the milliseconds until a program shows its first run; it is left then."""
    program = start()
    program.terminal.wait_for(name_of(0))
    taken = 1000 * (time.perf_counter() - program.began)
    program.terminal.idle(2.0)
    for _ in range(PATIENCE):  # what nobody has looked at yet is not kept
        if "not read yet" not in program.terminal.screen.text():
            break
        program.terminal.idle(1.0)
    program.leave()
    return taken


def ended(argv: list[str], env: dict[str, str]) -> float:
    """Return the milliseconds that a command takes."""
    began = time.perf_counter()
    subprocess.run(argv, env={**os.environ, **env}, capture_output=True, check=False, timeout=60)
    return 1000 * (time.perf_counter() - began)


def frames(tries: int) -> dict[str, float]:
    """Return the first frames: of a bare app, of a fleet seen first, of one seen before."""
    taken: dict[str, list[float]] = {"bare_paint": [], "live_paint": [], "kept_paint": []}
    for _ in range(tries):
        with tempfile.TemporaryDirectory(prefix="ck") as name:
            began = time.perf_counter()
            with bare(Path(name), SIZE):
                taken["bare_paint"].append(1000 * (time.perf_counter() - began))
        with tempfile.TemporaryDirectory(prefix="ck") as name:
            config = make_live(Path(name), RUNS, Pace())
            argv = cockpit("open", "--config", str(config))
            with feeding(config.parent, RUNS, Pace()):
                for what in ("live_paint", "kept_paint"):
                    start = lambda: Program(argv, config.parent, SIZE)  # noqa: B023, E731
                    taken[what].append(painted(start))
    return {f"{what}_ms": min(each) for what, each in taken.items()}


def commands(tries: int) -> dict[str, float]:
    """Return what commands take beside interpreters that do less."""
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        config = make_live(Path(name), 1, Pace())
        env = environment(config.parent)
        plain = [sys.executable, "-c"]
        asked = {
            "pass": [*plain, "pass"],
            "version": cockpit("--version"),
            "imports": [*plain, "import httpx, pydantic"],
            "check": cockpit("check", "--config", str(config)),
        }
        with feeding(config.parent, 1, Pace()):
            taken = {what: [ended(argv, env) for _ in range(tries)] for what, argv in asked.items()}
    found = {f"{what}_ms": min(each) for what, each in taken.items()}
    return found | {"version_limit_ms": 2 * found["pass_ms"] + 60}


def leaving(tries: int) -> float:
    """Return the milliseconds of leaving while the engine hangs, and every source with it."""
    taken = []
    for _ in range(tries):
        with tempfile.TemporaryDirectory(prefix="ck") as name:
            config = make_live(Path(name), RUNS, Pace())
            with opened(config, SIZE, name_of(0)) as program:
                program.terminal.idle(4.0)
                engines = [int(each.name) for each in program.processes()
                           if int(each.name) != program.terminal.pid]  # fmt: skip
                for pid in engines:
                    os.kill(pid, signal.SIGSTOP)
                taken.append(1000 * program.leave())
                for pid in engines:
                    os.kill(pid, signal.SIGKILL)
    return min(taken)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ.pop("NO_COLOR", None)
    compile_own()
    found = frames(args.tries) | commands(args.tries) | {"leave_ms": leaving(3)}
    if args.json:
        print(json.dumps(found))
        return
    for key, figure in found.items():
        print(f"{key:<20}{figure:>10.0f} ms")


if __name__ == "__main__":
    main()
