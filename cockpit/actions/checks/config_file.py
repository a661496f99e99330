"""The config of the next launch, read and flattened: dotted keys, JSON values, secrets masked.

It lies on this machine or on an ssh host, which is asked for it once.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final

from cockpit.model.base import Frozen
from cockpit.model.place import SSH, Place, place_of
from cockpit.rules.lineage.drift import leaves
from cockpit.runtime.regular import open_regular
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError, run_script_blocking
from cockpit.sources.scripts import word_of
from cockpit.sources.wandb.value import ShownConfig
from cockpit.text.safe import clean

BIGGEST: Final = 16 << 20
HOST_WITHIN: Final = 7.0
"""Seconds that an ssh host may take, less than whoever reads a run's files gives them all."""
_HOLDS: Final = 5
_SCRIPT: Final = """\
{limited}f={path}
[ -f "$f" ] || {{ echo "no such file" >&2; exit 1; }}
[ -r "$f" ] || {{ echo "permission denied" >&2; exit 1; }}
limited {holds} head -c {most} "$f"
"""


class ConfigReadError(Exception):
    """A config file that cannot be read; the text is one line."""


class ResolvedConfig(Frozen):
    """A flattened config and where it is from; ``trouble`` says why there is none."""

    values: dict[str, str] | None = None
    source: str
    trouble: str | None = None


def read_config(path: str) -> ResolvedConfig:
    """Return a JSON, TOML or (where a parser is installed) YAML file, flattened; blocking."""
    source = clean(path, 1000)
    try:
        return ResolvedConfig(values=flattened(_parsed(path)), source=source)
    except OSError as error:
        return ResolvedConfig(
            source=source, trouble=f"{source}: {(error.strerror or 'no').lower()}"
        )
    except (ConfigReadError, ValueError, RecursionError) as error:
        return ResolvedConfig(source=source, trouble=f"{source}: {clean(error, 200)}")


def _parsed(path: str) -> object:
    place = place_of(path)
    if place.scheme == SSH:
        data = _from_host(place)
    elif place.here:
        data = _from_here(place.path)
    else:
        raise ConfigReadError("is read from files and ssh hosts only")
    if len(data) > BIGGEST:
        raise ConfigReadError(f"is larger than {BIGGEST:,} bytes")
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    parse = _PARSERS.get(PurePath(path).suffix.lower())
    if parse is None:
        raise ConfigReadError("is not JSON, TOML or YAML by its name")
    return parse(text)


def _from_here(path: str) -> bytes:
    with open_regular(path) as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(BIGGEST + 1)


def _from_host(place: Place) -> bytes:
    words = {"limited": LIMITED, "holds": _HOLDS, "most": BIGGEST + 1}
    script = _SCRIPT.format(path=word_of(place.path), **words)
    try:
        done = run_script_blocking(place.host, script, deadline=HOST_WITHIN, cap=BIGGEST + 1)
    except RemoteError as error:
        raise ConfigReadError(str(error)) from error
    if done.rc == TIMED_OUT:
        raise ConfigReadError(f"the disk there did not answer within {_HOLDS} s")
    if done.rc != 0:
        raise ConfigReadError(clean(done.err.decode("utf-8", "replace").strip(), 200))
    return done.out


def _yaml(text: str) -> object:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise ConfigReadError("is YAML, and no YAML parser is installed") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigReadError(f"is not valid YAML: {error}") from error


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    ".json": json.loads,
    ".toml": tomllib.loads,
    ".yaml": _yaml,
    ".yml": _yaml,
}


def flattened(document: object) -> dict[str, str]:
    """Return nested values as dotted keys with JSON text; raises ``ConfigReadError``.

    A list of plain values is one value; numbers that are equal read the same (``1`` and
    ``1.0``). Keys and values are safe text with their secrets masked.
    """
    if not isinstance(document, Mapping):
        raise ConfigReadError("holds no settings (a mapping was expected)")
    shown = ShownConfig().shown({str(key): _plain(each) for key, each in document.items()})
    return leaves(shown)


def _plain(value: object) -> object:
    """Return a document with text keys and nothing in it but what JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def digest(values: Mapping[str, str]) -> str:
    """Return the SHA-256 of a flattened config: lines ``key=value`` in the keys' order."""
    lines = "".join(f"{key}={values[key]}\n" for key in sorted(values))
    return hashlib.sha256(lines.encode()).hexdigest()
