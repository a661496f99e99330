"""The steps of an action as they tick off, how it ended, and paths in short. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.outcome import means
from cockpit.model.plan import Outcome, Plan, Result, StepResult, StepState
from cockpit.model.wording import clock_time
from widgets.painting.fitting import unbroken
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, fit, text, within, wrapped

LEAST: Final = 12
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
    "allow": "keep the consent",
    "adopt": "take it over",
    "checkpoint": "check the checkpoint",
    "confirm": "confirm the outcome",
    "create-issue": "create the issue",
    "delete": "delete",
    "end": "take note of the end",
    "evidence": "keep the evidence",
    "failure": "record the failure",
    "follow": "plan the first check",
    "instance": "record the job",
    "intent": "announce it",
    "issue": "comment on the issue",
    "log": "logbook entry",
    "log-trouble": "log the trouble",
    "mark": "mark as rejected",
    "move": "move aside",
    "notify": "notify",
    "reach": "somebody is told",
    "record-launch": "record the launch",
    "reject": "remember as rejected",
    "run-log": "update the run log",
    "save": "save a checkpoint",
    "seal": "seal",
    "state-file": "tell the monitor",
    "stop": "stop the job",
    "submit": "submit the job",
    "sync": "sync to W&B",
    "teardown": "tear down",
    "training-log": "write training log",
    "transfer": "hand over",
    "verify": "check the result",
}
"""What a step does, for a person; journals, ``--json`` and recovery keep its name."""


class Short:
    """Writes ``…`` for one folder: ``…/checkpoints/step-28``; a short one is left as it is."""

    def __init__(self, folder: str | None = None) -> None:
        whole = (folder or "").rstrip("/")
        self.folder = whole if len(whole) >= LEAST else ""

    def __call__(self, words: str) -> str:
        """Return the words with every path below the folder shortened."""
        return words.replace(f"{self.folder}/", "…/") if self.folder else words

    def shortens(self, plan: Plan) -> bool:
        """Return whether the plan's page has more than one path to shorten."""
        text = "\n".join(_texts(plan)) if self.folder else ""
        return text.count(f"{self.folder}/") > 1 if self.folder else False


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
    lines = [] if result is None else [*_outcome(result, progress.follows, width), EMPTY]
    if not steps and result is None:
        lines.append(text(("● ", ACCENT), "checking again that nothing has changed"))
    widest = min(max((len(_named(step)) for step in steps), default=4), 20)
    short = Short(progress.root)
    for step in steps:
        lines += _step(step, widest, width, short)
    return within(lines, width)


def _named(step: StepResult) -> str:
    return STEP_WORDS.get(step.name, step.name)


def _step(step: StepResult, widest: int, width: int, short: Short) -> list[Content]:
    """Return a step's line; a note that does not fit on it stands below, no path broken in two."""
    word, style = _STATES[step.state]
    line = text(
        fit(text((word, style)), STATE), fit(Content(_named(step)), widest), "  ",
        (clock_time(step.at, seconds=True), DIM), "  ",
    )  # fmt: skip
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
