"""The conditions of SPEC C, one row each: what it means, when it opens, which rules find it.

Help, ``?``, docs/CONDITIONS.md, the judge's rules and its causes come from these rows. A new
condition is a row, its rule, and an example case in ``tests/house/test_rules.py``. Names in
backquotes are settings of the run; ``limits`` puts their figures in.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cockpit.model.run import Thresholds
from cockpit.model.wording import share, span


class Condition(NamedTuple):
    """One row: its id (or two), what it is, what opens it, its severity, and what finds it."""

    id: str
    what: str
    opens: str
    severity: str
    """Empty for a rule of display, which never alerts."""
    rules: tuple[str, ...] = ()
    """What finds it in ``cockpit.rules``, as ``module:function``: no module of values loads them.
    Of two alerts with one key the first rule's stays."""
    consequence_of: tuple[str, ...] = ()
    """The conditions that it only follows from, the first that holds wins (SPEC C). Only what
    holds by definition while the other one holds is listed, never a guess about why."""
    part: str = ""
    """The part of it that is a consequence, by the end of its key; empty: all of it."""
    burns: bool = False
    """Whether a job that runs meanwhile trains nothing that counts: what it costs is lost."""
    whenever: tuple[str, ...] = ()
    """Causes without which that part is never found, so it may have begun long before them."""

    @property
    def level(self) -> str:
        """Its severity where the rule says no other: the first word of ``severity``."""
        return self.severity.partition(";")[0]

    @property
    def ids(self) -> tuple[str, ...]:
        """Return each id of the row."""
        return tuple(self.id.split(", "))


# fmt: off
CONDITIONS: Final = (
    Condition("C-01", "the job ended without success",
        "the orchestrator says so of that instance",
        "critical; warning if stopped by someone unknown, info if by a cockpit",
        rules=("jobs.terminal:ended_not_success",)),
    Condition("C-02", "the job's state is unknown",
        "for more than 2 cadences, or at once where a look cannot decide; a place that "
        "answers for none of its runs is one alert; a launch of which nobody knows what became of "
        "it, at once",
        "warning; an unknown launch is an alert, info once its job is seen",
        rules=("jobs.jobstate:state_unknown", "jobs.jobstate:place_unknown",
               "jobs.terminal:launch_unsettled")),
    Condition("C-03", "monitor silent",
        "no heartbeat for 2 of its own cadences, two monitors on one job, or its session gone; "
        "if its clock may be behind, only after its next write; never part of the verdict",
        "warning",
        rules=("jobs.jobstate:monitor_stale",)),
    Condition("C-04", "waiting for capacity",
        "waiting longer than `pending_after` and than its scheduler planned; it can never"
        " start; or only some of its tasks run for that long",
        "warning",
        rules=("jobs.jobstate:pending_too_long",)),
    Condition("C-05", "throughput collapse",
        "more than `throughput_drop` below the baseline for `throughput_cadences` whole cadences",
        "alert",
        rules=("metrics.throughput:throughput_collapse",),
        consequence_of=("C-01", "C-06")),  # no step is trained: no rate
    Condition("C-06", "no training step",
        "no first step within `first_step_within`; later, none for `stall_factor` usual step "
        "times and 2 cadences; *degraded* if nodes are lost",
        "alert",
        rules=("jobs.stall:step_stalled",),
        consequence_of=("C-01",),  # nothing trains any more
        burns=True),
    Condition("C-07", "checkpoints do not advance",
        "steps advance, but the newest complete one is older than 2 `save_every`, or an "
        "unfinished one is older than one",
        "alert; info if it is a leftover",
        rules=("lineage.checkpoints:checkpoint_not_advancing",),
        consequence_of=("C-01", "C-06")),  # nor a save in time
    Condition("C-08", "too few checkpoints to roll back to",
        "fewer good ones than `rollback_depth` and fewer than before, or than the policy "
        "(`keep`, `save_every`) should have left; a protected one is gone",
        "alert",
        rules=("lineage.checkpoints:rollback_cover_thin",)),
    Condition("C-09", "NaN or inf",
        "in one row of the loss, or three in a row of the gradient norm",
        "critical",
        rules=("metrics.nonfinite:non_finite",), burns=True),
    Condition("C-10", "instability",
        "robust z-score over `instability_z` for `instability_rows` rows, window "
        "`instability_window`, after `warmup_steps`",
        "alert",
        rules=("metrics.stability:unstable",),
        # the loss is no number, or has left its level: what is beside it, too
        consequence_of=("C-09", "C-11")),
    Condition("C-11", "loss spike, climb or step",
        "more than `loss_spike` above its trend for `spike_rows` rows; more than "
        "`loss_climb` above its best level for `climb_rows`; a step up by more than `loss_step` "
        "and 6 robust deviations that stays for `step_rows`",
        "alert; warning for a step",
        rules=("metrics.loss:loss_spike", "metrics.loss:stepped_up"),
        consequence_of=("C-09",)),  # what led up to a NaN is the same trouble
    Condition("C-12", "resume mismatch",
        "the first step is not the expected one; replayed steps differ by `resume_catchup`,"
        " or the `resume_window` steps after them by `resume_after`",
        "alert",
        rules=("metrics.resume:resumed_elsewhere", "metrics.resume:resume_mismatch"),
        # rows of two jobs; or other weights were loaded, and this is how it shows
        consequence_of=("C-25", "C-17")),
    Condition("C-13", "wrong W&B run",
        "files, server, log or state file name another run than the recorded one; another resume"
        " policy; another Slurm job writes to it; nothing is written of a job that has logged"
        " steps for a cadence; the tracker has stopped while the log shows later steps, counted"
        " in steps where a clock is off",
        "alert",
        rules=("lineage.identity:identity_drifts",),
        consequence_of=("C-25",)),  # the other job's identity is what is seen
    Condition("C-14", "same failure again, or flapping",
        "the same signature or the same step; `flap_restarts` restarts within `flap_window`",
        "alert",
        rules=("jobs.restarts:same_failure_again", "jobs.restarts:flapping"),
        consequence_of=("C-01",)),  # the same end again is that end
    Condition("C-15", "wrong code",
        "the bundle or the tracker's commit is not the recorded one; the checkout that "
        "a restart would run has changed, is not pushed, or is on another branch. Files of "
        "`ignore` never count, nor what the cockpit and the runs write (the run file, logbooks, "
        "`.cockpit/`, logs, pid and exit files, output folders), nor what was already so at the "
        "launch. Two commits that differ only in such files are the same code",
        "alert",
        rules=("lineage.drift:code_drifts",)),
    Condition("C-16", "wrong output path",
        "the launch, its command, the running config or the logbook's run contract names "
        "a place outside of the run's; a bucket is named after another region than the job's",
        "alert",
        rules=("lineage.paths:output_elsewhere",)),
    Condition("C-17", "wrong checkpoint",
        "resumed from one that is incomplete, rejected, outside of the run's roots (a "
        "sibling of theirs counts; what may be a root by another name does not), the "
        "last by name only, or temporary beside a permanent one",
        "alert",
        rules=("lineage.paths:wrong_checkpoint",)),
    Condition("C-18", "config drift",
        "a setting of the running config differs from what the last launch recorded, "
        "else from the job before it, whose config the store keeps; a config is the "
        "execution's in which its launch began",
        "alert; warning for a setting that SPEC does not name",
        rules=("lineage.drift:config_drifts",)),
    Condition("C-19", "success without its artifacts",
        "final checkpoint, tracker's end, final step or logbook entry missing; over in "
        "half the expected time; a hero run unsealed for 24 h",
        "alert; info for the seal",
        rules=("lineage.success:success_without_artifacts",)),
    Condition("C-20, C-21", "final step misread; a diagnostic job",
        "never alerts: only how steps and children are shown",
        ""),
    Condition("C-22", "host pressure",
        "memory over `mem_frac`; a disk or its inodes over `disk_frac`; less room than "
        "`free_saves` newest checkpoints; the kernel's oom_kill counter rises; "
        "accelerators gone, or at 0 % while no step is made; a box of "
        "`[run.teardown]` answers `billed_after` the end. A disk that several runs of "
        "one machine find full is reported once, by one of them that names the others",
        "alert",
        rules=("jobs.host:host_pressure",),
        consequence_of=("C-01", "C-06"),  # an idle accelerator
        part="gpu-idle",
        whenever=("C-06",)),
    Condition("C-23", "the log has stopped, training has not",
        "no new byte for 2 cadences",
        "info",
        rules=("jobs.stall:log_frozen", "jobs.stall:log_started_over"),
        consequence_of=("C-01", "C-06")),  # no line
    Condition("C-24", "records overdue",
        "a hero run's logbook has no new entry or is not pushed; no issue update for 24 h",
        "info",
        rules=("lineage.success:records_overdue",)),
    Condition("C-25", "a second job",
        "two running jobs write to one output root or one W&B run, or the rows of two trainings"
        " come by turns: those of one are then set aside; a job of any user that runs the same"
        " script, or saves younger than the job's end, may be one",
        "critical; warning if it only may write there",
        rules=("jobs.duplicates:duplicate_job", "metrics.writers:log_mixed")),
    Condition("C-26", "time limit, preemption notice",
        "the limit comes before the next save; the log, the platform (Slurm: "
        "`PreemptTime`) or the tracker's client announces that the machine is taken away",
        "alert",
        rules=("jobs.jobstate:walltime_short", "jobs.jobstate:preemption_noticed"),
        consequence_of=("C-01", "C-06")),  # no step on the way to the limit
    Condition("C-27", "a metric past its limit",
        "a `[[run.limit]]`: above or below a figure for a time. Without one: 3 skipped steps "
        "within 15 min; more than 7 % of the tokens dropped for 15 min; an evaluation loss more "
        "than 2 % above its best in two evaluations running; MFU under half of its best level "
        "for 15 min",
        "warning; the limit's own severity",
        rules=("metrics.limits:past_limit",),
        # the loss is lost or has left its level, or all of it is slow
        consequence_of=("C-09", "C-11", "C-05")),
)
# fmt: on
"""Every condition, in SPEC's order."""


_SECONDS: Final = {"first_step_within", "pending_after", "flap_window", "billed_after"}
_SHARES: Final = {"throughput_drop", "loss_spike", "loss_climb", "loss_step", "resume_after",
                  "disk_frac", "mem_frac"}  # fmt: skip
_SETTING: Final = re.compile(r"`([a-z_]+)`")


def condition(code: str) -> Condition | None:
    """Return the description of a condition, ``None`` for an unknown id."""
    return next((each for each in CONDITIONS if code in each.ids), None)


def limits(found: Condition, thresholds: Thresholds | None = None) -> str:
    """Return what opens it with a run's own figures: ``more than throughput_drop (25.0 %) …``."""
    used = thresholds or Thresholds()

    def with_figure(match: re.Match[str]) -> str:
        name = match.group(1)
        value = getattr(used, name, None)
        if value is None:
            return name
        if name in _SECONDS:
            return f"{name} ({span(value)})"
        return f"{name} ({share(value) if name in _SHARES else format(value, 'g')})"

    return _SETTING.sub(with_figure, found.opens).replace("`", "")


def table() -> str:
    """Return the rows as a table of Markdown."""
    head = "| id | what | opens | severity |\n|---|---|---|---|\n"
    return head + "\n".join(
        f"| {' | '.join(each[:4])} |".replace("  |", " |") for each in CONDITIONS
    )
