"""``cockpit progress``: step, loss and rate read from a log (INTERFACE ``progress --json``)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import count, islice, repeat
from math import isfinite
from typing import Final

from cockpit.model.base import plain_number
from cockpit.model.wording import number, rate
from cockpit.model.wording import steps as counted
from cockpit.text.labels import Scope
from cockpit.text.progress import LineProgress, progress_columns
from cockpit.text.progress_lines import ProgressAt, Run, read_runs, without_inner_bars
from cockpit.verbs.common import OK, helps, put, put_figures
from cockpit.verbs.reading import opened_log, whole_chunks

AT_ONCE: Final = 500
"""Entries that are printed together."""


HELP = """
Finds the training progress lines of a run's log, or of a file, and reads step, maximum, loss and
rate from them. Rounded values are never given as exact; evaluations, downloads and resumes are not
progress. With --json one entry per line, as a list. Exit code: 0, also for a log without progress,
2 no such file.

file RUN|FILE: a run, or a log, compressed or not; - reads stdin
--config --json

example: cockpit progress run.log --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``progress`` takes."""
    helps(parser, HELP)


def run(args: argparse.Namespace) -> int:
    """Read and print as it goes; return 0. Raises ``UsageError`` for what cannot be read."""
    with opened_log(args.file, args.config) as file:
        found = without_inner_bars(read_runs(whole_chunks(file)))
        if args.json:
            _print_list(found)
        else:
            put("\n".join(_summary(found)))
    return OK


def _print_list(found: Iterable[ProgressAt | Run]) -> None:
    """Print the entries as one JSON list, some at a time: a log may be long.

    Nothing of a log's own words is in them: figures, and words of ours for what they are.
    """
    begin, held = "[", list[str]()
    for one in found:
        held += _entries(one) if isinstance(one, Run) else (_entry(*one),)
        if len(held) >= AT_ONCE:
            put_figures(begin + ",\n".join(held))
            begin, held = ",", []
    put_figures((begin + ",\n".join(held) if held else begin[begin == "," :]) + "]")


def _entries(run: Run) -> list[str]:
    """Return the JSON of lines of one shape; all at once where their figures are plain."""
    plain = progress_columns(run.meaning, run.columns)
    if plain is None:
        return [_entry(*each) for each in run.progress()]
    meaning, none = run.meaning, repeat("null")
    words = _json_template(meaning.format, meaning.scope, plain.unit, exact=True)
    words %= ("%s", "%s", "null", "%s", "null", "%s", "%s")
    columns = [none if each is None else each for each in plain[:4]]
    numbers = count(run.first, run.stride)
    rows: Iterable[tuple[object, ...]] = islice(zip(numbers, *columns, strict=False), run.lines)
    return list(map(words.__mod__, rows))


def _entry(line: int, told: LineProgress) -> str:
    """Return one entry's JSON, several times as fast as ``json`` does."""
    _, step, exact, shown, most, most_shown, _, loss, rate, _, *_ = told
    words = _json_template(told.format, told.scope, told.unit, exact)
    if loss is not None and not isfinite(loss):
        loss_text = f'"{plain_number(loss)}"'
    else:
        loss_text = "null" if loss is None else repr(loss)
    return words % (
        line,
        "null" if step is None else step,
        "null" if shown is None else f'"{shown}"',
        "null" if most is None else most,
        "null" if most_shown is None else f'"{most_shown}"',
        loss_text,
        "null" if rate is None else repr(rate),
    )


@lru_cache(maxsize=256)
def _json_template(form: str, scope: Scope, unit: str | None, exact: bool) -> str:
    """Return an entry of lines that differ in their figures alone, as ``%`` takes it."""
    fields = LineProgress(form, scope=scope, unit=unit, step_exact=exact).to_json()
    text = json.dumps({"line": None, **fields}).replace("%", "%%")
    figures = ("line", "step", "step_shown", "max_step", "max_shown", "loss", "throughput")
    for name in figures:
        text = text.replace(f'"{name}": null', f'"{name}": %s')
    return text


def _summary(found: Iterable[ProgressAt | Run]) -> list[str]:
    """Return for a person: how many progress lines, and what the last one says."""
    lines, last = 0, None
    for each in found:
        if not isinstance(each, Run):
            lines, last = lines + 1, each
        elif progress_columns(each.meaning, each.columns) is not None:
            lines, (last,) = lines + each.lines, each.progress(each.lines - 1)
        else:
            one_by_one = list(each.progress())
            lines, last = lines + len(one_by_one), (*one_by_one[-1:], last)[0]
    if last is None:
        return ["no training progress lines found"]
    line, told = last
    return [f"line {line}: {progress_text(told)}", f"{lines:,} progress lines"]


def progress_text(progress: LineProgress) -> str:
    """Return one line's progress in words: ``step 4,600 of 5,155, loss 2.31, 34.5 s/it``."""
    if progress.step is not None:
        step = counted(progress.step)
    else:
        step = "?" if progress.step_shown is None else f"~{progress.step_shown}"
    most = progress.max_shown if progress.max_step is None else counted(progress.max_step)
    what = {"run": "step", "epoch": "step of an epoch", "epochs": "epoch"}[progress.scope]
    parts = [f"{what} {step}" + ("" if most is None else f" of {most}")]
    if progress.loss is not None:
        parts.append(f"loss {number(progress.loss)}")
    if progress.throughput is not None:
        parts.append(rate(progress.throughput, progress.unit))
    return ", ".join(parts)
