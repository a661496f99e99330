"""The run file's JSON Schema (draft 7), made from its model: what editors complete and check.

What it says is less than what ``load`` checks: a schema knows one value at a time. Nothing that
``load`` takes is refused by it.

What each key of the run file means, in one sentence with its unit (``cockpit schema``).

Only the schema reads this: it is kept apart from the model, which every start imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from cockpit.config.build import LAYOUTS, SECTIONS
from cockpit.config.check import DERIVED, NAME, RANGES, TABLES, VARIABLE
from cockpit.model.base import DURATION_SCHEMA, duration_text
from cockpit.model.run import ROUTE_KINDS

_NO_ADDRESS: Final = [kind for kind, row in ROUTE_KINDS.items() if row.needs is None]
_METRICS: Final = {
    "step": "Key of the training step; the usual names are found without it.",
    "loss": "Key of the training loss; the usual names are found without it.",
    "throughput": "Key of the throughput (any rate); the usual names are found without it.",
    "grad_norm": "Key of the gradient norm; the usual names are found without it.",
    "z_loss": "Key of the z-loss; the usual names are found without it.",
    "router_loss": "Key of the router's loss (MoE); the usual names are found without it.",
    "router_entropy": "Key of the router's entropy (MoE); the usual names are found without it.",
    "skipped": "Key of the flag or count of skipped steps; the usual names are found without it.",
}
DESCRIBED: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        "cockpit": "Settings of the person and defaults of all runs.",
        "run": "One intended training trajectory; one [[run]] for each.",
        "notify": "Who is told of alerts, and how.",
        "agents": "What agents may do by themselves (cockpit mcp).",
        "ui": "How the terminal UI looks.",
        "keys": "Keys of the terminal UI: action id = key, or a list of keys.",
        "hosts": "An ssh host, by its alias: its Python, and what to do when it refuses us.",
    },
    "cockpit": {
        "cadence": "How often each run is checked (a duration).",
        "operator": "Who acts, by name; default: git's user.name.",
    },
    "run": {
        "name": "The run's slug: letters, digits, '.', '_', '-'; typed to confirm actions.",
        "tier": "hero or ordinary; default: hero when model_flops >= 1e22, or an issue or a "
                "logbook is set.",
        "dri": "The directly responsible individual, by name.",
        "goal": "What the run is for, in a sentence.",
        "stop_criteria": "When the run should be stopped, in words.",
        "final_step": "The exact last step (a count of optimizer steps).",
        "final_step_from": "Where the exact last step is written: { file, key }.",
        "model_flops": "Total training compute in FLOPs; decides the default tier.",
        "expected_duration": "How long the whole run should take (a duration); default: "
                             "final_step / baseline rate.",
        "output_root": "The one folder or bucket path that the run writes, over all relaunches.",
        "cadence": "How often this run is checked (a duration); default: [cockpit] cadence.",
        "hardware": "The hardware, as people call it, such as v5p-512.",
        "group": "A name that groups runs in the fleet.",
        "config_file": "The config file of the next launch; each launch keeps a copy.",
        "resubmit": "The command that starts the job again: shell words, or a list; it must "
                    "resume. Placeholders: {launch_id} {run} {wandb_id} {output_root} "
                    "{checkpoint} {step}.",
        "launch": "The command of the first launch; default: resubmit.",
        "workdir": "The folder in which resubmit runs; default: this file's folder.",
        "job": "Where the run's jobs execute.",
        "wandb": "The run's W&B identity, and where its data is read.",
        "trackio": "The Trackio database in which the run is logged.",
        "tensorboard": "The TensorBoard event files of the run.",
        "checkpoints": "Where checkpoints lie, and which are kept.",
        "agents": "What agents may do to this run by themselves, where it differs from [agents].",
        "monitor": "The state file and events of whoever monitors the run.",
        "records": "Logbook, issue and run log.",
        "code": "The repository, and which changes can touch the trajectory.",
        "thresholds": "The figures at which alerts open.",
        "teardown": "How rented machines and storage are given up in the end.",
    },
    "run.job": {
        "kind": "The kind of job: iris, ray, slurm, box (ssh) or local.",
        "id": "The job's id (iris, ray, slurm); absent before the first launch.",
        "controller_url": "iris: the controller's address, such as http://127.0.0.1:10000.",
        "cluster": "iris: the cluster's short name or config file, in place of controller_url.",
        "auth": "iris: how to authenticate to the controller.",
        "token_command": "iris: a command that prints the bearer token.",
        "address": "ray: the head's dashboard address, such as http://127.0.0.1:8265.",
        "token_env": "ray: the name of the environment variable that holds the token.",
        "host": "slurm, box: the ssh host; absent for slurm: this machine.",
        "log": "The job's log file, or a list of them; patterns (*, %j, %t); slurm: its StdOut.",
        "session": "box: the tmux session in which the training runs.",
        "match": "box, local: a pattern in the process's command line, as for pgrep -f; slurm,"
        " ray, iris: a name pattern, such as llama-*: your newest job that fits is current.",
        "pid_file": "box, local: the file whose first line is the trainer's process id.",
        "done_marker": "box, local: a file that exists once the training is complete.",
        "exit_file": "box, local: the file that holds the exit status once there is one.",
        "workdir": "The folder in which the job runs.",
        "production": "iris: the pattern of the child job that trains.",
        "diagnostic": "iris: patterns of child jobs that do not train, such as *-eval*.",
        "bad_node_recipe": "What to do about a bad node, in words, shown before a relaunch.",
        "save_signal": "The signal that makes the trainer save, such as USR1.",
        "save_command": "The command that makes the trainer save; shell words, or a list.",
        "resubmit_runs": "ray: resubmit is the entrypoint of the job, or a command that submits.",
        "grace": "How long a job may take to stop before it is killed (a duration).",
    },
    "run.job.auth": {
        "header": "The header that carries the token, such as Proxy-Authorization.",
        "token_env": "The name of the environment variable that holds the token.",
        "token_command": "A command that prints the token; shell words, or a list.",
    },
    "run.wandb": {
        "entity": "The W&B entity (user or team).",
        "project": "The W&B project.",
        "id": "The W&B run id, if it is pinned; without one the run of dir that a process writes,"
        " else the newest, counts.",
        "name": "The display name of the W&B run.",
        "url": "The address of the W&B run, in place of entity, project and id.",
        "resume": "The resume policy of the trainer's client: allow, never or must.",
        "dir": "A folder of W&B run directories, or one of them, read from disk.",
        "base_url": "The address of your own W&B server, such as https://wandb.example.org.",
        "metrics": "Which logged keys are which.",
    },
    "run.wandb.metrics": _METRICS,
    "run.trackio": {
        "db": "The database file of a project, or the folder of databases.",
        "project": "The project's name, where db is a folder.",
        "run": "The run's name or id; default: the newest run, if no other one logs beside it.",
        "metrics": "Which logged keys are which.",
    },
    "run.trackio.metrics": _METRICS,
    "run.tensorboard": {
        "dir": "The folder of the run's event files.",
        "metrics": "Which logged tags are which.",
    },
    "run.tensorboard.metrics": _METRICS,
    "run.checkpoints": {
        "path": "The root of the checkpoints (local, ssh://, gs://, s3://), or a list: permanent "
                "first, then temporary.",
        "layout": "The trainer's layout; auto finds it.",
        "custom": "A layout of your own: { pattern, marker }.",
        "save_every": "How often a checkpoint is saved (a duration).",
        "permanent_every": "Every how many steps a checkpoint is permanent.",
        "rollback_depth": "How many good checkpoints there should be to roll back to.",
        "keep": "How many checkpoints a clean-up keeps.",
        "protect": "Steps whose checkpoints no clean-up deletes.",
        "initialize_from": "The checkpoint with which the very first job begins.",
    },
    "run.checkpoints.custom": {
        "pattern": "A regular expression of checkpoint names; its one group is the step.",
        "marker": "The file in a checkpoint that says it is complete; without one each "
                  "checkpoint is a file.",
    },
    "run.monitor": {
        "state": "A glob of the monitor's state files; the newest counts.",
        "events": "The monitor's own log.",
        "cadence": "How often the monitor writes (a duration); default: the run's cadence.",
    },
    "run.records": {
        "logbook": "The logbook, a Markdown file in a git repository.",
        "log_every": 'How often an entry is due: "1 cadence", "2h", "event" (after a change of the '
                     'job or an alert), "never" (none is written by itself).',
        "issue": "The address of the run's GitHub issue.",
        "issue_repo": "The repository (owner/name) in which an issue is created.",
        "run_log": "The HPC run log, a Markdown file.",
        "run_type": "What kind of run the run log says it is: replication, experiment, pipeline.",
    },
    "run.code": {
        "repo": "The repository of the training code.",
        "ignore": "Globs of files that cannot touch the training.",
        "safe": "Globs of files around the training: logging, evaluation, launchers.",
        "trajectory": "Globs of files that decide the trajectory; default: all other code.",
    },
    "run.thresholds": {
        "warmup_steps": "Steps in which fast changes are expected; default: max(200, 1 % of "
                        "final_step).",
        "throughput_drop": "C-05: how far below its baseline throughput may be (share, 0 to 1).",
        "throughput_cadences": "C-05: for how many cadences.",
        "loss_spike": "C-11: how far above its trend a spike is (share; 0.5 is 50 %).",
        "spike_rows": "C-11: for how many logged rows.",
        "loss_climb": "C-11: how far above its best level a climb is (share; 0.3 is 30 %).",
        "climb_rows": "C-11: for how many logged rows.",
        "instability_z": "C-10: the robust z-score that is unstable (standard deviations).",
        "instability_window": "C-10: over how many rows the score is taken.",
        "instability_rows": "C-10: for how many rows.",
        "stall_factor": "C-06: after how many usual step times without a step a run stalls.",
        "first_step_within": "C-06: how long the first step may take (a duration).",
        "pending_after": "C-04: how long a job may wait for capacity (a duration).",
        "resume_catchup": "C-12: how far replayed steps may differ in loss (share).",
        "resume_after": "C-12: how far the steps after a resume may differ in loss (share).",
        "resume_window": "C-12: for how many steps after the resume.",
        "flap_restarts": "C-14: this many restarts are flapping,",
        "flap_window": "C-14: within this time (a duration).",
        "disk_frac": "C-22: how full a disk may be (share, 0 to 1).",
        "mem_frac": "C-22: how full memory may be (share, 0 to 1).",
        "free_saves": "C-22: for how many newest checkpoints there must be room.",
        "billed_after": "C-22: how long after the end a rented box may still answer (a duration).",
    },
    "run.teardown": {
        "command": "The command that gives the machine or storage up.",
        "kind": "What it does: stop, release, terminate, destroy, delete_files, cancel_storage.",
        "stops_meter": "Whether billing ends with it.",
        "survives": "What is left afterwards and may still cost, such as a network volume.",
        "reversible": "Whether it can be undone.",
        "pulled_to": "The folder to which the artifacts were copied before.",
        "verify": "A command that checks that copy; exit status 0 is good.",
    },
    "run.final_step_from": {
        "file": "A JSON or TOML file.",
        "key": "The dotted key of the last step in it, such as trainer.num_train_steps.",
    },
    "notify": {
        "routes": "Where messages go, each with the least severity that goes there.",
        "unacked_after": "After this time an unacknowledged critical goes out again, then to "
                         "second (a duration).",
        "second": "Who is told when nobody acknowledges.",
        "quiet": 'Hours in which only criticals go, such as "22:00-07:00 Europe/Oslo".',
        "heartbeat_url_env": "The variable with the address that a watch pings once a cadence.",
        "most": "How many messages go by one route in ten minutes.",
    },
    "notify.routes": {
        "min": "The least severity that goes by this route.",
        "url_env": "The variable that holds a webhook's address or an apprise URL.",
        "kind": f"What the address must be; {' and '.join(_NO_ADDRESS)} need none.",
        "to": "The person whom the route reaches; default: everybody.",
        "command": "A command that gets title and body on its standard input.",
    },
    "agents": {
        "may": "Verbs that an agent may act with; reading and planning are always allowed.",
        "grace": "For how long a person may veto what an agent is about to do (a duration); what "
                 "only tells (log, escalate, ack) does not wait.",
        "calls_per_minute": "How many calls an agent may make in a minute.",
    },
    "run.agents": {
        "may": "Verbs that an agent may act with on this run; default: [agents] may.",
        "grace": "For how long a person may veto here (a duration); default: [agents] grace.",
    },
    "ui": {
        "theme": "The colours. auto asks the terminal whether its background is light or dark.",
        "mouse": "Whether the mouse is used.",
        "ascii": "Draw with ASCII characters only; terminals that need it get it anyway.",
    },
    "hosts.*": {
        "remedy": "What to do when this host refuses us, such as the command that logs in.",
        "python": "The host's Python, 3.8 or newer: a name or a path. Unset: python3.",
    },
}  # fmt: skip
"""By the table as ``cockpit.config.check.TABLES`` spells it (``""`` is the file), then the key."""


DRAFT: Final = "http://json-schema.org/draft-07/schema#"
Shape = dict[str, Any]
_KEYS: Final[Shape] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
WIDER: Final[Mapping[str, Shape]] = {
    "run.job.log": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    },
    "run.checkpoints.path": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    },
    "run.checkpoints.layout": {
        "anyOf": [{"enum": [*LAYOUTS]}, {"type": "object"}], "default": "auto",
    },
    "notify.quiet": {"type": "string"},
}  # fmt: skip
"""Settings that may be written in more ways than the model keeps them in."""


def schema(actions: Mapping[str, tuple[str, str]], themes: Iterable[str]) -> Shape:
    """Return the document.

    ``actions``: what ``[keys]`` may name, with its own keys and what it does; ``themes``: what
    ``[ui] theme`` may be.
    """
    tables = {name: _table(name) for name in TABLES}
    for name in sorted(tables, key=lambda name: -name.count(".")):
        home, _, key = name.rpartition(".")
        if key != "*" and home in tables:
            _put(tables[home]["properties"][key], tables[name])
    tables["ui"]["properties"]["theme"]["enum"] = [*themes]
    own = {action: _key(keys, does) for action, (keys, does) in actions.items()}
    shapes = {
        **{name: tables[name] for name in ("cockpit", "notify", "agents", "ui")},
        "run": {"type": "array", "items": tables["run"], "minItems": 1},
        "keys": {"type": "object", "properties": own, "additionalProperties": False},
        "hosts": {"type": "object", "additionalProperties": tables["hosts.*"]},
    }
    said = DESCRIBED[""]
    return {
        "$schema": DRAFT,
        "title": "cockpit.toml",
        "description": "The run file of cockpit. Relative paths start at its folder.",
        "type": "object",
        "properties": {name: {"description": said[name], **shapes[name]} for name in SECTIONS},
        "required": ["run"],
        "additionalProperties": False,
    }


def _key(keys: str, does: str) -> Shape:
    return {
        "description": f"{does[:1].upper()}{does[1:]} ({keys}).",
        **_KEYS,
        "default": keys.split(),
    }


def _table(name: str) -> Shape:
    """Return one table's shape; what lies in tables below it is put in afterwards."""
    raw = TABLES[name].model_json_schema(mode="validation")
    properties = {
        key: _setting(name, key, shape, TABLES[name])
        for key, shape in raw["properties"].items()
        if key not in DERIVED
    }
    shape: Shape = {"type": "object", "properties": properties, "additionalProperties": False}
    if raw.get("required"):
        shape["required"] = raw["required"]
    return shape


def _setting(table: str, key: str, raw: Shape, model: type[BaseModel]) -> Shape:
    shape = _plain(raw)
    default = model.model_fields[key].default
    shape.pop("default", None)
    if "default:" in DESCRIBED[table][key]:  # it follows from other settings: said in words
        default = None
    if isinstance(default, float) and shape.get("anyOf") == DURATION_SCHEMA["anyOf"]:
        shape["default"] = duration_text(default)
    elif isinstance(default, str | bool | int | float):
        shape["default"] = default
    elif isinstance(default, tuple):
        shape["default"] = list(default)
    path = f"{table}.{key}"
    shape = WIDER.get(path, shape) | _limits(path, shape)
    return {"description": DESCRIBED[table][key], **shape}


def _plain(raw: Shape) -> Shape:
    """Return a shape without titles, and without null, which TOML has not."""
    shape = {name: value for name, value in raw.items() if name != "title"}
    kinds = [_plain(each) for each in shape.get("anyOf", ()) if each != {"type": "null"}]
    if kinds:
        del shape["anyOf"]
        shape |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return shape


def _limits(path: str, shape: Shape) -> Shape:
    """Return what the model's types do not say of a setting: ranges and spellings."""
    limits: Shape = {}
    if path in RANGES:
        low, high, _ = RANGES[path]
        limits = {"minimum": int(low), "maximum": int(high)}
    if limits and shape.get("type") == "array":
        limits = {"items": {**shape["items"], **limits}}
    if path == "run.name":
        limits = {"pattern": f"^{NAME.pattern}$"}
    elif path.endswith("_env"):
        limits = {"pattern": f"^{VARIABLE.pattern}$"}
    return limits


def _put(setting: Shape, table: Shape) -> None:
    """Let a setting be the table that it names: one, or each of a list."""
    listed = setting.get("type") == "array"
    for word in ("$ref", "allOf", "anyOf", "items", "default"):
        setting.pop(word, None)
    setting |= {"type": "array", "items": table} if listed else table
