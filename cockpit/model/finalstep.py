"""The final step by a training config (SPEC C-20), read from the usual trainers' own settings.

The final step is N, the number of steps. Trainers that count from 0 name the last one N - 1
(Levanter's ``Trainer``, nanoGPT's log), others N (hero loops, Hugging Face, Megatron): both are
the final step, see ``cockpit.rules.metrics.progress.reached``.
"""

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.base import Frozen
from cockpit.model.late_regex import late_regex

_STEPS: Final = {
    "num_train_steps": (), "num_training_steps": (), "max_train_steps": (), "total_train_steps": (),
    "train_steps": (), "training_steps": (), "max_steps": (), "train_iters": (), "max_iters": (),
    "max_update": (), "max_updates": (), "max_iter": ("solver",),
    "steps": ("", "train", "training", "trainer"),
}  # fmt: skip
"""The settings that mean it, by their last part, and in which tables (none: in any).

Levanter ``num_train_steps``, Hugging Face, Lightning and NeMo ``max_steps``, accelerate
``max_train_steps``, Megatron ``train_iters``, nanoGPT and MMEngine ``max_iters``, fairseq
``max_update``, Detectron2 ``SOLVER.MAX_ITER``, torchtitan ``training.steps``, MaxText ``steps``."""
_ELSEWHERE: Final = late_regex(
    r"(?:^|_)(?:lr|sched\w*|optim\w*|eval\w*|valid\w*|test\w*|data\w*|gen\w*|env|warmup|profil\w*)"
    r"(?:_|$)"
)
"""Tables whose own settings of these names mean something else."""
_EPOCHS: Final = ("num_train_epochs", "max_epochs", "num_epochs", "epochs")
_PER_EPOCH: Final = (
    "steps_per_epoch", "num_update_steps_per_epoch", "updates_per_epoch", "iters_per_epoch",
)  # fmt: skip
_NAMES: Final = frozenset((
    *_STEPS, *_EPOCHS, *_PER_EPOCH, "train_samples", "global_batch_size", "rampup_batch_size",
    "exit_interval", "max_duration",
))  # fmt: skip
_PLAIN: Final = late_regex(r"[\w./-]{1,120}", re.ASCII)
_NUMBER: Final = late_regex(r"\d[\d_]*(?:\.0*)?(?:[eE]\+?\d+)?", re.ASCII)
_BATCHES: Final = late_regex(r"(\d+)ba")
DEEPEST: Final = 12
MOST: Final = 20_000
"""Settings that are looked at; a config that has more is none."""
LONGEST: Final = 1e15


class FinalStepSource(Frozen):
    """The final step according to one source: its count, or ``why`` it is unknown.

    ``explicit``: the run file gives it, or names the setting. ``note`` is what else the source
    says about where a job ends.
    """

    step: int | None
    source: str
    explicit: bool = False
    why: str | None = None
    note: str | None = None

    @property
    def text(self) -> str:
        """What it says, in words."""
        return f"{self.source}: {self.why if self.step is None else self.step}"


class _Leaf(NamedTuple):
    """One setting: its names from the top, as they are compared, and as they are shown."""

    parts: tuple[str, ...]
    shown: str
    value: object

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def number(self) -> float | None:
        """The value if it is a number of at least 1; -1, 0 and nothing mean *not set*."""
        value = self.value
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value.replace("_", ""))
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if 1 <= value <= LONGEST else None

    @property
    def whole(self) -> int | None:
        """The value if it is a whole number of at least 1."""
        count = self.number
        return int(count) if count is not None and count == int(count) else None


def final_step_in(config: Mapping[str, object], source: str) -> FinalStepSource | None:
    """Return what a config (nested, or with dotted keys) tells; ``None`` if nothing in it does.

    Where two settings that mean it differ, it is unknown: which of them the trainer reads
    cannot be known from here.
    """
    leaves = list(_leaves(config))
    found = _steps(leaves) or _products(leaves)
    if not found:
        return None
    shown = f"{source}: {found[0].setting}" if found[0].setting else source
    if len({each.step for each in found}) > 1:
        why = " and ".join(f"{each.setting} = {each.step}" for each in found[:3])
        return FinalStepSource(step=None, source=source, why=f"its settings differ, {why}")
    first = found[0]
    note = _ends_early(leaves, first.step)
    return FinalStepSource(step=first.step, source=shown, why=first.why, note=note)


def final_step_of_command(words: str | Sequence[str], source: str) -> FinalStepSource | None:
    """Return what a command's flags and assignments tell (``--train-iters 500``, ``a.b=500``)."""
    try:
        split = shlex.split(words) if isinstance(words, str) else list(words)
    except ValueError:
        return None
    return final_step_in(_flags(split), source)


def differing(sources: Sequence[FinalStepSource]) -> str | None:
    """Return in one line which sources contradict the first one; ``None`` where all agree.

    One step apart is the same end, counted from 0 or from 1. A setting that the run file names
    and that cannot be read is listed too, and so are the notes of all sources.
    """
    final = next((each.step for each in sources if each.step is not None), None)
    if final is None:
        return None
    other = [e for e in sources if (e.explicit if e.step is None else abs(e.step - final) > 1)]
    notes = dict.fromkeys(each.note for each in sources if each.note is not None)
    return "; ".join([*(each.text for each in other), *(n for n in notes if n)]) or None


class _StepSetting(NamedTuple):
    step: int | None
    setting: str
    why: str | None = None


def _leaves(config: Mapping[str, object]) -> Iterator[_Leaf]:
    """Yield the settings that may tell something, the shallowest first."""
    level: list[tuple[tuple[str, ...], Mapping[str, object]]] = [((), config)]
    seen = 0
    for _ in range(DEEPEST):
        below: list[tuple[tuple[str, ...], Mapping[str, object]]] = []
        for path, table in level:
            for key, value in table.items():
                seen += 1
                if seen > MOST:
                    return
                name = str(key)
                if isinstance(value, Mapping):
                    below.append(((*path, *name.split(".")), value))
                    continue
                if name.rpartition(".")[2].lower().replace("-", "_") not in _NAMES:
                    continue  # most settings: a config is looked at whenever its run is judged
                at = (*path, *name.split("."))
                dotted = ".".join(at)
                shown = dotted if _PLAIN.fullmatch(dotted) else ""
                yield _Leaf(tuple(p.lower().replace("-", "_") for p in at), shown, value)
        level = below


def _steps(leaves: Sequence[_Leaf]) -> list[_StepSetting]:
    """Return the settings that count steps; of equal ones the shallowest first."""
    found = []
    for leaf in leaves:
        tables = leaf.parts[:-1]
        if any(_ELSEWHERE.search(table) for table in tables):
            continue
        wanted = _STEPS.get(leaf.name)
        under = tables[-1] if tables else ""
        if wanted is not None and (not wanted or under in wanted) and leaf.whole is not None:
            found.append(_StepSetting(leaf.whole, leaf.shown or leaf.name))
        elif leaf.name == "max_duration" and isinstance(leaf.value, str):
            batches = _BATCHES.fullmatch(leaf.value.strip())  # Composer's Time: "4800ba"
            found += [_StepSetting(int(batches[1]), leaf.shown or leaf.name)] if batches else []
    return found


def _products(leaves: Sequence[_Leaf]) -> list[_StepSetting]:
    """Return what epochs, or samples, make: only where the config tells both factors."""
    by_name: dict[str, _Leaf] = {}
    for leaf in leaves:
        if not any(_ELSEWHERE.search(table) for table in leaf.parts[:-1]):
            by_name.setdefault(leaf.name, leaf)
    samples, batch = by_name.get("train_samples"), by_name.get("global_batch_size")
    if samples is not None and samples.whole is not None:
        return [_of_samples(samples.whole, batch, by_name.get("rampup_batch_size"))]
    epochs = next((by_name[name] for name in _EPOCHS if name in by_name), None)
    steps = next((by_name[name] for name in _PER_EPOCH if name in by_name), None)
    if epochs is None or steps is None or epochs.number is None or steps.whole is None:
        return []
    setting = f"{epochs.name} x {steps.name}"
    # Part of an epoch counts up, as in Hugging Face's Trainer.
    return [_StepSetting(math.ceil(epochs.number * steps.whole), setting)]


def _of_samples(samples: int, batch: _Leaf | None, ramp: _Leaf | None) -> _StepSetting:
    """Return Megatron's iterations: samples by the global batch size, while that is constant."""
    size = None if batch is None else batch.whole
    if ramp is not None and ramp.value not in (None, [], "", "null", "None"):
        return _StepSetting(None, "", "train_samples with a batch size that ramps up")
    if size is None or samples < size:
        return _StepSetting(None, "", "train_samples without the global batch size")
    return _StepSetting(samples // size, "train_samples / global_batch_size")


def _ends_early(leaves: Sequence[_Leaf], final: int | None) -> str | None:
    """Return that a job ends before (Megatron's ``exit_interval``), if one does."""
    found = next((leaf.whole for leaf in leaves if leaf.name == "exit_interval"), None)
    if found is None or (final is not None and found >= final):
        return None
    return f"a job ends at each multiple of {found} steps (exit_interval)"


def _flags(words: Sequence[str]) -> dict[str, object]:
    """Return a command's settings by name; the last word on one counts."""
    found: dict[str, object] = {}
    for at, word in enumerate(words):
        flag = word.startswith("--")
        name, assigned, value = word.lstrip("-+").partition("=")
        following = words[at + 1] if at + 1 < len(words) else ""
        if assigned:
            found[name] = value
        elif flag and following and not following.startswith("--"):
            found[name] = following
    return found
