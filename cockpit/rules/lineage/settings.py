"""A run's resolved settings side by side: which of them differ, the weighty ones first. Pure.

Settings are dotted keys with JSON text, as ``leaves`` makes them of a nested document.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cockpit.model.late_regex import late_regex

DEEPEST: Final = 40
_NOISE: Final = frozenset((
    "timestamp", "time", "date", "datetime", "start_time", "started_at", "created_at",
    "launch_time", "hostname", "host", "node", "nodename", "node_name", "pid", "username", "user",
    "run_dir", "run_directory", "working_dir", "workdir", "cwd", "wandb_dir", "wandb_run_dir",
    "launch_id", "job_id", "slurm_job_id", "ray_job_id", "iris_job_id", "task_id", "master_addr",
    "master_port", "coordinator_address", "git_commit", "git_sha", "commit", "argv", "cmdline",
))  # fmt: skip
"""Settings that differ by themselves at each launch: the last part of the key decides."""
_INTERNAL: Final = late_regex(r"(?:^|\.)_?wandb(?:\.|$)|^_")
_MATTERS: Final = late_regex(
    r"batch|max_steps|num_(?:train_)?steps|total_steps|optim|learning_rate|(?:^|[._-])lr(?:$|[._])|"
    r"momentum|beta|weight_decay|warmup|schedule|save|checkpoint|seed|mesh|axis|parallel|shard|"
    r"precision|dtype|(?:^|[._])(?:bf16|fp16|fp8|mp)(?:$|[._])|data|token|vocab|seq|model|hidden",
    re.IGNORECASE,
)
"""What SPEC C-18 lists by name; any other setting counts as well, listed after these."""


_SIZES: Final = late_regex(
    r"batch|accum|(?:^|[._])(?:n|num|n_|num_)?(?:nodes|hosts|gpus|tpus|slices|devices|processes)(?:$|[._])"
    r"|nproc|world_?size|device_count|tpu_type|accelerator|mesh|parallel",
    re.I,
)
_BESIDE: Final = late_regex(r"eval|valid|test|predict|infer|generat", re.I)


def resized(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the keys of batch and hardware that both have with another value.

    They decide how fast training runs; those of evaluation say nothing of it.
    """
    return [
        key
        for key in differing(was, now)
        if _SIZES.search(key) is not None and _BESIDE.search(key) is None
    ]


def differing(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the keys that both have with another value, those that SPEC C-18 names first."""
    changed = [key for key in was.keys() & now.keys() if not alike(was[key], now[key])]
    return weighty_first(changed)


def weighty_first(keys: list[str]) -> list[str]:
    """Return keys in the order in which a person should read them."""
    return sorted(keys, key=lambda key: (not weighs(key), key))


def weighs(key: str) -> bool:
    """Tell whether a setting is of those that SPEC C-18 lists by name."""
    return _MATTERS.search(key) is not None


def alike(was: str, now: str) -> bool:
    """Tell whether two values are one, however a parser has typed them.

    YAML reads ``1e-4`` as a word, a command line everything; ``"none"`` is how one writes null.
    """
    return was == now or _plain(was) == _plain(now)


def _plain(value: str) -> object:
    """Return a value without its type: a number, a truth value, null, else its text."""
    try:
        found = json.loads(value)
    except ValueError:
        found = value
    if isinstance(found, bool) or not isinstance(found, str):
        return found if found is None or isinstance(found, bool | int | float) else value
    word = found.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return found
    return number if math.isfinite(number) else found


_WORDS: Final = {"true": True, "false": False, "none": None, "null": None, "": None}


def leaves(document: Mapping[str, object]) -> dict[str, str]:
    """Return a nested document, shown already, as dotted keys with JSON text."""
    return dict(_leaves("", document, 0))


def _leaves(prefix: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and depth < DEEPEST:
        for key, each in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), each, depth + 1)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for place, each in enumerate(value):
            yield from _leaves(f"{prefix}.{place}", each, depth + 1)
    else:
        yield prefix, _text(value)


def _text(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, list):
        return f"[{', '.join(_text(each) for each in value)}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def counted(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that count: without those that differ at each launch."""
    return {key: value for key, value in values.items() if not is_noise(key)}


def is_noise(key: str) -> bool:
    """Return whether a setting differs by itself from launch to launch."""
    return key.rpartition(".")[2].lower() in _NOISE or _INTERNAL.search(key) is not None
