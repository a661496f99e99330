"""Lineage: what two jobs share, what changed between launches, which checkpoint is next.

Which jobs share an output root or a W&B run (C-25), which class a changed file falls in (C-15),
how two commands differ (C-18), which checkpoint is the newest and which one a relaunch takes
(SPEC K). All pure.
"""

from __future__ import annotations

import functools
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.model.observed import Checkpoint, CheckpointsValue, Pick, Whose
from cockpit.model.run import CodeSpec, RunSpec
from cockpit.model.wording import steps


def root_key(run: RunSpec) -> str | None:
    """Return what tells the run's output root from every other, as its job sees it.

    Looked at over ssh or from the host itself, it is one root.
    """
    root = run.output_root
    return None if root is None else f"root {root.normal().seen_from(run.job)}"


def wandb_key(run: RunSpec) -> str | None:
    """Return what tells the run's W&B run from every other.

    One that is written offline and names no entity is known by its folder: it is nobody's yet.
    """
    wandb = run.wandb
    if wandb is None:
        return None
    _, entity, project, name = wandb.recorded
    if not name:
        return None
    if wandb.dir and not entity:
        return f"wandb {posixpath.normpath(wandb.dir.path)} {name}"
    return f"wandb {wandb.base_url or ''} {entity or ''}/{project or ''}/{name}"


def local_root(run: RunSpec) -> str | None:
    """Return the output root as a path of this machine, ``None`` if it is not one."""
    root = run.output_root
    return None if root is None else root.normal().local


def keys_of(run: RunSpec) -> tuple[str, ...]:
    """Return the run's output root and its W&B run, as far as it names them."""
    return tuple(key for key in (root_key(run), wandb_key(run)) if key is not None)


def tag_of(run: RunSpec) -> str:
    """Return the lineage as it is written into a job's environment; empty if there is none."""
    digests = (
        (key, hashlib.sha256(key.encode("utf-8", "surrogateescape"))) for key in keys_of(run)
    )
    return ",".join(f"{key.split()[0]}:{digest.hexdigest()[:16]}" for key, digest in digests)


def related(tag: str, other: str) -> bool:
    """Tell whether two tags name one lineage."""
    return not set(filter(None, tag.split(","))).isdisjoint(other.split(","))


def shared_place(one: RunSpec, other: RunSpec) -> tuple[str, bool] | None:
    """Return what two runs would both write to, and whether it is certainly one place.

    W&B runs of one id that are written offline into different folders meet once they are synced:
    certainly so where both name one project.
    """
    if root_key(one) is not None and root_key(one) == root_key(other):
        return f"output root {one.output_root}", True
    mine, theirs = one.wandb, other.wandb
    if mine is None or theirs is None:
        return None
    if wandb_key(one) is not None and wandb_key(one) == wandb_key(other):
        return f"W&B id {mine.id or theirs.id or mine.url}", True
    if not mine.id or mine.id != theirs.id:
        return None
    named = ((mine.entity, theirs.entity), (mine.project, theirs.project))
    if any(a is not None and b is not None and a != b for a, b in named):
        return None
    if (mine.base_url or "") != (theirs.base_url or ""):
        return None
    return f"W&B id {mine.id}", mine.project is not None and mine.project == theirs.project


ALWAYS_IGNORED: Final = ("*.md", "*.log", "docs/**", "tests/**")
OURS: Final = (".cockpit/", "**/.cockpit/**", ".cockpit-try-*", "cockpit-tmp-*")
"""What the cockpit puts down wherever it works."""
PROGRAMS: Final = frozenset((
    ".py", ".pyx", ".pxd", ".pyi", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp",
    ".rs", ".go", ".jl", ".sh",
))  # fmt: skip
"""A file of these in a folder that runs save into may be code all the same."""


class Touches(StrEnum):
    """What a changed file can touch, from harmless to the training trajectory."""

    IGNORE = "ignore"
    SAFE = "safe"
    TRAJECTORY = "trajectory"


_ORDER: Final = (Touches.TRAJECTORY, Touches.SAFE, Touches.IGNORE)


def touches(path: str, code: CodeSpec) -> Touches:
    """Return the class of one path (from the repository's root, with ``/``).

    What is ignored, or written by the cockpit or a run, never counts; of the other two the more
    careful one wins. A folder that git names as a whole (it ends in ``/``) is only ignored where
    all of it would be.
    """
    if any_match(code.ignore, path) or is_own(path, code):
        return Touches.IGNORE
    if any_match(code.trajectory, path):
        return Touches.TRAJECTORY
    if any_match(code.safe, path):
        return Touches.SAFE
    return Touches.IGNORE if any_match(ALWAYS_IGNORED, path) else Touches.TRAJECTORY


def is_own(path: str, code: CodeSpec) -> bool:
    """Return whether the cockpit or a run has written this path, not a person."""
    if any_match(OURS, path):
        return True
    for own in code.own_files:  # NAME, NAME.4211.new beside it; of a pattern whatever fits
        if path == own or path.startswith(f"{own}.") or ("*" in own and any_match((own,), path)):
            return True
    inside = any(f"{path.rstrip('/')}/".startswith(f"{folder}/") for folder in code.output_folders)
    return inside and (path.endswith("/") or PurePosixPath(path).suffix not in PROGRAMS)


def any_match(patterns: Iterable[str], path: str) -> bool:
    """Return whether one of the patterns matches the path."""
    return any(_compiled(pattern).fullmatch(path) is not None for pattern in patterns)


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("/"):
        pattern += "**"
    anchored = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
    return re.compile(_regex(anchored), re.DOTALL)


def _regex(pattern: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern[at:] == "**" and (at == 0 or pattern[at - 1] == "/"):
            parts.append(".*")
            at += 2
        else:
            piece, at = _one(pattern, at)
            parts.append(piece)
    return "".join(parts)


def _one(pattern: str, at: int) -> tuple[str, int]:
    """Return the regular expression of one character or class, and where the next begins."""
    letter = pattern[at]
    if letter == "*":
        while pattern[at : at + 1] == "*":
            at += 1
        return "[^/]*", at
    if letter == "?":
        return "[^/]", at + 1
    end = pattern.find("]", at + 2) if letter == "[" else -1
    if end < 0:
        return re.escape(letter), at + 1
    inside = pattern[at + 1 : end]
    negated = "^/" if inside[:1] in "!^" else ""
    inside = inside[1:] if negated else inside
    escaped = inside.replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    try:
        re.compile(f"[{negated}{escaped}]")
    except re.error:
        return re.escape(pattern[at : end + 1]), end + 1
    return f"[{negated}{escaped}]", end + 1


def worst_first(paths: Iterable[str], spec: CodeSpec) -> tuple[tuple[Touches, str], ...]:
    """Return the paths that count with their classes, those that touch training first."""
    found = {(touches(path, spec), path) for path in paths}
    counted = [each for each in found if each[0] is not Touches.IGNORE]
    return tuple(sorted(counted, key=lambda each: (_ORDER.index(each[0]), each[1])))


_NUMBER: Final = re.compile(r"-\d+(\.\d+)?(e-?\d+)?", re.I)


def flags_of(words: Sequence[str]) -> dict[str, str]:
    """Return a command as settings: ``--name value``, ``--name=value``, ``name=value``, places.

    A flag that is given twice keeps both values; words that are no flag go by their place.
    """
    found: dict[str, str] = {}
    place, waiting = 0, ""
    for word in words:
        name, sign, value = word.partition("=")
        if word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word):
            waiting = "" if sign else name
            _add(found, name, value if sign else "")
        elif waiting:
            found[waiting] = word if not found[waiting] else f"{found[waiting]} {word}"
            waiting = ""
        elif sign and re.fullmatch(r"[+~]?[A-Za-z_][\w./-]*", name):
            _add(found, name, value)
        else:
            found[f"word {place}"] = word
            place += 1
    return found


def _add(found: dict[str, str], name: str, value: str) -> None:
    found[name] = f"{found[name]} {value}".strip() if name in found else value


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


_COPY: Final = re.compile(r"(?i)(?:.*[-_.=])?(?:best|ema|swa|avg|averaged?|init)(?:[-_.=].*)?")
"""Names of copies for other uses (``model_best.pth.tar``, ``valid.acc.best.pth``, ``init.pt``)."""


def _meant_to_resume(items: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the items without the copies that lie beside the saves they are copies of."""
    copies = [item for item in items if _COPY.fullmatch(item.path.rpartition("/")[2])]
    paths = {item.path for item in copies}
    own = [item for item in items if item.path not in paths]
    furthest = max((item.step for item in own if item.step is not None), default=-1)
    further = [item for item in copies if item.step is not None and item.step > furthest]
    return [*own, *further] if own else copies


def relaunch_pick(items: Sequence[Checkpoint]) -> Pick | None:
    """Return what a relaunch resumes from (HERO: the newest complete one), and why.

    Never one that is suspect: what a person may load all the same is for the plan to say. Nor a
    copy of the best one, which is made after the save that goes on.
    """
    newest = newest_of(_meant_to_resume([each for each in items if each.good and each.own]))
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
    notes = [f"step {steps(step)} is {state}" for step, state in bad[-3:]]
    if others:
        notes.append(f"not, or not surely, this run's: {listed_steps(others)}")
    if suspect:
        notes.append(f"{len(suspect)} newer suspect, up to step {steps(max(suspect))}")
    return notes


def with_suspects(
    value: CheckpointsValue, why: Mapping[str, str], doubts: Mapping[str, str] | None = None
) -> CheckpointsValue:
    """Return ``value`` with those at the paths in ``why`` suspect, and picked anew.

    ``doubts`` are remarks on others. Where not all roots could be listed nothing is picked, as
    before.
    """
    if not why and not doubts and not any(item.suspect for item in value.items):
        return value
    items = tuple(_with_doubts(item, why.get(item.path), doubts or {}) for item in value.items)
    pick = None if value.unlisted else relaunch_pick(items)
    items = tuple(_protected(item, pick, NOT_SUSPECT) for item in items)
    return value.model_copy(update={"items": items, "relaunch_from": pick})


def _with_doubts(item: Checkpoint, why: str | None, doubts: Mapping[str, str]) -> Checkpoint:
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
    known = sorted({s for i in items if (s := i.any_step) is not None})
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
