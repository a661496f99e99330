"""``cockpit scrub``: standard input to standard output with secrets masked, line by line."""

from __future__ import annotations

import argparse
import re
import sys
from io import BufferedReader
from typing import IO, Final, cast

from cockpit.text.scrub import Scrubber, secrets_in
from cockpit.verbs.common import OK, OutputError, UsageError

EXAMPLE = "example: cockpit scrub < run.log > shareable.log"
CHUNK: Final = 1 << 16
LONGEST: Final = 1 << 22
"""Bytes of a line without an end that are held; a longer one is masked in parts."""
TAIL: Final = 1 << 15
NEAR: Final = 512
"""Characters between a parting of such a line and a secret: its name must stay with it."""
_BLANK = re.compile(r"[\s]")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scrub`` takes."""
    parser.description = (
        "Copies standard input to standard output line by line, with every secret "
        "replaced by ****. Bytes that are not text pass through unchanged."
    )
    parser.epilog = EXAMPLE


def run(args: argparse.Namespace) -> int:
    """Copy; return 0."""
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("standard input and output are needed; " + EXAMPLE)
    if sys.stdin.isatty():
        sys.stderr.write("cockpit: reading standard input; end it with ctrl-D\n")
    try:
        copy(cast("BufferedReader", sys.stdin.buffer), sys.stdout.buffer)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the text cannot be copied: {error.strerror}") from error
    return OK


def copy(source: BufferedReader, target: IO[bytes]) -> None:
    """Copy all of ``source``, masked, in constant memory, as it comes; raises ``OSError``."""
    scrubber = Scrubber()
    pending = bytearray()
    while data := source.read1(CHUNK):
        pending += data
        if b"\n" in data:
            *lines, rest = bytes(pending).split(b"\n")
            target.writelines(_masked(scrubber, line) + b"\n" for line in lines)
            target.flush()
            pending = bytearray(rest)
        elif len(pending) > LONGEST:
            # Write what of an endless line can be judged without what follows; return the rest
            text = bytes(pending).decode("utf-8", "surrogateescape")
            place = _parting(text)
            target.write(_masked(scrubber, text[:place].encode("utf-8", "surrogateescape")))
            pending = bytearray(text[place:].encode("utf-8", "surrogateescape"))
    target.write(_masked(scrubber, bytes(pending)))
    target.flush()


def _parting(text: str) -> int:
    """Return where a line may be parted: at a blank that has no secret near, else before one."""
    start = max(1, len(text) - TAIL)
    found = [(start + low, start + high) for low, high in secrets_in(text[start:])]
    latest = len(text) - NEAR
    for blank in reversed(list(_BLANK.finditer(text, start, latest))):
        place = blank.end()
        if not any(low - NEAR <= place <= high for low, high in found):
            return place
    return min((low for low, high in found if low <= latest <= high), default=latest)


def _masked(scrubber: Scrubber, line: bytes) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    parts = (scrubber.line(part) for part in text.split("\r"))
    return "\r".join(parts).encode("utf-8", "surrogateescape")
