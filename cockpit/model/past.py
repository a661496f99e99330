"""A run's past: what happened to it, which moments are kept, and the run as it was at one."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cockpit.model.base import Frozen, Instant
from cockpit.model.logtext import LogPage
from cockpit.model.observed import Phase
from cockpit.model.report import RunReport, Verdict


class Kind(StrEnum):
    """What a happening is about; a person sifts by it."""

    ALERT = "alerts"
    ACTION = "actions"
    JOB = "jobs"
    CHECKPOINT = "checkpoints"
    ENTRY = "log entries"
    HANDOFF = "handoffs"


class Sign(StrEnum):
    """How a happening is marked: by what it means for the run."""

    CRITICAL = "critical"
    ATTENTION = "attention"
    GOOD = "good"
    UNKNOWN = "unknown"
    PLAIN = "plain"


class Happening(Frozen):
    """One thing that happened; ``text`` and ``note`` are one safe line each.

    ``key`` is the alert's that it is about; ``code`` its rule's (C-05).
    """

    at: Instant
    kind: Kind
    sign: Sign
    text: str
    note: str = ""
    code: str = ""
    key: str = ""


class Moment(NamedTuple):
    """A moment that is kept; ``changed``: the verdict, the phase or the alerts became others."""

    at: float
    verdict: Verdict
    changed: bool


class Timeline(Frozen):
    """What happened to a run, newest first, and the moments that are kept, oldest first.

    ``begins`` is when any cockpit first saw the run, as far back as is kept; ``lacks`` are the
    reasons why something is missing, one line each.
    """

    run: str
    happenings: tuple[Happening, ...] = ()
    moments: tuple[Moment, ...] = ()
    begins: Instant | None = None
    lacks: tuple[str, ...] = ()

    def of_kind(self, kind: Kind | None) -> tuple[Happening, ...]:
        """Return the happenings of one kind (``None``: all)."""
        return tuple(each for each in self.happenings if kind is None or each.kind is kind)

    @property
    def times(self) -> tuple[float, ...]:
        """Every moment that something is known of, oldest first: kept ones and happenings."""
        stamps = {each.at for each in self.moments} | {each.at for each in self.happenings}
        return tuple(sorted(stamps))


class Seen(Frozen):
    """The few figures that are kept of every look, longer than whole moments are."""

    at: Instant
    verdict: Verdict
    phase: Phase | None = None
    step: int | None = None


class PastLog(NamedTuple):
    """Lines of a log up to a moment of the past; ``told`` says which, and how that is known.

    The page's ``size`` is what the log had then.
    """

    page: LogPage
    told: str


class Then(Frozen):
    """A run as it was at ``at``: never anything that was learned later.

    ``report`` is ``None`` where nothing is known. ``recorded_at`` is when it was kept; ``None``
    where only the few figures of ``seen`` and the alerts are. ``lacks`` says what is not known of
    the moment and why, one line each.
    """

    run: str
    at: Instant
    report: RunReport | None = None
    recorded_at: Instant | None = None
    seen: Seen | None = None
    watched: bool = False
    """Whether a cockpit looked at the run at that time."""
    lacks: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as JSON: the run as ``check --json`` tells it, and how it is known."""
        plain = self.model_copy(update={"report": None}).to_json()
        return {**plain, "report": None if self.report is None else self.report.document()}


NEXT_KIND: Final[Mapping[Kind | None, Kind | None]] = dict(
    zip((None, *Kind), (*Kind, None), strict=True)
)
"""The kind that is shown alone after another one; after the last one all are."""


def timeline_in(content: Mapping[str, Any]) -> Timeline:
    """Return the timeline that crossed to a window; raises ``ValueError``."""
    moments = tuple(_moment_in(each) for each in content["moments"])
    return Timeline.model_validate({**content, "moments": moments})


def _moment_in(content: Sequence[Any]) -> Moment:
    at, verdict, changed = content
    return Moment(float(at), Verdict(verdict), bool(changed))
