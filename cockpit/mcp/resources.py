"""What can be read as a resource: a run, its logbook, its handoff page."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from cockpit.mcp.desk import Desk
from cockpit.mcp.foreign import fitted, lines_of
from cockpit.mcp.reading import Run, handoff_page, run
from cockpit.mcp.tool import OfRun, ToolError
from cockpit.mcp.wire import Document
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text

SCHEME: Final = "cockpit://"
JSON: Final = "application/json"
PAGE: Final = 50
"""Runs whose resources one page lists."""
LINES: Final = 400
"""Lines at the end of a logbook that are given."""
READ_WITHIN: Final = 10.0


class Kind(NamedTuple):
    """One kind of resource: the first part of its address, and what gives its content."""

    name: str
    about: str
    read: Callable[[Desk, str], Awaitable[Document]]


async def _run(desk: Desk, name: str) -> Document:
    return await run(desk, Run(run=name), lambda done, said: None)


async def _page(desk: Desk, name: str) -> Document:
    return await handoff_page(desk, OfRun(run=name), lambda done, said: None)


async def _logbook(desk: Desk, name: str) -> Document:
    path = desk.spec(name).records.logbook
    if path is None:
        raise ToolError(f"{name} has no logbook in the run file")
    try:
        text = await offload(read_text, Path(path), deadline=READ_WITHIN)
    except (OSError, TimeoutError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or "it cannot be read"
        raise ToolError(fitted(f"the logbook of {name}: {why}")) from error
    lines = text.split("\n")
    left = max(0, len(lines) - LINES)
    return {"run": name, "earlier_lines_left_out": left, "foreign_lines": lines_of(lines[-LINES:])}


KINDS: Final = (
    Kind("run", "the run's state, as the tool run gives it", _run),
    Kind("logbook", "the end of the run's logbook, oldest line first", _logbook),
    Kind("handoff", "the page about the run for whoever takes it over", _page),
)


def listed(desk: Desk, cursor: object) -> Document:
    """Return one page of all resources; raises ``ToolError`` for a cursor that is none."""
    if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal()):
        raise ToolError("cursor: expected what a former answer gave")
    begin = int(cursor or 0) if len(cursor or "") < 10 else 0
    names = [spec.name for spec in desk.file.runs]
    found = [_resource(kind, name) for name in names[begin : begin + PAGE] for kind in KINDS]
    more = {"nextCursor": str(begin + PAGE)} if begin + PAGE < len(names) else {}
    return {"resources": found, **more}


def templates() -> Document:
    """Return the addresses of resources with a place for the run's name."""
    return {
        "resourceTemplates": [
            {
                "uriTemplate": f"{SCHEME}{kind.name}/{{run}}", "name": kind.name,
                "description": kind.about, "mimeType": JSON,
            }
            for kind in KINDS
        ]
    }  # fmt: skip


async def contents(desk: Desk, uri: str) -> Document:
    """Return what lies at an address; raises ``LookupError`` where nothing does."""
    kind = uri.removeprefix(SCHEME).partition("/")[0]
    found = next((each for each in KINDS if each.name == kind), None)
    if found is None or not uri.startswith(SCHEME):
        raise LookupError(uri)
    document = await found.read(desk, desk.spec(run_at(uri)).name)
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return {"contents": [{"uri": uri, "mimeType": JSON, "text": text}]}


def run_at(uri: str) -> str:
    """Return the run that an address names."""
    return unquote(uri.removeprefix(SCHEME).partition("/")[2])


def _resource(kind: Kind, name: str) -> Document:
    return {
        "uri": f"{SCHEME}{kind.name}/{quote(name, safe='')}", "name": f"{kind.name} {name}",
        "description": kind.about, "mimeType": JSON,
    }  # fmt: skip
