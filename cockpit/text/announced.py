"""What a log's own lines announce of a run: its W&B page, what it has loaded, its end to come.

A line that weighs possibilities, or says what was not found, announces nothing. Nor does a line
about weights that training begins with (a base model, a teacher, an adapter).

``ckpt_path_of`` reads from a recorded command what Lightning or fairseq loads
(``--ckpt_path last``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final

from cockpit.model.base import Command
from cockpit.model.late_regex import late_regex
from cockpit.model.shared_facts import IDS, Announced, Loaded, Notice
from cockpit.text.safe import safe_line
from cockpit.text.scrub import scrub

AFTER: Final = 20
"""Lines behind a notice of a first look from which on it is an old one: nothing came."""
LONGEST: Final = 400
_READ: Final = 2000
_WORTH: Final = late_regex(
    rb"(?i)/runs/|saved locally in|checkpoint|ckpt|restor|resum|preempt|spot |interrupt|reclaim"
)
"""Cheap: a line without any of these words announces nothing: ``Resuming from checkpoint``."""
_PAGE: Final = late_regex(
    r"(?:View run\b|run page)[^\n]*?(https?://[^\s'\"<>]+/runs/[\w.-]*[\w-])", re.I
)
"""Such as ``wandb: View run at https://wandb.ai/ada/toy/runs/abc``."""
_FOLDER: Final = late_regex(
    r"Run data is saved locally in \S*?\b(?:offline-)?run-\d{8}_\d{6}-(?P<id>[\w-]{1,128})"
)
"""What W&B's client says as it begins, with a server or without one."""
_PATH: Final = r"[\"'`]?(?P<path>[\w.~+-]*:?/[^\s\"'`,;()\[\]]*|[\w.~-]+/[^\s\"'`,;()\[\]]*)"
_VERB: Final = r"\b(?:(?:re)?load|restor|resum)(?:e|es|ed|ing|s)?\b"
_FROM: Final = r"\b(?:from|at)(?: (?:path|checkpoint|the))*[: =]+"
_LOADED: Final = (
    late_regex(rf"{_VERB}[^\n]{{0,60}}?{_FROM}{_PATH}", re.I),
    late_regex(rf"{_VERB} (?:the )?(?:checkpoint|ckpt)[: =]+{_PATH}", re.I),
)
_GOES_ON: Final = late_regex(rf"{_VERB}[^\n]{{0,60}}?\b(?:from|at)\b", re.I)
_ABOUT: Final = late_regex(r"checkpoint|ckpt|resum|restor|global_?step|iter_\d|step[-_]\d", re.I)
"""Such as ``Resuming from global_step 400``."""
_OTHER: Final = late_regex(
    r"pre-?trained|tokenizer|dataset|teacher|reward|reference model|\bbase model|adapter|\blora\b"
    r"|\bema\b|embedding|shards|data ?loader|\bif\b|\bno \w*checkpoint|not found|cannot|can't|fail"
    r"|unable|would|could|skip|does not exist|from scratch|error|usage:",
    re.I,
)
"""What training begins with, and does not go on from: ``Loading the tokenizer``."""
_ASIDE: Final = late_regex(
    r"(?<![\w/.=-])(?:eval(?:uat\w+)?|validat\w+|predict\w*|inference|upload\w*|test(?:ing)?"
    r"|best (?:\w+ )?(?:model|checkpoint|ckpt|weights)|loaded model weights from the)(?![\w/=-])",
    re.I,
)
"""What was loaded for something else than to train on: to evaluate it, at the end, to send it."""
_STEP: Final = late_regex(
    r"\b(?<!max )(?<!total )(?<!final )(?P<whole>global[_ ]?)?(?:step|iteration|iter)s?"
    r"[ =:#]*(?P<step>\d{1,12})\b",
    re.I,
)
"""Such as ``resumed at step 400``."""
_STEP_OF_PATH: Final = late_regex(
    r"(?:step|checkpoint|ckpt|iter|global_step)[-_=]?0*(\d{1,12})(?!\d)", re.I
)
"""Such as ``out/checkpoint-400``."""
_NOTICE: Final = late_regex(
    r"(?:spot|preemption|instance|host|node|vm)[ -]?(?:instance )?"
    r"(?:interruption|termination|preemption|eviction|reclaim)"
    r"[ -]?(?:notice|warning|event|signal)"
    r"|(?:preemption|interruption|termination|eviction) (?:notice|warning|signal)"
    r"[^\n]{0,20}(?:received|detected|:)"
    r"|(?:instance|node|vm|host|worker|job|machine)\b[^\n]{0,40}\b(?:will be|is being"
    r"|is about to be|(?:is|has been) scheduled to be)\s+(?:preempted|reclaimed|evicted)"
    r"|\bdue to preemption \*\*\*"
    r"|(?:received|got|caught) (?:a |the )?preempt(?:ion)?\b[^\n]{0,30}\b(?:notice|signal|warning)"
    r"|marking (?:the )?run as preempting",
    re.I,
)
"""The machine will be taken away: ``Spot interruption notice received``."""
_POSSIBLE: Final = late_regex(
    r"\b(?:if|may|might|could|when|in case|handler|enabled|listening|e\.g\.|etc)\b", re.I
)
"""It only speaks of a possibility: ``if a notice comes``."""
_LOOKED_FOR: Final = late_regex(
    r"\b(?:no|not an?|(?:check|wait|poll|watch|monitor|look|listen|clear|test)(?:e?s|ed|ing)?"
    r"|quer(?:y|ied|ying)|ignor(?:es?|ed|ing)|simulat(?:es?|ed|ing)) (?:[\w-]+ ){0,3}$",
    re.I,
)
"""Right before a notice: it is none, or none yet."""
_NONE: Final = late_regex(
    r"[ :=\"']*(?:(?:false|none|null|not (?:yet|seen|found|received))\b|(?:no|never)(?=\W*$))"
    r"| (?:check|poll|monitor|watch|listen|thread|service|endpoint|callback|hook)",
    re.I,
)
"""Right behind one: so, too."""


def announced(
    states: Sequence[bytes], former: Announced, at: Callable[[int], float], first: bool
) -> Announced:
    """Return what is announced after more lines of a log; the newest of each kind counts.

    ``at`` tells when the line of a place was written, or until when (epoch seconds). Of a
    ``first`` look the lines may be old.
    """
    found = former
    for place, raw in enumerate(states):
        if _WORTH.search(raw) is None:
            continue
        line = scrub(safe_line(raw[:_READ]).plain)
        page, loaded, gone = _PAGE.search(line), _loaded(line), _is_notice(line)
        folder = _FOLDER.search(line)
        if page is None and loaded is None and folder is None and not gone:
            continue
        told: dict[str, object] = {}
        when = at(place)
        if page is not None:
            told |= {"wandb": page[1], "wandb_at": when}
        if folder is not None:
            others = (each for each in found.wandb_ids if each[0] != folder["id"])
            told["wandb_ids"] = (*others, (folder["id"], when))[-IDS:]
        if loaded is not None:
            now = loaded.model_copy(update={"at": when})
            told |= {"loaded": now, "notice": None}  # what came before was of a former start
        if gone and not (first and len(states) - place > AFTER):
            told["notice"] = Notice(line=line[:LONGEST], at=when)
        found = found.model_copy(update=told)
    return found


def _is_notice(line: str) -> bool:
    found = _NOTICE.search(line)
    if found is None or _POSSIBLE.search(line) or _LOOKED_FOR.search(line[: found.start()]):
        return False
    return _NONE.match(line, found.end()) is None


def _loaded(line: str) -> Loaded | None:
    """Return what a line says that training was resumed from."""
    if _OTHER.search(line) or _ASIDE.search(line) or not _ABOUT.search(line):
        return None
    match = next(filter(None, (pattern.search(line) for pattern in _LOADED)), None)
    path = None if match is None else match["path"].rstrip(".:…")
    steps = _STEP_OF_PATH.findall(path or "")[-1:]
    if not steps and (path is not None or _GOES_ON.search(line)):
        said = sorted(_STEP.finditer(line), key=lambda each: not each["whole"])
        steps = [each["step"] for each in said]
    if path is None and not steps:
        return None
    return Loaded(path=path, step=int(steps[0]) if steps else None, line=line[:LONGEST])


LAST: Final = "last"
_FLAG: Final = late_regex(
    r"(?:--?|\+)?(?:[\w.-]*[._-])?(?:ckpt[-_]path|restore[-_]file)(?:=(?P<value>.*))?"
)
"""Such as ``--ckpt_path=last``."""


def ckpt_path_of(command: Command | None) -> str | None:
    """Return the value of ``ckpt_path`` (fairseq: ``restore_file``) in a command, else ``None``."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command or ())
    except ValueError:
        return None
    for place, word in enumerate(words):
        match = _FLAG.fullmatch(word)
        if match is None:
            continue
        after = words[place + 1] if place + 1 < len(words) else None
        return match["value"] if match["value"] is not None else after
    return None
