"""An alert: what is wrong, since when, on what evidence, how sure, and the next safe action."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from cockpit.model.base import Frozen, Instant


class Severity(StrEnum):
    """SPEC C: *notify* = warning, *reminder* = info, *escalate* and *degraded* = alert."""

    INFO = "info"
    WARNING = "warning"
    ALERT = "alert"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 (info) to 3 (critical)."""
        return list(Severity).index(self)


class Evidence(Frozen):
    """One line or figure, and where it was read."""

    text: str
    source: str


class Acknowledgement(Frozen):
    """Who has taken an alert, when, and until when it stays quiet."""

    by: str
    at: Instant
    until: Instant | None = None
    reason: str | None = None
    """Why, in the person's own words."""


class RowSpan(Frozen):
    """Where a condition opened and closed by the rows themselves: at which step, and when.

    Times are the rows' own, ``None`` where they tell none. ``passed``: it came and went between
    two looks, so nobody has seen it open ("closed, unseen").
    """

    opened_step: int | None = None
    opened_at: Instant | None = None
    closed_step: int | None = None
    closed_at: Instant | None = None
    passed: bool = False


class Alert(Frozen):
    """One open condition. ``key`` is its identity over time: one cause, one key.

    ``step`` is the trainer's step at which it opened, where the rule knows one.
    """

    id: str = ""
    """Its condition; left out, it is what ``key`` begins with."""
    key: str
    severity: Severity = Severity.ALERT
    """Left out, it is that of its condition's row."""
    title: str
    since: Instant
    since_or_before: bool = False
    """True where it may have begun earlier: not everything before ``since`` was read."""
    evidence: tuple[Evidence, ...]
    no_success: bool = False
    """True where it says that a job which ended with exit status 0 did not finish."""
    confidence: Literal["sure", "likely", "guess"] = "sure"
    next_action: str
    acknowledged: Acknowledgement | None = None
    runs: tuple[str, ...] = ()
    """The runs that one cause concerns, where they are several; else not in the document."""
    caused_by: str | None = None
    """The key of the open alert that it follows from; else not in the document."""
    consequences: tuple[str, ...] = ()
    """The keys of the open alerts that follow from it; without any, not in the document."""
    span: RowSpan | None = None
    """Where the rows say that it opened and closed; not in the document where they do not."""

    @model_validator(mode="before")
    @classmethod
    def _by_its_row(cls, fields: Any) -> Any:  # noqa: ANN401 - pydantic hands on what it was given
        if not isinstance(fields, dict):
            return fields
        code = fields.get("id") or str(fields.get("key", "")).partition(":")[0]
        if "severity" in fields:
            return {**fields, "id": code}
        from cockpit.model.conditions import condition  # its settings know what an alert is

        row = condition(code)
        return {**fields, "id": code, **({} if row is None else {"severity": row.level})}

    @property
    def or_before(self) -> str:
        """The words to put behind the time of ``since`` wherever it is shown."""
        return " or before" if self.since_or_before else ""

    @model_serializer(mode="wrap")
    def _document(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = plain(self)
        for name in ("runs", "caused_by", "consequences", "span"):
            if not getattr(self, name):
                document.pop(name, None)
        return document


class ClosedAlert(Frozen):
    """An alert that is over; ``seen`` is False if it closed before anyone looked."""

    alert: Alert
    closed_at: Instant
    seen: bool
