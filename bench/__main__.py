"""The table of all that was promised, or single benchmarks: ``python -m bench [NAME…]``.

Without names the table is printed (``--only SUBJECT…`` a part of it), and written as JSON with
``--json FILE``. With names these benchmarks are run one after another as they print themselves.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench import table

HERE = Path(__file__).parent
NO_BENCH = ("__init__", "__main__", "fleets", "table", "live", "program", "relay")
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NO_BENCH)


def main(arguments: list[str]) -> int:
    """Return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*NAMES, []])
    parser.add_argument("--only", nargs="+", choices=list(table.SUBJECTS), default=[])
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    if not args.names:
        return table.run(args.only or list(table.SUBJECTS), args.json)
    worst = 0
    for name in args.names:
        print(f"\n== {name}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
