"""Score the cockpit's judgement: ``python -m bench.judgement [--material DIR] [--only WORD]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.judgement import labelled, tables  # noqa: E402
from bench.judgement.playing import BROKEN, Played, play  # noqa: E402
from bench.judgement.polled import polled  # noqa: E402
from bench.judgement.scenarios import ALL  # noqa: E402

A = TypeVar("A")
B = TypeVar("B")

SECRETS = "secrets"
NOTHING = "There is no such material here."
ABOUT = """\
# What the judgement is worth

Made by `make judgement` (`python -m bench.judgement --seed {seed}`); nobody edits this file.
Formats and words are in [README.md](README.md).

**What of it is synthetic.** The labelled material in this folder was written by us: logs and lines
as the mechanisms print them, curves made by functions. The generated runs are synthetic from end
to end: their trainer is a function with noise, their `.wandb` files are written by the tests'
writer of the client's format, their Slurm is its commands' output. Real are the sources that read
them, the folds, the rules, the judge. They show that a condition is seen at all, in time, and that
its look-alikes are not; they do not show how often real runs look otherwise. Looks come every 15
minutes; the allowed delay is what the condition's window takes, and one look. Disks of a machine,
GPUs, online W&B, buckets, hosts behind ssh, Ray and Iris are not among what is generated.
Part of the labelled material was written blind, and what it found was mended since: its scores
here tell of no new log. How it scored at first contact stands in [README.md](README.md).
"""


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--material", type=Path, default=labelled.HERE, metavar="DIR")
    parser.add_argument(
        "--only", default="", metavar="WORD", help=f"{SECRETS}, or generated runs: part of a name"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", type=Path, metavar="FILE", help="write the tables there, too")
    parser.add_argument("--no-runs", action="store_true", help="labelled material alone")
    return parser.parse_args()


def read(folder: Path) -> list[str]:
    """Return the tables of a folder's labelled material; of what is not there, that it is not."""
    logs = labelled.entries(folder, "logs.jsonl", "triage.jsonl")
    lines = labelled.entries(folder, "progress.jsonl")
    with tempfile.TemporaryDirectory(prefix="judge-") as name:
        histories = list(labelled.histories_of(folder, Path(name)))
        by_row = labelled.alarmed(histories, partial(on_all_cores, labelled.replayed))
        by_look = labelled.alarmed(histories, partial(on_all_cores, polled))
    return [
        "## Logs\n\n" + (tables.triage_part(labelled.triaged(logs)) if logs else NOTHING),
        "## Progress lines\n\n"
        + (tables.progress_part(*labelled.read_progress(lines)) if lines else NOTHING),
        read_secrets(folder),
        "## Loss histories, judged row by row\n\n"
        + (tables.alarms_part(by_row) if histories else NOTHING),
        "## Loss histories, watched: a look every 90 rows\n\n"
        + (tables.alarms_part(by_look) if histories else NOTHING),
    ]


def read_secrets(folder: Path) -> str:
    """Return the table of what is masked, and of what is although it is harmless."""
    names = ("secrets.jsonl", "secrets_neg.jsonl")
    texts = [each for name in names for each in labelled.entries(folder, name)]
    return "## Secrets\n\n" + (tables.secrets_part(*labelled.scrubbed(texts)) if texts else NOTHING)


def on_all_cores(work: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """Return what work makes of each item, in their order."""
    with ProcessPoolExecutor(max(1, min(len(items), os.cpu_count() or 1))) as pool:
        return list(pool.map(work, items))


def numbered(seed: int, number: int) -> Played:
    """Play the scenario of that number."""
    return play(ALL[number], seed * 1000 + number)


def generated(numbers: Sequence[int], seed: int) -> list[Played]:
    """Play scenarios on all cores, the longest first; return them in their own order."""
    order = sorted(numbers, key=lambda number: -ALL[number].lasts)
    played = dict(zip(order, on_all_cores(partial(numbered, seed), order), strict=True))
    return [played[number] for number in numbers]


def main() -> int:
    """Print the tables; 1 if a fault in the cockpit itself kept a run from being judged."""
    args, began = arguments(), time.monotonic()
    if args.only == SECRETS:
        print(read_secrets(args.material))
        return 0
    with tempfile.TemporaryDirectory(prefix="judge-") as name:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_RUNTIME_DIR"] = name
        parts = [ABOUT.format(seed=args.seed), *read(args.material)]
        wanted = [number for number, each in enumerate(ALL) if args.only in each.name]
        played = [] if args.no_runs else generated(wanted, args.seed)
    if played:
        parts.append("## Generated runs\n\n" + tables.generated_part(played))
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    print(text)
    if args.into is not None:
        args.into.write_text(text, encoding="utf-8")
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    return int(any(each.outcome == BROKEN for each in played))


if __name__ == "__main__":
    sys.exit(main())
