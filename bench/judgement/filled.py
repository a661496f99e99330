"""Random characters where labelled texts say ``<%kindN%>``: no live-looking key lies in a file."""

from __future__ import annotations

import random
import re
import string
import uuid
from collections.abc import Mapping
from typing import Any, Final

_HOLE: Final = re.compile(r"<%(?P<kind>[a-z]+?|b64_|b32_)(?P<count>\d*)(?::\w+)?%>")
_BLANK: Final = "<%_%>"
"""A blank, where with it a file would hold the head of a private key."""
_LETTERS: Final = string.ascii_letters + string.digits
ALPHABETS: Final = {
    "hex": "0123456789abcdef",
    "num": string.digits,
    "low": string.ascii_lowercase + string.digits,
    "up": string.ascii_uppercase + "234567",
    "an": _LETTERS,
    "url": _LETTERS + "-_",
    "b64_": _LETTERS + "+/",
    "b32_": string.ascii_uppercase + "234567",
}
"""The characters of each kind; ``<%uuid%>`` is a whole one."""


def filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its holes filled: the same hole of one entry always alike."""
    name = str(entry.get("id", ""))
    return {
        **entry,
        "text": fill(entry["text"], name),
        "secrets": [fill(secret, name) for secret in entry.get("secrets", ())],
    }


def fill(text: str, seed: str) -> str:
    """Return ``text`` with every hole filled by what it and ``seed`` decide; ``KeyError``."""
    whole = text.replace(_BLANK, " ")
    return _HOLE.sub(lambda hole: _made(hole, random.Random(seed + hole[0])), whole)


def _made(hole: re.Match[str], chance: random.Random) -> str:
    if hole["kind"] == "uuid":
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))
    alphabet, count = ALPHABETS[hole["kind"]], int(hole["count"])
    inner = chance.choices(alphabet, k=max(0, count - 2))
    ends = [each for each in alphabet if each.isalnum()]
    return chance.choice(ends) + "".join(inner) + (chance.choice(ends) if count > 1 else "")
