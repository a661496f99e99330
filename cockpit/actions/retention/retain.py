"""A-6, retention: a list with reasons is shown, and what was listed is deleted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import Field

from cockpit.actions.checks.jobs import two_writers
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    RefuseError,
    Step,
    StepError,
    StepUnknownError,
    looking_first,
    plural,
    safe,
)
from cockpit.actions.core.recording import comment_step, event_name, log_step
from cockpit.actions.retention.at_rest import RunRoots, listing
from cockpit.actions.retention.other_runs import Needs, keeps, needed_by_others
from cockpit.actions.retention.ways import Half, RootError, RootLostError
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.base import Frozen
from cockpit.model.lineage import unlooked
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.place import Place, place_of
from cockpit.model.plan import Basis, Check, Draft, Level, Outcome, Plan, Request, Target
from cockpit.model.records import EventText
from cockpit.model.run import RunSpec
from cockpit.model.wording import size, steps
from cockpit.records.issue.service import Markdown, comment, person, prose, steps_of
from cockpit.rules.lineage.checkpoints import Decision, Needed, decide, depth_of, policy_of
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.store.memory import Snapshots
from cockpit.store.store import StoreError
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.logbook_scan import read_entries
from cockpit.text.safe import clean

DEADLINE: Final = 10.0
_BEGINS: Final = ("launch", "relaunch", "lineage", "rollback")
_TITLE: Final = re.compile(r"launch|resum|recover|roll(?:ed)?[ -]?back|lineage|restart", re.I)
_FIELD: Final = re.compile(r"initialize|resum|checkpoint|source|from|next", re.I)


class RecoverySources(Frozen):
    """What was begun from which path or step; ``unknown`` is why this cannot be told.

    ``inside`` are places that keep a save: itself, or what lies in it (``keeps``). ``sealed`` are
    the steps at which the run was sealed. ``readers`` are living programs that may read any save.
    """

    paths: dict[str, str] = Field(default_factory=dict)
    inside: dict[str, str] = Field(default_factory=dict)
    readers: tuple[str, ...] = ()
    sealed: frozenset[int] = frozenset()
    lines: tuple[str, ...] = ()
    unknown: str | None = None

    def why(self, item: Checkpoint) -> str | None:
        """Return why a checkpoint is a source of something, if it is."""
        if item.path in self.paths:
            return self.paths[item.path]
        whole = item.path.rstrip("/")
        for place, why in self.inside.items():
            if keeps(place, whole):
                return why
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
        needs = await needed_by_others(context)
        return await offload(lambda: _sources(context, needs), deadline=DEADLINE)
    except (OSError, ValueError, StoreError, TimeoutError) as error:
        return RecoverySources(unknown=clean(getattr(error, "strerror", None) or error))


def _sources(context: ActionContext, needs: Needs) -> RecoverySources:
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
    return RecoverySources(
        paths=paths,
        inside=needs.places,
        readers=needs.readers,
        sealed=sealed,
        lines=lines,
        unknown=unknown,
    )


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
    return frozenset((*tags, *(int(step) for step in told if step.isdecimal()))), None


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


HALF: Final = "left half deleted by an earlier clean-up"
IDENTITIES: Final = "identities"
DELETED: Final = "deleted"


class ToDelete(Frozen):
    """What may be deleted: the listed ones with their identities, and half deleted leftovers."""

    targets: tuple[Target, ...] = ()
    identities: dict[str, str] = Field(default_factory=dict)
    spared: tuple[Target, ...] = ()


class Retain(Action):
    """Deletes the checkpoints that the policy does not keep."""

    verb = "retain"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be deleted and what stays, each with its reason."""
        keep = _keep_param(request.params.get("keep"))
        value = listing(context)
        sources = await sources_of(context)
        hard = tuple(_hard(context, value, sources))
        if isinstance(value, Check):
            return Draft(words=f"delete 0 from {request.run}", checks=hard)
        decisions = _decide(context, value, sources, keep)
        kept = tuple(_target(each) for each in decisions if not each.delete)
        if hard:
            return Draft(words=f"delete 0 from {request.run}", checks=hard, keeps=kept)
        roots = RunRoots(context)
        try:
            to_delete = await _to_delete(decisions, roots)
        except (RootError, RootLostError) as error:
            slow = finding(rows.LISTED, f"the candidates cannot be read: {safe(error)}")
            return Draft(words=f"delete 0 from {request.run}", checks=(slow,))
        count = len(to_delete.targets)
        return Draft(
            words=f"delete {count} from {request.run}",
            checks=(
                *_policy(context, keep),
                *_read(sources, to_delete),
                _freed(to_delete, decisions),
                _left(context, decisions),
                *await _deletable(roots, to_delete),
            ),
            targets=to_delete.targets,
            keeps=(*kept, *to_delete.spared),
            trainer_would_load=value.trainer_would_load,
            facts={IDENTITIES: json.dumps(to_delete.identities, sort_keys=True)},
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: delete one after another, log, comment."""
        log = log_step(_entry, f"{plan.run}: log retention", after_failure=True)
        comment = comment_step(event_name, _comment, after_failure=True)
        return (
            Step("delete", _delete, seen=_all_gone),
            looking_first(log, _see_what_is_gone),
            looking_first(comment, _see_what_is_gone),
        )

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: each that was listed must still be a candidate, and the same one.

        What has appeared since does not matter: it was not listed, so it is not deleted.
        """
        here = {target.path for target in now.targets}
        gone = [target.path for target in shown.targets if target.path not in here]
        stands = next((c.text for c in now.checks if c.stands_in_the_way), None)
        if gone:
            why = {kept.path: kept.why for kept in now.keeps}
            told = why.get(gone[0]) or stands or "it is gone"  # what is not listed may be there
            return f"{gone[0]} is no longer a candidate: {told}"
        was, is_now = (json.loads(plan.facts.get(IDENTITIES, "{}")) for plan in (shown, now))
        other = [path for path in was if was[path] != is_now.get(path)]
        if other:
            return f"{other[0]} is not the one that was listed"
        return stands


def _keep_param(text: str | None) -> int | None:
    if text is None or not text.strip():
        return None
    if not text.strip().isascii() or not text.strip().isdigit() or len(text) > 9:
        raise RefuseError(f"--keep is {safe(text)!r}; expected how many of the newest to keep")
    return int(text)


def _hard(
    context: ActionContext, value: CheckpointsValue | Check, sources: RecoverySources
) -> Iterator[Check]:
    """Yield what must be known before anything may be deleted, and is not."""
    if isinstance(value, Check):
        yield value
    elif value.mixed is not None:
        text = f"whose the saves are is not certain: {value.mixed}; nothing is deleted:"
        text = f"{text} move those of another run to a folder of their own"
        yield finding(rows.MIXED_SAVES, text)
    elif value.unjudged:
        yield finding(rows.LISTED, f"not everything was listed in time: {unlooked(value)}")
    yield from two_writers(context)
    remote = RunRoots(context).unknown
    if remote is not None:
        text = f"{remote} is on a system that nothing is deleted on from here"
        yield finding(rows.LISTED, text)
    if sources.unknown is not None:
        yield finding(rows.SOURCES, f"recovery sources are unknown: {sources.unknown}")


def _decide(
    context: ActionContext, value: CheckpointsValue, sources: RecoverySources, keep: int | None
) -> tuple[Decision, ...]:
    load = value.trainer_would_load
    needed = Needed(
        now=context.now,
        trainer_would_load=None if load is None else load.path,
        sources={item.path: why for item in value.items if (why := sources.why(item)) is not None},
    )
    return decide(value.items, policy_of(context.spec, keep), needed)


async def _to_delete(decisions: Sequence[Decision], roots: RunRoots) -> ToDelete:
    """Return the candidates as they lie there now; one that is a link is spared.

    Raises ``RootLostError`` where that cannot be told.
    """
    targets, spared, identities = [], [], {}
    for each in (each for each in decisions if each.delete):
        path = each.item.path
        try:
            markers = () if each.item.marker is None else (each.item.marker,)
            identities[path] = await roots.of(path).identity(path, markers)
            targets.append(_target(each))
        except RootError as error:
            spared.append(_target(each).model_copy(update={"why": safe(error)}))
    inner = [place_of(each.item.root) for each in decisions]
    for half in await _halves(roots, dict.fromkeys((*roots.roots, *inner))):
        try:
            identities[half.path] = await roots.of(half.path).identity(half.path, ())
        except RootError:
            continue
        targets.append(Target(path=safe(half.path), step=None, size=half.size, why=HALF))
    return ToDelete(targets=tuple(targets), identities=identities, spared=tuple(spared))


async def _halves(roots: RunRoots, places: Iterable[Place]) -> list[Half]:
    """Return what was half deleted in these roots, each once."""
    found: dict[str, Half] = {}
    by_system: dict[str, list[Place]] = {}
    for place in places:
        by_system.setdefault(place.endpoint, []).append(place)
    for mine in by_system.values():
        for half in await roots.of(mine[0]).left_over(mine):
            found.setdefault(half.path, half)
    return list(found.values())


async def _deletable(roots: RunRoots, to_delete: ToDelete) -> list[Check]:
    """Return whether what is to be deleted may be, tried by doing, and what is kept of it."""
    checks: list[Check] = []
    there = (roots.root_of(target.path) for target in to_delete.targets)
    for root in dict.fromkeys(place for place in there if place is not None):
        access = await roots.of(root).access(root, delete=True)
        if access.trouble is not None:
            checks.append(
                blocked(rows.DELETABLE, f"nothing can be deleted there: {access.trouble}")
            )
        elif access.note is not None:
            checks.append(warned(rows.DELETABLE, access.note))
    return checks


def _target(each: Decision) -> Target:
    item = each.item
    step = item.any_step
    return Target(path=item.path, step=step, size=item.size, why=each.why)


def _policy(context: ActionContext, keep: int | None) -> Iterator[Check]:
    policy, depth = policy_of(context.spec, keep), depth_of(context.spec)
    text = f"keeps the newest {policy.keep}; rollback depth {depth}"
    own = context.spec.checkpoints is not None and context.spec.checkpoints.keep is not None
    if keep is not None and policy.keep != keep:
        yield warned(rows.POLICY, f"{text}: never fewer than the rollback depth")
    elif keep is None and not own:
        yield warned(rows.POLICY, f"{text}; no number is set in cockpit.toml", Basis.INFERRED)
    else:
        yield passed(rows.POLICY, text)


def _read(sources: RecoverySources, to_delete: ToDelete) -> Iterator[Check]:
    """Yield that living programs may read what is deleted, if they were told its folder."""
    if sources.readers and to_delete.targets:
        first, *others = sources.readers
        more = f" (and {plural(len(others), 'program')} more)" if others else ""
        text = f"{first}{more}: it may read any save in it; wait until it has ended, or approve if"
        text = f"{text} it needs none of those listed"
        yield finding(rows.MAY_READ, text, value=first)


def _freed(to_delete: ToDelete, decisions: Sequence[Decision]) -> Check:
    by_hand = sum(each.item.files > 1 for each in decisions)
    if not to_delete.targets and by_hand:
        text = f"nothing to delete from here: {plural(by_hand, 'save')} of several files beside"
        return blocked(rows.CANDIDATES, f"{text} each other can be deleted by hand only")
    if not to_delete.targets:
        return blocked(rows.CANDIDATES, "nothing to delete: the policy keeps everything there is")
    text = f"{plural(len(to_delete.targets), 'candidate')}; frees {_bytes(to_delete.targets)}"
    text = f"{text}; this cannot be undone"
    return warned(rows.CANDIDATES, text, value=str(len(to_delete.targets)))


def _left(context: ActionContext, decisions: Sequence[Decision]) -> Check:
    left = [each.item for each in decisions if not each.delete and each.item.good]
    newest = max((item.step for item in left if item.step is not None), default=None)
    text = f"{plural(len(left), 'complete checkpoint')} will be left, up to step {steps(newest)}"
    suspect = sum(each.item.complete and not each.item.good for each in decisions)
    text += f"; {plural(suspect, 'suspect one')} not counted" if suspect else ""
    here = [each for each in decisions if each.item.good]
    if len(left) < min(depth_of(context.spec), len(here)):
        return blocked(rows.LEFT, f"{text}: fewer than the rollback depth {depth_of(context.spec)}")
    # The number left grows while the run saves: it moves by itself.
    return passed(rows.LEFT, text, moves=True)


async def _delete(execution: Execution) -> str:
    identities = json.loads(execution.facts[IDENTITIES])
    roots = RunRoots(execution.context)
    spec = execution.context.spec.checkpoints
    markers = () if spec is None or spec.custom is None else (spec.custom.marker,)
    done: list[Target] = []
    for target in execution.plan.targets:
        left = len(execution.plan.targets) - len(done)
        so_far = f"{plural(len(done), 'checkpoint')} deleted before it, {left} not deleted"
        try:
            one = roots.of(target.path)
            was, plan = identities[target.path], execution.plan.plan_id
            await one.delete(target.path, was, plan, markers)
        except RootLostError as error:
            raise StepUnknownError(safe(f"{error}; {so_far}")) from error
        except RootError as error:
            raise StepError(safe(f"{error}; {so_far}")) from error
        done.append(target)
        await execution.note(**{DELETED: json.dumps([each.path for each in done])})
    return f"{plural(len(done), 'checkpoint')} deleted, {_given_back(execution, done)}"


async def _all_gone(execution: Execution) -> str | None:
    """Return that nothing of what was listed is there, if a clean-up cut short has come so far."""
    paths = [target.path for target in execution.plan.targets]
    if len(await _gone(execution, paths)) < len(paths):
        return None
    await execution.note(**{DELETED: json.dumps(paths)})
    return f"{plural(len(paths), 'checkpoint')} deleted"


async def _gone(execution: Execution, paths: Sequence[str]) -> list[str]:
    """Return which of the paths hold nothing any more; what cannot be asked is not said to be."""
    roots, found = RunRoots(execution.context), []
    for path in paths:
        try:
            if await roots.of(path).gone(path):
                found.append(path)
        except (RootError, RootLostError):
            continue
    return found


async def _see_what_is_gone(execution: Execution) -> None:
    """Look what a clean-up that was cut short has deleted: the last one may not be noted."""
    if execution.trouble is not None:
        known = set(json.loads(execution.facts.get(DELETED, "[]")))
        left = [each.path for each in execution.plan.targets if each.path not in known]
        gone = [*known, *await _gone(execution, left)]
        execution.facts[DELETED] = json.dumps(gone)


def _bytes(targets: Sequence[Target]) -> str:
    known = [target.size for target in targets if target.size is not None]
    unsure = "at least " if len(known) < len(targets) else ""
    return f"{unsure}{size(sum(known))}"


def _given_back(execution: Execution, done: Sequence[Target]) -> str:
    """Return how much room there is now: none where a bucket keeps versions, as the plan said."""
    if any(
        each.id == rows.DELETABLE.id and each.level is Level.WARN for each in execution.plan.checks
    ):
        return f"{_bytes(done)}, of which versions are kept"
    return f"{_bytes(done)} freed"


def _deleted(execution: Execution) -> list[Target]:
    paths = set(json.loads(execution.facts.get(DELETED, "[]")))
    return [target for target in execution.plan.targets if target.path in paths]


def _entry(execution: Execution) -> EventText:
    done = _deleted(execution)
    lines = [f"step {steps(each.step)}: {each.path} ({each.why})" for each in done]
    counted = f"{plural(len(execution.plan.targets), 'checkpoint')} deleted"
    trouble = ""
    if execution.trouble:
        counted, trouble = f"{len(done)} of {counted}", f"; {execution.trouble}"
    return EventText(
        title="retention clean-up",
        status=f"{counted} by {execution.entry.operator}, {_given_back(execution, done)}{trouble}",
        evidence="\n".join(lines) or "nothing was deleted",
        decision=f"confirmed as: {execution.plan.words}",
        next=f"{plural(len(execution.plan.keeps), 'checkpoint')} kept",
    )


def _comment(execution: Execution) -> str:
    done, trouble = _deleted(execution), execution.trouble
    sizes = [each.size for each in done if each.size is not None]
    deleted = [each.step for each in done if each.step is not None]
    kept = [each.step for each in execution.plan.keeps if each.step is not None]
    told = (
        ("Deleted", steps_of(deleted)),
        ("Kept", steps_of(kept)),
        ("Freed", Markdown(size(sum(sizes) if len(sizes) == len(done) else None))),
        ("Confirmed by", person(execution.entry.operator)),
    )
    short = Markdown(f"It did not finish: {prose(trouble)}") if trouble else None
    event = f"{len(deleted):,} checkpoints deleted"
    return comment(execution.context.spec, event, told, short)
