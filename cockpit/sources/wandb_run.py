"""One run as its ``.wandb`` files tell it: all launches of one id, joined in start order."""

from __future__ import annotations

from threading import Lock

from cockpit.model.clock import Clock
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import MetricNames, WandbSpec
from cockpit.sources.wandb_config import ShownConfig
from cockpit.sources.wandb_files import find
from cockpit.sources.wandb_fragment import Fragment
from cockpit.sources.wandb_log import LogFile, NotWandbError
from cockpit.sources.wandb_metrics import MetricKeys, choose
from cockpit.sources.wandb_pass import Pass, Rows
from cockpit.sources.wandb_rates import StepRate
from cockpit.sources.wandb_tail import newest_rows
from cockpit.sources.wandb_value import newest_head, tracker_value, with_state


class RunFiles:
    """The files of one run and everything that was read of them; safe to use from any thread.

    Methods block; they raise ``OSError`` where the files cannot be read, ``FileNotFoundError``
    where there are none of this run, and ``NotWandbError`` where they are something else.
    """

    def __init__(self, spec: WandbSpec) -> None:
        self._spec = spec
        self._lock = Lock()
        self._fragments: dict[str, Fragment] = {}
        self._order: list[Fragment] = []
        self._keys = MetricKeys()
        self._pass = Pass()
        self._config = ShownConfig()
        self._value: tuple[object, TrackerValue] | None = None

    def value(self, clock: Clock) -> TrackerValue:
        """Return what is known now: newest rows, exact columns as far as read, else samples."""
        with self._lock:
            self._list()
            self._look()
            seen = (self._keys, self._pass.progress, tuple(one.seen for one in self._order))
            if self._value is None or self._value[0] != seen:
                self._value = (seen, self._made())
            return with_state(self._value[1], clock.now())

    def more(self) -> Rows:
        """Return the next chunk of every logged row (see ``Rows``)."""
        with self._lock:
            if not self._fragments or any(one.replaced() for one in self._order):
                self._list()
            self._look()
            return self._pass.next(self._order, self._keys)

    def recent(self, most: int) -> Rows:
        """Return the last ``most`` rows; ``share`` is how much of the files they cover."""
        with self._lock:
            self._list()
            self._look()
            return self._recent(most)

    def _list(self) -> None:
        """Find the run's files again; one that was replaced begins anew."""
        place = "" if self._spec.dir is None else self._spec.dir.path
        paths = find(place, run_id(self._spec))
        if not paths:
            raise FileNotFoundError(_missing(place, run_id(self._spec)))
        kept = {path: one for path, one in self._fragments.items() if not one.replaced()}
        metrics = self._spec.metrics
        self._fragments = {path: kept.get(path) or Fragment(path, metrics) for path in paths}

    def _look(self) -> None:
        """Stat each file, learn from what is new, and keep the order of the starts."""
        wrong: list[NotWandbError] = []
        sound: list[Fragment] = []
        for fragment in self._fragments.values():
            try:
                fragment.refresh()
                sound.append(fragment)
            except NotWandbError as error:
                wrong.append(error)
        if not sound:
            raise wrong[0]
        self._order = sorted(sound, key=lambda one: (one.started_at, one.name))
        self._keys = self._chosen(self._spec.metrics)

    def _chosen(self, configured: MetricNames) -> MetricKeys:
        rows = [row for one in self._order for row in one.layout.rows]
        return choose(rows, configured, self._keys)

    def _made(self) -> TrackerValue:
        config = self._config.shown(self._raw_config())
        return tracker_value(self._spec, self._order, self._keys, self._pass, config)

    def _raw_config(self) -> dict[str, object]:
        run = newest_head(self._order).run
        return {**(run.config if run else {}), **self._pass.config_of(self._order[-1])}

    def _recent(self, most: int) -> Rows:
        total = sum(one.size for one in self._order)
        parts: list[tuple[Row, ...]] = []
        covered = wanted = 0
        for fragment in reversed(self._order):
            wanted = most - sum(len(part) for part in parts)
            if wanted <= 0 or not fragment.ready:
                continue
            with LogFile(fragment.path) as log:
                rows, start = newest_rows(log, fragment.reader(self._keys), wanted)
            parts.insert(0, self._with_rates(rows))
            covered += fragment.size - start
        flat = tuple(row for part in parts for row in part)
        return Rows(flat, True, False, min(1.0, covered / total) if total else 1.0)

    def _with_rates(self, rows: list[Row]) -> tuple[Row, ...]:
        return tuple(rows if self._keys.throughput else StepRate().fill(rows))


def run_id(spec: WandbSpec) -> str | None:
    """Return the recorded id, or the one at the end of the recorded URL."""
    if spec.id is not None or spec.url is None:
        return spec.id
    _, _, rest = spec.url.partition("/runs/")
    return rest.split("/")[0].split("?")[0] or None


def _missing(place: str, wanted: str | None) -> str:
    name = "run-*.wandb" if wanted is None else f"run-{wanted}.wandb"
    return f"no {name} in {place}"
