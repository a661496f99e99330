"""What a run file says to the rules: figures, signatures of lines, limits of metrics."""

import re
from functools import lru_cache
from typing import Annotated, Final, Literal, NamedTuple

from annotated_types import Ge, Gt, Le
from pydantic import Field

from cockpit.model.base import Count, Duration, Frozen

Steps = Annotated[int, Ge(0), Le(10**15)]
Share = Annotated[float, Ge(0), Le(1)]


class Thresholds(Frozen):
    """``[run.thresholds]``: the figures of SPEC C, each a setting of the run."""

    warmup_steps: Steps | None = None
    """Steps in which fast changes are expected; default: max(200, 1 % of final_step)."""
    throughput_drop: Share = 0.25
    """C-05: how far below its baseline throughput may be (share, 0 to 1)."""
    throughput_cadences: Count = 3
    """C-05: for how many cadences."""
    loss_spike: float = 0.5
    """C-11: how far above its trend a spike is (share; 0.5 is 50 %)."""
    spike_rows: Count = 10
    """C-11: for how many logged rows."""
    loss_climb: float = 0.3
    """C-11: how far above its best level a climb is (share; 0.3 is 30 %)."""
    climb_rows: Count = 100
    """C-11: for how many logged rows."""
    loss_step: Share = 0.02
    """C-11: how far above its former level a lasting step of the loss is at least (share)."""
    step_rows: Count = 50
    """C-11: for how many logged rows."""
    instability_z: float = 6.0
    """C-10: the robust z-score that is unstable (standard deviations)."""
    instability_window: Annotated[int, Ge(3), Le(10**6)] = 200
    """C-10: over how many rows the score is taken."""
    instability_rows: Count = 10
    """C-10: for how many rows."""
    stall_factor: float = 3.0
    """C-06: after how many usual step times without a step a run stalls."""
    first_step_within: Duration = 45 * 60.0
    """C-06: how long the first step may take (a duration)."""
    pending_after: Duration = 30 * 60.0
    """C-04: how long a job may wait for capacity (a duration)."""
    resume_catchup: float = 0.002
    """C-12: how far replayed steps may differ in loss (share)."""
    resume_after: float = 0.01
    """C-12: how far the steps after a resume may differ in loss (share)."""
    resume_window: int = 500
    """C-12: for how many steps after the resume."""
    flap_restarts: Count = 3
    """C-14: this many restarts are flapping,"""
    flap_window: Duration = 6 * 3600.0
    """C-14: within this time (a duration)."""
    disk_frac: Share = 0.9
    """C-22: how full a disk may be (share, 0 to 1)."""
    mem_frac: Share = 0.9
    """C-22: how full memory may be (share, 0 to 1)."""
    free_saves: Annotated[float, Ge(0), Le(10**6)] = 2.0
    """C-22: for how many newest checkpoints there must be room."""
    billed_after: Duration = 3600.0
    """C-22: how long after the end a rented box may still answer (a duration)."""


OwnCause = Literal[
    "preempted", "walltime", "node_death", "hbm_exhausted", "oom_host", "oom_device", "disk_full",
    "hardware_fault", "bad_node", "numeric_instability", "distributed_hang", "user_stopped",
    "capacity_wait", "network_transient", "tracker_error", "data_error", "small_code_bug",
    "complex_code_bug",
]  # fmt: skip
"""A class of SPEC T that a line of a log can show."""
OwnSpeaker = Literal[
    "scheduler", "kernel", "launcher", "exception", "runtime-error", "runtime-warning", "metrics",
    "configuration", "help", "prose",
]  # fmt: skip


class SignatureSpec(Frozen):
    """``[[run.signature]]``: what a line of your own systems means (SPEC T)."""

    cause: OwnCause = Field(alias="class")
    """The class that such a line shows."""
    pattern: str
    """A regular expression of the line; capitals do not count."""
    examples: tuple[str, ...]
    """Lines that it must find, copied from a real log; at least one."""
    others: tuple[str, ...] = ()
    """Lines that look like it and that it must not find."""
    speaker: OwnSpeaker | None = None
    """Who writes such lines, where no other's count: prose too; default: whoever tells what
    happens."""


_ANYTHING_BEFORE: Final = re.compile(r"^\^?\.\*(?![+?])")


def expression(pattern: str) -> str:
    """Return a pattern that is looked for anywhere in a line: ``.*`` at its beginning is dear."""
    return _ANYTHING_BEFORE.sub("", pattern) or pattern


class LimitSpec(Frozen):
    """``[[run.limit]]``: what a logged metric may not pass (SPEC C-27); one of the four bounds."""

    metric: str
    """The metric's name as it is logged, or a usual one: "skipped steps", "dropped tokens",
    "evaluation loss", "MFU"."""
    above: float | None = None
    """It may not be above this; inf: it may be anything."""
    below: float | None = None
    """It may not be below this."""
    above_best: Annotated[float, Gt(0)] | None = None
    """How far above its lowest value so far it may not be (share; 0.02 is 2 %)."""
    below_usual: Annotated[float, Gt(0)] | None = None
    """Under which share of the best level that it has held it may not be (0.5 is half)."""
    for_: Duration = Field(default=0.0, alias="for")
    """For how long, by the times of the rows (a duration); of skipped steps: within which time."""
    rows: Count = 1
    """For how many logged values in a row; of skipped steps: how many."""
    severity: Literal["info", "warning", "alert"] = "warning"
    """What it opens: info, warning or alert."""
    advice: str | None = None
    """What to do then, in words."""

    @property
    def is_absolute(self) -> bool:
        """True where the bound is a figure of the run file."""
        return self.above is not None or self.below is not None


SKIPPED: Final = "skipped steps"
DROPPED: Final = "dropped tokens"
EVALUATION: Final = "evaluation loss"
MFU: Final = "MFU"
USUAL_LIMITS: Final = (
    LimitSpec.model_validate({
        "metric": SKIPPED, "rows": 3, "for": "15m",
        "advice": "find what overflows: loss scale, learning rate or data",
    }),
    LimitSpec.model_validate({
        "metric": DROPPED, "above": 0.07, "for": "15m",
        "advice": "look at the balance of the experts and their capacity factor",
    }),
    LimitSpec.model_validate({
        "metric": EVALUATION, "above_best": 0.02, "rows": 2,
        "advice": "see whether it overfits, or what changed in the data; keep the best checkpoint",
    }),
    LimitSpec.model_validate({
        "metric": MFU, "below_usual": 0.5, "for": "15m",
        "advice": "find the slow rank, link or input",
    }),
)  # fmt: skip
"""What holds without a word in the run file; one of the same metric there is in its place."""

_WORD: Final = re.compile(r"[a-z]+|\d+")
_DROP: Final = frozenset(("drop", "dropped", "drops", "dropping"))
_OF_EXPERTS: Final = frozenset(("expert", "experts", "gating", "moe", "router", "routing"))
_TOKENS: Final = frozenset(("token", "tokens"))
_PERCENT: Final = frozenset(("percent", "percentage", "pct"))
_SHARE: Final = _PERCENT | {"frac", "fraction", "rate", "ratio", "share"}
_NO_DROP: Final = frozenset((
    "attention", "attn", "connect", "data", "dataset", "dropout", "filter", "filtered", "layer",
    "loader", "lr", "pack", "packing", "path", "target", "truncated", "truncation",
))  # fmt: skip
_EVALUATES: Final = frozenset(("dev", "eval", "evaluation", "test", "val", "valid", "validation"))
_OTHER_LOSS: Final = frozenset((
    "actor", "adv", "adversarial", "aux", "auxiliary", "balance", "best", "critic", "d", "disc",
    "discriminator", "ema", "entropy", "g", "gen", "generator", "kl", "lowest", "max", "min", "moe",
    "pg", "policy", "reg", "router", "std", "value", "var", "vf", "z",
))  # fmt: skip
_NO_MFU: Final = frozenset(("best", "max", "min", "peak", "target"))


def words_of(name: str) -> tuple[str, ...]:
    """Return the words and figures of a name, in small letters."""
    return tuple(_WORD.findall(name.lower()))


def plain_name(name: str) -> str:
    """Return a key as it is compared: ``train.loss`` and ``Train/Loss`` are one."""
    return name.lower().replace(".", "/")


class Limited(NamedTuple):
    """The limit that counts for a logged metric, by its name, and what makes a share of it."""

    metric: str
    factor: float = 1.0


@lru_cache(maxsize=4096)
def limited_by(name: str, own: tuple[str, ...]) -> Limited | None:
    """Return which limit counts for a logged name: one of ``own``, else the usual one.

    A name with a figure in it is one layer's or one expert's: no usual limit counts for it.
    """
    plain = plain_name(name)
    for metric in own:
        if plain_name(metric) == plain:
            return Limited(metric)
    words = words_of(name)
    said = frozenset(words)
    if not words or any(word.isdigit() for word in words):
        return None
    if said & _DROP and said & (_OF_EXPERTS | _TOKENS) and said & _SHARE and not said & _NO_DROP:
        return Limited(DROPPED, 0.01 if said & _PERCENT else 1.0)
    if said & _EVALUATES and words[-1] == "loss" and not said & _OTHER_LOSS:
        return Limited(EVALUATION)
    return Limited(MFU) if "mfu" in said and not said & _NO_MFU else None
