"""Run every benchmark (or those named) one after another: ``python -m bench [NAME…]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NAMES = sorted(
    path.stem
    for path in Path(__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "__main__")
)


def main(names: list[str]) -> int:
    """Run each benchmark in a fresh process, so that memory figures stay apart."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    worst = 0
    for name in names or NAMES:
        print(f"\n== {name}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
