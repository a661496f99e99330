"""The seven runs: what each is told, what is done to it, and how one sees that it has happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cockpit.demo.settings import CheckpointerConfig, OptimizerConfig, TrainerConfig, TrainingConfig
from cockpit.model.observed import CheckpointState
from cockpit.model.report import FleetReport, RunReport, Verdict

CADENCE = 5
"""Seconds; the whole fleet's."""
SAVE_EVERY = 10
PERMANENT_EVERY = 100
LONG = 20_000
"""Steps of a run that is not meant to end while somebody looks: a little over an hour."""
SETTLED = 25
"""Steps after which a run that is well can be said to be well."""

ReportTest = Callable[[RunReport], bool]


@dataclass(frozen=True)
class Situation:
    """One run: its config, the faults that its command asks for, and what shall be seen of it."""

    name: str
    goal: str
    config: TrainingConfig
    seen: ReportTest
    expected: str
    faults: tuple[str, ...] = ()
    monitor: str = "fleet"
    """Which of the two monitors watches it."""

    @property
    def launch_id(self) -> str:
        """The id of the launch that the demo itself makes."""
        return f"{self.name}-i001"


MORTAL = "demo-monitor"
"""The monitor that is killed."""


BEFORE_IT_GROWS = 50
"""Steps between the saves of ``demo-nan``: the first is from before its learning rate grows."""


def _config(
    name: str, seed: int, steps: int = LONG, pace: float = 5.0, every: int = PERMANENT_EVERY
) -> TrainingConfig:
    keep = CheckpointerConfig(save_interval=SAVE_EVERY, permanent_every=every)
    trainer = TrainerConfig(
        id=name, num_train_steps=steps, seed=seed, steps_per_second=pace, checkpointer=keep
    )
    return TrainingConfig(trainer=trainer, optimizer=OptimizerConfig(learning_rate=0.05))


def _alert(identity: str) -> ReportTest:
    return lambda report: any(alert.id == identity for alert in report.alerts)


def _healthy(report: RunReport) -> bool:
    return report.verdict is Verdict.HEALTHY and (report.progress.step or 0) >= SETTLED


def _torn(report: RunReport) -> bool:
    value = report.facets.checkpoints.value
    if value is None or value.relaunch_from is None:
        return False
    torn = any(item.state is CheckpointState.INCOMPLETE for item in value.items)
    return torn and _alert("C-01")(report)


def _monitor_dead(report: RunReport) -> bool:
    return report.verdict is Verdict.HEALTHY and _alert("C-03")(report)


SITUATIONS = (
    Situation(
        name="demo-slow",
        goal="shows a throughput collapse: its input becomes slow",
        config=_config("demo-slow", seed=4),
        faults=("--input-slows-after", "135"),
        seen=_alert("C-05"),
        expected="throughput collapse (C-05)",
    ),
    Situation(
        name="demo-torn",
        goal="shows a torn checkpoint: killed with -9 in the middle of a save",
        config=_config("demo-torn", seed=2),
        faults=("--shard-seconds", "0.3"),
        seen=_torn,
        expected="ended (C-01) with a torn checkpoint beside a complete one",
    ),
    Situation(
        name="demo-nan",
        goal="shows a blow-up: its learning rate grows until the loss is NaN",
        config=_config("demo-nan", seed=5, every=BEFORE_IT_GROWS),
        faults=("--learning-rate-jump", "60", "1.12"),
        seen=_alert("C-09"),
        expected="non-finite loss (C-09)",
    ),
    Situation(
        name="demo-error",
        goal="shows a crash: a Python error in its evaluation",
        config=_config("demo-error", seed=3),
        faults=("--break-at", "90"),
        seen=_alert("C-01"),
        expected="ended with an error (C-01)",
    ),
    Situation(
        name="demo-healthy",
        goal="shows a run that is well",
        config=_config("demo-healthy", seed=1),
        seen=_healthy,
        expected="healthy",
    ),
    Situation(
        name="demo-monitor",
        goal="shows a dead monitor on a run that is well",
        config=_config("demo-monitor", seed=6),
        seen=_monitor_dead,
        monitor=MORTAL,
        expected="healthy, its monitor stale (C-03)",
    ),
    Situation(
        name="demo-finished",
        goal="shows a run that is done and waits to be sealed",
        config=_config("demo-finished", seed=7, steps=160, pace=8.0, every=50),
        seen=lambda report: report.verdict is Verdict.FINISHED,
        expected="finished",
    ),
)
"""In the order in which they are started: the ones that take longest come first."""


def missing(report: FleetReport, situations: Sequence[Situation] = SITUATIONS) -> tuple[str, ...]:
    """Return a line for each situation that a check does not show."""
    runs = {run.name: run for run in report.runs}
    return tuple(
        f"{each.name}: expected {each.expected}, found {_described(runs.get(each.name))}"
        for each in situations
        if each.name not in runs or not each.seen(runs[each.name])
    )


def _described(run: RunReport | None) -> str:
    if run is None:
        return "no such run"
    alerts = ", ".join(alert.id for alert in run.alerts) or "no alert"
    return f"{run.verdict.value}, {alerts}, step {run.progress.words}"
