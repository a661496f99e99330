"""``cockpit plot``: curves of a run as text, as SVG or as JSON, for scripts and chats."""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cockpit.model.base import rfc3339
from cockpit.model.clock import SystemClock
from cockpit.model.curve import GRAD_NORM, LOSS, THROUGHPUT, Curve, Curves, Part, Span, why_empty
from cockpit.model.observed import Row
from cockpit.model.place import place_of
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec, WandbSpec
from cockpit.sources.curve_fold import MOST_ASKED, CurveFold
from cockpit.sources.curves import CurveReading, RowFile
from cockpit.text.safe import clean
from cockpit.verbs.check import checked
from cockpit.verbs.common import (
    BLIND,
    OK,
    UsageError,
    helps,
    print_document,
    put,
    run_file,
    run_named,
    say,
)
from cockpit.verbs.plot_chart import LEAST, ChartEvent, Picture, charts, svg
from cockpit.verbs.reading import (
    STDIN,
    history_name,
    holds_rows,
    is_history,
    opened,
    say_left_out,
    write_picture,
)
from cockpit.watch.asking import real_trackers

HEIGHT: Final = 18
WIDEST: Final = 400
_STEPS: Final = re.compile(r"(\d*):(\d*)")
"""Such as ``1000:2000``."""
_ITEMS: Final = {"complete": "checkpoint", "incomplete": "torn checkpoint",
                 "rejected": "rejected checkpoint"}  # fmt: skip


HELP = """
Draws metrics of a run by step or by time: what is meant (loss, throughput, "grad norm", "learning
rate") or as it is logged (eval/accuracy); the loss if none is named. Checkpoints, restarts and open
alerts of a run stand below. A path needs no run file: a .wandb file, a W&B run's folder, or JSON
lines. Exit code: 0 drawn, 3 no curve can be read.

what RUN|PATH: a run of the run file, or a history
metrics METRIC: default: loss
--steps A:B: only these steps; either may be left out
--since STEP: from this step on
--x: the axis
--log: a logarithmic axis of values
--width N: width in columns (default: the terminal's)
--height N: height of a chart in rows
--svg FILE: write a picture instead; - prints it
--config --json

example: cockpit plot my-run loss "grad norm" --steps 1000:2000 --svg loss.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``plot`` takes."""
    helps(
        parser,
        HELP,
        metrics={"nargs": "*"},
        since={"type": int},
        x={"choices": ("step", "time"), "default": "step"},
        width={"type": int},
        height={"type": int, "default": HEIGHT},
    )


def run(args: argparse.Namespace) -> int:
    """Read and draw; return 0, or 3 where no curve can be read. Raises ``UsageError``."""
    metrics = tuple(dict.fromkeys(clean(each, 200) for each in args.metrics if each)) or (LOSS,)
    if len(metrics) > MOST_ASKED:
        raise UsageError(f"{len(metrics)} metrics are too many; expected at most {MOST_ASKED}")
    width = max(LEAST, min(WIDEST, args.width or shutil.get_terminal_size((80, 24)).columns))
    span = _span(args, 2 * width)
    name, found, marks = _curves_of(args, metrics, span)
    picture = Picture(metrics, found.curves, marks, args.x == "time", args.log)
    known = any(curve.parts for curve in found.curves)
    if args.svg is not None and known:
        _write(args.svg, svg(name, picture, width * 8, max(6, args.height) * 16))
    if args.json:
        print_document(_document(name, found, picture))
    elif args.svg is None:
        put("\n".join(charts(picture, width, max(6, min(200, args.height)))))
    elif not known:
        say("; ".join(why_empty(each, picture.by_time) for each in found.curves))
    return OK if known else BLIND


def _span(args: argparse.Namespace, most: int) -> Span:
    """Return what is asked for; raises ``UsageError``."""
    if args.steps is None:
        return Span(low=args.since, most=most)
    told = _STEPS.fullmatch(args.steps)
    if told is None or args.since is not None:
        raise UsageError(f"--steps {clean(args.steps)}: expected A:B (1000:2000), and no --since")
    low, high = (int(each) if each else None for each in told.groups())
    if low is not None and high is not None and low > high:
        raise UsageError(f"--steps {args.steps}: {low} is after {high}; expected A:B with A before")
    return Span(low=low, high=high, most=most)


def _curves_of(
    args: argparse.Namespace, metrics: Sequence[str], span: Span
) -> tuple[str, Curves, tuple[ChartEvent, ...]]:
    """Return whose curves they are, the curves, and what happened to the run.

    No event loop runs where nothing waits on one: it would keep Ctrl-C.
    """
    what = args.what
    if is_history(what):
        name = history_name(what)
        if holds_rows(what):
            with opened(what) as file:
                rows = RowFile(file, every=None)
                found = _of_rows(rows, metrics, span)
            say_left_out(rows)
            return name, found, ()
        spec = RunSpec(name=name, wandb=WandbSpec(dir=place_of(what)))
        return name, asyncio.run(read(spec, metrics, span)), ()
    return asyncio.run(_of_run(args, metrics, span))


async def _of_run(
    args: argparse.Namespace, metrics: Sequence[str], span: Span
) -> tuple[str, Curves, tuple[ChartEvent, ...]]:
    """Return the curves of a run of the run file, and what happened to it."""
    what = args.what
    file = run_file(args.config)
    spec = run_named(file, what)
    found = await read(spec, metrics, span)
    report = await _checked(file, what)
    if report is None:
        return what, found, ()
    return what, _with_log(found, report, metrics, span), tuple(marks_of(report))


async def read(spec: RunSpec, metrics: Sequence[str], span: Span) -> Curves:
    """Return the curves once they are read, or as far as they can be (``Curve.share``)."""
    clock = SystemClock()
    trackers = real_trackers(clock)
    await trackers.settle(spec)
    reading, far = CurveReading(trackers, clock), -1.0
    while True:
        found = await reading.curves(spec, metrics, span)
        so_far = sum(curve.share for curve in found.curves)
        if so_far >= len(found.curves) or so_far <= far:
            return found
        far = so_far


async def _checked(file: CockpitFile, name: str) -> RunReport | None:
    """Return the run as it is; ``None``, said on stderr, where it cannot be inspected."""
    try:
        return (await checked(file, [name], SystemClock())).runs[0]
    except (TimeoutError, OSError) as error:
        say(f"checkpoints and alerts are not marked: {clean(error)}")
        return None


def marks_of(report: RunReport) -> list[ChartEvent]:
    """Return checkpoints and open alerts by their step and time, as far as those are known."""
    saved = report.facets.checkpoints.value
    found = [
        ChartEvent(_ITEMS[each.state.value], "", each.step, each.saved_at)
        for each in (() if saved is None else saved.items)
        if each.state.value in _ITEMS
    ]
    for alert in report.alerts:
        step = None if alert.span is None else alert.span.opened_step
        found.append(ChartEvent("alert", alert.id, step, alert.since))
    return found


def _with_log(found: Curves, report: RunReport, metrics: Sequence[str], span: Span) -> Curves:
    """Return the curves; those that no tracker knows from the log's last lines, said so."""
    log = report.facets.log.value
    if log is None or not log.rows or any(curve.parts for curve in found.curves):
        return found
    read_there = _of_rows(log.rows, metrics, span).curves
    curves = tuple(
        other._replace(note="the log's last lines") if other.parts else curve
        for curve, other in zip(found.curves, read_there, strict=True)
    )
    return found._replace(curves=curves)


def _of_rows(rows: Iterable[Row], metrics: Sequence[str], span: Span) -> Curves:
    """Return the three metrics that rows have."""
    folds = {each: CurveFold() for each in (LOSS, THROUGHPUT, GRAD_NORM)}
    for row in rows:
        values = (LOSS, row.true_loss), (THROUGHPUT, row.throughput), (GRAD_NORM, row.grad_norm)
        for name, value in values:
            if row.step is not None and value is not None:
                folds[name].add(row.step, row.at, value)
    there = tuple(name for name, fold in folds.items() if fold.rows)
    why = f"no such metric in these rows; they have: {', '.join(there) or 'none'}"
    curves = (
        folds[each].curve(each, None, span, 1.0) if each in there else Curve(each, why=why)
        for each in metrics
    )
    return Curves(there, tuple(curves))


def _write(name: str, text: str) -> None:
    if name == STDIN:
        put(text)
    else:
        write_picture("--svg", name, text)


def _document(name: str, found: Curves, picture: Picture) -> dict[str, Any]:
    pairs = zip(picture.metrics, found.curves, strict=True)
    return {
        "schema": 1,
        "run": name,
        "x": "time" if picture.by_time else "step",
        "names": list(found.names),
        "curves": [_curve(asked, curve) for asked, curve in pairs],
        "marks": [each._asdict() | {"at": _instant(each.at)} for each in picture.marks],
    }


def _curve(asked: str, curve: Curve) -> dict[str, Any]:
    newest = curve.newest
    return {
        "metric": asked,
        "logged": curve.metric,
        "unit": curve.unit,
        "rows": curve.rows,
        "read": curve.share,
        "newest": None if newest is None else newest._asdict() | {"at": _instant(newest.at)},
        "nonfinite_since": None if curve.broken is None else curve.broken.step,
        "restarts": [{"step": each.step, "at": _instant(each.at)} for each in curve.restarts],
        "parts": [_part(each) for each in curve.parts],
        "before_restarts": [_part(each) for each in curve.former],
        "note": curve.note or None,
        "why": curve.why or None,
    }


def _part(part: Part) -> dict[str, Any]:
    return part._asdict() | {"begin": _instant(part.begin), "end": _instant(part.end)}


def _instant(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
