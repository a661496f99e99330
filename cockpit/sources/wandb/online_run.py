"""One run as a W&B server tells it: what is asked for, what came, and the value made of it."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import page_of
from cockpit.model.run import WandbSpec
from cockpit.sources.shown_config import ShownConfig
from cockpit.sources.wandb.decode import STEPS_UNIT, StepRate, rated, usual_step_seconds
from cockpit.sources.wandb.fragment import CHUNK_ROWS
from cockpit.sources.wandb.history import POINTS, LossColumns, RowChunk, Series
from cockpit.sources.wandb.metrics import WANDB_STEP, MetricKeys, Stamps, choose, offset_of
from cockpit.sources.wandb.metrics import ClockReading as Look
from cockpit.sources.wandb.online_rows import (
    EVALUATION,
    READ_AHEAD,
    RECENT,
    SUMMARY_TIME,
    Head,
    Ledger,
    Names,
    Page,
    Raw,
    client_of,
    config_of,
    evaluated,
    head_of,
    row_of,
    rows_in,
    rows_of,
)
from cockpit.sources.wandb.online_rows import wandb_step as step_of
from cockpit.sources.wandb.server import Document
from cockpit.sources.wandb.tail import RECENT_ROWS, older, without_step

LIVE: Final = frozenset(("running", "pending", "preempting"))
"""States in which rows may come."""
KEYED_ABOVE: Final = 1000
"""Bytes of a row above which older rows are asked for by the names that matter."""
KEYED_BYTES: Final = 60
"""Bytes of one named value of a row, its step included."""
CONFIG_EVERY: Final = 40
"""Looks after which a configuration is read again: it may be added to while a run goes on."""
ROOMY: Final = 50_000
"""Bytes for one run's rows above which its drawing is sampled in full at once."""
REDRAW: Final = 1.1
SLOW_CLOCK: Final = 900.0
"""Seconds by which a clock must be behind to be told from rows that were sent late."""
_EACH_SHAPE, _SHAPES = 3, 60


class Plan(NamedTuple):
    """What one look asks about one run beside what is usual."""

    whole: bool = False
    """All of the summary, not only what matters of it: names are learned from it."""
    config: bool = False
    newest: Page | None = None
    older: tuple[Page, ...] = ()
    keyed: bool = False
    points: int = 0
    """Rows of a sample for the drawing."""


class Came(NamedTuple):
    """An answer: when it came, the server's clock minus ours (s), and whose the run is there."""

    at: float
    ahead: float = 0.0
    entity: str | None = None
    project: str | None = None


class OnlineRun:
    """What a server has said of one run so far; safe to use from any thread."""

    def __init__(self, spec: WandbSpec, base_url: str) -> None:
        self._spec = spec
        self._base_url = base_url
        self._lock = Lock()
        self._names = Names(spec.metrics)
        self._shown = ShownConfig()
        self._begin()

    def _begin(self) -> None:
        self.head = Head()
        self.row_bytes = 0.0
        self._entity: str | None = None
        self._project: str | None = None
        self._ledger = Ledger()
        self._summary: Raw = {}
        self._config: dict[str, object] | None = None
        self._client: str | None = None
        self._config_age = self._waits = self._failures = 0
        self._ranged = True
        self._drawn: list[Raw] = []
        self._drawn_at = 0
        self._shapes: Counter[frozenset[str]] = Counter()
        self._keys = MetricKeys()
        self._look: Look | None = None
        self._heartbeat: float | None = None
        self._forget_rows(delivered=False)

    def _forget_rows(self, *, delivered: bool) -> None:
        """Have every row given out from the first one on again."""
        self._ledger.rewind()
        self._ready: deque[Row] = deque()
        self._columns = LossColumns()
        self._rate = StepRate()
        self._restarted = delivered
        self._delivered = False
        self._complete_once = False

    @property
    def known(self) -> bool:
        """True once the server has said anything of the run."""
        return self.head.name is not None

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as rows have come."""
        return self._keys

    @property
    def fresh(self) -> bool:
        """True while no rows were asked for although there are some."""
        return self._ledger.last is not None and not self._ledger.begun

    def likely_bytes(self) -> float:
        """Return about how many bytes the run's newest rows will take at the next look."""
        ledger = self._ledger
        rows = RECENT if not ledger.recent else min(RECENT, ledger.behind + ledger.growth + 8)
        return rows * self.row_bytes if self._may_have_rows() else 0.0

    def unread(self) -> bool:
        """Tell whether older rows are to be read, and the server has not failed over them."""
        return (self._ledger.unread > 0 or self.fresh) and not self._waits

    def plan(self, newest_bytes: float, older_bytes: float) -> Plan:
        """Return what to ask for within so many bytes for the newest rows, and for older ones."""
        with self._lock:
            if not self.known:
                return Plan(whole=True, config=True)
            self._config_age += 1
            config = self._config is None or self._config_age >= CONFIG_EVERY
            if self._waits:
                self._waits -= 1
                return Plan(config=config)
            each = max(1.0, self.row_bytes)
            rows = max(16, int(newest_bytes / each))
            newest = self._ledger.newest(rows) if self._may_have_rows() else None
            keyed = self._ranged and each > KEYED_ABOVE
            older_each = KEYED_BYTES * len(self._specs(None)) if keyed else each
            room = int(older_bytes / older_each) if len(self._ready) < READ_AHEAD else 0
            older = self._ledger.pages(room)
            lines = self._ledger.lines or self._ledger.last or 0
            unseen = self._ledger.unread > 0 and lines > self._drawn_at * REDRAW
            points = POINTS if newest_bytes > ROOMY else POINTS // 3
            points = points if unseen and self._keys.loss is not None else 0
            return Plan(not self._summary, config, newest, tuple(older), keyed, points)

    def ask(self, document: Document, plan: Plan) -> None:
        """Add the run to a query."""
        kept = document.variable("[String!]", self._wanted()) if not plan.whole else ""
        parts = [f"summaryMetrics(keys: {kept})" if kept else "summaryMetrics"]
        if plan.config:
            parts.append("config")
        if plan.newest is not None:
            parts.append(_history("n", plan.newest))
        for index, page in enumerate(plan.older):
            if plan.keyed:
                specs = document.variable("[JSONString!]!", self._specs(page))
                parts.append(f"p{index}: sampledHistory(specs: {specs})")
            else:
                parts.append(_history(f"p{index}", page))
        if plan.points:
            names = list(dict.fromkeys((WANDB_STEP, self._keys.step, self._keys.loss)))
            spec = json.dumps({"keys": names, "samples": plan.points})
            parts.append(f"d: sampledHistory(specs: {document.variable('[JSONString!]!', [spec])})")
        document.add_run(self._spec.recorded.run or "", " ".join(parts))

    def take(self, fields: Mapping[str, Any], plan: Plan, came: Came) -> None:
        """Take in what came."""
        with self._lock:
            head = head_of(fields)
            if None not in (head.created, self.head.created) and head.created != self.head.created:
                self._begin_anew()  # deleted, and made again under the same id
            if self.known and head.state != self.head.state:
                self._config_age = CONFIG_EVERY
            created = head.created or self.head.created
            self.head = head._replace(name=head.name or self._spec.recorded.run, created=created)
            self._entity, self._project = came.entity, came.project
            self._failures = 0
            self._take_summary(fields.get("summaryMetrics"), whole=plan.whole)
            if plan.config and "config" in fields:
                self._take_config(fields["config"])
            self._take_rows(fields, plan)
            self._judge_clock(came)
            self._fold()

    def rewind(self) -> None:
        """Give out every row from the first one again: another source has stood in meanwhile."""
        with self._lock:
            self._forget_rows(delivered=True)

    def spoilt(self) -> None:
        """Note that the server failed over the run's rows: they are left alone for some looks."""
        self._failures += 1
        self._waits = min(16, 2**self._failures)

    def _begin_anew(self) -> None:
        delivered = self._delivered or self._restarted
        self._begin()
        self._restarted = delivered

    def _take_config(self, raw: object) -> None:
        config = config_of(raw)
        if config is not None:
            self._config, self._client, self._config_age = config, client_of(raw), 0
        elif self._config is None:
            self._config = {}

    def _take_summary(self, raw: object, *, whole: bool) -> None:
        found = self._names.numbers(raw)
        if whole and isinstance(raw, str):
            self.row_bytes = self.row_bytes or float(_sent_bytes(raw))
        self._summary = {**self._summary, **found}
        self._notice(found)
        last = found.get(WANDB_STEP)
        if self._ledger.know(_whole_number(last), self.head.lines):
            self._forget_rows(delivered=self._delivered or self._restarted)

    def _take_rows(self, fields: Mapping[str, Any], plan: Plan) -> None:
        if plan.newest is not None and isinstance(raw := fields.get("n"), list):
            self._weigh(raw)
            rows = rows_in(raw, self._names)
            for row in rows:
                self._notice(row)
            self._ledger.take_newest(plan.newest, rows)
            if rows and step_of(rows[-1]) >= step_of(self._summary):
                self._summary.update(rows[-1])
        self._choose()
        for index, page in enumerate(plan.older):
            raw = fields.get(f"p{index}")
            if not isinstance(raw, list):
                break
            rows = rows_of(rows_in(each, self._names) for each in raw) if plan.keyed else []
            if plan.keyed and any(not page.low <= step_of(row) <= page.high for row in rows):
                self._ranged = False  # a server that does not know ranges of steps
                break
            self._ledger.take(page, rows if plan.keyed else rows_in(raw, self._names))
        if plan.points and isinstance(raw := fields.get("d"), list) and raw:
            self._drawn = rows_in(raw[0], self._names)
            self._drawn_at = self._ledger.lines or self._ledger.last or 0

    def _fold(self) -> None:
        """Have the rows that came next in order ready to be given out, and draw them."""
        rows = rated(self._rows(self._ledger.next()), self._keys, self._rate)
        self._columns.add(rows)
        self._ready.extend(rows)
        self._complete_once = self._complete_once or self._ledger.caught_up

    def _weigh(self, raw: list[Any]) -> None:
        """Learn how many bytes a row of this run takes on the way."""
        texts = [each for each in raw if isinstance(each, str)]
        if texts:
            self.row_bytes = sum(map(_sent_bytes, texts)) / len(texts)

    def _notice(self, row: Raw) -> None:
        shape = frozenset(row)
        if shape and (shape in self._shapes or len(self._shapes) < _SHAPES):
            self._shapes[shape] += 1

    def _choose(self) -> None:
        """Find out which name is which; other names mean that every row is read again."""
        shapes = [s for s, seen in self._shapes.items() for _ in range(min(seen, _EACH_SHAPE))]
        keys = choose(shapes, self._spec.metrics, self._keys) if shapes else self._keys
        if keys != self._keys:
            self._keys = keys
            self._forget_rows(delivered=self._delivered or self._restarted)

    def _may_have_rows(self) -> bool:
        return self.head.state in LIVE or self._ledger.behind > 0

    def _wanted(self) -> list[str]:
        keys = self._keys
        named = (
            *SUMMARY_TIME,
            keys.step,
            keys.loss,
            keys.throughput,
            keys.grad_norm,
            *keys.other_names,
        )
        return list(dict.fromkeys(name for name in named if name is not None))

    def _specs(self, page: Page | None) -> list[str]:
        """Return what to ask for so that a page's rows come with the metrics that matter.

        A row that lacks one of a specification's keys is left out: so there is one for each.
        """
        wanted = [name for name in self._wanted() if name not in SUMMARY_TIME]
        sets = [list(SUMMARY_TIME), *([WANDB_STEP, name] for name in wanted)]
        limits = {} if page is None else {
            "minStep": page.low, "maxStep": page.high, "samples": page.most
        }  # fmt: skip
        return [json.dumps({"keys": keys, **limits}) for keys in sets]

    def more(self) -> RowChunk:
        """Return the next chunk of every row (see ``RowChunk``), of those that have come."""
        with self._lock:
            rows = [self._ready.popleft() for _ in range(min(CHUNK_ROWS, len(self._ready)))]
            restarted, self._restarted = self._restarted, False
            self._delivered = self._delivered or bool(rows)
            caught_up = self._ledger.caught_up and not self._ready
            later = not caught_up and not self._ready
            whole = caught_up or (self._complete_once and not self._ledger.holed)
            share = 1.0 if whole and not self._ready else self._ledger.share
            return RowChunk(tuple(rows), caught_up, restarted, share, later)

    def recent(self, most: int) -> RowChunk:
        """Return the newest rows, at most ``most``; ``share`` is the part of the run they cover."""
        with self._lock:
            held = list(self._ledger.recent)[-most:]
            rows = rated(self._rows(held), self._keys, StepRate())
            last = self._ledger.last
            covered = self._ledger.head - step_of(held[0]) if held else 0
            share = min(1.0, covered / (last + 1)) if last else 1.0
            return RowChunk(tuple(rows), True, False, share)

    def _rows(self, raw: Sequence[Raw]) -> list[Row]:
        off = self._look.offset if self._look is not None else 0.0
        rows = [row_of(each, self._keys) for each in raw]
        if not off:
            return rows
        return [row if row.at is None else row._replace(at=row.at - off) for row in rows]

    def value(self, now: float) -> TrackerValue:
        """Return what is known at ``now``."""
        with self._lock:
            held = list(self._ledger.recent)[-RECENT_ROWS:]
            recent, newest = self._rows(held), Row(None, None)
            summary = self._rows([self._summary])[0]
            for raw, row in zip(reversed(held), reversed(recent), strict=True):
                apart = evaluated(raw, row, self._keys)
                newest = older(newest, without_step(row) if apart else row)
            ahead = step_of(self._summary) >= self._ledger.head  # its rows are not read yet
            no_loss_since = newest.step is not None and newest.loss == summary.loss is not None
            if EVALUATION in self._summary and no_loss_since:
                summary = without_step(summary)
            known = older(summary, newest) if ahead else older(newest, summary)
            return self._tracker_value(known, recent, now)

    def _judge_clock(self, came: Came) -> None:
        """Find out how far the trainer's clock is off: no row is newer than its answer.

        One that was not there at the look before is no older than that, but for what it took on
        its way. The heartbeat is no witness: who keeps it does not say how.
        """
        beat = self.head.heartbeat_at
        self._heartbeat = None if beat is None else min(came.at, beat - came.ahead)
        newest = self._ledger.recent[-1] if self._ledger.recent else self._summary
        at = row_of(newest, self._keys).at
        if at is None:
            return  # without a time, or with one that is none
        stamps, former = Stamps(row=at), self._look
        offset = offset_of(stamps, came.at, former)
        if offset < 0.0 and (former is None or (former.stamps.row != at and offset > -SLOW_CLOCK)):
            offset = 0.0  # rows that were sent late, as far as anybody can tell
        self._look = Look(stamps, came.at, offset)

    def _tracker_value(self, known: Row, recent: Sequence[Row], now: float) -> TrackerValue:
        usual, keys = usual_step_seconds(recent), self._keys
        rate, unit = known.throughput, keys.unit
        if keys.throughput is None and usual is not None:
            rate, unit = 1.0 / usual, STEPS_UNIT
        offset = self._look.offset if self._look is not None else 0.0
        share = 1.0 if self._complete_once and not self._ledger.holed else self._ledger.share
        series = Series(self._columns, self._sampled(), recent, share)
        value = TrackerValue(
            id=self.head.name,
            name=self.head.display_name,
            entity=self._entity,
            project=self._project,
            url=self._url(),
            state=self.head.state,
            step=known.step,
            counts_calls=keys.step == WANDB_STEP,
            loss=known.loss,
            throughput=rate,
            throughput_unit=unit,
            grad_norm=known.grad_norm,
            last_step_at=None if known.at is None else min(known.at, now),
            heartbeat_at=self._heartbeat,
            git_commit=self.head.commit,
            producer=self._client,
            scanned=series.share,
            usual_step_s=usual,
            clock_offset_s=offset or None,
            config=self._shown.shown(self._config or {}),
        )
        # A thousand columns of our own making: not validated again.
        return value.model_copy(update={"history": series.points(), "columns": series.columns()})

    def _sampled(self) -> list[Row]:
        held = list(self._ledger.recent)
        return self._rows([*self._drawn, *held[:: 1 + len(held) // POINTS]])

    def _url(self) -> str | None:
        found = self._spec.recorded
        entity, project = self._entity or found.entity, self._project or found.project
        if self._spec.url is not None and "://" in self._spec.url:
            return self._spec.url
        if not entity or not project or not self.head.name:
            return None
        return page_of(self._base_url, entity, project, self.head.name)


def _history(alias: str, page: Page) -> str:
    limits = f"minStep: {page.low}, maxStep: {page.high}, samples: {page.most}"
    return f"{alias}: history({limits})"


def _sent_bytes(text: str) -> int:
    """Return the bytes of a JSON text inside another one: each quote is escaped there."""
    return len(text) + text.count('"') + 4


def _whole_number(value: float | None) -> int | None:
    return int(value) if value is not None and 0 <= value < 2**62 else None
