"""What the name of an argument or a variable says of its value: written to, read, or neither.

Pure. ``--output_dir=ROOT`` names an output, ``--checkpoint ROOT/step-100`` an input; of
``--dir ROOT`` nobody can tell (SPEC J, "Which jobs belong to a run").
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

_WORDS = re.compile(r"[^a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OUTPUT: Final = frozenset(
    """
    out output outputs outdir outpath outputdir outputpath outputroot save saves saving savedir
    savepath saveto dest destination result results resultdir resultsdir write writes writeto
    artifact artifacts export exports o
    """.split()  # noqa: SIM905 - a list of words
)
_OUTPUT_NAMES: Final = ("default_root_dir", "hydra_run_dir", "wandb_dir", "tensorboard_output_dir")
_INPUT: Final = frozenset(
    """
    init initialize initialise load loads loader from source src pretrain pretrained teacher eval
    evaluate compare baseline resume restore read reads input inputs in data dataset datasets train
    valid validation test config cfg conf checkpoint ckpt checkpoints weights model tokenizer vocab
    log logfile file prompt reference ref
    """.split()  # noqa: SIM905 - a list of words
)
_PLACES: Final = frozenset(("dir", "root", "path", "folder", "dirs", "logdir", "rundir", "workdir"))
_TRACKER_ID = re.compile(r"wandb\w*id$|(?:^|_)run_id$|^trainer_id$|^wandb_(?:run|name)$")
_MAYBE_ID = re.compile(r"(?:^|_)(?:id|name|run)$")
_LAUNCH = re.compile(r"launch|job_?name|job_?id|submission|run_?name|run_?id")
_KEY = re.compile(r"[-+]*[\w./:@-]+")
_CODE: Final = ("c", "lc", "ic", "e")
_LOOKS: Final = frozenset(
    """
    plot plots plotting eval evals evaluate evaluation sample sampling generate generation infer
    inference predict demo view viewer serve server dashboard inspect inspector compare convert
    watch monitor monitoring tail report summarize summarise summary analyze analyse analysis
    visualize visualise viz show dump list browse download upload sync backup mirror copy chat
    mon du tree check checker push pull clean cleanup prune verify validate stat stats size count
    merge quantize average benchmark bench profile test export
    """.split()  # noqa: SIM905 - a list of words
)
_TRAINS: Final = frozenset(
    "train trainer training pretrain pretraining finetune tune sft rlhf dpo fit main run".split()  # noqa: SIM905
)


class Use(Enum):
    """What a value is used for, as far as its name tells."""

    WRITES = "writes"
    READS = "reads"
    EITHER = "either"


def use_of(name: str) -> Use:
    """Return what the value of an argument or variable of this name is used for."""
    words = _words(name)
    plain = "_".join(words)
    if plain.endswith(_OUTPUT_NAMES):
        return Use.WRITES
    if _OUTPUT & set(words):
        # ``save_from`` and ``eval_output``: the output of something else than the training.
        return Use.EITHER if {"from", "eval", "init", "load", "resume"} & set(words) else Use.WRITES
    if _INPUT & set(words) and not (_PLACES & set(words) and "checkpoints" in words):
        return Use.READS
    return Use.EITHER


def names_a_place(name: str) -> bool:
    """Tell whether a variable's name says that its value is a folder."""
    return not _PLACES.isdisjoint(_words(name))


def names_the_tracker_run(name: str) -> bool | None:
    """Tell whether a name is that of the W&B run's id; ``None`` where it could be another one."""
    plain = "_".join(_words(name))
    if _TRACKER_ID.search(plain):
        return True
    return None if _MAYBE_ID.search(plain) else False


def names_a_launch(name: str) -> bool:
    """Tell whether a name is that of a launch id."""
    return _LAUNCH.search("_".join(_words(name))) is not None


def within(root: str, value: str) -> bool:
    """Tell whether a path or address is ``root`` or lies below it, compared part by part."""
    if "://" in root or "://" in value:
        return value.rstrip("/") == root or value.startswith(root + "/")
    if not value.startswith("/"):
        return False
    path = posixpath.normpath(value)
    return path == root or path.startswith(root.rstrip("/") + "/")


def only_looks(program: str) -> bool:
    """Tell whether a program's name says that it looks at a run: ``plot.py``, ``eval_last.sh``."""
    words = set(_words(posixpath.splitext(posixpath.basename(program))[0]))
    return not words.isdisjoint(_LOOKS) and words.isdisjoint(_TRAINS)


def names_a_training(program: str) -> bool:
    """Tell whether a program's name says that it trains: ``train_gpt``, ``finetune.sh``."""
    words = set(_words(posixpath.splitext(posixpath.basename(program))[0]))
    return not words.isdisjoint(_TRAINS - {"main", "run"})


def trains_by_name(program: str) -> bool:
    """Tell whether a program's name says that it trains: ``train.py``, ``pkg.finetune``."""
    name = posixpath.basename(program).removesuffix(".py").removesuffix(".sh")
    return not set(_words(name)).isdisjoint(_TRAINS)


def _words(name: str) -> list[str]:
    return [word for word in _WORDS.split(_CAMEL.sub("_", name).lower()) if word]


def arguments(argv: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (key, value) of ``--key value``, ``--key=value`` and ``key=value``; else ("", value).

    The program itself is left out, and so is code that an interpreter is given (``-c``).
    """
    key, words = "", argv[1:]
    if "-m" in words[:4]:  # a module is no path: ``python -m ipykernel_launcher``
        at = list(words).index("-m")
        words = [*words[:at], *words[at + 2 :]]
    for part in words:
        name, sign, value = part.partition("=")
        if key in _CODE:
            key = ""
        elif sign and _KEY.fullmatch(name):
            yield name.lstrip("-+"), value
            key = ""
        elif part.startswith("-"):
            key = part.lstrip("-")
        else:
            yield key, part
            key = ""
