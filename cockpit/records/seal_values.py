"""What a seal finds and how far it came, as values (SPEC A-7)."""

from __future__ import annotations

from cockpit.model.base import Frozen


class SealFacts(Frozen):
    """How things stand before a seal; ``trouble`` says what keeps it from being made.

    ``tag_at`` and ``branch_at`` are the commits that the tag and the branch stand on, ``None``
    when they do not exist; ``on_remote`` is ``None`` when the remote cannot be asked.
    """

    sha: str | None = None
    dirty: tuple[str, ...] = ()
    tag: str = ""
    branch: str = ""
    tag_at: str | None = None
    branch_at: str | None = None
    remote: str | None = None
    on_remote: bool | None = None
    trouble: str | None = None


class SealDone(Frozen):
    """How far sealing came. ``already`` tells that the tag stood there with this very content."""

    commit: str | None = None
    tag: str | None = None
    branch: str | None = None
    tagged: bool = False
    pushed: bool = False
    already: bool = False
    trouble: str | None = None
