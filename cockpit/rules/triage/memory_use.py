"""Memory that had run out by its figures: a job killed at its limit without a word (SPEC T).

Schedulers end with a table (``task state exit peak_mem limit``) or with a line (``peak memory 63.8
GB of 64 GB``); what the kernel said of it stands elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.lines import Log

NEAR: Final = 0.97
"""Share of its limit from which on a job that was killed has run into it."""
ROWS: Final = 64
"""Lines that a table may have below its head."""
_SIZE: Final = r"(?<![\w.])(?P<{0}>\d{{1,9}}(?:\.\d{{1,3}})?) ?(?P<{0}_unit>[KMGT])i?B?\b"
_PAIR: Final = late_regex(
    rf"{_SIZE.format('used')}[\s/|,(]{{1,20}}(?:(?:of|[\w.]{{0,20}}(?:limit|max|total))\b[\s:=]{{0,3}})?"
    rf"{_SIZE.format('most')}"
)
_OF_ALL: Final = late_regex(
    r"\b(?:rss|ram|host[ _]mem\w*|cgroup|resident|working[ _]set|(?:node|host|system|sys)[ _]"
    r"(?:mem\w*[ _])?used)[ _\w]{0,12}[\s:=]{1,3}"
    rf"{_SIZE.format('used')} ?/ ?{_SIZE.format('most')}",
    re.I,
)
"""What a program says of its memory while it grows: ``rss=254G/256G``."""
_USE: Final = late_regex(
    r"^(?!.*\b(?:gpu|cuda|hbm|device|vram)).*(?:peak|\brss\b|max[_ ]?rss|mem(?:ory)?\b|mem_"
    r"|\bram\b|working[ _]set|resident)",
    re.I,
)
_LIMIT: Final = late_regex(r"limit|request|total|\bmax(imum)?\b|\bof\b", re.I)
_ENDED: Final = late_regex(r"\b(137|-9|killed|failed|oom)\b", re.I)
_SHARE: Final = late_regex(
    r"\b(?:host|system|cgroup|container|node|pod|rss|ram|sys)\b[\w ]{0,12}\b(?:mem\w*|ram|usage"
    r"|used|at)\b[^\d%]{0,16}(\d{1,3}(?:\.\d{1,3})?) ?%"
    r"|^[^%]{0,80}\bmem(?:ory)?_?(?:used|usage|percent)\b[^\d%]{0,8}(\d{1,3}(?:\.\d{1,3})?) ?%"
    r"|\bsvmem\(.{0,200}\bpercent=(\d{1,3}(?:\.\d{1,3})?)\b"
    r"|^(?!.*\b(?:gpu|cuda|hbm|device|vram)).{0,80}(?:\b(?:ram|mem(?:ory)?)[\s:=]{1,3}"
    r"(\d{1,3}(?:\.\d{1,3})?) ?%|(?<![\d.])(\d{1,3}(?:\.\d{1,3})?) ?% of (?:the )?(?:host )?"
    r"(?:ram|memory)\b(?! band))",
    re.I,
)
"""How much of the host's memory is in use."""
_SPARE: Final = late_regex(
    r"\bmem_?available\b[^\d]{0,4}(?:\d+ ?\w?i?B? )?\(?(\d{1,3}(?:\.\d{1,3})?) ?%", re.I
)
"""How much of it is left."""
_FREE: Final = late_regex(
    r"\bMem:\s+(?P<all>\d{1,9}(?:\.\d)?)(?P<all_unit>[KMGT]?)i?(?:\s+[\d.]{1,9}[BKMGT]?i?){4}"
    r"\s+(?P<left>\d{1,9}(?:\.\d)?)(?P<left_unit>[KMGT]?)i?\s*$"
)
"""A row of ``free``: all of it first, what is available last."""
_CGROUP: Final = late_regex(
    r"\bmemory\.(?:(?P<used>current|peak|usage_in_bytes|max_usage_in_bytes)|max|limit_in_bytes)"
    r"\W{1,3}(?P<bytes>\d{1,18})\b"
)
"""What the kernel counts of a group, and the most that it may have."""
FOR_MEMORY: Final = late_regex(
    r"^(?!.*\b(?:gpu|cuda|hbm|device|vram|shared mem)).*"
    r"\b(?:kill|terminat|evict|stopp|end|lost)\w*\b"
    r".{0,60}\b(?:because|due to|for|reason|over)\b.{0,40}\b(?:mem(?:ory)?|ram|rss|swap)\b",
    re.I,
)
"""Why something was killed, in a sentence."""
_BYTES: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


def spent_memory(log: Log) -> list[int]:
    """Return the lines (0-based) by which what was killed stood at the limit of its memory."""
    heads = [i for i in log.matching(_USE) if _LIMIT.search(log.lines[i])]
    found = []
    for index in log.matching(_PAIR):
        head = max((i for i in heads if i <= index), default=None)
        near = head is not None and index - head <= ROWS and _is_near(log.lines[index])
        if near and (head == index or _ENDED.search(log.lines[index])):
            found.append(index)
    return found or _spent_share(log) or _spent_group(log)


def _spent_share(log: Log) -> list[int]:
    """Return the last line that tells a share of the host's memory, if next to none was left."""
    steps = {index for index, _ in log.marks}  # what training tells of memory is the device's
    told = sorted(
        {i for one in (_SHARE, _SPARE, _FREE, _OF_ALL) for i in log.matching(one)} - steps
    )
    for index in told[-1:]:
        line = log.lines[index]
        if (own := _OF_ALL.search(line)) is not None:  # what else it counts is not memory
            return [index] if _is_near(own[0]) else []
        used, spare, row = _SHARE.search(line), _SPARE.search(line), _FREE.search(line)
        if used is not None:
            share = float(next(filter(None, used.groups()))) / 100
        elif spare is not None:
            share = 1 - float(spare[1]) / 100
        else:
            share = 1 - _left(row) if row is not None else 0.0
        if NEAR <= share <= 1.1:
            return [index]
    return []


def _spent_group(log: Log) -> list[int]:
    """Return the last lines that tell a control group's use and its limit, if it stood at that."""
    told = {bool(each["used"]): (i, int(each["bytes"]))
            for i in log.matching(_CGROUP) for each in _CGROUP.finditer(log.lines[i])}  # fmt: skip
    if set(told) != {True, False}:
        return []
    (used_at, used), (most_at, most) = told[True], told[False]
    return sorted({used_at, most_at}) if NEAR * most <= used <= 1.1 * most else []


def _left(row: re.Match[str]) -> float:
    most = _bytes(row["all"], row["all_unit"] or "K")
    return _bytes(row["left"], row["left_unit"] or "K") / most if most else 1.0


def _is_near(line: str) -> bool:
    pairs = ((_bytes(each["used"], each["used_unit"]), _bytes(each["most"], each["most_unit"]))
             for each in _PAIR.finditer(line))  # fmt: skip
    return any(NEAR * most <= used <= 1.1 * most for used, most in pairs if most)


def _bytes(figure: str, unit: str) -> float:
    return float(figure) * 1024.0 ** _BYTES[unit.upper()]
