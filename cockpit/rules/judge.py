"""Every rule of SPEC C that looks at a run, as the condition rows name them; causes; the order.

One cause, one alert: each condition keeps its identity; the one that it follows from carries it
(``consequences``), and people are notified of that one. This is the dependency suppression of
monitoring systems (Nagios' *host and service dependencies*, Alertmanager's *inhibition*): what
follows is muted, not hidden, and speaks for itself as soon as the cause is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Final, cast

from cockpit.model.alert import Alert
from cockpit.model.conditions import CONDITIONS, Condition
from cockpit.model.history import History
from cockpit.model.run import RunSpec
from cockpit.rules.lineage.success import records_overdue

Rule = Callable[[RunSpec, History], Iterable[Alert]]


def rules_of(row: Condition) -> tuple[Rule, ...]:
    """Return the rules that a row names."""
    named = (name.split(":") for name in row.rules)
    return tuple(
        cast("Rule", getattr(import_module(f"cockpit.rules.{module}"), name))
        for module, name in named
    )


LAST: Final = "C-24"
"""Its rule is asked last, with what the others find: that is what the records must tell of."""
RULES: tuple[Rule, ...] = tuple(
    rule for row in CONDITIONS if row.id != LAST for rule in rules_of(row)
)
ROWS: Final[Mapping[str, Condition]] = {id_: row for row in CONDITIONS for id_ in row.ids}
CADENCES: Final = 2
"""How much earlier (in cadences) a consequence may be seen to begin than its cause: each is found
by a window of its own. One that was open long before has a cause of its own."""


def judge(run: RunSpec, history: History) -> tuple[Alert, ...]:
    """Return the conditions that hold now, worst first, one alert for each identity.

    Inside a severity the oldest comes first, and the monitor's own staleness (C-03) last.
    """
    found: dict[str, Alert] = {}
    for rule in RULES:
        for alert in rule(run, history):
            found.setdefault(alert.key, alert)
    for alert in records_overdue(run, history, tuple(found.values())):
        found.setdefault(alert.key, alert)
    return worst_first(with_causes(run, sorted(found.values(), key=_rank)))


def worst_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return alerts in the order of reading; inside a severity what only follows comes last.

    The first one is never a consequence: none is more severe than its cause.
    """
    return tuple(sorted(alerts, key=_rank))


def _rank(each: Alert) -> tuple[int, bool, bool, float, str]:
    follows = each.caused_by is not None
    return -each.severity.rank, each.id == "C-03", follows, each.since, each.key


def with_causes(run: RunSpec, alerts: Sequence[Alert]) -> tuple[Alert, ...]:
    """Return the alerts, each with what it follows from and what follows from it.

    A consequence never is more severe than its cause: then it stands for itself.
    """
    cause_of: dict[str, str] = {}
    for alert in alerts:
        cause = next(_causes(run, alert, alerts), None)
        if cause is not None:
            cause_of[alert.key] = cause.key
    roots = {key: _root(cause_of, key) for key in cause_of}
    return tuple(
        alert.model_copy(
            update={
                "caused_by": roots.get(alert.key, alert.caused_by),
                "consequences": tuple(key for key, root in roots.items() if root == alert.key),
            }
        )
        if roots
        else alert
        for alert in alerts
    )


def _causes(run: RunSpec, alert: Alert, alerts: Sequence[Alert]) -> Iterator[Alert]:
    """Yield what an alert follows from, in the order of its row."""
    row = ROWS.get(alert.id)
    if row is None or (row.part and alert.key != f"{alert.id}:{run.name}:{row.part}"):
        return
    for id_ in row.consequence_of:
        for cause in alerts:
            in_time = alert.since >= cause.since - CADENCES * run.cadence or id_ in row.whenever
            if cause.id == id_ and alert.severity.rank <= cause.severity.rank and in_time:
                yield cause


def _root(cause_of: Mapping[str, str], key: str) -> str:
    """Return the first cause; a circle of rows ends where it began."""
    seen = {key}
    while (above := cause_of.get(key)) is not None and above not in seen:
        seen.add(above)
        key = above
    return key
