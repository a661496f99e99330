"""MLflow's tracking server by its REST API: one question for all runs that are named by id."""

from __future__ import annotations

import configparser
import json
import math
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlencode

from cockpit.model.base import step_of
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import FILE, Place, place_of, sqlite_file
from cockpit.model.run import MlflowSpec
from cockpit.runtime.http import Answer, BlockingHttp, Get, HttpError, server_message
from cockpit.runtime.mounts import is_folder
from cockpit.sources.figures import figure_of
from cockpit.sources.logs.remote import HostError
from cockpit.sources.mlflow import (
    MOST_RUNS,
    Merge,
    Page,
    Point,
    Store,
    StoredRun,
    missing,
    number_of,
    pick,
    spelled,
    value_of,
)  # fmt: skip
from cockpit.sources.mlflow_files import FolderStore, SqliteStore
from cockpit.sources.sqlite_copies import Database
from cockpit.text.safe import clean

FRESH: Final = 5.0
"""Seconds for which an answer about runs is used again."""
WATCHED: Final = 600.0
"""Seconds after which a run that nobody has asked about is not asked about any more."""
PAGE: Final = 5000
"""Values of one metric in one answer."""
MOST_ENDS: Final = 2500
"""The most that the server gives of a range of steps."""
DEADLINE: Final = 8.0
WHOLE_EVERY: Final = 60.0
"""Seconds after which a long history is asked for again that a server only gives whole."""
CAP: Final = 64_000_000
"""Bytes of one answer: some six hundred thousand values."""
API: Final = "/api/2.0/mlflow/"
WEB: Final = ("http", "https")


class Wanted(NamedTuple):
    """Which run is asked about, as a run file names it."""

    experiment: str | None
    run: str | None


class MlflowServer:
    """One tracking server; safe from any thread. Methods block and raise ``OSError``."""

    def __init__(self, place: Place, clock: Clock, env: Mapping[str, str] = os.environ) -> None:
        self.clock = clock
        self._env = env
        self._http = BlockingHttp(clock, DEADLINE, CAP)
        self.host = clean(place.host, 300)
        self._base = f"{place.scheme}://{place.host}/{place.path}".rstrip("/")
        self._lock = Lock()
        self._asked: dict[Wanted, float] = {}
        self._told: dict[Wanted, StoredRun | OSError] = {}
        self._told_at = float("-inf")
        self._looks = 0
        self._experiments: dict[str, tuple[str, str]] = {}
        self._of_run: dict[str, str] = {}

    def run(self, spec: MlflowSpec) -> StoredRun:
        """Return the run; all that were asked about lately are asked about together."""
        with self._lock:
            now, wanted = self.clock.monotonic(), Wanted(spec.experiment, spec.run)
            self._asked[wanted] = now
            if wanted not in self._told or now - self._told_at > FRESH:
                specs = [each for each, at in self._asked.items() if now - at <= WATCHED]
                self._asked = {each: self._asked[each] for each in specs}
                self._looks += 1
                self._told = dict(self._ask_all(specs))
                self._told_at = self.clock.monotonic()
            found = self._told[wanted]
        if isinstance(found, OSError):
            raise found
        return found

    def ask(self, questions: Sequence[tuple[str, Mapping[str, object]]]) -> list[Any]:
        """Return the answers to several questions; each is a document or an ``OSError``."""
        gets = [
            Get(f"{self._base}{API}{path}?{urlencode(values, doseq=True)}", self._headers())
            for path, values in questions
        ]
        return [self._document(each) for each in self._http.get_all(gets)]

    def search(self, experiments: Sequence[str], which: str) -> list[StoredRun]:
        """Return the runs of experiments, the newest first; raises ``OSError``."""
        document = {
            "experiment_ids": list(experiments), "filter": which, "max_results": MOST_RUNS,
            "order_by": ["attributes.start_time DESC"],
        }  # fmt: skip
        url = f"{self._base}{API}runs/search"
        (found,) = self._http.get_all([Get(url, self._headers(), document)])
        return [self._stored(each) for each in _list(_sound(self._document(found)), "runs")]

    def _ask_all(self, specs: Sequence[Wanted]) -> Iterator[tuple[Wanted, Any]]:
        """Yield what is known of each run, or the ``OSError`` that says why nothing is."""
        by_id = [each for each in specs if each.run is not None and is_id(each.run)]
        try:
            yield from self._by_id(by_id)
        except OSError as error:
            yield from ((each, error) for each in by_id)
        for spec in specs:
            if spec not in by_id:
                try:
                    yield spec, self._by_name(spec)
                except OSError as error:
                    yield spec, error
                except ValueError as error:
                    yield spec, OSError(str(error))

    def _by_id(self, specs: Sequence[Wanted]) -> Iterator[tuple[Wanted, Any]]:
        ids = list(dict.fromkeys(each.run or "" for each in specs))
        new = [each for each in ids if each not in self._of_run]
        asked = self.ask([("runs/get", {"run_id": each}) for each in new])
        answers = dict(zip(new, asked, strict=True))
        for name, answer in answers.items():
            if isinstance(answer, dict):
                self._of_run[name] = self._stored(answer.get("run")).experiment
        known = [each for each in ids if each not in answers]
        found = {each: self._stored(answer["run"]) for each, answer in answers.items()
                 if isinstance(answer, dict)}  # fmt: skip
        if known:
            listed = ", ".join(f"'{each}'" for each in known)
            where = list(dict.fromkeys(self._of_run[each] for each in known))
            found |= {
                each.id: each for each in self.search(where, f"attributes.run_id IN ({listed})")
            }
        for spec in specs:
            run = found.get(spec.run or "") or answers.get(spec.run or "")
            if run is None:  # deleted since
                self._of_run.pop(spec.run or "", None)
                run = FileNotFoundError(missing(spec, self.host))
            yield spec, self._named(run) if isinstance(run, StoredRun) else run

    def _by_name(self, spec: Wanted) -> StoredRun:
        if spec.experiment is None:
            raise FileNotFoundError("set mlflow.experiment, or the id of a run as mlflow.run")
        if spec.experiment not in self._experiments:
            by_name = ("experiments/get-by-name", {"experiment_name": spec.experiment})
            by_id = ("experiments/get", {"experiment_id": spec.experiment})
            answers = self.ask([by_name, by_id] if spec.experiment.isdigit() else [by_name])
            told = next((each for each in answers if isinstance(each, dict)), None)
            own = _sound(told if told is not None else answers[0]).get("experiment") or {}
            self._experiments[spec.experiment] = str(own.get("experiment_id")), str(own.get("name"))
        number, name = self._experiments[spec.experiment]
        which = "" if spec.run is None else f"attributes.run_name = {_quoted(spec.run)}"
        return self._named(pick(self.search([number], which), spec, self.host), name)

    def _named(self, run: StoredRun, experiment: str | None = None) -> StoredRun:
        """Return the run with the name of its experiment, and its page."""
        number = run.experiment
        names = dict(self._experiments.values())
        if experiment is None and number not in names:
            (told,) = self.ask([("experiments/get", {"experiment_id": number})])
            own = told.get("experiment") if isinstance(told, dict) else None
            names[number] = str((own or {}).get("name", number))
            self._experiments[f"\0{number}"] = number, names[number]
        url = f"{self._base}/#/experiments/{number}/runs/{run.id}"
        return run._replace(experiment=experiment or names[number], url=clean(url, 500))

    def _stored(self, raw: object) -> StoredRun:
        """Return a run as the server tells it; raises ``OSError`` where it tells none."""
        told: Any = raw if isinstance(raw, dict) else {}
        info, data = told.get("info"), told.get("data") or {}
        if not isinstance(info, dict) or not isinstance(info.get("run_id"), str):
            raise HostError(ErrorKind.BAD_ANSWER, f"{self.host}: its answer has no run")
        began = number_of(info.get("start_time")) / 1000
        newest = {str(each.get("key")): _point(each) for each in _list(data, "metrics")}
        latest = max((point.at for point in newest.values()), default=began)
        now, status = self.clock.now(), str(info.get("status"))
        changing = self._looks if status == "RUNNING" else 0
        return StoredRun(
            id=info["run_id"],
            name=str(info.get("run_name") or info["run_id"]),
            experiment=str(info.get("experiment_id")),
            status=status,
            began=began,
            written=latest,
            ended=number_of(info.get("end_time")) / 1000,
            names=tuple(newest),
            newest=newest,
            params={str(each.get("key")): str(each.get("value")) for each in _list(data, "params")},
            mtime=min(now, latest),
            version=(status, changing, info.get("end_time"), latest, len(newest)),
        )

    def _headers(self) -> dict[str, str]:
        """Return what says who asks, as the client finds it: a user's password, else a token."""
        env = self._env
        told = _credentials(env)
        place = place_of(env.get("MLFLOW_TRACKING_URI", "").strip())
        named, _, host = place.host.rpartition("@")
        user, _, password = map(unquote, (named if host == self.host else "").partition(":"))
        user = user or env.get("MLFLOW_TRACKING_USERNAME") or told.get("username", "")
        password = password or env.get("MLFLOW_TRACKING_PASSWORD") or told.get("password", "")
        headers = {"user-agent": "run-cockpit"}
        if user and password:
            word = b64encode(f"{user}:{password}".encode()).decode()
            headers["authorization"] = f"Basic {word}"
        elif token := env.get("MLFLOW_TRACKING_TOKEN", "").strip():
            headers["authorization"] = f"Bearer {token}"
        return headers

    def _document(self, answer: Answer | HttpError) -> Any:  # noqa: ANN401 - checked by its reader
        """Return an answer's document, or the ``OSError`` that it stands for."""
        if isinstance(answer, HttpError):
            return HostError(answer.kind, str(answer))
        try:
            document = answer.json()
        except HttpError:
            document = None
        if answer.status == 200 and isinstance(document, dict):
            return document
        said = server_message(answer.body)
        if answer.status == 404 and isinstance(document, dict) and "error_code" in document:
            return FileNotFoundError(f"{self.host}{said}")
        page = answer.body[:256].lstrip().startswith(b"<")
        kind, text = _REFUSED.get(answer.status, (ErrorKind.BAD_ANSWER, _PAGE if page else _OTHER))
        return HostError(kind, f"{self.host} {text} (status {answer.status}{said})")


_REFUSED: Final = {
    401: (
        ErrorKind.UNAUTHORIZED,
        "wants to know who asks: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD",
    ),
    403: (ErrorKind.FORBIDDEN, "refuses to tell of this run"),
    404: (ErrorKind.NOT_FOUND, "has no MLflow API at this address: check mlflow.uri"),
}
"""What a status means, and what to do about it."""
_PAGE: Final = "sends a web page instead of MLflow's answer: a proxy or a login?"
_OTHER: Final = "does not answer as MLflow does"


class ServerStore(Merge):
    """The histories of a server's runs."""

    def __init__(self, server: MlflowServer) -> None:
        self._server = server
        self.run = server.run
        self.pages_on = True
        """Whether a history goes on where the last answer ended, as far as is known."""
        self._asked: dict[tuple[str, str], float] = {}
        self._begin: dict[tuple[str, str], tuple[float, int]] = {}
        """Time and step with which a history begins."""

    def pages(self, run: StoredRun, asked: Mapping[str, int]) -> Mapping[str, Page]:
        """Return the next values of each metric; a cursor is how many were read.

        Before MLflow 3.4 a server always gives the whole history.
        """
        told = [each for each in asked.items() if self._due(run.id, *each)]
        answers = self._server.ask([self._question(run, *each) for each in told])
        found = {}
        for (name, at), answer in zip(told, answers, strict=True):
            document = _sound(answer)
            points = [_point(each) for each in _list(document, "metrics")]
            begin = self._begin.get((run.id, name))
            if points and at == 0:
                self._begin[run.id, name] = points[0][:2]
            elif len(points) >= at and points and points[0][:2] == begin:
                self.pages_on = False
            if not self.pages_on:
                points = sorted(points, key=itemgetter(0, 1))[at:]
            more = bool(document.get("next_page_token"))
            found[name] = Page(points, at + len(points), more)
        return found

    def _question(self, run: StoredRun, name: str, at: int) -> tuple[str, Mapping[str, object]]:
        token = {"page_token": _token(at)} if at and self.pages_on else {}
        about = {"run_id": run.id, "metric_key": name, "max_results": PAGE}
        return "metrics/get-history", {**about, **token}

    def _due(self, run: str, name: str, at: int) -> bool:
        """Tell whether to ask now: a long history that comes whole is not asked for each time."""
        now = self._server.clock.monotonic()
        due = self.pages_on or at < PAGE or now >= self._asked.get((run, name), 0.0) + WHOLE_EVERY
        if due:
            self._asked[run, name] = now
        return due

    def ends(self, run: StoredRun, names: Sequence[str], count: int) -> list[tuple[str, Point]]:
        """Return the values of the highest steps; the range is made wider where they are few."""
        found: list[tuple[str, Point]] = []
        count = min(count, MOST_ENDS)
        width, lacking = count, list(names)
        while lacking:
            last = {name: run.newest[name].step for name in lacking}
            asked = [
                ("metrics/get-history-bulk-interval", {
                    "run_ids": run.id, "metric_key": name, "max_results": MOST_ENDS,
                    "start_step": max(0, step - width), "end_step": max(0, step),
                })
                for name, step in last.items()
            ]  # fmt: skip
            answers = dict(zip(lacking, map(_sound, self._server.ask(asked)), strict=True))
            lacking = []
            for name, answer in answers.items():
                points = [(name, _point(each)) for each in _list(answer, "metrics")]
                if len(points) < count // 4 and width < last[name]:
                    lacking.append(name)
                else:
                    found += points
            width *= 16
        return found


class MlflowStores:
    """Every server and store that runs are read from, each once."""

    def __init__(self, clock: Clock, database: Callable[[Place], Database]) -> None:
        self._clock = clock
        self._database = database
        self._lock = Lock()
        self._stores: dict[tuple[str, Place], Store] = {}

    def of(self, spec: MlflowSpec) -> Store:
        """Return where a run is kept, as the place is now; raises ``OSError``."""
        place = place_in(spec, os.environ)
        assert place is not None, "without a place nobody asks"
        if place.scheme in WEB:
            return self._kept(
                "server", place, lambda: ServerStore(MlflowServer(place, self._clock))
            )
        if place.here and is_folder(place.path):
            return self._kept("folder", place, lambda: FolderStore(place))
        if not place.here and "." not in place.path.rpartition("/")[2]:
            text = f"{spelled(place)}: of a host only MLflow's SQLite file is read (…/mlflow.db)"
            raise HostError(ErrorKind.UNSUPPORTED, text)
        return self._kept("sqlite", place, lambda: SqliteStore(self._database(place)))

    def _kept(self, kind: str, place: Place, make: Callable[[], Store]) -> Store:
        with self._lock:
            if (kind, place) not in self._stores:
                self._stores[kind, place] = make()
            return self._stores[kind, place]


def place_in(spec: MlflowSpec, env: Mapping[str, str]) -> Place | None:
    """Return where the run is kept: by the run file, else where the client would log."""
    told = env.get("MLFLOW_TRACKING_URI", "").strip()
    if spec.uri is not None or not told:
        return spec.uri
    place = sqlite_file(place_of(told))
    user, _, host = place.host.rpartition("@")
    if user and place.scheme in WEB:
        return Place(place.scheme, host, place.path)
    return place if not place.here else Place(FILE, "", str(Path(place.path).absolute()))


def is_id(text: str) -> bool:
    """Tell a run's id from a name."""
    return len(text) == 32 and all(each in "0123456789abcdef" for each in text)


def _token(at: int) -> str:
    """Return where a history goes on, as the server itself spells it."""
    return b64encode(json.dumps({"offset": at}).encode()).decode()


def _quoted(text: str) -> str:
    """Return a name as a filter has it; raises ``ValueError`` where it cannot be spelled."""
    for sign in "'\"":
        if sign not in text:
            return f"{sign}{text}{sign}"
    raise ValueError(
        "a name with both kinds of quotes cannot be asked for: set the id as mlflow.run"
    )


def _credentials(env: Mapping[str, str]) -> dict[str, str]:
    """Return what the client's own file says, by the names behind ``mlflow_tracking_``."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    path = Path(env.get("HOME") or "~").expanduser() / ".mlflow" / "credentials"
    try:
        parser.read(path)
        own = dict(parser["mlflow"]) if parser.has_section("mlflow") else {}
    except (configparser.Error, OSError, UnicodeError):
        own = {}
    return {name.removeprefix("mlflow_tracking_"): value for name, value in own.items()}


def _sound(document: Any) -> dict[str, Any]:  # noqa: ANN401 - or the error in its place
    if isinstance(document, OSError):
        raise document
    found: dict[str, Any] = document
    return found


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _point(raw: Mapping[str, Any]) -> Point:
    value = figure_of(raw.get("value"))
    return Point(
        number_of(raw.get("timestamp")) / 1000,
        step_of(number_of(raw.get("step"))) or 0,
        math.nan if value is None else value_of(value),
    )
