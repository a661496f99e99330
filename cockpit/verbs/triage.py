"""``cockpit triage``: why a log ended, in one class, and what to do about it (SPEC T)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.config.file import ConfigError, load_signatures
from cockpit.model.logtext import PresentLog, Read
from cockpit.model.observed import Triage
from cockpit.model.own_rules import SignatureSpec
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.rules.triage.classify import STATE_CLASS, diagnose
from cockpit.rules.triage.signs import own_signs, spoken
from cockpit.rules.triage.speakers import speaker_of
from cockpit.sources.logs.file import show
from cockpit.sources.logs.present import read_stream
from cockpit.text.safe import clean
from cockpit.verbs.common import OK, UsageError, helps, put_answer
from cockpit.verbs.reading import log_of, opened, run_meant

UNKNOWN: Final = "unknown"
STATES: Final = (UNKNOWN, "running", "failed", "succeeded", "cancelled", "pending", *STATE_CLASS)
"""A job's phase, or the orchestrator's own word where that tells more."""
UNSAID: Final = "whether the job has ended is not known: say --state, or --exit-code"


HELP = """
Reads a job's log and says what ended it: one class, one action, and the lines that it rests on. The
same text needs another action while the job still runs: of a run that is asked, of a file say it.
Of a long log the newest 20,000 lines (4 MB) count. Exit code: 0 whatever the class, 2 no such file
or log.

file RUN|FILE: a run, or a log, compressed or not; - reads stdin
--state: the job's state now, or its orchestrator's own word (default: by the exit status; without \
one unknown, and no relaunch is advised)
--exit-code N: the job's exit status, where it is known
--signatures FILE: signatures of your own that count here: a file of [[signature]], or a run file
--config --json

example: cockpit triage slurm-4711.out --state failed --exit-code 1 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``triage`` takes."""
    helps(parser, HELP, state={"choices": STATES}, exit_code={"type": int})


def run(args: argparse.Namespace) -> int:
    """Read, judge, print; return 0. Raises ``UsageError`` for a log that cannot be read."""
    meant = run_meant(args.file, args.config)
    if meant is not None:
        if args.state or args.signatures or args.exit_code is not None:
            raise UsageError(f"{args.file} is a run: its job's state and its signatures are known")
        return _of_run(*meant, args.json)
    own = () if args.signatures is None else _own(Path(args.signatures))
    with opened(args.file) as file:
        text = read_stream(file)
    state = args.state or _state_by_exit(args.exit_code)
    found = _shown(diagnose(text, state, args.exit_code, own=own))
    return _print(found, text, args.json, [UNSAID] if state == UNKNOWN else [])


def _of_run(file: CockpitFile, spec: RunSpec, as_json: bool) -> int:
    """Print what a check finds of the run's own job; what it has judged already stands."""
    from cockpit.watch.diagnoser import diagnosed, read_log  # a file needs no engine

    with log_of(file, spec) as (job, log, place):
        if job is None:
            raise UsageError(f"{spec.name}: its job's state is unknown; name the log and --state")
        text, _ = read_log(place, job, log)
    return _print(log.triage or diagnosed(spec, job, text, None), text, as_json)


def _print(found: Triage, text: PresentLog, as_json: bool, more: Sequence[str] = ()) -> int:
    document = {"schema": 1, **found.to_json()}
    put_answer(as_json, lambda: document, lambda: [*_answer_lines(found, text), *more])
    return OK


def _own(path: Path) -> tuple[SignatureSpec, ...]:
    """Return the signatures of a file; raises ``UsageError`` for one that would count nowhere."""
    try:
        found = load_signatures(path, "named by --signatures")
    except ConfigError as error:
        raise UsageError(*error.problems) from error
    for row, sign in zip(found, own_signs(found), strict=True):
        for line in row.examples:
            speaker = speaker_of(line)
            if speaker not in sign.speakers:
                raise UsageError(
                    f"{clean(path)}: {clean(row.pattern, 80)}: this example is read as {speaker},"
                    f" whose lines do not count here: {clean(line, 80)};"
                    f' set speaker = "{spoken(speaker)}"'
                )
    return found


def _state_by_exit(exit_code: int | None) -> str:
    if exit_code is None:
        return UNKNOWN
    return "succeeded" if exit_code == 0 else "failed"


def _shown(found: Triage) -> Triage:
    """Return the answer with its lines made safe to print."""
    lines = tuple(
        line.model_copy(update={"text": show(line.text.encode("utf-8", "replace")).plain})
        for line in found.evidence
    )
    return found.model_copy(update={"evidence": lines})


def _answer_lines(found: Triage, text: PresentLog) -> list[str]:
    """Return the answer for a person: what, how sure, where, on which lines, of how much."""
    lines = [f"{found.name}: {found.action} ({found.basis})"]
    if found.code_location is not None:
        place = found.code_location
        lines.append(
            f"at {clean(place.file, 400)}" + ("" if place.line is None else f":{place.line}")
        )
    if found.step is not None:
        lines.append(f"last step in the log: {found.step}")
    for each in found.evidence:
        lines.append(f"  {'?' if each.line is None else each.line:>8}  {each.text}")
    return [*lines, _read(text.read)]


def _read(read: Read) -> str:
    what = f"read: {read.lines:,} lines"
    return what if read.whole else f"{what}; {read.why}: earlier lines may say otherwise"
