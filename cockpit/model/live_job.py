"""Jobs that live beside a run, the code that one runs, whether it is stopped: as observed."""

from pydantic import Field

from cockpit.model.base import Frozen, Instant


class Stopped(Frozen):
    """A process that is stopped: by SIGSTOP or Ctrl-Z, or ``held`` by a debugger."""

    pid: int
    since: Instant
    held: bool = False


class Bundle(Frozen):
    """The code that a job runs, where it travels with the job: by its platform's word (C-15).

    ``id`` tells the uploaded files apart, ``commit``, ``dirty`` and ``branch`` are the checkout
    they were taken from, ``tree`` is the hash of its files.
    """

    id: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    tree: str | None = None


class LiveJob(Frozen):
    """A job that lives now. ``name`` is for people, ``why`` says how it was recognised (SPEC J).

    ``handle`` is what the platform stops it by: exact, and never a pattern.
    """

    id: str
    name: str
    why: str
    launch_id: str | None = None
    started_at: Instant | None = None
    proven: bool = True
    """False where only a note says that it lives: a machine that died cannot take it back."""
    beyond: str | None = None
    """Why this user may not stop it, where that is so."""
    needs_success: bool = Field(default=False, exclude=True)
    """It waits for the current job's success: behind one that is stopped it never starts."""
    alike: bool = Field(default=False, exclude=True)
    """It runs what the run's job runs, and nothing shows where it writes, or names the run as its
    output and runs something else: a person decides."""
    part_of: str | None = Field(default=None, exclude=True)
    """The job (its ``id``) whose waiting part this is: what stops that one ends this too."""
    handle: dict[str, str] = Field(default_factory=dict)
