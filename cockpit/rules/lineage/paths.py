"""C-16 and C-17: where a job writes, and which checkpoint it has loaded."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.history import History, Settings
from cockpit.model.late_regex import late_regex
from cockpit.model.lineage import flags_of, named
from cockpit.model.observed import Checkpoint, CheckpointState
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.run import RunSpec
from cockpit.rules.lineage.checkpoints import present_since
from cockpit.rules.lineage.drift import Memo
from cockpit.rules.present import job_of, may_train, of_present, phase_of, phase_since, still_open

KEYS: Final = frozenset((
    "output_root", "output_dir", "output_path", "out_dir", "save_dir", "save_path",
    "base_path", "checkpoint_dir", "checkpoint_path", "checkpoints_dir", "checkpoint_root",
    "ckpt_dir", "ckpt_path",
))  # fmt: skip
"""Settings that name where a training writes; those that are read from (load, init) do not."""
_READS: Final = re.compile(r"load|init|resume|restore|source|pretrained|teacher|cache|data", re.I)
"""A flag with such a word names what is read, not what is written: ``resume_from``."""


class StatedOutput(NamedTuple):
    """Where somebody says that the output goes: who, and the path as it is written."""

    who: str
    path: str


class Elsewhere(NamedTuple):
    """Somebody who names another place than the run's: both paths as the job sees them."""

    stated: StatedOutput
    path: str
    root: str

    @property
    def other_bucket(self) -> bool:
        """True where it is not even the same bucket."""
        return _bucket(self.path) != _bucket(self.root)


def elsewhere(
    run: RunSpec, stated: Sequence[StatedOutput], same: Mapping[str, str]
) -> Iterator[Elsewhere]:
    """Yield who names a place outside of the output root and of the run's checkpoint roots.

    ``same`` maps local paths to where they really lie. All are compared as the job sees them.
    """
    if run.output_root is None:
        return
    roots = [run.output_root, *(run.checkpoints.path if run.checkpoints is not None else ())]
    allowed = [path_in_job(root, run, same) for root in roots]
    for each in stated:
        path = path_in_job(place_of(each.path), run, same)
        if not any(below(path, root) for root in allowed):
            yield Elsewhere(each, path, allowed[0])


def config_paths(who: str, config: Mapping[str, str]) -> Iterator[StatedOutput]:
    """Yield the output paths that a flattened config names, absolute ones only."""
    for key, value in config.items():
        name = key.rpartition(".")[2].lower()
        if name not in KEYS or _READS.search(key):
            continue
        try:
            path = json.loads(value)
        except ValueError:
            path = value
        if isinstance(path, str) and _is_place(path):
            yield StatedOutput(f"{who} ({key})", path)


_SHARES: Final = re.compile(r"(-v|-B|--volume|--bind|--mount|--container-mounts)(?:=(.*))?")
_BY_ONE_NAME: Final = ("-B", "--bind", "--container-mounts")
"""With these a folder that is named once has that name inside, too."""


def shared_folders(words: Sequence[str]) -> dict[str, str]:
    """Return the folders that a command gives to its container, by their paths in there.

    ``-v HERE:THERE:ro``, ``--mount type=bind,source=HERE,target=THERE`` and the like. One that
    is named in another way than by its path (``./runs``, ``$PWD``, a volume) is empty.
    """
    found = {}
    for word, following in zip(words, [*words[1:], ""], strict=False):
        match = _SHARES.fullmatch(word)
        if match is None:
            continue
        parts = (match[2] or following).split(",")
        named = dict(part.split("=", 1) for part in parts if "=" in part)
        pairs = [part.split(":") for part in parts if "=" not in part]
        pairs.append([next((named[key] for key in keys if key in named), "") for keys in _MOUNT])
        for here, *more in pairs:
            there = more[0] if more else here if match[1] in _BY_ONE_NAME else ""
            if there.startswith("/"):
                known = here.startswith("/") and "$" not in here
                found[posixpath.normpath(there)] = posixpath.normpath(here) if known else ""
    return found


_MOUNT: Final = (("source", "src"), ("target", "dst", "destination"))


def seen_outside(stated: StatedOutput, shared: Mapping[str, str]) -> StatedOutput | None:
    """Return an output as this machine spells it that is named as a container spells it.

    ``None`` where it lies in a folder of which nobody knows where it is outside.
    """
    if not shared or not stated.path.startswith("/"):
        return stated
    path = posixpath.normpath(stated.path)
    inside = max((each for each in shared if below(path, each)), key=len, default=None)
    if inside is None:
        why = "in no folder that the command shares with its container (-v)"
        return stated._replace(who=f"{stated.who}, {why},")
    if not shared[inside]:
        return None
    outside = posixpath.join(shared[inside], posixpath.relpath(path, inside))
    return stated._replace(path=posixpath.normpath(outside))


def all_outside(
    stated: Iterable[StatedOutput], shared: Mapping[str, str]
) -> Iterator[StatedOutput]:
    """Yield outputs as this machine spells them, as far as that is known."""
    for each in stated:
        outside = seen_outside(each, shared)
        if outside is not None:
            yield outside


def command_paths(words: Sequence[str]) -> Iterator[StatedOutput]:
    """Yield the output paths that a command's flags name, absolute ones only."""
    for flag, value in flags_of(words).items():
        name = flag.lstrip("-+~").rpartition(".")[2].replace("-", "_").lower()
        if name in KEYS and not _READS.search(flag) and _is_place(value):
            yield StatedOutput(f"the command ({flag})", value)


def record_paths(text: str | None, root: str | None) -> Iterator[StatedOutput]:
    """Yield the path that a record names, if it is one; a relative one must be the root's end."""
    path = (text or "").strip().strip("`*<> ").rstrip("/")
    if not path or re.search(r"\s", path) or root is None:
        return
    if _is_place(path):
        yield StatedOutput("the logbook", path)
    elif "/" in path:
        ours = root.rstrip("/").endswith(f"/{path.removeprefix('./')}")
        yield StatedOutput("the logbook", root if ours else path)


def _is_place(path: str) -> bool:
    return path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def normal(path: str, same: Mapping[str, str]) -> str:
    """Return a path or address in its one spelling."""
    scheme, sign, rest = path.partition("://")
    if sign:
        return f"{scheme.lower()}://{posixpath.normpath(rest)}"
    return same.get(path, posixpath.normpath(path))


def path_in_job(place: Place, run: RunSpec, same: Mapping[str, str]) -> str:
    """Return a place of the run as its job spells it."""
    return normal(place.seen_from(run.job), same)


def below(path: str, root: str) -> bool:
    """Tell whether a path is ``root`` or lies in it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def _bucket(path: str) -> str:
    scheme, sign, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""


SCHEMES: Final = ("gs", "s3")
_PART: Final = r"(?:north|south|east|west|central|northeast|northwest|southeast|southwest)"
_NAMED: Final = late_regex(
    rf"(?:^|[-_.])((?:us|eu|europe|asia|australia|northamerica|southamerica|africa|me|ca|sa|ap|af"
    rf"|il|mx)-(?:gov-)?{_PART}-?\d{{1,2}})(?=$|[-_.])",
    re.I,
)
_ZONE: Final = late_regex(r"(.+\d)-?[a-f]")
"""A zone, of which the region is what stands before its letter: ``us-central1-a``."""
_FLAGS: Final = ("--region", "--zone")


def of_command(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the region that a command asks for, and the flag that says so."""
    flags = flags_of(words)
    for flag in _FLAGS:
        value = flags.get(flag, "").strip()
        if value and " " not in value and "," not in value:
            zone = _ZONE.fullmatch(value) if flag == "--zone" else None
            return plain(zone[1] if zone is not None else value), flag
    return None, None


def named_in(place: Place) -> str | None:
    """Return the region that a bucket's name holds, if it holds one."""
    found = _NAMED.search(place.host) if place.scheme in SCHEMES else None
    return None if found is None else plain(found[1])


def plain(region: str) -> str:
    """Return a region's one spelling: Google's ``eu-west4`` is ``europe-west4``."""
    text = region[:40].strip().lower()
    google = re.fullmatch(r"eu-([a-z]+\d{1,2})", text)
    return f"europe-{google[1]}" if google is not None else text


def output_elsewhere(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-16: one alert of a living job: other places than the run's, and other regions."""
    if not phase_of(history).lives or run.output_root is None:
        return
    key = f"C-16:{run.name}"
    stated = list(stated_outputs(history))
    other = [each for each in elsewhere(run, stated, {}) if not _same_folder(each, run, history)]
    apart = [*_regions(run, run.output_root, history)]
    book = list(_recorded(run, history))
    recorded = [each for each in elsewhere(run, book, {}) if not _same_folder(each, run, history)]
    if other or apart or recorded:
        yield _output_alert(run, history, key, other, recorded, apart)
    elif not stated or (run.records.logbook and history.facets.records.value is None):
        former = still_open(history, key)
        yield from () if former is None else (former,)


def stated_outputs(history: History) -> Iterator[StatedOutput]:
    """Yield who names the output: the launch as it was recorded, and the config that runs."""
    used, settings, job = history.used, history.settings, job_of(history)
    shared: Mapping[str, str] = {}
    if used is not None and (job is None or job.launch_id in (None, used.launch_id)):
        shared = shared_folders(used.command)
        yield from all_outside(command_paths(used.command), shared)
        if used.output_root is not None:
            yield StatedOutput(f"launch {used.launch_id}", used.output_root)
    yield from all_outside(() if settings is None else _BY_CONFIG(settings), shared)


def _recorded(run: RunSpec, history: History) -> Iterator[StatedOutput]:
    """Yield what the logbook's run contract says of the output root, where it names one."""
    records = history.facets.records.value
    if records is not None and run.output_root is not None:
        own = run.output_root.seen_from(run.job)
        yield from record_paths(records.output_root, own)


def _by_config(settings: Settings) -> list[StatedOutput]:
    return list(config_paths(settings.source, settings.values))


_BY_CONFIG: Final[Memo[list[StatedOutput]]] = Memo(_by_config)


def _same_folder(found: Elsewhere, run: RunSpec, history: History) -> bool:
    """Tell whether both may be one folder of a file system, by another name."""
    if "://" in found.path or "://" in found.root:
        return False
    alike = posixpath.basename(found.root) in found.path.split("/")
    return alike or _lands(run, history)


def _lands(run: RunSpec, history: History) -> bool:
    """Tell whether the present job's saves come to the run's own roots."""
    value, began = history.facets.checkpoints.value, present_since(history)
    items = () if value is None else value.items
    return began is not None and any(
        item.complete and item.saved_at is not None and item.saved_at > began for item in items
    )


def _regions(run: RunSpec, root: Place, history: History) -> Iterator[Evidence]:
    """Yield the places whose bucket is named after another region than the job asks for."""
    used = history.used
    asked, flag = of_command(()) if used is None else of_command(used.command)
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    base = asked or named_in(root)
    whose = f"the job's {flag}" if asked is not None else f"the output root {root}"
    for place in dict.fromkeys((root, *roots)):
        region = named_in(place)
        if base is not None and region is not None and region != base:
            text = f"{place} is in {region}, {whose} says {base}"
            yield Evidence(text=text, source="run file" if used is None else used.launch_id)


def _output_alert(
    run: RunSpec,
    history: History,
    key: str,
    other: list[Elsewhere],
    recorded: list[Elsewhere],
    apart: list[Evidence],
) -> Alert:
    title = "The job writes to another place than recorded" if other else "Output in another region"
    advice = (
        "its checkpoints are not where a relaunch looks"
        if other
        else "cross-region traffic is slow and billed"
    )
    if recorded and not other:
        title = "The logbook names another output root than cockpit.toml"
        advice = "whoever follows the logbook looks for checkpoints in the wrong place"
    return Alert(
        key=key,
        title=title,
        since=phase_since(history),
        evidence=(
            *(_elsewhere_evidence(run, each, "writes to") for each in other),
            *(_elsewhere_evidence(run, each, "records") for each in recorded),
            *apart,
        ),
        confidence="likely",
        next_action=f"ask {wording.person(run)} which place is right: {advice}; do not"
        " relaunch before that is settled",
    )


def _elsewhere_evidence(run: RunSpec, found: Elsewhere, does: str) -> Evidence:
    who, bucket = found.stated.who, " (another bucket)" if found.other_bucket else ""
    text = f"{who} {does} {found.stated.path}, cockpit.toml says {run.output_root}{bucket}"
    return Evidence(text=text, source=who)


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
        yield _loaded_alert(run, history, key, found)
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
    """Yield what is wrong with a claim: its state, or that it is not this run's."""
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
    step = item.any_step
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
    at = {item.path: path_in_job(place_of(item.path), run, {}) for item in items}
    where = path_in_job(place_of(path), run, {})
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
    own, there = (
        [path_in_job(place, run, {}) for place in known],
        path_in_job(place_of(path), run, {}),
    )
    if any(below(there, root) for root in own):
        return False
    if "://" in there:
        return True
    if any(root.startswith(f"{SSH}://") for root in own):
        return False  # another machine's: the job may see the same folder under another path
    alike = [root for root in own if root.rstrip("/").rpartition("/")[2] in there.split("/")]
    siblings = bool(alike) and all(_siblings(there, root) for root in alike)
    return not alike or (siblings and not _writes_to(run, history, there))


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
    where = (path_in_job(place_of(each.path), run, {}) for each in said)
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


def _loaded_alert(run: RunSpec, history: History, key: str, found: list[Evidence]) -> Alert:
    return Alert(
        key=key,
        title=f"Resumed from a wrong checkpoint: {found[0].text}",
        since=phase_since(history),
        evidence=tuple(found),
        confidence="likely",
        next_action=f"ask {wording.person(run)}; if not intended, stop {run.name} before it"
        " overwrites good checkpoints, then name the right one in the command",
    )
