"""Which W&B server is asked, and with which key: both found as the client finds them.

The key is never shown and never part of an error: it prints as where it was found.
"""

from __future__ import annotations

import functools
import netrc
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.model.place import DEFAULT, FORMER, server_of
from cockpit.model.run import WandbSpec

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


class Looked(NamedTuple):
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


def key_for(base_url: str, env: Mapping[str, str]) -> Looked:
    """Return the key to use at a server; it reads small files and never raises.

    The order is the client's: the environment, netrc, its settings; then this user's own files.
    """
    faults: list[str] = []
    for found in _candidates(base_url, env, faults):
        if _KEY.fullmatch(found.value):
            return Looked(found)
        if found.value:
            faults.append(f"{found.source} does not hold a W&B key")
    return Looked(None, tuple(dict.fromkeys(faults)))


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
