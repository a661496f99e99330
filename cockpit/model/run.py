"""The run file's ``[[run]]`` and its parts, as values (INTERFACE, "The run file").

Durations are seconds; ``cockpit.config.file`` has resolved paths: a ``Place`` may lie on another
machine, a plain string is an absolute path of this one. Defaults that depend on other fields
are properties here, so that a rule and a screen cannot disagree about them.

The sentence below a field is its whole documentation: ``cockpit schema`` and docs/run-file.md are
made from it. It names the unit, and the default where that follows from other settings.
"""

import re
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le
from pydantic import Field

from cockpit.model.base import Command, Count, Duration, Frozen, Seconds, parse_duration
from cockpit.model.finalstep import FinalStepSource
from cockpit.model.notify import NotifySpec
from cockpit.model.own_rules import USUAL_LIMITS, LimitSpec, SignatureSpec
from cockpit.model.own_rules import Share as Share
from cockpit.model.own_rules import Steps as Steps
from cockpit.model.own_rules import Thresholds as Thresholds
from cockpit.model.place import Place, WandbAddress, address_of, server_of
from cockpit.model.standing import StandingSpec

TRACKER_TABLES: Final = ("finelog", "wandb", "trackio", "tensorboard", "mlflow")
"""The trackers' tables of the run file; the first that a run has is read."""


Price = Annotated[float, Gt(0), Le(10**7)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class Auth(Frozen):
    """How to authenticate to a controller: the *name* of a variable or a command, no secret."""

    header: str | None = None
    """The header that carries the token, such as Proxy-Authorization."""
    token_env: str | None = None
    """The name of the environment variable that holds the token."""
    token_command: Command | None = None
    """A command that prints the token; shell words, or a list."""


class JobSpec(Frozen):
    """``[run.job]``: where the run's jobs execute: a kind, and what that kind reads."""

    kind: Literal["iris", "ray", "slurm", "kubernetes", "box", "local"]
    """The kind of job: iris, ray, slurm, kubernetes, box (ssh) or local."""
    id: str | None = None
    """The job's id (iris, ray, slurm; kubernetes: as name); absent before the first launch."""
    context: str | None = None
    """kubernetes: the context of the kubeconfig (default: the current one), or in-cluster: the
    account of the pod that the cockpit runs in."""
    namespace: str | None = None
    """kubernetes: the namespace of the job; default: that of the context."""
    name: str | None = None
    """kubernetes: the job as KIND/NAME, such as jobset/llama; NAME alone is a Job."""
    selector: str | None = None
    """kubernetes: labels, such as app=llama,team=ml: your newest job that has them is current."""
    container: str | None = None
    """kubernetes: the container that trains, where a pod has several."""
    manifest: Place | None = None
    """kubernetes: the file (YAML or JSON) with the object that a launch creates; resubmit, if it is
    given, is the command of its container."""
    controller_url: str | None = None
    """iris: the controller's address, such as http://127.0.0.1:10000."""
    cluster: str | None = None
    """iris: the cluster's short name or config file, in place of controller_url."""
    auth: Auth | None = None
    """iris: how to authenticate to the controller."""
    token_command: Command | None = None
    """iris: a command that prints the bearer token."""
    address: str | None = None
    """ray: the head's dashboard address, such as http://127.0.0.1:8265."""
    token_env: str | None = None
    """ray: the name of the environment variable that holds the token."""
    host: str | None = None
    """slurm, box: the ssh host; absent for slurm: this machine."""
    log: Place | None = None
    """The job's log file or object (s3://, gs://), or a list of them; patterns of files (*, %j,
    %t); slurm: its StdOut."""
    other_logs: tuple[Place, ...] = ()
    """The rest of a list in ``log``."""
    session: str | None = None
    """box: the tmux session in which the training runs."""
    match: str | None = None
    """box, local: a pattern in the process's command line, as for pgrep -f; slurm, ray, iris,
    kubernetes: a name pattern, such as llama-*: your newest job that fits is current."""
    pid_file: Place | None = None
    """box, local: the file whose first line is the trainer's process id."""
    done_marker: Place | None = None
    """box, local: a file that exists once the training is complete."""
    exit_file: Place | None = None
    """box, local: the file that holds the exit status once there is one."""
    workdir: Place | None = None
    """The folder in which the job runs."""
    production: str | None = None
    """iris: the pattern of the child job that trains."""
    diagnostic: tuple[str, ...] = ()
    """iris: patterns of child jobs that do not train, such as *-eval*."""
    bad_node_recipe: str | None = None
    """What to do about a bad node, in words, shown before a relaunch."""
    save_signal: str | None = None
    """The signal that makes the trainer save, such as USR1."""
    save_command: Command | None = None
    """The command that makes the trainer save; shell words, or a list."""
    resubmit_runs: Literal["entrypoint", "command"] = "entrypoint"
    """ray: resubmit is the entrypoint of the job, or a command that submits."""
    grace: Duration = 60.0
    """How long a job may take to stop before it is killed (a duration)."""


class MetricNames(Frozen):
    """Which logged keys are which; ``None`` means: find the usual names."""

    step: str | None = None
    """Key of the training step; the usual names are found without it."""
    loss: str | None = None
    """Key of the training loss; the usual names are found without it."""
    throughput: str | None = None
    """Key of the throughput (any rate); the usual names are found without it."""
    grad_norm: str | None = None
    """Key of the gradient norm; the usual names are found without it."""
    z_loss: str | None = None
    """Key of the z-loss; the usual names are found without it."""
    router_loss: str | None = None
    """Key of the router's loss (MoE); the usual names are found without it."""
    router_entropy: str | None = None
    """Key of the router's entropy (MoE); the usual names are found without it."""
    skipped: str | None = None
    """Key of the flag or count of skipped steps; the usual names are found without it."""
    limited: tuple[str, ...] = ()
    """Names of metrics for which the run has a limit."""


class WandbSpec(Frozen):
    """``[run.wandb]``: the recorded identity, and where the run's data is read."""

    entity: str | None = None
    """The W&B entity (user or team)."""
    project: str | None = None
    """The W&B project."""
    id: str | None = None
    """The W&B run id, if it is pinned; without one the run of dir that a process writes, else the
    newest, counts."""
    former: tuple[str, ...] = ()
    """The ids of former attempts of this run: their rows, in dir, stand before its own."""
    name: str | None = None
    """The display name of the W&B run."""
    url: str | None = None
    """The address of the W&B run, in place of entity, project and id."""
    resume: Literal["allow", "never", "must"] = "allow"
    """The resume policy of the trainer's client: allow, never or must."""
    dir: Place | None = None
    """A folder of W&B run directories, or one of them, read from disk."""
    base_url: str | None = None
    """The address of your own W&B server, such as https://wandb.example.org."""
    metrics: MetricNames = MetricNames.model_construct()
    """Which logged keys are which."""

    @property
    def run_id(self) -> str | None:
        """The recorded id, or the one in the recorded URL."""
        return self.recorded.run

    @property
    def recorded(self) -> WandbAddress:
        """The run's address: each part as recorded by itself, else as the recorded URL has it."""
        named = address_of(self.url)
        return WandbAddress(
            server_of(self.base_url) or named.base_url,
            self.entity or named.entity,
            self.project or named.project,
            self.id or named.run,
        )

    @property
    def online(self) -> bool:
        """True if the run is asked for at a W&B server.

        One that has a folder of its files is so only if it is recorded whose it is online: an
        offline run is nobody's yet.
        """
        found = self.recorded
        if found.project is None or found.run is None:
            return False
        return self.dir is None or found.entity is not None


class TrackioSpec(Frozen):
    """``[run.trackio]``: the database of a project, or the folder of databases, and the run in it.

    Without ``run`` the newest run of the project is read, as long as no other one logs beside it.
    """

    db: Place
    """The database file of a project, or the folder of databases."""
    project: str | None = None
    """The project's name, where db is a folder."""
    run: str | None = None
    """The run's name or id; default: the newest run, if no other one logs beside it."""
    former: tuple[str, ...] = ()
    """The names or ids of former attempts of this run: their rows stand before its own."""
    metrics: MetricNames = MetricNames.model_construct()
    """Which logged keys are which."""


class TensorboardSpec(Frozen):
    """``[run.tensorboard]``: the folder in which the run's event files lie."""

    dir: Place
    """The folder of the run's event files."""
    former: tuple[Place, ...] = ()
    """The folders of former attempts of this run: their rows stand before its own."""
    metrics: MetricNames = MetricNames.model_construct()
    """Which logged tags are which."""


class MlflowSpec(Frozen):
    """``[run.mlflow]``: an MLflow tracking server or its store on disk, and the run in it.

    Without ``run`` the experiment's newest run is read, as long as no other one logs beside it.
    """

    uri: Place | None = None
    """A tracking server (https://mlflow.example.org), a SQLite store (sqlite:///mlflow.db or the
    file) or an mlruns folder; default: MLFLOW_TRACKING_URI."""
    experiment: str | None = None
    """The experiment's name or id."""
    run: str | None = None
    """The run's id or name; default: the newest of the experiment, if no other logs beside it."""
    former: tuple[str, ...] = ()
    """The ids or names of former attempts of this run: their rows stand before its own."""
    metrics: MetricNames = MetricNames.model_construct()
    """Which logged keys are which."""


class FinelogSpec(Frozen):
    """``[run.finelog]``: what a Levanter run reports through the controller of its Iris job.

    It is preferred to another tracker of the run where it answers: W&B takes no step below the
    last one before a resume.
    """

    run: str | None = None
    """Levanter's run id (trainer.id); default: wandb.id, else the run's name."""
    former: tuple[str, ...] = ()
    """The run ids of former attempts of this run: their rows stand before its own."""
    metrics: MetricNames = MetricNames.model_construct()
    """Which logged keys are which; default: as wandb.metrics."""
    controller: JobSpec | None = None
    """The controller that is asked: that of the run's job."""


class CustomLayout(Frozen):
    """A checkpoint layout of one's own: a pattern of names, and the marker file in each folder.

    The pattern's one group is the step; without a group the name tells none. Without a marker
    each checkpoint is one file.
    """

    pattern: str
    """A regular expression of checkpoint names; its one group is the step."""
    marker: str = ""
    """The file in a checkpoint that says it is complete; without one each checkpoint is a file."""


class CheckpointSpec(Frozen):
    """``[run.checkpoints]``: the roots (first = permanent) and the retention policy."""

    path: tuple[Place, ...] = ()
    """The root of the checkpoints (local, ssh://, gs://, s3://), or a list: permanent first, then
    temporary."""
    layout: str = "auto"
    """The trainer's layout; auto finds it."""
    custom: CustomLayout | None = None
    """A layout of your own: { pattern, marker }."""
    save_every: Duration | None = None
    """How often a checkpoint is saved (a duration)."""
    permanent_every: Annotated[int, Ge(1), Le(10**15)] | None = None
    """Every how many steps a checkpoint is permanent."""
    rollback_depth: Annotated[int, Ge(0), Le(10**6)] | None = None
    """How many good checkpoints there should be to roll back to."""
    keep: Count | None = None
    """How many checkpoints a clean-up keeps."""
    protect: tuple[Steps, ...] = ()
    """Steps whose checkpoints no clean-up deletes."""
    initialize_from: Place | None = None
    """The checkpoint with which the very first job begins."""


class MonitorSpec(Frozen):
    """``[run.monitor]``: state-file glob and event log of whoever monitors the run."""

    state: str | None = None
    """A glob of the monitor's state files; the newest counts."""
    events: str | None = None
    """The monitor's own log."""
    cadence: Duration | None = None
    """How often the monitor writes (a duration); default: the run's cadence."""


NEVER: Final = "never"
EVENT: Final = "event"
"""Words of ``log_every`` beside a period."""
_CADENCES: Final = re.compile(r"\s*(\d{1,4})\s*cadences?\s*")


def log_period(text: str, cadence: float) -> float:
    """Return the seconds of a period of ``log_every``; raises ``ValueError``."""
    counted = _CADENCES.fullmatch(text)
    return max(1, int(counted[1])) * cadence if counted else float(parse_duration(text))


class RecordsSpec(Frozen):
    """``[run.records]``."""

    logbook: str | None = None
    """The logbook, a Markdown file in a git repository."""
    log_every: str | None = None
    """How often an entry is due: "1 cadence", "2h", "event" (after a change of the job or an
    alert), "never" (none is written by itself)."""
    issue: str | None = None
    """The address of the run's GitHub issue."""
    issue_repo: str | None = None
    """The repository (owner/name) in which an issue is created."""
    run_log: str | None = None
    """The HPC run log, a Markdown file."""
    run_type: str | None = None
    """What kind of run the run log says it is: replication, experiment, pipeline."""


class CodeSpec(Frozen):
    """``[run.code]``: the repository, and which changed files can touch the trajectory (C-15)."""

    repo: Place | None = None
    """The repository of the training code."""
    ignore: tuple[str, ...] = ("docs/**", "*.md", "tests/**")
    """Globs of files that cannot touch the training."""
    safe: tuple[str, ...] = ()
    """Globs of files around the training: logging, evaluation, launchers."""
    trajectory: tuple[str, ...] = ()
    """Globs of files that decide the trajectory; default: all other code."""
    own_files: tuple[str, ...] = ()
    """Files that the cockpit or the runs write, from the top; what is made beside them too."""
    output_folders: tuple[str, ...] = ()
    """Folders that runs save into, from the repository's top."""


class TeardownSpec(Frozen):
    """``[run.teardown]``."""

    command: Command | None = None
    """The command that gives the machine or storage up."""
    kind: Literal["stop", "release", "terminate", "destroy", "delete_files", "cancel_storage"]
    """What it does: stop, release, terminate, destroy, delete_files, cancel_storage."""
    stops_meter: bool = True
    """Whether billing ends with it."""
    survives: tuple[str, ...] = ()
    """What is left afterwards and may still cost, such as a network volume."""
    reversible: bool = False
    """Whether it can be undone."""
    pulled_to: str | None = None
    """The folder to which the artifacts were copied before."""
    verify: Command | None = None
    """A command that checks that copy; exit status 0 is good."""


class FinalStepFrom(Frozen):
    """Where the exact final step is written: a key (dotted) of a JSON or TOML file."""

    file: str
    """A JSON or TOML file."""
    key: str
    """The dotted key of the last step in it, such as trainer.num_train_steps."""


Verb = Literal[
    "launch", "relaunch", "lineage", "rollback", "stop", "retain", "seal", "handoff", "escalate",
    "log", "sync", "teardown", "publish", "ack", "adopt", "hold", "release", "requeue", "extend",
]  # fmt: skip
"""A guarded action by its verb, as ``[agents] may`` names it."""


class AgentsSpec(Frozen):
    """``[agents]``: what agents may act with; reading and planning are always allowed (SPEC A).

    ``grace`` is for how long a person may veto an act that does more than tell.
    """

    may: tuple[Verb, ...] = ("log", "escalate")
    """Verbs that an agent may act with; reading and planning are always allowed."""
    grace: Duration = 60.0
    """For how long a person may veto what an agent is about to do (a duration); what only tells
    (log, escalate, ack) does not wait."""
    calls_per_minute: Count = 60
    """How many calls an agent may make in a minute."""


class RunAgentsSpec(Frozen):
    """``[run.agents]``: the same for one run, where it differs."""

    may: tuple[Verb, ...] | None = None
    """Verbs that an agent may act with on this run; default: [agents] may."""
    grace: Duration | None = None
    """For how long a person may veto here (a duration); default: [agents] grace."""


class RunSpec(Frozen):
    """One ``[[run]]``: one intended training trajectory."""

    name: str
    """The run's slug: letters, digits, '.', '_', '-'; typed to confirm actions."""
    tier: Literal["hero", "ordinary"] = "ordinary"
    """hero or ordinary; default: hero when model_flops >= 1e22, or an issue or a logbook is set."""
    dri: str | None = None
    """The directly responsible individual, by name."""
    goal: str | None = None
    """What the run is for, in a sentence."""
    stop_criteria: str | None = None
    """When the run should be stopped, in words."""
    final_step: Annotated[int, Ge(1)] | None = None
    """The exact last step (a count of optimizer steps)."""
    final_step_from: FinalStepFrom | None = None
    """Where the exact last step is written: { file, key }."""
    final_step_source: str | None = None
    final_step_told: tuple[FinalStepSource, ...] = ()
    """All that run file, config file and command tell of it, the one that counts first (C-20)."""
    model_flops: float | None = None
    """Total training compute in FLOPs; decides the default tier."""
    expected_duration: Duration | None = None
    """How long the whole run should take (a duration); default: final_step / baseline rate."""
    output_root: Place | None = None
    """The one folder or bucket path that the run writes, over all relaunches."""
    cadence: Duration = 15 * 60.0
    """How often this run is checked (a duration); default: [cockpit] cadence."""
    price_per_hour: Price | None = None
    """What the whole job costs in an hour, in ``currency``; without a price no cost is shown."""
    price_per_accelerator_hour: Price | None = None
    """What one accelerator costs in an hour, in place of price_per_hour: the job's system tells how
    many it holds."""
    currency: Currency = "USD"
    """The currency of the price, three letters; default: [cockpit] currency."""
    hardware: str | None = None
    """The hardware, as people call it, such as v5p-512."""
    group: str | None = None
    """A name that groups runs in the fleet."""
    config_file: str | None = None
    """The config file of the next launch; each launch keeps a copy."""
    resubmit: Command | None = None
    """The command that starts the job again: shell words, or a list; it must resume. Placeholders:
    {launch_id} {run} {wandb_id} {output_root} {checkpoint} {step}."""
    launch: Command | None = None
    """The command of the first launch; default: resubmit."""
    workdir: Place | None = None
    """The folder in which resubmit runs; default: this file's folder."""
    job: JobSpec | None = None
    """Where the run's jobs execute."""
    wandb: WandbSpec | None = None
    """The run's W&B identity, and where its data is read."""
    trackio: TrackioSpec | None = None
    """The Trackio database in which the run is logged."""
    tensorboard: TensorboardSpec | None = None
    """The TensorBoard event files of the run."""
    mlflow: MlflowSpec | None = None
    """The MLflow run in which the run is logged."""
    finelog: FinelogSpec | None = None
    """The run's metrics in the finelog of its Iris job."""
    escalation: Literal["reaches", "own", "nobody"] = "reaches"
    """Whether an escalation reaches its owner; ``own``: whoever acts here is the owner."""
    logs_of_others: tuple[str, ...] = ()
    """The logs, on this machine, of the file's other runs that start by the same command."""
    same_tracker: tuple[str, ...] = ()
    """Other runs of the file that read this one's W&B folder, where it has no id of its own."""
    checkpoints: CheckpointSpec | None = None
    """Where checkpoints lie, and which are kept."""
    monitor: MonitorSpec | None = None
    """The state file and events of whoever monitors the run."""
    records: RecordsSpec = RecordsSpec.model_construct()
    """Logbook, issue and run log."""
    code: CodeSpec | None = None
    """The repository, and which changes can touch the trajectory."""
    thresholds: Thresholds = Thresholds.model_construct()
    """The figures at which alerts open."""
    signature: tuple[SignatureSpec, ...] = ()
    """What lines of your own systems mean; those of [cockpit] signatures count besides."""
    team_signatures: tuple[SignatureSpec, ...] = ()
    """Those of the team's file."""
    limit: tuple[LimitSpec, ...] = ()
    """What logged metrics may not pass, beside or in place of the usual limits."""
    teardown: TeardownSpec | None = None
    """How rented machines and storage are given up in the end."""
    agents: RunAgentsSpec = RunAgentsSpec.model_construct()
    """What agents may do to this run by themselves, where it differs from [agents]."""
    standing: StandingSpec | None = None
    """What a standing order may do to this run, once a person has armed it."""

    @property
    def trackers(self) -> dict[str, Frozen]:
        """The tables of trackers that the run has, by name: the first one is read."""
        named = {table: getattr(self, table) for table in TRACKER_TABLES}
        return {table: spec for table, spec in named.items() if spec is not None}

    @property
    def monitor_cadence(self) -> Seconds:
        """The monitor's own cadence, else the run's (INTERFACE, "Cadences")."""
        own = self.monitor.cadence if self.monitor is not None else None
        return self.cadence if own is None else own

    @property
    def warmup_steps(self) -> int:
        """Steps in which fast changes are expected: set, else max(200, 1 % of the final step)."""
        if self.thresholds.warmup_steps is not None:
            return self.thresholds.warmup_steps
        return max(200, (self.final_step or 0) // 100)


class UiSpec(Frozen):
    """``[ui]``. The theme ``auto`` is dark or light as the terminal's background is."""

    theme: str = "auto"
    """The colours. auto asks the terminal whether its background is light or dark."""
    mouse: bool = False
    """Whether the mouse is used."""
    ascii: bool = False
    """Draw with ASCII characters only; terminals that need it get it anyway."""


class HostSpec(Frozen):
    """``[hosts.NAME]``: what to do when the host refuses us, and its Python (3.8 or newer)."""

    remedy: str | None = None
    """What to do when this host refuses us, such as the command that logs in."""
    python: str | None = None
    """The host's Python, 3.8 or newer: a name or a path. Unset: python3."""


class CockpitFile(Frozen):
    """A whole ``cockpit.toml``: where it lies, the fleet, and the person's settings."""

    path: str
    cadence: Seconds = 15 * 60.0
    operator: str | None = None
    signatures: str | None = None
    runs: tuple[RunSpec, ...] = ()
    notify: NotifySpec = NotifySpec.model_construct()
    agents: AgentsSpec = AgentsSpec.model_construct()
    ui: UiSpec = UiSpec.model_construct()
    keys: dict[str, Any] = Field(default_factory=dict)
    hosts: dict[str, HostSpec] = Field(default_factory=dict)


def limits_of(run: RunSpec) -> tuple[LimitSpec, ...]:
    """Return the limits of a run's metrics: its own, and the usual ones of all others."""
    own = {each.metric for each in run.limit}
    return (*run.limit, *(each for each in USUAL_LIMITS if each.metric not in own))


def own_signatures(run: RunSpec) -> tuple[SignatureSpec, ...]:
    """Return what lines of one's own systems mean: by this run, and by the team's file."""
    return (*run.signature, *run.team_signatures)


def agents_of(file: CockpitFile, run: RunSpec) -> AgentsSpec:
    """Return what agents may do to one run."""
    own = {"may": run.agents.may, "grace": run.agents.grace}
    changes = {key: value for key, value in own.items() if value is not None}
    return file.agents.model_copy(update=changes)


def pythons_of(file: CockpitFile) -> dict[str, str]:
    """Return the Python of hosts whose ``python3`` is not the one to use, by ssh alias."""
    return {host: spec.python for host, spec in file.hosts.items() if spec.python is not None}


def remedies_of(file: CockpitFile) -> dict[str, str]:
    """Return what to do when a host refuses us, by its ssh alias."""
    return {host: spec.remedy for host, spec in file.hosts.items() if spec.remedy is not None}
