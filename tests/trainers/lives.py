"""The lives of a run, each with looks on the way: what is done to it, what must be said of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.trainers.facts import (
    Fact,
    Facts,
    alerts,
    checkpoints,
    pace,
    progress,
    relaunchable,
    triage,
    value,
)
from tests.trainers.world import RUN, Look, World

NAN_FROM: Final = 50
RAISE_AT: Final = 70


def interrupted(world: World) -> Iterator[Fact]:
    """Running, stopped, continued, killed, relaunched, finished."""
    world.start()
    world.until_step(60)
    yield from running(world, "running")
    yield from suspended(world)
    world.signal(signal.SIGCONT)
    time.sleep(3)
    yield from running(world, "continued")
    world.until_saved(100)
    world.signal(signal.SIGKILL)
    world.ended()
    look = world.look()
    yield from killed(world, look)
    yield from relaunched(world, look)
    world.pace(0.005)
    world.ended()
    yield from finished(world)


def running(world: World, situation: str) -> Iterator[Fact]:
    """Nothing is wrong with it."""
    facts, look = Facts(world.trainer, situation), world.look()
    facts.same("verdict", "healthy", look.run["verdict"])
    facts.same("phase", "running", value(look, "job").get("phase"))
    facts.same("alerts", [], sorted(alerts(look)))
    progress(facts, look)
    pace(facts, look)
    checkpoints(facts, look)
    yield from facts.found


def suspended(world: World) -> Iterator[Fact]:
    """SIGSTOP: alive in the process table, and not at work."""
    world.signal(signal.SIGSTOP)
    time.sleep(1)
    facts, look = Facts(world.trainer, "SIGSTOP"), world.look()
    facts.add("verdict", look.run["verdict"] != "healthy", "not healthy", look.run["verdict"])
    facts.same("time left", None, look.run["progress"]["eta_s"])
    job = value(look, "job")
    facts.add("says stopped", _says(look, "stop"), "a word of it", f"{job['state']}, {_said(look)}")
    progress(facts, look)
    yield from facts.found


def _said(look: Look) -> str:
    return "; ".join(each["title"] for each in look.run["alerts"])


def _says(look: Look, word: str) -> bool:
    job = value(look, "job")
    text = f"{job.get('state')} {job.get('reason')} {_said(look)}".lower()
    return word in text or "suspend" in text


def killed(world: World, look: Look) -> Iterator[Fact]:
    """Kill -9: nobody's fault of its own, to be relaunched from the newest save."""
    facts = Facts(world.trainer, "kill -9")
    facts.same("verdict", "critical", look.run["verdict"])
    facts.same("phase", "failed", value(look, "job").get("phase"))
    facts.same("exit code", 137, value(look, "job").get("exit_code"))
    facts.same("triage", "killed", triage(look).get("name", triage(look).get("class")))
    facts.same("action", "relaunch", triage(look).get("action"))
    facts.same("alerts", ["C-01"], sorted(alerts(look)))
    progress(facts, look)
    checkpoints(facts, look)
    relaunchable(facts, look)
    yield from facts.found


def relaunched(world: World, look: Look) -> Iterator[Fact]:
    """The relaunch is done, by the cockpit; what the trainer loads is what the plan said."""
    facts, known = Facts(world.trainer, "resume"), world.truth().starts
    words = ("relaunch", RUN, "--confirm", f"relaunch {RUN}")
    code, done = world.told(*words)
    facts.among("relaunch verb", (0, 6), code)
    if done.get("outcome") != "done":
        facts.same("outcome", "done", done.get("outcome"))
        world.start("resubmit")  # so that the rest can be looked at all the same
    world.until(lambda: world.truth().starts > known, "it was never resumed")
    _loaded(facts, world, look)
    world.until(lambda: world.truth().step_by(time.time() - 4) > 0, "no step after the resume")
    yield from facts.found
    yield from running(world, "resumed")


def _loaded(facts: Facts, world: World, look: Look) -> None:
    """Compare what the plan said that the trainer would load with what it did load.

    A layout whose trainer has no rule of its own may be unknown, where the plan says so.
    """
    truth = world.truth()
    loaded, begun = truth.last("load") or {}, truth.last("begin") or {}
    path, would = loaded.get("path"), look.plan["trainer_would_load"]
    step = look.before.saved().get(path or "")
    facts.same("the trainer's own step", step, begun.get("step"))
    if would is None and _says_unknown(look):
        facts.add("would load", True, "unknown, and said to be", None)
    else:
        facts.same("would load, path", path, (would or {}).get("path"))
        facts.same("would load, step", step, (would or {}).get("step"))
    pick = look.plan["checkpoint"] or {}
    facts.same("planned step", step, pick.get("step"))


def _says_unknown(look: Look) -> bool:
    told = [each["text"] for each in look.plan["checks"] if each["id"] == "C-17"]
    return any("check its first step" in text for text in told)


def finished(world: World) -> Iterator[Fact]:
    """It came to its end."""
    time.sleep(1)
    facts, look = Facts(world.trainer, "finished"), world.look()
    facts.same("verdict", "finished", look.run["verdict"])
    facts.same("phase", "succeeded", value(look, "job").get("phase"))
    facts.same("exit code", 0, value(look, "job").get("exit_code"))
    facts.same("step", (look.after.last("end") or {}).get("step"), look.run["progress"]["step"])
    facts.same("alerts", [], sorted(alerts(look)))
    progress(facts, look)
    checkpoints(facts, look)
    yield from facts.found


def terminated(world: World) -> Iterator[Fact]:
    """SIGTERM by an unknown hand to a job of the cockpit's: not finished, and no failure.

    The helpers of W&B's client, which outlive the trainer a little, are no second job.
    """
    facts = Facts(world.trainer, "SIGTERM")
    facts.same("launch", "done", world.launch().get("outcome"))
    world.until_saved(40)
    world.until_step(47)
    world.signal(signal.SIGTERM)
    status, look = world.ended(), world.look()
    facts.same("exit status", world.trainer.term_status, status)
    facts.same("exit code", status, value(look, "job").get("exit_code"))
    facts.among("verdict", ("attention", "critical"), look.run["verdict"])
    phase, said = value(look, "job").get("phase"), _said(look)
    # An exit status of 0 is the process's own word; whose success it was is the cockpit's.
    honest = phase != "succeeded" or "not success" in said
    facts.add("no success", honest, "stopped, or told to be no success", f"{phase}: {said}")
    facts.same("triage", "user_stopped", triage(look).get("name", triage(look).get("class")))
    facts.same("action", "none", triage(look).get("action"))
    progress(facts, look)
    checkpoints(facts, look)
    relaunchable(facts, look, approvable=True)
    yield from facts.found


def poisoned(world: World) -> Iterator[Fact]:
    """The loss is NaN from some step on, and it goes on saving."""
    world.asked["NAN_FROM"] = str(NAN_FROM)
    world.start()
    world.until_saved(80)
    time.sleep(3)
    facts, look = Facts(world.trainer, "NaN loss"), world.look()
    facts.same("verdict", "critical", look.run["verdict"])
    alert: dict[str, Any] = alerts(look).get("C-09", {})
    facts.add("C-09", bool(alert), "open", sorted(alerts(look)))
    told = [each["step"] for each in look.after.all("logged") if each["step"] >= NAN_FROM]
    named = " ".join([alert.get("title", ""), *(e["text"] for e in alert.get("evidence", ()))])
    first = range(NAN_FROM - 1, (told or [NAN_FROM + world.trainer.told_every])[0] + 1)
    facts.add("first step named", bool({*first} & {*_numbers(named)}), [*first], named)
    progress(facts, look)
    checkpoints(facts, look, sound_before=NAN_FROM)
    facts.add("relaunch", bool(look.plan["blocked"]), "blocked", look.plan["blocked"])
    yield from facts.found


def _numbers(text: str) -> list[int]:
    cleaned = "".join(each if each.isdigit() else " " for each in text.replace(",", ""))
    return [int(each) for each in cleaned.split()]


def broken(world: World) -> Iterator[Fact]:
    """An exception of its own; then started again by hand, to see what it loads."""
    world.asked["RAISE_AT"] = str(RAISE_AT)
    facts = Facts(world.trainer, "exception")
    facts.same("launch", "done", world.launch().get("outcome"))
    status, look = world.ended(), world.look()
    facts.same("exit code", status, value(look, "job").get("exit_code"))
    facts.same("verdict", "critical", look.run["verdict"])
    facts.same("alerts", ["C-01"], sorted(alerts(look)))
    name = triage(look).get("name", triage(look).get("class"))
    facts.among("triage", world.trainer.failures, name)
    place = (triage(look).get("code_location") or {}).get("file")
    facts.same("file named", "train.py", None if place is None else Path(place).name)
    progress(facts, look)
    checkpoints(facts, look)
    relaunchable(facts, look, approvable=True)
    del world.asked["RAISE_AT"]
    world.start("resubmit")
    _loaded(facts, world, look)
    yield from facts.found


LIVES: Final[dict[str, Callable[[World], Iterator[Fact]]]] = {
    "interrupted": interrupted,
    "terminated": terminated,
    "poisoned": poisoned,
    "broken": broken,
}
