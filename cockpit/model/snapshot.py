"""What a launch really used: command, code, config, checkpoint, hardware (SPEC C-18)."""

from cockpit.model.base import Frozen, Instant
from cockpit.model.jobs import Bundle
from cockpit.model.observed import Pick


class Snapshot(Frozen):
    """One launch. ``command`` and ``config`` hold no secret; ``config`` has dotted keys.

    ``template`` is the command with its placeholders as the run file had them, ``resubmit`` the
    one that it had for going on, where that was another. ``config`` is
    ``None`` where none is known; ``config_sha256`` is the digest of the values as they are
    here, so that anyone can make it again.
    """

    launch_id: str
    at: Instant
    action: str
    command: tuple[str, ...]
    template: tuple[str, ...] = ()
    resubmit: tuple[str, ...] = ()
    sha: str | None = None
    branch: str | None = None
    patch_id: str | None = None
    dirty: tuple[str, ...] = ()
    config: dict[str, str] | None = None
    config_source: str | None = None
    config_sha256: str | None = None
    checkpoint: Pick | None = None
    hardware: str | None = None
    output_root: str | None = None
    wandb_id: str | None = None
    wandb_project: str | None = None
    bundle: Bundle | None = None
    """The code that went with the job, by its platform's word, once that is known."""
