"""Makes the values of a run file from what TOML gave: shapes, checks, defaults, paths.

INTERFACE, "The run file": relative paths start at the file's folder; a path with a scheme, and
what lies on ``job.host``, is left as written.
"""

from __future__ import annotations

import glob
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from cockpit.config.check import (
    DERIVED,
    Settings,
    Trouble,
    checked,
    one_of,
    run_names,
    unknown_key,
    value_troubles,
)
from cockpit.config.limits import limit_troubles, with_limits
from cockpit.config.notify import answer_troubles, route_troubles
from cockpit.config.reading import KeyPath, read_within
from cockpit.config.signatures import signature_troubles
from cockpit.model.base import Frozen
from cockpit.model.finalstep import FinalStepSource, final_step_in, final_step_of_command
from cockpit.model.notify import NotifySpec
from cockpit.model.place import Place, on_host, sqlite_file
from cockpit.model.run import (
    AgentsSpec,
    CheckpointSpec,
    CockpitFile,
    FinalStepFrom,
    FinelogSpec,
    HostSpec,
    JobSpec,
    MetricNames,
    MlflowSpec,
    MonitorSpec,
    RunSpec,
    UiSpec,
    WandbSpec,
)
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

    job = run.job and _with_job(run.job, run.workdir, folder)
    host = None if job is None else job.host
    manifest = None if job is None or job.manifest is None else job.manifest.path
    whole = None if manifest is None else ("kubectl", "create", "-f", manifest)
    resubmit = whole if run.resubmit is None else run.resubmit
    parts: dict[str, Any] = {
        "job": job,
        "workdir": job.workdir if job is not None else run.workdir and there(run.workdir),
        "wandb": run.wandb and _places(run.wandb, ("dir",), host, folder),
        "trackio": run.trackio and _places(run.trackio, ("db",), host, folder),
        "tensorboard": run.tensorboard
        and _places(run.tensorboard, ("dir", "former"), host, folder),
        "mlflow": run.mlflow and _places(_mlflow(run.mlflow), ("uri",), host, folder),
        "finelog": run.finelog and _finelog(run.finelog, run, job),
        "output_root": run.output_root and there(run.output_root),
        "monitor": run.monitor and _monitor(run.monitor, folder),
        "records": _paths(run.records, ("logbook", "run_log"), here),
        "code": run.code and _places(run.code, ("repo",), None, folder),
        "teardown": run.teardown and _paths(run.teardown, ("pulled_to",), here),
        "checkpoints": run.checkpoints and _with_checkpoints(run.checkpoints, folder),
        "resubmit": resubmit,
        "launch": resubmit if run.launch is None else run.launch,
        "tier": run.tier if "tier" in run.model_fields_set else _tier(run),
        **{name: clean(text, 2000) for name in _SPOKEN if (text := getattr(run, name))},
    }
    run = _paths(run, ("config_file",), here).model_copy(update=parts)
    return _with_final_step(with_limits(run), folder)


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

    def resolve(found: Place | tuple[Place, ...] | None) -> Place | tuple[Place, ...] | None:
        if isinstance(found, tuple):
            return tuple(_there(each, host, folder) for each in found)
        return None if found is None else _there(found, host, folder)

    return part.model_copy(update={name: resolve(getattr(part, name)) for name in names})


def _mlflow(part: MlflowSpec) -> MlflowSpec:
    """Return the settings with the file that ``sqlite:///mlflow.db`` means as a path."""
    return part.model_copy(update={"uri": part.uri and sqlite_file(part.uri)})


def _finelog(part: FinelogSpec, run: RunSpec, job: JobSpec | None) -> FinelogSpec:
    """Return the settings with what the job and the W&B run already say."""
    wandb = run.wandb or WandbSpec()
    update: dict[str, object] = {"run": part.run or wandb.run_id or run.name}
    if part.metrics == MetricNames():
        update["metrics"] = wandb.metrics
    if job is not None:
        update["controller"] = job.model_copy(update={"id": None})
    return part.model_copy(update=update)


def _there(place: Place, host: str | None, folder: Path) -> Place:
    if not place.here:
        return place
    return _place(place, folder) if host is None else on_host(host, place.path)


def _with_job(job: JobSpec, workdir: Place | None, folder: Path) -> JobSpec:
    if job.name is not None:  # how Kubernetes names a job: an object of a kind, a Job by default
        named = job.name if "/" in job.name else f"job/{job.name}"
        job = job.model_copy(update={"id": named})
    own = job.workdir or workdir or (Place("file", "", str(folder)) if job.host is None else None)
    job = job.model_copy(update={"workdir": own})
    job = _places(job, _ON_HOST, job.host, folder)
    job = _places(job, ("manifest",), None, folder)
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


def _with_checkpoints(part: CheckpointSpec, folder: Path) -> CheckpointSpec:
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
    the present job itself tells comes later (``cockpit.rules.metrics.progress``).
    """
    sources = tuple(_final_step_sources(run, folder))
    chosen = next((each for each in sources if each.step is not None), None)
    why = next((f"unknown: {each.why}" for each in sources if each.explicit), None)
    changes = {
        "final_step": None if chosen is None else chosen.step,
        "final_step_source": why if chosen is None else chosen.source,
        "final_step_told": sources,
    }
    return run.model_copy(update=changes)


def _final_step_sources(run: RunSpec, folder: Path) -> Iterator[FinalStepSource]:
    """Yield the sources of the final step, the one with precedence first."""
    if run.final_step is not None:
        yield FinalStepSource(step=run.final_step, source="run file", explicit=True)
    if run.final_step_from is not None:
        yield _named_setting(run.final_step_from, folder)
    if run.config_file is not None and not _SCHEME.match(run.config_file):
        yield from _by_config(run.config_file)
    for what, command in (("resubmit", run.resubmit), ("launch", run.launch)):
        found = None if command is None else final_step_of_command(command, f"{what} command")
        if found is not None:
            yield found


def _by_config(file: str) -> Iterator[FinalStepSource]:
    """Yield what the config of the next launch tells; one that gives no answer is unknown."""
    try:
        config = _config(Path(file))
        found = final_step_in(config, _NEXT_CONFIG) if isinstance(config, dict) else None
    except TimeoutError as error:
        why = clean(f"{file} {error.strerror}")
        found = FinalStepSource(step=None, source=_NEXT_CONFIG, why=why)
    except (OSError, ValueError, RecursionError):
        return
    if found is not None:
        yield found


def _named_setting(wanted: FinalStepFrom, folder: Path) -> FinalStepSource:
    """Return what ``final_step_from`` leads to."""
    name = clean(f"{wanted.file}: {wanted.key}")
    try:
        step = _look_up(_config(Path(local_path(wanted.file, folder))), wanted.key.split("."))
    except OSError as error:
        return _unknown_step(wanted.file, clean(f"{wanted.file}: {error.strerror or error}"))
    except (ValueError, RecursionError):
        return _unknown_step(wanted.file, clean(f"{wanted.file} is not valid JSON or TOML"))
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        return _unknown_step(wanted.file, f"{name} is not a whole number")
    return FinalStepSource(step=step, source=name, explicit=True)


def _unknown_step(file: str, why: str) -> FinalStepSource:
    return FinalStepSource(
        step=None, source=f"final_step_from {clean(file)}", explicit=True, why=why
    )


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


M = TypeVar("M", bound=BaseModel)

SECTIONS = ("cockpit", "run", "notify", "agents", "ui", "keys", "hosts")
LAYOUTS = (
    *("auto", "levanter", "orbax", "hf", "accelerate", "deepspeed", "megatron"),
    *("torchtitan", "lightning", "nanogpt", "verl", "nemo", "automodel", "composer", "torchtune"),
    *("litgpt", "olmo", "nanochat", "fairseq", "speechbrain", "t5x", "mmengine"),
    *("detectron2", "lightning-sharded", "veomni", "custom"),
)


def build(data: Mapping[str, Any], path: Path) -> CockpitFile | list[Trouble]:
    """Return the values of the file at ``path``, or everything that is wrong with it."""
    troubles = [*value_troubles(data), *_sections(data)]
    settings = _part(Settings, data, ("cockpit",), troubles)
    notify = _part(NotifySpec, data, ("notify",), troubles)
    troubles += route_troubles(notify)
    agents = _part(AgentsSpec, data, ("agents",), troubles)
    screen = _part(UiSpec, data, ("ui",), troubles)
    hosts = {
        name: _part(HostSpec, data["hosts"], ("hosts", name), troubles)
        for name in _table(data, "hosts")
    }
    runs = _runs(data, settings or Settings(), troubles)
    troubles += answer_troubles(notify, runs)
    if troubles:
        return troubles
    folder = path.absolute().parent
    runs = [_with_escalation(resolved(run, folder), settings, notify) for run in runs]
    if any(run.code is not None for run in runs):
        runs = with_own_files(runs, path.absolute())
    return CockpitFile.model_construct(  # of parts that are
        path=str(path.absolute()),
        cadence=settings.cadence,
        operator=settings.operator,
        signatures=_moved(settings.signatures, lambda path: local_path(path, folder)),
        runs=_with_neighbours(runs),
        notify=notify,
        agents=agents,
        ui=screen,
        keys=_table(data, "keys"),
        hosts=hosts,
    )


def _with_escalation(run: RunSpec, settings: Settings, notify: NotifySpec) -> RunSpec:
    """Note where an escalation would reach nobody else, so that no advice names it."""
    if run.dri is not None and run.dri == settings.operator:
        return run.model_copy(update={"escalation": "own"})
    if not notify.routes and run.records.issue is None:
        return run.model_copy(update={"escalation": "nobody"})
    return run


MOST_ALIKE: Final = 50
"""Runs of one command that are told apart by their logs: each of them names the others."""


def _with_neighbours(runs: list[RunSpec]) -> tuple[RunSpec, ...]:
    """Note which runs go by the newest W&B run of a folder that another run reads too."""
    folders: dict[str, list[str]] = {}
    for run in runs:
        if run.wandb is not None and run.wandb.dir is not None:
            folders.setdefault(str(run.wandb.dir), []).append(run.name)
    logs: dict[object, list[str]] = {}
    for run in runs:
        if run.resubmit is not None and (log := _log_of(run)) is not None:
            logs.setdefault(run.resubmit, []).append(log)
    return tuple(
        run.model_copy(
            update={
                "same_tracker": _others(run, folders),
                "logs_of_others": _logs_beside(run, logs.get(run.resubmit, [])),
            }
        )
        for run in runs
    )


def _log_of(run: RunSpec) -> str | None:
    log = None if run.job is None else run.job.log
    return None if log is None else str(log)


def _logs_beside(run: RunSpec, logs: list[str]) -> tuple[str, ...]:
    """Return the logs of the other runs that start by this one's command; of too many none."""
    own = _log_of(run)
    return tuple(each for each in logs if each != own) if len(logs) <= MOST_ALIKE else ()


def _others(run: RunSpec, folders: Mapping[str, list[str]]) -> tuple[str, ...]:
    if run.wandb is None or run.wandb.run_id is not None:
        return ()
    return tuple(name for name in folders.get(str(run.wandb.dir), ()) if name != run.name)


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name, {})
    return value if isinstance(value, dict) else {}


def _part(model: type[M], raw: Mapping[str, Any], at: KeyPath, troubles: list[Trouble]) -> M:
    """Return one table as ``model``; its defaults where it is not there, or troubles were noted."""
    table = raw.get(str(at[-1]), {})
    if table == {}:
        return model.model_construct()  # to make what checks it ready would only cost a start
    value = checked(model, table, at)
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
        keys = key if isinstance(key, list) else [key]
        if not keys or not all(isinstance(each, str) and each for each in keys):
            yield Trouble(("keys", action), f'expected a key in quotes, such as {action} = "r"')


def _runs(data: Mapping[str, Any], settings: Settings, troubles: list[Trouble]) -> list[RunSpec]:
    tables = data.get("run", [])
    if not isinstance(tables, list):
        troubles.append(Trouble(("run",), "expected [[run]], in double brackets, for each run"))
        return []
    if not tables:
        troubles.append(Trouble((), "has no [[run]]; expected at least one, with a name"))
    troubles += run_names(tables)
    runs = []
    for position, table in enumerate(tables):
        run = _run(table, ("run", position), settings, troubles)
        runs += [] if run is None else [run]
    return runs


def _run(table: object, at: KeyPath, settings: Settings, troubles: list[Trouble]) -> RunSpec | None:
    if isinstance(table, dict):
        table = {"cadence": settings.cadence, "currency": settings.currency, **table}
        if "price_per_hour" in table and "price_per_accelerator_hour" in table:
            text = "stands beside price_per_accelerator_hour; expected one of the two"
            troubles.append(Trouble((*at, "price_per_hour"), text))
        troubles += (
            Trouble((*at, name), unknown_key((*at, name))) for name in DERIVED & table.keys()
        )
        if isinstance(table.get("job"), dict) and "other_logs" in table["job"]:
            place = (*at, "job", "other_logs")
            troubles.append(Trouble(place, unknown_key(place)))
        if isinstance(table.get("job"), dict):
            # The table in the model's shape: one log, and the others of a list
            shaped = dict(table["job"])
            if isinstance(shaped.get("log"), list) and shaped["log"]:
                shaped["log"], *shaped["other_logs"] = shaped["log"]
            table["job"] = shaped
        if isinstance(table.get("code"), dict):
            troubles += (
                Trouble((*at, "code", name), unknown_key((*at, "code", name)))
                for name in DERIVED & table["code"].keys()
            )
        if isinstance(table.get("checkpoints"), dict):
            table["checkpoints"] = _checkpoints(table["checkpoints"])
            troubles += _layout_troubles(table["checkpoints"], (*at, "checkpoints"))
    run = checked(RunSpec, table, at)
    if isinstance(run, list):
        troubles += run
        return None
    troubles += signature_troubles(run.signature, (*at, "signature"))
    troubles += limit_troubles(run.limit, (*at, "limit"))
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
        yield Trouble((*at, "layout"), f"a custom layout needs {example}")
    pattern = custom.get("pattern") if isinstance(custom, dict) else None
    if isinstance(pattern, str) and not _names_one(pattern):
        expected = "expected a regular expression with one group, the step, or with none"
        yield Trouble((*at, "custom", "pattern"), f'{expected}, such as "ckpt_(\\\\d+)"')


def _names_one(pattern: str) -> bool:
    """Tell a pattern that names checkpoints: by their step, or by a name that tells none."""
    try:
        return re.compile(pattern).groups <= 1
    except (re.error, RecursionError, OverflowError):
        return False


_BESIDE = ("timeline.md", "experiments.md")
"""What the HPC run logs' folder holds besides them."""


def with_own_files(runs: Iterable[RunSpec], run_file: Path) -> list[RunSpec]:
    """Return the runs, each knowing which files of its code repository are not code."""
    runs = list(runs)
    known: dict[Place, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    made = []
    for run in runs:
        repo = None if run.code is None else run.code.repo
        if run.code is None or repo is None:
            made.append(run)
            continue
        if repo not in known:
            known[repo] = _of_repository(repo, runs, run_file)
        own, outputs = known[repo]
        code = run.code.model_copy(update={"own_files": own, "output_folders": outputs})
        made.append(run.model_copy(update={"code": code}))
    return made


def _of_repository(
    repo: Place, runs: Iterable[RunSpec], run_file: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    top = _top(repo)
    files = [Place("file", "", str(run_file)), *(place for run in runs for place in _files(run))]
    folders = [place for run in runs for place in _folders(run)]
    own = (below for place in files if (below := _below(top, place)) is not None)
    outputs = (below for place in folders if (below := _below(top, place)) is not None)
    return tuple(dict.fromkeys(own)), tuple(dict.fromkeys(outputs))


def _files(run: RunSpec) -> Iterator[Place]:
    job, records, monitor = run.job, run.records, run.monitor
    if job is not None:
        logs = (job.log, *job.other_logs)
        yield from filter(None, (*logs, job.pid_file, job.exit_file, job.done_marker))
    named = [records.logbook, records.run_log]
    if monitor is not None:
        named += [monitor.state, monitor.events]
    for path in filter(None, named):
        yield Place("file", "", path)
    if records.run_log is not None:
        folder = Path(records.run_log).parent
        yield from (Place("file", "", str(folder / name)) for name in _BESIDE)


def _folders(run: RunSpec) -> Iterator[Place]:
    if run.output_root is not None:
        yield run.output_root
    if run.checkpoints is not None:
        yield from run.checkpoints.path
    for tracker in (run.wandb, run.tensorboard):
        if tracker is not None and tracker.dir is not None:
            yield tracker.dir
    if run.teardown is not None and run.teardown.pulled_to is not None:
        yield Place("file", "", run.teardown.pulled_to)


def _top(repo: Place) -> Place:
    """Return where the repository begins: git names its files from there."""
    if not repo.here:
        return repo.normal()
    real = Path(os.path.realpath(repo.path))
    found = next((each for each in (real, *real.parents) if (each / ".git").exists()), real)
    return Place(repo.scheme, repo.host, str(found))


def _below(top: Place, place: Place) -> str | None:
    """Return a place as a path from the repository's top, ``None`` where it lies elsewhere."""
    real = Place("file", "", os.path.realpath(place.path)) if place.here else place.normal()
    if not top.contains(real) or real.normal().path == top.normal().path:
        return None
    return real.normal().path.removeprefix(top.normal().path.rstrip("/") + "/")
