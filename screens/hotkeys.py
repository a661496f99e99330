"""The table of keys: footer, help, palette, README and ``[keys]`` are made from it.

Only plain letters, signs, ctrl+letter, F-keys, Enter, Esc, Tab and the cursor keys are used:
nothing else arrives through every terminal and multiplexer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WHERES: Final = {
    "everywhere": "Everywhere",
    "fleet": "Fleet",
    "run": "Run",
    "log": "Run · log",
    "charts": "Run · charts",
    "act": "On the selected run",
    "plan": "Plan of an action",
    "form": "Form",
    "ack": "Acknowledge",
    "entry": "Logbook entry",
    "page": "Page",
    "journal": "Journal",
    "leaving": "Leaving in the middle",
    "welcome": "Welcome",
}
"""Scopes, in the order of the help screen: their titles."""


@dataclass(frozen=True)
class Hotkey:
    """Something a key does. ``keys`` are separated by blanks; ``footer`` names it in the footer.

    ``call`` is the Textual action that it runs, where that is not named like the ``id``.
    ``writes``: pressing it changes something outside the screen, at once.
    """

    id: str
    keys: str
    title: str
    help: str
    where: str
    footer: bool = False
    palette: bool = True
    call: str = ""
    writes: bool = False

    @property
    def run(self) -> str:
        """What Textual runs: ``step(1)``."""
        return self.call or self.id


ACTIONS: Final = (
    Hotkey("open", "enter", "open", "open the selected run", "fleet", footer=True),
    Hotkey("filter", "/", "filter", "show only runs whose name, state or alert has these words",
           "fleet", footer=True),
    Hotkey("sort", "s", "sort", "sort by need, name, run file or time left, in turn", "fleet",
           footer=True),
    Hotkey("clear", "escape", "clear filter", "show all runs again", "fleet"),
    Hotkey("down", "down j", "down", "select the run below", "fleet", palette=False, call="row(1)"),
    Hotkey("up", "up k", "up", "select the run above", "fleet", palette=False, call="row(-1)"),
    Hotkey("right", "right l", "right", "select the run to the right", "fleet", palette=False,
           call="step(1)"),
    Hotkey("left", "left h", "left", "select the run to the left", "fleet", palette=False,
           call="step(-1)"),
    Hotkey("page_down", "pagedown ctrl+d", "page down", "a page of runs down", "fleet",
           palette=False, call="turn(1)"),
    Hotkey("page_up", "pageup ctrl+u", "page up", "a page of runs up", "fleet", palette=False,
           call="turn(-1)"),
    Hotkey("first", "home g", "first", "select the first run", "fleet", palette=False,
           call="edge(False)"),
    Hotkey("last", "end G", "last", "select the last run", "fleet", palette=False,
           call="edge(True)"),
    Hotkey("tab_log", "1", "log", "the job log", "run", call="tab('log')"),
    Hotkey("tab_charts", "2", "charts", "the loss over the whole run", "run", call="tab('charts')"),
    Hotkey("tab_checkpoints", "3", "checkpoints", "all checkpoints, and which one is taken",
           "run", call="tab('checkpoints')"),
    Hotkey("tab_facets", "4", "sources", "every source: its value, its age, its error", "run",
           call="tab('facets')"),
    Hotkey("tab_timeline", "5", "alerts", "open and closed alerts, and what was done", "run",
           call="tab('timeline')"),
    Hotkey("tab_logbook", "6", "logbook", "the run's logbook, as it stands in its file", "run",
           call="tab('logbook')"),
    Hotkey("next_tab", "tab", "next tab", "the tab to the right", "run", palette=False),
    Hotkey("next_run", "]", "next run", "the next run of the fleet", "run", call="other_run(1)"),
    Hotkey("former_run", "[", "previous run", "the previous run of the fleet", "run",
           call="other_run(-1)"),
    Hotkey("scroll_down", "down j", "down", "a line down", "run", palette=False, call="step(1)"),
    Hotkey("scroll_up", "up k", "up", "a line up", "run", palette=False, call="step(-1)"),
    Hotkey("scroll_page_down", "pagedown ctrl+d", "page down", "a page down", "run",
           palette=False, call="turn(1)"),
    Hotkey("scroll_page_up", "pageup ctrl+u", "page up", "a page up", "run", palette=False,
           call="turn(-1)"),
    Hotkey("scroll_home", "home g", "to the start", "to the first line", "run", palette=False,
           call="edge(False)"),
    Hotkey("scroll_end", "end G", "to the end", "to the last line", "run", palette=False,
           call="edge(True)"),
    Hotkey("jump", "enter", "evidence", "go to an alert's evidence in the log, each in turn",
           "run", footer=True),
    Hotkey("back", "escape", "back", "back to the fleet", "run", footer=True),
    Hotkey("follow", "f space", "follow / pause", "follow the log / pause", "log",
           footer=True),
    Hotkey("search", "/", "search", "search the log, for words or a /regular expression/",
           "log", footer=True, call="ask('search')"),
    Hotkey("next_match", "n", "next match", "the next match below", "log", call="match(False)"),
    Hotkey("former_match", "N", "previous match", "the previous match, above", "log",
           call="match(True)"),
    Hotkey("sift", "L", "errors only", "only warnings and errors, or all lines again", "log",
           footer=True),
    Hotkey("this_job", "i", "this job", "only the present job's lines, or all again", "log"),
    Hotkey("wrap", "w", "wrap", "wrap long lines, or cut them", "log"),
    Hotkey("goto", "T", "go to", "go to a step, a time, a line or a share of the log", "log",
           call="ask('goto')"),
    Hotkey("bookmark", "M", "bookmark", "keep the line at the cursor, or forget it", "log"),
    Hotkey("next_bookmark", "'", "next bookmark", "the next bookmark; the alerts tab lists them",
           "log"),
    Hotkey("save_log", "s", "save log", "save the whole log as it is shown to a file", "log",
           call="ask('save')"),
    Hotkey("save_shown", "D", "save screen", "save the log's lines on the screen to a file", "log",
           call="ask('save_shown')"),
    Hotkey("pager", "v", "pager", "the log's lines around here in $PAGER", "log"),
    Hotkey("log_right", "right", "right", "scroll right", "log",
           palette=False, call="sideways(1)"),
    Hotkey("log_left", "left", "left", "scroll left", "log", palette=False,
           call="sideways(-1)"),
    Hotkey("log_axis", "l", "log axis", "a logarithmic or a linear axis", "charts", footer=True),
    Hotkey("zoom", "z", "zoom", "the whole run, its last quarter, its last twentieth", "charts",
           footer=True),
    Hotkey("relaunch", "r", "relaunch", "stop what is left, resubmit the lineage: shows a plan",
           "act", footer=True, palette=False, call="act('relaunch')"),
    Hotkey("entry", "e", "log entry", "write into the run's logbook, prefilled; saved and pushed",
           "act", footer=True, palette=False, call="act('log')"),
    Hotkey("handoff", "H", "handoff", "hand the run to somebody by name: shows a plan", "act",
           footer=True, palette=False, call="act('handoff')"),
    Hotkey("stop", "x", "stop", "stop the run's job, gracefully first: shows a plan", "act",
           palette=False, call="act('stop')"),
    Hotkey("rollback", "b", "roll back", "go back to an older checkpoint: shows a plan", "act",
           palette=False, call="act('rollback')"),
    Hotkey("ack", "A", "acknowledge", "take an alert: until when, and why; can be undone", "act",
           palette=False, call="act('ack')"),
    Hotkey("escalate", "E", "escalate", "to the DRI, with the evidence: shows a plan", "act",
           palette=False, call="act('escalate')"),
    Hotkey("seal", "Z", "seal", "verify and close a finished run: shows a plan", "act",
           palette=False, call="act('seal')"),
    Hotkey("page", "p", "handoff page", "one page about the run, to share or to copy", "act"),
    Hotkey("backtest", "B", "backtest",
           "which alerts the run's past would have raised, and when", "act"),
    Hotkey("journal", "J", "journal", "what was done to the runs, and what was interrupted",
           "act"),
    Hotkey("plan_confirm", "enter", "act", "act, once the words stand there; later: close", "plan",
           palette=False, writes=True),
    Hotkey("plan_leave", "escape", "leave", "leave; what has begun goes on, else nothing is done",
           "plan", palette=False),
    Hotkey("plan_approve", "f2", "approve", "let a block pass, by name and with a reason", "plan",
           palette=False),
    Hotkey("plan_save_first", "f3", "save first", "ask the trainer for a checkpoint first, or not",
           "plan", palette=False),
    Hotkey("plan_successors", "f4", "successors",
           "cancel what would start by itself after the job too, or not", "plan", palette=False),
    Hotkey("plan_down", "down", "down", "a line down", "plan", palette=False, call="step(1)"),
    Hotkey("plan_up", "up", "up", "a line up", "plan", palette=False, call="step(-1)"),
    Hotkey("plan_page_down", "pagedown ctrl+d", "page down", "a page down", "plan",
           palette=False, call="turn(1)"),
    Hotkey("plan_page_up", "pageup ctrl+u", "page up", "a page up", "plan", palette=False,
           call="turn(-1)"),
    Hotkey("form_accept", "enter", "go on", "go on, once everything required is there", "form",
           palette=False),
    Hotkey("form_leave", "escape", "leave", "leave, nothing done", "form", palette=False),
    Hotkey("form_next", "tab", "next", "the next field", "form", palette=False, call="step(1)"),
    Hotkey("form_former", "shift+tab", "former", "the field before", "form", palette=False,
           call="step(-1)"),
    Hotkey("form_down", "down", "down", "the next choice of a list, else the next field", "form",
           palette=False, call="pick(1)"),
    Hotkey("form_up", "up", "up", "the choice before, else the field before", "form",
           palette=False, call="pick(-1)"),
    Hotkey("ack_take", "enter", "take", "take the selected alert", "ack", palette=False,
           writes=True),
    Hotkey("ack_undo", "u", "undo", "let the alert ring again", "ack", palette=False, writes=True),
    Hotkey("ack_leave", "escape", "leave", "leave; what was taken stays taken", "ack",
           palette=False),
    Hotkey("ack_down", "down", "down", "the next alert", "ack", palette=False, call="step(1)"),
    Hotkey("ack_up", "up", "up", "the alert before", "ack", palette=False, call="step(-1)"),
    Hotkey("ack_longer", "right tab", "longer", "quiet for longer: 15m, 1h, 8h, until it closes",
           "ack", palette=False, call="quiet(1)"),
    Hotkey("ack_shorter", "left", "shorter", "quiet for less long", "ack", palette=False,
           call="quiet(-1)"),
    Hotkey("ack_why", "w", "why", "say why", "ack", palette=False),
    Hotkey("entry_save", "ctrl+s", "save", "save, commit and push this entry", "entry",
           footer=True, palette=False, writes=True),
    Hotkey("entry_retry", "ctrl+r", "retry", "push again what could not be pushed", "entry",
           footer=True, palette=False, writes=True),
    Hotkey("entry_leave", "escape", "keep draft", "leave; what is not saved stays as a draft",
           "entry", footer=True, palette=False),
    Hotkey("sheet_copy", "y", "copy", "copy the whole page", "page", footer=True, palette=False),
    Hotkey("sheet_back", "escape q", "back", "back to where you were", "page", footer=True,
           palette=False),
    Hotkey("sheet_down", "down j", "down", "a line down", "page", palette=False, call="step(1)"),
    Hotkey("sheet_up", "up k", "up", "a line up", "page", palette=False, call="step(-1)"),
    Hotkey("sheet_next", "pagedown space ctrl+d", "page down", "a page down", "page",
           palette=False, call="turn(1)"),
    Hotkey("sheet_former", "pageup ctrl+u", "page up", "a page up", "page", palette=False,
           call="turn(-1)"),
    Hotkey("settle", "S", "settle", "look up and write down how the interrupted action ended",
           "journal", footer=True, palette=False, writes=True),
    Hotkey("journal_open", "enter", "open the run", "open the run of the selected action",
           "journal", footer=True, palette=False),
    Hotkey("journal_back", "escape q", "back", "back to where you were", "journal", footer=True,
           palette=False),
    Hotkey("journal_down", "down j", "down", "the next action", "journal", palette=False,
           call="step(1)"),
    Hotkey("journal_up", "up k", "up", "the action before", "journal", palette=False,
           call="step(-1)"),
    Hotkey("journal_next", "pagedown ctrl+d", "page down", "a page down", "journal",
           palette=False, call="turn(1)"),
    Hotkey("journal_former", "pageup ctrl+u", "page up", "a page up", "journal", palette=False,
           call="turn(-1)"),
    Hotkey("leave_now", "q ctrl+q", "leave now", "leave; the journal tells how far it came",
           "leaving", palette=False, writes=True),
    Hotkey("leave_not", "escape", "stay", "stay until the action has ended", "leaving",
           palette=False),
    Hotkey("demo", "d", "demo", "leave, and start the demo: seven real small runs", "welcome",
           footer=True),
    Hotkey("check", "c", "check now", "look at every source again, now", "everywhere"),
    Hotkey("copy", "y", "copy", "copy what identifies the run: name, job, W&B, next action",
           "everywhere"),
    Hotkey("theme", "t", "theme", "dark or light", "everywhere"),
    Hotkey("palette", ": ctrl+p", "palette", "find a command or a run by name", "everywhere",
           footer=True, palette=False),
    Hotkey("help", "? f1", "keys", "all keys that work here", "everywhere", footer=True),
    Hotkey("quit", "q ctrl+q", "quit", "leave the cockpit; no run is touched", "everywhere",
           footer=True),
    Hotkey("interrupt", "ctrl+c", "interrupt", "leave at once, with exit status 130",
           "everywhere", palette=False, call="quit(130)"),
)  # fmt: skip
BY_ID: Final = {action.id: action for action in ACTIONS}
TOGETHER: Final = (
    {"run", "log", "charts", "act", "everywhere"},
    {"fleet", "act", "everywhere"},
    {"welcome", "everywhere"},
    {"entry"},
    {"page"},
    {"journal", "act"},
    {"plan"},
    {"form"},
    {"ack"},
    {"leaving"},
)
"""Scopes whose keys work at the same time, so that none may mean two things."""


ARMED: Final = ("plan", "ack", "leaving")
"""Scopes whose screens take nothing that was pressed before they could be read."""
