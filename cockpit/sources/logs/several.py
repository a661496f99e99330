"""The logs of one job, where it writes several: standard error of its own, one for each rank.

All are followed. The one that steps is shown, and goes on being shown; the others are named, and
read when it matters why the job ended. A loss that another one tells without a step (a trainer's
dictionaries on standard output, its bar on standard error) belongs to the newest step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import has_magic
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cockpit.model.clock import FILE_SKEW
from cockpit.model.facet import Facet
from cockpit.model.jobs import Query
from cockpit.model.late_regex import late_regex
from cockpit.model.observed import JobValue, LogValue, OtherLog, Row
from cockpit.model.place import SSH, Place, on_host
from cockpit.sources.logs.pieces import Answer

MOST: Final = 16
"""Logs of one job that are followed besides the first."""


def filled(place: Place, job: JobValue | None) -> Place:
    """Return a log's place with what Slurm calls by a letter: the job's numbers, else anything."""
    if "%" not in place.path:
        return place
    name = "" if job is None or job.id is None else job.id
    base, _, task = name.partition("_")
    known = {"j": name, "J": name, "A": base, "a": task, "x": "", "u": "", "s": ""}
    path = _LETTER.sub(lambda found: known.get(found[1]) or "*", place.path)
    return Place(place.scheme, place.host, path)


_LETTER: Final = late_regex(r"%\d?([jJAaxusnNt])")
_EACH: Final = late_regex(r"%\d?[nNt]")
"""What stands for one file of each task or node: all of them are written at once."""


Matched = Mapping[Place, Sequence[Answer]]
"""The files that each pattern matches on its host, as measured there."""


def logs_of(
    query: Query, first: Place | None, others: Sequence[Place], away: Matched = MappingProxyType({})
) -> Several:
    """Return the logs of a run; of patterns the files that they match. Blocking.

    ``away`` has been asked for ``patterns_away``.
    """
    spec, since = query.run.job, _since(query.job)
    named = () if spec is None else spec.other_logs
    found: list[Place] = []
    own = _pattern_of_each(query, first)
    if own is not None:
        found += _matches(own, since, away)
    if first is not None:
        first = found[0] if found else filled(first, query.job)
    for each in named:
        found += _matches(filled(each, query.job), since, away)
    return Several(query.name, first, (*found, *others))


def patterns_away(query: Query, first: Place | None) -> Iterator[Place]:
    """Yield the patterns of a run's logs whose files must be asked for on an ssh host."""
    spec = query.run.job
    named = () if spec is None else spec.other_logs
    for each in (_pattern_of_each(query, first), *(filled(each, query.job) for each in named)):
        if each is not None and each.scheme == SSH and has_magic(each.path):
            yield each


def _pattern_of_each(query: Query, first: Place | None) -> Place | None:
    """Return the pattern of a log that each task or node has one of, if it is named so."""
    spec = query.run.job
    own = first if spec is None or spec.log is None else spec.log
    if own is None or not _EACH.search(own.path):
        return None
    host = None if spec is None else spec.host
    return filled(on_host(host, own.path) if own.here else own, query.job)


def patterned(query: Query) -> bool:
    """Tell whether a run's logs are to be looked for: of ``job.log`` alone the newest is read."""
    spec = query.run.job
    if spec is None or spec.log is None:
        return False
    others = any(has_magic(each.path) for each in spec.other_logs)
    return others or any("%" in each.path for each in (spec.log, *spec.other_logs))


def plainly(query: Query, first: Place | None, others: Sequence[Place]) -> Several:
    """Return the logs of a run that names no patterns."""
    spec = query.run.job
    named = () if spec is None else spec.other_logs
    return Several(query.name, first, (*named, *others))


def _since(job: JobValue | None) -> float:
    return 0.0 if job is None or job.started_at is None else job.started_at - FILE_SKEW


def _matches(place: Place, since: float, away: Matched) -> list[Place]:
    """Return the files of a pattern that were written since then; else the place itself."""
    if not has_magic(place.path) or not (place.here or place in away):
        return [place]
    if not place.here:
        late = [each for each in away[place] if each.mtime >= since]
        return [Place(place.scheme, place.host, each.path) for each in late][:MOST]
    root = Path(place.path)
    found = []
    for match in sorted(Path(root.anchor).glob(str(root.relative_to(root.anchor)))):
        with suppress(OSError):  # gone since it was listed
            if match.stat().st_mtime >= since:
                found.append(Place(place.scheme, "", str(match)))
    return found[:MOST]


class Several:
    """The logs of one run: under ``name`` its first one, the others under keys of their own."""

    def __init__(self, name: str, first: Place | None, others: Iterable[Place]) -> None:
        self.name = name
        more = [each for each in dict.fromkeys(others) if each != first][:MOST]
        self.places: dict[str, Place | None] = {name: first}
        self.places.update((f"{name}\0{each}", each) for each in more)

    def shown(
        self, found: Mapping[str, Facet[LogValue]], steps: set[str], former: str | None
    ) -> str:
        """Return the key of the log that is shown: the one that was, unless only another steps."""
        known = [key for key in found if found[key].value is not None]
        order = [key for key in (former, *found) if key in known]
        return next((key for key in order if key in steps), next(iter(order), self.name))

    def joined(
        self, shown: str, found: Mapping[str, Facet[LogValue]], step: int | None
    ) -> Facet[LogValue]:
        """Return the facet of the log that is shown, at a ``step``, with the others by name."""
        facet = found[shown]
        if facet.value is None:
            return facet
        values = {key: each.value for key, each in found.items() if key != shown}
        there = [value for value in values.values() if value is not None]
        named = tuple(OtherLog(path=v.path, size=v.size, mtime=v.mtime) for v in there)
        rows = [*facet.value.rows]
        rows += [row for value in there for row in _loss_of(value, step)]
        value = facet.value.model_copy(update={"others": named, "rows": tuple(rows)})
        return facet.model_copy(update={"value": value})


def _loss_of(value: LogValue, step: int | None) -> list[Row]:
    """Return the row of another log that tells the newest loss, or one that is no number."""
    bare = [row for row in value.rows if row.step is None and row.loss is not None]
    broken = [row for row in bare if not math.isfinite(row.true_loss or 0.0)]
    newest = (broken or bare)[-1:]
    return [row._replace(step=step, at=row.at or value.mtime) for row in newest]
