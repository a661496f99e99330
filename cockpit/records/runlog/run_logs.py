"""HPC run logs, ``run_logs/<group>/<date>_<task>.md`` (SPEC S-12): bytes in, bytes out.

Only what is new or set is changed; every other byte stays as it was. Writing the same thing
again changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from cockpit.records.logbook.book import Heading, MarkdownFile
from cockpit.records.logbook.forms import FieldForm, head_form, normal, one_line
from cockpit.records.logbook.labels import plain
from cockpit.records.logbook.reading import LabelledValue, read_fields
from cockpit.records.logbook.stamps import form_of
from cockpit.records.logbook.style import fields_form, with_values

TEMPLATE: Final = {
    "Mode": ("run_type", "objective"),
    "Config": ("script", "config", "dataset", "key settings"),
    "Job": (
        "execution_id",
        "submitted/start",
        "start_human",
        "end",
        "end_human",
        "runtime",
        "node",
    ),
    "Status": (),
    "Results": (),
    "W&B": ("local", "synced", "notes"),
    "Next": (),
}
"""The sections of a run log in their order, and the labels that each has from the beginning."""

RESUMED: Final = "Job (resumed)"
HUGGING_FACE: Final = "HuggingFace"
_ORDER: Final = (*TEMPLATE, HUGGING_FACE)
DATED: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)_.")
"""How the name of a run log begins."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG: Final = 80
_IDS: Final = frozenset(("executionid", "jobid", "slurmjobid", "job", "id"))


def run_log_name(day: date, task: str) -> str:
    """Return ``<date>_<task>.md`` with a task that is safe as part of a file's name."""
    slug = re.sub(r"\.{2,}", ".", _UNSAFE.sub("_", task)).strip("._-")[:_SLUG].rstrip("._-")
    return f"{day.isoformat()}_{slug or 'run'}.md"


def run_log_of(named: str, run: str, at: float) -> Path:
    """Return the run log: the file that is named, in a folder the run's newest, else a new name.

    Raises ``OSError`` for a folder that cannot be read.
    """
    path = Path(named)
    if not path.is_dir():
        return path
    new = run_log_name(datetime.fromtimestamp(at, tz=UTC).date(), run)
    task = new.partition("_")[2]
    names = (each.name for each in path.iterdir() if DATED.match(each.name))
    own = sorted(name for name in names if name.partition("_")[2] == task)
    return path / (own[-1] if own else new)


def new_run_log(task: str, description: str, values: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return a new run log: the template, filled from ``values`` (section → label → value)."""
    title = " — ".join(text for text in (one_line(task), one_line(description)) if text)
    lines = [f"# {title}".rstrip()]
    for section, labels in TEMPLATE.items():
        given = dict(values.get(section, {}))
        lines += ["", f"## {section}"]
        for label in (*labels, *(label for label in given if label not in labels)):
            lines += FieldForm().write(one_line(label), given.get(label, ""))
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def with_status(data: bytes, at: float, text: str) -> bytes:
    """Return the run log with one more dated line at the end of ``## Status``."""
    book = MarkdownFile(data)
    heading = _section(book, "Status")
    first, *more = normal(text).split("\n")
    block = _status(book, heading, at, first, more)
    if book.holds(block):
        return data
    if heading is None:
        return _with_section(book, "Status", block)
    last = book.section_end(heading.number, heading.level)
    after = max(book.content_end(heading.number + 1, last), heading.number)
    bullets = book.line(after).startswith(("-", "*", "+", " ", "\t", "#"))
    below = int(after + 1 in {each.number for each in book.headings})
    return book.with_lines(after, block, 0 if bullets else 1, below)


def with_resumed_job(data: bytes, fields: Mapping[str, str]) -> bytes:
    """Return the run log with a ``## Job (resumed)`` block after its last job block."""
    book = MarkdownFile(data)
    jobs = _jobs(book)
    if any(_holds(_fields_of(book, job), fields) for job in jobs):
        return data
    form = _form(book, jobs[-1:])
    body = [line for label, value in fields.items() for line in form.write(one_line(label), value)]
    if not jobs:
        return _with_section(book, RESUMED, body, before="Status")
    level = jobs[-1].level
    last = book.section_end(jobs[-1].number, level)
    after = max(book.content_end(jobs[-1].number + 1, last), jobs[-1].number)
    block = [f"{'#' * level} {RESUMED}", *body]
    return book.with_lines(after, block, 1, 1)


def with_first_job(data: bytes, fields: Mapping[str, str]) -> bytes:
    """Return the run log with its last job block filled in if that names no job yet.

    Where every block names one, these values are of another job: it gets a block of its own.
    """
    book = MarkdownFile(data)
    jobs = _jobs(book)
    if any(_holds(_fields_of(book, job), fields) for job in jobs):
        return data
    named = not jobs or any(
        plain(each.label) in _IDS and normal(each.value) for each in _fields_of(book, jobs[-1])
    )
    return with_resumed_job(data, fields) if named else with_values(book, jobs[-1], fields)


def with_results(data: bytes, fields: Mapping[str, str]) -> bytes:
    """Return the run log with these values in ``## Results``."""
    return _in_section(data, "Results", fields)


def with_huggingface(data: bytes, fields: Mapping[str, str]) -> bytes:
    """Return the run log with these values in ``## HuggingFace`` (SPEC A-13)."""
    return _in_section(data, HUGGING_FACE, fields)


def _status(
    book: MarkdownFile, heading: Heading | None, at: float, first: str, more: list[str]
) -> list[str]:
    last = 0 if heading is None else book.section_end(heading.number, heading.level)
    starts = [
        book.line(entry.line)
        for entry in book.entries
        if heading is not None and heading.number < entry.line <= last and not entry.level
    ]
    form = head_form(starts, 0, form_of(starts))
    if not starts:
        form = form.model_copy(update={"mark": " — "})
    deep = " " * len(form.bullet)
    return [form.write(at, first), *(f"{deep}{line}" if line else "" for line in more)]


def _in_section(data: bytes, title: str, fields: Mapping[str, str]) -> bytes:
    book = MarkdownFile(data)
    heading = _section(book, title)
    if heading is not None:
        return with_values(book, heading, fields)
    given = {label: value for label, value in fields.items() if normal(value)}
    if not given:
        return data
    form = _form(book, _jobs(book)[-1:])
    body = [line for label, value in given.items() for line in form.write(one_line(label), value)]
    return _with_section(book, title, body)


def _with_section(book: MarkdownFile, title: str, body: list[str], before: str = "") -> bytes:
    """Return the file with a new section where the template has it, else at the end."""
    place = _ORDER.index(before) if before else _ORDER.index(title) + 1
    later = [_section(book, name) for name in _ORDER[place:]]
    following = next((each for each in later if each is not None), None)
    level = following.level if following is not None else 2
    block = [f"{'#' * level} {title}", *body]
    if following is not None:
        return book.with_lines(following.number - 1, block, 1, 1)
    return book.with_lines(book.end, block, 1, 1)


def _section(book: MarkdownFile, title: str) -> Heading | None:
    named = (each for each in book.headings if each.level > 1 and plain(each.title) == plain(title))
    return next(named, None)


def _jobs(book: MarkdownFile) -> list[Heading]:
    return [
        each
        for each in book.headings
        if each.level > 1 and not each.dated and re.match(r"job\b", each.title, re.IGNORECASE)
    ]


def _fields_of(book: MarkdownFile, heading: Heading) -> tuple[LabelledValue, ...]:
    return read_fields(book.between(heading.number + 1, book.section_end(heading.number, 6)))


def _form(book: MarkdownFile, headings: list[Heading]) -> FieldForm:
    form = fields_form(book, [_fields_of(book, each) for each in headings])
    return FieldForm() if form is None or form.row else form


def _holds(fields: tuple[LabelledValue, ...], values: Mapping[str, str]) -> bool:
    there = {plain(field.label): field.value for field in fields}
    wanted = [(label, normal(value)) for label, value in values.items() if normal(value)]
    return bool(wanted) and all(there.get(plain(label)) == value for label, value in wanted)
