"""HPC run logs (SPEC S-12), and the public training log made from one (SPEC A-13)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from cockpit.model.base import listed
from cockpit.records.logbook.book import Heading, MarkdownFile
from cockpit.records.logbook.forms import FieldForm, form_of, head_form, normal, one_line
from cockpit.records.logbook.reading import LabelledValue, plain, read_fields
from cockpit.records.logbook.style import fields_form, with_values
from cockpit.text.logbook_scan import LogbookPage, read_page
from cockpit.text.scrub import scrub

TEMPLATE: Final = {
    "Mode": ("run_type", "objective"),
    "Config": ("script", "config", "dataset", "key settings"),
    "Job": listed("execution_id submitted/start start_human end end_human runtime node"),
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


PATH: Final = "<path>"
JOB: Final = "<job>"
HOST: Final = "<host>"

_JOBS: Final = frozenset(
    ("executionid", "jobid", "slurmjobid", "jobids", "arrayjobid", "job", "instance")
)
_HOSTS: Final = frozenset(
    ("node", "nodes", "nodelist", "host", "hosts", "hostname", "partition", "account", "cluster")
)
_PRIVATE: Final = frozenset(
    ("submitcommand", "stdout", "stderr", "user", "username", "ssh", "workdir", "qos", "local")
)
_TOKEN: Final = re.compile(r"[\w.-]*\w")
_LINK: Final = re.compile(
    r"https?://(?!localhost\b|127\.|10\.|192\.168\.)[\w-]+(?:\.[\w-]+)+[^\s`)>\]]*"
)
_FOLDER: Final = re.compile(
    r"(?<![\w/.:<~-])(?<!<path>)(?:(?:[a-z][a-z0-9+]{1,9}://|~|\$\{?\w+\}?)(?=/)|(?=/))(?:/[\w.@%+=:,~*$-]+)+/?"
    r"|(?<!\w)(?:[a-z][a-z0-9]{1,9})://[\w./@%+=:,~*$-]+"
    r"|(?<![\w/])~/?(?=[\s`'\")]|$)"
)
_KEPT_NAME: Final = re.compile(r"(?:[\w-]*\d[\w.-]*|[\w-]+\.\w{1,8})")
_JOB_WORDS: Final = re.compile(
    r"(?i)(?<![\w-])((?:slurm[ _-]?|sbatch[ _-]?|squeue[ _-]?|sacct[ _-]?)?(?:array[ _-]?)?"
    r"job(?:[ _-]?id)?s?[`*]*[ \t:=#]*[`*]*)(\d{4,}(?:_\d+)?(?:\.\w+)?)\b"
    r"|\b(slurm-|submitted batch job )(\d{3,}(?:_\d+)?)|((?<!\w)-j[ =]?)(\d{4,})\b"
)
_HOST_WORDS: Final = re.compile(
    r"(?i)(\b(?:ssh|host|hostname|node|nodes|nodelist|on machine)[`*]*[ \t:=]+[`*]*)"
    r"((?=[\w.@-]*[\d.@])[\w@][\w.@\[\],-]*[\w\]])"
)
_NODE: Final = re.compile(
    r"(?i)\b(?:nid|node|gpu|cn|dgx|tpu-vm|login|compute)-?\d{2,}(?:[.-][\w-]+)*\b"
)
"""Such as ``gpu-017``."""
_PERSON_AT: Final = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\b")
"""Such as ``ada@gpu1``."""
_ADDRESS: Final = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b")
"""Such as ``10.0.3.7:8265``."""
_DROPPED: Final = ("wandb_id.txt",)
_GAP: Final = re.compile(r"\n{3,}")


def sanitized(text: str) -> str:
    """Return a run log without what names jobs, machines, folders or secrets; the rest as it is."""
    page = read_page(text)
    fields = list(_fields(page))
    gone = {
        number
        for field in fields
        if plain(field.label) in _JOBS | _HOSTS | _PRIVATE
        for number in range(field.line, field.end + 1)
    }
    jobs = _tokens(fields, _JOBS, digits=3)
    hosts = _tokens(fields, _HOSTS, digits=1)
    kept = [
        line
        for number, line in enumerate(page.lines, start=1)
        if number not in gone and not any(word in line for word in _DROPPED)
    ]
    public = scrub(
        "\n".join(_public(line, jobs, hosts) for line in scrub("\n".join(kept)).split("\n"))
    )
    return _GAP.sub("\n\n", public).rstrip() + "\n"


def _fields(page: LogbookPage) -> Iterator[LabelledValue]:
    ends = [*(heading.number for heading in page.headings), len(page.lines) + 1]
    first = page.skipped + 1
    for end in ends:
        yield from read_fields(page.between(first, end - 1))
        first = end + 1


def _tokens(fields: list[LabelledValue], labels: frozenset[str], digits: int) -> list[str]:
    """Return the names in these fields that could stand elsewhere too, the longest first."""
    found = {
        token
        for field in fields
        if plain(field.label) in labels
        for token in _TOKEN.findall(field.value)
        if sum(char.isdigit() for char in token) >= digits and len(token) > 2
    }
    return sorted(found, key=len, reverse=True)


def _public(line: str, jobs: list[str], hosts: list[str]) -> str:
    """Return a line with what stands outside its public links made anonymous."""
    parts, at = [], 0
    for link in _LINK.finditer(line):
        parts += [_anonymous(line[at : link.start()], jobs, hosts), link.group()]
        at = link.end()
    return "".join([*parts, _anonymous(line[at:], jobs, hosts)])


def _anonymous(text: str, jobs: list[str], hosts: list[str]) -> str:
    text = _FOLDER.sub(_folder, text)
    text = _JOB_WORDS.sub(lambda m: f"{m[1] or m[3] or m[5]}{JOB}", text)
    text = _replace_names(text, jobs, JOB)
    text = _PERSON_AT.sub(HOST, text)
    text = _HOST_WORDS.sub(lambda m: f"{m[1]}{HOST}", text)
    text = _NODE.sub(HOST, _replace_names(text, hosts, HOST))
    return _ADDRESS.sub(HOST, text)


def _folder(found: re.Match[str]) -> str:
    """Return ``<path>``, with the last name of a deep path where that is a file or a step."""
    names = [name for name in found.group().split("/") if name]
    deep = (len(names) > 3 and found.group().startswith(("/", "~", "$"))) or len(names) > 4
    return f"{PATH}/{names[-1]}" if deep and _KEPT_NAME.fullmatch(names[-1]) else PATH


def _replace_names(text: str, names: list[str], instead: str) -> str:
    for name in names:
        if name in text:
            text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", instead, text)
    return text
