"""A run's goodput in words, the same on every screen, page and line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cockpit.model.goodput import Goodput, Restarts
from cockpit.model.wording import age, figure, share, steps, utc_minute

PARTS: Final = {
    "productive_s": "productive", "rework_s": "trained again", "spoilt_s": "NaN or inf loss",
    "stalled_s": "stalled or slow", "starting_s": "starting", "waiting_s": "in queue",
    "down_s": "down", "unwatched_s": "unwatched",
}  # fmt: skip
"""What the time went to, the best first."""


def headline(found: Goodput, since: str = "") -> str:
    """Return ``goodput 92.3 % of 3d 04h since 2026-03-11 08:41 UTC``; ``since`` in other words."""
    watched = found.split.wall_s - found.split.unwatched_s
    since = since or utc_minute(found.since)
    if found.share is None:
        why = found.share_why or f"nobody saw what the job did since {since}"
        return f"goodput unknown: {why}"
    rest = f", {took(found.split.unwatched_s)} unwatched" if found.split.unwatched_s >= 1 else ""
    return f"goodput {share(found.share)} of {took(watched)} since {since}{rest}"


def took(seconds: float) -> str:
    """Return a time in the steps of an age, so that it does not tick: ``<15s``, ``3d 04h``."""
    return "<15s" if seconds < 15 else age(seconds)


def parts(found: Goodput) -> Iterator[tuple[str, str, float]]:
    """Yield name, words and seconds of each part that is at least a second."""
    for name, words in PARTS.items():
        seconds = getattr(found.split, name)
        if seconds >= 1.0:
            yield name, f"{words} {took(seconds)}", seconds


def losses(found: Goodput) -> str:
    """Return restarts and by whom, steps lost, and accelerator-hours lost."""
    count = found.steps_lost
    lost = f"{steps(count)} step{'' if count == 1 else 's'} lost"
    if count is None:
        lost = "steps lost: unknown"
    hours = found.accelerator_hours_lost
    held = f"accelerator-hours lost: unknown ({found.accelerators_why})"
    if hours is not None:
        held = f"{figure(hours)} accelerator-hours lost ({found.accelerators} held)"
    return f"{restarts(found.restarts)} · {lost} · {held}"


def restarts(found: Restarts) -> str:
    """Return how often training began again, and by whom."""
    if not found.total:
        return "no restart"
    by = ((found.ours, "ours"), (found.requeues, "requeued"), (found.unknown, "unknown"))
    named = ", ".join(f"{count} {who}" for count, who in by if count)
    return f"{found.total} restart{'' if found.total == 1 else 's'} ({named})"


def sentences(found: Goodput) -> tuple[str, ...]:
    """Return it in four lines: the share, the parts, what was lost, on what evidence."""
    split = ", ".join(words for _, words, _ in parts(found))
    return (headline(found), split, losses(found), "; ".join(found.evidence))
