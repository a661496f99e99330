"""The one table of guarded actions: palette, command line and documents are made from it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from cockpit.actions.core.action import Action


class Param(NamedTuple):
    """An option of a verb: its long name, what it means, and whether it must be given."""

    name: str
    help: str
    required: bool = False


class ActionEntry(NamedTuple):
    """One row: ``spec`` is SPEC's id, ``place`` the class that does it, ``key`` the palette's."""

    verb: str
    spec: str
    place: str
    title: str
    help: str
    params: tuple[Param, ...] = ()
    asks: str = ""


TABLE: Final = (
    ActionEntry("launch", "A-1", "cockpit.actions.launching.launch:LaunchAction", "launch",
          "start the run for the first time, after every check", asks="launch RUN"),
    ActionEntry("relaunch", "A-2", "cockpit.actions.launching.relaunch:Relaunch", "relaunch",
          "resubmit from the newest complete checkpoint; what still runs is stopped first",
          (Param("save-first", "ask the trainer to save a checkpoint first (yes)"),),
          asks="relaunch RUN"),
    ActionEntry("lineage", "A-3", "cockpit.actions.launching.lineage:NewLineage", "lineage",
          "a new run id, W&B id and output root, from one checkpoint of this run",
          (Param("run-id", "the new run's slug", True), Param("wandb-id", "the new W&B id", True),
           Param("output-root", "the new, pinned output root", True),
           Param("from", "the checkpoint: a step or a path", True),
           Param("reason", "why the old lineage is left", True),
           Param("fork-wandb", "fork the old W&B run at this W&B step; yes: the checkpoint's")),
          asks="lineage RUN NEW-ID"),
    ActionEntry("rollback", "A-4", "cockpit.actions.stopping.rollback:Rollback", "rollback",
          "go back to an older complete checkpoint; newer ones are rejected for good",
          (Param("to", "the step to go back to", True),
           Param("reason", "why the newer ones are rejected"),
           Param("move", 'move the rejected ones aside; "no" if the command names the checkpoint')),
          asks="rollback RUN STEP"),
    ActionEntry("stop", "A-5", "cockpit.actions.stopping.stop:Stop", "stop",
          "stop the run's job, gracefully first; shows what would be lost",
          (Param("reason", "why"), Param("save-first", "ask for a checkpoint first (yes)"),
           Param("successors", "also cancel what would start by itself afterwards (yes)"),
           Param("only", "held: cancel only jobs that were accepted and never released")),
          asks="stop RUN [STEP]"),
    ActionEntry("adopt", "J", "cockpit.actions.launching.launch:Adopt", "adopt",
          "make a living job that was submitted by hand the run's current one",
          (Param("job-id", "the job, by its system's id (local: its process id)", True),),
          asks="adopt RUN"),
    ActionEntry("hold", "J", "cockpit.actions.stopping.queue:Hold", "hold",
          "keep a waiting job from starting (Slurm)", (Param("reason", "why"),), asks="hold RUN"),
    ActionEntry("release", "J", "cockpit.actions.stopping.queue:Release", "release",
          "let a held job start when its turn comes (Slurm)", (Param("reason", "why"),),
          asks="release RUN"),
    ActionEntry("requeue", "J", "cockpit.actions.stopping.queue:Requeue", "requeue",
          "end the running job and have its scheduler start it again under its id (Slurm)",
          (Param("reason", "why"), Param("save-first", "ask for a checkpoint first (yes)")),
          asks="requeue RUN [STEP]"),
    ActionEntry("extend", "J", "cockpit.actions.stopping.queue:Extend", "extend",
          "lengthen the job's time limit, counted from its start (Slurm)",
          (Param("limit", "the whole time limit, such as 12h", True), Param("reason", "why")),
          asks="extend RUN"),
    ActionEntry("retain", "A-6", "cockpit.actions.retention.retain:Retain", "retain",
          "delete the checkpoints that the policy does not keep, after showing the list",
          (Param("keep", "how many of the newest to keep (default: the policy's)"),),
          asks="delete N from RUN"),
    ActionEntry("seal", "A-7", "cockpit.actions.sealing.seal:Seal", "seal",
          "verify the finished run, tag the code, record the final metrics",
          asks="seal RUN STEP"),
    ActionEntry("handoff", "A-8", "cockpit.actions.telling.handoff:Handoff", "handoff",
          "one page about the run; hand it to a named person",
          (Param("to", "the new owner, by name", True), Param("note", "what they should know")),
          asks="handoff RUN"),
    ActionEntry("escalate", "A-9", "cockpit.actions.telling.acknowledge:Escalate", "escalate",
          "tell the owner: a notification and an issue comment with the evidence",
          (Param("note", "the decision needed"),), asks="escalate RUN"),
    ActionEntry("log", "A-10", "cockpit.actions.telling.log_entry:LogEntry", "log entry",
          "an entry in the logbook, committed and pushed",
          (Param("event", "the entry's title"), Param("status", "Status"),
           Param("evidence", "Evidence"), Param("decision", "Decision"), Param("next", "Next")),
          asks="log RUN"),
    ActionEntry("autolog", "A-10", "cockpit.actions.telling.log_entry:AutoLog", "autolog",
          "let the cockpit write and commit logbook entries by itself: once for a run file",
          (Param("off", "stop the automatic entries (yes)"),), asks="autolog RUN"),
    ActionEntry("sync", "A-11", "cockpit.actions.telling.sync:Sync", "sync",
          "upload the run's offline W&B folders by wandb sync, after a dry run",
          (Param("entity", "the W&B entity to upload to", True),
           Param("project", "the W&B project to upload to", True)), asks="sync RUN"),
    ActionEntry("teardown", "A-12", "cockpit.actions.sealing.teardown:Teardown", "teardown",
          "stop the meter, once every artifact is pulled and verified",
          asks="KIND HOST N-VERIFIED"),
    ActionEntry("publish", "A-13", "cockpit.actions.sealing.publish:Publish", "publish",
          "check passport and sign-off, write TRAINING_LOG.md; uploads nothing",
          (Param("repo", "the Hugging Face repository for the run log's section"),
           Param("path", "the folder that holds MODEL_PASSPORT.json and SIGNOFF.json")),
          asks="publish RUN"),
    ActionEntry("ack", "A-14", "cockpit.actions.telling.acknowledge:Acknowledge", "acknowledge",
          "acknowledge an alert: who, until when, why",
          (Param("key", "the alert's key, or \"end\" for the run's end", True),
           Param("by", "who acknowledges it"),
           Param("until", "snooze until: a time, 2h, or now (undo)"),
           Param("reason", "why")), asks="ack RUN"),
    ActionEntry("standing", "A-15", "cockpit.actions.telling.standing:Standing", "standing order",
          "arm the run file's [run.standing]: what may be relaunched while nobody is there",
          (Param("until", "when it ends: a time with zone, or 10h (default: the run file's)"),
           Param("off", "end it, on every machine (yes)")), asks="standing RUN"),
)  # fmt: skip
"""Every guarded verb, in SPEC's order."""


class Actions(Mapping[str, "Action"]):
    """The actions by verb; each module is imported when it is first asked for."""

    def __init__(self) -> None:
        self._rows = {row.verb: row for row in TABLE}
        self._made: dict[str, Action] = {}

    def __getitem__(self, verb: str) -> Action:
        if verb not in self._made:
            module, _, name = self._rows[verb].place.partition(":")
            self._made[verb] = cast("Action", getattr(importlib.import_module(module), name)())
        return self._made[verb]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
