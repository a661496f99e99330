"""One row for each kind of job: all that is known of it without loading its platform.

To add a kind: its package, and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

EACH: Final = ("log", "other_logs", "workdir", "match", "grace")
"""The keys of ``[run.job]`` that every kind reads."""
FILES: Final = ("pid_file", "exit_file", "done_marker")
SAVING: Final = ("save_signal", "save_command")


@dataclass(frozen=True, kw_only=True)
class PlatformRow:
    """What depends on a kind of job. No part has a default: a new kind has to say each."""

    platform: str
    """Its class, as ``MODULE:CLASS``."""
    private: tuple[str, ...]
    """The keys of ``[run.job]`` it reads that name hosts or people: ``--present`` masks them."""
    public: tuple[str, ...]
    """The other keys of ``[run.job]`` that it reads, beside ``kind`` and those of ``EACH``."""
    needed: tuple[tuple[str, str], ...]
    """The keys that ``init`` asks for, and how: without them its job cannot be seen."""
    beside: tuple[tuple[tuple[str, str], str], ...]
    """What else ``init`` asks for, by table and key: it may stay open."""
    address: str | None
    """The key that says where its system is; ``None`` if it is this machine."""
    named_by: str
    """The key that names one job."""
    spelled: tuple[str, str]
    """How ``init`` names a job of it after ``KIND:``, and its address behind that."""
    id_shape: tuple[str, str] | None
    """A pattern that matches its job ids and no other kind's, and such an id; ``None`` if its ids
    have no shape of their own."""
    starts: Literal["here", "host", "cluster"]
    """Where the command of a launch runs: this machine, ``job.host``, or a machine of a cluster."""
    supervised: bool
    """True if the cockpit starts the trainer itself, under its supervisor."""
    orders: tuple[str, ...]
    """What its scheduler can be asked to do with a submitted job, by the verb."""

    @property
    def fields(self) -> frozenset[str]:
        """All keys of ``[run.job]`` that it reads, beside ``kind``."""
        return frozenset((*EACH, *self.private, *self.public))


PLATFORMS: Final[Mapping[str, PlatformRow]] = {
    "iris": PlatformRow(
        platform="cockpit.platforms.iris.platform:IrisPlatform",
        private=("controller_url", "cluster"),
        public=("id", "auth", "token_command", "production", "diagnostic", "bad_node_recipe"),
        needed=(
            ("id", "the Iris job, as in /ada/my-run"),
            ("controller_url", "the controller's address, or set job.cluster"),
        ),
        beside=(
            (("finelog", "run"), "Levanter's run id (trainer.id), where it reports to finelog"),
        ),
        address="controller_url",
        named_by="id",
        spelled=("/USER/JOB", "@ADDRESS"),
        id_shape=(r"/[^/\s]+/\S+", "/ada/my-run"),
        starts="cluster",
        supervised=False,
        orders=(),
    ),
    "ray": PlatformRow(
        platform="cockpit.platforms.ray.platform:RayPlatform",
        private=("address",),
        public=("id", "token_env", "auth", "token_command", "resubmit_runs", "save_command"),
        needed=(
            ("id", "the submission id, as in raysubmit_…"),
            ("address", "the head's dashboard address, as in http://127.0.0.1:8265"),
        ),
        beside=(),
        address="address",
        named_by="id",
        spelled=("ID", "@ADDRESS"),
        id_shape=(r"raysubmit_\w+", "raysubmit_a1"),
        starts="cluster",
        supervised=False,
        orders=(),
    ),
    "slurm": PlatformRow(
        platform="cockpit.platforms.slurm.platform:SlurmPlatform",
        private=("host",),
        public=("id", *SAVING, "diagnostic"),
        needed=(("id", "the job id"),),
        beside=(),
        address="host",
        named_by="id",
        spelled=("ID", "[@HOST]"),
        id_shape=(r"\d+(?:_\d+)?", "123_4"),
        starts="host",
        supervised=False,
        orders=("hold", "release", "requeue", "extend"),
    ),
    "kubernetes": PlatformRow(
        platform="cockpit.platforms.kubernetes.platform:KubernetesPlatform",
        private=("context", "namespace"),
        public=("id", "name", "selector", "container", "manifest", *SAVING),
        needed=(("name", "the job as KIND/NAME, as in jobset/llama"),),
        beside=(),
        address="context",
        named_by="name",
        spelled=("KIND/NAME", "[@CONTEXT]"),
        id_shape=(r"(?:job|jobset|trainjob|pytorchjob|rayjob)/[a-z0-9.-]+", "jobset/llama"),
        starts="cluster",
        supervised=False,
        orders=(),
    ),
    "box": PlatformRow(
        platform="cockpit.platforms.box.platform:BoxPlatform",
        private=("host", "session"),
        public=(*FILES, *SAVING, "diagnostic"),
        needed=(
            ("host", "the ssh host"),
            ("session", "the tmux session, or set job.match or job.pid_file"),
        ),
        beside=(),
        address="host",
        named_by="session",
        spelled=("SESSION", "@HOST"),
        id_shape=None,
        starts="host",
        supervised=True,
        orders=(),
    ),
    "local": PlatformRow(
        platform="cockpit.platforms.local.platform:LocalPlatform",
        private=(),
        public=("id", *FILES, *SAVING, "diagnostic"),
        needed=(("log", "the log file"), ("pid_file", "the file with the trainer's process id")),
        beside=(),
        address=None,
        named_by="log",
        spelled=("LOGFILE", ""),
        id_shape=None,
        starts="here",
        supervised=True,
        orders=(),
    ),
}
"""Every kind that ``[run.job] kind`` may name."""
PRIVATE: Final = frozenset(name for row in PLATFORMS.values() for name in row.private)
"""The keys of ``[run.job]`` that ``--present`` masks, whichever kind a run is of."""
