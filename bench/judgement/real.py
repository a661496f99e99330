"""Score triage and progress on a folder of real logs: ``python -m bench.judgement.real DIR``.

``DIR`` holds ``index.jsonl`` and, for each of its entries, ``<id>.log``. An entry has ``id``,
``state``, ``exit_code``, ``label`` and ``action``, ``alt_labels`` and ``alt_actions`` (as right),
and ``progress``: ``-`` for none, or ``step,max,loss`` of the last line of progress, in which ``*``
was not checked, ``null`` is not shown, and ``~`` marks a rounded figure.

Splices put the end of one log behind the beginning of another. The truth is that of the end; the
one figure that counts is how often a relaunch was advised, as sure, where it was wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.judgement.labelled import Entry, Score, entries  # noqa: E402
from cockpit.model.observed import Triage  # noqa: E402
from cockpit.rules.triage.classify import diagnose  # noqa: E402
from cockpit.sources.logs.present import read_stream  # noqa: E402
from cockpit.text.progress import LineProgress  # noqa: E402
from cockpit.text.progress_lines import read_training  # noqa: E402
from cockpit.verbs.reading import opened, whole_chunks  # noqa: E402

LINES: tuple[int, int] = (20, 80)
"""Lines of an end that is put behind another log's beginning, at least and at most."""
SHARE: tuple[float, float] = (0.05, 0.6)
"""Share of the other log's lines that stand before it, at least and at most."""
NEAR = 0.01
"""Share by which a rounded figure may differ."""


class Answer(NamedTuple):
    """What was said of one log."""

    entry: Entry
    found: Triage
    bare: Triage
    """What was said without a state."""
    progress: LineProgress | None
    seconds: float
    """Seconds for each MB that triage took."""
    progress_seconds: float


@dataclass
class Scores:
    """Figures of a folder."""

    classes: Score = field(default_factory=Score)
    actions: Score = field(default_factory=Score)
    healthy: Score = field(default_factory=Score)
    """Running logs that nothing is wrong with, by their action."""
    unstated: Score = field(default_factory=Score)
    """Logs that ended well, or run, of which no relaunch is advised without a state."""
    progress: Score = field(default_factory=Score)
    dangerous: list[str] = field(default_factory=list)


def judged(path: Path, state: str, exit_code: int | None) -> Triage:
    """Return what ``cockpit triage`` says of a file."""
    with opened(str(path)) as file:
        return diagnose(read_stream(file), state, exit_code)


def answered(folder: Path, entry: Entry) -> Answer:
    """Read one log as the verbs do."""
    path = folder / f"{entry['id']}.log"
    began = time.process_time()
    found = judged(path, entry["state"], entry["exit_code"])
    took = time.process_time() - began
    bare = judged(path, "unknown", None)
    began = time.process_time()
    last = None
    with opened(str(path)) as file:
        for _, told in read_training(whole_chunks(file)):
            last = told
    size = max(path.stat().st_size / 1e6, 0.02)
    return Answer(entry, found, bare, last, took / size, (time.process_time() - began) / size)


def labels(entry: Entry) -> tuple[str, ...]:
    """Return the classes that are right."""
    return (entry["label"], *entry.get("alt_labels", ()))


def actions(entry: Entry) -> tuple[str, ...]:
    """Return the actions that are right."""
    return (entry["action"], *entry.get("alt_actions", ()))


def scored(answers: Sequence[Answer]) -> Scores:
    """Count what is right."""
    found = Scores()
    for entry, told, bare, last, *_ in answers:
        where = (
            f"{entry['id']} ({entry['state']}): {entry['label']}/{entry['action']} read as "
            f"{told.name}/{told.action}/{told.confidence}"
        )
        found.classes.add(told.name in labels(entry), where)
        right = told.action in actions(entry)
        found.actions.add(right, where)
        if entry["state"] == "running" and entry["label"] == "harmless_noise":
            found.healthy.add(right, where)
        if not right and told.action in ("relaunch", "none"):
            found.dangerous.append(where)
        if "none" in actions(entry):
            said = f"{entry['id']}: {bare.name}/{bare.action}/{bare.confidence} without a state"
            found.unstated.add("relaunch" not in bare.action, said)
        want = entry.get("progress", "-")
        if want != "-":
            shown = "nothing" if last is None else json.dumps(last.to_json())
            found.progress.add(_is_progress(want, last), f"{entry['id']}: {want} read as {shown}")
    return found


def _is_progress(want: str, last: LineProgress | None) -> bool:
    if last is None:
        return False
    said = (last.step if last.step_exact else last.step_shown,
            last.max_shown if last.max_step is None else last.max_step, last.loss)  # fmt: skip
    parts = want.split(",")
    return parts == ["*"] or all(map(_is_figure, parts, said))


def _is_figure(want: str, got: object) -> bool:
    if want == "*":
        return True
    if want == "null" or got is None:
        return want == "null" and got is None
    text = str(got)
    scale = {"k": 1e3, "K": 1e3, "M": 1e6}.get(text[-1], 1.0)
    value = float(text.rstrip("kKM")) * scale
    rough = NEAR if want.endswith("~") else 1e-6
    return math.isclose(value, float(want.rstrip("~")), rel_tol=rough)


def splices(
    folder: Path, known: Sequence[Entry], number: int, seed: int
) -> Iterator[tuple[Entry, str]]:
    """Yield logs that begin as one and end as another, with the truth of the end."""
    dice = random.Random(seed)
    ends = [entry for entry in known if entry["state"] in ("failed", "cancelled")]
    for _ in range(number):
        end = dice.choice(ends)
        begin = dice.choice([entry for entry in known if entry is not end])
        first = _lines(folder, begin)
        first = first[: max(1, int(len(first) * dice.uniform(*SHARE)))]
        last = _lines(folder, end)[-dice.randint(*LINES) :]
        name = f"{begin['id']}[:{len(first)}]+{end['id']}[-{len(last)}:]"
        yield {**end, "id": name}, "".join((*first, *last))


def _lines(folder: Path, entry: Entry) -> list[str]:
    data = (folder / f"{entry['id']}.log").read_bytes()
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [f"{line}\n" for line in lines]


def spliced(folder: Path, known: Sequence[Entry], number: int, seed: int) -> dict[str, list[str]]:
    """Return what was said of splices that is wrong: of the action, and what is worse."""
    wrong: dict[str, list[str]] = {"action": [], "relaunch": [], "sure relaunch": []}
    with tempfile.TemporaryDirectory(prefix="splice-") as name:
        path = Path(name) / "log"
        for entry, text in splices(folder, known, number, seed):
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            found = judged(path, entry["state"], entry["exit_code"])
            if found.action in actions(entry):
                continue
            answer = f"{found.name}/{found.action}/{found.confidence}"
            said = f"{entry['id']}: {entry['label']} read as {answer}"
            wrong["action"].append(said)
            if found.action == "relaunch":
                wrong["relaunch"].append(said)
                if found.confidence == "sure":
                    wrong["sure relaunch"].append(said)
    return wrong


def report(answers: Sequence[Answer], wrong: dict[str, list[str]], number: int) -> str:
    """Return the figures as text, with what is wrong below them."""
    found = scored(answers)
    rows: list[tuple[str, Any]] = [
        ("class", found.classes),
        ("action", found.actions),
        ("running and healthy", found.healthy),
        ("no relaunch without a state", found.unstated),
        ("progress", found.progress),
    ]
    lines = [f"{name}: {s.right} of {s.of} ({s.share:.0%})" for name, s in rows]
    lines.append(f"dangerous: {len(found.dangerous)}")
    lines += [f"splices, wrong {name}: {len(each)} of {number}" for name, each in wrong.items()]
    slow = sorted(answers, key=lambda each: -each.seconds)[:3]
    lines += [f"{each.entry['id']}: {each.seconds:.2f} s/MB" for each in slow]
    slow = sorted(answers, key=lambda each: -each.progress_seconds)[:3]
    lines += [f"{each.entry['id']}: progress {each.progress_seconds:.2f} s/MB" for each in slow]
    for name, score in rows:
        lines += [f"  {name} {each}" for each in score.wrong]
    lines += [f"  splice {each}" for each in (*wrong["relaunch"], *wrong["action"])]
    return "\n".join(lines)


def main() -> int:
    """Print the figures of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--splices", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    known = entries(args.folder, "index.jsonl")
    answers = [answered(args.folder, entry) for entry in known]
    print(report(answers, spliced(args.folder, known, args.splices, args.seed), args.splices))
    return 0


if __name__ == "__main__":
    sys.exit(main())
