"""Which checkpoint the trainer would take by its own rule, whatever a relaunch should take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cockpit.model.observed import Checkpoint, Pick
from cockpit.sources.checkpoints.layouts import FolderFinding, Grade
from cockpit.sources.checkpoints.listing import number


class JudgedCheckpoint(NamedTuple):
    """A checkpoint, what its files said, and the name of its layout."""

    item: Checkpoint
    finding: FolderFinding
    layout: str


def trainer_pick(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    """Return what the trainer loads if it is simply started again, and by which rule.

    It goes by the files alone: that a person has rejected one is nothing it knows of.
    ``None`` when it would find nothing, or when its rule is not known (custom, accelerate,
    Lightning, nanoGPT: those load what their command tells them to).
    """
    for one in judged:
        rule = _RULES.get(one.layout)
        if rule is not None:
            return rule([other for other in judged if other.layout == one.layout])
    return None


def _greatest(
    judged: Sequence[JudgedCheckpoint], then: Callable[[JudgedCheckpoint], tuple[float, str]]
) -> JudgedCheckpoint | None:
    stepped = [one for one in judged if one.item.step is not None]
    return max(stepped, key=lambda one: (one.item.step or 0, *then(one)), default=None)


def _stamp(one: JudgedCheckpoint) -> tuple[float, str]:
    return (one.finding.stamp or 0.0, one.item.path)


def _pick(one: JudgedCheckpoint | None, why: str) -> Pick | None:
    if one is None or one.item.step is None:
        return None
    return Pick(path=one.item.path, step=one.item.step, why=why)


def _levanter(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
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


def _of_complete(why: str) -> Callable[[Sequence[JudgedCheckpoint]], Pick | None]:
    def rule(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
        return _pick(_greatest([one for one in judged if _complete(one)], _stamp), why)

    return rule


def _of_pointer(why: str) -> Callable[[Sequence[JudgedCheckpoint]], Pick | None]:
    """Such a trainer follows its pointer file, and falls back on nothing."""

    def rule(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
        named = []
        for one in filter(_complete, judged):
            marker = one.finding.marker
            text = (marker.content if marker is not None else None) or b""
            pointed = text.decode("utf-8", "replace").strip().removeprefix("global_step")
            if one.item.step == number(pointed):
                named.append(one)
        return _pick(_greatest(named, _stamp), why)

    return rule


def _hugging_face(judged: Sequence[JudgedCheckpoint]) -> Pick | None:
    named = [one for one in judged if one.item.path.rpartition("/")[2].startswith("checkpoint-")]
    return _pick(
        _greatest(named, _stamp), "transformers: greatest checkpoint-N, whether complete or not"
    )


_RULES: Final[dict[str, Callable[[Sequence[JudgedCheckpoint]], Pick | None]]] = {
    "levanter": _levanter,
    "orbax": _of_complete("Orbax: greatest committed step"),
    "hf": _hugging_face,
    "deepspeed": _of_pointer("DeepSpeed: the tag in the file latest"),
    "megatron": _of_pointer("Megatron: the iteration in latest_checkpointed_iteration.txt"),
    "torchtitan": _of_complete("torchtitan: greatest step that has its metadata"),
}
