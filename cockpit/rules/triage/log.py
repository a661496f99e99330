"""The lines that triage looks at: matched by shape, with what training did after each."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Final, Literal, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import LogLine, PresentLog, Read
from cockpit.model.observed import Triage
from cockpit.rules.triage.literals import WordIndex, alternatives
from cockpit.rules.triage.log_text import (
    NO_WORK,
    bars_of,
    losses_of,
    losses_read,
    marks_of,
    norms_lost,
    report_last,
    steps_of,
    tells_loss,
)
from cockpit.rules.triage.measures import (
    MEASURE,
    Measures,
    counted,
    is_row,
    moving,
    named,
    of_training,
    shape_of,
    tabled,
)
from cockpit.rules.triage.patterns import NETWORK, STARTED_AGAIN, STARTS
from cockpit.rules.triage.phrases import INTRODUCES, LONGEST_LINE, certain, listed, unquoted
from cockpit.rules.triage.signs import Action
from cockpit.rules.triage.speakers import EVENTS, Speaker, speaker_of

HEAD: Final = 60
"""Characters in which a line's stamp begins."""
FAR: Final = 400
"""Characters in which an event's own time is looked for: ``CANCELLED AT 2026-06-16T12:00:11``."""
DAY: Final = 24 * 3600
SKEW: Final = 2.0
"""Seconds by which two writers' clocks may differ, or a line may come late."""
NEAR: Final = 30 * 60
"""Seconds that an end is told after the last line of training; an hour may be a zone's."""
_AT: Final = "CANCELLED AT "
_STAMP: Final = late_regex(
    r"(?<!\d)(?:(?P<year>20\d\d)[-/]?(?P<month>[01]\d)[-/]?(?P<day>[0-3]\d)[T ]{1,2})?"
    r"(?<![\d:.])(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?![:\d])(?!.{0,12}<)"
)
"""Such as ``2026-03-11 08:41:07``."""
_LASTS: Final = late_regex(
    r"(?:<|\b(?:eta|elapsed|remaining|left|took|uptime)\b\W{0,3}(?:\d+ days?, )?)$", re.I
)
"""What stands before hours that are no time of day: a progress bar's, what is left of a run."""
_DIGIT: Final = late_regex(r"\d")


class Stamp(NamedTuple):
    """A time: how it looks, in seconds, and whether of a day or only of some day."""

    form: str
    at: float
    dated: bool


def stamp_in(line: str) -> Stamp | None:
    """Return the stamp in a line's head, durations apart; ``None`` without one."""
    return _stamp_in(line[: HEAD + 40], HEAD, dated=False)


def event_in(line: str) -> Stamp | None:
    """Return the stamp in a line's head, or else the time at which Slurm says that it cancelled."""
    at = line.find(_AT, 0, FAR)
    return stamp_in(line) or (_stamp_in(line[at:], FAR, dated=True) if at >= 0 else None)


def is_later(one: Stamp, other: Stamp) -> bool:
    """Tell whether one time lies surely behind the other.

    What lies far behind may be of another zone, or of an unknown day. Without a date, the
    shorter way round the clock counts.
    """
    apart = one.at - other.at
    if not (one.dated and other.dated):
        apart = (apart + DAY / 2) % DAY - DAY / 2
    return SKEW < apart <= NEAR


def _stamp_in(head: str, most: int, *, dated: bool) -> Stamp | None:
    stamps = (found for found in _STAMP.finditer(head) if found.start() <= most)
    for found in stamps:
        if (dated and found["year"] is None) or _LASTS.search(head[: found.start()]):
            continue
        at = _seconds(found)
        return (
            None if at is None else Stamp(_DIGIT.sub("0", found[0]), at, found["year"] is not None)
        )
    return None


def _seconds(found: re.Match[str]) -> float | None:
    """Return when a stamp was written (seconds), ``None`` of a day that no calendar has."""
    clock = 3600.0 * int(found["hour"]) + 60 * int(found["minute"]) + int(found["second"])
    if found["year"] is None:
        return clock
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None
    return clock + DAY * float(day.toordinal())


READ = 20_000
"""Newest lines that are looked at."""

TRIED = 65_536
"""Characters of different lines that hold the words of a sign, on which it is tried: hundreds of
them from the first on, and up to the last. Before a job is started again all of them are."""

BEFORE = 60
"""Lines before a job's first one that may tell why it was started again."""

PROOF = 3
"""Different steps logged after a trouble that prove it was overcome: ranks that have not met it
may log one more, or two."""

LOOKED_BACK: Final = 2000
"""Lines at the end in which measures are looked for; and before the last line of work, what came
between such lines before."""

LOOKED = 20
"""Newest lines of training among which a stamp is looked for."""

_FOLDED = late_regex(r"Traceback \(most recent call last\):?\\+n")
r"""A traceback that a logger put into one line: ``Traceback (most recent call last):\n``."""
_BREAK = late_regex(r"\\+n")
_QUOTE = late_regex(r"\\+(?=[\"'])")
_SGR = late_regex(r"\x1b\[[\d;]*m")
_NUMBER = late_regex(r"0x[0-9a-f]+|(?<![\d.])\d+\.\d+(e[-+]?\d+)?(?![\w.])|\d+", re.I)
_ERRNOS = ("12", "28", *map(str, range(100, 123)))
_MEANT = frozenset(("0", "2", "9", "10", "15", *_ERRNOS, "137", "143", "500", "502", "503", "504"))
"""Numbers that a sign may spell out; all others are alike to it (and so are the 400s)."""


class Log:
    """The present job's lines, oldest first.

    Most lines of a log differ in their figures alone, so a pattern is tried on one line of
    each shape: 20,000 lines take a fraction of a second, whatever the number of patterns.
    """

    def __init__(
        self,
        places: Sequence[LogLine],
        read: Read,
        before: Sequence[LogLine] = (),
        newest_step: int | None = None,
        report: int = 0,
        work: Mapping[int, str] = NO_WORK,
        most: int | None = None,
    ) -> None:
        self._most = TRIED if most is None else most
        self.left_out = False
        """Whether a sign was not tried on all lines that hold its words: there were too many."""
        self.places = tuple(unfolded(places))
        self.lines = tuple(_SGR.sub("", place.text) for place in self.places)
        self.read = read
        self.before = tuple(_SGR.sub("", place.text) for place in before)
        """The last lines of what ran before this job, where the log itself says that it began."""
        self.end = len(self.lines) - report
        """Where the lines end that the job has written; a report of its end may stand behind."""
        self.newest_step = newest_step
        """The step of the run that its last line of progress tells: no setting's, no save's."""
        self.work = {i: work[id(place)] for i, place in enumerate(self.places) if id(place) in work}
        """The lines that the reader of progress understands, and how far they say that it is."""
        self._shapes: dict[str, int] = {}
        self._samples: list[str] = []
        self._speakers: dict[int, Speaker] = {}
        self._late: dict[int, bool] = {}
        self._certain: dict[int, str] = {}
        self._own: dict[re.Pattern[str], list[int]] = {}
        self._shape_of = [self._shape(line) for line in self.lines]
        self._lines_of: dict[int, list[int]] = {}
        for index, shape in enumerate(self._shape_of):
            self._lines_of.setdefault(shape, []).append(index)

    @classmethod
    def of(cls, log: PresentLog, *, over: bool = True, most: int | None = None) -> Log:
        """Return what is to be looked at: the newest lines, from where the job is said to begin.

        ``over`` tells whether it has ended, or an attempt of it. ``most`` stands for ``TRIED``.
        """
        (places, report), read = report_last(log.lines[-READ:], over=over), log.read
        if len(places) < len(log.lines):
            why = f"only its last {READ:,} lines were read"
            read = read.model_copy(update={"whole": False, "why": why, "lines": READ})
        work = {id(log.lines[index]): far for index, far in log.work}
        newest = _last_step_in(log, places)
        whole = cls(places, read, newest_step=newest, report=report, work=work, most=most)
        starts = whole.matching(STARTS) if read.since == "file" else []
        if not starts:
            return whole
        rest = whole.places[starts[-1] :]
        said = {"since": "said", "whole": True, "why": None, "lines": len(rest)}
        before = whole.places[max(0, starts[-1] - BEFORE) : starts[-1]]
        read = read.model_copy(update=said)
        own = cls(rest, read, before, _last_step_in(log, rest), report, work, most)
        own.left_out = whole.left_out
        return own

    @cached_property
    def earlier(self) -> Log:
        """The lines of ``before``, as a log of their own."""
        return Log([LogLine(line) for line in self.before], self.read)

    def _shape(self, line: str) -> int:
        shape = _NUMBER.sub(_figure, line)
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = len(self._samples)
            self._samples.append(line)
        return known

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex.of(self._samples)

    def matching(self, pattern: re.Pattern[str]) -> list[int]:
        """Return the indexes of the lines that match."""
        hit = set[int]()
        for needs, one in alternatives(pattern):
            for at in self._tried(self._words.holding(needs)):
                if at not in hit and one.search(self._samples[at]):
                    hit.add(at)
        return sorted(index for shape in hit for index in self._lines_of[shape])

    def _tried(self, samples: Collection[int]) -> Collection[int]:
        """Return the samples that an expression is tried on: of too many the first and the last."""
        most = self._most
        if len(samples) * LONGEST_LINE <= most:
            return samples
        ordered = sorted(samples)
        sizes = list(accumulate(len(self._samples[at]) for at in ordered))
        if sizes[-1] <= most:
            return samples
        self.left_out = True
        first = bisect_left(sizes, most // 2)
        last = bisect_left(sizes, sizes[-1] - most // 2)
        return [*ordered[:first], *ordered[max(first, last) :]]

    def naming(self, pattern: re.Pattern[str], speakers: Container[Speaker] = EVENTS) -> list[int]:
        """Return the indexes of the lines that say so, not only that it may have been (SPEC T).

        ``speakers`` are those whose word counts.
        """
        if pattern in self._own:
            return self._own[pattern]
        found = [i for i in self.matching(pattern) if self.speaker(i) in speakers]
        sure = {
            shape: self._shape_matches(shape, pattern)
            for shape in {self._shape_of[i] for i in found}
        }
        return [i for i in found if sure[self._shape_of[i]] and i not in self.listed]

    def try_each(self, pattern: re.Pattern[str], speakers: Container[Speaker]) -> None:
        """Find a pattern of the run file on each line, for ``naming``: its figures are meant."""
        said = (i for i, line in enumerate(self.lines) if pattern.search(line[:LONGEST_LINE]))
        self._own[pattern] = [
            i
            for i in said
            if self.speaker(i) in speakers
            and i not in self.listed
            and pattern.search(certain(self.lines[i][:LONGEST_LINE]))
        ]

    def speaker(self, index: int) -> Speaker:
        """Return who has written a line."""
        shape = self._shape_of[index]
        known = self._speakers.get(shape)
        if known is None:
            known = self._speakers[shape] = speaker_of(self._samples[shape])
        return known

    def _shape_matches(self, shape: int, pattern: re.Pattern[str]) -> bool:
        said = self._certain.get(shape)
        if said is None:  # every sign asks for it, and of a long line it is dear
            said = self._certain[shape] = certain(self._samples[shape])
        return pattern.search(said) is not None

    @cached_property
    def listed(self) -> set[int]:
        """The indexes of the lines that are items of a list of possible causes."""
        return listed(self.lines, self.matching(INTRODUCES))

    def evidence(self, index: int) -> Triage.Line:
        """Return a line as evidence: by its number in the file, as far as that is known."""
        place = self.places[index]
        return Triage.Line(
            line=place.number, text=self.lines[index], offset=place.offset, file=place.file
        )

    @cached_property
    def steps(self) -> list[tuple[int, int]]:
        """The (index, step) of every training line."""
        return steps_of(self.lines)

    @cached_property
    def losses(self) -> list[tuple[int, float]]:
        """The (index, loss) of every line that tells one, and does not only quote it."""
        told = losses_of(self.lines)
        lost = {self._shape_of[i] for i, loss in told if not math.isfinite(loss)}
        quoted = {shape for shape in lost if not tells_loss(unquoted(self._samples[shape]))}
        named = [each for each in told if self._shape_of[each[0]] not in quoted]
        return sorted((*named, *losses_read(self.lines, self.work)))

    @cached_property
    def marks(self) -> list[tuple[int, str]]:
        """The (index, mark) of every line that shows training at work, with a step or without."""
        return marks_of(self.lines, self.steps, self.work)

    @cached_property
    def restarts(self) -> list[int]:
        """The indexes of the lines where the job starts again; retried requests do not count."""
        requests = set(self.matching(NETWORK))
        return [index for index in self.naming(STARTED_AGAIN) if index not in requests]

    @cached_property
    def bars(self) -> list[tuple[int, str]]:
        """The (index, count) of every state of a progress bar, whatever it counts."""
        return bars_of(self.lines)

    @cached_property
    def measures(self) -> Measures:
        """What is measured again and again in the last lines, whatever a step is called."""
        since = max(0, len(self.lines) - LOOKED_BACK)
        told_so = [index for index in self.matching(MEASURE) if index >= since]
        table = [index for index in range(since, len(self.lines)) if is_row(self.lines[index])]
        found = moving((*named(self.lines, told_so), *tabled(self.lines, table)))
        if found or self.marks or self.bars:
            return found
        return moving(counted(self.lines, range(since, len(self.lines))))

    def _measured(self, since: int, enough: int) -> bool:
        """Tell whether a line that tells a measure came so often after one, each time another.

        Behind a trouble it is one of training: what failed may still be evaluated.
        """
        return any(
            len({figure for index, figure in each if index > since}) >= enough
            for shape, each in self.measures.items()
            if since < 0 or of_training(shape)
        )

    def _marks_after(self, index: int, enough: int) -> bool:
        """Tell whether ``enough`` marks are logged after a line, the one before it not counted.

        Each counts once, however often it is logged.
        """
        if self._is_late(index):
            return False
        cut = bisect_right(self.marks, index, key=itemgetter(0))
        last = self._last_of_marks
        came_back = cut > 0 and last[self.marks[cut - 1][1]] >= cut
        return len(last) - bisect_left(self._lasts, cut) - came_back >= enough

    def _is_late(self, index: int) -> bool:
        """Tell whether a line was written after all that training logged, wherever it stands.

        Only above all of it: between its lines, another clock tells nothing of their order.
        """
        if not self.marks or not 0 <= index < self.marks[0][0] or self._newest_mark is None:
            return False
        if index not in self._late:
            own = event_in(self.lines[index])
            self._late[index] = own is not None and is_later(own, self._newest_mark)
        return self._late[index]

    @cached_property
    def _newest_mark(self) -> Stamp | None:
        """When the last line of training that has a stamp was written."""
        newest = (event_in(self.lines[index]) for index, _ in reversed(self.marks[-LOOKED:]))
        return next((told for told in newest if told is not None), None)

    @cached_property
    def _last_of_marks(self) -> dict[str, int]:
        """Where among ``marks`` each stands last: a log of thousands asks this of every sign."""
        return {mark: at for at, (_, mark) in enumerate(self.marks)}

    @cached_property
    def _lasts(self) -> list[int]:
        return sorted(self._last_of_marks.values())

    def went_on(self, index: int) -> bool:
        """Tell whether another training step is logged after a line."""
        return self._marks_after(index, 1)

    def outlived(self, index: int) -> bool:
        """Tell whether training went on after a line for so long that it was overcome."""
        return self._marks_after(index, PROOF)

    def progresses(self, since: int) -> bool:
        """Tell whether what is counted moved on past a line, or moved at all (-1)."""
        moved = self.went_on(since) if since < 0 else self.outlived(since)
        moved = moved or len({bar for at, bar in self.bars if at > since}) > 1
        return moved or self._measured(since, 2 if since < 0 else PROOF)

    @cached_property
    def moves(self) -> list[int]:
        """The lines that show work of any kind, ascending: a step, a bar, a measure."""
        measured = (index for each in self.measures.values() for index, _ in each)
        return sorted({*measured, *(index for index, _ in (*self.marks, *self.bars))})

    def as_before(self, indexes: Sequence[int]) -> set[int]:
        """Return which of the lines ``indexes``, behind all work, came so between it before, too.

        Of a shape there may be twice as many as there were at most: a pulse beats on in a hang.
        """
        asked = Counter(shape_of(self.lines[index]) for index in indexes)
        seen: dict[str, Counter[int]] = {}
        last = self.moves[-1] if self.moves else 0
        for index in range(max(0, last - LOOKED_BACK), last):
            shape = shape_of(self.lines[index])
            if shape in asked:
                seen.setdefault(shape, Counter())[bisect_right(self.moves, index)] += 1
        most = {shape: 2 * max(each.values()) for shape, each in seen.items()}
        return {i for i in indexes if asked[at := shape_of(self.lines[i])] <= most.get(at, 0)}

    def incidents(self, indexes: Sequence[int]) -> int:
        """Return how many times it happened: lines with training at work between them."""
        marks = [at for at, _ in self.marks]
        return len({bisect_right(marks, index) for index in indexes})

    def kinds(self, indexes: Sequence[int]) -> int:
        """Return how many of these lines differ in more than their figures."""
        return len({self._shape_of[index] for index in indexes})

    def numbers_came_back(self, index: int) -> bool:
        """Tell whether finite losses were logged after a line, up to the last one."""
        last = self.losses[-PROOF:]
        return self.trained_on(index) and all(math.isfinite(loss) for _, loss in last)

    def trained_on(self, index: int) -> bool:
        """Tell whether training logged losses enough after a line to prove that it went on."""
        return len(self.losses) >= PROOF and self.losses[-PROOF][0] > index

    def lost_numbers(self) -> list[int]:
        """Return the lines whose losses are no numbers, where the last loss is one of them.

        Or whose gradients are none: a trainer may tell their loss as 0.
        """
        if not self.losses or math.isfinite(self.losses[-1][1]):
            return norms_lost(self.lines)
        return [index for index, loss in self.losses if not math.isfinite(loss)]


def unfolded(places: Sequence[LogLine]) -> Iterator[LogLine]:
    """Yield the lines, one that holds a whole traceback (a JSON record, a repr) as its lines."""
    for place in places:
        if "Traceback" in place.text and _FOLDED.search(place.text):
            for line in _BREAK.split(_QUOTE.sub("", place.text)):
                yield place._replace(text=line)
        else:
            yield place


def _figure(found: re.Match[str]) -> str:
    text = found[0]
    if "." in text:  # no sign spells a fraction out, but that it is nothing, or next to nothing
        return text if not text.strip("0.") else "1.1e-1" if "e-" in text.lower() else "1.1"
    spelled = text in _MEANT or (len(text) == 3 and text[0] == "4")
    return text if spelled else "1"


def _last_step_in(log: PresentLog, places: Sequence[LogLine]) -> int | None:
    """Return the step that the last line of progress tells, if it is one of these lines."""
    if log.told is None:
        return None
    told = log.lines[log.told[0]]
    return log.told[1] if any(place is told for place in places) else None


EVIDENCE = 5
"""Lines that are shown at most: the first ones, and the last."""


def answer(
    log: Log,
    name: str,
    action: Action,
    confidence: Literal["sure", "likely", "guess"],
    indexes: Sequence[int] = (),
    place: Triage.Place | None = None,
) -> Triage:
    """Return class ``name`` and its action, resting on the lines ``indexes`` (0-based)."""
    chosen = [*indexes[: EVIDENCE - 1], *indexes[-1:]] if len(indexes) > EVIDENCE else indexes
    return Triage(
        name=name,
        action=action,
        confidence=confidence,
        evidence=tuple(log.evidence(index) for index in chosen),
        code_location=place,
        step=log.newest_step,
        read=log.read,
    )
