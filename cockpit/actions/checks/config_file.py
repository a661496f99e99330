"""The config of the next launch, and C-18: each setting that would differ from the last one."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from cockpit.hosts.here import call
from cockpit.model import check_rows as rows
from cockpit.model.base import Frozen
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.plan import Basis, Check, Difference
from cockpit.platforms.command import flags_of
from cockpit.rules.lineage.drift import counted, differing, leaves, weighty_first
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.run_rows import ShownConfig
from cockpit.text.checks import finding, passed, warned
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

BIGGEST: Final = 16 << 20
HOST_WITHIN: Final = 7.0
"""Seconds that an ssh host may take, less than whoever reads a run's files gives them all."""


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
    asked = call(
        place.host, "the disk of the config", "read_whole", deadline=HOST_WITHIN,
        path=place.path, most=BIGGEST + 1,
    )  # fmt: skip
    try:
        text: str | None = asyncio.run(asked)
    except RemoteError as error:
        raise ConfigReadError(str(error)) from error
    if text is None:
        raise ConfigReadError("no such file")
    return text.encode("utf-8", "surrogateescape")


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


MOST: Final = 100
"""Differences that are listed one by one; a config that differs in more is another config."""
ENOUGH: Final = 0.5
"""Share of keys in common from which two configs count as having one shape."""
START: Final = {"checkpoint": "{checkpoint}", "step": "{step}"}
"""What stands in a command for the checkpoint that it begins with: any does, it is C-17's."""
_LONGEST: Final = 200


class Drift(NamedTuple):
    """The differences side by side, the checks they make, and how many settings were compared."""

    differences: tuple[Difference, ...]
    checks: tuple[Check, ...]
    compared: int


def config_drift(was: ResolvedConfig | None, now: ResolvedConfig | None, *, whole: bool) -> Drift:
    """Compare two resolved configs key by key.

    ``whole``: both are of one kind (a snapshot of the same file); then a key that only one of
    them has is a difference too. A tracker's config also holds what the trainer filled in.
    """
    if now is None or now.values is None:
        why = "no config is known (config_file)" if now is None else now.trouble
        return Drift((), (warned(rows.CONFIG, f"{why}: settings not compared", Basis.INFERRED),), 0)
    if was is None or was.values is None:
        text = "no config of the last launch is known: settings not compared"
        return Drift((), (warned(rows.CONFIG, text, Basis.INFERRED),), 0)
    old, new = counted(was.values), counted(now.values)
    common = old.keys() & new.keys()
    like = whole or len(common) >= ENOUGH * len(new)
    changed = differing(old, new)
    changed += [key for key in new.keys() - old.keys() if like]
    changed += [key for key in old.keys() - new.keys() if whole]
    order = weighty_first(changed)
    found = _drift([Difference(what=key, ran=old.get(key), would_run=new.get(key))
                    for key in order], len(common))  # fmt: skip
    return found._replace(checks=(*found.checks, *_left_out(old, new, like, whole, was)))


def _left_out(
    old: Mapping[str, str], new: Mapping[str, str], like: bool, whole: bool, was: ResolvedConfig
) -> tuple[Check, ...]:
    """Say what could not be compared because only one side tells it."""
    only_old = 0 if whole else len(old.keys() - new.keys())
    only_new = 0 if like else len(new.keys() - old.keys())
    if not only_old and not only_new:
        return ()
    text = f"not compared: {only_old} settings that only {was.source} has"
    text += f" and {only_new} that only the config file has" if only_new else ""
    return (finding(rows.UNCOMPARED, text),)


def command_drift(was: Sequence[str] | None, now: Sequence[str]) -> Drift:
    """Compare the flags of two commands, masked already.

    The place of a flag does not matter, that of other words does; how it was quoted in a
    record does not either.
    """
    if was is None:
        text = "no command of the last launch is recorded: flags not compared"
        return Drift((), (finding(rows.FLAGS_UNCOMPARED, text),), 0)
    if _like(_joined(was), _joined(now)):
        return Drift((), (), len(flags_of(now)))
    old, new = flags_of(was), flags_of(now)
    changed = [key for key in (old | new) if not _like(old.get(key), new.get(key))]
    listed = [
        Difference(what=f"command {key}", ran=old.get(key), would_run=new.get(key))
        for key in changed
    ]
    return _drift(listed, len(old.keys() & new.keys()))


def _joined(words: Sequence[str]) -> str:
    """Return words as one line without their bounds: older records have them unquoted."""
    return " ".join(" ".join(words).split())


def _like(ran: str | None, would_run: str | None) -> bool:
    """Tell whether two values are one, whichever checkpoint it was that stands for ``START``.

    It is one word: what stands behind it in a line of the shell is a setting of its own.
    """
    if ran is None or would_run is None:
        return ran == would_run
    meant = re.escape(would_run)
    for place in START.values():
        meant = meant.replace(re.escape(place), r"\S+")
    return re.fullmatch(meant, ran) is not None


def _drift(listed: Sequence[Difference], compared: int) -> Drift:
    safe = tuple(
        Difference(
            what=shown(each.what, _LONGEST), ran=_side(each.ran), would_run=_side(each.would_run)
        )
        for each in listed
    )
    checks = [_check(each) for each in safe[:MOST]]
    if len(safe) > MOST:
        text = f"{len(safe) - MOST} more settings differ: this is a different config"
        checks.append(finding(rows.MORE_SETTINGS, text))
    return Drift(safe, tuple(checks), compared)


def _check(found: Difference) -> Check:
    ran, would = found.ran or "(not set)", found.would_run or "(not set)"
    text = f"{found.what}: ran {ran}, would run {would}"
    return finding(rows.SETTING, text, value=f"{ran} → {would}", of=found.what)


def _side(value: str | None) -> str | None:
    """Return one side of a difference; a flag without a value is there all the same."""
    return None if value is None else shown(value, _LONGEST) or "(no value)"


def settled(drifts: Sequence[Drift], source: str) -> list[Check]:
    """Return all checks of C-18, or the one that says that nothing differs."""
    checks = [check for drift in drifts for check in drift.checks]
    compared = sum(drift.compared for drift in drifts)
    if any(drift.differences for drift in drifts) or not compared:
        return checks
    text = f"config and flags same as {source} ({compared} settings)"
    return [passed(rows.CONFIG, text), *(check for check in checks if check.id != rows.CONFIG.id)]
