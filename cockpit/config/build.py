"""Make the values of a run file from what TOML gave: its shapes, checks and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from cockpit.config.check import DERIVED, Settings, Trouble, checked, one_of, unknown_key
from cockpit.config.lines import KeyPath
from cockpit.config.resolve import resolved
from cockpit.config.values import run_names, value_troubles
from cockpit.model.run import AgentsSpec, CockpitFile, HostSpec, NotifySpec, RunSpec, UiSpec

M = TypeVar("M", bound=BaseModel)

SECTIONS = ("cockpit", "run", "notify", "agents", "ui", "keys", "hosts")
LAYOUTS = (
    *("auto", "levanter", "orbax", "hf", "accelerate", "deepspeed", "megatron"),
    *("torchtitan", "lightning", "nanogpt", "verl", "nemo", "automodel", "composer", "torchtune"),
    *("litgpt", "olmo", "nanochat", "fairseq", "custom"),
)


def build(data: Mapping[str, Any], path: Path) -> CockpitFile | list[Trouble]:
    """Return the values of the file at ``path``, or everything that is wrong with it."""
    troubles = [*value_troubles(data), *_sections(data)]
    settings = _part(Settings, data, ("cockpit",), troubles)
    notify = _part(NotifySpec, data, ("notify",), troubles)
    troubles += _route_troubles(notify)
    agents = _part(AgentsSpec, data, ("agents",), troubles)
    screen = _part(UiSpec, data, ("ui",), troubles)
    hosts = {
        name: _part(HostSpec, data["hosts"], ("hosts", name), troubles)
        for name in _table(data, "hosts")
    }
    runs = _runs(data, settings or Settings(), troubles)
    if troubles:
        return troubles
    folder = path.absolute().parent
    return CockpitFile.model_construct(  # of parts that are
        path=str(path.absolute()),
        cadence=settings.cadence,
        operator=settings.operator,
        runs=_told_apart(
            _own_files_known(
                [_with_escalation(resolved(run, folder), settings, notify) for run in runs], path
            )
        ),
        notify=notify,
        agents=agents,
        ui=screen,
        keys=_table(data, "keys"),
        hosts=hosts,
    )


def _own_files_known(runs: list[RunSpec], path: Path) -> list[RunSpec]:
    if all(run.code is None for run in runs):
        return runs
    from cockpit.config.own_files import with_own_files

    return with_own_files(runs, path.absolute())


def _with_escalation(run: RunSpec, settings: Settings, notify: NotifySpec) -> RunSpec:
    """Note where an escalation would reach nobody else, so that no advice names it."""
    if run.dri is not None and run.dri == settings.operator:
        return run.model_copy(update={"escalation": "own"})
    if not notify.routes and run.records.issue is None:
        return run.model_copy(update={"escalation": "nobody"})
    return run


MOST_ALIKE: Final = 50
"""Runs of one command that are told apart by their logs: each of them names the others."""


def _told_apart(runs: list[RunSpec]) -> tuple[RunSpec, ...]:
    """Note which runs go by the newest W&B run of a folder that another run reads too."""
    folders: dict[str, list[str]] = {}
    for run in runs:
        if run.wandb is not None and run.wandb.dir is not None:
            folders.setdefault(str(run.wandb.dir), []).append(run.name)
    logs: dict[object, list[str]] = {}
    for run in runs:
        if run.resubmit is not None and (log := _log_here(run)) is not None:
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


def _log_here(run: RunSpec) -> str | None:
    log = None if run.job is None else run.job.log
    return None if log is None or not log.here else log.path


def _logs_beside(run: RunSpec, logs: list[str]) -> tuple[str, ...]:
    """Return the logs of the other runs that start by this one's command; of too many none."""
    own = _log_here(run)
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


def _route_troubles(notify: NotifySpec) -> Iterator[Trouble]:
    """Yield the routes that lead nowhere, or to two places."""
    for place, route in enumerate(notify.routes):
        at: KeyPath = ("notify", "routes", place)
        local = route.kind in ("terminal", "desktop")
        ways = [local, route.url_env is not None, route.command is not None]
        if sum(ways) != 1 or (route.command is not None and route.kind not in (None, "command")):
            text = (
                'expected exactly one of url_env = "VARIABLE", command = […] or kind = "terminal"'
            )
            yield Trouble(at, text)
        elif route.kind == "command" and route.command is None:
            yield Trouble(at, 'expected the command: command = ["program", "argument"]')


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
        table = {"cadence": settings.cadence, **table}
        troubles += (
            Trouble((*at, name), unknown_key((*at, name))) for name in DERIVED & table.keys()
        )
        if isinstance(table.get("job"), dict) and "other_logs" in table["job"]:
            place = (*at, "job", "other_logs")
            troubles.append(Trouble(place, unknown_key(place)))
        if isinstance(table.get("job"), dict):
            table["job"] = _job(table["job"])
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
    return run


def _job(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table in the model's shape: one log, and the others of a list."""
    shaped = dict(table)
    if isinstance(shaped.get("log"), list) and shaped["log"]:
        shaped["log"], *shaped["other_logs"] = shaped["log"]
    return shaped


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
