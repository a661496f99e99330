"""Jobs of ours that are held and were never let go: what a launch has left, or has in hand.

Such a job never starts by itself, so the late answer of a controller starts nothing (SPEC A).
"""

from __future__ import annotations

from typing import Final

from cockpit.platforms.slurm.record import Record

_BY_US: Final = "JobHeldUser"


def never_let_go(record: Record) -> bool:
    """Tell whether a job waits held since it was submitted, or was cancelled while it did.

    Slurm gives it no time from which on it could run (one with a begin time has it all along).
    A job that was let go and is held again by a person has one.
    """
    if record.said_by != "scontrol" or record.restarts:
        return False
    if record.word not in ("PENDING", "CANCELLED"):
        return False
    return record.reason == _BY_US and record.eligible is None


def is_held(record: Record) -> bool:
    """Tell whether a job waits held, by whomever."""
    return record.word == "PENDING" and record.reason.startswith("JobHeld")


def never_began(record: Record) -> bool:
    """Tell whether a job ended without having been on a machine."""
    return record.phase.terminal and not record.node
