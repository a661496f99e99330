"""``cockpit backtest``: which alerts a whole history would have raised, and when."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from cockpit.config.build import build
from cockpit.model.base import parse_duration, rfc3339
from cockpit.model.clock import SystemClock
from cockpit.model.observed import Column, Row
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec, Thresholds, WandbSpec
from cockpit.model.wording import moment, percent
from cockpit.model.wording import step as told_step
from cockpit.rules.replay import NOT_REPLAYED, Happened, Replay
from cockpit.sources.curve_fold import LossColumns, RowChunk, unreadable
from cockpit.sources.curves import RowFile
from cockpit.sources.file_tracker import problem
from cockpit.sources.logs.stamp import read_rows
from cockpit.sources.run_folders import BadFileError
from cockpit.sources.wandb.run_files import read_run
from cockpit.text.progress_lines import Nesting
from cockpit.text.safe import clean
from cockpit.verbs.backtest_chart import Span, chart, page
from cockpit.verbs.common import (
    OK,
    UsageError,
    helps,
    print_document,
    put,
    run_file,
    run_named,
    say,
)
from cockpit.verbs.reading import (
    history_name,
    holds_rows,
    is_history,
    opened,
    raw_lines,
    say_left_out,
    write_picture,
)
from cockpit.watch.asking import real_trackers

CADENCE: Final = 900.0
REAL_TIMES: Final = 86_400.0 * 365
"""Times before this (s) are counted from a history's first row: its rows tell none."""
BATCH: Final = 2000
WIDEST: Final = 200
"""Columns of a picture at most."""
UNTIMED: Final = "; its rows have no time: go by the steps"


HELP = """
Replays the rules over every logged row of a history as if live, and says what would have opened and
closed, at which step and when. A path needs no run file: a .wandb file, a W&B run's folder, or JSON
lines {step, loss, grad_norm?, lr?, batch_size?, throughput?, time?}; other keys count where they
have a limit (MFU, eval loss). Exit code: 0 replayed, 2 nothing to replay.

what RUN|PATH: a run of the run file, or a history
--log FILE: the run's log: its rows are replayed too
--final-step N: the step at which training ends (also for a path)
--cadence D: how often it is watched (default: 15m)
--set THRESHOLD=VALUE: a figure of [run.thresholds], as the run file would have it (repeatable)
--html FILE: write curve and alerts as one page that needs nothing else
--curve: with --json: the loss too, as [first step, last, lowest, highest, mean, non-finite]
--config --json

example: cockpit backtest wandb/run-x/run-abc.wandb --set loss_spike=0.3 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``backtest`` takes."""
    helps(parser, HELP, final_step={"type": int}, set={"action": "append", "default": []})


def run(args: argparse.Namespace) -> int:
    """Replay and print; return 0. Raises ``UsageError``."""
    named = None if is_history(args.what) else run_named(run_file(args.config), args.what)
    spec = _with_settings(named or RunSpec(name=history_name(args.what), cadence=CADENCE), args)
    found = Backtest(spec, draws=not args.json or args.curve or args.html is not None)
    _replay(args.what, found, named=named is not None)
    log = args.log or (_own_log(spec) if named is not None and not found.rows else None)
    happened = found.replay.ended() if log is None else _with_log(log, spec, found)
    if not found.rows:
        why = f"cannot be read ({found.unread})" if found.unread else "holds no logged rows"
        raise UsageError(f"{clean(args.what, 4096)} {why}: nothing to replay")
    if found.unread:
        say(f"rows of its tracker are missing here, they cannot be read: {found.unread}")
    document = _document(spec, happened, found)
    if args.html is not None:
        write_picture("--html", args.html, page(document, found.columns()))
    if args.json:
        curve = {"curve": [list(each) for each in found.columns()]} if args.curve else {}
        print_document({**document, **curve}, one_line=args.curve)
    else:
        put("\n".join(_report_lines(happened, found)))
    return OK


class Backtest:
    """A history as it is replayed, and what is drawn of it: both bounded in memory."""

    def __init__(self, spec: RunSpec, *, draws: bool) -> None:
        self.spec = spec
        self.unread = ""
        """Why the rest of the tracker's rows could not be read, if it could not."""
        self._draws = draws
        self.begin()

    def begin(self) -> None:
        """Begin, or begin again: the rows come from the first one on."""
        self.replay = Replay(self.spec)
        self._curve = LossColumns()
        self.began: float | None = None

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows in logged order."""
        rows = iter(rows)
        while batch := list(islice(rows, BATCH)):
            self.replay.extend(batch)
            if self._draws:
                self._curve.add(batch)
            if self.began is None:
                self.began = next((row.at for row in batch if row.at is not None), None)

    def take(self, chunk: RowChunk) -> None:
        """Take a chunk of a tracker's rows."""
        if chunk.restarted:
            self.begin()
        self.add(chunk.rows)
        self.unread = chunk.unread

    @property
    def rows(self) -> int:
        """How many rows were replayed."""
        return self.replay.rows

    def columns(self) -> Sequence[Column]:
        """Return the loss over the steps."""
        return self._curve.columns()


def _own_log(spec: RunSpec) -> str | None:
    """Return the run's own log where it can be read here: its rows are all that there are."""
    log = None if spec.job is None else spec.job.log
    return log.path if log is not None and log.here else None


def _with_settings(spec: RunSpec, args: argparse.Namespace) -> RunSpec:
    """Return the run with what the call says of it; raises ``UsageError``."""
    changes: dict[str, Any] = {}
    if args.cadence is not None:
        try:
            changes["cadence"] = parse_duration(args.cadence)
        except ValueError as error:
            raise UsageError(f"--cadence {args.cadence}: {clean(error)}") from error
    if args.final_step is not None:
        changes["final_step"] = args.final_step
    if args.set:
        told = spec.thresholds.model_dump(exclude_unset=True) | _settings(args.set)
        changes["thresholds"] = _thresholds(told)
    return spec.model_copy(update=changes)


def _settings(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise UsageError(f"--set {clean(word)}: expected THRESHOLD=VALUE (loss_spike=0.3)")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
    return found


def _thresholds(told: Mapping[str, Any]) -> Thresholds:
    """Return the thresholds, checked as in a run file; raises ``UsageError`` for what is wrong."""
    built = build({"run": [{"name": "history", "thresholds": dict(told)}]}, Path("cockpit.toml"))
    if isinstance(built, list):
        lines = (f"--set {each.path[-1]}: {clean(each.text)}" for each in built)
        raise UsageError(*lines)
    return built.runs[0].thresholds


def _replay(what: str, found: Backtest, *, named: bool) -> None:
    """Replay a history; no event loop runs where nothing waits on one: it would keep Ctrl-C."""
    if not named and holds_rows(what):
        with opened(what) as file:
            rows = RowFile(file, own=tuple(each.metric for each in found.spec.limit))
            found.add(rows)
        say_left_out(rows)
        return
    spec, place = found.spec, None if named else place_of(what)
    if place is not None and place.here:
        for chunk in _chunks_here(WandbSpec(dir=place)):
            found.take(chunk)
        return
    run = spec if place is None else spec.model_copy(update={"wandb": WandbSpec(dir=place)})
    asyncio.run(_take_all(run, found))


def _chunks_here(spec: WandbSpec) -> Iterator[RowChunk]:
    """Yield the rows of files on this machine, read by the thread that takes them.

    Rows that go from one processor's cache to another's cost a tenth of all that a replay does.
    """
    files = read_run(spec)
    files.draws = False
    while True:
        try:
            chunk = files.more()
        except (OSError, BadFileError) as error:
            chunk = unreadable(problem(error, spec.dir)[1])
        yield chunk
        if chunk.caught_up or chunk.unread:
            return


async def _take_all(run: RunSpec, found: Backtest) -> None:
    """Take a tracker's rows from the first on."""
    source = real_trackers(SystemClock())
    while True:
        try:
            chunk = await source.more_rows(run)
        except (OSError, ValueError) as error:
            raise UsageError(f"its rows cannot be read: {clean(error)}") from error
        found.take(chunk)
        if chunk.caught_up or chunk.later or chunk.unread:
            return


def _with_log(name: str, spec: RunSpec, found: Backtest) -> list[Happened]:
    """Return what happened by the tracker's rows and by the log's own, each cause once.

    The log may tell what the tracker never got: the last loss before the end. A history that
    has no other rows is the log's.
    """
    own = found if not found.rows else Backtest(spec, draws=False)
    told = found.replay.ended()
    with opened(name) as file:
        mtime = os.fstat(file.fileno()).st_mtime
        lines, nesting = raw_lines(file), Nesting()
        while batch := list(islice(lines, BATCH)):
            states = [line.rstrip(b"\n") for line in batch]
            rows = read_rows(states, mtime, None, True, own.replay.step, nesting=nesting)
            own.add(row._replace(at=None) if row.at == mtime else row for row in rows)
    known = {each.alert.key for each in told}
    return [*told, *(each for each in own.replay.ended() if each.alert.key not in known)]


def _document(spec: RunSpec, happened: Sequence[Happened], found: Backtest) -> dict[str, Any]:
    return {
        "schema": 1,
        "run": spec.name,
        "steps": found.rows,
        "last_step": found.replay.step,
        "final_step": spec.final_step,
        "timed": found.began is not None and found.began >= REAL_TIMES,
        "not_replayed": list(NOT_REPLAYED),
        "left_out": found.replay.left_out,
        "set_aside": found.replay.set_aside,
        "alerts": [_alert(each) for each in happened],
    }


def _alert(each: Happened) -> dict[str, Any]:
    told = each.alert.to_json()
    return {
        **{name: told[name] for name in ("id", "key", "severity", "title")},
        "opened_step": each.opened_step,
        "opened_at": None if each.opened_at is None else rfc3339(each.opened_at),
        "closed_step": each.closed_step,
        "closed_at": None if each.closed_at is None else rfc3339(each.closed_at),
        "closed": each.over,
        "evidence": told["evidence"],
    }


def _report_lines(happened: Sequence[Happened], found: Backtest) -> list[str]:
    """Return for a person: each alert on a line, how much was replayed, and its picture."""
    lines = [_alert_line(each) for each in happened]
    replay, final = found.replay, found.spec.final_step
    if replay.left_out:
        lines.append(f"{replay.left_out:,} more are not listed")
    if replay.set_aside:
        lines.append(f"{replay.set_aside:,} rows of a second writer, by turns with the first")
    rows = f"{found.rows:,} rows, up to step {told_step(replay.step)}"
    if final:
        rows += f" of {told_step(final)} ({percent((replay.step or 0) / final)})"
    if found.began is None or found.began < REAL_TIMES:
        rows += UNTIMED
    spans = [
        Span(each.alert.id, each.opened_step or 0, each.closed_step if each.over else None)
        for each in happened
    ]
    width = min(WIDEST, shutil.get_terminal_size().columns)
    picture = chart(found.columns(), spans, width)
    return [*(lines or ["no alert would have opened"]), rows, *picture]


def _alert_line(each: Happened) -> str:
    until = f"step {told_step(each.closed_step)}" if each.over else "open"
    at = each.opened_at or 0.0
    when = f"  {moment(at)}" if at >= REAL_TIMES else ""
    span = f"step {told_step(each.opened_step)} → {until}"
    return f"{each.alert.id}  {span}{when}  {each.alert.title}"
