"""What was done to a run, by whom, when, and how it ended. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.outcome import INTERRUPTED, NO_END_KNOWN, UNDER_WAY, Outcome, Records
from cockpit.model.wording import day_time, duration
from widgets.painting.line import ACCENT, DIM, STRONG, row, text, wrapped
from widgets.painting.steps import OUTCOMES

RUNNING: Final = {
    True: (f"● {UNDER_WAY}", ACCENT),
    False: (f"■ {INTERRUPTED}", "bold $critical"),
    None: (f"? {NO_END_KNOWN}", "bold $unknown"),
}


class Done(NamedTuple):
    """One action of the journal; ``outcome`` is ``None`` while nobody knows how it ended.

    ``at_it`` tells then whether whoever began it still does it (``None``: not known here).
    """

    run: str
    action: str
    by: str
    begun_at: float
    outcome: Outcome | None
    ended_at: float | None = None
    message: str = ""
    job_id: str | None = None
    records: Records = Records.KEPT
    at_it: bool | None = True


class Open(NamedTuple):
    """An action that nobody has ended: what is known, what was looked up, what is to decide."""

    done: Done
    known: str
    looked_up: str
    decide: str


def paint_done(done: Done, now: float, width: int, *, named: bool = False) -> list[Content]:
    """Return one action: its line, and its message below where there is one."""
    word, style = RUNNING[done.at_it] if done.outcome is None else OUTCOMES[done.outcome]
    mark, _, how = word.partition(" ")
    spent = None if done.ended_at is None else max(0.0, done.ended_at - done.begun_at)
    took = "" if spent is None else f"{duration(spent):>8}"
    what = f" {done.action} {done.run}" if named else f" {done.action}"
    job = f" · job {done.job_id}" if done.job_id else ""
    ended = done.outcome not in (None, Outcome.REFUSED)
    lacks = ended and done.records not in (Records.KEPT, Records.JOURNAL)
    unwritten = [(f" · {done.records.value}", "$attention")] if lacks else []
    left = text(
        (mark, style), (what, STRONG), (f" by {done.by} ", DIM), (how, style), (job, DIM),
        *unwritten,
    )  # fmt: skip
    when = text((day_time(done.begun_at, now), DIM), took)
    lines = [row(left, when, width)]
    lines += [text("  ", each) for each in wrapped(text((done.message, DIM)), width - 2, 3)]
    return lines


def paint_open(each: Open, now: float, width: int) -> list[Content]:
    """Return an interrupted action with what is known of it and what a person decides."""
    lines = [paint_done(each.done, now, width, named=True)[0]]
    for label, words, style in (
        ("known", each.known, ""),
        ("looked up", each.looked_up, ""),
        ("to decide", each.decide, STRONG),
    ):
        pieces = wrapped(text((words, style)), width - 13, 6)
        heads = [f"  {label:<11}", *[" " * 13] * (len(pieces) - 1)]
        lines += [
            text((head, DIM), piece)
            for head, piece in zip(heads[: len(pieces)], pieces, strict=True)
        ]
    return lines
