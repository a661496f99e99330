"""What is sent to a W&B server, with which key, and what its answers mean.

The server and the key are found as the client finds them. One GraphQL query asks for many runs.
"""

from __future__ import annotations

import functools
import netrc
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.place import DEFAULT, FORMER, server_of
from cockpit.model.run import WandbSpec
from cockpit.runtime.http import LONGEST_WAIT, SECONDARY_WAIT, Answer, HttpError, server_message
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST_BYTES: Final = 1 << 20
_KEY: Final = re.compile(r"[!-~]{8,4000}")
_OWN_FILES: Final = ("~/.wandb_token", "~/.wandb_key")
_FORMER_HOST: Final = urlsplit(FORMER).netloc
_PRESENT_HOST: Final = urlsplit(DEFAULT).netloc


class Key(NamedTuple):
    """An API key and where it was found; it prints as the latter."""

    value: str
    source: str

    def __repr__(self) -> str:
        """Return where it comes from, and nothing of it; ``str`` says the same."""
        return f"<key from {self.source}>"

    @property
    def header(self) -> str:
        """The value of ``Authorization`` that W&B expects."""
        return "Basic " + b64encode(f"api:{self.value}".encode()).decode()


class KeyLookup(NamedTuple):
    """The key that was found, or why none was: files that could not be read."""

    key: Key | None
    faults: tuple[str, ...] = ()


def server_for(spec: WandbSpec, env: Mapping[str, str]) -> str:
    """Return the address of the API that knows a run: the run file's, else the client's own."""
    recorded = spec.recorded.base_url or server_of(env.get("WANDB_BASE_URL"))
    if recorded is not None:
        return recorded
    return _server_set(_settings_files(env))


@functools.lru_cache(maxsize=64)
def _server_set(files: tuple[Path, ...]) -> str:
    """Return the server in the client's settings; read once, since it places runs."""
    settings = (server_of(_settings(path).get("base_url")) for path in files)
    return next((each for each in settings if each is not None), DEFAULT)


def key_for(base_url: str, env: Mapping[str, str]) -> KeyLookup:
    """Return the key to use at a server; it reads small files and never raises.

    The order is the client's: the environment, netrc, its settings; then this user's own files.
    """
    faults: list[str] = []
    for found in _candidates(base_url, env, faults):
        if _KEY.fullmatch(found.value):
            return KeyLookup(found)
        if found.value:
            faults.append(f"{found.source} does not hold a W&B key")
    return KeyLookup(None, tuple(dict.fromkeys(faults)))


def _candidates(base_url: str, env: Mapping[str, str], faults: list[str]) -> Iterator[Key]:
    yield Key(env.get("WANDB_API_KEY", "").strip(), "WANDB_API_KEY")
    for name in (env["NETRC"],) if env.get("NETRC") else ("~/.netrc", "~/_netrc"):
        yield Key(_in_netrc(_home(name, env), urlsplit(base_url).netloc, faults), name)
    for path in _settings_files(env):
        yield Key(_settings(path).get("api_key", "").strip(), path.name)
    for name in _OWN_FILES:
        first = _text(_home(name, env), faults).strip().partition("\n")[0]
        word = first.split()[-1:] or [""]
        yield Key(word[0].removeprefix("WANDB_API_KEY=").strip("\"'"), name)


def _in_netrc(path: Path, host: str, faults: list[str]) -> str:
    """Return the password of a host (its port included) in a netrc file, empty without one."""
    if not _text(path, faults):
        return ""
    try:
        entries = netrc.netrc(str(path))
    except (netrc.NetrcParseError, OSError, ValueError):
        faults.append(f"{path.name} cannot be read as a netrc file")
        return ""
    names = (host, _FORMER_HOST) if host == _PRESENT_HOST else (host,)
    found = (entries.hosts.get(name) for name in names)
    return next((each[2] or "" for each in found if each is not None), "")


def _settings_files(env: Mapping[str, str]) -> tuple[Path, ...]:
    own = _home(env.get("WANDB_CONFIG_DIR") or "~/.config/wandb", env) / "settings"
    return Path(env.get("WANDB_DIR") or ".") / "wandb" / "settings", own


def _settings(path: Path) -> Mapping[str, str]:
    """Return the client's settings in a file; nothing where there are none."""
    import configparser  # only a run that is read online needs it

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(_text(path, []))
        return parser["default"] if parser.has_section("default") else {}
    except configparser.Error:
        return {}


def _text(path: Path, faults: list[str]) -> str:
    """Return a small file's text; empty where there is none, or it may not be read."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        faults.append(f"{path.name} may not be read")
        return ""


def _home(name: str, env: Mapping[str, str]) -> Path:
    home = env.get("HOME")
    if home and name.startswith("~/"):
        return Path(home, name[2:])
    return Path(name).expanduser()


FRAGMENT: Final = (
    "fragment Watched on Run "
    "{ name displayName state createdAt heartbeatAt historyLineCount commit }"
)
_LIMIT: Final = 200
_MEANINGS: Final = (
    (re.compile(r"rate.?limit|too many requests", re.I), ErrorKind.RATE_LIMITED),
    (
        re.compile(r"permission|forbidden|not authori[sz]ed|access denied", re.I),
        ErrorKind.FORBIDDEN,
    ),
    (
        re.compile(r"unauthori[sz]ed|unauthenticated|api.?key|not logged in", re.I),
        ErrorKind.UNAUTHORIZED,
    ),
    (re.compile(r"not found|could not find|does not exist", re.I), ErrorKind.NOT_FOUND),
    (re.compile(r"time.?out|timed out|deadline", re.I), ErrorKind.TIMEOUT),
)
Json = dict[str, Any]


class Document:
    """A query about runs of one project, while it is put together.

    Whatever a person wrote goes into variables: nothing of it is part of the query's text.
    """

    def __init__(self, entity: str | None, project: str) -> None:
        self._variables: Json = {"entity": entity, "project": project}
        self._types = ["$entity: String", "$project: String!"]
        self._runs: list[str] = []

    def variable(self, kind: str, value: object) -> str:
        """Return a new variable of a GraphQL type, to stand in a run's fields."""
        name = f"v{len(self._types)}"
        self._types.append(f"${name}: {kind}")
        self._variables[name] = value
        return f"${name}"

    def add_run(self, run: str, fields: str) -> None:
        """Ask for a run: what is usual, and ``fields``; its answer is ``runs_of``'s next one."""
        name = self.variable("String!", run)
        self._runs.append(f"r{len(self._runs)}: run(name: {name}) {{ ...Watched {fields} }}")

    @property
    def body(self) -> Json:
        """The document to be posted."""
        project = "project(name: $project, entityName: $entity) { name entityName"
        text = f"query Watch({', '.join(self._types)}) {{ {project} {' '.join(self._runs)} }} }}"
        return {"query": f"{text} {FRAGMENT}", "variables": self._variables}


class RunAnswer(NamedTuple):
    """What was said of one run: its fields (unchecked), or why there are none.

    ``spoilt`` tells that a part of the run's fields made the server fail, not the run itself;
    ``lost`` is why the fields lack the summary.
    """

    fields: Json
    problem: Problem | None = None
    spoilt: bool = False
    lost: Problem | None = None


class ProjectAnswer(NamedTuple):
    """What was said of a project and, in the order they were asked for, of its runs."""

    entity: str | None
    project: str | None
    runs: tuple[RunAnswer, ...]


def project_of(answer: Answer, runs: Sequence[str], key: Key, what: str) -> ProjectAnswer:
    """Return what an answer says about ``runs`` (ids, in their order) of the project ``what``.

    Raises ``HttpError`` where it says nothing about any of them.
    """
    _accepted(answer, key, what)
    if answer.body[:256].lstrip().startswith(b"<"):
        message = f"{answer.host}: got a web page instead of W&B's answer: a proxy or a login?"
        raise HttpError(ErrorKind.BAD_ANSWER, message, status=answer.status)
    document = answer.json()
    if not isinstance(document, dict):
        message = f"{answer.host}: the answer is not a GraphQL document"
        raise HttpError(ErrorKind.BAD_ANSWER, message, status=answer.status)
    errors = _errors(document)
    project = _project(answer, document, errors, key, what)
    return ProjectAnswer(
        clean_text(project.get("entityName")),
        clean_text(project.get("name")),
        tuple(
            _run(project, errors, f"r{index}", f"run {clean(run)} in {what}")
            for index, run in enumerate(runs)
        ),
    )


def pause_of(headers: Mapping[str, str]) -> float | None:
    """Return for how many seconds the server wants no request after this one, if it says so."""
    try:
        if float(headers["ratelimit-remaining"]) > 0:
            return None
        return min(LONGEST_WAIT, max(1.0, float(headers.get("ratelimit-reset", SECONDARY_WAIT))))
    except (KeyError, ValueError):
        return None


def _accepted(answer: Answer, key: Key, what: str) -> None:
    """Raise ``HttpError`` for a status that is a refusal, with what to do about it."""
    host, status = answer.host, answer.status
    if status < 300:
        return
    said = server_message(answer.body)
    if status == 401:
        message = f"{host} rejects the key from {key.source} (401): run wandb login"
        raise HttpError(ErrorKind.UNAUTHORIZED, message, status=status)
    if status == 403:
        message = f"{host}: the key from {key.source} cannot read {what} (403{said})"
        raise HttpError(ErrorKind.FORBIDDEN, message, status=status)
    if status == 404:
        message = f"{host}: no W&B API at this address (404): check wandb.base_url"
        raise HttpError(ErrorKind.NOT_FOUND, message, status=status)
    message = f"{host} rejects the query (status {status}{said})"
    raise HttpError(ErrorKind.BAD_ANSWER, message, status=status)


def _project(answer: Answer, document: Json, errors: Sequence[Json], key: Key, what: str) -> Json:
    """Return the project's fields; only where it is named as none does it not exist."""
    data = document.get("data")
    named = isinstance(data, dict) and "project" in data
    project = data["project"] if isinstance(data, dict) and named else None
    if isinstance(project, dict):
        return project
    if errors:
        problem = _problem(errors[0], answer.host)
        raise HttpError(problem.kind, problem.message)
    if named and project is None:
        advice = f"or the key from {key.source} cannot see it"
        message = f"{answer.host}: there is no project {what}, {advice}"
        raise HttpError(ErrorKind.NOT_FOUND, message)
    message = f"{answer.host}: the answer does not mention {what}"
    raise HttpError(ErrorKind.BAD_ANSWER, message, status=answer.status)


def _errors(document: Json) -> list[Json]:
    found = document.get("errors")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _run(project: Json, errors: Sequence[Json], alias: str, what: str) -> RunAnswer:
    """Return what was said of a run; only where it is named as none does it not exist."""
    fields = project.get(alias)
    own = next((each for each in errors if alias in _path(each)), None)
    if isinstance(fields, dict) and isinstance(fields.get("name"), str):
        lost = own is not None and _path(own)[-1] == "summaryMetrics"
        return RunAnswer(fields, lost=_problem(own, what) if own is not None and lost else None)
    if own is not None:
        return RunAnswer({}, _problem(own, what), spoilt=_path(own)[-1] != alias)
    general = next((each for each in errors if not _path(each)), None)
    if general is not None:
        return RunAnswer({}, _problem(general, what))
    if fields is not None or alias not in project:
        said = "is not an object with a name" if fields is not None else "is not in the answer"
        return RunAnswer({}, Problem(kind=ErrorKind.BAD_ANSWER, message=f"{what} {said}"))
    message = f"{what} does not exist: is wandb.id the id the trainer uses?"
    return RunAnswer({}, Problem(kind=ErrorKind.NOT_FOUND, message=message))


def _path(error: Json) -> list[Any]:
    path = error.get("path")
    return path if isinstance(path, list) else []


def _problem(error: Json, what: str) -> Problem:
    text = scrub(clean(error.get("message") or "an error without a message", _LIMIT))
    extensions = error.get("extensions")
    code = extensions.get("code") if isinstance(extensions, Mapping) else ""
    meant = f"{text} {code}"
    kinds = (kind for pattern, kind in _MEANINGS if pattern.search(meant))
    return Problem(kind=next(kinds, ErrorKind.BAD_ANSWER), message=f"{what}: {text}")


def clean_text(raw: object) -> str | None:
    """Return a short text made safe, ``None`` for anything else."""
    return scrub(clean(raw)) or None if isinstance(raw, str) else None
