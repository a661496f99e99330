"""Which checkpoints something was begun from or sealed at: they are never cleaned up (SPEC A-6).

HERO: never rely on permanent retention alone to protect a rollback source; launch lineage is
state. What says so: the journal, the snapshots of launches, the run file, the logbook, and the
seal tags of the code repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pydantic import Field

from cockpit.actions.core.context import ActionContext
from cockpit.model import wording
from cockpit.model.base import Frozen
from cockpit.model.observed import Checkpoint, CheckpointState
from cockpit.model.plan import Outcome
from cockpit.model.run import RunSpec
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text
from cockpit.store.memory import Snapshots
from cockpit.store.store import StoreError
from cockpit.text.logbook_scan import read_entries
from cockpit.text.safe import clean

DEADLINE: Final = 10.0
_BEGINS: Final = ("launch", "relaunch", "lineage", "rollback")
_TITLE: Final = re.compile(r"launch|resum|recover|roll(?:ed)?[ -]?back|lineage|restart", re.I)
_FIELD: Final = re.compile(r"initialize|resum|checkpoint|source|from|next", re.I)


class RecoverySources(Frozen):
    """What was begun from which path or step; ``unknown`` is why this cannot be told.

    ``sealed`` are the steps at which the run was sealed.
    """

    paths: dict[str, str] = Field(default_factory=dict)
    sealed: frozenset[int] = frozenset()
    lines: tuple[str, ...] = ()
    unknown: str | None = None

    def why(self, item: Checkpoint) -> str | None:
        """Return why a checkpoint is a source of something, if it is."""
        if item.path in self.paths:
            return self.paths[item.path]
        steps = {item.step, item.name_step} - {None}
        # Trainers count from 0 or from 1, and a seal is named after the final step.
        at = next((s for s in self.sealed if steps & {s, s - 1}), None)
        if at is not None:
            return f"the run was sealed at step {wording.step(at)}"
        if item.state is CheckpointState.REJECTED:
            return None
        names = naming(item)
        found = any(names.search(line) for line in self.lines)
        return "the logbook names it as a source" if found else None


def naming(item: Checkpoint) -> re.Pattern[str]:
    """Return what finds a checkpoint named in a text, by path, name or step: as whole words.

    ``step-100`` does not name ``step-10``. A name that is a bare number counts only in a path, or
    behind a word for a step.
    """
    name = item.path.rstrip("/").rpartition("/")[2]
    words = [re.escape(item.path.rstrip("/")), rf"(?<=/){re.escape(name)}"]
    if not name.isdigit():
        words.append(re.escape(name))
    steps = {item.step, item.name_step} - {None}
    for step in steps:
        figure = rf"0*{step}" if step is None or step < 1000 else rf"(?:0*{step}|{step:,})"
        words.append(rf"{_STEP_WORD}[ _=-]?{figure}")
    return re.compile(rf"(?<![\w.])(?<!\w-)(?:{'|'.join(words)})(?!{_GOES_ON})", re.I)


_STEP_WORD: Final = r"(?:global_?step|step|checkpoint|ckpt|iteration|iter)"
_GOES_ON: Final = r"\w|[,.]\d|[-.]\w"
"""What follows a name that is only the beginning of another one."""


async def sources_of(context: ActionContext) -> RecoverySources:
    """Return the launch checkpoints and recovery sources of a run."""
    try:
        return await offload(lambda: _sources(context), deadline=DEADLINE)
    except (OSError, ValueError, StoreError, TimeoutError) as error:
        return RecoverySources(unknown=clean(getattr(error, "strerror", None) or error))


def _sources(context: ActionContext) -> RecoverySources:
    paths = {}
    spec = context.spec.checkpoints
    for entry in context.entries:
        pick = entry.plan.checkpoint
        if pick is not None and entry.action in _BEGINS and entry.outcome is not Outcome.REFUSED:
            paths[pick.path] = f"recovery source: {entry.action} by {entry.operator}"
    store = context.parts.store
    last = None if store is None else Snapshots(store).last(context.key)
    if last is not None and last.checkpoint is not None:
        paths[last.checkpoint.path] = "launch checkpoint: the last launch resumed from it"
    if spec is not None and spec.initialize_from:
        paths[clean(str(spec.initialize_from).rstrip("/"), 4096)] = "initialize_from"
    sealed, unknown = _sealed(context)
    lines = _logbook_lines(context.spec)
    return RecoverySources(paths=paths, sealed=sealed, lines=lines, unknown=unknown)


def _sealed(context: ActionContext) -> tuple[frozenset[int], str | None]:
    """Return the steps of the seal tags and of the seals in the journal, or why they are unknown.

    A repository that cannot be read at all is no reason: the journal has the seals made from here.
    """
    code = context.report.facets.code.value
    if code is not None and code.sealed_steps is None:
        return frozenset(), "git could not list the seal tags of the code repository"
    seals = (each for each in context.entries if each.action == "seal")
    begun = (each.plan for each in seals if each.outcome is not Outcome.REFUSED)
    told = (plan.facts.get("step", "") for plan in begun)
    tags = () if code is None else code.sealed_steps or ()
    return frozenset((*tags, *(int(step) for step in told if step.isdigit()))), None


def _logbook_lines(run: RunSpec) -> tuple[str, ...]:
    """Return the lines of launches and recoveries that may name what they began from.

    Raises ``OSError`` for a logbook that is there and cannot be read.
    """
    if run.records.logbook is None:
        return ()
    try:
        text = read_text(Path(run.records.logbook))
    except FileNotFoundError:
        return ()
    lines = []
    for entry in read_entries(text):
        if "instance" in entry.section.lower() or _TITLE.search(entry.title):
            lines += [line for line in entry.text.splitlines() if _FIELD.search(line)]
    return tuple(lines)
