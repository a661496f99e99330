"""What a hero run's logbook tells of its run (SPEC L): the contract and the newest instance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cockpit.init.proposal import Clue, Key
from cockpit.init.state_file import SourceError, relative
from cockpit.records.logbook.reading import LabelledValue, read_logbook, value_of
from cockpit.runtime.regular import read_text
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_NOTHING: Final = frozenset(("", "-", "–", "—", "none", "n/a", "tbd", "todo", "unknown", "?"))
_LINK: Final = re.compile(r"https?://[^\s)>\]`]+")
_COUNT: Final = re.compile(r"\d[\d,_]*")
_TITLE: Final = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*:\s*Hero Run Logbook", re.IGNORECASE)
TEXTS: Final[tuple[tuple[str, Key], ...]] = (
    ("DRI", ("dri",)),
    ("Goal", ("goal",)),
    ("Stop/escalation criteria", ("stop_criteria",)),
    ("Output root", ("output_root",)),
)


def logbook_clues(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield what the logbook tells; raises ``SourceError``."""
    try:
        book = read_logbook(read_text(path))
    except OSError as error:
        raise SourceError(
            f"{clean(path)}: {(error.strerror or 'cannot be read').lower()}"
        ) from None
    source = relative(path, folder)
    if not book.contract and not book.entries:
        raise SourceError(f"{clean(path)} is not a logbook: it has neither a contract nor entries")
    yield Clue(("records", "logbook"), source, source)
    title = _TITLE.fullmatch(book.title.strip())
    if title is not None:
        yield Clue(("name",), title["name"], f"{source}: its title")
    yield from _contract(book.contract, source)
    if book.instances:
        yield from _instance(book.instances[-1].fields, source)


def _contract(fields: Iterable[LabelledValue], source: str) -> Iterator[Clue]:
    fields = tuple(fields)
    for label, key in TEXTS:
        value = _said(fields, label)
        if value is not None:
            yield Clue(key, value, f"{source}: {label}")
    issue = _LINK.search(_said(fields, "Issue") or "")
    if issue is not None and "/issues/" in issue[0]:
        yield Clue(("records", "issue"), issue[0], f"{source}: Issue")
    wandb = _LINK.search(_said(fields, "W&B") or "")
    if wandb is not None and "/runs/" in wandb[0]:
        yield Clue(("wandb", "url"), wandb[0], f"{source}: W&B")
    step = _COUNT.fullmatch(_said(fields, "Final step") or "")
    if step is not None:
        yield Clue(("final_step",), int(re.sub(r"[,_]", "", step[0])), f"{source}: Final step")


def _instance(fields: Iterable[LabelledValue], source: str) -> Iterator[Clue]:
    fields = tuple(fields)
    where = f"{source}: the newest launched instance"
    command = _said(fields, "Command")
    if command is not None and "[" not in command and scrub(command) == command:
        yield Clue(("resubmit",), command, where)
    for label, key in (
        ("Hardware/topology", ("hardware",)),
        ("initialize_from", ("checkpoints", "initialize_from")),
    ):
        value = _said(fields, label)
        if value is not None:
            yield Clue(key, value, where)


def _said(fields: Iterable[LabelledValue], label: str) -> str | None:
    value = clean((value_of(fields, label) or "").strip().strip("`").strip(), 2000)
    return None if value.lower() in _NOTHING else value
