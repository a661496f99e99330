"""Writes a run's records for the actions: the logbook in git, the issue on GitHub (SPEC L, S-11).

What is written is scrubbed first. Writing the same entry again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from cockpit.model.base import Frozen
from cockpit.model.records import EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.run import RunSpec
from cockpit.records.committing import Edit
from cockpit.records.saver import Saver, Told
from cockpit.text.scrub import scrub

F = TypeVar("F", bound=Frozen)

NO_LOGBOOK = Recorded(stage=SaveStage.NOTHING)
"""The answer for a run without a logbook: nothing to write, nothing in the way."""


class Issues(Protocol):
    """The run's issue, as ``IssueDesk`` keeps it."""

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        """Comment once per event; queued while offline."""

    async def create(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue."""


class RecordDesk:
    """The ``Recorder`` of the actions. ``told`` hears each stage of a save, by run."""

    def __init__(
        self,
        saver: Saver,
        issues: Issues,
        told: Callable[[str, Recorded], None] = lambda run, recorded: None,
    ) -> None:
        self._saver = saver
        self._issues = issues
        self._told = told

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        """Append an entry to the event log, commit it as ``commit``, push."""
        from cockpit.records.writing import with_event

        safe = scrubbed(entry)
        return await self._save(run, lambda data: with_event(_begun(run, data), safe), commit)

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        """Append a launched instance, commit, push."""
        from cockpit.records.writing import with_instance

        safe = scrubbed(entry)
        return await self._save(run, lambda data: with_instance(_begun(run, data), safe), commit)

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        """Set fields of the Run Contract, commit, push; creates a logbook that is not there."""
        from cockpit.records.writing import with_contract

        safe = _masked(values)
        return await self._save(run, lambda data: _contract(run, data, safe, with_contract), commit)

    async def text(self, run: RunSpec, section: str, markdown: str, commit: str) -> Recorded:
        """Append a person's own text to a section as it was typed, secrets aside."""
        from cockpit.records.writing import with_text

        safe = scrub(markdown)
        return await self._save(
            run, lambda data: with_text(_begun(run, data), section, safe), commit
        )

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        """Comment on the run's issue; one ``event`` is never posted twice."""
        return await self._issues.comment(run, event, scrub(body))

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue; ``url`` is where it is."""
        return await self._issues.create(run, scrub(body))

    async def retry(self, run: RunSpec) -> Recorded:
        """Commit and push what an earlier save could not."""
        if run.records.logbook is None:
            return NO_LOGBOOK
        path = Path(run.records.logbook)
        return await self._saver.retry(path, f"{run.name}: log", self._hears(run))

    async def state(self, run: RunSpec) -> Recorded:
        """Return how far the logbook has come, without a network."""
        if run.records.logbook is None:
            return NO_LOGBOOK
        return await self._saver.state(Path(run.records.logbook))

    async def _save(self, run: RunSpec, edit: Edit, commit: str) -> Recorded:
        if run.records.logbook is None:
            return NO_LOGBOOK
        return await self._saver.save(Path(run.records.logbook), edit, commit, self._hears(run))

    def _hears(self, run: RunSpec) -> Told:
        return lambda recorded: self._told(run.name, recorded)


def scrubbed(entry: F) -> F:
    """Return an entry with the secrets in its texts masked; its time and keys stay."""
    values = entry.model_dump()
    safe = {
        key: _masked(value)
        if isinstance(value, dict)
        else scrub(value)
        if isinstance(value, str)
        else value
        for key, value in values.items()
    }
    return type(entry).model_validate(safe)


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    """Mask each value, read beside its label: a label may be what makes it a secret."""
    return {scrub(label): _beside(label, value) for label, value in values.items()}


def _beside(label: str, value: str) -> str:
    head = f"{label}: "
    told = scrub(head + value)
    return told.removeprefix(head) if told.startswith(head) else scrub(value)


def _begun(run: RunSpec, data: bytes) -> bytes:
    """Return the logbook to write into: a new one where there is none yet."""
    return data if data.strip() else _new(run, {})


def _contract(
    run: RunSpec,
    data: bytes,
    values: Mapping[str, str],
    change: Callable[[bytes, Mapping[str, str]], bytes],
) -> bytes:
    return change(data, values) if data.strip() else _new(run, values)


def _new(run: RunSpec, values: Mapping[str, str]) -> bytes:
    from cockpit.records.style import read_style
    from cockpit.records.writing import new_logbook

    return new_logbook(run, values, read_style(b""))
