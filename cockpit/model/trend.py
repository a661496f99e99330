"""The fold of every logged row: what the numeric rules remember, bounded in size.

``advance`` of ``cockpit.rules.metrics.numerics`` makes it from rows, one batch at a time; it is
a value, so that the live loop, ``check`` and a replay of a whole history share one function.
Times in here are plain floats (epoch seconds), so that ``model_dump_json`` and
``model_validate_json`` are each other's inverse and a store can keep it between two polls.
"""

import math
from collections.abc import Iterable
from itertools import pairwise

from cockpit.model.base import Frozen, Seconds
from cockpit.model.goodput import Stepping
from cockpit.model.observed import Row

FLUSHED = 0.005
"""Seconds between two rows below which they came out of a buffer: no step is logged so fast."""
LEAST_SPAN = 0.3
"""Seconds that rows must span before they tell a rate."""


def timed_steps(rows: Iterable[tuple[int, float]]) -> list[tuple[float, int]]:
    """Return (seconds, steps) between rows of (step, time), of those that tell how fast it trains.

    None where what remains spans too little time: a rate from a burst of rows is none.
    """
    last = {at: step for step, at in rows}  # of rows that came at one time
    between = (
        (later - earlier, step - before)
        for (earlier, before), (later, step) in pairwise(last.items())
    )
    kept = [(gap, steps) for gap, steps in between if steps > 0 and gap >= FLUSHED]
    return kept if sum(gap for gap, _ in kept) >= LEAST_SPAN else []


class Pace(Frozen):
    """The trainer's step and its clock.

    ``step`` and ``at`` are the newest training step and its time; ``recent`` holds up to 64
    newest (step, time) pairs of this instance, oldest first. ``resumes`` counts how often the
    step went back (a relaunch or rollback), ``resumed_at`` is the time of the first row after
    the last time. ``began`` holds the first (step, time) pairs since then, or since the fold
    began; ``began_late`` tells that steps without a time came before them.
    ``pauses`` are the newest times (from, to) of this instance in which no step was logged
    for much longer than usual.
    """

    step: int | None = None
    at: float | None = None
    first_step: int | None = None
    first_at: float | None = None
    resumes: int = 0
    resumed_at: float | None = None
    began: tuple[tuple[int, float], ...] = ()
    began_late: bool = False
    metrics_seen: bool = False
    recent: tuple[tuple[int, float], ...] = ()
    pauses: tuple[tuple[float, float], ...] = ()
    usual_step_s: Seconds | None = None
    usual_gap_s: Seconds | None = None
    """Median seconds per step, and between two logged steps."""


class Writer(Frozen):
    """One that writes rows, or wrote them: its newest step, at which row and when (C-25).

    ``stride`` is how many steps lie between two of its rows (0: not known yet), ``gap`` the most
    rows of others between two of its own. ``proven``: it has gone on after rows of another, or
    another beside it; ``passed``: a later one came beyond its newest step; ``mixed``: some rows of
    another were taken for its own.
    """

    step: int
    stride: int = 0
    at: float | None = None
    row: int = 0
    gap: int = 0
    proven: bool = False
    passed: bool = False
    mixed: bool = False


class Writers(Frozen):
    """Whose the rows are (C-25): ``present`` is the writer that the folds follow.

    ``left`` are those that may go on where they were left, ``newest`` the place among them of the
    newest row's, ``None`` for the present one. ``rows`` of steps were seen, ``aside`` of them were
    not the present one's; ``turns`` is how often writers took turns since ``since``, 0 where each
    that began anew was a restart. ``again``: the last restart began just where one that was passed
    had been left.
    """

    present: Writer | None = None
    left: tuple[Writer, ...] = ()
    newest: int | None = None
    rows: int = 0
    aside: int = 0
    turns: int = 0
    again: int = 0
    since: float | None = None


class ThroughputTrend(Frozen):
    """Throughput in windows of data time of one cadence each (C-05).

    ``good`` are the medians of the newest windows that were not low, ``best`` the highest
    level that was held, ``low`` how many complete windows in a row are low, ``low_since`` when
    the first of them began and ``levels`` their newest medians. ``anew`` is the highest level that
    those have held themselves, ``anew_low`` how many in a row are low against that, since
    ``anew_since``: what counts where the job runs on other hardware. ``measured`` is False while
    the rows carry no throughput and steps per second stand in for it, or samples per second where
    they tell their ``batch``; ``first_batch`` is that of the window's first row, ``good_batch`` of
    the newest good window's.
    """

    measured: bool = False
    start: float | None = None
    warming: bool = True
    values: tuple[float, ...] = ()
    stride: int = 1
    skip: int = 0
    good: tuple[float, ...] = ()
    best: float | None = None
    baseline: float | None = None
    latest: float | None = None
    low: int = 0
    low_since: float | None = None
    levels: tuple[float, ...] = ()
    batch: float | None = None
    first_batch: float | None = None
    good_batch: float | None = None
    anew: float | None = None
    anew_low: int = 0
    anew_since: float | None = None


class Excursion(Frozen):
    """A metric against the window of its newest usual values (C-10, C-11).

    ``window`` holds the newest finite values outside of excursions, ``pending`` those beyond the
    limit that are no excursion yet; ``above`` rows in a row are beyond it, ``calm`` rows in a row
    are not; ``is_open`` is the alert's state. ``level`` (the window's median), ``since``, ``step``
    and ``peak`` describe the present excursion.
    """

    window: tuple[float, ...] = ()
    pending: tuple[float, ...] = ()
    above: int = 0
    calm: int = 0
    is_open: bool = False
    level: float | None = None
    since: float | None = None
    step: int | None = None
    peak: float | None = None


class LossTrend(Excursion):
    """The loss against its robust trend (C-11).

    ``early`` is the first trend there was, ``held`` the lowest level since the window began, until
    that is full.
    """

    early: float | None = None
    held: float | None = None


class MetricTrend(Excursion):
    """One metric of training's stability (C-10); ``sigma`` is its usual scatter as it left it."""

    metric: str
    sigma: float | None = None


class Skips(Frozen):
    """What is logged of optimizer steps left out: the newest figure, and whether it counts up."""

    last: float = 0.0
    counter: bool = False


class LimitTrend(Frozen):
    """A metric against its limit (C-27), by the metric that the limit names.

    ``count`` values in a row are past ``bound`` since ``since`` (``step``), the newest is
    ``value``; ``best`` is the lowest value so far, or the best level that was held, ``block`` the
    newest values within it. Of skipped steps ``times`` are the newest ones; of an evaluation
    ``evaluated`` is the step of the newest.
    """

    metric: str
    times: tuple[float, ...] = ()
    block: tuple[float, ...] = ()
    best: float | None = None
    bound: float | None = None
    count: int = 0
    since: float | None = None
    step: int | None = None
    value: float | None = None
    is_open: bool = False
    evaluated: int | None = None


class Climb(Frozen):
    """The loss's level against the best one that it has held (C-11, a slow climb).

    ``recent`` holds the newest finite losses, their median is the level; ``first`` is the first
    level, ``best`` the lowest so far, at ``best_step``. ``sway`` is how far the level has lately
    risen and come back, ``trough`` and ``peak`` are those of its present rise. ``above`` rows in a
    row are above what counts as a climb, the last ``calm`` losses are not; ``since``, ``step`` and
    ``level`` describe the present climb. ``stood`` are the (lowest, highest) level of the newest
    stretches of rows, ``low`` and ``high`` those of the present one, ``standing`` rows long.
    """

    recent: tuple[float, ...] = ()
    first: float | None = None
    best: float | None = None
    best_step: int | None = None
    sway: float = 0.0
    trough: float | None = None
    peak: float | None = None
    above: int = 0
    calm: int = 0
    is_open: bool = False
    since: float | None = None
    step: int | None = None
    level: float | None = None
    stood: tuple[tuple[float, float], ...] = ()
    low: float = math.inf
    high: float = -math.inf
    standing: int = 0


class LossStep(Frozen):
    """The loss's level against the one it had some rows before (C-11, a lasting step up).

    ``window`` holds the newest finite losses, ``levels`` their level at the newest comparisons,
    ``places`` the (step, time) of these; ``waiting`` rows came after the last one. ``first`` is the
    first level, ``lr`` and ``batch`` are the settings last logged, ``low_lr`` is the lowest
    learning rate since it last changed; ``sway``, ``trough`` and ``peak`` as in ``Climb``.

    For ``above`` rows the loss has stood above ``former`` and above the ``limit`` that tells a step
    from noise, at ``level``; ``height`` is how far above when that was found to last.
    """

    window: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    places: tuple[tuple[int | None, float | None], ...] = ()
    sway: float = 0.0
    trough: float | None = None
    peak: float | None = None
    waiting: int = 0
    first: float | None = None
    lr: float | None = None
    low_lr: float | None = None
    batch: float | None = None
    above: int = 0
    is_open: bool = False
    since: float | None = None
    step: int | None = None
    former: float | None = None
    limit: float | None = None
    level: float | None = None
    height: float | None = None


class Line(Frozen):
    """A robust straight line through the loss of a former instance (C-12).

    It passes ``level`` at ``step`` with ``slope`` per step; ``scatter`` is the standard deviation
    of its ``points`` about it, ``center`` and ``width`` (steps) are their mean and the root of
    their sum of squares: what they leave open grows with the distance from there. ``most`` is how
    far the farthest of its points lies off it.
    """

    step: float
    level: float
    slope: float
    scatter: float
    points: int
    center: float
    width: float
    most: float = 0.0


class Seam(Frozen):
    """Where training began again: another instance's loss beside the former one's (C-12).

    The former's last step was ``last`` (at ``ended``), the first one after it ``first`` (``at``);
    ``back`` tells that the step went back. Of ``compared`` steps that both have logged ``differ``
    differ, the most by ``worst`` at ``worst_step``. ``line`` is the former's trend, ``after`` how
    many rows came beyond it; ``level`` is their latest median, ``expected`` what the trend gives
    there, ``off`` tells that the two do not agree, as at ``looks_off`` looks in a row. ``lr`` and
    ``lr_now`` are the learning rates of the former's last row and of the first row after it that
    tells one.
    """

    last: int
    first: int
    ended: float | None = None
    at: float | None = None
    back: bool = True
    compared: int = 0
    differ: int = 0
    worst: float = 0.0
    worst_step: int | None = None
    line: Line | None = None
    after: int = 0
    level: float | None = None
    expected: float | None = None
    off: bool = False
    looks_off: int = 0
    lr: float | None = None
    lr_now: float | None = None


class Resumption(Frozen):
    """What a next instance is held against, and what was found of the former ones (C-12).

    ``kept`` are (step, loss) samples of all steps, denser towards the newest; ``origin`` is the
    lowest step and ``stride`` the newest distance of two rows (steps); ``levels`` are (step,
    median) of the newest blocks of rows and ``block`` the rows since. ``seam`` is the newest,
    ``newest`` the last losses beyond it, ``found`` the last one that went back and does not fit,
    ``shifts`` those after a pause. ``rose`` and ``fell`` are the shares of the largest stairs that
    training made without a restart, ``lr`` is the newest learning rate.
    """

    kept: tuple[tuple[int, float], ...] = ()
    origin: int | None = None
    stride: int = 0
    step: int | None = None
    at: float | None = None
    levels: tuple[tuple[float, float], ...] = ()
    block: tuple[tuple[int, float], ...] = ()
    seam: Seam | None = None
    newest: tuple[tuple[int, float], ...] = ()
    found: Seam | None = None
    shifts: tuple[Seam, ...] = ()
    rose: float = 0.0
    fell: float = 0.0
    lr: float | None = None


class TrendFinding(Frozen):
    """A metric that stopped being a number (C-09): the first such row, and what came after.

    ``value`` is its text (``nan``, ``inf``), ``count`` how many such rows, ``finite`` how many
    finite rows in a row have followed, ``earlier`` that one of those was at an earlier step.
    ``first`` tells that it is the first one whatever stands before the rows that were read:
    enough finite rows of the same training were read before it.
    """

    metric: str
    step: int | None
    at: float | None
    value: str
    count: int = 1
    last_step: int | None = None
    finite: int = 0
    earlier: bool = False
    first: bool = False


class WatchedMetric(Frozen):
    """One metric watched for non-finite values: the open finding, and the run up to one.

    ``clean`` counts the finite rows in a row before them, up to as many as matter.
    """

    clean: int = 0
    finding: TrendFinding | None = None
    pending: TrendFinding | None = None


class Taint(Frozen):
    """A stretch of rows whose saves may be spoilt (SPEC K): non-finite, or an open spike or climb.

    It begins at ``step`` (``at``); ``last`` is its last unsound step and ``sound`` the last sound
    step before it, ``None`` where no row before it was read. ``sound_at`` is when the numbers
    came back; ``began`` is when its trajectory began, if that was by going back. One that is
    ``over`` ended at ``until``; ``left``: training went back to before it.
    """

    metric: str
    value: str
    step: int | None
    at: float | None = None
    last: int | None = None
    sound: int | None = None
    sound_at: float | None = None
    began: float | None = None
    until: float | None = None
    over: bool = False
    left: bool = False


class Taints(Frozen):
    """The taints of the present trajectory, and those that are over (suspect saves, SPEC K).

    ``sound`` is the newest sound step, ``rise`` where a bump began that may become a spike;
    ``began`` when training last went back. ``loss`` and ``grad_norm`` are watched anew then.
    """

    open: tuple[Taint, ...] = ()
    over: tuple[Taint, ...] = ()
    sound: int | None = None
    rise: tuple[int | None, float | None] | None = None
    began: float | None = None
    loss: WatchedMetric = WatchedMetric.model_construct()
    grad_norm: WatchedMetric = WatchedMetric.model_construct()


class Trend(Frozen):
    """Everything that is remembered of the rows folded so far."""

    rows: int = 0
    last: Row | None = None
    pace: Pace = Pace.model_construct()
    writers: Writers = Writers.model_construct()
    stepping: Stepping = Stepping.model_construct()
    throughput: ThroughputTrend = ThroughputTrend.model_construct()
    loss: LossTrend = LossTrend.model_construct()
    climb: Climb = Climb.model_construct()
    loss_step: LossStep = LossStep.model_construct()
    stability: tuple[MetricTrend, ...] = ()
    resumption: Resumption = Resumption.model_construct()
    skips: Skips = Skips.model_construct()
    limits: tuple[LimitTrend, ...] = ()
    loss_finite: WatchedMetric = WatchedMetric.model_construct()
    grad_finite: WatchedMetric = WatchedMetric.model_construct()
    taints: Taints = Taints.model_construct()

    @property
    def last_step_at(self) -> float | None:
        """Return the time of the newest training step."""
        return self.pace.at

    @property
    def usual_step_s(self) -> float | None:
        """Return the median seconds per step."""
        return self.pace.usual_step_s

    @property
    def baseline(self) -> float | None:
        """Return the throughput baseline, ``None`` until there are enough windows."""
        return self.throughput.baseline
