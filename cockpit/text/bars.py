"""Read progress bars: tqdm's ``33%|███ | 307/938 [00:01<00:02, …]`` and tqdm-loggable's line."""

from __future__ import annotations

import re
from typing import NamedTuple

_COUNT = r"(?P<n>\d+(?:\.\d+)?)(?P<n_scale>[kMGT]?)(?P<n_unit>[A-Za-z]*)"
_TOTAL = r"(?P<m>\d+(?:\.\d+)?)(?P<m_scale>[kMGT]?)(?P<unit>[A-Za-z]*)"
_TQDM = re.compile(
    rf"(?P<pct>\d+)%\|[^|]{{0,400}}\|\s*{_COUNT}/{_TOTAL}\s*(?:\w+\s)?\[(?P<inside>[^\]]*)"
)
_OPEN_ENDED = re.compile(rf"(?<![\w/.]){_COUNT} \[(?P<inside>\d[\d:]*,[^\]]*)")
_LOGGABLE = re.compile(
    rf"Progress on:(?P<desc>.*?) (?:-|{_COUNT})/(?:\?|-|{_TOTAL})"
    r" rate:(?P<rate>\S+) remaining:\S+ elapsed:\S+(?: postfix:(?P<post>.*))?"
)
_KERAS = re.compile(
    r"^\s*(?P<n>\d+)/(?P<m>\d+) (?=\[[=>. ]*\]|[━╸╺]|- \d+m?s )(?P<inside>.*\bloss: .*)",
    re.MULTILINE,
)
_RATE = re.compile(
    r"(?<![\w.])(?P<value>\d+(?:\.\d+)?)(?P<scale>[kMG]?)\s?(?P<unit>[A-Za-z]+/[A-Za-z]+)"
)
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


class Bar(NamedTuple):
    """A bar: what stands before it, its counts as written, and what stands in its brackets."""

    before: str
    inside: str
    done: str | None
    total: str | None
    counted: str
    rate: float | None
    rate_unit: str | None
    form: str


def read_bar(line: str) -> Bar | None:
    """Return the first progress bar of ``line``, or ``None``."""
    if "Progress on:" in line and (found := _LOGGABLE.search(line)):
        return _bar(found, found["desc"], found["rate"], found["post"] or "", "tqdm_loggable")
    if "%|" in line and (found := _TQDM.search(line)):
        return _bar(found, line[: found.start()], found["inside"], found["inside"], "tqdm")
    if "it [" in line and (found := _OPEN_ENDED.search(line)):
        return _bar(found, line[: found.start()], found["inside"], found["inside"], "tqdm")
    if "/" in line and (found := _KERAS.search(line)):
        return _bar(found, "Epoch 0", found["inside"], found["inside"], "keras")
    return None


def _bar(found: re.Match[str], before: str, rates: str, inside: str, form: str) -> Bar:
    parts = found.groupdict()
    rate = _RATE.search(rates)
    return Bar(
        before=before,
        inside=inside,
        done=_joined(parts, "n"),
        total=_joined(parts, "m"),
        counted=parts.get("unit") or parts.get("n_unit") or "",
        rate=None if rate is None else float(rate["value"]) * _SCALES[rate["scale"]],
        rate_unit=None if rate is None else rate["unit"],
        form=form,
    )


def _joined(parts: dict[str, str | None], name: str) -> str | None:
    number = parts.get(name)
    return None if number is None else number + (parts.get(f"{name}_scale") or "")
