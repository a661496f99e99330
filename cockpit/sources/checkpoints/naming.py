"""Which saves something names, and so nothing may delete (SPEC K). Pure.

A link in a root leads to one, a small file names one (``latest``, ``best``), the state of a trainer
names the best one, or its own name says that it is the last or the best. Whatever goes by such a
name would find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.listing import Listed, Root, number
from cockpit.sources.checkpoints.trainer_state import NAME as STATE
from cockpit.text.safe import clean

LIMIT: Final = 4096
SMALL: Final = 512
"""Bytes of a file up to which it may be one that names a checkpoint."""
_NO_POINTER: Final = late_regex(r".*\.(?:json|jsonl|ya?ml|toml|md|log|csv|py|sh|out|err|pid)|\..*")
_FIRST: Final = late_regex(r"(best|last|latest|final)(?:[-_.].*)?")
_AT_END: Final = late_regex(r".*[-_.](best|last|latest|final)(?:[-_.]?v?\d+)?(?:\.[a-z.]+)?")
_NAMES_STEP: Final = late_regex(r"(?:latest|last|best|checkpoint)[-_.\w]*")


@dataclass
class Naming:
    """What names saves: the reasons by path, by root why not all are known, and the best ones."""

    reasons: dict[str, list[str]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    best: set[str] = field(default_factory=set)

    def add(self, path: str, why: str) -> None:
        """Note a reason once."""
        known = self.reasons.setdefault(path, [])
        if why not in known:
            known.append(why)


def may_name(name: str, size: int) -> bool:
    """Tell of a file in a root that may name a checkpoint: small, and no configuration."""
    return 0 < size <= SMALL and _NO_POINTER.fullmatch(name) is None


def naming_of(roots: Sequence[Root], paths: Mapping[tuple[str, str], str]) -> Naming:
    """Return what names saves in the roots; ``paths`` is where each lies, by root and name."""
    found = Naming()
    for root in roots:
        at = clean(root.path, LIMIT)
        names = {name: path for (where, name), path in paths.items() if where == at}
        for name, path in names.items():
            role = _FIRST.fullmatch(name) or _AT_END.fullmatch(name)
            if role is not None:
                found.add(path, f"it is named as the {role[1]} one")
        _by_leads(root, roots, paths, found)
        for file in root.names:
            if file.error is not None:
                found.unknown[clean(root.path, LIMIT)] = f"{file.path} cannot be read: {file.error}"
            for name in _named_in(file, names):
                found.add(names[name], f"{file.path} names it")
        _by_states(root, names, found)
    return found


def _by_leads(
    root: Root, roots: Sequence[Root], paths: Mapping[tuple[str, str], str], found: Naming
) -> None:
    for lead in root.leads:
        for other in roots:
            below = lead.target.removeprefix(f"{other.real.rstrip('/')}/")
            if other.real and below != lead.target:
                path = paths.get((clean(other.path, LIMIT), below.partition("/")[0]))
                if path is not None:
                    found.add(path, f"{lead.name} leads to it")


def _named_in(file: Listed, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the saves that a small file names, by a path to them or by their step."""
    text = (file.content or b"").decode("utf-8", "replace")
    parts = {part for word in text.replace('"', " ").split() for part in word.split("/")}
    yield from (name for name in names if name in parts)
    step = number(text.strip()) if _NAMES_STEP.fullmatch(file.path) else None
    if step is not None:
        yield from (name for name in names if _step_of(name) == step)


def _step_of(name: str) -> int | None:
    """Return the last number in a name that has one."""
    digits = "".join(char if char.isdigit() else " " for char in name).split()
    return number(digits[-1]) if digits else None


def _by_states(root: Root, names: Mapping[str, str], found: Naming) -> None:
    """Note the best checkpoint that a trainer's state names, or that one cannot be read.

    One that only names itself was the best when it was saved: that says nothing of now.
    """
    states = [(folder.name, folder.by_path.get(STATE)) for folder in root.folders]
    states += [("", file) for file in root.names if file.path == STATE]
    for of, file in states:
        if file is None:
            continue
        where = f"{of}/{STATE}".lstrip("/")
        problem = file.error or (None if file.state is None else file.state.problem)
        if problem is not None:
            found.unknown[clean(root.path, LIMIT)] = f"the best one is unknown: {where} {problem}"
        elif file.state is not None:
            _best(file.state.best, of, where, names, found)
    for file in root.files:
        best = None if file.inside is None else file.inside.best
        _best(best, file.path, file.path, names, found)


def _best(best: str | None, of: str, where: str, names: Mapping[str, str], found: Naming) -> None:
    name = (best or "").rstrip("/").rpartition("/")[2]
    if name in names and name != of and names[name] not in found.best:
        found.best.add(names[name])
        found.add(names[name], f"the trainer's best, by {where}")
