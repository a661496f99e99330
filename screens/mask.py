"""What ``--present`` hides while a screen is shared: machines, people, paths. Run names stay.

Applied to painted lines, so that nothing reaches the screen around it. What is hidden keeps its
width, so that nothing moves: a path becomes dots but for a file's or checkpoint's own name, a name
its stand-in (``host-1``, ``user-2``), the same one for as long as the program runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.shared_facts import login_in, name_in
from cockpit.text.names import Kind, names_in

DOT: Final = "•"
MOST: Final = 1000
"""Names that are known by themselves, wherever they stand; later ones need their shape."""
_PATHS: Final = re.compile(
    "|".join(
        (
            r"[a-z][a-z0-9+]*://[^\s\"']+",
            r"(?<![\w~./…])(?<!\?(?=/(?:\d[\d.,]*[kMGT]?|unknown)(?:\s|$)))(?:~|\.{1,2})?/[\w.@%+*{}…-]+(?:/[\w.@%+*{}…-]*)*",
            r"~[\w.-]+(?:/[\w.@%+*{}…-]*)+",
            r"…(?:/[\w.@%+*{}…-]+)+/?",
            r"(?<![\w.,/~])[\w.@%+-]+(?:/[\w.@%+*-]+)+/?(?:…)?",
        )
    )
)
_NOT_PATHS: Final = re.compile(
    r"[~\d,.:?a-z]*\d[\d,.]*[a-z]{0,3}/[\d,.]+[a-z]*|~?\d[\d,]*/(?:unknown|\d[\d.]*[kMGT])|w&b|now/\d+[a-z]+|[a-zA-Z]{1,3}/s"
    r"|(?:tok|token|sample|seq|sequence|example|img|image|it|iter|step|batch|frame|[kMGT]?i?B)(?:e?s)?"
    r"/(?:s|sec|second|min|step|it)(?:/(?:device|chip|gpu|GPU))?"
)
_FILE: Final = re.compile(
    r"(?<=/)(?:[\w+-]+\.(?:c|cc|cfg|ckpt|cpp|csv|cu|err|gz|h|ini|ipynb|js|jsonl?|log|md|npz|out|parquet"
    r"|pid|pt|pth|py|rs|safetensors|sbatch|sh|sqlite|tfrecord|toml|tsv|txt|wandb|ya?ml|zip)"
    r"|(?:step|checkpoint|ckpt|iter|global_step)[-_]?\d+)(?::\d+)*[,.;:)]*$"
)
"""What a path ends in that names no place and nobody: a file, a checkpoint."""
_OWNERS: Final = re.compile(r"(?::/?/|~|/(?:home|[Uu]sers|scratch|work|data)/)([\w.@-]+)(?=/)")
"""Whom or which machine a path names: a file that is called so as well is not shown."""
_STAND_IN: Final = re.compile(r"(?P<kind>[hu])(?:ost-|ser-)?(?P<number>\d{1,6})")
_PLAIN_WORDS: Final = frozenset(
    (
        *("train", "trainer", "training", "worker", "master", "leader", "chief", "coordinator"),
        *("scheduler", "controller", "log", "loss", "step", "main", "run", "base", "data"),
        *("model", "eval", "ubuntu", "admin", "test", "dev", "prod", "research", "team"),
    )
)
"""Words that are names only where the text says so, not wherever they stand."""


class Hidden(NamedTuple):
    """A piece of a line to hide: a name, or (``kind`` ``None``) a path."""

    start: int
    end: int
    kind: Kind | None = None


class StandIns:
    """Which stand-in each name has; numbers are given in the order in which names are seen."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Kind, str], int] = {}
        self._counts = dict.fromkeys(Kind, 0)
        self.known: dict[str, Kind] = {}

    def learn(self, name: str, kind: Kind) -> bool:
        """Know a name wherever it stands from now on; return whether that is new."""
        word = name.lower()
        plain = word in _PLAIN_WORDS or (kind is Kind.HOST and len(word) < 5 and word.isalpha())
        if plain or word in self.known or len(self.known) >= MOST:
            return False
        self.known[word] = kind
        return True

    def given(self, letter: str, number: int) -> bool:
        """Return whether a stand-in of this kind, by its first letter, was given out."""
        return any(each.value[0] == letter and number <= n for each, n in self._counts.items())

    def of(self, name: str, kind: Kind) -> str:
        """Return what stands for a name, in as many cells; of a cut one, for what it was."""
        word, kind = self._completed(name), self.kind_of(name, kind)
        # a machine's name goes without its domain, where its first part says which it is
        first = word.partition(".")[0]
        key = kind, first if not first.isalpha() and not first.isdecimal() else word
        if key not in self._numbers:
            self._counts[kind] += 1
            self._numbers[key] = self._counts[kind]
        number, width = self._numbers[key], len(name)
        for shown in (f"{kind.value}-{number}", f"{kind.value[0]}{number}"):
            if len(shown) <= width:
                return shown.ljust(width, DOT)
        return DOT * width

    def kind_of(self, name: str, unless_known: Kind = Kind.HOST) -> Kind:
        """Return what a name is, whole or cut."""
        return self.known.get(self._completed(name), unless_known)

    def _completed(self, name: str) -> str:
        word, start = name.lower(), name.lower().removesuffix("…")
        begun = (each for each in self.known if each.startswith(start))
        return word if start == word else next(begun, start)


class Mask:
    """Replaces what must not be seen in a line; ``former`` is one whose stand-ins go on."""

    def __init__(
        self,
        hosts: Iterable[str],
        users: Iterable[str],
        kept: Iterable[str],
        former: Mask | None = None,
    ) -> None:
        self._names: StandIns = StandIns() if former is None else former._names
        for kind, words in ((Kind.USER, users), (Kind.HOST, hosts)):
            self._names.known |= {word.lower(): kind for word in words if len(word) > 1}
        keep = sorted({name for name in kept if name}, key=len, reverse=True)
        self._kept = re.compile("|".join(map(re.escape, keep)) or r"(?!)")
        self._named = self._pattern()

    @classmethod
    def of(cls, file: CockpitFile, people: Iterable[str], former: Mask | None = None) -> Mask:
        """Return the mask for a run file: its hosts and people, and those given."""
        import socket  # here: only a shared screen needs it

        users, hosts = {file.operator or "", *people}, {*file.hosts, socket.gethostname()}
        for run in file.runs:
            entity = None if run.wandb is None else run.wandb.recorded.entity
            order = () if run.standing is None else run.standing.by
            users |= {word for word in (run.dri, entity, *order) if word}
            hosts |= _places(run)
        return cls(hosts, users, (run.name for run in file.runs), former)

    def meet(self, reports: Iterable[RunReport]) -> None:
        """Know the people and nodes that these reports name, however a screen words it."""
        met = {(who, Kind.USER) for each in reports for who in _met(each)}
        jobs = (each.facets.job.value for each in reports)
        met |= {(job.node, Kind.HOST) for job in jobs if job is not None and job.node}
        if any([self._names.learn(*each) for each in met]):
            self._named = self._pattern()

    @property
    def knows(self) -> int:
        """How many names it looks for by now: with each one more it may hide more of a line."""
        return len(self._names.known)

    def __call__(self, line: Content) -> Content:
        """Return the line with every name as its stand-in, every path as dots."""
        plain = line.plain
        kept = [found.span() for found in self._kept.finditer(plain)]
        pieces, at = [], 0
        for start, end, kind in self._hidden(plain):
            pieces += [plain[at:start], self._shown(plain, start, end, kind, kept)]
            at = end
        if not pieces:
            return line
        return Content("".join([*pieces, plain[at:]]), list(line.spans))

    def _hidden(self, plain: str) -> Iterator[Hidden]:
        """Yield the spans to hide, in order; of spans that overlap, only the first."""
        found = [Hidden(each.start(), each.end() - _kept_end(each.group()))
                 for each in _PATHS.finditer(plain)
                 if not _NOT_PATHS.fullmatch(each.group())]  # fmt: skip
        names = [each for each in names_in(plain) if not self._stands_in(plain, *each[:2])]
        learned = [self._names.learn(plain[a:b], kind) for a, b, kind, sure in names if sure]
        if any(learned):
            self._named = self._pattern()
        found += (Hidden(each.start, each.end, each.kind) for each in names)
        for known in self._named.finditer(plain):
            found.append(Hidden(*known.span(), self._names.kind_of(known.group())))
        at = 0
        for each in sorted(found, key=lambda piece: (piece.start, -piece.end)):
            if each.start >= at:
                yield each
                at = each.end

    def _stands_in(self, plain: str, start: int, end: int) -> bool:
        """Return whether this is a stand-in: some lines are asked about twice."""
        found = _STAND_IN.fullmatch(plain, start, end)
        return found is not None and self._names.given(found["kind"], int(found["number"]))

    def _shown(
        self, plain: str, start: int, end: int, kind: Kind | None, kept: list[tuple[int, int]]
    ) -> str:
        """Return what is shown instead; what belongs to a run's name stays, also within a path."""
        clear = {place for a, b in kept for place in range(max(a, start), min(b, end))}
        if kind is not None and not clear:
            return self._names.of(plain[start:end], kind)
        return "".join(plain[at] if at in clear else DOT for at in range(start, end))

    def _pattern(self) -> re.Pattern[str]:
        """Return what finds the known names, whole or cut off with an ellipsis."""
        forms = [
            re.escape(form)
            for word in sorted(self._names.known, key=len, reverse=True)
            for form in (word, *(f"{word[:end]}…" for end in range(len(word), 1, -1)))
        ]
        return re.compile(rf"(?<![\w-])(?:{'|'.join(forms) or '(?!)'})(?![\w])", re.IGNORECASE)


def _kept_end(path: str) -> int:
    """Return how many letters at a path's end may be seen."""
    found = _FILE.search(path)
    if found is None or path[: found.start()].endswith("://"):
        return 0
    names = [name for each in _OWNERS.findall(path) for name in each.split("@")]
    called = (rf"(?<![^\W_]){re.escape(name)}(?![^\W_])" for name in names if name)
    named = any(re.search(each, found.group(), re.IGNORECASE) for each in called)
    return 0 if named else len(found.group())


def _met(report: RunReport) -> Iterator[str]:
    """Yield who owns a run, who stopped it, whose order holds, and who has taken its alerts."""
    alerts = (*report.alerts, *(each.alert for each in report.closed))
    taken = (each.acknowledged.by for each in alerts if each.acknowledged is not None)
    owner = report.owner.name if report.owner is not None else None
    order = report.standing.by if report.standing is not None else None
    for who in (owner, report.stopped_by, order, *taken):
        yield from filter(None, (name_in(who), login_in(who)) if who else ())


def _places(run: RunSpec) -> set[str]:
    from cockpit.platforms.kinds import PRIVATE  # here: only a shared screen needs it

    job, marks, wandb = run.job, run.checkpoints, run.wandb
    base_url = None if wandb is None else wandb.recorded.base_url
    found = {urlsplit(base_url or "").hostname}
    named = [run.output_root, None if job is None else job.log]
    named += [] if marks is None else [*marks.path, marks.initialize_from]
    named.append(None if run.code is None else run.code.repo)
    named.append(None if wandb is None else wandb.dir)
    found |= {place.host for place in named if place is not None}
    found |= set() if job is None else {str(getattr(job, name) or "") for name in PRIVATE}
    return {word for word in found if word}
