"""The run file's ``[[run]]`` and its parts, as values (INTERFACE, "The run file").

Durations are seconds; ``cockpit.config.file`` has resolved paths: a ``Place`` may lie on another
machine, a plain string is an absolute path of this one. Defaults that depend on other fields
are properties here, so that a rule and a screen cannot disagree about them.

Quiet hours: when people want to hear of nothing but criticals (``[notify] quiet``).
"""

import re
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, WithJsonSchema

from cockpit.model.base import DURATION_SCHEMA, Frozen, Seconds, parse_duration
from cockpit.model.finalstep import FinalStepSource
from cockpit.model.late_regex import late_regex
from cockpit.model.place import Place, WandbAddress, address_of, server_of

_HOURS: Final = late_regex(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)(?: (\S+))?")
_EXPECTED: Final = 'expected hours such as "22:00-07:00", or with a zone "22:00-07:00 Europe/Oslo"'


class Quiet(NamedTuple):
    """From ``begin`` to before ``end`` (minutes of the day), over midnight where it begins later.

    Without a zone the hours are those of the machine that sends.
    """

    begin: int
    end: int
    zone: str | None = None

    def at(self, now: float) -> bool:
        """Tell whether it is quiet at ``now`` (epoch seconds)."""
        zone: tzinfo | None = None if self.zone is None else ZoneInfo(self.zone)
        there = datetime.fromtimestamp(now, zone)
        minute = there.hour * 60 + there.minute
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


def _parsed(value: object) -> object:
    """Return the hours of a text; raises ``ValueError`` for what is none."""
    if not isinstance(value, str):
        return value
    found = _HOURS.fullmatch(value.strip())
    if found is None:
        raise ValueError(_EXPECTED)
    first, second, third, fourth, zone = found.groups()
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"no time zone is called {zone!r}; {_EXPECTED}") from None
    begin, end = int(first) * 60 + int(second), int(third) * 60 + int(fourth)
    if begin == end:
        raise ValueError("begins when it ends: leave it out for no quiet hours")
    return Quiet(begin=begin, end=end, zone=zone)


QuietHours = Annotated[Quiet, BeforeValidator(_parsed)]


Duration = Annotated[float, BeforeValidator(parse_duration), WithJsonSchema(DURATION_SCHEMA)]
Command = str | tuple[str, ...]


class Auth(Frozen):
    """How to authenticate to a controller: the *name* of a variable or a command, no secret."""

    header: str | None = None
    token_env: str | None = None
    token_command: Command | None = None


class JobSpec(Frozen):
    """``[run.job]``: where the run's jobs execute. One of five kinds; the rest are its fields."""

    kind: Literal["iris", "ray", "slurm", "box", "local"]
    id: str | None = None
    controller_url: str | None = None
    cluster: str | None = None
    auth: Auth | None = None
    token_command: Command | None = None
    address: str | None = None
    token_env: str | None = None
    host: str | None = None
    log: Place | None = None
    other_logs: tuple[Place, ...] = ()
    """The rest of a list in ``log``."""
    session: str | None = None
    match: str | None = None
    pid_file: Place | None = None
    done_marker: Place | None = None
    exit_file: Place | None = None
    workdir: Place | None = None
    production: str | None = None
    diagnostic: tuple[str, ...] = ()
    bad_node_recipe: str | None = None
    save_signal: str | None = None
    save_command: Command | None = None
    resubmit_runs: Literal["entrypoint", "command"] = "entrypoint"
    grace: Duration = 60.0


class MetricNames(Frozen):
    """Which logged keys are which; ``None`` means: find the usual names."""

    step: str | None = None
    loss: str | None = None
    throughput: str | None = None
    grad_norm: str | None = None
    z_loss: str | None = None
    router_loss: str | None = None
    router_entropy: str | None = None
    skipped: str | None = None


class WandbSpec(Frozen):
    """``[run.wandb]``: the recorded identity, and where the run's data is read."""

    entity: str | None = None
    project: str | None = None
    id: str | None = None
    name: str | None = None
    url: str | None = None
    resume: Literal["allow", "never", "must"] = "allow"
    dir: Place | None = None
    base_url: str | None = None
    metrics: MetricNames = MetricNames.model_construct()

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
    project: str | None = None
    run: str | None = None
    metrics: MetricNames = MetricNames.model_construct()


class TensorboardSpec(Frozen):
    """``[run.tensorboard]``: the folder in which the run's event files lie."""

    dir: Place
    metrics: MetricNames = MetricNames.model_construct()


class CustomLayout(Frozen):
    """A checkpoint layout of one's own: a pattern of names, and the marker file in each folder.

    The pattern's one group is the step; without a group the name tells none. Without a marker
    each checkpoint is one file.
    """

    pattern: str
    marker: str = ""


class CheckpointSpec(Frozen):
    """``[run.checkpoints]``: the roots (first = permanent) and the retention policy."""

    path: tuple[Place, ...] = ()
    layout: str = "auto"
    custom: CustomLayout | None = None
    save_every: Duration | None = None
    permanent_every: int | None = None
    rollback_depth: int | None = None
    keep: int | None = None
    protect: tuple[int, ...] = ()
    initialize_from: Place | None = None


class MonitorSpec(Frozen):
    """``[run.monitor]``: state-file glob and event log of whoever monitors the run."""

    state: str | None = None
    events: str | None = None
    cadence: Duration | None = None


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
    log_every: str | None = None
    issue: str | None = None
    issue_repo: str | None = None
    run_log: str | None = None
    run_type: str | None = None


class CodeSpec(Frozen):
    """``[run.code]``: the repository, and which changed files can touch the trajectory (C-15)."""

    repo: Place | None = None
    ignore: tuple[str, ...] = ("docs/**", "*.md", "tests/**")
    safe: tuple[str, ...] = ()
    trajectory: tuple[str, ...] = ()
    own_files: tuple[str, ...] = ()
    """Files that the cockpit or the runs write, from the top; what is made beside them too."""
    output_folders: tuple[str, ...] = ()
    """Folders that runs save into, from the repository's top."""


class Thresholds(Frozen):
    """``[run.thresholds]``: the figures of SPEC C, each a setting of the run."""

    warmup_steps: int | None = None
    throughput_drop: float = 0.25
    throughput_cadences: int = 3
    loss_spike: float = 0.5
    spike_rows: int = 10
    loss_climb: float = 0.3
    climb_rows: int = 100
    instability_z: float = 6.0
    instability_window: int = 200
    instability_rows: int = 10
    stall_factor: float = 3.0
    first_step_within: Duration = 45 * 60.0
    pending_after: Duration = 30 * 60.0
    resume_catchup: float = 0.002
    resume_after: float = 0.01
    resume_window: int = 500
    flap_restarts: int = 3
    flap_window: Duration = 6 * 3600.0
    disk_frac: float = 0.9
    mem_frac: float = 0.9
    free_saves: float = 2.0
    billed_after: Duration = 3600.0


class TeardownSpec(Frozen):
    """``[run.teardown]``."""

    command: Command | None = None
    kind: Literal["stop", "release", "terminate", "destroy", "delete_files", "cancel_storage"]
    stops_meter: bool = True
    survives: tuple[str, ...] = ()
    reversible: bool = False
    pulled_to: str | None = None
    verify: Command | None = None


class FinalStepFrom(Frozen):
    """Where the exact final step is written: a key (dotted) of a JSON or TOML file."""

    file: str
    key: str


Verb = Literal[
    "launch", "relaunch", "lineage", "rollback", "stop", "retain", "seal", "handoff", "escalate",
    "log", "sync", "teardown", "publish", "ack", "adopt",
]  # fmt: skip
"""A guarded action by its verb, as ``[agents] may`` names it."""


class AgentsSpec(Frozen):
    """``[agents]``: what agents may act with; reading and planning are always allowed (SPEC A).

    ``grace`` is for how long a person may veto an act that does more than tell.
    """

    may: tuple[Verb, ...] = ("log", "escalate")
    grace: Duration = 60.0
    calls_per_minute: int = 60


class RunAgentsSpec(Frozen):
    """``[run.agents]``: the same for one run, where it differs."""

    may: tuple[Verb, ...] | None = None
    grace: Duration | None = None


class RunSpec(Frozen):
    """One ``[[run]]``: one intended training trajectory."""

    name: str
    tier: Literal["hero", "ordinary"] = "ordinary"
    dri: str | None = None
    goal: str | None = None
    stop_criteria: str | None = None
    final_step: int | None = None
    final_step_from: FinalStepFrom | None = None
    final_step_source: str | None = None
    final_step_told: tuple[FinalStepSource, ...] = ()
    """All that run file, config file and command tell of it, the one that counts first (C-20)."""
    model_flops: float | None = None
    expected_duration: Duration | None = None
    output_root: Place | None = None
    cadence: Duration = 15 * 60.0
    hardware: str | None = None
    group: str | None = None
    config_file: str | None = None
    resubmit: Command | None = None
    launch: Command | None = None
    workdir: Place | None = None
    job: JobSpec | None = None
    wandb: WandbSpec | None = None
    trackio: TrackioSpec | None = None
    tensorboard: TensorboardSpec | None = None
    escalation: Literal["reaches", "own", "nobody"] = "reaches"
    """Whether an escalation reaches its owner; ``own``: whoever acts here is the owner."""
    logs_of_others: tuple[str, ...] = ()
    """The logs, on this machine, of the file's other runs that start by the same command."""
    same_tracker: tuple[str, ...] = ()
    """Other runs of the file that read this one's W&B folder, where it has no id of its own."""
    checkpoints: CheckpointSpec | None = None
    monitor: MonitorSpec | None = None
    records: RecordsSpec = RecordsSpec.model_construct()
    code: CodeSpec | None = None
    thresholds: Thresholds = Thresholds.model_construct()
    teardown: TeardownSpec | None = None
    agents: RunAgentsSpec = RunAgentsSpec.model_construct()

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


class RouteRow(NamedTuple):
    """One kind of ``[notify] routes``: what it needs of the run file, and what mends it.

    A kind that needs an address goes through apprise and has apprise's name for the service. Each
    other kind has its sender in ``SENDERS`` (``cockpit/notify/routes.py``).
    """

    needs: Literal["url_env", "command"] | None
    remedy: str
    """What ``doctor`` advises where the route cannot be used or its test message failed."""


BY_ADDRESS: Final = RouteRow(
    "url_env", "set the variable to the URL exactly as the service shows it, then try again"
)
"""Also the row of a route that names no kind: its address decides."""
ROUTE_KINDS: Final = {
    "slack": BY_ADDRESS,
    "discord": BY_ADDRESS,
    "webhook": BY_ADDRESS,
    "email": BY_ADDRESS,
    "desktop": RouteRow(
        None, "run it in a desktop session with notify-send; otherwise this route is skipped"
    ),
    "terminal": RouteRow(None, "run it in a terminal; without one this route is skipped"),
    "command": RouteRow(
        "command", "run the command by hand; it reads the message from standard input"
    ),
}
if TYPE_CHECKING:
    RouteKind = str
else:
    RouteKind = Literal[tuple(ROUTE_KINDS)]


class Route(Frozen):
    """``[notify] routes``: where messages of at least ``min`` severity go.

    ``url_env`` names the variable that holds the address (an ``https`` webhook or an apprise
    URL); ``kind`` says what it must be, or is ``desktop`` or ``terminal``, which need no address.
    ``command`` gets the message on its standard input. ``to`` is the person whom the route
    reaches (no ``to``: everybody), or the address of a mail.
    """

    min: Literal["info", "warning", "alert", "critical"] = "alert"
    url_env: str | None = None
    kind: RouteKind | None = None
    to: str | None = None
    command: Command | None = None


class NotifySpec(Frozen):
    """``[notify]``. A critical that nobody takes goes out again, then to the ``second`` person.

    ``most`` messages go by one route in ten minutes; what is beyond becomes one summary. In
    ``quiet`` hours only what is critical goes; the rest goes after them, if it is still open.
    """

    routes: tuple[Route, ...] = ()
    unacked_after: Duration = 15 * 60.0
    second: str | None = None
    quiet: QuietHours | None = None
    heartbeat_url_env: str | None = None
    most: int = 20


class UiSpec(Frozen):
    """``[ui]``. The theme ``auto`` is dark or light as the terminal's background is."""

    theme: str = "auto"
    mouse: bool = False
    ascii: bool = False


class HostSpec(Frozen):
    """``[hosts.NAME]``: what to do when the host refuses us, and its Python (3.8 or newer)."""

    remedy: str | None = None
    python: str | None = None


class CockpitFile(Frozen):
    """A whole ``cockpit.toml``: where it lies, the fleet, and the person's settings."""

    path: str
    cadence: Seconds = 15 * 60.0
    operator: str | None = None
    runs: tuple[RunSpec, ...] = ()
    notify: NotifySpec = NotifySpec.model_construct()
    agents: AgentsSpec = AgentsSpec.model_construct()
    ui: UiSpec = UiSpec.model_construct()
    keys: dict[str, Any] = Field(default_factory=dict)
    hosts: dict[str, HostSpec] = Field(default_factory=dict)


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
