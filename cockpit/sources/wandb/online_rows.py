"""The rows of an online run: which were read, which to ask for next, and their checked values.

The server knows rows by ``_step``, which counts calls of ``log`` (or is what was passed to it:
then it has gaps). The newest rows are read first and at every look; the older ones follow in
order from the very first, some pages at a look, until both meet.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cockpit.model.run import MetricNames
from cockpit.sources import metric_keys
from cockpit.sources.figures import figure_of, json_of, leaves
from cockpit.sources.file_tracker import Record
from cockpit.sources.wandb.server import clean_text

RECENT: Final = 1000
"""Newest rows that are read at once: rules look back over a few hundred."""
KEPT: Final = 4000
"""Newest rows that are kept."""
PAGE: Final = 1000
"""Rows in one page at most, as the client itself asks for them."""
READ_AHEAD: Final = 40_000
"""Rows that wait to be given out, above which no older ones are asked for."""
PATIENT: Final = 3
"""Looks after which steps that the summary tells of and the history lacks are given up."""
_DENSE: Final = 0.8
"""The share of a page's rows that a range of steps is chosen for: rows lie unevenly."""

Raw = dict[str, float]
"""The numbers of one row that may matter, by their logged names; ``_step`` is among them."""


class Page(NamedTuple):
    """The rows of steps ``low`` to ``high`` (exclusive), at most ``most`` of them."""

    low: int
    high: int
    most: int

    def holds(self, rows: Sequence[Raw]) -> list[Raw]:
        """Return the rows that belong to it, each step once, in order."""
        inside = {wandb_step(row): row for row in rows if self.low <= wandb_step(row) < self.high}
        return [inside[step] for step in sorted(inside)]

    def has_all_rows(self, rows: Sequence[Raw]) -> bool:
        """Tell whether no row can have been left out: servers thin out what is too much."""
        return self.high - self.low <= self.most or len(rows) < self.most


def wandb_step(row: Raw) -> int:
    """Return a row's ``_step``; -1 for a row without one."""
    return int(row.get("_step", -1))


class Ledger:
    """The rows of one run as far as they are read.

    ``recent`` holds those of steps ``low`` to ``head``, ``older`` those from the first one on
    that nobody has taken yet; all below ``cursor`` were given out or wait there. ``begun`` tells
    that rows were asked for.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.last: int | None = None
        self.lines: int | None = None
        self.growth = 0
        self.recent: deque[Raw] = deque()
        self.older: deque[Raw] = deque()
        self.low = self.head = self.cursor = 0
        self.begun = False
        self._empty = 0
        self._to_the_end = False
        self._narrower = 1

    def know(self, last: int | None, lines: int | None) -> bool:
        """Take in the newest step and the number of rows; return whether all started again."""
        shrunk = self.lines is not None and lines is not None and lines < self.lines
        anew = shrunk and last is not None and last + 1 < self.head
        if anew:
            self._clear()
        if last is not None and self.last is not None:
            self.growth = max(last - self.last, self.growth // 2)
        self.last = last if last is not None else self.last
        self.lines = lines if lines is not None else self.lines
        return anew

    @property
    def behind(self) -> int:
        """Steps that the server has beyond the newest row that was read."""
        return 0 if self.last is None else max(0, self.last + 1 - self.head)

    @property
    def unread(self) -> int:
        """Steps of older rows that are to be read yet."""
        return max(0, self.low - self.cursor) if self.begun else 0

    @property
    def holed(self) -> bool:
        """Tell whether many rows are still to be read: more than come between two looks."""
        return self.unread > 0 or self.behind > 2 * self._span(RECENT)

    @property
    def caught_up(self) -> bool:
        """True when nothing more was there to be given out at the last look."""
        if self.last is None:
            return True
        nothing = self._empty > 0 and self._to_the_end
        seen = self.begun and (self.head > self.last or nothing)
        return seen and not self.older and self.cursor >= self.head

    @property
    def share(self) -> float:
        """How much of the run's steps the rows read in order so far cover, 0 to 1."""
        if self.last is None or self.caught_up:
            return 1.0
        return min(1.0, self.cursor / (self.last + 1))

    def newest(self, rows: int) -> Page | None:
        """Return the page to ask for next at the run's end, ``None`` while it has no rows."""
        if self.last is None:
            return None
        if not self.begun or self.behind > 2 * self._span(RECENT):
            self.begun = True
            self.low = self.head = max(self.cursor, self.last + 1 - self._span(min(rows, RECENT)))
            self.recent.clear()
        rows = max(1, min(rows, PAGE))
        return Page(self.head, self.head + self._span(rows), rows)

    def pages(self, rows: int) -> list[Page]:
        """Return pages of about ``rows`` older rows, oldest first."""
        found: list[Page] = []
        at = self.cursor
        while rows > 0 and at < self.low and self.begun:
            high = min(at + self._span(min(rows, PAGE)), self.low)
            found.append(Page(at, high, min(rows, PAGE)))
            rows -= PAGE
            at = high
        return found

    def take_newest(self, page: Page, rows: Sequence[Raw]) -> None:
        """Take in what a page at the end holds; a row that is not there yet is asked for again."""
        if page.low != self.head:
            return
        if not page.has_all_rows(rows):
            self._narrower *= 2
            return
        held = page.holds(rows)
        self._to_the_end = self.last is not None and page.high > self.last
        self.recent.extend(held)
        self._empty = 0 if held or not self.behind else self._empty + 1
        if held:
            self.head = wandb_step(held[-1]) + 1
        elif self._empty >= PATIENT and self.last is not None:
            self.head, self._empty = min(page.high, self.last + 1), 0
        while len(self.recent) > KEPT:
            self.low = wandb_step(self.recent.popleft()) + 1

    def take(self, page: Page, rows: Sequence[Raw]) -> None:
        """Take in a page of older rows; one that may lack some is asked for again, narrower."""
        if page.low != self.cursor:
            return
        if not page.has_all_rows(rows):
            self._narrower *= 2
            return
        self.older.extend(page.holds(rows))
        self.cursor = page.high

    def next(self) -> list[Raw]:
        """Give out the rows that come next in order, as far as they are read."""
        rows = list(self.older)
        self.older.clear()
        if self.begun and self.cursor >= self.low:
            rows += [row for row in self.recent if wandb_step(row) >= self.cursor]
            self.cursor = max(self.cursor, self.head)
        return rows

    def rewind(self) -> None:
        """Give out every row from the first one again."""
        self.older.clear()
        self.cursor = 0

    def _span(self, rows: int) -> int:
        """Return how many steps to ask for so that about ``rows`` rows come, never more."""
        if not self.lines or self.last is None:
            return rows
        density = min(1.0, self.lines / (self.last + 1))
        return max(rows, int(_DENSE * rows / density / self._narrower))


def rows_of(parts: Iterable[Sequence[Raw]]) -> list[Raw]:
    """Return the rows that several lists of parts of rows make, joined by their steps."""
    joined: dict[int, Raw] = {}
    for part in parts:
        for row in part:
            joined.setdefault(wandb_step(row), {}).update(row)
    return [joined[step] for step in sorted(joined)]


SUMMARY_TIME: Final = (metric_keys.WANDB_STEP, metric_keys.WANDB_TIME)
EVALUATION: Final = "_evaluation"
"""Stands in a row for the metrics of an evaluation, whose names do not matter."""
_MOST_NAMES: Final = 20_000


class Head(NamedTuple):
    """What a server says of a run beside its metrics; times are by the server's clock."""

    name: str | None = None
    display_name: str | None = None
    state: str = "unknown"
    created: str | None = None
    heartbeat_at: float | None = None
    lines: int | None = None
    commit: str | None = None


def head_of(fields: Mapping[str, Any]) -> Head:
    """Return a run's fields, checked; what is of another type than it should be is left out."""
    lines = fields.get("historyLineCount")
    whole = isinstance(lines, int) and not isinstance(lines, bool) and lines >= 0
    return Head(
        name=clean_text(fields.get("name")),
        display_name=clean_text(fields.get("displayName")),
        state=clean_text(fields.get("state")) or "unknown",
        created=clean_text(fields.get("createdAt")),
        heartbeat_at=instant(fields.get("heartbeatAt")),
        lines=lines if whole else None,
        commit=clean_text(fields.get("commit")),
    )


def instant(raw: object) -> float | None:
    """Return a time as W&B writes it (UTC where it names no zone), in epoch seconds."""
    if not isinstance(raw, str):
        return None
    try:
        found = datetime.fromisoformat(raw.strip())
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return aware.timestamp()
    except (ValueError, OverflowError):
        return None


def mapping(raw: object) -> dict[str, Any] | None:
    """Return the object in a JSON text (or the object itself), ``None`` for anything else."""
    if isinstance(raw, str | bytes):
        raw = json_of(raw)
    return raw if isinstance(raw, dict) else None


def config_of(raw: object) -> dict[str, object] | None:
    """Return a run's configuration without W&B's own wrapping and entries."""
    found = mapping(raw)
    if found is None:
        return None
    entries = ((key, each) for key, each in found.items() if key not in ("_wandb", "wandb_version"))
    return {
        key: each["value"] if isinstance(each, dict) and "value" in each else each
        for key, each in entries
    }


def client_of(raw: object) -> str | None:
    """Return the version of the client that wrote the configuration."""
    own = (mapping(raw) or {}).get("_wandb")
    value = own.get("value") if isinstance(own, dict) else None
    return clean_text(value.get("cli_version")) if isinstance(value, dict) else None


class Names:
    """Which logged names matter to a run; asked of every key of every row, so it remembers."""

    def __init__(self, configured: MetricNames) -> None:
        self._configured = configured
        self._known: dict[str, bool] = {}

    def numbers(self, raw: object) -> Raw:
        """Return the numbers that matter of one row or summary (JSON text or an object)."""
        return dict(self._numbers(mapping(raw) or {}))

    def _numbers(self, raw: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
        for name, value in leaves(raw, "."):
            known = self._known.get(name)
            if known is None:
                known = name in SUMMARY_TIME or metric_keys.interesting(name, self._configured)
                if len(self._known) < _MOST_NAMES:
                    self._known[name] = known
            if known and (number := figure_of(value)) is not None:
                yield name, number
            if metric_keys.of_evaluation(name):
                yield EVALUATION, 1.0


def rows_in(raw: object, names: Names) -> list[Raw]:
    """Return the rows of a history (JSON texts or objects); what has no step is left out.

    One with a metric of an evaluation is marked by ``EVALUATION``.
    """
    if not isinstance(raw, list):
        return []
    rows = (names.numbers(each) for each in raw)
    return [row for row in rows if math.isfinite(row.get(metric_keys.WANDB_STEP, math.nan))]


def record_of(raw: Raw) -> Record:
    """Return a row as a record of any tracker's."""
    step = wandb_step(raw) if metric_keys.WANDB_STEP in raw else None
    return Record(step, metric_keys.true_time(raw.get(metric_keys.WANDB_TIME)), raw)
