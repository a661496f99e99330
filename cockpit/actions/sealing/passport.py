"""A checkpoint's passport and sign-off, held against the files they speak of (SPEC A-13).

``SIGNOFF.json`` lists (path, sha256) pairs, the passport's own among them, and a verdict;
``MODEL_PASSPORT.json`` lists the weight files. Key names are read leniently, hashes strictly:
a listed file that is missing, a link, outside the folder or different fails. Blocking.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from cockpit.model.base import Frozen
from cockpit.runtime.regular import open_regular
from cockpit.text.safe import clean

PASSPORT: Final = "MODEL_PASSPORT.json"
SIGNOFF: Final = "SIGNOFF.json"
GOOD: Final = ("pass", "soft_signal")
_SIZE: Final = 64 << 20
_CHUNK: Final = 1 << 20
_DEPTH: Final = 40
_HASH: Final = re.compile(r"(?:sha-?256[:=])?([0-9a-f]{64})", re.I)
_PATHS: Final = ("path", "file", "filename", "file_path", "relative_path", "name")
_SUMS: Final = ("sha256", "sha_256", "sha256sum", "sha256_hex", "digest", "hash", "checksum")
_LISTS: Final = ("artifacts", "weight_files", "files", "weights")
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")


class Pair(NamedTuple):
    """A file that is vouched for; ``sha256`` is ``None`` where the entry has no usable one."""

    path: str
    sha256: str | None


class Signed(Frozen):
    """What was found: the verdict, how many files match, and everything that is wrong."""

    folder: str
    verdict: str | None = None
    reason: str | None = None
    matching: int = 0
    wrong: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True when every pair matches and the verdict lets it be published."""
        return not self.wrong and self.verdict in GOOD


def find_folder(folders: list[str]) -> str | None:
    """Return the first folder that holds a sign-off or a passport."""
    for folder in folders:
        if any(os.path.lexists(Path(folder, name)) for name in (SIGNOFF, PASSPORT)):
            return folder
    return None


def inspect(folder: str) -> Signed:
    """Return what passport and sign-off in ``folder`` are worth; never raises for their content."""
    wrong: list[str] = []
    signoff, passport = (_document(folder, name, wrong) for name in (SIGNOFF, PASSPORT))
    if signoff is None or passport is None:
        return Signed(folder=folder, wrong=tuple(wrong))
    pairs = list(dict.fromkeys((*pairs_in(signoff), *pairs_in(passport))))
    signed = {pair.path for pair in pairs_in(signoff)}
    if PASSPORT not in signed:
        wrong.append(f"{SIGNOFF} does not vouch for {PASSPORT}")
    if not any(pair.path != PASSPORT for pair in pairs):
        wrong.append("no weight file is listed")
    known: dict[str, str | OSError] = {}
    trouble = [_mismatch(folder, pair, known) for pair in pairs]
    verdict, reason = _verdict(signoff, wrong)
    return Signed(
        folder=folder,
        verdict=verdict,
        reason=reason,
        matching=trouble.count(None),
        wrong=(*wrong, *(line for line in trouble if line is not None)),
        unlisted=_unlisted(folder, {str(PurePosixPath(pair.path)) for pair in pairs}),
    )


def _document(folder: str, name: str, wrong: list[str]) -> dict[str, Any] | None:
    path = Path(folder, name)
    try:
        if path.is_symlink():
            raise OSError(0, "is a link")
        with open_regular(str(path)) as (fd, _):
            raw = bytearray()
            while len(raw) <= _SIZE and (part := os.read(fd, _CHUNK)):
                raw += part
        document = json.loads(raw)
    except FileNotFoundError:
        wrong.append(f"there is no {name} in {folder}")
        return None
    except OSError as error:
        wrong.append(f"{path} {(error.strerror or 'cannot be read').lower()}")
        return None
    except (ValueError, RecursionError):
        wrong.append(f"{path} is not JSON")
        return None
    if not isinstance(document, dict):
        wrong.append(f"{path} is not a JSON object")
        return None
    return document


def pairs_in(document: object, depth: int = 0) -> Iterator[Pair]:
    """Yield every (path, sha256) of a document, wherever it stands."""
    if depth > _DEPTH:
        return
    if isinstance(document, list):
        for each in document:
            yield from pairs_in(each, depth + 1)
    elif isinstance(document, dict):
        yield from _of_object(document)
        for key, value in document.items():
            if key in _LISTS and isinstance(value, list):
                yield from _without_sum(value)
            yield from pairs_in(value, depth + 1)


def _of_object(document: dict[str, Any]) -> Iterator[Pair]:
    path = next((document[key] for key in _PATHS if isinstance(document.get(key), str)), None)
    digest = next((_hex(document[key]) for key in _SUMS if _hex(document.get(key))), None)
    if path is not None and digest is not None:
        yield Pair(_plain(path), digest)
    for key, value in document.items():
        found = _hex(value)
        if found is None or key in _SUMS:
            continue
        if key == "passport_sha256":
            yield Pair(PASSPORT, found)
        elif "/" in key or "." in key:
            yield Pair(_plain(key), found)


def _without_sum(listed: list[Any]) -> Iterator[Pair]:
    """Yield the entries of a list of files that name a file and vouch for nothing."""
    for each in listed:
        if not isinstance(each, dict):
            continue
        path = next((each[key] for key in _PATHS if isinstance(each.get(key), str)), None)
        if path is not None and not any(_hex(each.get(key)) for key in _SUMS):
            yield Pair(_plain(path), None)


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _hex(value: object) -> str | None:
    found = _HASH.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if found is None else found[1].lower()


def _mismatch(folder: str, pair: Pair, known: dict[str, str | OSError]) -> str | None:
    """Return what is wrong with one listed file, if anything is."""
    name = clean(pair.path, 1000)
    if pair.sha256 is None:
        return f"{name} is listed without a sha256"
    path = PurePosixPath(pair.path)
    odd = not pair.path or "\0" in pair.path or "\\" in pair.path
    if odd or path.is_absolute() or ".." in path.parts or pair.path.startswith("~"):
        return f"{name} leads out of the folder: refused"
    if pair.path not in known:
        try:
            known[pair.path] = _sha256(folder, pair.path)
        except OSError as error:
            known[pair.path] = error
    found = known[pair.path]
    if isinstance(found, OSError):
        return f"{name} {(found.strerror or 'cannot be read').lower()}"
    return None if found == pair.sha256 else f"{name} is not the file that was signed"


def _sha256(folder: str, path: str) -> str:
    """Return the hash of a regular file that no link leads to; raises ``OSError``."""
    place = Path(folder)
    for part in PurePosixPath(path).parts:
        place /= part
        if stat.S_ISLNK(place.lstat().st_mode):
            raise OSError(0, "is reached through a link: refused", str(place))
    digest = hashlib.sha256()
    with open_regular(str(place)) as (fd, _):
        while part_of := os.read(fd, _CHUNK):
            digest.update(part_of)
    return digest.hexdigest()


def _verdict(signoff: dict[str, Any], wrong: list[str]) -> tuple[str | None, str | None]:
    """Return verdict and reason; the reason is a person's words and stays as it is."""
    said = signoff.get("verdict")
    verdict = clean(said).lower() if isinstance(said, str) else None
    why = signoff.get("verdict_reason", signoff.get("reason"))
    reason = why if isinstance(why, str) and why.strip() else None
    if verdict not in GOOD:
        wrong.append(f"the verdict is {clean(said)!r}; expected {' or '.join(GOOD)}")
    elif verdict == "soft_signal" and reason is None:
        wrong.append("the verdict is soft_signal without a verdict_reason")
    return verdict, reason


def _unlisted(folder: str, listed: set[str]) -> tuple[str, ...]:
    """Return weight files in the folder that nobody has signed."""
    found = []
    for path, _, names in os.walk(folder):
        for name in names:
            if name.lower().endswith(_WEIGHTS):
                relative = os.path.relpath(Path(path, name), folder)
                if relative not in listed:
                    found.append(clean(relative, 1000))
    return tuple(sorted(found)[:20])
