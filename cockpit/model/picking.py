"""Which checkpoint is the newest, and which one a relaunch takes (SPEC K). Pure.

By step where all steps are known. A file that does not tell its step (nanoGPT's ``ckpt.pt``) is
held against the others by the time of its save, and the choice says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cockpit.model.observed import Checkpoint, CheckpointsValue, Pick, Whose
from cockpit.model.run import RunSpec
from cockpit.model.wording import steps


def named(one: Pick | Checkpoint) -> str:
    """Return what a checkpoint is called in a sentence: ``step 700``, or its file's name."""
    step = one.step
    if step is None and isinstance(one, Checkpoint):
        step = one.name_step
    name = one.path.rstrip("/").rpartition("/")[2]
    return f"{name} (step unknown)" if step is None else f"step {steps(step)}"


def unlooked(value: CheckpointsValue) -> str:
    """Return how many folders a look had no time for: what is said of the whole is not known."""
    count = "1 folder" if value.unjudged == 1 else f"{value.unjudged} folders"
    return f"{count} could not be looked at in time"


def newest_of(items: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the newest of ``items``: of the greatest step, unless one without a step is later."""
    known = list(items)
    stepped = [item for item in known if item.step is not None]
    best = max(stepped, key=lambda item: (item.step or 0, *_saved(item)), default=None)
    blank = max((item for item in known if item.step is None), key=_saved, default=None)
    if best is None or blank is None:
        return best or blank
    return blank if _saved(blank)[0] > _saved(best)[0] else best


def _saved(item: Checkpoint) -> tuple[float, str]:
    return (item.saved_at or 0.0, item.path)


def newest_good(items: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the newest complete one of the run's own lineage that is not suspect."""
    return newest_of(item for item in items if item.good and item.own)


def relaunch_pick(items: Sequence[Checkpoint]) -> Pick | None:
    """Return what a relaunch resumes from (HERO: the newest complete one), and why.

    Never one that is suspect: what a person may load all the same is for the plan to say.
    """
    newest = newest_good(items)
    if newest is None:
        return None
    by = "step" if newest.step is not None else "the time of its save: its step is unknown"
    why = [f"newest complete by {by}", *_passed_over(items, newest)]
    if newest.doubt is not None:
        why.insert(1, newest.doubt)
    if newest.permanent is False:
        why.insert(1, "temporary: the next save may delete it")
    return Pick(path=newest.path, step=newest.step, why="; ".join(why))


def would_resume(value: CheckpointsValue, *, by_name: bool) -> Pick | None:
    """Return what a relaunch would really load; ``by_name``: the command names the checkpoint.

    One that is suspect only where the trainer takes it by itself (or may, where its rule is not
    known), or where there is no other: then a person has to let it pass.
    """
    theirs, ours = value.trainer_would_load, value.relaunch_from
    if not by_name and theirs is not None and suspected(value, theirs) is not None:
        return theirs
    if not by_name and theirs is not None and _older_by_rule(value, theirs):
        return theirs
    newest = newest_of(item for item in value.items if item.complete and item.own)
    own_way = not by_name and theirs is None  # by whatever rule: most likely the newest
    if newest is None or value.unlisted or (ours is not None and not (own_way and newest.suspect)):
        return ours
    return Pick(path=newest.path, step=newest.step, why=f"newest complete, but {SUSPECT}")


LIGHTNING = "lightning"


def _older_by_rule(value: CheckpointsValue, theirs: Pick) -> bool:
    """Tell whether a trainer takes a whole one that is not the newest, by its own rule.

    Lightning goes by the time of ``last*.ckpt``: what it loads is sound, only not the newest.
    """
    item = value.at(theirs.path)
    return item is not None and item.layout == LIGHTNING and item.good and item.own


SUSPECT = "suspect"


def suspected(value: CheckpointsValue, pick: Pick) -> str | None:
    """Return why what would be loaded is suspect, if it is."""
    item = value.at(pick.path)
    return None if item is None else item.suspect


def _passed_over(items: Sequence[Checkpoint], newest: Checkpoint) -> list[str]:
    """Return what is newer than the pick and is not taken: each that is no whole one by itself."""
    if newest.step is None:
        return []
    newer = [item for item in items if item.step is not None and item.step > newest.step]
    bad = sorted((item.step or 0, item.state.value) for item in newer if not item.complete)
    suspect = [item.step or 0 for item in newer if item.complete and item.own]
    others = [item for item in newer if item.complete and not item.own]
    told = [f"step {steps(step)} is {state}" for step, state in bad[-3:]]
    if others:
        told.append(f"not, or not surely, this run's: {listed_steps(others)}")
    if suspect:
        told.append(f"{len(suspect)} newer suspect, up to step {steps(max(suspect))}")
    return told


def with_suspects(
    value: CheckpointsValue, why: Mapping[str, str], doubts: Mapping[str, str] | None = None
) -> CheckpointsValue:
    """Return ``value`` with those at the paths in ``why`` suspect, and picked anew.

    ``doubts`` are remarks on others. Where not all roots could be listed nothing is picked, as
    before.
    """
    if not why and not doubts and not any(item.suspect for item in value.items):
        return value
    items = tuple(_said(item, why.get(item.path), doubts or {}) for item in value.items)
    pick = None if value.unlisted else relaunch_pick(items)
    items = tuple(_protected(item, pick, NOT_SUSPECT) for item in items)
    return value.model_copy(update={"items": items, "relaunch_from": pick})


def _said(item: Checkpoint, why: str | None, doubts: Mapping[str, str]) -> Checkpoint:
    doubt = doubts.get(item.path)
    note = "; ".join(each for each in (doubt, item.note) if each) or None
    return item.model_copy(update={"suspect": why, "doubt": doubt, "note": note})


class Stray(NamedTuple):
    """Why a save is not, or not surely, of the run's present lineage."""

    whose: Whose
    why: str


def with_lineages(
    value: CheckpointsValue, strays: Mapping[str, Stray], mixed: str | None
) -> CheckpointsValue:
    """Return ``value`` with the saves at the paths in ``strays`` marked, picked among the others.

    ``mixed`` is which saves are whose, where that keeps all of them from being deleted.
    """
    if not strays:
        return value if mixed == value.mixed else value.model_copy(update={"mixed": mixed})
    items = tuple(_of_lineage(item, strays.get(item.path)) for item in value.items)
    pick = None if value.unlisted else relaunch_pick(items)
    items = tuple(_protected(item, pick, OWN) for item in items)
    own = [item.step for item in items if item.complete and item.own and item.step is not None]
    latest = None if value.unlisted else max(own, default=None)
    changed = {"items": items, "relaunch_from": pick, "latest_complete": latest, "mixed": mixed}
    return value.model_copy(update=changed)


def _of_lineage(item: Checkpoint, stray: Stray | None) -> Checkpoint:
    if stray is None:
        return item
    note = "; ".join(each for each in (stray.why, item.note) if each)
    changed = {"lineage": stray.why, "whose": stray.whose, "note": note}
    return item.model_copy(update=changed)


def listed_steps(items: Sequence[Checkpoint]) -> str:
    """Return the steps of saves in a few words: ``step 100``, ``steps 500 to 700 (3 saves)``."""
    known = sorted(
        {s for i in items if (s := i.name_step if i.step is None else i.step) is not None}
    )
    if len(known) < 2:
        return f"step {steps(known[0])}" if known else "none"
    if len(known) <= LISTED:
        return f"steps {', '.join(map(steps, known))}"
    return f"steps {steps(known[0])} to {steps(known[-1])} ({len(known)} saves)"


LISTED = 4
OWN = "newest complete of this run's own"


def _protected(item: Checkpoint, pick: Pick | None, why: str) -> Checkpoint:
    """Return the pick with its own protection: what is not picked never outlives it."""
    if pick is None or item.path != pick.path or why in item.protected:
        return item
    return item.model_copy(update={"protected": (*item.protected, why)})


NOT_SUSPECT = "newest complete that is not suspect"


def names_checkpoint(run: RunSpec) -> bool:
    """Return whether the run's command names the checkpoint itself: ``{checkpoint}``."""
    command = run.resubmit or ()
    words = (command,) if isinstance(command, str) else command
    return any("{checkpoint}" in word for word in words)
