"""What a team adds to the rules in its run file: signatures of lines (SPEC T)."""

import re
from typing import Final, Literal

from pydantic import Field

from cockpit.model.base import Frozen

OwnCause = Literal[
    "preempted", "walltime", "node_death", "hbm_exhausted", "oom_host", "oom_device", "disk_full",
    "hardware_fault", "bad_node", "numeric_instability", "distributed_hang", "user_stopped",
    "capacity_wait", "network_transient", "tracker_error", "data_error", "small_code_bug",
    "complex_code_bug",
]  # fmt: skip
"""A class of SPEC T that a line of a log can show."""
OwnSpeaker = Literal[
    "scheduler", "kernel", "launcher", "exception", "runtime-error", "runtime-warning", "metrics",
    "configuration", "help", "prose",
]  # fmt: skip


class SignatureSpec(Frozen):
    """``[[run.signature]]``: what a line of your own systems means (SPEC T)."""

    cause: OwnCause = Field(alias="class")
    """The class that such a line shows."""
    pattern: str
    """A regular expression of the line; capitals do not count."""
    examples: tuple[str, ...]
    """Lines that it must find, copied from a real log; at least one."""
    others: tuple[str, ...] = ()
    """Lines that look like it and that it must not find."""
    speaker: OwnSpeaker | None = None
    """Who writes such lines, where no other's count: prose too; default: whoever tells what
    happens."""


_ANYTHING_BEFORE: Final = re.compile(r"^\^?\.\*(?![+?])")


def expression(pattern: str) -> str:
    """Return a pattern that is looked for anywhere in a line: ``.*`` at its beginning is dear."""
    return _ANYTHING_BEFORE.sub("", pattern) or pattern
