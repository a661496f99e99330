"""Fill in what a run's table leaves to defaults: paths, tier, launch command, final step.

INTERFACE, "The run file": relative paths start at the file's folder; a path with a scheme, and
what lies on ``job.host``, is left as written.
"""

from __future__ import annotations

import glob
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from cockpit.config.reading import read_within
from cockpit.model.base import Frozen
from cockpit.model.finalstep import FinalStepTold, final_step_in, final_step_of_command
from cockpit.model.place import Place, on_host
from cockpit.model.run import CheckpointSpec, FinalStepFrom, JobSpec, MonitorSpec, RunSpec
from cockpit.text.safe import clean

S = TypeVar("S", bound=Frozen)
Resolve = Callable[[str], str]

HERO_FLOPS = 1e22
"""From here on a run is a hero run unless the file says otherwise."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ON_HOST = ("log", "done_marker", "pid_file", "exit_file", "workdir")
_SPOKEN = ("goal", "stop_criteria", "hardware", "dri", "group")
_YAML = (".yaml", ".yml", ".json", ".toml")
_BIGGEST_FILE = 16 * 2**20
_NEXT_CONFIG = "config file"


def resolved(run: RunSpec, folder: Path) -> RunSpec:
    """Return ``run`` with every default and path filled in; reads ``final_step_from``."""

    def here(path: str) -> str:
        return local_path(path, folder)

    def there(place: Place) -> Place:
        return _place(place, folder)

    job = run.job and _job(run.job, run.workdir, folder)
    host = None if job is None else job.host
    parts: dict[str, Any] = {
        "job": job,
        "workdir": job.workdir if job is not None else run.workdir and there(run.workdir),
        "wandb": run.wandb and _places(run.wandb, ("dir",), host, folder),
        "trackio": run.trackio and _places(run.trackio, ("db",), host, folder),
        "tensorboard": run.tensorboard and _places(run.tensorboard, ("dir",), host, folder),
        "output_root": run.output_root and there(run.output_root),
        "monitor": run.monitor and _monitor(run.monitor, folder),
        "records": _paths(run.records, ("logbook", "run_log"), here),
        "code": run.code and _places(run.code, ("repo",), None, folder),
        "teardown": run.teardown and _paths(run.teardown, ("pulled_to",), here),
        "checkpoints": run.checkpoints and _checkpoints(run.checkpoints, folder),
        "launch": run.resubmit if run.launch is None else run.launch,
        "tier": run.tier if "tier" in run.model_fields_set else _tier(run),
        **{name: clean(text, 2000) for name in _SPOKEN if (text := getattr(run, name))},
    }
    run = _paths(run, ("config_file",), here).model_copy(update=parts)
    return _with_final_step(run, folder)


def local_path(path: str, folder: Path) -> str:
    """Return ``path`` absolute, from ``folder``; one with a scheme (``gs://``) as it is."""
    if path.startswith("file:///"):
        return path.removeprefix("file://")
    if _SCHEME.match(path):
        return path
    if not path.startswith("~"):
        return str(folder / path)
    try:
        return str(Path(path).expanduser())
    except RuntimeError:  # ~name of nobody on this machine: the source will not find it and say so
        return path


def _moved(path: str | None, here: Resolve) -> str | None:
    return None if path is None else here(path)


def _paths(part: S, names: Iterable[str], here: Resolve) -> S:
    """Return ``part`` with the paths in its fields ``names`` made absolute."""
    return part.model_copy(update={name: _moved(getattr(part, name), here) for name in names})


def _place(place: Place, folder: Path) -> Place:
    """Return a place of this machine absolute, any other as it is."""
    return Place(place.scheme, "", local_path(place.path, folder)) if place.here else place


def _places(part: S, names: Iterable[str], host: str | None, folder: Path) -> S:
    """Return ``part`` with the places in its fields ``names`` on ``host``, else absolute here."""

    def resolve(place: Place | None) -> Place | None:
        return None if place is None else _there(place, host, folder)

    return part.model_copy(update={name: resolve(getattr(part, name)) for name in names})


def _there(place: Place, host: str | None, folder: Path) -> Place:
    if not place.here:
        return place
    return _place(place, folder) if host is None else on_host(host, place.path)


def _job(job: JobSpec, workdir: Place | None, folder: Path) -> JobSpec:
    own = job.workdir or workdir or (Place("file", "", str(folder)) if job.host is None else None)
    job = job.model_copy(update={"workdir": own})
    job = _places(job, _ON_HOST, job.host, folder)
    if job.other_logs:
        others = tuple(_there(each, job.host, folder) for each in job.other_logs)
        job = job.model_copy(update={"other_logs": others})
    is_file = job.cluster is not None and ("/" in job.cluster or job.cluster.endswith(_YAML))
    return _paths(job, ("cluster",), lambda path: local_path(path, folder)) if is_file else job


def _monitor(monitor: MonitorSpec, folder: Path) -> MonitorSpec:
    """Resolve the event log, and the state's pattern with the folder's own name kept literal."""
    monitor = _paths(monitor, ("events",), lambda path: local_path(path, folder))
    pattern = Path(glob.escape(str(folder)))
    return _paths(monitor, ("state",), lambda path: local_path(path, pattern))


def _checkpoints(part: CheckpointSpec, folder: Path) -> CheckpointSpec:
    roots = {"path": tuple(_place(root, folder) for root in part.path)}
    return _places(part.model_copy(update=roots), ("initialize_from",), None, folder)


def _tier(run: RunSpec) -> str:
    """Return the tier that follows from the run's size and records (INTERFACE ``tier``)."""
    recorded = run.records.issue is not None or run.records.logbook is not None
    return "hero" if recorded or (run.model_flops or 0.0) >= HERO_FLOPS else "ordinary"


def _with_final_step(run: RunSpec, folder: Path) -> RunSpec:
    """Return ``run`` with its final step and where it comes from, or why it is not known.

    SPEC C-20: only from the run file, the training config or the command, never from a progress
    bar. A config that cannot be read is the world's state, not an error of the run file. What
    the present job itself tells comes later (``cockpit.rules.metrics.finalstep``).
    """
    told = tuple(_told(run, folder))
    chosen = next((each for each in told if each.step is not None), None)
    why = next((f"unknown: {each.why}" for each in told if each.explicit), None)
    changes = {
        "final_step": None if chosen is None else chosen.step,
        "final_step_source": why if chosen is None else chosen.source,
        "final_step_told": told,
    }
    return run.model_copy(update=changes)


def _told(run: RunSpec, folder: Path) -> Iterator[FinalStepTold]:
    """Yield what tells the final step, whose word counts most first."""
    if run.final_step is not None:
        yield FinalStepTold(step=run.final_step, source="run file", explicit=True)
    if run.final_step_from is not None:
        yield _named_setting(run.final_step_from, folder)
    if run.config_file is not None and not _SCHEME.match(run.config_file):
        yield from _by_config(run.config_file)
    for what, command in (("resubmit", run.resubmit), ("launch", run.launch)):
        found = None if command is None else final_step_of_command(command, f"{what} command")
        if found is not None:
            yield found


def _by_config(file: str) -> Iterator[FinalStepTold]:
    """Yield what the config of the next launch tells; one that gives no answer is unknown."""
    try:
        config = _config(Path(file))
        found = final_step_in(config, _NEXT_CONFIG) if isinstance(config, dict) else None
    except TimeoutError as error:
        why = clean(f"{file} {error.strerror}")
        found = FinalStepTold(step=None, source=_NEXT_CONFIG, why=why)
    except (OSError, ValueError, RecursionError):
        return
    if found is not None:
        yield found


def _named_setting(wanted: FinalStepFrom, folder: Path) -> FinalStepTold:
    """Return what ``final_step_from`` leads to."""
    name = clean(f"{wanted.file}: {wanted.key}")
    try:
        step = _look_up(_config(Path(local_path(wanted.file, folder))), wanted.key.split("."))
    except OSError as error:
        return _untold(wanted.file, clean(f"{wanted.file}: {error.strerror or error}"))
    except (ValueError, RecursionError):
        return _untold(wanted.file, clean(f"{wanted.file} is not valid JSON or TOML"))
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        return _untold(wanted.file, f"{name} is not a whole number")
    return FinalStepTold(step=step, source=name, explicit=True)


def _untold(file: str, why: str) -> FinalStepTold:
    return FinalStepTold(step=None, source=f"final_step_from {clean(file)}", explicit=True, why=why)


def _config(path: Path) -> object:
    text = read_within(path, _BIGGEST_FILE).decode("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def _look_up(value: object, keys: list[str]) -> object | None:
    """Follow dotted ``keys`` down; a key may itself hold dots, a list takes positions."""
    if not keys:
        return value
    if isinstance(value, list) and keys[0].isdecimal() and int(keys[0]) < len(value):
        return _look_up(value[int(keys[0])], keys[1:])
    if not isinstance(value, dict):
        return None
    names = (".".join(keys[:length]) for length in range(1, len(keys) + 1))
    for length, name in enumerate(names, start=1):
        if name in value:
            found = _look_up(value[name], keys[length:])
            if found is not None:
                return found
    return None
