"""What the verbs share: the run file, the store, and how each kind of trouble ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cockpit.config.file import ConfigError, find, load, store_path
from cockpit.model.base import plain_number
from cockpit.model.report import FleetReport, RunReport, Verdict
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.store.store import EmptyStoreError, Store, StoreError, close_to_others, open_within
from cockpit.text.safe import drawn, terminal_charset
from cockpit.text.scrub import scrub

if TYPE_CHECKING:
    import argparse

OK = 0
ATTENTION = 1
USAGE = 2
BLIND = 3
BLOCKED = 4
INTERRUPTED = 130

NO_FILE = (
    "no cockpit.toml here, in a folder above, or in the user's config folder; "
    "name one with --config FILE, write one with `cockpit init`, or see `cockpit demo`"
)


class UsageError(Exception):
    """The call or the run file is wrong; ``lines`` go to stderr, the exit code is 2."""

    def __init__(self, *lines: str) -> None:
        super().__init__(lines[0])
        self.lines = lines


_SHARED = {
    "run_name": "run_name RUN: the run's name in the run file",
    "runs": "runs RUN: only these runs (default: all)",
    "--config": "--config FILE: the run file"
    " (default: cockpit.toml here or above, else the user's own)",
    "--json": "--json: print JSON instead of a table",
}
_MORE: Mapping[str, Mapping[str, Any]] = {"runs": {"nargs": "*"}, "config": {"type": Path}}


def takes(parser: argparse._ActionsContainer, text: str, **more: Mapping[str, Any]) -> None:
    """Add arguments, one a line: ``NAME METAVAR: help``; names alone are those that verbs share.

    An option without a metavar is a flag. ``more`` is what else argparse is told of one, by name.
    """
    lines = ([line] if ": " in line else line.split() for line in text.strip().splitlines())
    for line in chain.from_iterable(lines):
        named, _, said = _SHARED.get(line, line).partition(": ")
        name, _, metavar = named.partition(" ")
        plain = name.lstrip("-").replace("-", "_")
        told = {**_MORE.get(plain, {}), **more.get(plain, {})}
        if metavar:
            told["metavar"] = metavar
        elif name.startswith("--") and "choices" not in told:
            told["action"] = "store_true"
        parser.add_argument(name, help=said, **told)


def helps(parser: argparse.ArgumentParser, text: str, **more: Mapping[str, Any]) -> None:
    """Add a verb's whole help: what it does, what it ``takes``, and an example."""
    described, options, parser.epilog = text.strip().split("\n\n")
    parser.description = " ".join(described.split())
    takes(parser, options, **more)


def run_file(config: Path | None) -> CockpitFile:
    """Return the run file; raises ``UsageError`` with one line for each thing that is wrong."""
    path = config or find(Path.cwd())
    if path is None:
        raise UsageError(NO_FILE)
    try:
        file = load(path)
    except ConfigError as error:
        raise UsageError(*error.problems) from error
    if not file.runs:
        raise UsageError(f"{path}: no run; expected at least one [[run]] with a name")
    return file


def run_named(file: CockpitFile, name: str) -> RunSpec:
    """Return the run of this name; raises ``UsageError``."""
    found = next((run for run in file.runs if run.name == name), None)
    if found is None:
        names = ", ".join(run.name for run in file.runs)
        raise UsageError(f"{file.path} has no run {name!r}; it has: {names}")
    return found


@contextmanager
def opened_store(*, read_only: bool) -> Iterator[Store | None]:
    """Give the store, closed at the end; ``None`` (said on stderr) if it cannot be used."""
    store = None
    if not read_only and (open_to_others := close_to_others(store_path())) is not None:
        say(open_to_others)
    try:
        store = open_within(store_path(), read_only=read_only)
    except EmptyStoreError:
        pass
    except StoreError as error:
        say(str(error))
    try:
        yield store
    finally:
        if store is not None:
            store.close()


class OutputError(Exception):
    """Standard output takes no more (a full disk); the line says why."""


def is_terminal(*streams: TextIO | None) -> bool:
    """Return whether each of these is a terminal; a closed stream (``<&-``) is not."""
    return all(stream is not None and stream.isatty() for stream in streams)


def check_screen() -> None:
    """Raise ``UsageError`` for a terminal on which nothing can be drawn."""
    term = os.environ.get("TERM", "")
    if term in ("dumb", "unknown"):
        raise UsageError(
            f"TERM={term}: this terminal cannot show the UI; `cockpit check` prints the same state"
        )


def say(line: str) -> None:
    """Print a message for a person: stderr, so that stdout stays what was asked for."""
    write(sys.stderr, f"cockpit: {scrub(line)}\n")


def put(text: str) -> None:
    """Print what was asked for: stdout, at once (a pipe may be reading along), secrets masked."""
    _put(scrub(text))


def put_figures(text: str) -> None:
    """Print text that has no word but ours, among figures: it cannot hold a secret."""
    _put(text)


def _put(text: str) -> None:
    try:
        write(sys.stdout, text + "\n")
    except OSError as error:
        raise output_error(error) from error


def output_error(error: OSError) -> BrokenPipeError | OutputError:
    """Return what a fault of standard output ends a verb with."""
    if isinstance(error, BrokenPipeError):
        return error
    return OutputError(f"standard output cannot be written: {error.strerror}")


def write(stream: TextIO | None, text: str) -> None:
    """Write and flush; a closed stream is silent."""
    if stream is not None:
        stream.write(encoded(stream, text).decode(stream.encoding or "utf-8"))
        stream.flush()


def encoded(stream: TextIO, text: str) -> bytes:
    """Return text as a stream takes it: what its encoding lacks is escaped.

    A terminal whose locale is not UTF-8 gets ASCII, whatever the interpreter believes.
    """
    if not text.isascii() and stream.isatty():
        text = drawn(text, terminal_charset())
    return text.encode(stream.encoding or "utf-8", "backslashreplace")


def print_document(document: dict[str, Any], *, one_line: bool = False) -> None:
    """Print one JSON document on stdout."""
    _put(document_text(document, one_line=one_line))


def put_answer(
    as_json: bool, document: Callable[[], dict[str, Any]], lines: Callable[[], Iterable[str]]
) -> None:
    """Print what was found: one JSON document, or lines; the other one is not even made."""
    if as_json:
        print_document(document())
    else:
        put("\n".join(lines()))


def document_text(document: dict[str, Any], *, one_line: bool = False) -> str:
    """Return one JSON document as standard output takes it."""
    indent = None if one_line else 2
    coding = "" if sys.stdout is None else sys.stdout.encoding or ""
    plain = coding.lower().replace("_", "-") != "utf-8"
    return json.dumps(_finite(document), indent=indent, ensure_ascii=plain, allow_nan=False)


def exit_code(report: FleetReport) -> int:
    """Return INTERFACE's exit code for what was seen: 0, 1 or 3."""
    facets = [facet for run in report.runs for _, facet in run.facets.items()]
    if report.runs and not any(facet.known for facet in facets):
        return BLIND
    return ATTENTION if any(_needs_attention(run) for run in report.runs) else OK


def _finite(value: object) -> object:
    """Return ``value`` as JSON may hold it: odd floats as INTERFACE's string, secrets masked."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, str):
        return scrub(value)
    return plain_number(value) if isinstance(value, float) else value


def _needs_attention(run: RunReport) -> bool:
    unknown = any(facet.configured and not facet.known for _, facet in run.facets.items())
    unknown = unknown or run.rows_unread or run.verdict is Verdict.UNKNOWN
    return unknown or any(a.acknowledged is None and a.severity.rank > 0 for a in run.alerts)
