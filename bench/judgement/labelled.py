"""Labelled material read by the verbs, and how right they are."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.judgement.filled import filled
from bench.judgement.noise import unfolded
from cockpit.cli import main
from cockpit.verbs.scrub import copy
from cockpit.verbs.triage import STATES

HERE = Path(__file__).parent
Entry = Mapping[str, Any]
Told = Sequence[Entry]
"""What opened in one history: ``id`` and ``opened_step``."""
WANTED = {"spike": "C-11", "diverged": "C-11", "nan": "C-09"}
"""What a label of a history claims."""
NUMERIC = ("C-05", "C-09", "C-10", "C-11")
AFTERMATH = 200
"""Rows after an event in which what it has brought about may still open."""
LIKE = 1e-6
HALF = 8
"""Characters of half a secret that by themselves would be too many to be left."""
PROGRESS = ("step", "step_exact", "max_step", "loss", "throughput", "scope")


@dataclass
class Score:
    """So many of so many, and each one that is wrong, in a line."""

    right: int = 0
    of: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, right: bool, otherwise: str) -> None:
        """Count one."""
        self.of += 1
        self.right += right
        if not right:
            self.wrong.append(otherwise)

    @property
    def share(self) -> float:
        """Return the share that is right; of nothing, all of it."""
        return self.right / self.of if self.of else 1.0


@dataclass
class Triaged:
    """Triage: classes, actions, and wrong actions that do harm (a relaunch or nothing at all)."""

    classes: Score = field(default_factory=Score)
    actions: Score = field(default_factory=Score)
    dangerous: list[str] = field(default_factory=list)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass
class Alarms:
    """Alarms on histories, row by row: events found, false ones, by label; delays in rows."""

    events: Score = field(default_factory=Score)
    false: list[str] = field(default_factory=list)
    rows: int = 0
    delays: list[int] = field(default_factory=list)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    synthetic: int = 0
    of: int = 0

    @property
    def per_10k(self) -> float:
        """Return the false alarms in 10,000 rows in which nothing was wrong."""
        return 1e4 * len(self.false) / self.rows if self.rows else 0.0


def entries(folder: Path, *names: str) -> list[Entry]:
    """Return the entries of the first file of these names that a folder has."""
    for name in names:
        path = folder / name
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            return [json.loads(line) for line in lines if line.strip()]
    return []


def said(*words: str) -> Any:  # noqa: ANN401 - a JSON document
    """Return the document that a verb of the command line prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*words, "--json"])
    if code != 0:
        raise ValueError(f"cockpit {' '.join(words)}: exit code {code}")
    return json.loads(out.getvalue())


@contextlib.contextmanager
def written(text: str) -> Iterator[str]:
    """Yield the name of a file that holds ``text`` byte by byte."""
    with tempfile.TemporaryDirectory(prefix="judge-") as name:
        path = Path(name) / "material"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        yield str(path)


def triaged(logs: Iterable[Entry]) -> Triaged:
    """Return how right ``cockpit triage`` is."""
    found = Triaged()
    for log in logs:
        state = log["observed_state"] if log["observed_state"] in STATES else "failed"
        code = log.get("exit_code")
        exit_words = () if code is None else ("--exit-code", str(code))
        with written(unfolded(log["text"], log["id"])) as path:
            answer = said("triage", path, "--state", state, *exit_words)
        label, action = answer["class"], answer["action"]
        classes = (log["label"], *log.get("alt_labels", ()))
        actions = (log["action"], *log.get("alt_actions", ()))
        where = f"{log['id']} ({state}): {log['label']}/{log['action']} read as {label}/{action}"
        found.classes.add(label in classes, where)
        found.actions.add(action in actions, where)
        found.confusion[log["label"], log["label"] if label in classes else label] += 1
        if action not in actions and action in ("relaunch", "none"):
            found.dangerous.append(where)
    return found


def read_progress(lines: Iterable[Entry]) -> tuple[Score, dict[str, Score]]:
    """Return how right ``cockpit progress`` is: what is progress at all, and each field of it."""
    told, fields = Score(), {name: Score() for name in PROGRESS}
    for line in lines:
        with written(line["text"]) as path:
            found = said("progress", path)
        is_progress = bool(found)
        told.add(is_progress == line["is_training_progress"], f"{line['id']}: {is_progress}")
        if not line["is_training_progress"]:
            continue
        for name, score in fields.items():
            want, got = _pair(name, line, found[-1] if found else {})
            score.add(_same(want, got), f"{line['id']} {name}: {want} read as {got}")
    return told, fields


def _pair(name: str, line: Entry, got: Entry) -> tuple[object, object]:
    if name != "throughput":
        return line.get(name), got.get(name)
    rate = line.get("throughput")
    want = None if rate is None else (rate["value"], rate["unit"])
    value = got.get("throughput")
    return want, None if value is None else (value, got.get("unit"))


def _same(want: object, got: object) -> bool:
    if isinstance(want, tuple) and isinstance(got, tuple):
        return _same(want[0], got[0]) and want[1] == got[1]
    if isinstance(want, float | int) and isinstance(got, float | int):
        return math.isclose(want, got, rel_tol=LIKE, abs_tol=1e-12)
    return want == got


def scrubbed(texts: Iterable[Entry]) -> tuple[Score, Score]:
    """Return how many secrets ``cockpit scrub`` masks, and how many harmless texts it leaves."""
    masked, left = Score(), Score()
    for number, each in enumerate(map(filled, texts)):
        out = io.BytesIO()
        copy(io.BytesIO(each["text"].encode()), out)  # type: ignore[arg-type]
        text, name = out.getvalue().decode(), str(each.get("id", number))
        for secret in each.get("secrets", ()):
            masked.add(_is_gone(secret, text), f"{name}: a secret is still there")
        if not each.get("secrets"):
            left.add(text == each["text"], f"{name}: {text[:80]!r}")
    return masked, left


def _is_gone(secret: str, text: str) -> bool:
    """Return whether neither a secret nor one half of a long one is left."""
    half = len(secret) // 2
    parts = [secret[:half], secret[half:]] if half >= HALF else [secret]
    return not any(part in text for part in parts)


def replayed(path: str) -> list[Entry]:
    """Return what ``cockpit backtest`` says of a history."""
    return list(said("backtest", path)["alerts"])


def alarmed(
    histories: Iterable[tuple[Entry, str]], answers: Callable[[Sequence[str]], Iterable[Told]]
) -> Alarms:
    """Return how right alarms are; each history with the name of the file of its rows.

    ``answers`` gives what was opened in each file, in their order.
    """
    found, both = Alarms(), list(histories)
    for (entry, path), told in zip(both, answers([path for _, path in both]), strict=True):
        opened = [each for each in told if each["id"] in NUMERIC]
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        steps = [json.loads(line)["step"] for line in lines]
        found.of += 1
        found.synthetic += bool(entry.get("synthetic", True))
        _one(entry, opened, steps, found)
    return found


def _one(entry: Entry, opened: Sequence[Entry], steps: Sequence[int], found: Alarms) -> None:
    wanted, events = WANTED.get(entry["label"]), spans(entry.get("where") or [])
    if wanted is None or not events:
        events = []
    inside = [sum(first <= step <= last for step in steps) for first, last in events]
    found.rows += len(steps) - sum(inside)
    reach = [(first, _later(steps, last, AFTERMATH)) for first, last in events]
    for each in opened:
        at = each["opened_step"]
        if not any(first <= at <= last for first, last in reach):
            found.false.append(f"{entry['name']} ({entry['label']}): {each['id']} at {at}")
            found.confusion[entry["label"], each["id"]] += 1
    for first, last in reach:
        hits = [e["opened_step"] for e in opened if e["id"] == wanted]
        own = [at for at in hits if first <= at <= last]
        missed = f"{entry['name']} ({entry['label']}, {wanted}): not found from step {first}"
        found.events.add(bool(own), missed)
        found.confusion[entry["label"], str(wanted) if own else "nothing"] += 1
        if own:
            found.delays.append(sum(first <= step < min(own) for step in steps))
    if not events and not opened:
        found.confusion[entry["label"], "nothing"] += 1


def spans(where: Sequence[Any]) -> list[tuple[int, int]]:
    """Return pairs of steps from pairs, or from one flat pair."""
    if where and not isinstance(where[0], Sequence):
        return [(int(where[0]), int(where[1]))]
    return [(int(first), int(last)) for first, last in where]


def _later(steps: Sequence[int], last: int, rows: int) -> int:
    after = [step for step in steps if step > last]
    return after[min(rows, len(after)) - 1] if after else last


def histories_of(folder: Path, into: Path) -> Iterator[tuple[Entry, str]]:
    """Yield a folder's histories; those that ``curves.py`` makes are written ``into`` another."""
    for entry in entries(folder, "histories.jsonl"):
        yield entry, str(folder / "histories" / f"{entry['name']}.jsonl")
    if folder != HERE or not (HERE / "curves.py").is_file():
        return
    made = importlib.import_module("bench.judgement.curves")
    for number, curve in enumerate(made.curves()):
        path = into / f"curve-{number}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in curve["rows"]))
        yield {key: curve[key] for key in curve if key != "rows"}, str(path)
