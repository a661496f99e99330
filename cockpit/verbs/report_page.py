"""A report as text of 80 columns, as Markdown for an issue, and as one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from textwrap import wrap

from cockpit.model.summary import RunSummary, Section
from cockpit.model.wording import lasting, utc_minute
from cockpit.records.issue.service import prose
from cockpit.text.scrub import shown

LABEL = 11
MOST = 2000
"""Characters of a line."""
STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; }
h2 { border-top: 1px solid #8886; padding-top: .8rem; }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .3rem .8rem; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; } p { margin: 0; }
.critical { color: #c22; } .attention, .unknown { color: #a60; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } }
"""


def heading(since: float, until: float) -> str:
    """Return what the report is about."""
    took = lasting(max(0.0, until - since))
    return f"Report from {utc_minute(since)} to {utc_minute(until)} ({took})"


def text_lines(runs: Sequence[RunSummary], since: float, until: float, width: int) -> Iterator[str]:
    """Yield the report for a terminal, its lines at most ``width`` letters; times are UTC."""
    fold = partial(wrap, width=width, break_on_hyphens=False)
    yield from fold(heading(since, until))
    for run in runs:
        yield ""
        yield from fold(_title(run))
        for title, lines in _sections(run):
            label = title
            for line in lines:
                head = f"  {label:<{LABEL}}"
                hung = " " * (len(head) + 2)
                yield from fold(f"{head}{line}", subsequent_indent=hung)
                label = ""


def markdown(runs: Sequence[RunSummary], since: float, until: float) -> str:
    """Return the report as a comment of an issue; foreign text is escaped in it."""
    parts = [f"🤖 {heading(since, until)}"]
    for run in runs:
        parts.append(f"### {prose(_title(run))}")
        parts += [_markdown_section(each) for each in _sections(run)]
    return "\n\n".join(parts)


def _markdown_section(section: Section) -> str:
    title, lines = section.title.capitalize(), section.lines
    if len(lines) == 1:
        return f"**{title}**: {prose(lines[0])}"
    return "\n".join((f"**{title}**", "", *(f"- {prose(line)}" for line in lines)))


def html(runs: Sequence[RunSummary], since: float, until: float) -> str:
    """Return the report as one page that loads nothing; foreign text is escaped in it."""
    title = escape(heading(since, until))
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
    ]
    for run in runs:
        parts.append(f'<h2 class="{run.verdict.value}">{escape(_title(run))}</h2>\n<dl>')
        for section in _sections(run):
            lines = "".join(f"<p>{escape(line)}</p>" for line in section.lines)
            parts.append(f"<dt>{escape(section.title)}</dt><dd>{lines}</dd>")
        parts.append("</dl>")
    return "\n".join((*parts, "</body>\n</html>\n"))


def _sections(run: RunSummary) -> Iterator[Section]:
    """Yield the sections with each line safe: a secret is seen before it is folded or escaped."""
    for title, lines in run.sections():
        yield Section(title, tuple(shown(line, MOST) for line in lines))


def _title(run: RunSummary) -> str:
    reason = "" if run.verdict_reason is None else f": {run.verdict_reason}"
    seen = "never seen" if run.seen_at is None else f"seen {run.clock(run.seen_at)}"
    return shown(f"{run.name} {run.verdict.value.upper()}{reason} ({seen})", MOST)
