"""C-15 and C-18: the code that a job runs, and the settings that it runs with."""

from __future__ import annotations

import json
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, Generic, NamedTuple, TypeVar

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.jobs import Snapshot
from cockpit.model.late_regex import late_regex
from cockpit.model.lineage import Touches, worst_first
from cockpit.model.observed import CodeValue
from cockpit.model.run import CodeSpec, RunSpec
from cockpit.rules import present
from cockpit.rules.present import job_of, of_present, phase_of, phase_since, seen_at, still_open

FILES_SHOWN: Final = 8
"""Changed files that an alert names; the rest is counted."""
SOURCE_SUFFIXES: Final = frozenset((
    ".py", ".pyx", ".pxd", ".pyi", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp",
    ".rs", ".go", ".jl", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".gin",
))  # fmt: skip
"""Of files that git does not know only these can be code: the others are what a run leaves."""


class Record(NamedTuple):
    """What the present job should run: a commit, who says so, and its launch, if it was ours."""

    sha: str
    by: str
    used: Snapshot | None


def code_drifts(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-15: one alert of a living job, whatever of its code is another one than is recorded."""
    if not phase_of(history).lives:
        return
    key, facet = f"C-15:{run.name}", history.facets.code
    record = record_of(history)
    running = tuple(_what_runs(history, record))
    checkout = tuple(_checkout(run.code, facet.value, history.used, record))
    found = (*running, *present.evidence(facet.source, *checkout))
    if not found:
        former = still_open(history, key) if facet.value is None else None
        yield from () if former is None else (former,)
        return
    yield _alert(run, history, key, found, proven=bool(running))


def record_of(history: History) -> Record | None:
    """Return the commit that is recorded for the present job; ``None``: none is known."""
    used, job, code = history.used, job_of(history), history.facets.code.value
    if used is not None and used.sha and (job is None or job.launch_id in (None, used.launch_id)):
        return Record(used.sha, used.launch_id, used)
    if code is None or code.record_sha is None:
        return None
    return Record(code.record_sha, "the logbook", None)


def same_code(code: CodeValue | None, one: str, other: str) -> bool:
    """Tell whether two commits hold the same code, by what is known to lie between them."""
    if same_commit(one, other):
        return True
    alike = () if code is None else code.alike
    return all(any(same_commit(each, known) for known in alike) for each in (one, other))


def same_commit(one: str, other: str) -> bool:
    """Tell whether two commits are one; either may be shortened."""
    return one.startswith(other) or other.startswith(one)


def _what_runs(history: History, record: Record | None) -> Iterator[Evidence]:
    job, tracker = job_of(history), history.facets.tracker
    code = history.facets.code.value
    bundle = None if job is None else job.bundle
    if record is None:
        return
    if bundle is not None and bundle.commit is not None:
        source = history.facets.job.source
        if not same_code(code, bundle.commit, record.sha):
            yield Evidence(text=_runs("the job's bundle", bundle.commit, record), source=source)
        elif bundle.dirty and not (record.used is not None and record.used.dirty):
            text = f"the job's bundle has uncommitted changes, {record.by} records none"
            yield Evidence(text=text, source=source)
    elif tracker.value is not None and tracker.value.git_commit is not None and _newer(history):
        ran = tracker.value.git_commit
        if not same_code(code, ran, record.sha):
            text = _runs("the tracker's client", ran, record)
            yield Evidence(text=text, source=tracker.source)


def _runs(who: str, ran: str, record: Record) -> str:
    return f"{who} says commit {ran[:10]}, {record.by} records {record.sha[:10]}"


def _newer(history: History) -> bool:
    """Tell whether the tracker's word is one of the present job, not of the one before it.

    Where it dates its launches, by that: a former client may write for a while beside a new job.
    """
    job, tracker = job_of(history), history.facets.tracker.value
    if tracker is not None and tracker.config_since is not None:
        return of_present(tracker.config_since, history)
    at = None if tracker is None else tracker.last_record_at or tracker.last_step_at
    return at is not None and (job is None or job.started_at is None or at >= job.started_at)


def _checkout(
    spec: CodeSpec | None, code: CodeValue | None, used: Snapshot | None, record: Record | None
) -> Iterator[str]:
    """Yield what a restart from the checkout would run instead."""
    if spec is None or code is None or code.sha is None or _as_launched(code, used):
        return
    dirty = worst_first(_may_be_code(code), spec)
    if dirty:
        yield f"uncommitted at {code.sha[:10]}: {_file_names(dirty)}"
    moved = record is not None and not same_commit(code.sha, record.sha)
    files = _between(code, record, spec)
    if moved and record is not None and (files is None or files):
        what = "it is not known which files differ" if not files else _file_names(files)
        yield f"commit {code.sha[:10]}, {record.by} records {record.sha[:10]}: {what}"
    counts = bool(dirty) or (moved and files != ())
    was = used.branch if used is not None else None
    if counts and was is not None and was != code.branch:
        yield f"on branch {code.branch or '(detached)'}, launched from {was}"
    ahead = None if code.ahead_files is None else worst_first(code.ahead_files, spec)
    if code.unpushed and (ahead or (ahead is None and record is not None)):
        what = f": {_file_names(ahead)}" if ahead else ""
        yield f"{code.unpushed} commits not pushed{what}"


def _between(
    code: CodeValue, record: Record | None, spec: CodeSpec
) -> tuple[tuple[Touches, str], ...] | None:
    """Return what differs from the record; git was asked about one recorded commit alone."""
    since = code.base or code.record_sha
    of_record = record is not None and since is not None and same_commit(since, record.sha)
    return worst_first(code.changed, spec) if code.changed is not None and of_record else None


def _as_launched(code: CodeValue, used: Snapshot | None) -> bool:
    """Tell whether commit and changes are those that the launch has recorded: approved then."""
    then = None if used is None else (used.sha, used.dirty, used.patch_id)
    return then == (code.sha, code.dirty, code.patch_id)


def _may_be_code(code: CodeValue) -> list[str]:
    left = set(code.untracked)
    return [p for p in code.dirty if p not in left or PurePosixPath(p).suffix in SOURCE_SUFFIXES]


def _file_names(files: Sequence[tuple[Touches, str]]) -> str:
    names = ", ".join(path for _, path in files[:FILES_SHOWN])
    names += f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    serious = any(kind is Touches.TRAJECTORY for kind, _ in files)
    return f"{names} ({'affects training' if serious else 'declared safe'})"


def _alert(
    run: RunSpec, history: History, key: str, found: tuple[Evidence, ...], *, proven: bool
) -> Alert:
    """Return the alert; of a checkout it is known since when it was seen, not when it changed."""
    who, since = wording.person(run), seen_at(history.facets.code, history.now)
    title = "A restart would run different code than recorded"
    advice = f"restore the recorded commit, or ask {who} to approve the changes before a restart"
    if proven:
        since = phase_since(history)
        title = "The job runs different code than recorded"
        advice = (
            f"tell {who}: fix the record, or stop the job; different code is a different trajectory"
        )
    return Alert(
        key=key,
        title=title,
        since=since,
        evidence=found,
        confidence="likely",
        next_action=advice,
    )


DEEPEST: Final = 40
_NOISE: Final = frozenset((
    "timestamp", "time", "date", "datetime", "start_time", "started_at", "created_at",
    "launch_time", "hostname", "host", "node", "nodename", "node_name", "pid", "username", "user",
    "run_dir", "run_directory", "working_dir", "workdir", "cwd", "wandb_dir", "wandb_run_dir",
    "launch_id", "job_id", "slurm_job_id", "ray_job_id", "iris_job_id", "task_id", "master_addr",
    "master_port", "coordinator_address", "git_commit", "git_sha", "commit", "argv", "cmdline",
))  # fmt: skip
"""Settings that differ by themselves at each launch: the last part of the key decides."""
_INTERNAL: Final = late_regex(r"(?:^|\.)_?wandb(?:\.|$)|^_")
"""Settings of the tracker itself: ``_wandb.runtime``."""
_MATTERS: Final = late_regex(
    r"batch|max_steps|num_(?:train_)?steps|total_steps|optim|learning_rate|(?:^|[._-])lr(?:$|[._])|"
    r"momentum|beta|weight_decay|warmup|schedule|save|checkpoint|seed|mesh|axis|parallel|shard|"
    r"precision|dtype|(?:^|[._])(?:bf16|fp16|fp8|mp)(?:$|[._])|data|token|vocab|seq|model|hidden",
    re.IGNORECASE,
)
"""What SPEC C-18 lists by name; any other setting counts as well, listed after these."""


_SIZES: Final = late_regex(
    r"batch|accum|(?:^|[._])(?:n|num|n_|num_)?(?:nodes|hosts|gpus|tpus|slices|devices|processes)(?:$|[._])"
    r"|nproc|world_?size|device_count|tpu_type|accelerator|mesh|parallel",
    re.I,
)
"""A size that another machine may change without changing the training: ``world_size``."""
_OTHER_FILES: Final = late_regex(r"eval|valid|test|predict|infer|generat", re.I)
"""Settings of other work than training: ``eval_suite.yaml``."""


def resized(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the keys of batch and hardware that both have with another value.

    They decide how fast training runs; those of evaluation say nothing of it.
    """
    return [
        key
        for key in differing(was, now)
        if _SIZES.search(key) is not None and _OTHER_FILES.search(key) is None
    ]


def differing(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the keys that both have with another value, those that SPEC C-18 names first."""
    changed = [key for key in was.keys() & now.keys() if not alike(was[key], now[key])]
    return weighty_first(changed)


def weighty_first(keys: list[str]) -> list[str]:
    """Return keys in the order in which a person should read them."""
    return sorted(keys, key=lambda key: (not weighs(key), key))


def weighs(key: str) -> bool:
    """Tell whether a setting is of those that SPEC C-18 lists by name."""
    return _MATTERS.search(key) is not None


def alike(was: str, now: str) -> bool:
    """Tell whether two values are one, however a parser has typed them.

    YAML reads ``1e-4`` as a word, a command line everything; ``"none"`` is how one writes null.
    """
    return was == now or _plain(was) == _plain(now)


def _plain(value: str) -> object:
    """Return a value without its type: a number, a truth value, null, else its text."""
    try:
        found = json.loads(value)
    except ValueError:
        found = value
    if isinstance(found, bool) or not isinstance(found, str):
        return found if found is None or isinstance(found, bool | int | float) else value
    word = found.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return found
    return number if math.isfinite(number) else found


_WORDS: Final = {"true": True, "false": False, "none": None, "null": None, "": None}


def leaves(document: Mapping[str, object]) -> dict[str, str]:
    """Return a nested document, shown already, as dotted keys with JSON text."""
    return dict(_leaves("", document, 0))


def _leaves(prefix: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and depth < DEEPEST:
        for key, each in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), each, depth + 1)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for place, each in enumerate(value):
            yield from _leaves(f"{prefix}.{place}", each, depth + 1)
    else:
        yield prefix, _text(value)


def _text(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, list):
        return f"[{', '.join(_text(each) for each in value)}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def counted(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that count: without those that differ at each launch."""
    return {key: value for key, value in values.items() if not is_noise(key)}


def is_noise(key: str) -> bool:
    """Return whether a setting differs by itself from launch to launch."""
    return key.rpartition(".")[2].lower() in _NOISE or _INTERNAL.search(key) is not None


R = TypeVar("R")
MOST: Final = 2048
"""Answers kept: two for each of a thousand runs."""


class Memo(Generic[R]):
    """A pure function of objects that are never changed, known again by what they are."""

    def __init__(self, make: Callable[..., R]) -> None:
        self._make = make
        self._known: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], R]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *parts: object) -> R:
        """Return the answer for ``parts``; they are held on to, so that no other takes their id."""
        key = tuple(map(id, parts))
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key][1]
        answer = self._make(*parts)
        with self._lock:
            self._known[key] = parts, answer
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return answer


SETTINGS_SHOWN: Final = 12
"""Settings that an alert names; the rest is counted."""
LONGEST: Final = 120
_OF_A_START: Final = re.compile(
    r"resume|restore|(?:^|[._])load(?:$|[._])|init(?:ialize)?_from|ckpt_path|start_(?:step|epoch)"
    r"|global_step|last_step|restart|attempt|run_?name|run_?id|output|out_dir|save_(?:dir|path)"
    r"|log(?:ging)?_?dir|(?:checkpoint|ckpt)_(?:dir|path)|port$|world_?size|rank$|num_nodes|devices$",
    re.I,
)
"""Settings that each start has its own of; where it writes and what it loads are C-16 and C-17."""


def config_drifts(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-18: one alert of a living job that names each setting with both values."""
    if not phase_of(history).lives:
        return
    key, now, prior = f"C-18:{run.name}", history.settings, _prior(history)
    if now is None or prior is None:
        former = still_open(history, key)
        yield from () if former is None else (former,)
        return
    by, old = prior
    new = now.values
    changed = _CHANGED(old, new)
    if not changed:
        return
    lines = [
        f"{each}: {_short(old[each])} → {_short(new[each])}" for each in changed[:SETTINGS_SHOWN]
    ]
    if len(changed) > SETTINGS_SHOWN:
        lines.append(f"and {len(changed) - SETTINGS_SHOWN} more settings")
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    serious = any(weighs(each) for each in changed)
    yield Alert(
        key=key,
        severity=Severity.ALERT if serious else Severity.WARNING,
        title=f"Config differs from {by}: {', '.join(changed[:3])}{more}",
        since=phase_since(history),
        evidence=present.evidence(f"{now.source} against {by}", *lines),
        confidence="likely",
        next_action=f"ask {wording.person(run)} whether each difference is meant; if not, stop"
        f" {run.name} before it saves on, and relaunch with the previous config",
    )


def _prior(history: History) -> tuple[str, Mapping[str, str]] | None:
    used, former = history.used, history.former_settings
    if used is not None and used.config:
        return f"launch {used.launch_id}", used.config
    return None if former is None else ("the previous job", former.values)


def _changed(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return differing(_compared(was), _compared(now))


_CHANGED: Final[Memo[list[str]]] = Memo(_changed)


def _compared(values: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in counted(values).items() if _OF_A_START.search(k) is None}


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
