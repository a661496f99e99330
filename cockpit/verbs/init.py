"""``cockpit init``: a first run file from what is there; what nothing tells is asked for."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from cockpit.config.file import FILE_NAME
from cockpit.init.proposal import (
    DISAGREE,
    Clue,
    Key,
    Proposal,
    ProposalError,
    Question,
    Value,
    text_of,
    write_new,
)
from cockpit.init.sources import (
    EXPECTED,
    SourceError,
    Suggestion,
    at_hand,
    clues_of,
    here,
    job_clues,
    job_named,
    listed,
    named_by,
    own_jobs,
    saves_in,
)
from cockpit.model.clock import SystemClock
from cockpit.model.run import JobSpec
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from cockpit.verbs.common import OK, USAGE, UsageError, helps, is_terminal, print_document, put, say
from cockpit.verbs.doctor import about_run_file
from cockpit.verbs.schema import keep_schema

NUMBERS: Final = frozenset(("final_step", "permanent_every", "rollback_depth", "keep"))
FOLDERS: Final[dict[Key, str]] = {
    ("output_root",): "the folder that the run writes: out/my-run, not its log",
    ("wandb", "dir"): "the wandb folder",
}
"""Settings that name a folder, and which."""
GIVEN: Final = "given on the command line"
ANSWERED: Final = "answered"


HELP = f"""
Writes a run file from what is there; each line says where it was read. What sources disagree about,
or none tells, is asked for on a terminal, else named on stderr. Without a WHAT it shows what there
is. An existing file is never touched. Exit code: 0 written or printed, 2 something is missing or
wrong.

what WHAT: {EXPECTED.removeprefix("expected ")}
--set KEY=VALUE: a setting of the run, as in --set job.log=run.log (repeatable)
--out FILE: default: {FILE_NAME}
--print: print the [[run]] instead, to paste into a file that exists
--json

example: cockpit init scratch/20260311-0904_monitoring_state.json .agents/logbooks/grug.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``init`` takes."""
    helps(
        parser,
        HELP,
        what={"nargs": "*"},
        set={"action": "append", "default": [], "dest": "settings"},
        out={"type": Path, "default": Path(FILE_NAME)},
        print={"dest": "only_print"},
    )


def run(args: argparse.Namespace) -> int:
    """Collect, ask, write; return 0, or 2 when something needed stays open."""
    folder = args.out.absolute().parent
    if not args.only_print:
        _check_room(args.out, folder)
    asks = is_terminal(sys.stdin, sys.stderr) and not args.json
    sources = _sources(args, asks)
    if not sources and not args.settings:
        return USAGE
    proposal = _proposal(sources, args.settings, folder)
    if asks:
        _ask(proposal)
    _check_folders(proposal, folder)
    missing = [each for each in proposal.questions() if each.needed]
    if missing:
        return _refuse(proposal, missing, args)
    try:
        text = text_of(
            proposal, args.out, alone=not args.only_print, schema=_schema(args.only_print)
        )
    except ProposalError as error:
        raise UsageError(*error.problems) from None
    return _deliver(proposal, text, args, asks)


def _check_folders(proposal: Proposal, folder: Path) -> None:
    """Refuse a file where a folder is meant."""
    for key, what in FOLDERS.items():
        value = proposal.value(*key)
        if isinstance(value, str) and "://" not in value and (folder / value).is_file():
            name = ".".join(key)
            raise UsageError(f"{name}: {clean(value, 200)} is a file; expected {what}")


def _schema(only_print: bool) -> str:
    """Return where the run file's schema lies by now; nowhere is no reason not to write it."""
    if only_print:
        return ""
    try:
        return str(keep_schema())
    except OSError as error:
        say(f"no editor schema written: {error.strerror or error}")
        return ""


def _check_room(out: Path, folder: Path) -> None:
    """Make sure, before anything is asked, that the file can be written."""
    if os.path.lexists(out):
        text = f"{out} exists and is never rewritten; add --print for a [[run]] to paste into it"
        raise UsageError(clean(text))
    if not os.access(folder, os.W_OK | os.X_OK):
        why = "is not a writable folder"
        raise UsageError(f"{clean(folder)} {why}; name another --out, or add --print")


def _sources(args: argparse.Namespace, asks: bool) -> list[str]:
    """Return what was named; where that is a system, or nothing, what a person chooses of it."""
    systems = [each for each in args.what if _system(each) is not None]
    if args.what and not systems:
        return list(args.what)
    if args.settings and not systems:
        return []
    named = [job for each in systems if (job := _system(each)) is not None]
    found = [] if systems else list(here(Path.cwd()))
    silent: list[str] = []
    for job in named or at_hand():
        try:
            found += listed(job, asyncio.run(own_jobs(job, SystemClock())))
        except SourceError as error:
            silent.append(str(error))
    for line in silent if named or not found else ():  # who has files here may have no Slurm
        say(line)
    chosen = _chosen(found, silent, asks, args)
    return [*(each for each in args.what if each not in systems), *chosen]


def _system(what: str) -> JobSpec | None:
    """Return the system that is named without any job of it."""
    named = _job_option(what)
    return None if named is None or ":" in what.partition("@")[0] else named


def _job_option(what: str) -> JobSpec | None:
    try:
        return job_named(what)
    except SourceError as error:
        raise UsageError(str(error)) from None


def _proposal(sources: Sequence[str], settings: Sequence[str], folder: Path) -> Proposal:
    proposal = Proposal()
    for what in sources:
        try:
            for clue in clues_of(what, folder):
                proposal.add(clue)
            _ask_system(proposal, what)
        except SourceError as error:
            raise UsageError(str(error)) from None
    for clue in saves_in(folder):
        proposal.suggest(clue)
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--set {clean(setting)}: expected KEY=VALUE, as in job.log=run.log")
        proposal.decide(_key(key), _value(_key(key), value), GIVEN)
    return proposal


def _ask_system(proposal: Proposal, what: str) -> None:
    """Add what the job's own system tells of it; that it does not answer is said, no more."""
    named = job_named(what)
    if named is None or named_by(named) is None:
        return
    try:
        told, suggested = asyncio.run(job_clues(named, SystemClock()))
    except SourceError as error:
        say(f"{clean(what)}: {error}; only what was given is used")
        return
    for clue in told:
        proposal.add(clue)
    for clue in suggested:
        proposal.suggest(clue)


def _key(text: str) -> Key:
    return tuple(part.strip() for part in text.removeprefix("run.").split("."))


def _value(key: Key, text: str) -> Value:
    """Return the text as TOML reads it where it is a list, quoted, or meant as a number.

    Everything else is text as it stands: a job id may well look like a number.
    """
    text = text.strip()
    if not (text.startswith(("[", '"', "'")) or key[-1] in NUMBERS or key[0] == "thresholds"):
        return text
    try:
        found: Any = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
    listed = isinstance(found, list) and all(isinstance(each, int | str) for each in found)
    return found if listed or isinstance(found, bool | int | float | str) else text


def _chosen(
    found: list[Suggestion], silent: list[str], asks: bool, args: argparse.Namespace
) -> list[str]:
    """Show what there is to begin from; on a terminal let a person choose.

    ``silent`` says which systems gave no answer: what is there is then not known.
    """
    if args.json:
        seen = [{"what": each.what, "text": each.text} for each in found]
        print_document({"schema": 1, "found": seen, "unanswered": silent, "written": None})
        return []
    if not found:
        _say_nothing(silent, args.what)
        return []
    say("found here:" if asks else "found here; name one or several of them:")
    for number, each in enumerate(found, 1):
        say(f"  {number}  {clean(each.what, 200)}  ({each.text})")
    if not asks:
        return []
    picked = _read("which ones (numbers separated by spaces): ").split()
    known = {str(number): each.what for number, each in enumerate(found, 1)}
    wrong = [word for word in picked if word not in known]
    if wrong or not picked:
        raise UsageError(f"expected numbers from 1 to {len(found)}; nothing was written")
    return [known[word] for word in picked]


def _say_nothing(silent: Sequence[str], what: Sequence[str]) -> None:
    if silent:
        say("cannot tell whether there is anything to start from")
    elif what:
        say(f"no job of yours is listed by {clean(', '.join(what), 200)}")
    else:
        say(f"nothing to start from here; {EXPECTED}")


def _ask(proposal: Proposal) -> None:
    """Ask for everything that is open, what is needed first; an empty answer leaves it open."""
    passed: set[Key] = set()
    while questions := [each for each in proposal.questions() if each.key not in passed]:
        question = questions[0]
        for number, clue in enumerate(question.choices, 1):
            say(f"  {number}  {clean(clue.value, 200)}  ({clean(clue.source, 200)})")
        name = ".".join(question.key)
        answer = _read(f"{name}: {question.text}{'' if question.needed else ' (Enter: later)'}: ")
        value = _answered(question, answer)
        if value is not None:
            proposal.decide(question.key, value, ANSWERED)
        else:
            passed.add(question.key)


def _answered(question: Question, answer: str) -> Value | None:
    if not answer:
        return None
    numbered = {str(number): clue.value for number, clue in enumerate(question.choices, 1)}
    return numbered.get(answer, _value(question.key, answer))


def _read(prompt: str) -> str:
    """Read one line of a person's; the end of input leaves everything as it is."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise UsageError("the input ended; nothing was written")
    return line.strip()


def _refuse(proposal: Proposal, missing: Sequence[Question], args: argparse.Namespace) -> int:
    if args.json:
        print_document(_document(proposal, None, args))
    for question in missing:
        name = ".".join(question.key)
        said = "; ".join(f"{clean(c.value, 80)} ({clean(c.source, 80)})" for c in question.choices)
        lead = f"{DISAGREE} about" if question.text == DISAGREE else "missing:"
        say(f"{lead} {name} ({said or question.text}); use --set {name}=…")
    return USAGE


def _deliver(proposal: Proposal, text: str, args: argparse.Namespace, asks: bool) -> int:
    if not args.only_print:
        try:
            write_new(args.out, text)
        except OSError as error:
            why = (error.strerror or "cannot be written").lower()
            raise UsageError(f"{args.out}: {why}; nothing was written") from None
    if args.json:
        print_document(_document(proposal, text, args))
    elif args.only_print:
        put(text.rstrip("\n"))
    for line in _afterwards(proposal, args):
        say(line)
    if asks and not args.only_print:
        for finding in about_run_file(args.out):
            if finding.level != "ok":
                say(f"  {finding.name}: {finding.text}; {finding.remedy}")
    return OK


def _afterwards(proposal: Proposal, args: argparse.Namespace) -> Iterator[str]:
    left = [".".join(question.key) for question in proposal.questions()]
    if left:
        yield f"left open, as comments in it: {', '.join(left)}"
    if not args.only_print:
        yield f"{args.out} written; `cockpit doctor --config {args.out}` checks every source once"


def _document(proposal: Proposal, text: str | None, args: argparse.Namespace) -> dict[str, Any]:
    written = str(args.out.absolute()) if text is not None and not args.only_print else None
    return {
        "schema": 1,
        "written": written,
        "text": None if text is None else scrub(text),
        "settings": [_plain(clue) for clue in proposal.settled],
        "open": [
            {
                "key": ".".join(question.key),
                "text": question.text,
                "needed": question.needed,
                "choices": [_plain(clue) for clue in question.choices],
            }
            for question in proposal.questions()
        ],
    }


def _plain(clue: Clue) -> dict[str, Any]:
    return {"key": ".".join(clue.key), "value": clue.value, "source": clue.source}
