"""The tables of the run page: facets with their ages, checkpoints, goodput."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from textual.content import Content

from cockpit.model import observed
from cockpit.model.goodput import took
from cockpit.model.lineage import named, newest_of
from cockpit.model.observed import Checkpoint, CheckpointsValue
from cockpit.model.report import RunReport
from cockpit.model.standing import terms_text
from cockpit.model.wording import (
    age,
    clock_off,
    day_time,
    duration,
    glyph,
    number,
    percent,
    rate,
    share,
    size,
    skipped,
    steps,
)
from widgets.painting import facts, rows
from widgets.painting.big import account_of, paint_goodput
from widgets.painting.facts import Freshness, freshness_of
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    cut,
    cut_start,
    in_rows,
    row,
    text,
    that_fit,
    within,
    wrapped,
)
from widgets.scrolled import ReportView

NAME: Final = 13


class FacetTable(ReportView):
    """Each facet's value, age, source and error."""

    HEADING = "sources"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return all facets."""
        return paint_facets(report, self.now, width)


def paint_facets(report: RunReport, now: float, width: int) -> list[Content]:
    """Return all eight facets, those of the run file first."""
    lines = [*_owner(report, width), *_standing(report, now, width)]
    absent: list[str] = []
    for name, facet in report.facets.items():
        if freshness_of(facet, report, now) is Freshness.ABSENT:
            absent.append(name)
            continue
        lines += [EMPTY] if lines else []
        lines += _facet(name, report, now, width)
    if absent:
        lines += [EMPTY, text((f"not in the run file: {', '.join(absent)}", DIM))]
    return within(lines, width)


def _owner(report: RunReport, width: int) -> list[Content]:
    """Return who owns the run where that is not simply who stands in the run file."""
    owner = report.owner
    if owner is None or not (owner.why or owner.differs):
        return []
    head = text((f"{'owner':<{NAME}}", STRONG), owner.name or "?", f", {owner.why}")
    source = cut_start(owner.source, width - head.cell_length - 2)
    lines = [row(head, text((source, DIM)), width, gap=2)]
    if owner.differs is not None:
        act = text((f"{glyph('next')} ", ACCENT), owner.remedy or "")
        for part in (text((owner.differs, "$attention")), act):
            lines += [_under(piece, width) for piece in wrapped(part, width - NAME, 3)]
    return lines


def _standing(report: RunReport, now: float, width: int) -> list[Content]:
    """Return the standing order that is in force, and what it may do."""
    order = report.standing
    if order is None:
        return []
    line = text((f"{'standing':<{NAME}}", STRONG), order.text(now))
    may = text((terms_text(order.terms), DIM))
    return [cut(line, width), *(_under(each, width) for each in wrapped(may, width - NAME, 3))]


def _facet(name: str, report: RunReport, now: float, width: int) -> list[Content]:
    facet = getattr(report.facets, name)
    seen = freshness_of(facet, report, now)
    state = {
        Freshness.FRESH: text((f"{glyph('complete')} {age(facet.age(now))}", "$well")),
        Freshness.STALE: text((f"{glyph('stale')} STALE {age(facet.age(now))}", "$attention")),
        Freshness.UNKNOWN: text(("? UNKNOWN", "$unknown")),
    }[seen]
    head = text((f"{name:<{NAME}}", STRONG), state)
    source = cut_start(facet.source, width - head.cell_length - 2)
    lines = [row(head, text((source, DIM)), width, gap=2)]
    if facet.error is not None:
        since = f" (since {day_time(facet.since, now)})" if facet.since is not None else ""
        why = text((f"{facet.error.kind.value}: ", "$attention"), facet.error.message, (since, DIM))
        lines += [_under(piece, width) for piece in wrapped(why, width - NAME, 3)]
    if facet.value is not None:
        style = DIM if seen is Freshness.STALE else ""
        pairs = (
            text((f"{label} ", DIM), (words, style))
            for label, words in _SUMMARY[name](facet.value, now)
            if words
        )
        lines += [_under(line, width) for line in in_rows(pairs, width - NAME, gap=3)]
    return lines


def _under(line: Content, width: int) -> Content:
    return text(" " * NAME, cut(line, width - NAME))


Pairs = list[tuple[str, str]]


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _job(value: observed.JobValue, now: float) -> Pairs:
    tasks = f"{value.tasks.running}/{value.tasks.total}" if value.tasks is not None else ""
    return [
        ("id", value.id or "?"),
        ("state", value.state),
        ("phase", value.phase.value),
        ("tasks", tasks),
        ("exit", _count(value.exit_code)),
        ("reason", value.reason or ""),
        *value.queue.items(),
        ("expected to start", _at(value.expected_start, now)),
        ("started", _at(value.started_at, now)),
        ("ends by", _at(value.ends_by, now)),
        ("ended", _at(value.ended_at, now)),
        ("restarts", _count(value.restarts)),
        ("launch", value.launch_id or ""),
    ]


def _at(instant: float | None, now: float) -> str:
    return "" if instant is None else day_time(instant, now)


def _log(value: observed.LogValue, now: float) -> Pairs:
    triage = value.triage
    return [
        ("size", size(value.size)),
        ("written", age(now - value.mtime)),
        ("last timestamp", _ago(value.last_line_at, now)),
        ("its clock", clock_off(value.clock_offset_s)),
        ("skipped", skipped(value.skipped)),
        ("cause", f"{triage.name} ({triage.basis}) → {triage.action}" if triage else ""),
        ("read for it", triage.read.why or "" if triage and triage.read else ""),
        ("renamed from", value.moved_from or ""),
        ("other logs", ", ".join(each.path for each in value.others)),
    ]


_ALERTS = 3


def _tracker(value: observed.TrackerValue, now: float) -> Pairs:
    place = "/".join(part for part in (value.entity, value.project, value.id) if part)
    raised = [(each.level, (each.title, each.text or "", _ago(each.at, now)))
              for each in value.alerts[:_ALERTS]]  # fmt: skip
    return [
        ("run", place or "?"),
        ("name", value.name or ""),
        ("state", value.state),
        ("step", steps(value.step)),
        ("loss", number(value.loss)),
        ("rate", rate(value.throughput, value.throughput_unit)),
        ("baseline", rate(value.baseline, value.throughput_unit)),
        ("last step", _ago(value.last_step_at, now)),
        ("last record", _ago(value.last_record_at, now)),
        ("file", _ago(value.file_mtime, now)),
        ("heartbeat", _ago(value.heartbeat_at, now)),
        ("trainer's clock", clock_off(value.clock_offset_s)),
        ("exit", _count(value.exit_code)),
        ("commit", (value.git_commit or "")[:12]),
        ("fragments", str(len(value.fragments)) if len(value.fragments) > 1 else ""),
        ("damaged blocks", str(value.skipped_blocks) if value.skipped_blocks else ""),
        ("read", percent(value.scanned) if value.scanned < 1 else ""),
        *(("note", note) for note in value.notes),
        *((f"trainer's {level}", " · ".join(filter(None, parts))) for level, parts in raised),
    ]


def _ago(instant: float | None, now: float) -> str:
    return "" if instant is None else age(now - instant)


def _checkpoints(value: CheckpointsValue, now: float) -> Pairs:
    pick = value.relaunch_from
    whole = sum(item.complete for item in value.items)
    suspect = sum(item.complete and item.suspect is not None for item in value.items)
    newest = newest_of(item for item in value.items if item.complete and item.own)
    return [
        ("newest complete", "?" if newest is None else named(newest).removeprefix("step ")),
        ("complete", f"{whole} of {len(value.items)}"),
        ("suspect", f"{suspect:,} of {whole:,}" if suspect else ""),
        ("not judged yet", f"{value.unjudged:,}" if value.unjudged else ""),
        ("relaunch takes", f"{named(pick)} ({pick.why})" if pick is not None else "none"),
    ]


def _monitor(value: observed.MonitorValue, now: float) -> Pairs:
    return [
        ("last update", _ago(value.last_update, now) or "?"),
        ("cadence", duration(value.cadence_s)),
        ("owner", value.owner or ""),
        ("restarts", _count(value.restart_count)),
        ("job", value.job_id or ""),
        ("other monitors", ", ".join(each.owner or each.path for each in value.others)),
    ]


def _host(value: observed.HostValue, now: float) -> Pairs:
    disks = [
        f"{disk.mount} {percent(disk.used_frac)}, {size(disk.free)} free" for disk in value.disks
    ]
    error = value.gpus_error
    gpus = str(len(value.gpus)) if value.gpus or error is not None else ""
    return [
        ("disk", "; ".join(disks)),
        ("memory", "" if value.mem_frac is None else percent(value.mem_frac)),
        ("load", "" if value.load is None else f"{value.load:.2f}"),
        ("node", value.out_of_service or ""),
        ("OOM kills", str(value.oom_kills) if value.oom_kills else ""),
        ("accelerators", gpus if error is None else f"{gpus}; {error.message}"),
    ]


def _code(value: observed.CodeValue, now: float) -> Pairs:
    return [
        ("commit", (value.sha or "?")[:12]),
        ("branch", value.branch or ""),
        ("recorded", (value.record_sha or "")[:12]),
        ("changed", ", ".join(value.dirty)),
        ("unpushed", _count(value.unpushed)),
    ]


def _records(value: observed.RecordsValue, now: float) -> Pairs:
    pushed = {True: "yes", False: "no", None: ""}[value.pushed]
    pushed += f": {value.held}" if value.held else ""
    return [
        ("logbook", value.logbook or ""),
        ("last entry", _ago(value.last_entry_at, now)),
        ("pushed", pushed),
        ("issue", value.issue or ""),
    ]


_SUMMARY: Final[dict[str, Callable[[Any, float], Pairs]]] = {
    "job": _job,
    "log": _log,
    "tracker": _tracker,
    "checkpoints": _checkpoints,
    "monitor": _monitor,
    "host": _host,
    "code": _code,
    "records": _records,
}


PROSE: Final = 14
ROOM: Final = 8
NARROW: Final = 46
"""Cells below which a checkpoint's figures stand in no columns: its state and age come first."""


class CheckpointTable(ReportView):
    """All checkpoints, newest first; ``▸`` is the one that a relaunch takes."""

    HEADING = "checkpoints"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the table."""
        return paint_checkpoints(report, self.now, width)

    def note(self) -> Content:
        """Return how many are whole and how much they take."""
        found = self.report.facets.checkpoints.value if self.report is not None else None
        if found is None or not found.items:
            return EMPTY
        complete = sum(item.state.value == "complete" for item in found.items)
        if self.size.width < NARROW:
            return text((f"{complete} of {len(found.items)}", DIM))
        total = sum(item.size or 0 for item in found.items)
        suspect = sum(item.complete and item.suspect is not None for item in found.items)
        doubt = f" · {suspect} suspect" if suspect else ""
        left = f", {found.unjudged:,} not judged yet" if found.unjudged else ""
        counted = f"{complete} of {len(found.items)} complete{left}"
        return text((counted, DIM), (doubt, "$attention"), (f" · {size(total)}", DIM))

    def place(self, lines: int) -> str:
        """Return which checkpoint the cursor is at: remarks above the table are none."""
        found = self.report.facets.checkpoints.value if self.report is not None else None
        items = len(found.items) if found is not None else 0
        at = self.cursor - (lines - items) + 1
        return f"{at:,} of {items:,}" if at > 0 else f"{items:,} in all"


def paint_checkpoints(report: RunReport, now: float, width: int) -> list[Content]:
    """Return the table, or why there is none."""
    facet = report.facets.checkpoints
    found = facet.value
    if found is None:
        return wrapped(rows.unknown(facet), width, 4)
    lines = _warnings(found, width)
    if freshness_of(facet, report, now) is Freshness.STALE:
        seen = rows.stale(age(facet.age(now)))
        lines.insert(0, text(seen, ("  ", DIM), (facts.reason(facet), DIM)))
    for note in found.notes:
        lines += wrapped(text((f"{glyph('warning')} {note}", "$attention")), width, 2)
    if not found.items and not found.unlisted:
        return within([*lines, text(("no checkpoint yet", DIM))], width)
    widest = max((len(facts.step_words(item)) for item in found.items), default=0)
    items = [_item(each, found, widest, now, width) for each in reversed(found.items)]
    titles = f"  {'step':>{widest}}  {'state':<12}{'kind':<5}{'size':>9}{'age':>8}  note"
    head = [text((titles, DIM))] if items and width >= NARROW else []
    return within([*lines, *head, *items], width)


def _warnings(found: CheckpointsValue, width: int) -> list[Content]:
    """Say it where the trainer itself would load another one than a relaunch should."""
    ours, its = found.relaunch_from, found.trainer_would_load
    whole = [item for item in found.items if item.complete]
    if ours is None and whole and not found.unlisted:
        said = f"{glyph('warning')} every complete one is suspect: a relaunch takes none by itself"
        return wrapped(text((said, "$attention")), width, 2)
    if its is None or (ours is not None and ours.path == its.path):
        return []
    taken = "" if ours is None else f"a relaunch takes {named(ours)}, "
    said = f"{glyph('warning')} {taken}the trainer would load {named(its)} instead: "
    return wrapped(text((said, "$attention"), its.why), width, 2)


def _item(
    item: Checkpoint, found: CheckpointsValue, widest: int, now: float, width: int
) -> Content:
    taken = found.relaunch_from is not None and found.relaunch_from.path == item.path
    style = facts.item_style(item)
    word = facts.item_word(item)
    kind = {True: "perm", False: "temp", None: ""}[item.permanent]
    since = item.saved_at if item.saved_at is not None else item.touched_at
    old = age(None if since is None else now - since)
    head = text(
        (f"{glyph('pick')} " if taken else "  ", ACCENT),
        (f"{facts.step_words(item):>{widest}}", STRONG if taken else ""),
        "  ",
    )
    if width < NARROW:
        state = text((f"{glyph(facts.item_state(item))} {word}", style))
        size_of = text((size(item.size), DIM))
        items = [state, text(old), size_of, text((kind, DIM))]
        return cut(text(head, that_fit(items, width - head.cell_length)), width)
    figures = text(
        head,
        (f"{glyph(facts.item_state(item))} {word:<10}", style),
        (f"{kind:<5}", DIM),
        f"{size(item.size):>9}",
        f"{old:>8}",
    )
    room = width - figures.cell_length - 2
    remarks = that_fit(_remarks(item, taken), room, prose=PROSE) if room >= ROOM else ""
    return cut(text(figures, "  ", remarks), width)


def _remarks(item: Checkpoint, taken: bool) -> list[Content]:
    parts = [text(("relaunch", ACCENT))] if taken else []
    parts += [text((item.suspect, "$attention"))] if item.suspect else []
    parts += [text((f"kept: {why}", DIM)) for why in item.protected]
    parts += [text((item.note, DIM))] if item.note else []
    if item.step is not None and item.name_step is not None and item.step != item.name_step:
        parts.append(text((f"named {steps(item.name_step)}", "$attention")))
    return parts


class GoodputPanel(ReportView):
    """A split bar, its legend, and what was lost."""

    HEADING = "goodput"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the account."""
        return paint_goodput(report, width)

    def note(self) -> Content:
        """Return the share, and of how long."""
        found = None if self.report is None else account_of(self.report)
        if found is None or found.share is None:
            return text("")
        watched = took(found.split.wall_s - found.split.unwatched_s)
        return text(share(found.share), (f" of {watched}", DIM))
