"""The run file: found, read, checked and turned into values (INTERFACE, "The run file").

Every problem is one line, ``file:line: field: what; expected …``, and all of them are told at
once. What they repeat of the file has been scrubbed, so no secret stands in them.
"""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

from cockpit.config.build import build
from cockpit.config.check import Trouble, too_deep
from cockpit.config.places import FILE_NAME, config_dir, find, state_dir, store_path
from cockpit.config.reading import KeyPath, answers_again, key_lines, line_of
from cockpit.config.signatures import signature_file
from cockpit.model.late_regex import late_regex
from cockpit.model.own_rules import SignatureSpec
from cockpit.model.run import CockpitFile
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

__all__ = [
    "FILE_NAME",
    "ConfigError",
    "Reloader",
    "config_dir",
    "find",
    "load",
    "load_signatures",
    "state_dir",
    "store_path",
]

_BIGGEST = 16 * 2**20
_TOML_PLACE = late_regex(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class ConfigError(Exception):
    """A run file that cannot be used; ``problems`` holds one line for each thing wrong."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(path: Path) -> CockpitFile:
    """Return the run file at ``path``, defaults filled in and paths resolved.

    Raises :class:`ConfigError` with every problem, sorted by line.
    """
    text = _read(path)
    data = _parse(path, text)
    built = build(data, path)
    if not isinstance(built, CockpitFile):
        raise _placed(path, text, built)
    if built.signatures is None:
        return built
    own = load_signatures(Path(built.signatures), "named by cockpit.signatures")
    runs = tuple(run.model_copy(update={"team_signatures": own}) for run in built.runs)
    return built.model_copy(update={"runs": runs})


def load_signatures(path: Path, named_by: str) -> tuple[SignatureSpec, ...]:
    """Return the signatures in a file of ``[[signature]]``, or in a run file.

    Raises :class:`ConfigError` with every problem, sorted by line.
    """
    text = _read(path, f"no such file; it is {named_by}")
    found = signature_file(_parse(path, text))
    if isinstance(found, list):
        raise _placed(path, text, found)
    return found


def _placed(path: Path, text: str, troubles: list[Trouble]) -> ConfigError:
    """Return the problems by their lines, one for each place."""
    lines = key_lines(text)
    placed = sorted((line_of(lines, trouble.path), trouble) for trouble in troubles)
    lines_by_path: dict[KeyPath, str] = {}
    for line, trouble in placed:
        field = ".".join(str(part) for part in trouble.path if isinstance(part, str))
        place = f"{_shown(path)}:{line}: {clean(scrub(field), 200)}" if field else _shown(path)
        lines_by_path.setdefault(trouble.path, f"{place}: {clean(scrub(trouble.text))}")
    return ConfigError(tuple(lines_by_path.values()))


class Reloader:
    """Keeps a run file current: a valid edit replaces it, an invalid one is only reported."""

    def __init__(self, file: CockpitFile) -> None:
        self.file = file
        self.problems: tuple[str, ...] = ()
        self._path = Path(file.path)
        self._seen = self._fingerprints()

    def check(self) -> bool:
        """Look at the file; return whether :attr:`file` or :attr:`problems` changed.

        It is read again, too, once a file that it names and that gave no answer has answered.
        """
        now = self._fingerprints()
        if now == self._seen and not answers_again():
            return False
        self._seen = now
        before = self.file, self.problems
        try:
            new, self.problems = load(self._path), ()
        except ConfigError as error:
            new, self.problems = self.file, error.problems
        self.file = self.file if new == self.file else new
        return (self.file, self.problems) != before

    def _fingerprints(self) -> list[tuple[int, int, int] | None]:
        team = self.file.signatures
        return [_fingerprint(path) for path in (self._path, *([Path(team)] if team else []))]


_NO_RUN_FILE = "no such file; name one with --config FILE, or see `cockpit demo`"


def _read(path: Path, missing: str = _NO_RUN_FILE) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "a directory" if path.is_dir() else "not a regular file"
            raise _failed(path, f"is {kind}; expected a file such as {FILE_NAME}")
        with path.open("rb") as file:
            raw = file.read(_BIGGEST + 1)
    except (OSError, ValueError) as error:
        raise _failed(path, _why_unreadable(error, missing)) from None
    if len(raw) > _BIGGEST:
        raise _failed(path, "is larger than 16 MB; expected a run file")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _failed(path, "is not UTF-8 text; save it as UTF-8", line) from None


def _why_unreadable(error: OSError | ValueError, missing: str) -> str:
    if isinstance(error, FileNotFoundError):
        return missing
    if isinstance(error, PermissionError):
        return "is not readable; check its permissions"
    return f"cannot be read: {clean(getattr(error, 'strerror', None) or error)}"


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise _failed(path, "is nested too deeply") from None
    except ValueError as error:
        raise _broken(path, text, str(error)) from None
    if too_deep(data):
        raise _failed(path, "is nested too deeply")
    return data


def _broken(path: Path, text: str, message: str) -> ConfigError:
    place = _TOML_PLACE.search(message)
    what = clean(_TOML_PLACE.sub("", message), 200)
    if place is None:
        return _failed(path, f"is not valid TOML: {what}")
    last = text.rstrip("\n").count("\n") + 1
    line, column = (int(place[1]), f", column {place[2]}") if place[1] else (last, "")
    return _failed(path, f"not valid TOML{column}: {what}", line)


def _failed(path: Path, what: str, line: int | None = None) -> ConfigError:
    place = _shown(path) if line is None else f"{_shown(path)}:{line}"
    return ConfigError((f"{place}: {what}",))


def _shown(path: Path) -> str:
    try:
        return clean(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # not below the working directory, or that is gone
        return clean(path)


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
