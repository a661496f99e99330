"""HPC run logs (SPEC S-12), and the public training log made from one (SPEC A-13).

The two lists beside HPC run logs (SPEC S-12): experiments.md and timeline.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.base import listed
from cockpit.records.git.committing import Edit
from cockpit.records.logbook.book import Heading, MarkdownFile
from cockpit.records.logbook.forms import FieldForm, cell, form_of, head_form, normal, one_line
from cockpit.records.logbook.reading import LabelledValue, cell_text, plain, read_fields
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
    return book.with_lines(after, [f"{'#' * level} {RESUMED}", *body], 1, 1)


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


EXPERIMENTS: Final = "experiments.md"
FOLDER: Final = "run_logs"
COLUMNS: Final = ("run", "description", "val_loss", "status", "notes")
_BAR: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)*")
_KEYS: Final = frozenset(("run", "name", "experiment", "runname"))


class _Table(NamedTuple):
    """A table: its columns' names, how wide and on which side they stand, its rows' lines."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    sides: tuple[str, ...]
    rows: tuple[int, ...]
    last: int
    key: int


def with_row(data: bytes, row: Mapping[str, str]) -> bytes:
    """Return the summary with this run's row, updated if the run has one, in the table's own form.

    ``row`` is column → text and has the run's name. Of a column that the table does not have the
    text goes to its notes.
    """
    book = MarkdownFile(data)
    table = _table(book)
    texts = {plain(name): text for name, text in row.items()}
    name = next((texts[key] for key in texts if key in _KEYS), "")
    if not name:
        return data
    if table is None:
        return _begin_table(book, row)
    texts = _noted(table, texts, row)
    found = [
        line for line in table.rows if _cell_texts(book, line)[table.key : table.key + 1] == [name]
    ]
    if found:
        return _updated(book, table, found[-1], texts)
    texts.setdefault(plain(table.columns[table.key]), name)
    line = _row(table, [texts.get(plain(column), "") for column in table.columns])
    return book.with_lines(table.last, [line], 0, 0)


def experiments_of(path: Path, run: str, description: str) -> tuple[Path, Edit]:
    """Return the summary beside a run log, and what gives a run its row if it has none."""
    folder = next((each for each in path.parents if each.name == FOLDER), path.parent)
    row = {"run": run, "description": description, "status": "running"}

    def edit(data: bytes) -> bytes:
        has_row = data.strip() and with_row(data, {"run": run}) == data
        return data if has_row else with_row(data, row)

    return folder / EXPERIMENTS, edit


def _table(book: MarkdownFile) -> _Table | None:
    """Return the first table that has a column for the run."""
    for number in range(book.skipped + 1, book.last):
        head, rule = book.line(number), book.line(number + 1)
        if number in book.quoted or "|" not in head or not _RULE.fullmatch(rule):
            continue
        columns = _cells(head)
        key = next((n for n, column in enumerate(columns) if plain(column) in _KEYS), None)
        if key is None:
            continue
        rows = []
        last = number + 1
        while last < book.last and not book.blank(last + 1) and "|" in book.line(last + 1):
            last += 1
            rows.append(last)
        widths = tuple(len(text) - 2 for text in _parts(book.line(rows[-1] if rows else number)))
        sides = tuple(_side(text) for text in _cells(rule))
        return _Table(tuple(columns), widths, sides, tuple(rows), last, key)
    return None


def _parts(line: str) -> list[str]:
    """Return what stands between the bars of a row."""
    parts = _BAR.split(line.strip())
    parts = parts[1:] if parts and not parts[0].strip() else parts
    return parts[:-1] if parts and not parts[-1].strip() else parts


def _cells(line: str) -> list[str]:
    return [part.strip() for part in _parts(line)]


def _cell_texts(book: MarkdownFile, line: int) -> list[str]:
    return [cell_text(part).strip("`*_") for part in _parts(book.line(line))]


def _side(rule: str) -> str:
    return {(True, True): "^", (False, True): ">"}.get((rule[:1] == ":", rule[-1:] == ":"), "<")


def _row(table: _Table, texts: Sequence[str]) -> str:
    cells = []
    for n, text in enumerate(map(cell, texts)):
        width = table.widths[n] if n < len(table.widths) else 0
        side = table.sides[n] if n < len(table.sides) else "<"
        cells.append(f" {text:{side}{width}} " if width > 0 else f" {text} ")
    return f"|{'|'.join(cells)}|"


def _updated(book: MarkdownFile, table: _Table, line: int, texts: Mapping[str, str]) -> bytes:
    """Return the file with those cells of one row changed that say something else now."""
    text = book.line(line)
    bars = [match.start() for match in _BAR.finditer(text)]
    starts = [0 if not text.lstrip().startswith("|") else bars.pop(0) + 1]
    starts += [bar + 1 for bar in bars]
    for column in reversed(range(min(len(table.columns), len(starts)))):
        wanted = texts.get(plain(table.columns[column]))
        stop = starts[column + 1] - 1 if column + 1 < len(starts) else len(text)
        old = text[starts[column] : stop]
        if wanted is None or column == table.key or cell_text(old) == wanted:
            continue
        side = table.sides[column] if column < len(table.sides) else "<"
        new = f" {cell(wanted):{side}{max(0, len(old) - 2)}} "
        text = text[: starts[column]] + new + text[stop:]
    return book.with_replaced(line, 0, line, text) if text != book.line(line) else book.data


def _noted(table: _Table, texts: dict[str, str], row: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with those of unknown columns added to the notes."""
    known = {plain(column) for column in table.columns} | _KEYS
    more = [f"{name}: {text}" for name, text in row.items() if text and plain(name) not in known]
    if not more or "notes" not in known:
        return texts
    return {**texts, "notes": "; ".join(text for text in (texts.get("notes", ""), *more) if text)}


def _begin_table(book: MarkdownFile, row: Mapping[str, str]) -> bytes:
    names = [*COLUMNS, *(name for name in row if plain(name) not in map(plain, COLUMNS))]
    given = {plain(name): text for name, text in row.items()}
    texts = [cell(given.get(plain(name), "")) for name in names]
    lines = [
        f"| {' | '.join(names)} |",
        "|" + "|".join("-" * (len(name) + 2) for name in names) + "|",
        f"| {' | '.join(texts)} |",
    ]
    title = [] if book.end > book.skipped else ["# Experiments", ""]
    return book.with_lines(book.end, [*title, *lines], 1, 0)


_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
TIMELINE: Final = "timeline.md"
_ITEM: Final = re.compile(r"(?P<indent> {0,3})(?P<number>\d{1,9})(?P<dot>[.)][ \t]+)(?P<rest>.*)")
"""An item of the list of run logs: ``3. `toy-r2` — Friday``."""
_DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
"""Such as ``2026-03-11``."""
_NAME: Final = re.compile(
    r"(?:`(?P<code>[^`]+)`|\[(?P<tick>`?)[^\]]+\]\((?P<link>[^)]+)\)|(?P<bare>\S+))"
    r"(?P<mark>[ \t]*[-–—:|]+[ \t]*|[ \t]+)"
)


def human_date(day: date) -> str:
    """Return ``Friday, Feb 20th``."""
    ending = _ENDINGS.get(day.day, "th")
    return f"{_DAYS[day.weekday()]}, {_MONTHS[day.month - 1]} {day.day}{ending}"


class _Item(NamedTuple):
    """One item of the list: its line, its number, and the day it is of."""

    line: int
    number: int
    day: date | None
    match: re.Match[str]


def with_run(data: bytes, file_name: str, day: date, title: str) -> bytes:
    """Return the list with a run log in the order of its day, and ``title`` for a new list.

    Of the other items only the numbers change that must; one that is listed stays as it is.
    """
    book = MarkdownFile(data)
    name = one_line(file_name).replace("`", "")
    items = _items(book)
    if any(name in re.split(r"[\s`()\[\]<>]+", item.match["rest"]) for item in items):
        return data
    if not items:
        return _begin_list(book, name, day, title)
    index = next((n for n, item in enumerate(items) if item.day and item.day > day), len(items))
    lazy = len(items) > 1 and items[0].number == items[1].number
    number = items[index].number if index < len(items) else items[-1].number + (not lazy)
    after = items[index].line - 1 if index < len(items) else _end(book, items[-1].line)
    line = _list_line(items[max(0, index - 1)].match, number, name, day)
    gap = int(len(items) > 1 and book.blank(items[1].line - 1))
    above, below = (0, gap) if index < len(items) else (gap, 0)
    if lazy:
        return book.with_lines(after, [line], above, below)
    return _renumbered(book, items[index:], number + 1).with_lines(after, [line], above, below)


def timeline_of(path: Path, at: float) -> tuple[Path, Edit]:
    """Return the list of a run log's group, and what puts it there in the order of its day."""
    named = _date(DATED.match(path.name))
    day = named if named is not None else datetime.fromtimestamp(at, tz=UTC).date()
    title = path.parent.name.replace("_", " ").title()
    return path.with_name(TIMELINE), lambda data: with_run(data, path.name, day, title)


def _renumbered(book: MarkdownFile, items: list[_Item], number: int) -> MarkdownFile:
    """Return the file with each item's number raised as far as the one before it asks."""
    lines = {}
    for item in items:
        if item.number >= number:
            break
        lines[item.line] = f"{item.match['indent']}{number}{item.match['dot']}{item.match['rest']}"
        number += 1
    return book.with_lines_replaced(lines)


def _items(book: MarkdownFile) -> list[_Item]:
    quoted = book.quoted
    found = []
    for number in range(book.skipped + 1, book.last + 1):
        match = None if number in quoted else _ITEM.fullmatch(book.line(number))
        if match is not None:
            day = _date(_DAY.search(match["rest"]))
            found.append(_Item(number, int(match["number"]), day, match))
    return found


def _date(found: re.Match[str] | None) -> date | None:
    try:
        return None if found is None else date(*map(int, found.groups()))
    except ValueError:
        return None


def _list_line(like: re.Match[str], number: int, name: str, day: date) -> str:
    form = _NAME.match(like["rest"])
    mark, shown = " — ", f"`{name}`"
    if form is not None:
        mark = form["mark"] if form["mark"].strip() else mark
        tick = form["tick"] or ""
        shown = f"[{tick}{name}{tick}]({name})" if form["link"] else shown
        shown = name if form["bare"] else shown
    return f"{like['indent']}{number}{like['dot']}{shown}{mark}{human_date(day)}"


def _end(book: MarkdownFile, line: int) -> int:
    """Return the last line of the item that begins there."""
    while line < book.last and book.line(line + 1).startswith((" ", "\t")):
        line += 1
    return line


def _begin_list(book: MarkdownFile, name: str, day: date, title: str) -> bytes:
    item = f"1. `{name}` — {human_date(day)}"
    heading = [f"# {one_line(title)} Timeline".replace("#  ", "# "), ""]
    return book.with_lines(book.end, [*([] if book.end > book.skipped else heading), item], 1, 0)
