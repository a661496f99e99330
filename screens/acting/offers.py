"""Which actions a run is offered, why one is not, and the palette that lists them with all else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widgets import Input

from cockpit.actions.core.table import TABLE, ActionEntry, Param
from cockpit.model.lineage import names_checkpoint, newest_good
from cockpit.model.observed import Checkpoint, CheckpointState, Phase
from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import ago, glyph, size, steps
from cockpit.platforms.kinds import PLATFORMS
from screens.base import KeyedModal
from screens.dialog import RowKeys, TextLine
from screens.hotkeys import ACTIONS
from screens.keys import Keys
from widgets.painting.line import ACCENT, DIM, STRONG, chosen_row, fit, one_line, row, text
from widgets.painting.plan import Choice, FormField
from widgets.scrolled import Paged, Row, Sheet, remark

NAME: Final = 24
"""Columns that a name may take."""
NEXT: Final = "Next"
ACT: Final = "Act"
NOT_NOW: Final = "Not now"
RUNS: Final = "Runs"
SCREENS: Final = "Screens and keys"
SETTINGS: Final = "Settings"
GROUPS: Final = (NEXT, ACT, RUNS, SCREENS, NOT_NOW, SETTINGS)
"""In this order they are listed."""


@dataclass(frozen=True)
class Command:
    """Something to choose: ``call`` is the action to run, ``key`` its key if it has one.

    ``why_not`` is why it cannot be chosen now, ``note`` what speaks against it; ``verb`` is its
    name on the command line, by which it is found too. ``group`` is one of ``GROUPS``.
    """

    title: str
    help: str
    call: str
    key: str = ""
    why_not: str = ""
    note: str = ""
    verb: str = ""
    group: str = SCREENS

    @property
    def now(self) -> bool:
        """True if nothing is known that speaks against it."""
        return not (self.why_not or self.note)


def in_groups(commands: Sequence[Command]) -> list[Command]:
    """Return the commands by group, in their order: the first is the one to take."""
    return sorted(commands, key=lambda each: GROUPS.index(each.group))


def offered(offers: Sequence[Command], verb: str, said: str) -> list[Command]:
    """Return guarded actions in their groups: that of ``verb`` is next, because of what ``said``.

    One against which something speaks already is none for now, whoever advised it.
    """

    def grouped(each: Command) -> Command:
        if not each.now:
            return replace(each, group=NOT_NOW)
        is_next = each.verb == verb
        return replace(each, group=NEXT if is_next else ACT, help=is_next * said or each.help)

    return in_groups(list(map(grouped, offers)))


def commands_like(commands: Sequence[Command], words: str) -> list[Command]:
    """Return the commands that match, best first; all of them in their order for no words.

    What is named so comes before what is only described so, and what can be done now before
    what cannot: Enter takes the first.
    """
    wanted = words.strip()
    if not wanted:
        return list(commands)
    matcher, folded = Matcher(wanted), wanted.casefold()

    def rank(each: Command) -> tuple[int, bool, float]:
        title = each.title.casefold()
        begins = title.startswith(folded) or each.verb.startswith(folded)
        nearness = (begins, f" {folded}" in title, folded in title, True).index(True)
        return nearness, not each.now, -matcher.match(f"{each.title} {each.help} {each.verb}")

    return [each for score, each in sorted(((rank(each), each) for each in commands),
                                           key=lambda hit: hit[0]) if score[2] < 0]  # fmt: skip


def command_rows(commands: Sequence[Command], headed: bool) -> list[Row]:
    """Return a row for each command; with ``headed`` each group begins with its name."""
    widest = max((Content(each.title).cell_length for each in commands), default=8)
    rows, group = list[Row](), ""
    for place, each in enumerate(commands):
        if headed and each.group != group:
            group = each.group
            rows.append(remark(text((group, STRONG))))
        rows.append(Row(str(place), partial(paint_command, each, min(widest, NAME))))
    return rows


def paint_command(each: Command, name: int, width: int, chosen: bool) -> list[Content]:
    """Return a command's line, its name in at most ``name`` cells.

    Behind it stands why it cannot be chosen, else what speaks against it, else what it does.
    """
    name = min(name, width * 3 // 10)
    title = fit(text((each.title, "" if each.now else DIM)), name)
    key = text((each.key, ACCENT))
    mark = ("✗ " if each.why_not else "▲ " if each.note else "", "$attention")
    words = each.note if each.note and not each.why_not else (each.why_not or each.help, DIM)
    said = one_line(text(mark, words), max(8, width - name - 5 - key.cell_length))
    return [chosen_row(row(text(title, "  ", said), key, width - 2), width, chosen)]


class PaletteScreen(RowKeys, KeyedModal[str | None], inherit_bindings=False):
    """A list with a line to type in; returns the chosen command's call."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave"),
        Binding("down,ctrl+n", "move(1)", "down"),
        Binding("up,ctrl+p", "move(-1)", "up"),
        Binding("pagedown", "move(10)", "page down"),
        Binding("pageup", "move(-10)", "page up"),
    ]
    DEFAULT_CSS = """
    PaletteScreen { align: center top; background: transparent; }
    PaletteScreen Vertical {
        width: 108; max-width: 100%; height: 100%; max-height: 40; margin: 1 1 0 1;
        background: $background;
    }
    PaletteScreen Input, PaletteScreen Input:focus {
        height: 1; border: none; padding: 0 2; background: $background; color: $ink;
    }
    PaletteScreen Paged { background: $background; color: $ink; }
    """

    def __init__(self, commands: Sequence[Command], about: str = "") -> None:
        super().__init__()
        self._commands = self._listed = commands
        self._about = about
        self._found_by = ""

    def compose(self) -> ComposeResult:
        """Lay out the line to type in and what it finds."""
        with Vertical():
            line = TextLine()
            line.placeholder = "a few letters of what you want"
            yield line
            yield Paged(self._sheet())

    def rows(self) -> list[Row]:
        """Return what is found, by group as long as nothing is typed."""
        none = [remark(text(("no match", DIM)))]
        return command_rows(self._listed, not self._found_by.strip()) or none

    def show(self) -> None:
        """Show what is found."""
        if self.is_mounted:
            self.page.show(self._sheet())

    def _sheet(self) -> Sheet:
        about = f"{self._about} · " if self._about else ""
        note = text((f"{about}{len(self._listed):,} found · enter run · esc cancel", DIM))
        return Sheet(self.body(), text(("Commands and runs", STRONG)), note)

    @on(Input.Changed)
    def _typed(self) -> None:
        """Find what has the letters; once for the same letters, so that a choice stays."""
        letters = self.query_one(TextLine).value
        if letters != self._found_by:
            self._found_by, self.chosen = letters, ""
            self._listed = commands_like(self._commands, letters)
            self.show()
            self.page.move(-self.page.top)

    @on(Input.Submitted)
    def _chosen(self) -> None:
        self._typed()
        self.dismiss(self._listed[int(self.chosen)].call if self.chosen else None)

    def action_move(self, steps: int) -> None:
        """Choose another one."""
        self._typed()
        self.action_step(steps)

    def action_leave(self) -> None:
        """Leave without a choice."""
        self.dismiss(None)


VERB_KEYS: Final = {"log": "entry"}
"""The verbs whose key is named otherwise in the table of keys."""
IN_THE_PLAN: Final = ("save-first", "successors")
"""Options that the plan itself asks for."""
ONLY: Final = "only"
"""An option that is asked for where a launch has left something held."""
YES_NO: Final = {"move", "off"}
LABELS: Final = {
    "run-id": "new run id",
    "wandb-id": "new W&B id",
    "output-root": "new output root",
    "from": "from step",
    "to": "to step",
    "fork-wandb": "W&B fork step",
    "only": "what to stop",
    "move": "move aside",
    "job-id": "job",
    "off": "stop it",
}
"""What a field is called where its option's name alone does not say it."""
RECORDED: Final = {"entity", "project"}
"""Where to upload to: as the run file has it, in sight and to be changed."""
STEPS: Final = {"to", "from"}
ADVISED: Final = ("relaunch", "escalate", "seal", "stop", "rollback")
"""The verbs that a next action may begin with: its imperative is the verb's name."""
CALMEST_FIRST: Final = (
    "ack", "log", "autolog", "escalate", "handoff", "adopt", "hold", "release", "extend",
    "standing", "relaunch", "requeue", "stop", "rollback", "seal", "sync", "publish",
    "retain", "lineage", "launch", "teardown",
)  # fmt: skip
"""Order of the listed actions: first those that can be undone or only notify."""
NO_ASK: Final = {"relaunch", "launch", "seal", "teardown"}


def offers(report: RunReport | None, keys: Keys, reading_only: str) -> list[Command]:
    """Return every guarded action for a run; one that cannot be begun says why."""
    return [_offer(row, report, keys, reading_only) for row in TABLE]


def choices(report: RunReport | None, offered_here: Sequence[Command]) -> list[Command]:
    """Return the offers as the palette lists them: the next safe one first, then the calmest."""
    verb = "" if report is None else next_verb(report)
    said = report.next_action if report is not None and verb in ADVISED else ""
    ordered = sorted(offered_here, key=lambda each: CALMEST_FIRST.index(each.verb))
    return offered(ordered, verb, said)


def open_command(report: RunReport) -> Command:
    """Return the command that opens a run: how it is, and what to do next."""
    said = f"{glyph(report.verdict.value)} {report.verdict.value}: {report.next_action}"
    return Command(report.name, said, f"open_run:{report.name}", group=RUNS)


def key_of(verb: str) -> str:
    """Return under which id a verb stands in the table of keys, if it has a key."""
    return VERB_KEYS.get(verb, verb)


def _offer(row: ActionEntry, report: RunReport | None, keys: Keys, reading_only: str) -> Command:
    key = key_of(row.verb)
    known = any(each.id == key for each in ACTIONS)
    why = reading_only or why_not(row.verb, report)
    note = "" if why or report is None else warning(row.verb, report)
    shown = keys.shown(key) if known else ""
    return Command(row.title, row.help, f"act:{row.verb}", shown, why, note, row.verb)


ORDERS: Final = frozenset(verb for row in PLATFORMS.values() for verb in row.orders)
"""Verbs that only some schedulers know."""


NEEDS: Final = (
    (("teardown",), "teardown", "no [run.teardown] in cockpit.toml"),
    (("standing",), "standing", "no [run.standing] in cockpit.toml"),
    (("relaunch", "launch", "rollback", "lineage"), "resubmit",
     "no resubmit command in cockpit.toml"),
    (("rollback", "retain"), "checkpoints", "no checkpoints in cockpit.toml"),
)  # fmt: skip
"""What a verb needs of the run file: the verbs, the setting, and what is said without it."""


def why_not(verb: str, report: RunReport | None) -> str:
    """Return why an action makes no sense for a run, from its run file and its alerts alone.

    What depends on the world (does it run? may it be resumed?) is for the plan to say.
    """
    if report is None:
        return "no run is selected"
    spec = report.spec
    if verb in ("log", "autolog") and spec.records.logbook is None:
        return "no logbook in cockpit.toml (records.logbook)"
    kind = "?" if spec.job is None else spec.job.kind
    if verb in ORDERS and (kind not in PLATFORMS or verb not in PLATFORMS[kind].orders):
        return f"jobs of kind {kind} have no {verb}"
    missing = (text for verbs, key, text in NEEDS if verb in verbs and getattr(spec, key) is None)
    return next(missing, "")


def warning(verb: str, report: RunReport) -> str:
    """Return what the last look at the run already says against an action; the plan decides."""
    job = report.facets.job.value
    if job is None or job.phase is Phase.UNKNOWN:
        needs = verb in ("relaunch", "stop", "seal") or (verb == "launch" and job is not None)
        return "the job's state is unknown" if needs else ""
    state = job.state.upper()
    if verb == "launch" and report.facets.job.known:
        return f"already launched ({state})"
    healthy = report.verdict is Verdict.HEALTHY  # as the verdict calls it, and nothing else
    how = "running and healthy" if healthy else "running"
    how = "waiting to run" if job.phase is Phase.WAITING else how
    found = (
        (verb == "relaunch" and job.phase.lives and not report.alerts, f"{how} ({state})"),
        (verb == "stop" and job.phase.terminal, f"nothing is running ({state})"),
        (verb == "seal" and job.phase is not Phase.SUCCEEDED, f"not finished ({state})"),
        (verb == "ack" and not report.alerts and not job.phase.terminal, "nothing is open"),
    )
    return next((said for holds, said in found if holds), "")


def next_verb(report: RunReport) -> str:
    """Return the guarded action that the report's own next action begins with, else a safe one.

    What is to be looked at or repaired first is none: then its open alert can be acknowledged.
    """
    first = report.next_action.partition(" ")[0].rstrip(",;:")
    if first in ADVISED:
        return first
    waits = any(alert.acknowledged is None for alert in report.alerts)
    return "ack" if waits else ""


def fields_of(verb: str, report: RunReport) -> tuple[FormField, ...]:
    """Return what is asked for before a plan can be made; nothing for a verb that needs nothing."""
    row = next(each for each in TABLE if each.verb == verb)
    asked = [each for each in row.params if each.name not in IN_THE_PLAN]
    if verb in NO_ASK:
        asked = [each for each in asked if each.required]
    job = report.facets.job.value
    if job is None or not job.held:
        asked = [each for each in asked if each.name != ONLY]
    return tuple(_field(each, report) for each in asked)


def again_with(fields: Sequence[FormField], typed: Mapping[str, str]) -> tuple[FormField, ...]:
    """Return the fields with what was typed before; a choice that is gone is not made again."""
    return tuple(
        each._replace(value=typed[each.name])
        if each.name in typed
        and (not each.choices or typed[each.name] in {choice.value for choice in each.choices})
        else each
        for each in fields
    )


def _field(param: Param, report: RunReport) -> FormField:
    choices: tuple[Choice, ...] = ()
    value = ""
    if param.name in STEPS and "step" in param.help:
        choices = _checkpoints(report)
        # The newest complete step that is not suspect; where all are, the least spoilt
        found = report.facets.checkpoints.value
        items = [] if found is None else [item for item in found.items if item.step is not None]
        good = newest_good(items)
        whole = [item.step for item in items if item.complete and item.step is not None]
        value = str(good.step) if good is not None else str(min(whole)) if whole else ""
    elif param.name == ONLY:
        choices = (Choice("", "the run's job"), Choice("held", "what is held"))
    elif param.name in RECORDED and report.spec.wandb is not None:
        value = getattr(report.spec.wandb.recorded, param.name) or ""
    elif param.name == "job-id":
        job = report.facets.job.value
        beside = () if job is None else (*job.rivals, *job.possible)
        value = beside[0].id if len(beside) == 1 else ""
    elif param.name in YES_NO:
        choices = (Choice("no", "no"), Choice("yes", "yes"))
        given = param.name == "off" or names_checkpoint(report.spec)
        value = "no" if given else "yes"
    may_be_path = param.name in STEPS and not choices
    label = LABELS.get(param.name, param.name.replace("-", " "))
    label = param.name if may_be_path else label
    return FormField(param.name, label, param.help, param.required, choices, value)


def heading(verb: str, run: str) -> str:
    """Return what the form and the plan of a verb are titled by: ``rollback toy``."""
    return f"{verb} {run}" + (": delete old checkpoints" if verb == "retain" else "")


def _checkpoints(report: RunReport) -> tuple[Choice, ...]:
    """Return the complete checkpoints, newest first; nothing if they are not known."""
    found = report.facets.checkpoints.value
    known = [
        each
        for each in (() if found is None else found.items)
        if each.state is CheckpointState.COMPLETE and each.step is not None
    ]
    known.sort(key=lambda each: each.step or 0, reverse=True)
    widest = max((len(steps(each.step)) for each in known), default=0)
    return tuple(_choice(each, report.checked_at, widest) for each in known)


def _choice(each: Checkpoint, now: float, width: int) -> Choice:
    kind = {True: "permanent", False: "temporary", None: ""}[each.permanent]
    saved = ago(None if each.saved_at is None else now - each.saved_at)
    doubt = f"{glyph('suspect')} suspect: {each.suspect}" if each.suspect is not None else ""
    notes: Sequence[str] = [note for note in (size(each.size), saved, doubt, kind) if note]
    return Choice(str(each.step), f"{steps(each.step):>{width}}", " · ".join(notes))
