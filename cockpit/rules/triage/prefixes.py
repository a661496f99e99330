"""What launchers, loggers and log shippers put before a line: stamps, ranks, pods, levels."""

from __future__ import annotations

from typing import Final

from cockpit.model.late_regex import late_regex

_STAMP: Final = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[:,]?",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?",
    r"\[?(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?\]?:?",
    r"\d{10}(?:\.\d+)?",
    r"\[ *\d+\.\d+\]",
)
"""ISO 8601, a time of day, syslog's and ``ts``'s, seconds since the epoch, the kernel's."""
_PARTS: Final = (
    *(rf"{stamp}(?:\s|$)" for stamp in _STAMP),
    r"\x1b\[[\d;]*m",
    r"\[?(?:rank|default|worker|proc|node|task|host)[ _-]?\d+\]?:\s?",  # torchrun, pdsh
    r"\([A-Za-z][^()]{0,80}\)\s",  # (TrainWorker pid=81, ip=10.0.0.1): Ray, SkyPilot
    r"\d+: ",  # srun --label
    r"[IWEFDC]\d{4,8} [\d:.]+\s+\d+ \S+?\]?\s",  # glog: E0603 11:06:43.94 140213 train.py:88]
    r"std(?:out|err) [FP]\s",  # the container runtime interface
    r"(?:[\w.-]+ )?[\w./@-]+\[\d+\]:\s",  # journald: gpu-7 python[4411]:
    r"[a-z][\w.-]*-\d+\s+\|\s",  # docker compose
    r"(?![\w.]*(?:Error|Exception|Interrupt|Exit)\b)[a-z][\w.]*[\d-][\w.-]*:\s",  # a host's name
    r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b\]?[ :"
    r"|]*(?:[\w.<>]+:[\w.<>]+:\d+ )?(?:- )?",
    r"\[[^\]\n]{1,80}\]:?\s",  # [pod/x/y], [task 3], [default0]
    r"[-|+] ",
    r"[A-Za-z][\w.-]{0,80}(?<!Error)(?<!Exception): "  # a program's name
    r"(?=(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b)",
    r"\{(?:[^{}]{0,400}[\s,{])?[\"'](?:message|msg|log|error|event|text\w*|exc_info|exception)[\"']"
    r"\s*:\s*[\"']",  # a record as JSON
    r"(?:[\w.]+=\S+ )*msg=\"",  # logfmt
    r"ErrorMessage ['\"]",  # a container's toolkit that quotes its program
)
_PREFIX: Final = late_regex(f"^(?:{'|'.join(_PARTS)})+")
RANK: Final = late_regex(
    r"(?:rank|worker|proc|default|task|node|host|pid=|ip=)[ _-]?\d[\d.]*|^\d+(?=: )"
)


def bare(line: str) -> str:
    """Return ``line`` without what a launcher or a logger puts before it (``[rank0]: ``)."""
    return _PREFIX.sub("", line.rstrip())
