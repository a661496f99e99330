"""The table of keys: footer, help, palette, docs/keys.md and ``[keys]`` are made from it.

Only plain letters, signs, ctrl+letter, F-keys, Enter, Esc, Tab and the cursor keys are used:
nothing else arrives through every terminal and multiplexer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    "points": "Open points",
    "journal": "Journal",
    "past": "Past of a run",
    "happened": "Past of the fleet",
    "copying": "Copy",
    "list": "Lists and pages",
    "help": "Keys",
    "leaving": "Leaving in the middle",
    "welcome": "Welcome",
}
"""Scopes, in the order of the help screen: their titles."""


@dataclass(frozen=True)
class Hotkey:
    """Something a key does. ``keys`` are separated by blanks; ``footer`` names it in the footer.

    ``call`` is the Textual action that it runs, where that is not named like the ``id``.
    ``looks``: it changes only what is on the screen; a browser may press it (``cockpit serve``).
    ``writes``: pressing it changes something outside the screen, at once. Guarded actions and the
    keys of dialogs are never in the palette; ``palette=False`` keeps another key out.
    """

    id: str
    keys: str
    title: str
    help: str
    where: str
    looks: bool
    footer: bool = False
    palette: bool = True
    call: str = ""
    writes: bool = False

    @property
    def run(self) -> str:
        """What Textual runs: ``step(1)``."""
        return self.call or self.id

    @property
    def acts(self) -> bool:
        """Whether it begins a guarded action."""
        return self.call.startswith("act('")


def _scope(
    where: str, rows: Sequence[tuple[str, str, str, str, str] | tuple[str, str, str, str, str, str]]
) -> Iterator[Hotkey]:
    """Yield the keys of a scope from rows of id, keys, title, help, flags and perhaps the call.

    The flags are ``looks``, ``footer``, ``writes``, and ``hidden`` for not in the palette.
    """
    for name, keys, title, does, flags, *call in rows:
        on = set(flags.split())
        assert on <= {"looks", "footer", "hidden", "writes"}, name
        yield Hotkey(name, keys, title, does, where, "looks" in on, "footer" in on,
                     "hidden" not in on, "".join(call), "writes" in on)  # fmt: skip


ACTIONS: Final = (
    *_scope("fleet", (
        ("open", "enter", "open", "open the selected run", "looks footer"),
        ("filter", "/", "filter",
         "show only runs with these words, or state: alert: dri: group: cluster:", "looks footer"),
        ("sort", "s", "sort", "sort: by need, name, run file, time left", "looks footer"),
        ("group", "v", "group", "group: by cluster, owner, group", "looks"),
        ("hide", "f", "hide finished", "hide finished and sealed runs, or show them", "looks"),
        ("favourite", "*", "favourite",
         "mark as favourite: listed right after runs that need a person", ""),
        ("fleet_travel", "P", "past", "the selected run as it was at an earlier time", "looks",
         "travel"),
        ("happened", "T", "timeline", "what happened to all runs, newest first", "looks"),
        ("clear", "escape", "clear filter", "show all runs again", "looks"),
        ("down", "down j", "down", "select the run below", "looks hidden", "row(1)"),
        ("up", "up k", "up", "select the run above", "looks hidden", "row(-1)"),
        ("right", "right l", "right", "select the run to the right", "looks hidden", "step(1)"),
        ("left", "left h", "left", "select the run to the left", "looks hidden", "step(-1)"),
        ("page_down", "pagedown ctrl+d", "page down", "a page of runs down", "looks hidden",
         "turn(1)"),
        ("page_up", "pageup ctrl+u", "page up", "a page of runs up", "looks hidden", "turn(-1)"),
        ("first", "home g", "first", "select the first run", "looks hidden", "edge(False)"),
        ("last", "end G", "last", "select the last run", "looks hidden", "edge(True)"),
    )),
    *_scope("run", (
        ("tab_log", "1", "log", "the job log", "looks", "tab('log')"),
        ("tab_charts", "2", "charts", "loss, throughput, grad norm, any metric", "looks",
         "tab('charts')"),
        ("tab_checkpoints", "3", "checkpoints", "all checkpoints, and which one a relaunch takes",
         "looks", "tab('checkpoints')"),
        ("tab_facets", "4", "sources", "every source: its value, its age, its error", "looks",
         "tab('facets')"),
        ("tab_timeline", "5", "timeline", "the open alerts, then all that happened, newest first",
         "looks", "tab('timeline')"),
        ("tab_logbook", "6", "logbook", "the run's logbook, as it stands in its file", "looks",
         "tab('logbook')"),
        ("next_tab", "tab", "next tab", "the tab to the right", "looks hidden"),
        ("next_run", "]", "next run", "the next run of the fleet", "looks", "other_run(1)"),
        ("former_run", "[", "previous run", "the previous run of the fleet", "looks",
         "other_run(-1)"),
        ("scroll_down", "down j", "down", "a line down; in a chart: zoom out", "looks hidden",
         "step(1)"),
        ("scroll_up", "up k", "up", "a line up; in a chart: zoom in", "looks hidden", "step(-1)"),
        ("scroll_page_down", "pagedown ctrl+d", "page down", "a page down; in a chart: later",
         "looks hidden", "turn(1)"),
        ("scroll_page_up", "pageup ctrl+u", "page up", "a page up; in a chart: earlier",
         "looks hidden", "turn(-1)"),
        ("scroll_home", "home g", "to the start", "to the first line", "looks hidden",
         "edge(False)"),
        ("scroll_end", "end G", "to the end", "to the last line", "looks hidden", "edge(True)"),
        ("travel", "P", "past", "the screen as it was at an earlier time, from the store",
         "looks footer"),
        ("only_kind", "o", "only", "the timeline: one kind of event at a time, in turn", "looks"),
        ("jump", "enter", "evidence", "go to an alert's evidence in the log, each in turn",
         "looks footer"),
        ("back", "escape", "back", "back to the fleet", "looks footer"),
    )),
    *_scope("log", (
        ("follow", "f space", "follow / pause", "follow the log / pause", "looks footer"),
        ("search", "/", "search", "search the log, for words or a /regular expression/",
         "looks footer", "ask('search')"),
        ("next_match", "n", "next match", "the next match below", "looks", "match(False)"),
        ("former_match", "N", "previous match", "the previous match, above", "looks",
         "match(True)"),
        ("sift", "L", "errors only", "only warnings and errors, or all lines again",
         "looks footer"),
        ("this_job", "i", "this job", "only the present job's lines, or all again", "looks"),
        ("wrap", "w", "wrap", "wrap long lines, or cut them", "looks"),
        ("goto", "T", "go to", "go to a step, a time, a line or a percentage of the log", "looks",
         "ask('goto')"),
        ("bookmark", "M", "bookmark", "keep the line at the cursor, next time too, or forget it",
         "looks"),
        ("next_bookmark", "'", "next bookmark", "the next bookmark; the timeline lists them",
         "looks"),
        ("save_log", "s", "save log", "save the whole log as it is shown to a file", "",
         "ask('save')"),
        ("save_shown", "D", "save screen", "save the log's lines on the screen to a file", "",
         "ask('save_shown')"),
        ("pager", "v", "pager", "the log's lines around here in $PAGER", ""),
        ("log_right", "right", "right", "scroll right; in a chart: the cursor", "looks hidden",
         "sideways(1)"),
        ("log_left", "left", "left", "scroll left; in a chart: the cursor", "looks hidden",
         "sideways(-1)"),
    )),
    *_scope("charts", (
        ("next_metric", "m", "next metric", "loss, throughput, grad norm, learning rate, in turn",
         "looks footer"),
        ("metric", "F", "metric by name", "any logged metric by a few letters; two: loss, grad",
         "looks footer"),
        ("zoom", "z", "zoom", "the whole run, a quarter, a twentieth; at the cursor if shown",
         "looks footer"),
        ("log_axis", "l", "log axis", "a logarithmic or a linear axis", "looks footer"),
        ("two_metrics", "d", "two metrics", "two metrics at once, or one", "looks"),
        ("time_axis", "a", "time axis", "charts by time, or by step", "looks"),
    )),
    *_scope("act", (
        ("relaunch", "r", "relaunch", "stop what is left, relaunch the lineage: shows a plan",
         "footer", "act('relaunch')"),
        ("entry", "e", "log entry", "write a logbook entry, prefilled; saved and pushed", "footer",
         "act('log')"),
        ("autolog", "Y", "autolog", "allow automatic logbook entries: shows a plan", "",
         "act('autolog')"),
        ("handoff", "H", "handoff", "hand the run to a named person: shows a plan", "footer",
         "act('handoff')"),
        ("stop", "x", "stop", "stop the run's job, gracefully first: shows a plan", "",
         "act('stop')"),
        ("adopt", "U", "adopt", "make a job started by hand the current one: shows a plan", "",
         "act('adopt')"),
        ("rollback", "b", "rollback", "go back to an older checkpoint: shows a plan", "",
         "act('rollback')"),
        ("ack", "A", "acknowledge", "acknowledge or snooze an alert, with a reason, undoable", "",
         "act('ack')"),
        ("escalate", "E", "escalate", "to the owner, with the evidence: shows a plan", "",
         "act('escalate')"),
        ("seal", "Z", "seal", "verify and close a finished run: shows a plan", "", "act('seal')"),
        ("page", "p", "handoff page", "one page about the run, to share or to copy", "looks",
         "about('page')"),
        ("describe", "I", "describe",
         "the job by its own system: queue, tasks, nodes, events", "", "about('describe')"),
        ("tasks", "K", "tasks", "the tasks of an array: done, failed, running, waiting", "looks",
         "about('tasks')"),
        ("points", "W", "open points",
         "go through what is open, one by one, before handing the run over", "looks",
         "about('points')"),
        ("backtest", "B", "backtest", "which alerts the run's history would have raised, and when",
         "", "about('backtest')"),
        ("journal", "J", "journal", "actions on this run, and what was interrupted", "looks",
         "about('journal')"),
        ("veto", "V", "veto", "stop what an agent plans or is about to do", "writes"),
    )),
    *_scope("plan", (
        ("plan_confirm", "enter", "act", "run it, once the words match; later: close", "writes"),
        ("plan_leave", "escape", "leave", "close (a running action continues)", ""),
        ("plan_approve", "f2", "approve", "approve a block (name and reason required)", ""),
        ("plan_save_first", "f3", "save first", "ask the trainer for a checkpoint first, or not",
         ""),
        ("plan_successors", "f4", "successors",
         "also cancel what would start by itself after the job, or not", ""),
        ("plan_rollback", "b", "rollback first",
         "plan the rollback that a block names; afterwards this plan again", "",
         "remedy('rollback')"),
        ("plan_stop", "x", "stop first",
         "plan the stop that a block names; afterwards this plan again", "", "remedy('stop')"),
        ("plan_unfold", "tab", "in full", "what passes in full, or only named", "looks"),
        ("plan_down", "down", "down", "a line down", "looks", "step(1)"),
        ("plan_up", "up", "up", "a line up", "looks", "step(-1)"),
        ("plan_page_down", "pagedown ctrl+d", "page down", "a page down", "looks", "turn(1)"),
        ("plan_page_up", "pageup ctrl+u", "page up", "a page up", "looks", "turn(-1)"),
    )),
    *_scope("form", (
        ("form_accept", "enter", "go on", "go on, once every required field is filled", ""),
        ("form_leave", "escape", "leave", "leave, nothing done", ""),
        ("form_next", "tab", "next", "the next field", "looks", "step(1)"),
        ("form_former", "shift+tab", "previous", "the previous field", "looks", "step(-1)"),
        ("form_down", "down", "down", "the next choice of a list, else the next field", "",
         "pick(1)"),
        ("form_up", "up", "up", "the previous choice, else the previous field", "", "pick(-1)"),
    )),
    *_scope("ack", (
        ("ack_undo", "u", "undo", "undo: the alert asks again", "footer writes"),
    )),
    *_scope("entry", (
        ("entry_save", "ctrl+s", "save", "save, commit and push this entry", "footer writes"),
        ("entry_retry", "ctrl+r", "retry", "push again what could not be pushed", "footer writes"),
        ("entry_leave", "escape", "keep draft", "close; unsaved text is kept as a draft", "footer"),
        ("entry_diff", "ctrl+g", "diff", "show what will be committed, or the text again",
         "looks footer"),
        ("entry_template", "ctrl+t", "template",
         "start from the next template: note, check, incident, decision, relaunch, handoff",
         "footer"),
        ("entry_undo", "ctrl+z", "undo", "undo the last change of the text", ""),
        ("entry_redo", "ctrl+y", "redo", "redo what was undone", ""),
        ("entry_down", "pagedown", "page down", "a page down, of the text or of the diff", "looks",
         "turn(1)"),
        ("entry_up", "pageup", "page up", "a page up, of the text or of the diff", "looks",
         "turn(-1)"),
    )),
    *_scope("page", (
        ("sheet_copy", "y", "copy", "copy the whole page", "footer"),
        ("sheet_save", "m", "save", "write the page to files: Markdown, text and SVG", "footer"),
    )),
    *_scope("points", (
        ("point_discussed", "d", "discussed", "mark the point as discussed, go to the next",
         "looks footer"),
        ("point_left", "o", "leave open", "leave the point open, with a note for the page",
         "footer"),
        ("point_hand_off", "enter", "handoff", "go on to the transfer, confirmed by typing",
         "footer", "act('handoff')"),
    )),
    *_scope("list", (
        ("list_down", "down j", "down", "the next row, or a line down", "looks hidden", "step(1)"),
        ("list_up", "up k", "up", "the row before, or a line up", "looks hidden", "step(-1)"),
        ("list_page_down", "pagedown space ctrl+d", "page down", "a page down", "looks hidden",
         "turn(1)"),
        ("list_page_up", "pageup ctrl+u", "page up", "a page up", "looks hidden", "turn(-1)"),
        ("list_first", "home g", "first", "the first row", "looks hidden", "edge(False)"),
        ("list_last", "end G", "last", "the last row", "looks hidden", "edge(True)"),
        ("list_back", "escape q", "back", "back to where you were", "looks footer"),
    )),
    *_scope("help", (
        ("help_close", "? f1 enter", "close", "close the keys, or keep what was found",
         "looks footer hidden"),
        ("help_filter", "/", "filter", "show only keys, codes and signs with these words",
         "looks footer hidden"),
    )),
    *_scope("journal", (
        ("settle", "S", "resolve", "look up and record how the interrupted action ended",
         "footer writes"),
        ("journal_record", "enter", "record", "the whole record of the action, or its row alone",
         "looks footer"),
        ("journal_open", "o", "open the run", "open the run of the selected action",
         "looks footer"),
    )),
    *_scope("copying", (
        ("copy_take", "enter y", "copy", "copy what is selected; says which way it went", "footer"),
    )),
    *_scope("past", (
        ("past_back", "P", "now", "back to the present", "looks hidden"),
        ("past_earlier", "left h", "earlier", "the previous recorded moment", "looks footer hidden",
         "scrub(-1)"),
        ("past_later", "right l", "later", "the next recorded moment", "looks footer hidden",
         "scrub(1)"),
        ("past_goto", "/", "go to", "go to a time: 03:12, 2h ago, 2026-03-11 08:57",
         "looks footer"),
        ("past_only", "o", "only", "one kind of event at a time, in turn", "looks footer"),
        ("past_log", "1", "log", "the log up to then", "looks", "tab('log')"),
        ("past_charts", "2", "charts", "the loss until then", "looks", "tab('charts')"),
        ("past_checkpoints", "3", "checkpoints", "the checkpoints then", "looks",
         "tab('checkpoints')"),
        ("past_facets", "4", "sources", "every source then: its value, its age, its error", "looks",
         "tab('facets')"),
        ("past_alerts", "5", "alerts", "the alerts that were open then", "looks", "tab('alerts')"),
        ("past_logbook", "6", "logbook", "the logbook as it stood then", "looks", "tab('logbook')"),
        ("past_next_tab", "tab", "next tab", "the tab to the right", "looks hidden", "next_tab"),
    )),
    *_scope("happened", (
        ("happened_open", "enter", "open", "the run as it was at that time", "looks footer"),
        ("happened_only", "o", "only", "one kind of event at a time, in turn", "looks footer"),
    )),
    *_scope("leaving", (
        ("leave_now", "q ctrl+q", "leave now", "quit; the journal says how far it got",
         "footer writes"),
        ("leave_not", "escape", "stay", "wait until the action has ended", "footer"),
    )),
    *_scope("welcome", (
        ("make", "enter i", "make",
         "quit, and make a cockpit.toml from the selection; asks, overwrites nothing", "footer"),
        ("welcome_down", "down j", "down", "the next of what was found", "looks hidden", "step(1)"),
        ("welcome_up", "up k", "up", "the one before", "looks hidden", "step(-1)"),
        ("demo", "d", "demo", "quit, and start the demo: seven small real runs", "footer"),
    )),
    *_scope("everywhere", (
        ("check", "c", "check now", "query every source again now", ""),
        ("copy", "y", "copy", "copy an id, an alert, a line, a command of the run", ""),
        ("repaint", "ctrl+l", "repaint", "redraw the screen, if something wrote on it",
         "looks hidden"),
        ("theme", "t", "theme", "dark or light", "looks"),
        ("palette", ": ctrl+p", "palette", "find a command or a run by name",
         "looks footer hidden"),
        ("help", "? f1", "keys", "all keys that work here", "looks footer"),
        ("quit", "q ctrl+q", "quit", "quit; runs are not touched", "footer"),
        ("suspend", "ctrl+z", "suspend", "back to the shell; `fg` returns, watching continues", ""),
        ("interrupt", "ctrl+c", "interrupt", "quit at once, exit status 130", "hidden",
         "quit(130)"),
    )),
)  # fmt: skip
BY_ID: Final = {action.id: action for action in ACTIONS}
TOGETHER: Final = (
    {"run", "log", "charts", "act", "everywhere"},
    {"fleet", "act", "everywhere"},
    {"welcome", "everywhere"},
    {"entry"},
    {"page", "list"},
    {"points", "list"},
    {"journal", "act", "list"},
    {"past", "act", "list"},
    {"happened", "list"},
    {"plan"},
    {"form", "ack"},
    {"copying", "list"},
    {"help", "list"},
    {"leaving"},
)
"""Scopes whose keys work at the same time, so that none may mean two things."""


ARMED: Final = ("plan", "ack", "leaving")
"""Scopes whose screens take nothing that was pressed before they could be read."""
