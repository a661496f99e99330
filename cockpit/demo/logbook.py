"""The demo's logbooks, in the shape of SPEC L: written once, then only added to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

EVENTS = "## Event Log\n"


def fresh(name: str, contract: Mapping[str, str]) -> str:
    """Return a new logbook: the run contract and two empty sections."""
    title = f"# {name}: Hero Run Logbook"
    return f"{title}\n\n## Run Contract\n\n{_list(contract)}\n## Launched Instances\n\n{EVENTS}"


def with_instance(text: str, instance: str, at: float, fields: Mapping[str, str]) -> str:
    """Return ``text`` with one more launched instance, the newest last."""
    entry = f"{_heading(at, instance)}\n{_list(fields)}\n"
    return text.replace(EVENTS, entry + EVENTS, 1)


def with_event(text: str, event: str, at: float, fields: Mapping[str, str]) -> str:
    """Return ``text`` with one more event at its end."""
    return f"{text.rstrip()}\n\n{_heading(at, event)}\n{_list(fields)}"


def _heading(at: float, title: str) -> str:
    return f"### {datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M} UTC - {title}\n"


def _list(fields: Mapping[str, str]) -> str:
    return "".join(f"- {label}: {text}\n" for label, text in fields.items())
