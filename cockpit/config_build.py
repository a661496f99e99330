"""Make the values of a run file from what TOML gave: its shapes, checks, defaults and paths.

INTERFACE, "The run file": relative paths start at the file's folder; a path with a scheme, and
what lies on ``job.host``, is left as written.
"""

from __future__ import annotations

import errno
import glob
import json
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from cockpit.config_check import DERIVED, Settings, Trouble, checked, one_of, unknown_key
from cockpit.config_lines import KeyPath
from cockpit.config_values import run_names, value_troubles
from cockpit.model.base import Frozen
from cockpit.model.run import (
    CockpitFile,
    HostSpec,
    JobSpec,
    MonitorSpec,
    NotifySpec,
    RunSpec,
    UiSpec,
)
from cockpit.text.safe import clean

M = TypeVar("M", bound=BaseModel)

SECTIONS = ("cockpit", "run", "notify", "ui", "keys", "hosts")
LAYOUTS = (
    *("auto", "levanter", "orbax", "hf", "deepspeed", "megatron"),
    *("torchtitan", "lightning", "nanogpt", "custom"),
)


def build(data: Mapping[str, Any], path: Path) -> CockpitFile | list[Trouble]:
    """Return the values of the file at ``path``, or everything that is wrong with it."""
    troubles = [*value_troubles(data), *_sections(data)]
    settings = _part(Settings, data, ("cockpit",), troubles)
    notify = _part(NotifySpec, data, ("notify",), troubles)
    troubles += _route_troubles(notify)
    screen = _part(UiSpec, data, ("ui",), troubles)
    hosts = {
        name: _part(HostSpec, data["hosts"], ("hosts", name), troubles)
        for name in _table(data, "hosts")
    }
    runs = _runs(data, settings or Settings(), troubles)
    if troubles:
        return troubles
    folder = path.absolute().parent
    return CockpitFile(
        path=str(path.absolute()),
        cadence=settings.cadence,
        operator=settings.operator,
        runs=tuple(resolved(run, folder) for run in runs),
        notify=notify,
        ui=screen,
        keys=_table(data, "keys"),
        hosts=hosts,
    )


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name, {})
    return value if isinstance(value, dict) else {}


def _part(model: type[M], raw: Mapping[str, Any], at: KeyPath, troubles: list[Trouble]) -> M:
    """Return one table as ``model``; with troubles noted, its defaults."""
    value = checked(model, raw.get(str(at[-1]), {}), at)
    if isinstance(value, list):
        troubles += value
        return model()
    return value


def _sections(data: Mapping[str, Any]) -> Iterator[Trouble]:
    for name in data:
        if name not in SECTIONS:
            yield Trouble((name,), unknown_key((name,), SECTIONS))
    for name in ("keys", "hosts"):
        if not isinstance(data.get(name, {}), dict):
            yield Trouble((name,), f"expected a table [{name}]")
    for action, key in _table(data, "keys").items():
        if not isinstance(key, str) or not key:
            yield Trouble(("keys", action), f'expected a key in quotes, such as {action} = "r"')


def _route_troubles(notify: NotifySpec) -> Iterator[Trouble]:
    """Yield the routes that lead nowhere, or to two places."""
    for place, route in enumerate(notify.routes):
        at: KeyPath = ("notify", "routes", place)
        local = route.kind in ("terminal", "desktop")
        ways = [local, route.url_env is not None, route.command is not None]
        if sum(ways) != 1 or (route.command is not None and route.kind not in (None, "command")):
            text = 'expected one way: url_env = "VARIABLE", command = […] or kind = "terminal"'
            yield Trouble(at, text)
        elif route.kind == "command" and route.command is None:
            yield Trouble(at, 'expected the command: command = ["program", "argument"]')


def _runs(data: Mapping[str, Any], settings: Settings, troubles: list[Trouble]) -> list[RunSpec]:
    tables = data.get("run", [])
    if not isinstance(tables, list):
        troubles.append(Trouble(("run",), "expected [[run]], in double brackets, for each run"))
        return []
    if not tables:
        troubles.append(Trouble((), "no [[run]] in it; expected at least one, with a name"))
    troubles += run_names(tables)
    runs = []
    for position, table in enumerate(tables):
        run = _run(table, ("run", position), settings, troubles)
        runs += [] if run is None else [run]
    return runs


def _run(table: object, at: KeyPath, settings: Settings, troubles: list[Trouble]) -> RunSpec | None:
    if isinstance(table, dict):
        table = {"cadence": settings.cadence, **table}
        troubles += (
            Trouble((*at, name), unknown_key((*at, name))) for name in DERIVED & table.keys()
        )
        if isinstance(table.get("checkpoints"), dict):
            table["checkpoints"] = _checkpoints(table["checkpoints"])
            troubles += _layout_troubles(table["checkpoints"], (*at, "checkpoints"))
    run = checked(RunSpec, table, at)
    if isinstance(run, list):
        troubles += run
        return None
    return run


def _checkpoints(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table in the model's shape: a list of roots, a named layout."""
    shaped = dict(table)
    if isinstance(shaped.get("path"), str):
        shaped["path"] = [shaped["path"]]
    layout = shaped.get("layout")
    if isinstance(layout, dict):
        shaped["custom"] = layout.get("custom", layout)
    if "custom" in shaped and not isinstance(layout, str):
        shaped["layout"] = "custom"
    return shaped


def _layout_troubles(table: Mapping[str, Any], at: KeyPath) -> Iterator[Trouble]:
    layout, custom = table.get("layout"), table.get("custom")
    if isinstance(layout, str) and layout not in LAYOUTS:
        yield Trouble((*at, "layout"), one_of(layout, LAYOUTS))
    if layout == "custom" and not isinstance(custom, dict):
        example = 'custom = { pattern = "ckpt_(\\\\d+)", marker = "DONE" }'
        yield Trouble((*at, "layout"), f"a layout of your own needs {example}")
    pattern = custom.get("pattern") if isinstance(custom, dict) else None
    if isinstance(pattern, str) and not _finds_a_step(pattern):
        expected = "expected a regular expression with one group, the step"
        yield Trouble((*at, "custom", "pattern"), f'{expected}, such as "ckpt_(\\\\d+)"')


def _finds_a_step(pattern: str) -> bool:
    try:
        return re.compile(pattern).groups == 1
    except (re.error, RecursionError, OverflowError):
        return False


S = TypeVar("S", bound=Frozen)
Resolve = Callable[[str], str]

HERO_FLOPS = 1e22
"""From here on a run is a hero run unless the file says otherwise."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ON_HOST = ("log", "done_marker", "pid_file", "exit_file", "workdir")
_SPOKEN = ("goal", "stop_criteria", "hardware", "dri", "group")
_YAML = (".yaml", ".yml", ".json", ".toml")
_BIGGEST_FILE = 16 * 2**20


def resolved(run: RunSpec, folder: Path) -> RunSpec:
    """Return ``run`` with every default and path filled in; reads ``final_step_from``."""

    def here(path: str) -> str:
        return local_path(path, folder)

    job = run.job and _job(run.job, run.workdir, folder)
    remote = job is not None and job.host is not None
    roots = run.checkpoints and run.checkpoints.model_copy(
        update={"path": tuple(here(path) for path in run.checkpoints.path)}
    )
    parts: dict[str, Any] = {
        "job": job,
        "workdir": job.workdir if job is not None else _moved(run.workdir, here),
        "wandb": run.wandb and _paths(run.wandb, () if remote else ("dir",), here),
        "monitor": run.monitor and _monitor(run.monitor, folder),
        "records": _paths(run.records, ("logbook", "run_log"), here),
        "code": run.code and _paths(run.code, ("repo",), here),
        "teardown": run.teardown and _paths(run.teardown, ("pulled_to",), here),
        "checkpoints": roots and _paths(roots, ("initialize_from",), here),
        "launch": run.resubmit if run.launch is None else run.launch,
        "tier": run.tier if "tier" in run.model_fields_set else _tier(run),
        **{name: clean(text, 2000) for name in _SPOKEN if (text := getattr(run, name))},
    }
    run = _paths(run, ("output_root", "config_file"), here).model_copy(update=parts)
    step, source = _final_step(run, folder)
    return run.model_copy(update={"final_step": step, "final_step_source": source})


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


def _job(job: JobSpec, workdir: str | None, folder: Path) -> JobSpec:
    def here(path: str) -> str:
        return local_path(path, folder)

    if job.host is None:
        workdir = job.workdir or workdir or str(folder)
        job = _paths(job.model_copy(update={"workdir": workdir}), _ON_HOST, here)
    elif job.workdir is None:
        job = job.model_copy(update={"workdir": workdir})
    is_file = job.cluster is not None and ("/" in job.cluster or job.cluster.endswith(_YAML))
    return _paths(job, ("cluster",), here) if is_file else job


def _monitor(monitor: MonitorSpec, folder: Path) -> MonitorSpec:
    """Resolve the event log, and the state's pattern with the folder's own name kept literal."""
    monitor = _paths(monitor, ("events",), lambda path: local_path(path, folder))
    pattern = Path(glob.escape(str(folder)))
    return _paths(monitor, ("state",), lambda path: local_path(path, pattern))


def _tier(run: RunSpec) -> str:
    """Return the tier that follows from the run's size and records (INTERFACE ``tier``)."""
    recorded = run.records.issue is not None or run.records.logbook is not None
    return "hero" if recorded or (run.model_flops or 0.0) >= HERO_FLOPS else "ordinary"


def _final_step(run: RunSpec, folder: Path) -> tuple[int | None, str | None]:
    """Return the final step and where it comes from, or ``None`` and why it is not known.

    SPEC C-20: only from the run file or the training config, never from a progress bar. A
    config that cannot be read is the world's state, not an error of the run file.
    """
    if run.final_step is not None or run.final_step_from is None:
        return run.final_step, None if run.final_step is None else "run file"
    wanted = run.final_step_from
    name = clean(f"{wanted.file}: {wanted.key}")
    try:
        step = _look_up(_config(Path(local_path(wanted.file, folder))), wanted.key.split("."))
    except OSError as error:
        return None, clean(f"unknown: {wanted.file}: {error.strerror or error}")
    except (ValueError, RecursionError):
        return None, clean(f"unknown: {wanted.file} is not valid JSON or TOML")
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        return None, f"unknown: {name} is no whole number"
    return step, name


def _config(path: Path) -> object:
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is no regular file")
    with path.open("rb") as file:
        text = file.read(_BIGGEST_FILE).decode("utf-8")
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
