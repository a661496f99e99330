"""Reads a hero run's logbook, whoever wrote it (SPEC L). Pure functions on text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.base import Frozen, listed
from cockpit.model.records import EventEntry
from cockpit.model.wording import moment
from cockpit.runtime.git import READING, run_git
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.text import logbook_scan
from cockpit.text.safe import clean
from cockpit.text.times import read_stamp

EVENT: Final = ("Status", "Evidence", "Decision", "Next")
"""SPEC L's labels of an event, in their order; ``EventEntry`` has a field for each."""

CONTRACT: Final = listed(
    "DRI, Goal, Stop/escalation criteria, Issue, W&B, Output root, Final step", ", "
)
INSTANCE: Final = listed(
    "Command, Git SHA, Dirty tree, Source bundle/container, Hardware/topology,"
    " `initialize_from`, Final step, Checkpoint policy, Babysitter/check cadence",
    ", ",
)
OTHER_WORDS: Final = {
    "Status": ("State", "What happened", "Summary", "Situation", "Symptom", "Result"),
    "Evidence": ("Observed", "Observation", "Observations", "Signals", "Facts", "What we saw"),
    "Decision": ("Decided", "Action", "Action taken", "Actions", "What we did", "Response"),
    "Next": ("Next step", "Next steps", "Next action", "Next actions", "Follow-up", "Then"),
}
KNOWN: Final = tuple(
    sorted(
        {*EVENT, *(word for words in OTHER_WORDS.values() for word in words), *CONTRACT}
        | {label.strip("`") for label in INSTANCE},
        key=len,
        reverse=True,
    )
)
"""Every label above, the longest first."""


_SINCE: Final = re.compile(r"[ \t]*\(since [0-9./-]{8,10}\)[ \t*_`]*$", re.IGNORECASE)
"""A label with the day from which its value holds: ``Job (since 2026-03-11)``."""


def since(label: str, day: str) -> str:
    """Return the label of a value that was added beside a former one, on that day."""
    return f"{_SINCE.sub('', label)} (since {day})"


def plain(label: str) -> str:
    """Return a label without case and punctuation: two that are alike so are the same.

    ``Final step (since 2026-03-11)`` is a newer value of ``Final step``.
    """
    return re.sub(r"[^a-z0-9]+", "", _SINCE.sub("", label).lower())


_MEANT: Final = {
    plain(word): label for label in EVENT for word in (label, *OTHER_WORDS.get(label, ()))
}


def meant(label: str) -> str | None:
    """Return which of an event's four labels is meant by ``label``."""
    return _MEANT.get(plain(label))


def written(label: str) -> str:
    """Return a label as SPEC L writes it: ``initialize_from`` is code."""
    return "`initialize_from`" if label.strip("`") == "initialize_from" else label


_HEADING: Final = r"#{1,6}(?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$"
_OPENS: Final = r"`{3,}|~{3,}|<(?:!|\?|/?(?:details|pre|script|style|textarea)\b)"
_DEEP: Final = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_RISKY: Final = re.compile(rf"(?P<indent>{_DEEP})(?=\\*(?:{_HEADING}|{_OPENS}))", re.IGNORECASE)
_MARKS: Final = re.compile(rf"{_DEEP}(?:{_HEADING})")
_GUARDED: Final = re.compile(rf"(?P<indent>{_DEEP})\\(?=\\*(?:{_HEADING}|{_OPENS}))", re.IGNORECASE)
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
"""Such as ``-----``."""
_HTML: Final = re.compile(r"[ \t]*<(?P<end>/?)(?P<tag>details)\b", re.IGNORECASE)


def guarded(lines: Sequence[str], first: int = 0) -> list[str]:
    """Return these lines of a file with what those from ``first`` on would become kept off.

    The lines before (a heading, a label) are context. Headings, rules and underlines are
    guarded, and whatever opens a block that does not end in these lines.
    """
    text, done = list(lines), set(range(first))
    for _ in range(len(text) + 1):
        at = _left_open(text)
        if at is None or at < first:
            break
        text[at] = _with(text[at])
        done.add(at)
    done |= _quoted(text)
    return [
        _with(line) if number not in done and _would_mean_more(line) else line
        for number, line in enumerate(text)
    ]


def contained(lines: Sequence[str], level: int) -> list[str]:
    """Return an entry whose lines below the first make no heading of its level or above.

    Deeper ones are its own. Nothing below makes a heading of the line above it.
    """
    blocks, kept = logbook_scan.Blocks(), list[str]()
    for number, line in enumerate(lines):
        depth = blocks.take(line)
        under = bool(kept) and bool(kept[-1].strip()) and not blocks.quoted
        opens = 0 < depth <= level or (under and _UNDERLINE.match(line) is not None)
        kept.append(_with(line) if number and opens else line)
    return kept


def closed(lines: Sequence[str]) -> list[str]:
    """Return lines behind which nothing stays open: what would close it is added."""
    blocks, more = logbook_scan.Blocks(), list[str]()
    for line in lines:
        blocks.take(line)
    if blocks.open_end:
        more.append(blocks.open_end)
    return [*lines, *more, *["</details>"] * len(_details([*lines, *more]))]


def unguarded(line: str) -> str:
    """Return a line as it was before ``guarded``, without white space at its end."""
    return _GUARDED.sub(lambda found: found["indent"], line, count=1).rstrip()


def _would_mean_more(line: str) -> bool:
    """Tell of a heading, a rule, an underline; or of a line that reads as guarded already."""
    return _MARKS.match(line) is not None or _GUARDED.match(line) is not None


def _with(line: str) -> str:
    """Return the line with one backslash more before what it begins with."""
    found = _RISKY.match(line)
    at = 0 if found is None else found.end("indent")
    return f"{line[:at]}\\{line[at:]}"


def _quoted(lines: Sequence[str]) -> set[int]:
    blocks, quoted = logbook_scan.Blocks(), set()
    for number, line in enumerate(lines):
        if not blocks.take(line) and blocks.quoted:
            quoted.add(number)
    return quoted


def _left_open(lines: Sequence[str]) -> int | None:
    """Return which line opens a block that stays open, if one does."""
    blocks = logbook_scan.Blocks()
    for line in lines:
        blocks.take(line)
    if blocks.open:
        return blocks.opened_at - 1
    details = _details(lines)
    return details[-1] if details else None


def _details(lines: Sequence[str]) -> list[int]:
    """Return the lines that open a fold (``<details>``) which these lines do not close."""
    blocks, opened = logbook_scan.Blocks(), list[int]()
    for number, line in enumerate(lines):
        blocks.take(line)
        tag = None if blocks.quoted else _HTML.match(line)
        if tag is not None and "</details" not in line.lower():
            opened.append(number)
        elif "</details" in line.lower() and opened:
            opened.pop()
    return opened


_WORDS: Final = "|".join(re.escape(word) for word in KNOWN)
LABELLED: Final = re.compile(
    r"(?P<indent>[ \t]{0,3})(?P<bullet>[-*+][ \t]+)?(?P<opening>[*_`]{0,3})"
    r"(?P<label>[A-Za-z][^:|]{0,60}?)(?P<closing>[*_`]{0,3})"
    r"(?P<mark>[ \t]*:)(?!//)(?P<ending>[*_`]{0,3})(?=[ \t]|$)[ \t]*(?P<value>.*)"
)
DASHED: Final = re.compile(
    r"(?P<indent>[ \t]{0,3})(?P<bullet>[-*+][ \t]+)(?P<opening>[*_`]{0,3})"
    rf"(?P<label>{_WORDS})(?P<closing>[*_`]{{0,3}})"
    r"(?P<mark>[ \t]+[-–—])(?P<ending>)(?=[ \t]|$)[ \t]*(?P<value>.*)",
    re.IGNORECASE,
)
ROW: Final = re.compile(r"[ \t]*\|(?P<label>[^|]{1,60})\|(?P<value>(?:[^|]|(?<=\\)\|)*)\|?[ \t]*")
_RULE: Final = re.compile(r"[\s|:-]*")
_HEAD: Final = frozenset(("field", "key", "item", "label", "name", "property", "setting", "what"))
_BREAK: Final = re.compile(r"<br ?/?>")
_LOOSE: Final = 4
"""Columns that continue a label without a bullet for certain: nothing else can begin there."""


class LabelledValue(Frozen):
    """A labelled value as it stands in the file; ``line`` to ``end`` are its lines, 1-based."""

    label: str
    value: str
    line: int
    end: int = 0


class Instance(Frozen):
    """One launched instance: its entry, whose title is its id, and its fields."""

    entry: logbook_scan.LogbookEntry
    fields: tuple[LabelledValue, ...]


class Logbook(Frozen):
    """A whole logbook. ``entries`` are in the order of the file, instances among them.

    ``newest_first`` is ``None`` when fewer than two entries of the event log carry a time.
    """

    title: str = ""
    contract: tuple[LabelledValue, ...] = ()
    instances: tuple[Instance, ...] = ()
    entries: tuple[logbook_scan.LogbookEntry, ...] = ()
    newest_first: bool | None = None


def read_logbook(text: str) -> Logbook:
    """Return what ``text`` holds; never raises, and what it does not understand it leaves."""
    page = logbook_scan.read_page(text)
    entries = logbook_scan.entries_of(page)
    instances = [entry for entry in entries if logbook_scan.is_instances(entry.section)]
    events = [entry for entry in entries if not logbook_scan.is_instances(entry.section)]
    return Logbook(
        title=next((line.title for line in page.headings if line.level == 1), ""),
        contract=read_fields(_contract(page, entries)),
        instances=tuple(Instance(entry=each, fields=entry_fields(each)) for each in instances),
        entries=entries,
        newest_first=newest_first(events),
    )


def event_of(entry: logbook_scan.LogbookEntry) -> EventEntry:
    """Return what an entry says in SPEC L's four fields, whatever words its file uses for them."""
    said = {}
    for field in entry_fields(entry):
        means = meant(field.label)
        if means is not None:
            said[means.lower()] = field.value
    return EventEntry(title=entry.title, at=entry.at or 0.0, **said)


def output_root_in(text: str) -> str | None:
    """Return the output root that a logbook's run contract records (SPEC L, C-16)."""
    return value_of(read_logbook(text).contract, "Output root")


def value_of(fields: Iterable[LabelledValue], label: str) -> str | None:
    """Return the value under ``label``, whatever its case and punctuation; the last one wins."""
    wanted = plain(label)
    found = [field.value for field in fields if plain(field.label) == wanted]
    return found[-1] if found else None


def read_fields(lines: Iterable[logbook_scan.MarkdownLine]) -> tuple[LabelledValue, ...]:
    """Return labelled values: bullets, bold labels, table rows; indented lines continue one.

    What stands as deep as the text of a bullet belongs to that bullet, whatever it looks like.
    """
    found: list[_Reading] = []
    for line in lines:
        if found and found[-1].takes(line):
            continue
        match = None if line.quoted else match_of(line.text)
        if match is not None:
            found.append(_Reading(line, match))
        elif found and line.text.strip():
            found[-1].closed = True
    return tuple(each.field() for each in found if not each.heads)


def match_of(text: str) -> re.Match[str] | None:
    """Return the parts of a line that is a labelled value or a table row."""
    if _RULE.fullmatch(text):
        return None
    return ROW.fullmatch(text) or DASHED.fullmatch(text) or LABELLED.fullmatch(text)


def cell_text(text: str) -> str:
    """Return what a table cell says."""
    return _BREAK.sub("\n", text.strip()).replace("\\|", "|").replace("&lt;br&gt;", "<br>")


class _Reading:
    """A field while its lines are read."""

    def __init__(self, line: logbook_scan.MarkdownLine, match: re.Match[str]) -> None:
        parts = match.groupdict()
        self.row = "bullet" not in parts
        self.closed = self.row
        self.label = match["label"].strip(" \t*_`")
        self.heads = self.row and plain(self.label) in _HEAD
        self._line, self._end = line.number, line.number
        self._first = cell_text(match["value"]) if self.row else match["value"].strip()
        self._bullet = bool(parts.get("bullet"))
        self.depth = match.start("opening") if self._bullet else _LOOSE
        self._more: list[str] = []
        self._code: list[bool] = []
        self._blank = 0

    def takes(self, line: logbook_scan.MarkdownLine) -> bool:
        """Add ``line`` if it is one of this field's."""
        if self.closed:
            return False
        if not line.text.strip():
            self._blank += 1
            return True
        depth = logbook_scan.indent_of(line.text)
        loose = depth >= 2 and not line.quoted and match_of(line.text) is None
        if depth < self.depth and not (loose and not self._blank):
            return False
        self._more += [""] * self._blank + [line.text]
        self._code += [False] * self._blank + [line.quoted]
        self._end, self._blank = line.number, 0
        return True

    def field(self) -> LabelledValue:
        depths = [logbook_scan.indent_of(line) for line in self._more if line]
        depth = min([self.depth, *depths])
        more = [
            logbook_scan.without_indent(text, depth).rstrip()
            if code
            else unguarded(logbook_scan.without_indent(text, depth))
            for text, code in zip(self._more, self._code, strict=True)
        ]
        value = "\n".join([self._first, *more]).strip("\n")
        return LabelledValue(label=self.label, value=value, line=self._line, end=self._end)


def _contract(
    page: logbook_scan.LogbookPage, entries: Iterable[logbook_scan.LogbookEntry]
) -> list[logbook_scan.MarkdownLine]:
    """Return the lines below the Run Contract's heading, down to the next heading."""
    dated = {each.line for each in entries if each.at is not None}
    plain = [line for line in page.headings if line.number not in dated]
    found = logbook_scan.contract_of([line.title for line in plain])
    if found is None:
        return []
    first = plain[found].number
    later = (line.number for line in page.headings if line.number > first)
    return page.between(first + 1, next(later, len(page.lines) + 1) - 1)


def entry_fields(entry: logbook_scan.LogbookEntry) -> tuple[LabelledValue, ...]:
    """Return the labelled values of an entry."""
    return read_fields(_numbered(entry.text, entry.line + 1))


def _numbered(text: str, first: int) -> list[logbook_scan.MarkdownLine]:
    return list(logbook_scan.scan(logbook_scan.split_lines(text), logbook_scan.Blocks(), first))


def newest_first(entries: Iterable[logbook_scan.LogbookEntry]) -> bool | None:
    """Return the order of dated entries, ``None`` when fewer than two tell it."""
    times = [entry.at for entry in entries if entry.at is not None]
    pairs = [(a, b) for a, b in pairwise(times) if a != b]
    return sum(a > b for a, b in pairs) * 2 > len(pairs) if pairs else None


DEADLINE: Final = 5.0
CAP: Final = 8 << 20
"""Bytes of a logbook that are read of a commit."""
LITERAL: Final = "--literal-pathspecs"
"""What keeps git from taking a file's name for a pattern."""
UNTOLD: Final = "git cannot tell"
SHALLOW: Final = "git cannot tell (a shallow clone)"
_DAY: Final = 86400.0
_NOTHING: Final = (b"not a git repository", b"any commits yet", b"does not exist in", b"not in '")


class BookThen(NamedTuple):
    """A logbook's text at a moment, and how it is known, or why it is not."""

    text: str
    told: str


async def book_then(path: str, at: float) -> BookThen:
    """Return a logbook as it stood at ``at`` (seconds since the epoch); never raises.

    What was written and not committed by then is not known from what came later, but by the
    dates of its entries, where git knows nothing.
    """
    try:
        real = Path(await offload(os.path.realpath, path, deadline=DEADLINE))
        found = await _committed(real, at)
        if isinstance(found, BookThen):
            return found
        return await offload(partial(_dated, real, at, found), deadline=DEADLINE)
    except TimeoutError:
        return BookThen("", "unknown: the file did not answer in time")
    except OSError as error:
        said = error.strerror or str(error) or "it cannot be read"
        return BookThen("", f"unknown: {said.lower()}")


async def _committed(path: Path, at: float) -> BookThen | str:
    """Return the text of its last commit by then, or why git has none."""
    words = (LITERAL, "log", "-1", "--format=%H %ct", f"--before={int(at)}", "--", path.name)
    listed = await run_git(path.parent, *words, deadline=DEADLINE, env=READING)
    commit, _, when = listed.text.strip().partition(" ")
    if not listed.ok or not commit or not when.isdigit():
        return SHALLOW if listed.ok and await _is_shallow(path.parent) else _why_none(listed)
    blob = ("cat-file", "blob", f"{commit}:./{path.name}")
    shown = await run_git(path.parent, *blob, deadline=DEADLINE, env=READING, cap=CAP)
    if not shown.ok:
        return _why_none(shown)
    cut = f", its first {CAP >> 20} MiB" if shown.cut else ""
    return BookThen(shown.text, f"commit {commit[:7]} of {moment(float(when))}{cut}")


async def _is_shallow(folder: Path) -> bool:
    """Tell whether earlier commits may be missing here; so it counts where git does not say."""
    told = await run_git(
        folder, "rev-parse", "--is-shallow-repository", deadline=DEADLINE, env=READING
    )
    return told.text.strip() != "false"


def _why_none(ended: Completed) -> str:
    """Return why git has no text: that it did not answer does not say that nothing is there."""
    if ended.timed_out:
        return "git did not answer in time"
    if ended.ok or any(said in ended.err for said in _NOTHING):
        return "nothing committed by then"
    said = ended.err.decode("utf-8", "replace").strip().splitlines()
    return f"git cannot tell ({clean(said[0].removeprefix('fatal: '), 80)})" if said else UNTOLD


def _dated(path: Path, at: float, why: str) -> BookThen:
    """Return the entries that are dated by then, as they read today. Blocks, raises ``OSError``.

    ``why`` git has none.
    """
    text = read_text(path)
    lines, entries = logbook_scan.split_lines(text), logbook_scan.read_entries(text)
    kept = [
        f"{lines[each.line - 1]}\n{each.text}\n"
        for each in entries
        if each.at is not None and _since(each.at, lines[each.line - 1]) <= at
    ]
    undated = sum(each.at is None for each in entries)
    if not kept:
        return BookThen("", f"unknown: {why}, and no entry dated by then")
    left = f", {undated} without a date left out" if undated else ""
    return BookThen("\n".join(kept), f"{why}: entries dated by then{left}")


def _since(at: float, line: str) -> float:
    """Return from when on an entry was there: one with a date alone may be of that day's end."""
    stamp = read_stamp(line)
    return at if stamp is None or stamp.timed else at + _DAY
