"""How everything is worded: separators, units, instants, stepped ages, clock times.

Pure functions, loaded early: this module loads nothing but the standard library. Unknown is ``?``
everywhere. Ages and times to come step (SCREENS rule 5), so that a run that is fine repaints
little; ``text_lifetime`` tells a painter when the words it has just made will read otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final

from cockpit.model.late_regex import late_regex

if TYPE_CHECKING:
    from cockpit.model.logtext import Skipped
    from cockpit.model.run import RunSpec


NO_TIME: Final = "unknown"
_FIRST: Final = 0x100000
"""The first of the letters that stand for what was noted: the last plane for private use."""
_MOST: Final = 0xFFFD


def rfc3339(instant: float) -> str:
    """Return ``instant`` (seconds since the epoch) as RFC 3339 in UTC, whole milliseconds."""
    try:
        moment = datetime.fromtimestamp(instant, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return NO_TIME
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Noting(float):
    """A moment to paint for, which records every age and day painted relative to it.

    Painters are given it as ``now``. What they tell has its usual length, but a letter in place of
    its words, so that it is found again wherever it was put; ``of`` says what each stands for.
    """

    def __init__(self, _: float) -> None:
        self._letters: dict[tuple[str, float], str] = {}
        self._about: dict[str, tuple[str, float]] = {}

    def __sub__(self, since: float, /) -> Elapsed:
        """Return the seconds since then, which know when that was."""
        return Elapsed.of(self, since)

    def note(self, form: str, since: float, words: str) -> str:
        """Return what stands for words of this form about an instant."""
        letter = self._letters.get((form, since))
        if letter is None:
            letter = chr(_FIRST + min(len(self._letters), _MOST))
            self._letters[form, since] = letter
            self._about[letter] = form, since
        return " ".join(letter * len(word) for word in words.split(" "))

    def of(self, letter: str) -> tuple[str, float] | None:
        """Return form and instant of a letter; none, too, where there were too many to tell."""
        return self._about.get(letter) if len(self._about) == len(self._letters) else None


class Elapsed(float):
    """Seconds since an instant, at a moment that records how they are painted."""

    now: Noting
    since: float

    @classmethod
    def of(cls, now: Noting, since: float) -> Elapsed:
        """Return the seconds from ``since`` to ``now``."""
        made = cls(float(now) - since)
        made.now, made.since = now, since
        return made

    def note(self, form: str, words: str) -> str:
        """Return what stands for words of this form."""
        return self.now.note(form, self.since, words)


class TextLifetime:
    """``seconds`` after which the first of some words changes; infinite if none ever does.

    ``of_look``: another look makes them others, though it has found nothing new.
    """

    def __init__(self) -> None:
        self.seconds = math.inf
        self.of_look = False


_ASKED: ContextVar[TextLifetime | None] = ContextVar("lasting", default=None)


@contextmanager
def text_lifetime() -> Iterator[TextLifetime]:
    """Gather for how long what is worded inside stays as it is."""
    found = TextLifetime()
    former = _ASKED.set(found)
    try:
        yield found
    finally:
        _ASKED.reset(former)


def lasts(seconds: float) -> None:
    """Note that something just worded reads otherwise after so many seconds."""
    asked = _ASKED.get()
    if asked is not None and seconds < asked.seconds:
        asked.seconds = max(0.0, seconds)


def by_look() -> None:
    """Note that something just worded, or its style, goes by when it was looked."""
    asked = _ASKED.get()
    if asked is not None:
        asked.of_look = True


UNKNOWN: Final = "?"
MOST_PERCENT: Final = 9_999
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YOUNG = ((15, "now"), (30, "15s"), (_MINUTE, "30s"))
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_SHORT = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def steps(count: int | None) -> str:
    """Return a count with separators: ``46,012``."""
    return UNKNOWN if count is None else f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Return ``1 checkpoint``, ``2 checkpoints``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def share(fraction: float | None) -> str:
    """Return a fraction as ``38.6 %``; never 100 before it is."""
    if fraction is None or not math.isfinite(fraction):
        return UNKNOWN
    percent = round(fraction * 100, 1)
    return f"{min(percent, 99.9) if fraction < 1 else percent:.1f} %"


def percent(fraction: float, digits: int = 0) -> str:
    """Return a limit or a level as ``71 %``; unlike ``share`` it is not held below 100."""
    return f"{fraction * 100:.{digits}f} %" if math.isfinite(fraction) else UNKNOWN


def change(value: float | None, baseline: float | None) -> str:
    """Return ``value`` against ``baseline`` as ``−31 %``, ``+4 %`` or ``±0 %``."""
    if value is None or not baseline or not math.isfinite(value) or not math.isfinite(baseline):
        return UNKNOWN
    ratio = (value / baseline - 1) * 100
    if abs(ratio) > MOST_PERCENT:
        return f">{'−' if ratio < 0 else '+'}{MOST_PERCENT:,} %"
    percent = round(ratio)
    if percent == 0:
        return "±0 %"
    return f"{'−' if percent < 0 else '+'}{abs(percent):,} %"


def number(value: float | None) -> str:
    """Return a metric in about four digits: ``2.314``, ``0.0123``, ``NaN``, ``−inf``."""
    if value is None:
        return UNKNOWN
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "−inf"
    size_of = abs(value)
    if size_of >= 1e6 or 0 < size_of < 1e-3:
        text = f"{value:.2e}"
    elif size_of >= 1000:
        text = f"{value:,.0f}"
    else:
        power = math.floor(math.log10(size_of)) if size_of else 0
        text = f"{value:.{3 - power if power >= 0 else max(3, 2 - power)}f}"
    return text.replace("-", "−", 1) if value < 0 else text


def short_number(value: float | None) -> str:
    """Return a quantity in three digits with its magnitude: ``1.21M``, ``88.0k``, ``640``."""
    if value is None or not math.isfinite(value):
        return number(value)
    for unit, letter in _SHORT:
        if abs(value) >= unit * 0.9995:
            return _three_digits(value / unit) + letter
    return _three_digits(value)


def rate(value: float | None, unit: str | None) -> str:
    """Return a throughput: ``1.21M tok/s``."""
    text = short_number(value)
    return f"{text} {unit}" if unit and value is not None else text


def size(count: int | None) -> str:
    """Return a number of bytes: ``16.4 GB`` (powers of 1000)."""
    if count is None:
        return UNKNOWN
    value, unit = float(max(0, count)), 0
    while value >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_SIZES[unit]}" if unit else f"{value:.0f} B"


def age(seconds: float | None) -> str:
    """Return an age in steps: ``now`` (under 15 s), ``15s``, ``30s``, ``1m`` … ``3d 04h``."""
    return _noted("age", seconds, _age(seconds))


def ago(seconds: float | None, now: str = "now") -> str:
    """Return an age as a person says it: ``42m ago``; ``now`` (or other words) and ``?`` alone."""
    text = _age(seconds)
    form = "ago" if now == "now" else "just"
    return _noted(form, seconds, f"{text} ago" if text not in ("now", UNKNOWN) else now)


def aged(form: str, since: float, now: float) -> str:
    """Return an instant as it is painted now, in one of the recorded forms."""
    if form == "day":
        return day_time(since, now)
    if form == "age":
        return age(now - since)
    return ago(now - since, "just now" if form == "just" else "now")


FORMS: Final = ("age", "ago", "just", "day")


def _age(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    for step, words in _YOUNG:
        if seconds < step:
            lasts(step - seconds)
            return words
    unit = _MINUTE if seconds < _DAY else _HOUR
    lasts(unit - seconds % unit)
    return _span(seconds)


def _noted(form: str, seconds: float | None, words: str) -> str:
    if isinstance(seconds, Elapsed) and words != UNKNOWN:
        return seconds.note(form, words)
    return words


def eta(seconds: float | None) -> str:
    """Return a time to come, rounded up: ``<1m``, ``51m``, ``3d 04h``."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return UNKNOWN
    if seconds < _MINUTE:
        return "<1m"
    return _span(math.ceil(seconds / _MINUTE) * _MINUTE)


def brief(words: str) -> str:
    """Return an age or time without its second unit: ``3d 04h`` becomes ``3d``."""
    return words.partition(" ")[0]


def duration(seconds: float) -> str:
    """Return a setting's duration: ``45s``, ``10m``, ``2h``, ``9d``, ``9m 30s``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if whole % unit == 0:
            return f"{whole // unit}{letter}"
    return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s" if whole < _HOUR else _span(whole)


def clock_time(instant: float | None, tz: tzinfo | None = None, seconds: bool = False) -> str:
    """Return ``08:57`` in ``tz`` (default: the reader's zone)."""
    moment = _moment(instant, tz)
    return UNKNOWN if moment is None else moment.strftime("%H:%M:%S" if seconds else "%H:%M")


def day_time(instant: float | None, now: float, tz: tzinfo | None = None) -> str:
    """Return ``08:57``, of another day ``11 Mar 08:57``, far off ``11 Mar 2025 08:57``."""
    moment, today = _moment(instant, tz), _moment(now, tz)
    if instant is None or moment is None:
        return UNKNOWN
    if today is not None:
        midnight = datetime(today.year, today.month, today.day) + timedelta(days=1)
        lasts((midnight - today.replace(tzinfo=None)).total_seconds())
    same = today is not None and moment.date() == today.date()
    far = today is not None and abs((moment.date() - today.date()).days) * _DAY > _NEAR
    day = f"{moment.day} {moment.strftime('%b')}{f' {moment.year}' if far else ''} "
    words = f"{'' if same else day}{moment.strftime('%H:%M')}"
    return now.note("day", instant, words) if isinstance(now, Noting) else words


def day_of(instant: float) -> str:
    """Return the reader's day at an instant: ``2026-03-11``."""
    found = _moment(instant, None)
    return UNKNOWN if found is None else found.date().isoformat()


def zone_name(instant: float) -> str:
    """Return the reader's zone at an instant, as it is called there: ``UTC``, ``CET``."""
    found = _moment(instant, None)
    return UNKNOWN if found is None else (found.astimezone().tzname() or UNKNOWN)


SURE_WORD: Final = {"sure": "certain", "likely": "cause likely", "guess": "a guess"}
"""How sure an alert is of what it says, in words."""


def utc_minute(instant: float | None) -> str:
    """Return ``2026-03-11 08:57 UTC``: for texts that are read elsewhere and later."""
    moment = _moment(instant, UTC)
    return UNKNOWN if moment is None else moment.strftime("%Y-%m-%d %H:%M UTC")


def _moment(instant: float | None, tz: tzinfo | None) -> datetime | None:
    if instant is None or not math.isfinite(instant):
        return None
    try:
        return datetime.fromtimestamp(instant, tz)
    except (OverflowError, ValueError, OSError):
        return None


def _three_digits(value: float) -> str:
    size_of = abs(value)
    digits = 0 if size_of >= 99.95 else 1 if size_of >= 9.995 else 2
    return f"{value:.{digits}f}".replace("-", "−")


def _span(seconds: float) -> str:
    minutes = int(seconds // _MINUTE)
    hours, days = minutes // 60, minutes // 1440
    if hours < 1:
        return f"{minutes}m"
    if days < 1:
        return f"{hours}h {minutes % 60:02d}m"
    return f"{days}d {hours % 24:02d}h"


GLYPHS: Final[dict[str, tuple[str, str]]] = {
    "healthy": ("●", "*"),
    "attention": ("▲", "!"),
    "critical": ("■", "#"),
    "unknown": ("?", "?"),
    "finished": ("◆", "="),
    "sealed": ("✓", "v"),
    "complete": ("✓", "v"),
    "incomplete": ("✗", "x"),
    "rejected": ("✗", "x"),
    "suspect": ("▲", "!"),
    "writing": ("◌", "o"),
    "info": ("·", "-"),
    "warning": ("▲", "!"),
    "alert": ("▲", "!"),
    "stale": ("◷", "~"),
    "pick": ("▸", ">"),
    "next": ("→", ">"),
    "nonfinite": ("×", "x"),
    "above": ("↑", "^"),
    "below": ("↓", "v"),
    "liked": ("★", "*"),
    "bar": ("▌", "|"),
}
"""Name of a state or mark: its glyph, its ASCII twin."""

_TWINS: Final[dict[str, str]] = {
    **dict(GLYPHS.values()),
    **dict(zip("╭╮╰╯├┤┬┴┼│─┃━┏┓┗┛┍", "++++++++||-|=+++++", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#", strict=True)),
    **dict(zip("·−…–—±≈•↑↓←▌▏⏎└┊⚑┈↻○", "--+--+~*^v<||>`|P-@o", strict=True)),
}


# A braille cell becomes how dense it is.
_BRAILLE = {chr(0x2800 + pattern): " ..::+++#"[pattern.bit_count()] for pattern in range(256)}
_TO_ASCII: Final = str.maketrans(_TWINS | _BRAILLE)


def glyph(state: str, ascii_only: bool = False) -> str:
    """Return the glyph of a state's name; ``?`` for one that has none."""
    return GLYPHS.get(state, GLYPHS["unknown"])[1 if ascii_only else 0]


def to_ascii(text: str) -> str:
    """Return ``text`` with the cockpit's own glyphs replaced by their twins, cell by cell."""
    return text.translate(_TO_ASCII)


_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_NEAR: Final = 300 * _DAY
"""Seconds within which a day needs no year."""
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def figure(value: float) -> str:
    """Return ``1.21M`` for 1210345: three digits, for rates and losses."""
    for scale, letter in _SCALES:
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def span(seconds: float) -> str:
    """Return ``15m``, ``2h``, ``9d``, ``5s``: the largest unit that it is at least two of."""
    for size, letter in _SPANS:
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g}{letter}"
    return f"{seconds:.3g}s"


def lasting(seconds: float) -> str:
    """Return for how long something has held: ``45s``, ``9m``, ``1h 05m``, ``3d 04h``."""
    return duration(seconds) if seconds < _MINUTE else _span(seconds)


def moment(instant: float) -> str:
    """Return an instant as ``2026-03-11 08:41:07Z``."""
    text = rfc3339(instant)
    return text if text == "unknown" else text[:19].replace("T", " ") + "Z"


def clocked(words: str, now: float) -> str:
    """Return a rule's words with each ``moment`` as the reader's clock shows it: ``08:41:07``.

    The day stands before it unless that is today; one so far away that a day without its year is
    ambiguous stays as it is. For screens only: what is stored keeps its date.
    """
    return _MOMENT.sub(lambda found: _clocked(found[0], now), words) if "Z" in words else words


def clocked_minutes(words: str, now: float) -> str:
    """Return words with each ``utc_minute`` as the reader's clock shows it: ``08:57 (9m ago)``.

    Of a time to come there is no age. For screens only, as ``clocked``.
    """
    if "UTC" not in words:
        return words
    return _UTC_MINUTE.sub(lambda found: _clocked_minute(found[0], now), words)


def _clocked_minute(words: str, now: float) -> str:
    try:
        at = datetime.fromisoformat(f"{words[:16]}Z").timestamp()
    except ValueError:
        return words
    if abs(now - at) > _NEAR:
        return words
    past = float(now) // _MINUTE * _MINUTE - at  # as the two clock times differ
    return day_time(at, float(now)) + (f" ({ago(past, 'just now')})" if past >= 0 else "")


def _clocked(words: str, now: float) -> str:
    try:
        at = datetime.fromisoformat(words).timestamp()
    except ValueError:  # a 39th of a month, in a text from outside
        return words
    if abs(now - at) > _NEAR:
        return words
    return day_time(at, float(now)) + clock_time(at, seconds=True)[5:]


def step(number: int | None) -> str:
    """Return a step with separators."""
    return "unknown" if number is None else f"{number:,}"


def clock_off(seconds: float | None) -> str:
    """Return how far another clock is off: ``2h ahead, times corrected``; nothing where right."""
    if not seconds:
        return ""
    off = abs(seconds)
    about = span(round(off / _MINUTE) * _MINUTE if off >= 5 * _MINUTE else round(off))
    return f"{about} {'ahead' if seconds > 0 else 'behind'}, times corrected"


def skipped(found: Skipped | None) -> str:
    """Return what of a log was not read line by line, and what was seen in it all the same."""
    if found is None:
        return ""
    dropped = f"{size(found.dropped)} of older lines are no longer kept" if found.dropped else ""
    if not found.ranges:
        return dropped
    begin, end = found.ranges[-1]
    before = f"{dropped}; " if dropped else ""
    last = "" if found.bytes == end - begin else "the last of it "
    where = f"{before}{size(found.bytes)}, {last}bytes {begin:,} to {end:,}"
    if found.unscanned >= found.bytes and not found.alarms:
        return f"{where}: not searched"
    kinds = ", ".join(dict.fromkeys(line.name for line in found.found))
    seen = f"{found.alarms:,} alarming lines ({kinds})" if found.alarms else "no alarming line"
    unseen = f"; {size(found.unscanned)} not searched" if found.unscanned else ""
    return f"{where}: {seen}{unseen}"


_UTC_MINUTE: Final = late_regex(r"\b\d{4}-[01]\d-[0-3]\d [0-2]\d:[0-5]\d UTC\b")
_MOMENT: Final = late_regex(r"\b\d{4}-[01]\d-[0-3]\d [0-2]\d:[0-5]\d:[0-5]\dZ")
_CAUSES: Final = {
    "hbm_exhausted": "HBM exhausted",
    "oom_device": "out of accelerator memory",
    "oom_host": "out of host memory",
    "node_death": "node lost",
    "walltime": "time limit reached",
    "user_stopped": "stopped by a person",
    "capacity_wait": "waiting for capacity",
    "numeric_instability": "numerical instability",
    "network_transient": "network trouble",
    "tracker_error": "W&B trouble",
    "small_code_bug": "code bug",
    "complex_code_bug": "code bug",
    "success": "its log says that it finished",
    "unknown": "cause unknown",
}


def cause(name: str) -> str:
    """Return a class of SPEC T as it is read: ``code bug`` for ``small_code_bug``."""
    return _CAUSES.get(name, name.replace("_", " "))


def sentence(text: str) -> str:
    """Return ``text`` with a capital first; a name such as ``train/loss`` stays as it is."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.strip(",;:").isalpha() else text


def person(run: RunSpec) -> str:
    """Return the DRI's name, or who they are."""
    return run.dri or "the DRI"


def escalate(run: RunSpec) -> str:
    """Return how a person is reached from here; an escalation that reaches nobody is no advice."""
    if run.escalation == "own":
        return "decide what to do (you own this run)"
    if run.escalation == "nobody":
        return f"tell {person(run)} yourself ([notify] has no route, and there is no issue)"
    return f"escalate to {person(run)}"


def with_code(text: str, code: int | None) -> str:
    """Return a state with its exit code, where there is one: a sentence holds no None."""
    return text if code is None else f"{text}, exit code {code}"


def from_to(was: str, now: str) -> str:
    """Return ``ada → bob``; one of the two where they are the same."""
    return now if was == now else f"{was} → {now}"


def with_reason(state: str, reason: str | None) -> str:
    """Return a state and its reason: ``failed: exit status 3``; never the same word twice."""
    bare = (reason or "").strip()
    return f"{state}: {bare}" if bare and bare.casefold() != state.strip().casefold() else state
