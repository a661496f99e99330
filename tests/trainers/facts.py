"""Facts: what was true, what the cockpit said, and whether the two agree."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.trainers.truth import Truth
from tests.trainers.world import Look, Trainer

FLUSH = 2.0
"""Seconds that a word of the trainer may need to get into its files."""
UNWRITTEN = 12.0
"""Seconds for which W&B's client may keep its first rows to itself."""
OFF = 0.35
"""Share by which a rate on a busy machine may differ from the one that was measured."""


class Fact(NamedTuple):
    """One comparison."""

    trainer: str
    situation: str
    name: str
    ok: bool
    expected: str
    got: str


@dataclass
class Facts:
    """The facts of one situation of one trainer."""

    trainer: Trainer
    situation: str
    found: list[Fact] = field(default_factory=list)

    def add(self, name: str, ok: bool, expected: object, got: object) -> None:
        """Add one fact."""
        said = (str(expected), str(got))
        self.found.append(Fact(self.trainer.name, self.situation, name, ok, *said))

    def same(self, name: str, expected: object, got: object) -> None:
        """Expect exactly this."""
        self.add(name, expected == got, expected, got)

    def among(self, name: str, expected: Collection[object], got: object) -> None:
        """Expect one of these."""
        self.add(name, got in expected, " or ".join(map(str, expected)), got)

    def within(self, name: str, least: float, most: float, got: float | None) -> None:
        """Expect a figure in a range, ends included."""
        ok = got is not None and least <= got <= most
        self.add(name, ok, f"{least:g} to {most:g}", got)


def value(look: Look, facet: str) -> Mapping[str, Any]:
    """Return a facet's value; nothing where it is unknown."""
    return look.run["facets"][facet]["value"] or {}


def alerts(look: Look) -> dict[str, dict[str, Any]]:
    """Return the open alerts that are more than information, by their rule."""
    return {each["id"]: each for each in look.run["alerts"] if each["severity"] != "info"}


def triage(look: Look) -> Mapping[str, Any]:
    """Return the diagnosis of the job's end; nothing where there is none."""
    return value(look, "log").get("triage") or {}


def progress(facts: Facts, look: Look) -> None:
    """Compare step, final step and loss of a run that moves or has ended."""
    moment = look.at - FLUSH if look.moved else look.at
    least = _known_by(facts.trainer, look.before, moment)
    facts.within("step", least, look.after.step, look.run["progress"]["step"])
    begun = look.before.last("begin") or {}
    facts.same("final step", begun.get("final_step"), look.run["progress"]["final_step"])
    loss(facts, look)


def _known_by(trainer: Trainer, told: Truth, moment: float) -> int:
    """Return the step that log, tracker or a checkpoint must have told by ``moment``."""
    events = told.all("saved", until=moment)
    saved = [int(each["step"]) for each in events if each["at"] > told.began_at]
    if not trainer.log_tells:
        moment -= UNWRITTEN
    step = told.step_by(moment)
    return max(step - step % trainer.told_every if step >= 0 else -1, *saved, -1)


def loss(facts: Facts, look: Look) -> None:
    """Compare the tracker's loss with the trainer's at the step that it stands beside."""
    tracker = value(look, "tracker")
    if not facts.trainer.tracked or not tracker:
        return
    step, got = tracker["step"], tracker["loss"]
    if step is None:
        facts.add("loss", _unwritten(look), "a step with its loss", f"{got} at {step}")
        return
    true = look.after.losses(step + facts.trainer.tracker_lags)
    near = [each for each in true if _near(each, got)]
    facts.add("loss", bool(near), f"{true[:2]} at {step}", got)


def _unwritten(look: Look) -> bool:
    """Tell whether W&B's client may not have written a row of this start to its file yet."""
    return look.at - look.after.began_at < UNWRITTEN


def _near(true: float, got: object) -> bool:
    if isinstance(got, str):
        return got == "NaN" and math.isnan(true)
    if not isinstance(got, int | float):
        return False
    return math.isclose(true, got, rel_tol=2e-3, abs_tol=1e-3)


def pace(facts: Facts, look: Look) -> None:
    """Compare the rate and the time left of a run that moves."""
    rate = look.after.rate()
    if rate is None:
        facts.add("rate", False, "enough steps to measure", None)
        return
    if facts.trainer.tracked and not _unwritten(look):
        low, high = rate * (1 - OFF), rate * (1 + OFF)
        got = value(look, "tracker").get("throughput")
        facts.within("rate", round(low, 2), round(high, 2), got)
    final = look.run["progress"]["final_step"]
    left, least = (final - look.before.step) / rate, (final - look.after.step) / rate
    eta = look.run["progress"]["eta_s"]
    if eta is None and facts.trainer.tracked and _unwritten(look):
        return
    facts.within("time left", round(least * (1 - OFF) - 2), round(left * (1 + OFF) + 5), eta)


def checkpoints(facts: Facts, look: Look, *, sound_before: int | None = None) -> None:
    """Compare what lies there, what is newest, what is taken, and what is suspect.

    Saves from ``sound_before`` on were made of a model that is lost.
    """
    saved = look.saved
    for where, found in (("listed", look.listed), ("check", value(look, "checkpoints"))):
        items = {each["path"]: each for each in found.get("items", ())}
        got = {path: items[path]["step"] if path in items else "not listed" for path in saved}
        wrong = [path for path in saved if got[path] not in _steps_at(look, path)]
        shown = {Path(path).name: got[path] for path in wrong}
        facts.add(
            f"checkpoints, {where}", not wrong, {Path(p).name: saved[p] for p in wrong}, shown
        )
        torn = [path for path in saved if items.get(path, {}).get("state") != "complete"]
        facts.same(f"complete, {where}", [], [Path(path).name for path in torn])
    if sound_before is not None:
        _suspects(facts, look, saved, sound_before)
    pick = value(look, "checkpoints").get("relaunch_from") or {}
    least, most = (_newest(each, sound_before) for each in (saved, _all_saved(look.later)))
    if most < 0:
        facts.same("pick", {}, pick)
        return
    facts.within("pick, step", least, most, pick.get("step"))
    told = _steps_at(look, pick.get("path", ""))
    facts.add("pick, path", any(least <= step <= most for step in told), least, pick.get("path"))


def _steps_at(look: Look, path: str) -> set[int]:
    """Return the steps that were saved at a path and may lie there during the look."""
    before = look.saved.get(path, -1)
    told = {int(each["step"]) for each in look.later.all("saved") if each["path"] == path}
    return {step for step in told if step >= before}


def _newest(saved: Mapping[str, int], sound_before: int | None) -> int:
    """Return the newest step that was saved before the model was lost; -1 for none."""
    sound = (step for step in saved.values() if sound_before is None or step < sound_before)
    return max(sound, default=-1)


def _all_saved(truth: Truth) -> dict[str, int]:
    return {each["path"]: int(each["step"]) for each in truth.all("saved")}


def _suspects(facts: Facts, look: Look, saved: Mapping[str, int], first_bad: int) -> None:
    items = {each["path"]: each for each in value(look, "checkpoints").get("items", ())}
    got = {Path(path).name for path in saved if (items.get(path) or {}).get("suspect")}
    facts.same("suspect", {Path(p).name for p, step in saved.items() if step >= first_bad}, got)


def blocks(look: Look) -> Iterator[dict[str, Any]]:
    """Yield what stands in the way of a relaunch."""
    yield from (each for each in look.plan["checks"] if each["level"] == "block")


def relaunchable(facts: Facts, look: Look, *, approvable: bool = False) -> None:
    """Expect a relaunch to be offered; ``approvable``: to a person who answers for it."""
    found = [each for each in blocks(look) if not (approvable and each["overridable"])]
    expected = "only what a person may approve" if approvable else "nothing in the way"
    facts.add("relaunch", not found, expected, [f"{each['id']}: {each['text']}" for each in found])
