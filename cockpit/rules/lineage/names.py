"""Which saves of one folder have the names of several runs: ``expA_step=100``, ``expB_step=100``.

What a name says of the save itself (its step, a loss, ``best``, ``ema``, ``optimizer``) tells no
runs apart. What is left does, where one training cannot have made both: a step was saved under two
names at different times, or a lower one of one name after a higher one of the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final

from cockpit.model.clock import FILE_SKEW
from cockpit.model.observed import Checkpoint, CheckpointState

_OF_A_SAVE: Final = frozenset(
    """
    global step steps epoch epochs ep iter iters iteration iterations batch ba update updates
    samples consumed tokens ckpt ckpts checkpoint checkpoints snapshot save saved state states
    model models weights params train training trainer val valid validation test loss acc score
    metric last latest best final top topk first init initial release every periodic interval hourly
    epochend end interrupt interrupted preempt preempted emergency crash crashed hpc resume backup
    tmp temp temporary partial incomplete copy old new full ema swa avg average averaged raw fp bf
    merged lora adapter adapters optim optimizer optimizers opt sched scheduler schedulers scaler
    rng random critic actor policy value ref reference generator discriminator gen disc encoder
    decoder unet vae net network rank shard part mp tp pp dp of pt pth tar ckpt safetensors bin zip
    """.split()  # noqa: SIM905 - a list of words
)
"""Words for a save, for what is special about it, and for a part of it."""
_COUNTED: Final = frozenset(
    "fold seed exp experiment run trial rep split cv task job variant".split()  # noqa: SIM905
)
"""Words whose number is part of the name: the runs of a sweep, the folds of a validation."""
_MEASURED: Final = re.compile(r"([A-Za-z0-9.]+)=[-+]?\d(?:\.?\d)*(?:e[-+]?\d+)?")
_SETTINGS: Final = frozenset(
    "alpha beta bs depth dim dropout fold gamma hidden lr rate seed size trial wd width".split()  # noqa: SIM905
)
"""The last words of settings: ``lr=0.1`` tells runs of a sweep apart, ``val_loss=0.1`` does not."""
_WITH_NUMBER: Final = re.compile(r"([A-Za-z]+)(\d+)")
_PROOFS: Final = (CheckpointState.COMPLETE, CheckpointState.UNKNOWN, CheckpointState.WRITING)
TWINS: Final = 0.5
"""The share of the shortest pause between two saves in which one save of two files is written."""


def name_of_run(path: str) -> str:
    """Return the words in a save's name that tell of which run it is; empty if there are none."""
    name = path.rstrip("/").rpartition("/")[2]
    words = [word for word in re.split(r"[^A-Za-z0-9]+", _MEASURED.sub(" ", name)) if word]
    settings = (each[0] for each in _MEASURED.finditer(name) if each[1].lower() in _SETTINGS)
    return "-".join((*_telling(words), *settings))


def _telling(words: Sequence[str]) -> Iterator[str]:
    for before, word in zip(("", *words), words, strict=False):
        match = _WITH_NUMBER.fullmatch(word)
        counted = before if word.isdigit() else match[1] if match is not None else ""
        plain = word.isalpha() and len(word) > 1 and word.lower() not in _OF_A_SAVE
        if plain or counted.lower() in _COUNTED:
            yield word


def of_several_runs(items: Sequence[Checkpoint]) -> Iterator[Mapping[str, Sequence[Checkpoint]]]:
    """Yield the saves of each root by their names, where these are of several runs."""
    roots: dict[str, dict[str, list[Checkpoint]]] = {}
    for item in items:
        if item.any_step is not None and item.written_at is not None and item.state in _PROOFS:
            named = roots.setdefault(item.root, {})
            named.setdefault(name_of_run(item.path), []).append(item)
    yield from (named for named in roots.values() if _apart(named))


def _apart(named: Mapping[str, Sequence[Checkpoint]]) -> bool:
    """Tell whether one training cannot have made all, by the order of their steps and times."""
    times = [sorted(map(_at, each)) for each in named.values()]
    pauses = [b - a for each in times for a, b in pairwise(each) if b - a > FILE_SKEW]
    near = max(FILE_SKEW, TWINS * min(pauses, default=0.0))
    saves = sorted(((_step(i), name, _at(i)) for name, each in named.items() for i in each))
    lower: dict[str, float] = {}  # when a lower step was saved last, of the two latest names
    for _, group in groupby(saves, key=lambda each: each[0]):
        same = list(group)
        for _, name, at in same:
            others = [when for other, when in lower.items() if other != name]
            others += [when for _, other, when in same if other != name]
            if any(when - at > near for when in others):
                return True
        for _, name, at in same:
            lower[name] = max(at, lower.get(name, at))
        lower = dict(sorted(lower.items(), key=lambda each: each[1])[-2:])
    return False


def _step(item: Checkpoint) -> int:
    return item.any_step or 0


def _at(item: Checkpoint) -> float:
    return item.written_at or 0.0
