"""What is known of the monitor that watches a run from outside (INTERFACE ``monitor.value``)."""

from pydantic import Field

from cockpit.model.base import Frozen, Instant, Seconds


class OtherMonitor(Frozen):
    """Another monitor's state file that names the same job."""

    path: str
    owner: str | None = None
    last_update: Instant | None = None
    fresh: bool


class MonitorValue(Frozen):
    """The monitor that watches this run; never says anything about the run's own health."""

    fresh: bool
    last_update: Instant | None
    cadence_s: Seconds
    owner: str | None = None
    restart_count: int | None = None
    job_id: str | None = None
    path: str | None = None
    others: tuple[OtherMonitor, ...] = ()
    last_signal: str | None = Field(default=None, exclude=True)
    tunnel_session: str | None = Field(default=None, exclude=True)
    server_session: str | None = Field(default=None, exclude=True)
    mcp_url: str | None = Field(default=None, exclude=True)
    wandb: str | None = Field(default=None, exclude=True)
    """The address of the W&B run that its state file holds (C-13)."""
    retired: str | None = Field(default=None, exclude=True)
    """The job that a relaunch has retired: a monitor that still names it has not heard yet."""
    doubt: str | None = Field(default=None, exclude=True)
    """Why it may be fresh although its stamp is old; the next write of its file tells (C-03)."""
    gone: tuple[str, ...] = Field(default=(), exclude=True)
    """What it needs to live and that is gone: its tunnel, its server; one line each (C-03)."""
    notes: tuple[str, ...] = Field(default=(), exclude=True)
    """What was odd about the clocks or files that this rests on, one line each."""
