"""Writes a run's records for the actions: the logbook in git, the issue on GitHub (SPEC L, S-11).

What is written is scrubbed first. Writing the same entry again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from cockpit.model.base import Frozen
from cockpit.model.clock import SystemClock
from cockpit.model.records import EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.run import RunSpec
from cockpit.records.git.behind import Push
from cockpit.records.git.committing import Edit
from cockpit.records.git.saver import Saver
from cockpit.records.issue.service import IssueService
from cockpit.text.scrub import scrub

F = TypeVar("F", bound=Frozen)

NO_LOGBOOK = Recorded(stage=SaveStage.NOTHING)
"""The answer for a run without a logbook: nothing to write, nothing in the way."""


class RecordWriter:
    """Writes a run's records. Each is written and committed at once; its push goes on behind."""

    def __init__(self, saver: Saver, issues: IssueService) -> None:
        self._saver = saver
        self._issues = issues

    async def hindrance(self, run: RunSpec) -> str | None:
        """Return why nothing could be written into the run's logbook now; changes nothing."""
        from cockpit.records.git.writable import trouble_with

        return (
            None if run.records.logbook is None else await trouble_with(Path(run.records.logbook))
        )

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        """Append an entry to the event log, commit it as ``commit``, push."""
        return await self.event_if(run, entry, commit, lambda data: True)

    async def event_if(
        self, run: RunSpec, entry: EventEntry, commit: str, wanted: Callable[[bytes], bool]
    ) -> Recorded:
        """Append an entry if it is ``wanted``, asked under the logbook's lock of what stands there.

        It refuses by ``False``, or by a ``ValueError`` that says why. Blocking.
        """
        from cockpit.records.logbook.writing import with_event

        safe = scrubbed(entry)

        def edit(data: bytes) -> bytes:
            return with_event(_begun(run, data), safe) if wanted(data) else data

        return await self._save(run, edit, commit)

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        """Append a launched instance, commit, push."""
        from cockpit.records.logbook.writing import with_instance

        safe = scrubbed(entry)
        return await self._save(run, lambda data: with_instance(_begun(run, data), safe), commit)

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        """Add fields to the Run Contract, commit, push; creates a logbook that is not there."""
        from cockpit.records.logbook.writing import with_contract

        safe, at = _masked(values), SystemClock().now()

        def edit(data: bytes) -> bytes:
            return with_contract(data, safe, at) if data.strip() else _new(run, safe)

        return await self._save(run, edit, commit)

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        """Comment on the run's issue; one ``event`` is never posted twice."""
        return await self._issues.comment(run, event, scrub(body))

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue; ``url`` is where it is."""
        return await self._issues.create(run, scrub(body))

    async def _save(self, run: RunSpec, edit: Edit, commit: str) -> Recorded:
        if run.records.logbook is None:
            return NO_LOGBOOK
        return await self._saver.save(Path(run.records.logbook), edit, commit, behind=True)

    async def document(self, path: Path, edit: Edit, commit: str) -> Recorded:
        """Edit another file of the records, commit it alone, push."""
        return await self._saver.save(path, edit, commit, behind=True)

    async def pushes(self, paths: Iterable[Path], within: float = 0.0) -> tuple[Push, ...]:
        """Return how the pushes of files stand, once they are over or after ``within`` seconds."""
        return tuple([await self._saver.pushes(path, within) for path in paths])

    async def push_left(self, run: RunSpec) -> None:
        """Push, behind, what of a run's logbook is committed and was left; returns at once."""
        if run.records.logbook is not None:
            await self._saver.push_left(Path(run.records.logbook))


def scrubbed(entry: F) -> F:
    """Return an entry with the secrets in its texts masked; its time and keys stay."""
    values = entry.model_dump()
    for key, value in values.items():
        if isinstance(value, dict):
            values[key] = _masked(value)
        elif isinstance(value, str):
            values[key] = scrub(value)
    return type(entry).model_validate(values)


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    """Mask each value, read beside its label: a label may be what makes it a secret."""
    masked = {}
    for label, value in values.items():
        head = f"{label}: "
        line = scrub(head + value)
        safe = line.removeprefix(head) if line.startswith(head) else scrub(value)
        masked[scrub(label)] = safe
    return masked


def _begun(run: RunSpec, data: bytes) -> bytes:
    """Return the logbook to write into: a new one where there is none yet."""
    return data if data.strip() else _new(run, {})


def _new(run: RunSpec, values: Mapping[str, str]) -> bytes:
    from cockpit.records.logbook.writing import new_logbook

    return new_logbook(run, values)
