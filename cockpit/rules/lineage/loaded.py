"""C-17, wrong checkpoint: what the running job says it has resumed from, held against the listing.

Who says it: the log's own line, the config that runs, the launch as it was recorded. A checkpoint
that is not listed is unknown, not wrong; one that lies outside of the run's roots and is not its
``initialize_from`` is of another lineage. How far it went back is C-12's to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History, Settings
from cockpit.model.lineage import named
from cockpit.model.observed import Checkpoint, CheckpointState
from cockpit.model.place import SSH, place_of
from cockpit.model.run import RunSpec
from cockpit.rules.artifacts.checkpoints import present_since
from cockpit.rules.lineage.memo import Memo
from cockpit.rules.lineage.output import stated_outputs
from cockpit.rules.lineage.output_root import below, normal, seen
from cockpit.rules.present import job_of, may_train, of_present, phase_since, still_open

_RESUMES: Final = re.compile(
    r"(?:^|[._])(?:resume_from\w*|resume_path|restore_(?:from|path|dir)"
    r"|load_checkpoint\w*|checkpoint_to_load|ckpt_path)$"
)
"""Settings that name the checkpoint that training goes on from; weights to begin with are none."""
_BAD: Final = (CheckpointState.INCOMPLETE, CheckpointState.REJECTED)


class Claim(NamedTuple):
    """What somebody says was loaded: a path, a step, or both."""

    who: str
    path: str | None
    step: int | None
    line: str


def wrong_checkpoint(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-17: one alert for each start; it stays until the job is another one."""
    job = job_of(history)
    if not may_train(history) or job is None:
        return
    key = f"C-17:{run.name}:{job.launch_id or f'{job.id}@{job.started_at or 0:.0f}'}"
    claims = list(_claims(history))
    found = [each for claim in claims for each in _wrong(run, history, claim)]
    if found:
        yield _alert(run, history, key, found)
        return
    former = still_open(history, key)
    if former is not None and not claims:
        yield former


def _claims(history: History) -> Iterator[Claim]:
    log, used, job = history.facets.log, history.used, job_of(history)
    told = None if log.value is None else log.value.announced.loaded
    if told is not None and of_present(told.at, history):
        yield Claim(log.source, told.path, told.step, told.line)
    if used is not None and used.checkpoint is not None and job is not None:
        pick = used.checkpoint
        if job.launch_id == used.launch_id:
            line = f"{used.launch_id} was to load {named(pick)}: {pick.path}"
            yield Claim("journal", pick.path, pick.step, line)
    if history.settings is not None:
        yield from _OF_SETTINGS(history.settings)


def _of_settings(settings: Settings) -> list[Claim]:
    return list(_named_in(settings))


_OF_SETTINGS: Final[Memo[list[Claim]]] = Memo(_of_settings)


def _named_in(settings: Settings) -> Iterator[Claim]:
    for key, value in settings.values.items():
        if _RESUMES.search(key) is None:
            continue
        try:
            path = json.loads(value)
        except ValueError:
            continue
        if isinstance(path, str) and "/" in path:
            yield Claim(f"{settings.source} ({key})", path, None, path)


def _wrong(run: RunSpec, history: History, claim: Claim) -> Iterator[Evidence]:
    """Yield what is wrong with a claim: of which state it is, or that it is none of this run's."""
    value = history.facets.checkpoints.value
    items = [] if value is None or value.unlisted else _meant(value.items, claim, run)
    bad = items and all(item.state in _BAD for item in items)
    if bad and not any(_was_whole(history, item) for item in items):
        item = items[-1]
        why = f" ({item.note})" if item.note else ""
        yield Evidence(text=f"{named(item)} is {item.state.value}{why}", source=item.path)
        yield Evidence(text=claim.line, source=claim.who)
    elif claim.path is not None and _foreign(run, history, claim.path):
        text = f"{claim.path} is in none of the run's roots: another lineage"
        yield Evidence(text=text, source=claim.who)
    elif items and value is not None:
        yield from _badly_picked(run, history, claim, items[-1])


def _was_whole(history: History, item: Checkpoint) -> bool:
    """Tell whether what is torn now was complete then: trainers remove old ones piece by piece."""
    step = item.name_step if item.step is None else item.step
    if item.state is not CheckpointState.INCOMPLETE or step is None:
        return False
    pick, began = history.used.checkpoint if history.used else None, present_since(history)
    if pick is not None and (pick.path, pick.step) == (item.path, step):
        return True
    at = next((m.at for m in reversed(history.checkpoints) if began and m.at <= began), began)
    return at is not None and any(m.newest == step for m in history.checkpoints if m.at >= at)


def _meant(items: tuple[Checkpoint, ...], claim: Claim, run: RunSpec) -> list[Checkpoint]:
    """Return the checkpoints that a claim can mean: by path where it tells one, else by step."""
    step, path = claim.step, claim.path
    of_step = [item for item in items if step is not None and step in (item.step, item.name_step)]
    if path is None:
        return of_step
    if not _is_whole(path):
        tail = "/" + normal(path, {}).lstrip("./")
        return [item for item in items if item.path.endswith(tail)] or of_step
    at = {item.path: seen(place_of(item.path), run, {}) for item in items}
    where = seen(place_of(path), run, {})
    exact = [item for item in items if below(where, at[item.path])]
    return exact or [item for item in of_step if below(at[item.path], where)]


def _is_whole(path: str) -> bool:
    return path.startswith("/") or "://" in path


def _foreign(run: RunSpec, history: History, path: str) -> bool:
    """Tell whether a whole path lies outside of all that the run file names.

    A local path that ends as a root does may be another name of the same folder (a link, a mount
    inside a container): unknown. A sibling of the root is none, unless the job writes there.
    """
    spec = run.checkpoints
    if spec is None or not spec.path or not _is_whole(path):
        return False
    known = [*spec.path, *(p for p in (run.output_root, spec.initialize_from) if p is not None)]
    own, there = [seen(place, run, {}) for place in known], seen(place_of(path), run, {})
    if any(below(there, root) for root in own):
        return False
    if "://" in there:
        return True
    if any(root.startswith(f"{SSH}://") for root in own):
        return False  # another machine's: the job may see the same folder under another path
    alike = [root for root in own if _last(root) in there.split("/")]
    siblings = bool(alike) and all(_siblings(there, root) for root in alike)
    return not alike or (siblings and not _writes_to(run, history, there))


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _siblings(path: str, root: str) -> bool:
    """Tell whether a path lies in a folder that is named as the root is, elsewhere in its tree.

    What is linked or mounted is named otherwise from its beginning, or lies less or more deep.
    """
    parts, ours = path.split("/")[1:], root.rstrip("/").split("/")[1:]
    where = parts[: len(ours)]
    return len(where) == len(ours) and (where[0], where[-1]) == (ours[0], ours[-1])


def _writes_to(run: RunSpec, history: History, path: str) -> bool:
    """Tell whether the job itself names a folder above ``path`` as its output (C-16 judges it)."""
    said = (each for each in stated_outputs(history) if not _RESUMES.search(each.who.rstrip(")")))
    where = (seen(place_of(each.path), run, {}) for each in said)
    return any(path != each and below(path, each) for each in where)


def _badly_picked(
    run: RunSpec, history: History, claim: Claim, item: Checkpoint
) -> Iterator[Evidence]:
    """Yield a pick by name where one of a later step was complete, and one of the temporary root.

    Only what was complete before the job began could have been picked.
    """
    value, began, step = history.facets.checkpoints.value, present_since(history), item.step
    if value is None or began is None or step is None or claim.path is None:
        return
    before = [each for each in value.items if each.good and (each.saved_at or began) < began]
    later = [each for each in before if each.step is not None and each.step > step]
    name = item.path.rpartition("/")[2]
    numbered = item.name_step is not None  # ``last.ckpt`` is no number taken for a word
    by_name = [each for each in later if numbered and each.path.rpartition("/")[2] < name]
    if by_name and len(by_name) == len(later):
        text = f"{name} is last by name, not by step: {named(by_name[-1])} was complete"
        yield Evidence(text=text, source=claim.who)
    lasting = [each for each in before if each.step == step and each.permanent]
    if item.permanent is False and lasting and not later:
        text = f"{item.path} is temporary, and {lasting[-1].path} of the same step is permanent"
        yield Evidence(text=text, source=claim.who)


def _alert(run: RunSpec, history: History, key: str, found: list[Evidence]) -> Alert:
    return Alert(
        id="C-17",
        key=key,
        severity=Severity.ALERT,
        title=f"Resumed from a wrong checkpoint: {found[0].text}",
        since=phase_since(history),
        evidence=tuple(found),
        confidence="likely",
        next_action=f"ask {wording.person(run)}; if not intended, stop {run.name} before it"
        " overwrites good checkpoints, then name the right one in the command",
    )
