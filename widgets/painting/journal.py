"""What was done and what happened: steps of an action, the journal, the moments of a past."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.acts import INTERRUPTED, NO_END_KNOWN, UNDER_WAY, Outcome, Records, means
from cockpit.model.goodput import UNSEEN, WORST_LAST
from cockpit.model.history import Happening, Kind, Moment, Sign, Then
from cockpit.model.plan import Plan, Result, StepResult, StepState
from cockpit.model.wording import (
    age,
    clock_time,
    day_time,
    duration,
    glyph,
    lasting,
    steps,
    zone_name,
)
from widgets.painting.facts import VERDICT_MARKS
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    beside,
    cut,
    fit,
    placed,
    row,
    text,
    unbroken,
    within,
    wrapped,
)

LEAST_FOLDER: Final = 12
"""Characters from which a folder is worth a shorter name."""
_STATES: Final = {
    StepState.BEGUN: ("● running", ACCENT),
    StepState.DONE: ("✓ done", "$well"),
    StepState.SKIPPED: ("· skipped", DIM),
    StepState.FAILED: ("✗ FAILED", "bold $critical"),
    StepState.UNKNOWN: ("? UNKNOWN", "bold $unknown"),
}
OUTCOMES: Final = {
    Outcome.DONE: ("✓ DONE", "bold $well"),
    Outcome.REFUSED: ("■ REFUSED", "bold $attention"),
    Outcome.UNKNOWN: ("? UNKNOWN", "bold $unknown"),
    Outcome.FAILED: ("✗ FAILED", "bold $critical"),
}
STATE: Final = 11
STEP_WORDS: Final = {
    "ack": "acknowledge",
    "allow": "store the consent",
    "adopt": "take it over",
    "checkpoint": "check the checkpoint",
    "confirm": "confirm the outcome",
    "create-issue": "create the issue",
    "delete": "delete",
    "end": "record the end",
    "evidence": "archive logs",
    "failure": "record the failure",
    "follow": "plan the first check",
    "instance": "record the job",
    "intent": "write to logbook",
    "issue": "comment on the issue",
    "log": "logbook entry",
    "log-trouble": "log what went wrong",
    "mark": "mark as rejected",
    "move": "move aside",
    "notify": "notify",
    "order": "ask the scheduler",
    "reach": "reach somebody",
    "record-launch": "record the launch",
    "reject": "record as rejected",
    "run-log": "update the run log",
    "save": "save a checkpoint",
    "seal": "seal",
    "state-file": "tell the monitor",
    "stop": "stop the job",
    "submit": "submit the job",
    "sync": "sync to W&B",
    "teardown": "tear down",
    "training-log": "write training log",
    "transfer": "transfer ownership",
    "verify": "check the result",
}
"""What a step does, for a person; journals, ``--json`` and recovery keep its name."""


class Short:
    """Writes ``…`` for one folder: ``…/checkpoints/step-28``; a short one is left as it is."""

    def __init__(self, folder: str | None = None) -> None:
        whole = (folder or "").rstrip("/")
        self.folder = whole if len(whole) >= LEAST_FOLDER else ""

    def __call__(self, words: str) -> str:
        """Return the words with every path below the folder shortened."""
        return words.replace(f"{self.folder}/", "…/") if self.folder else words

    def shortens(self, plan: Plan) -> bool:
        """Return whether the plan's page has more than one path to shorten."""
        return bool(self.folder) and "\n".join(_texts(plan)).count(f"{self.folder}/") > 1


def _texts(plan: Plan) -> Iterable[str]:
    picks = [each for each in (plan.checkpoint, plan.trainer_would_load) if each is not None]
    yield from (each.path for each in picks)
    yield from (each.path for each in (*plan.targets, *plan.keeps))
    yield from (check.text for check in plan.checks)
    yield from (each.would_run or "" for each in plan.differences)


class ActionProgress(NamedTuple):
    """An action under way or over: ``follows`` is what comes next by itself.

    Paths below ``root`` are shortened: the plan had it in full.
    """

    steps: Sequence[StepResult]
    result: Result | None
    follows: str = ""
    root: str | None = None


def paint_steps(progress: ActionProgress, width: int) -> list[Content]:
    """Return the outcome if there is one, then every step with its note."""
    result = progress.result
    steps = result.steps if result is not None and result.steps else progress.steps
    steps = [step for step in steps if step.state is not StepState.SKIPPED]
    lines = [] if result is None else [*_outcome(result, progress.follows, width), EMPTY]
    if not steps and result is None:
        lines.append(text(("● ", ACCENT), "checking again that nothing has changed"))
    names = [STEP_WORDS.get(step.name, step.name) for step in steps]
    widest, short = min(max(map(len, names), default=4), 20), Short(progress.root)
    for step, name in zip(steps, names, strict=True):
        lines += _step(step, fit(Content(name), widest), width, short)
    return within(lines, width)


def _step(step: StepResult, name: Content, width: int, short: Short) -> list[Content]:
    """Return a step's line; a note that does not fit on it stands below, no path broken in two."""
    word, style = _STATES[step.state]
    line = text(
        fit(text((word, style)), STATE), name, "  ", (clock_time(step.at, seconds=True), DIM), "  "
    )
    strong = STRONG if step.state in (StepState.FAILED, StepState.UNKNOWN) else ""
    note = text((short(step.note or ""), strong))
    if line.cell_length + note.cell_length <= width and "\n" not in note.plain:
        return [text(line, note)]
    room = max(12, width - STATE)
    return [line, *(text(" " * STATE, each) for each in unbroken(note, room, 20))]


def _outcome(result: Result, follows: str, width: int) -> list[Content]:
    word, style = OUTCOMES[result.outcome]
    lines = [text((word, style), outcome_words(result))]
    said = means(result.outcome)
    lines += [text((said, STRONG))] if said else []
    lines += wrapped(Content(result.message), width, 20)
    if not result.written.whole and result.outcome is not Outcome.REFUSED:
        lines += wrapped(text((f"▲ {result.text}", "bold $attention")), width, 2)
    lines += wrapped(text(("→ ", ACCENT), follows), width, 3) if follows else []
    return lines


def outcome_words(result: Result) -> str:
    """Return the ids that came of it and whether it is recorded: `` · job 17 · recorded``."""
    parts = [f"job {result.job_id}"] if result.job_id else []
    parts += [result.launch_id] if result.launch_id else []
    if result.outcome is Outcome.DONE:
        parts.append(result.written.value)
    return "".join(f" · {part}" for part in parts)


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
        lines += beside(f"  {label}", text((words, style)), 13, width, 6)
    return lines


DAY: Final = 86400.0
HELD: Final = 5400.0
"""Seconds for which a kept moment stands for the time after it: one an hour is kept."""
LEAST_BAND: Final = 16
"""Cells below which no strip is drawn."""
SIGNS: Final = {
    Sign.CRITICAL: (glyph("critical"), "$critical"),
    Sign.ATTENTION: (glyph("attention"), "$attention"),
    Sign.GOOD: (glyph("complete"), "$well"),
    Sign.UNKNOWN: (glyph("unknown"), "bold $unknown"),
    Sign.PLAIN: (glyph("info"), DIM),
}
WORDS: Final = {
    Kind.ALERT: "alert", Kind.ACTION: "action", Kind.JOB: "job", Kind.CHECKPOINT: "checkpoint",
    Kind.ENTRY: "log entry", Kind.HANDOFF: "handoff",
}  # fmt: skip
KIND_FROM: Final = 70
"""Columns from which each event shows its kind."""


def when_width(found: Sequence[Happening], now: float) -> int:
    """Return the cells of the longest of their times."""
    return max((len(day_time(each.at, now)) for each in found), default=0)


def paint_happening(
    each: Happening, now: float, width: int, when: int, *, named: bool = True
) -> Content:
    """Return one happening: its time in ``when`` cells, what, at the right its kind."""
    mark, style = SIGNS[each.sign]
    stamp = text((f"{day_time(each.at, now):>{when}}", DIM))
    ink = "" if each.sign is not Sign.PLAIN else DIM
    note = text((f"  {each.note}", DIM)) if each.note else EMPTY
    kind = WORDS[each.kind] if named and width >= KIND_FROM else ""
    right = text((kind, DIM))
    left = text(stamp, " ", (f"{mark} ", style), (each.text, ink), note)
    return row(placed(left, width - right.cell_length - 1), right, width)


def paint_band(found: Then | None, at: float, now: float, width: int, why: str = "") -> Content:
    """Return the band across the head: that this is the past, which moment, and how it is known.

    ``why`` says that nothing can be read; the band fills the whole width.
    """
    when = f"{day_time(at, now)}{clock_time(at, seconds=True)[5:]} {zone_name(at)}"
    head = f" PAST  {when}" + (f"  {age(now - at)} ago" if now - at >= 15 else "")
    left = cut(text((f"{head}  ", "bold"), why or _known(found, at)), max(0, width - 20))
    right = text(("esc returns to now ", "bold"))
    return fit(row(left, right, width), width).stylize("reverse $attention")


def _known(found: Then | None, at: float) -> str:
    """Return how the moment is known: kept when, or what of it is not."""
    if found is None:
        return "reading the store"
    if found.report is None:
        return "not known"
    if not found.watched or found.recorded_at is None:
        return found.lacks[0] if found.lacks else ""
    late = at - found.recorded_at
    if late < 1:
        return "as recorded then"
    seen, said = found.seen, f"as recorded {lasting(late)} before"
    if seen is None or seen.step is None or seen.at <= found.recorded_at:
        return said
    return f"{said}; step {steps(seen.step)} at {clock_time(seen.at, seconds=True)}"


def paint_strip(moments: Sequence[Moment], at: float, now: float, width: int) -> Content:
    """Return how the run was over the time around ``at``, which is marked; newest at the right.

    At most a day is shown: the last one, or half a day on either side of ``at``. A cell shows the
    worst that held in it, a dot that nothing is kept of it: nobody watched.
    """
    begin, end = extent(moments, at, now)
    until = f"now {clock_time(end)}" if end >= now else day_time(end, now)
    first, last = text((f" {day_time(begin, now)} ", DIM)), text((f" {until} ", DIM))
    across = width - first.cell_length - last.cell_length
    if across < LEAST_BAND:
        return EMPTY
    times = [each.at for each in moments]
    every = (end - begin) / across
    here = min(across - 1, max(0, int((at - begin) / every)))
    cells = [_cell(moments, times, begin + place * every, every) for place in range(across)]
    shown = [text(VERDICT_MARKS[cell][:2]) for cell in cells]
    shown[here] = text((VERDICT_MARKS[cells[here]][0], f"reverse bold {ACCENT}"))
    return text(first, *shown, last)


def extent(moments: Sequence[Moment], at: float, now: float) -> tuple[float, float]:
    """Return the begin and the end of what a strip shows around ``at``."""
    begin = min(at, moments[0].at) if moments else at - DAY / 2
    end = max(now, at, begin + 60)
    if end - begin <= DAY:
        return begin, end
    if end - at <= DAY / 2:
        return end - DAY, end
    begin = max(begin, at - DAY / 2)
    return begin, begin + DAY


def _cell(moments: Sequence[Moment], times: Sequence[float], begin: float, every: float) -> str:
    """Return the letter of the worst verdict that was kept in a cell, or held since before."""
    first, past = bisect_left(times, begin), bisect_right(times, begin + every)
    if first and begin - times[first - 1] <= HELD:
        first -= 1
    letters = (each.verdict.value[0] for each in moments[first:past])
    return max(letters, key=WORST_LAST.index, default=UNSEEN)
