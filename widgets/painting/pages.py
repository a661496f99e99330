"""Pages of text: help, Markdown, and both as plain text or SVG."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from textual.content import Content, Span

from cockpit.model.conditions import CONDITIONS, limits
from cockpit.model.facet import Facet
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import Thresholds
from cockpit.model.wording import ago, day_time, duration
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    LINE,
    STRONG,
    cut,
    fit,
    hung,
    in_rows,
    text,
    wrapped,
)

MOST_PAGE_LINES: Final = 400
"""Rows that one line of a page may take."""
FENCE: Final = "```"
_HEADING: Final = re.compile(r"(#{1,6}) +(.*)")
_BULLET: Final = re.compile(r"( *)[-*] +(.*)")
_LABEL: Final = re.compile(r"[A-Z][\w& ]{1,26}: ")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_RULE: Final = re.compile(r"\|?[\s:|-]+\|?")
_CODED: Final = "$accent"


def paint_page(lines: Sequence[str], width: int) -> list[Content]:
    """Return the rows of a page at a width; what is read as code keeps its blanks."""
    rows: list[Content] = []
    fenced = False
    for is_table, group in groupby(lines, key=lambda line: line.startswith("|")):
        if is_table and not fenced:
            rows += _table(list(group), width)
            continue
        for line in group:
            if line.startswith(FENCE):
                fenced = not fenced
                continue
            if fenced:
                code = text((line, _CODED))
                pieces = wrapped(code, max(1, width - 2), MOST_PAGE_LINES)
                rows += [text("  ", piece) for piece in pieces]
            else:
                rows += _paint_line(line, width)
    return rows


def change_words(page: str, change: Callable[[str], str]) -> str:
    """Return a page with its words changed, but for what stands in code on a line.

    A tick without a fellow on its line begins no code, wherever the next one stands.
    """
    changed, at = "", 0
    for found in _CODE.finditer(page):
        changed += change(page[at : found.start()]) + found[0]
        at = found.end()
    return changed + change(page[at:])


def _paint_line(line: str, width: int) -> list[Content]:
    heading, bullet = _HEADING.fullmatch(line), _BULLET.fullmatch(line)
    if heading is not None:
        return _heading(len(heading[1]), heading[2], width)
    if bullet is not None:
        return _hung(text(" " * len(bullet[1]), ("• ", DIM)), _inline(bullet[2]), width)
    if line.startswith(">"):
        return _hung(text(("▏ ", ACCENT)), _inline(line[1:].strip()), width, again=True)
    return wrapped(_inline(line), width, MOST_PAGE_LINES) or [EMPTY]


def _heading(level: int, words: str, width: int) -> list[Content]:
    """Return a page's title, or a section's with a rule as wide as the page."""
    if level == 1:
        return wrapped(text((words, f"{STRONG} {ACCENT}")), width, MOST_PAGE_LINES)
    title = cut(text((words, STRONG)), max(1, width - 4))
    rule = "─" * max(0, width - title.cell_length - 1)
    return [text(title, " ", (rule, LINE))]


def _hung(head: Content, body: Content, width: int, again: bool = False) -> list[Content]:
    """Return a body behind its mark, the rows that follow below the first, marked ``again``."""
    pieces = wrapped(body, max(1, width - head.cell_length), MOST_PAGE_LINES) or [EMPTY]
    return [text(head, piece) for piece in pieces] if again else hung(head, pieces)


def _inline(words: str) -> Content:
    """Return words with code in the accent, a label before a colon dim."""
    plain, spans, at = "", [], 0
    for found in _CODE.finditer(words):
        plain += words[at : found.start()]
        spans.append(Span(len(plain), len(plain) + len(found[1]), _CODED))
        plain += found[1]
        at = found.end()
    plain += words[at:]
    label = _LABEL.match(plain)
    if label is not None:
        spans.append(Span(0, label.end(), DIM))
    return Content(plain, spans)


def _table(lines: Sequence[str], width: int) -> list[Content]:
    """Return a table in columns, its first row as their titles; the last column gives way."""
    told = [line.strip().strip("|").split("|") for line in lines if not _RULE.fullmatch(line)]
    table = [[_inline(cell.strip()) for cell in cells] for cells in told]
    count = max((len(cells) for cells in table), default=0)
    if not count:
        return []
    table = [[*cells, *[EMPTY] * (count - len(cells))] for cells in table]
    widths = [max(cells[column].cell_length for cells in table) for column in range(count)]
    rows = [_table_row(cells, widths, width) for cells in table]
    return [rows[0].stylize(STRONG), *rows[1:]]


def _table_row(cells: Sequence[Content], widths: Sequence[int], width: int) -> Content:
    padded = (fit(cell, room + 2) for cell, room in zip(cells, widths, strict=True))
    return cut(Content("").join(padded), width)


Section = tuple[str, Sequence[tuple[str, str, str]]]
"""A title, and (keys, what it is, what it does or why not now) of each line."""
COLUMN: Final = 48
"""Columns that a section needs."""
GAP: Final = 3
MOST_HELP_LINES: Final = 4
"""Lines that one text may take."""
NOT_NOW: Final = "▲ "
"""What stands before why something cannot be done now."""
SIGNS: Final = (
    ("■", "$critical", "critical; in a plan: blocks"), ("▲", "$attention", "attention; suspect"),
    ("●", "$well", "healthy"), ("◆", "$well", "finished"), ("?", "$unknown", "unknown, with why"),
    ("✓", "$well", "complete; passed; sealed"), ("✗", "$critical", "torn; rejected; failed"),
    ("◌", DIM, "being written"), ("~", "", "about: not exact"), ("▸", ACCENT, "selected; picked"),
    ("→", ACCENT, "next safe action"), ("◷", DIM, "stale: last known, with its age"),
    ("×", "$critical", "NaN or inf"), ("·", DIM, "information"), ("!", "$attention", "warning"),
    ("▌", ACCENT, "selected run; in a log: evidence"), ("⚑", ACCENT, "bookmark"),
    ("★", ACCENT, "favourite"),
)  # fmt: skip
"""Every sign of the screens, its style, and what it means."""


class Help(NamedTuple):
    """What the page holds: ``here`` works now, ``elsewhere`` on other screens.

    ``open_codes`` are the conditions open on the selected run, whose ``thresholds`` give the
    figures. With ``words`` only what has all of them is shown, every condition included. Where
    what works here does not fit ``rows``, its keys stand before it by name alone.
    """

    here: Sequence[Section]
    elsewhere: Sequence[Section] = ()
    open_codes: Sequence[str] = ()
    thresholds: Thresholds | None = None
    words: str = ""
    rows: int = 0


def paint_help(page: Help, width: int) -> list[Content]:
    """Return the lines of the page, or that nothing has the words."""
    wanted = page.words.casefold().split()
    codes = [each for each in _codes(page) if _has(" ".join(each), wanted)]
    signs = [(mark, style, said) for mark, style, said in SIGNS if _has(f"{mark} {said}", wanted)]
    here = _columns(_kept(page.here, wanted), width)
    crowded = bool(page.rows) and len(here) > page.rows and not wanted
    blocks = (
        _by_name(page.here, width) if crowded else [],
        here,
        _coded(codes, width, "conditions" if wanted else "open on this run: what the codes mean"),
        _signs(signs, width),
        _columns([(f"{title} (elsewhere)", rows)
                  for title, rows in _kept(page.elsewhere, wanted)], width),
    )  # fmt: skip
    lines: list[Content] = []
    for block in blocks:
        lines += [EMPTY, *block] if lines and block else block
    return lines or [text(("no match", DIM))]


def _has(words: str, wanted: Sequence[str]) -> bool:
    folded = words.casefold()
    return all(each in folded for each in wanted)


def _kept(sections: Sequence[Section], wanted: Sequence[str]) -> list[Section]:
    """Return the sections with the rows that have what is wanted, none without any."""
    kept = [
        (title, [each for each in rows if _has(f"{title} {' '.join(each)}", wanted)])
        for title, rows in sections
    ]
    return [section for section in kept if section[1]]


def _columns(sections: Sequence[Section], width: int) -> list[Content]:
    """Return sections beside each other, in their order from the left, about equally long."""
    count = max(1, min(len(sections), (width + GAP) // (COLUMN + GAP)))
    each = (width - GAP * (count - 1)) // count
    painted = [_section(section, each) for section in sections]
    share = -(-sum(len(lines) + 1 for lines in painted) // count)
    columns: list[list[Content]] = [[]]
    for lines in painted:
        full = columns[-1] and len(columns[-1]) + len(lines) // 2 >= share
        if full and len(columns) < count:
            columns.append([])
        columns[-1] += [EMPTY, *lines] if columns[-1] else lines
    if len(columns) == 1:
        return columns[0]
    rows = []
    for at in range(max(map(len, columns))):
        cells = [fit(column[at] if at < len(column) else EMPTY, each) for column in columns]
        rows.append(Content(" " * GAP).join(cells))
    return rows


NAMED: Final = 25
"""Columns that a key needs with its name."""


def _by_name(sections: Sequence[Section], width: int) -> list[Content]:
    """Return the keys by name alone, in columns; dim what cannot be done now."""
    cells: list[Content] = []
    for title, rows in sections:
        cells.append(text((title, STRONG)))
        for keys, name, does in rows:
            key = keys.split(" ")[0]
            shown = text((f"{key:>6}", f"bold {ACCENT}"), (f" {name}", DIM * (NOT_NOW in does)))
            cells.append(shown)
    count = max(1, width // NAMED)
    high = -(-len(cells) // count)
    columns = [cells[at : at + high] for at in range(0, len(cells), high)]
    lines = [
        Content("").join(fit(column[at], width // count) for column in columns if at < len(column))
        for at in range(high)
    ]
    return [*lines, text(("what each of them does: below", DIM))]


def _section(section: Section, width: int) -> list[Content]:
    title, rows = section
    keys = min(max(Content(key).cell_length for key, _, _ in rows) + 2, max(4, width // 4))
    names = min(max(Content(name).cell_length for _, name, _ in rows) + 2, max(4, width // 3))
    lines = [text((title, STRONG))]
    for key, name, does in rows:
        does, mark, why = does.partition(NOT_NOW)
        left = text(" ", fit(text((key, f"bold {ACCENT}")), keys), fit(Content(name), names))
        said = text((does, DIM), (mark + why, "$attention"))
        lines += hung(left, wrapped(said, width - left.cell_length, MOST_HELP_LINES) or [EMPTY])
    return [fit(line, width) for line in lines]


def _codes(page: Help) -> list[tuple[str, str, str, str]]:
    """Return (id, what, opens, severity): of what is open, or of all that is looked for."""
    return [
        (each.id, each.what, limits(each, page.thresholds), each.severity)
        for each in CONDITIONS
        if page.words or set(each.id.split(", ")) & set(page.open_codes)
    ]


def _coded(codes: Sequence[tuple[str, str, str, str]], width: int, title: str) -> list[Content]:
    lines = [text((title, STRONG))] if codes else []
    for code, what, opens, severity in codes:
        head = text(" ", (code, f"bold {ACCENT}"), "  ", what, (f"  {severity}", DIM))
        below = wrapped(text((opens, DIM)), width - 3, MOST_HELP_LINES)
        lines += [*wrapped(head, width, MOST_HELP_LINES), *(text("   ", each) for each in below)]
    return [fit(line, width) for line in lines]


def _signs(signs: Sequence[tuple[str, str, str]], width: int) -> list[Content]:
    if not signs:
        return []
    items = [text((mark, style), f" {said}") for mark, style, said in signs]
    lines = [text(("signs", STRONG)), *(text(" ", row) for row in in_rows(items, width - 1))]
    return [fit(line, width) for line in lines]


TASK_MARKS: Final = {
    Phase.FAILED: ("✗", "$critical"), Phase.CANCELLED: ("■", "$attention"),
    Phase.UNKNOWN: ("?", "$unknown"), Phase.RUNNING: ("●", "$accent"),
    Phase.WAITING: ("◌", "$dim"), Phase.SUCCEEDED: ("✓", "$well"),
}  # fmt: skip
"""By the phase of an array's task: its mark and style, in the order in which they are listed."""


def tasks_table(facet: Facet[JobValue], now: float) -> list[str]:
    """Return how many are in which phase and as of when, then the tasks, those that failed first.

    The counts read ``2 failed · 1 running · 9 succeeded``.
    """
    job = facet.value
    if job is None or not job.members:
        return []
    order, counts = list(TASK_MARKS), Counter[Phase]()
    for each in job.members:
        counts[each.phase] += each.count
    head = [" · ".join(f"{counts[phase]:,} {phase.value}" for phase in order if counts[phase])]
    if job.tasks is not None and counts.total() < job.tasks.total:
        of = f"; of all, {job.tasks.failed:,} failed, {job.tasks.running:,} running"
        head.append(f"only {counts.total():,} of {job.tasks.total:,} tasks are listed{of}")
    seen = now if facet.known or facet.observed_at is None else facet.observed_at
    head.append(f"as of {day_time(facet.observed_at, now)}, {ago(facet.age(now))}")
    if not facet.known:
        head[-1] += f"; unknown since: {facet.why_unknown('nobody has asked')}"
    wide = max(len(each.id) for each in job.members)
    said = max(len(each.state) for each in job.members)
    lines = [*head, "", f"  {'task':<{wide}}  {'state':<{said}}  exit   started    took"
             "  node and output"]  # fmt: skip
    for each in sorted(job.members, key=lambda each: order.index(each.phase)):
        begun, end = each.started_at, each.ended_at if each.phase.terminal else seen
        took = "" if begun is None or end is None else duration(max(0.0, end - begun))
        code = "" if each.exit_code is None else str(each.exit_code)
        when = "" if begun is None else day_time(begun, now)
        rest = "  ".join(filter(None, (each.node, each.output)))
        lines.append(f"{TASK_MARKS[each.phase][0]} {each.id:<{wide}}  {each.state:<{said}}"
                     f"  {code:>4}  {when:>8}  {took:>6}  {rest}".rstrip())  # fmt: skip
    return lines


def why_no_tasks(facet: Facet[JobValue], now: float) -> str:
    """Return why no task is listed: no array, none that is told of one by one, or not known."""
    job = facet.value
    if job is None:
        return f"the job's tasks are unknown: {facet.why_unknown('nobody has asked')}"
    if facet.remembered:
        return "the tasks are unknown: the job's system has not answered since the start"
    if job.tasks is None:
        return "this job is no array: it has no tasks of its own"
    of = f"{job.tasks.running:,} of {job.tasks.total:,} tasks run {ago(facet.age(now))}"
    return f"{of}: this job is no array, so they are not told of one by one"


CELL: Final = (8.4, 18.0)
"""Width and height of one cell of the picture, in pixels."""
EDGE: Final = 16.0
_FONT: Final = "'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"


def as_text(lines: Sequence[Content]) -> str:
    """Return the lines as they read, without colours."""
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def as_svg(lines: Sequence[Content], width: int, colours: Mapping[str, str]) -> str:
    """Return a picture of the lines, ``width`` cells wide; it loads nothing.

    ``colours`` are the theme's, by name (``ink``, ``background``, ``accent``) as ``#rrggbb``.
    """
    across, down = width * CELL[0] + 2 * EDGE, len(lines) * CELL[1] + 2 * EDGE
    ink, ground = colours["ink"], colours["background"]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across:g}" height="{down:g}" '
        f'viewBox="0 0 {across:g} {down:g}">\n'
        f'<rect width="100%" height="100%" fill="{ground}"/>\n'
        f'<g font-family="{_FONT}" font-size="14" fill="{ink}" xml:space="preserve">\n'
    )
    rows = (_row(line, place, colours) for place, line in enumerate(lines))
    return f"{head}{''.join(rows)}</g>\n</svg>\n"


def _row(line: Content, place: int, colours: Mapping[str, str]) -> str:
    """Return a line's pieces of one style, each at its own cell: no font can move what follows."""
    ends = {0, len(line.plain)} | {end for span in line.spans for end in (span.start, span.end)}
    y = EDGE + (place + 0.75) * CELL[1]
    pieces = []
    for start, end in pairwise(sorted(ends)):
        said = line.plain[start:end]
        if not said.strip():
            continue
        styles = [str(s.style) for s in line.spans if s.start <= start and end <= s.end]
        x = EDGE + Content(line.plain[:start]).cell_length * CELL[0]
        long = Content(said).cell_length * CELL[0]
        look = _svg_style(" ".join(styles).split(), colours)
        place_of = f'x="{x:g}" y="{y:g}" textLength="{long:g}" lengthAdjust="spacingAndGlyphs"'
        pieces.append(f"<text {place_of}{look}>{escape(said)}</text>\n")
    return "".join(pieces)


def _svg_style(words: Sequence[str], colours: Mapping[str, str]) -> str:
    found = [colours[word[1:]] for word in words if word[1:] in colours and word[0] == "$"]
    weight = ' font-weight="bold"' if "bold" in words else ""
    return (f' fill="{found[-1]}"' if found else "") + weight
