"""Who writes a line of a log (SPEC T): that is decided before what the line says.

Metrics, dumps of a configuration and help texts end no job, whatever words stand in them. A library
that remarks on something goes on itself; an exception, a scheduler or a kernel may not.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.log_text import bare

Speaker = Literal[
    "scheduler",
    "kernel",
    "launcher",
    "exception",
    "error",
    "warning",
    "metrics",
    "configuration",
    "help",
    "prose",
]
SPEAKERS: Final[tuple[Speaker, ...]] = get_args(Speaker)
SILENT: Final = frozenset[Speaker](("metrics", "configuration", "help"))
"""Speakers that only count, list or advise: no line of theirs ends a job."""
EVENTS: Final = frozenset(SPEAKERS) - SILENT
"""Speakers that tell what happens."""
LONGEST: Final = 2000
"""Characters of a line that are looked at."""
PAIRS: Final = 4
"""Pairs of a name and a figure from which on a line may be one of metrics."""
BESIDE: Final = 0.35
"""Share of a line's letters that may stand outside its pairs."""

_SCHEDULER: Final = late_regex(
    r"\b(?:slurmstepd|slurmctld|srun|sbatch|salloc|kubelet|sacct)\b[^|]{0,40}:|\*{3} (?:JOB|STEP) "
    r"|\b(?:JobState|ExitCode|DerivedExitCode)=|^(?:PBS|LSF|TERM_\w+|qsub|bsub)\b|\bDUE TO [A-Z]"
    r"|^(?:Warning|Normal)\s{2,}[A-Z]\w+\s"
)
_KERNEL: Final = late_regex(
    r"\bNVRM\b|\bkernel: |^\[ *\d{1,8}\.\d{6}\] |\boom-kill|\bOut of memory: Killed process"
    r"|\b(?:EDAC|mce|mlx5_core|nvidia-modeset|EXT4-fs|XFS)\b[ :]"
)
_LAUNCHER: Final = late_regex(
    r"torch[./]distributed[./](?:elastic|run|launcher)|\bSignalException\b|\blaunch\.py\b"
    r"|^(?:mpirun|mpiexec|prterun|orterun|torchrun|deepspeed|accelerate|submitit)\b"
    r"|\(raylet|\bexitcode *:"
)
_EXCEPTION: Final = late_regex(
    r'^Traceback \(most recent|^\s*File "[^"]+", line \d+'
    r"|^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)"
)
_REMARK: Final = late_regex(
    r"\bNCCL WARN\b|\bUCX +(?:WARN|ERROR|DIAG)\b|^\[?W\d* |\[W\d* ?[\d:.]* ?\w+\.(?:cpp|cc|h)[:\s]"
    r"|\b[A-Z]\w*Warning:|\bwarnings\.warn\(|(?<![\w-])WARN(?:ING)?(?![\w-])|^W\d{4} "
)
_ERROR: Final = late_regex(
    r"\b(?:ERROR|FATAL|CRITICAL)\b|^[EF]\d{4} |\[[EF]\d* ?[\d:.]* ?\w+\.(?:cpp|cc)[:\s]"
    r"|(?i:\b(?:fatal|error)\b ?:)"
)
_FAILURE: Final = late_regex(r"^\[?[EF]\d* |\[[EF]\d* ?[\d:.]* ?\w+\.(?:cpp|cc|h)[:\s]|^[EF]\d{4} ")
"""The level by which Google's and PyTorch's loggers mark an error."""
_PAIR: Final = late_regex(
    r"[\"']?[A-Za-z_][\w./@%()\[\]-]{0,120}[\"']?\s{0,2}[:=]\s{0,2}[\"']?"
    r"[-+]?(?:\d[\d.,]*(?:e[-+]?\d+)?|nan|inf)(?:%|[a-zA-Z]{1,3}(?:/[a-z]+)?)?(?![\w.])[\"']?",
    re.I,
)
_LETTER: Final = late_regex(r"[A-Za-z]")
_DUMPED: Final = late_regex(
    r"^\s*[\w.-]{2,60} \.{4,}"  # Megatron's arguments
    r"|^\s+[\"']?\w{2,60}[\"']?=(?!=).{0,400},\s*$|^\s*\w{1,60}\s?=\s?(?:dict\(|\[$|\{$)"
    r"|(?:\s-[fWDmL][\w=+./:,-]{2,80}){3}"  # flags of a compiler
    r"|\b(?:Namespace|[A-Z]\w*(?:Config|Args|Arguments|Params|Options))\((?:\w+=[^=]{1,200}?, ){3}"
    r"|^(?:export )?[A-Z][A-Z0-9]*_[A-Z0-9_]+=\S*\s*$"
    r"|^\W{0,3}(?:\+ |cmd\b|command\b|\S{0,80}python[\d.]{0,5}\b|(?:torchrun|srun|accelerate"
    r"|deepspeed)\b)(?!.*\berror\b)(?:.{0,200}?\s--[\w.-]+){3}",
)
_SOURCE: Final = late_regex(
    r"^\s*(?:raise\s+[\w.]+\(|(?:if|elif|while|for|with|def|class|assert|except)\b.{0,300}:\s*$"
    r"|from [\w.]+ import \w)"
)
"""A program that logs its own source, or a traceback's: what it would say is not said."""
_HELP: Final = late_regex(
    r"^usage: |^\s+-{1,2}[\w-]{1,40}(?:[ =][A-Z_\[\]{},.]{1,40})?(?:, --[\w-]{1,40})?"
    r"(?: [A-Z_]{2,40})?\s{2,}\S"
)

_Told = tuple[Speaker, "re.Pattern[str]", bool]
"""Who speaks so; by the whole line, or by what is left without a launcher's prefix."""
_FIRST: Final[tuple[_Told, ...]] = (
    ("error", _FAILURE, True),
    ("scheduler", _SCHEDULER, True),
    ("kernel", _KERNEL, True),
    ("exception", _EXCEPTION, False),
)
_THEN: Final[tuple[_Told, ...]] = (
    ("configuration", _DUMPED, False),
    ("configuration", _SOURCE, False),
    ("help", _HELP, False),
    ("warning", _REMARK, True),
    ("launcher", _LAUNCHER, False),
    ("error", _ERROR, True),
)


def speaker_of(line: str) -> Speaker:
    """Return who has written a line."""
    head = line[:LONGEST]
    text = bare(head)
    for speaker, pattern, whole in _FIRST:
        if pattern.search(head if whole else text):
            return speaker
    if _is_metrics(text):
        return "metrics"
    for speaker, pattern, whole in _THEN:
        if pattern.search(head if whole else text):
            return speaker
    return "prose"


def _is_metrics(text: str) -> bool:
    """Tell whether a line is little else than names with their figures."""
    if text.count(":") + text.count("=") < PAIRS:
        return False
    rest, pairs = _PAIR.subn("", text)
    if pairs < PAIRS:
        return False
    return len(_LETTER.findall(rest)) <= BESIDE * len(_LETTER.findall(text))
