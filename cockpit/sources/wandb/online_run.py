"""One run as a W&B server tells it: what is asked for, what came, and the value made of it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from cockpit.model.facet import WANDB
from cockpit.model.observed import Row
from cockpit.model.place import page_of
from cockpit.model.run import WandbSpec
from cockpit.sources import metric_keys
from cockpit.sources.curve_fold import POINTS
from cockpit.sources.file_tracker import Batch, Record, RecordLog
from cockpit.sources.run_rows import About, Newest, RunRows
from cockpit.sources.wandb.fragment import older, without_step
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
    head_of,
    record_of,
    rows_in,
    rows_of,
)
from cockpit.sources.wandb.online_rows import wandb_step as step_of
from cockpit.sources.wandb.server import Document

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
    """What a server has said of one run so far (an ``Adapter``); safe from any thread."""

    reads_on = False

    def __init__(self, spec: WandbSpec, base_url: str) -> None:
        self._spec = spec
        self._base_url = base_url
        self._lock = Lock()
        self._names = Names(spec.metrics)
        self._begun = self._looks = 0
        self._begin()

    def _begin(self) -> None:
        self.head = Head()
        self.row_bytes = 0.0
        self.summary: Raw = {}
        self.answered_at = 0.0
        self._begun += 1
        self._entity: str | None = None
        self._project: str | None = None
        self._ledger = Ledger()
        self._config: dict[str, object] | None = None
        self._client: str | None = None
        self._config_age = self._waits = self._failures = 0
        self._ranged = True
        self._drawn: list[Raw] = []
        self._drawn_at = 0
        self._heartbeat: float | None = None
        self._given = self._complete_once = False

    @property
    def known(self) -> bool:
        """True once the server has said anything of the run."""
        return self.head.name is not None

    @property
    def fresh(self) -> bool:
        """True while no rows were asked for although there are some."""
        return self._ledger.last is not None and not self._ledger.begun

    @property
    def leads(self) -> bool:
        """Whether the summary is newer than every row that was read."""
        return step_of(self.summary) >= self._ledger.head

    def likely_bytes(self) -> float:
        """Return about how many bytes the run's newest rows will take at the next look."""
        ledger = self._ledger
        rows = RECENT if not ledger.recent else min(RECENT, ledger.behind + ledger.growth + 8)
        return rows * self.row_bytes if self._may_have_rows() else 0.0

    def unread(self) -> bool:
        """Tell whether older rows are to be read, and the server has not failed over them."""
        return (self._ledger.unread > 0 or self.fresh) and not self._waits

    def plan(self, newest_bytes: float, older_bytes: float, keys: metric_keys.MetricKeys) -> Plan:
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
            older_each = KEYED_BYTES * len(_specs(keys, None)) if keyed else each
            older = self._ledger.pages(int(older_bytes / older_each))
            lines = self._ledger.lines or self._ledger.last or 0
            unseen = self._ledger.unread > 0 and lines > self._drawn_at * REDRAW
            points = POINTS if newest_bytes > ROOMY else POINTS // 3
            points = points if unseen and keys.loss is not None else 0
            return Plan(not self.summary, config, newest, tuple(older), keyed, points)

    def ask(self, document: Document, plan: Plan, keys: metric_keys.MetricKeys) -> None:
        """Add the run to a query."""
        kept = document.variable("[String!]", _wanted(keys)) if not plan.whole else ""
        parts = [f"summaryMetrics(keys: {kept})" if kept else "summaryMetrics"]
        if plan.config:
            parts.append("config")
        if plan.newest is not None:
            parts.append(_history("n", plan.newest))
        for index, page in enumerate(plan.older):
            if plan.keyed:
                specs = document.variable("[JSONString!]!", _specs(keys, page))
                parts.append(f"p{index}: sampledHistory(specs: {specs})")
            else:
                parts.append(_history(f"p{index}", page))
        if plan.points:
            names = list(dict.fromkeys((metric_keys.WANDB_STEP, keys.step, keys.loss)))
            spec = json.dumps({"keys": names, "samples": plan.points})
            parts.append(f"d: sampledHistory(specs: {document.variable('[JSONString!]!', [spec])})")
        document.add_run(self._spec.recorded.run or "", " ".join(parts))

    def take(self, fields: Mapping[str, Any], plan: Plan, came: Came) -> None:
        """Take in what came."""
        with self._lock:
            head = head_of(fields)
            if None not in (head.created, self.head.created) and head.created != self.head.created:
                self._begin()  # deleted, and made again under the same id
            if self.known and head.state != self.head.state:
                self._config_age = CONFIG_EVERY
            created = head.created or self.head.created
            self.head = head._replace(name=head.name or self._spec.recorded.run, created=created)
            self._entity, self._project = came.entity, came.project
            self._failures = 0
            self._looks += 1
            self.answered_at = came.at
            beat = head.heartbeat_at
            self._heartbeat = None if beat is None else min(came.at, beat - came.ahead)
            self._take_summary(fields.get("summaryMetrics"), whole=plan.whole)
            if plan.config and "config" in fields:
                self._take_config(fields["config"])
            self._take_rows(fields, plan)

    def spoilt(self) -> None:
        """Note that the server failed over the run's rows: they are left alone for some looks."""
        self._failures += 1
        self._waits = min(16, 2**self._failures)

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
        self.summary = {**self.summary, **found}
        if self._ledger.know(_whole_number(found.get(metric_keys.WANDB_STEP)), self.head.lines):
            self._begun += 1

    def _take_rows(self, fields: Mapping[str, Any], plan: Plan) -> None:
        if plan.newest is not None and isinstance(raw := fields.get("n"), list):
            texts = [each for each in raw if isinstance(each, str)]
            if texts:
                self.row_bytes = sum(map(_sent_bytes, texts)) / len(texts)
            rows = rows_in(raw, self._names)
            self._ledger.take_newest(plan.newest, rows)
            if rows and step_of(rows[-1]) >= step_of(self.summary):
                self.summary.update(rows[-1])
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

    def _may_have_rows(self) -> bool:
        return self.head.state in LIVE or self._ledger.behind > 0

    def about(self) -> About:
        """Return what the server has said of the run."""
        with self._lock:
            head = self.head
            return About(
                id=head.name or "",
                name=head.display_name,
                entity=self._entity,
                project=self._project,
                url=self._url(),
                state=head.state,
                producer=self._client,
                files=(),
                mtime=None,
                heartbeat_at=self._heartbeat,
                git_commit=head.commit,
                config=self._config or {},
                identity=self._begun,
                version=self._looks,
            )

    def after(self, cursor: Hashable) -> Batch:
        """Return the rows that have come and were not given out (``None``: from the first on)."""
        with self._lock:
            if cursor is None and self._given:
                self._ledger.rewind()
                self._complete_once = False
            self._given = True
            records = [record_of(each) for each in self._ledger.next()]
            caught_up = self._ledger.caught_up
            self._complete_once = self._complete_once or caught_up
            whole = self._complete_once and not self._ledger.holed
            return Batch(
                records, 1, caught_up, self._ledger.share, later=not caught_up, whole=whole
            )

    def newest(self, count: int) -> tuple[list[Record], float]:
        """Return the newest rows, and the part of the run that they cover."""
        with self._lock:
            held, last = list(self._ledger.recent)[-count:], self._ledger.last
            covered = self._ledger.head - step_of(held[0]) if held else 0
            share = min(1.0, covered / (last + 1)) if last else 1.0
            return [record_of(each) for each in held], share

    def drawn(self) -> list[Record]:
        """Return rows all along the run, and of the newest ones some."""
        with self._lock:
            held = list(self._ledger.recent)
            return [record_of(each) for each in (*self._drawn, *held[:: 1 + len(held) // POINTS])]

    def _url(self) -> str | None:
        found = self._spec.recorded
        entity, project = self._entity or found.entity, self._project or found.project
        if self._spec.url is not None and "://" in self._spec.url:
            return self._spec.url
        if not entity or not project or not self.head.name:
            return None
        return page_of(self._base_url, entity, project, self.head.name)


class ServerLog(RecordLog):
    """The rows that a server has sent; what it says of the newest ones stands in its summary."""

    at_hand = True

    def __init__(self, run: OnlineRun, spec: WandbSpec) -> None:
        super().__init__(WANDB, run, spec.metrics)
        self._run = run

    def newest(self) -> Newest:
        """Return what the newest rows and the summary tell."""
        self._learn([record_of(self._run.summary)])
        counts = self.keys.step == metric_keys.WANDB_STEP
        return super().newest()._replace(record_at=None, counts_calls=counts)

    def sampled(self) -> Sequence[Row]:
        """Return rows that the server has chosen all along the run."""
        return self._plain(self._run.drawn())

    def _known(self, records: Sequence[Record], rows: Sequence[Row]) -> Row:
        keys, newest = self.keys, Row(None, None)
        for record, row in zip(reversed(records), reversed(rows), strict=True):
            apart = not row.trains and metric_keys.evaluates(record.values, keys) and keys.trains
            newest = older(newest, without_step(row) if apart else row)
        (summary,) = self._plain([record_of(self._run.summary)])
        no_loss_since = newest.step is not None and newest.loss == summary.loss is not None
        if EVALUATION in self._run.summary and no_loss_since:
            summary = without_step(summary)
        known = older(summary, newest) if self._run.leads else older(newest, summary)
        return known._replace(at=None if known.at is None else min(known.at, self._run.answered_at))

    def _judge_clock(self, records: Sequence[Record]) -> None:
        """Find out how far the trainer's clock is off: no row is newer than its answer.

        One that was not there at the look before is no older than that, but for what it took on
        its way. The heartbeat is no witness: who keeps it does not say how.
        """
        at = metric_keys.true_time((records[-1] if records else record_of(self._run.summary)).at)
        if at is None:
            return  # without a time, or with one that is none
        former = self._clock
        offset = self._offset(metric_keys.Stamps(row=at), self._run.answered_at)
        if offset < 0.0 and (former is None or (former.stamps.row != at and offset > -SLOW_CLOCK)):
            offset = 0.0  # rows that were sent late, as far as anybody can tell
        assert self._clock is not None
        self._clock, self.offset = self._clock._replace(offset=offset), offset


class ServerRows(RunRows):
    """The rows of a run at a server, and what is asked there."""

    def __init__(self, spec: WandbSpec, base_url: str) -> None:
        self.run = OnlineRun(spec, base_url)
        super().__init__(ServerLog(self.run, spec))

    def plan(self, newest_bytes: float, older_bytes: float) -> Plan:
        """Return what to ask for; no older rows while many wait to be given out."""
        room = older_bytes if self.waiting < READ_AHEAD else 0.0
        return self.run.plan(newest_bytes, room, self.keys)

    def ask(self, document: Document, plan: Plan) -> None:
        """Add the run to a query."""
        self.run.ask(document, plan, self.keys)


def _wanted(keys: metric_keys.MetricKeys) -> list[str]:
    named = (
        *SUMMARY_TIME, keys.step, keys.loss, keys.throughput, keys.grad_norm, *keys.other_names,
    )  # fmt: skip
    return list(dict.fromkeys(name for name in named if name is not None))


def _specs(keys: metric_keys.MetricKeys, page: Page | None) -> list[str]:
    """Return what to ask for so that a page's rows come with the metrics that matter.

    A row that lacks one of a specification's keys is left out: so there is one for each.
    """
    wanted = [name for name in _wanted(keys) if name not in SUMMARY_TIME]
    sets = [list(SUMMARY_TIME), *([metric_keys.WANDB_STEP, name] for name in wanted)]
    limits = {} if page is None else {
        "minStep": page.low, "maxStep": page.high, "samples": page.most
    }  # fmt: skip
    return [json.dumps({"keys": keys, **limits}) for keys in sets]


def _history(alias: str, page: Page) -> str:
    limits = f"minStep: {page.low}, maxStep: {page.high}, samples: {page.most}"
    return f"{alias}: history({limits})"


def _sent_bytes(text: str) -> int:
    """Return the bytes of a JSON text inside another one: each quote is escaped there."""
    return len(text) + text.count('"') + 4


def _whole_number(value: float | None) -> int | None:
    return int(value) if value is not None and 0 <= value < 2**62 else None
