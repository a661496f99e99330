"""What each trainer loads if it is simply started again: one rule for each layout (SPEC K)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Checkpoint, Pick
from cockpit.sources.checkpoints.findings import FolderFinding, Grade
from cockpit.sources.checkpoints.listing import Root, is_staged
from cockpit.text.announced import LAST


class JudgedCheckpoint(NamedTuple):
    """A checkpoint, what its files said, and the name of its layout."""

    item: Checkpoint
    finding: FolderFinding
    layout: str

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.item.path.rpartition("/")[2]


Loads = Callable[[Sequence[JudgedCheckpoint]], Pick | None]
"""A trainer's rule over the checkpoints of its layout; ``None`` where it would find nothing."""


def _greatest(
    judged: Sequence[JudgedCheckpoint], then: Callable[[JudgedCheckpoint], tuple[float, str]]
) -> JudgedCheckpoint | None:
    stepped = [one for one in judged if one.item.step is not None]
    return max(stepped, key=lambda one: (one.item.step or 0, *then(one)), default=None)


def _stamp(one: JudgedCheckpoint) -> tuple[float, str]:
    return (one.finding.stamp or 0.0, one.item.path)


def _pick(one: JudgedCheckpoint | None, why: str) -> Pick | None:
    return None if one is None else Pick(path=one.item.path, step=one.item.step, why=why)


def levanter(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Candidates have a readable step and time stamp; the greatest (step, stamp, path) wins.

    Releases before June 2026 compared (stamp, step): after a rollback these two differ.
    """
    known = [one for one in judged if one.finding.stamp is not None and _complete(one)]
    newest = _greatest(known, _stamp)
    if newest is None:
        return None
    former = max(known, key=lambda one: (_stamp(one)[0], one.item.step or 0))
    why = "Levanter: greatest step in metadata.json, then timestamp, over all roots"
    if former.item.path != newest.item.path:
        why += f"; releases before June 2026 go by timestamp: {former.item.path}"
    return _pick(newest, why)


def _complete(one: JudgedCheckpoint) -> bool:
    """Tell what such a trainer takes for complete: its marker is enough, data or not."""
    return one.finding.grade in (Grade.COMPLETE, Grade.EMPTIED)


def of_whole(why: str) -> Loads:
    """Such a trainer takes the greatest step that it takes for complete."""

    def rule(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
        renamed = (one for one in judged if not is_staged(one.name))
        return _pick(_greatest([one for one in renamed if _complete(one)], _stamp), why)

    return rule


def orbax(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Take the greatest step by its name: only on Google's store must it be committed by a file."""
    if any(one.item.root.startswith("gs://") for one in judged):
        return of_whole("Orbax: greatest step that has commit_success.txt")(judged)
    renamed = [one for one in judged if not is_staged(one.name)]
    return _pick(_greatest(renamed, _stamp), "Orbax: greatest step, whether complete or not")


def of_pointer(why: str) -> Loads:
    """Such a trainer follows the pointer of its root, and falls back on nothing."""

    def rule(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
        return _pick(_named(judged), why)

    return rule


of_link: Final = of_pointer
"""As ``of_pointer``: the pointer is a link."""


def _named(judged: Sequence[JudgedCheckpoint]) -> JudgedCheckpoint | None:
    named = [one for one in judged if one.finding.named]
    return max(named, key=lambda one: (one.item.step or 0, one.item.path), default=None)


def _by_name(
    judged: Sequence[JudgedCheckpoint], pattern: re.Pattern[str]
) -> JudgedCheckpoint | None:
    """Return the one of the greatest number in its name, however many digits that has."""
    numbers = [(pattern.fullmatch(one.name), one) for one in judged]
    found = [(int(match[1]), one.item.path, one) for match, one in numbers if match is not None]
    return max(found, key=lambda each: each[:2], default=(0, "", None))[2]


_CHECKPOINT: Final = late_regex(r"checkpoint-(\d+)")
_EPOCH: Final = late_regex(r"epoch_(\d+)")
_STEP: Final = late_regex(r"step[-_](\d+)")


def hugging_face(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Take the greatest number in a name, as transformers does, whatever is in the folder."""
    why = "transformers: greatest checkpoint-N, whether complete or not"
    return _pick(_by_name(judged, _CHECKPOINT), why)


def torchtune(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Torchtune looks for epochs first, then for steps, whatever is in the folder."""
    epoch = _by_name(judged, _EPOCH)
    if epoch is not None:
        return _pick(epoch, "torchtune: greatest epoch_N, whether complete or not")
    return _pick(_by_name(judged, _STEP), "torchtune: greatest step_N, whether complete or not")


def litgpt(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Litgpt (``--resume auto``) looks for a file of weights only."""
    why = "litgpt (--resume auto): greatest step-N that has weights, whether complete or not"
    return _pick(_by_name(judged, _STEP), why)


def automodel(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """AutoModel follows ``LATEST``, else takes the greatest step without its mark."""
    published = [one for one in judged if not _marked(one)]
    named = _named(published)
    if named is not None:
        return _pick(named, "AutoModel: what LATEST leads to")
    why = "AutoModel: greatest step that is not marked .incomplete"
    return _pick(_greatest(published, _stamp), why)


def nemo(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """NeMo takes the newest folder whose name (or whose link's name) ends in ``last``."""
    last = [one for one in judged if one.name.endswith("last") or one.finding.named]
    finished = [one for one in last if not _marked(one)]
    newest = max(finished, key=lambda one: (one.item.touched_at or 0.0, one.name), default=None)
    return _pick(newest, "NeMo: the newest …last without its -unfinished mark")


def fairseq(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Take ``checkpoint_last.pt``, and no other, where the command names no ``--restore-file``."""
    last = (one for one in judged if one.name.startswith("checkpoint_last"))
    return _pick(next(last, None), "fairseq: checkpoint_last.pt, whether complete or not")


def speechbrain(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Take the newest that has its first file, ``CKPT.yaml``, which tells its time.

    So does its name, but for one that the recipe has named (``CKPT+best``).
    """
    begun = [(one.finding.marker, one) for one in judged]
    timed = [(each.mtime, one.name, one) for each, one in begun if each is not None]
    if all(_DATED.match(name) for _, name, _ in timed):
        timed = [(0.0, name, one) for _, name, one in timed]
    newest = max(timed, key=lambda each: each[:2], default=(0.0, "", None))[2]
    return _pick(newest, "SpeechBrain: the newest that has CKPT.yaml, whether complete or not")


_DATED: Final = late_regex(r"CKPT\+\d{4}-\d\d-\d\d\+")


def _marked(one: JudgedCheckpoint) -> bool:
    """Tell of one that its trainer itself has marked as not finished, or not renamed yet."""
    if is_staged(one.name):
        return True
    marker = one.finding.marker
    name = marker.path if marker is not None else ""
    return name == ".incomplete" or name.endswith("-unfinished")


NAME: Final = "lightning"
HPC: Final = "hpc"
_LAST: Final = late_regex(r"last.*\.ckpt")
_HPC: Final = late_regex(r"hpc_ckpt_(\d+)\.ckpt")


def asked_pick(
    judged: Sequence[JudgedCheckpoint],
    items: Sequence[Checkpoint],
    roots: Sequence[Root],
    asked: str | None,
) -> Pick | None:
    """Return what a command with ``asked`` makes Lightning or fairseq load, if it tells that.

    ``asked`` is a path, or one of Lightning's words: ``last``, ``hpc``.
    """
    if asked == HPC:
        why = "Lightning, ckpt_path=hpc: the greatest hpc_ckpt_N"
        return _pick(_by_name([one for one in judged if one.layout == NAME], _HPC), why)
    mine = [item for item in items if item.layout == NAME]
    if asked == LAST:
        found = [*_files(mine), *_led_to(mine, roots)]
        return max(found, key=lambda each: each[0], default=(0.0, None))[1]
    mine += [item for item in items if item.layout == "fairseq"]
    below = _UNKNOWN_FOLDER.sub("", asked or "").lstrip("/")
    named = [item for item in mine if below and f"/{item.path}".endswith(f"/{below}")]
    if len(named) != 1:
        return None
    name = below.rpartition("/")[2]
    return Pick(path=named[0].path, step=named[0].step, why=f"the command names {name}")


_UNKNOWN_FOLDER: Final = late_regex(r".*[$~{][^/]*/|(?:\.{1,2}/)+")
"""How a path begins that a shell or a working directory completes: ``$OUT/``, ``../``."""


def _files(items: Sequence[Checkpoint]) -> Iterator[tuple[float, Pick]]:
    for item in items:
        name = item.path.rpartition("/")[2]
        if _LAST.fullmatch(name):
            yield item.touched_at or 0.0, _lightning_loads(item, name)


def _led_to(items: Sequence[Checkpoint], roots: Sequence[Root]) -> Iterator[tuple[float, Pick]]:
    """Yield what links lead to: a listing has what they lead to once, under its own name."""
    for root in roots:
        for lead in root.leads:
            below = lead.target.removeprefix(f"{root.real.rstrip('/')}/")
            for item in items:
                name = item.path.rpartition("/")[2]
                if _LAST.fullmatch(lead.name) and item.root == root.path and name == below:
                    yield item.touched_at or 0.0, _lightning_loads(item, f"{lead.name} -> {name}")


def _lightning_loads(item: Checkpoint, what: str) -> Pick:
    why = f"Lightning, ckpt_path=last: the newest last*.ckpt by time, {what}"
    return Pick(path=item.path, step=item.step, why=why)
