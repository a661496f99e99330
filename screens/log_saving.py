"""A log's lines in a file of a person's own, or in their pager: safe and masked as they are shown.

Nothing is overwritten; what was begun and not finished is taken away again.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

from cockpit.model.base import SafeText
from cockpit.runtime.offload import offload
from screens.log_reader import LogReader

DEADLINE: Final = 20.0
PAGER: Final = "less"
Shown = Callable[[SafeText], str]
"""Says how a line may be shown."""


def place_of(typed: str, run: str) -> Path:
    """Return the file that a person means: by default one named by the run, in this folder."""
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in run).strip(".")
    path = Path(typed.strip() or f"{name or 'run'}-log.txt").expanduser()
    return path.absolute() if typed.strip() else path


async def all_lines(reader: LogReader) -> AsyncIterator[tuple[Sequence[SafeText], float]]:
    """Yield the lines of a log as it is shown, page by page, and which share of it that was.

    What is written after the first page is not waited for. Raises as a reader does.
    """
    at, end = reader.floor, 0
    while True:
        page = await reader.more(at, back=False)
        end = end or page.size
        yield page.lines, min(1.0, page.end / max(1, end))
        if page.end <= at or page.end >= end:
            return
        at = page.end


async def just(lines: Sequence[SafeText]) -> AsyncIterator[tuple[Sequence[SafeText], float]]:
    """Yield these lines, as ``all_lines`` does."""
    yield lines, 1.0


async def save(
    path: Path,
    lines: AsyncIterator[tuple[Sequence[SafeText], float]],
    shown: Shown,
    tell: Callable[[float], None],
) -> int:
    """Write lines into a new file that only its owner can read; return how many.

    ``tell`` is given the share that is done. Raises ``OSError``, ``TimeoutError``.
    """
    file = await offload(_create, path, deadline=DEADLINE)
    count = 0
    try:
        async for part, share in lines:
            text = "".join(f"{shown(line)}\n" for line in part).encode()
            await offload(_write, file, text, deadline=DEADLINE)
            count += len(part)
            tell(share)
    except BaseException:
        os.unlink(path)  # noqa: PTH108 - at once: what ends this may be the app's end
        raise
    finally:
        os.close(file)
    return count


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def page_through(lines: Sequence[SafeText], shown: Shown, at: int) -> str | None:
    """Show lines in ``$PAGER`` from the one of number ``at`` (0: the first) on; it has the screen.

    Return why not, in one line, if it could not be begun.
    """
    words = shlex.split(os.environ.get("PAGER") or PAGER) or [PAGER]
    if Path(words[0]).name in ("less", "more", "most"):
        words.append(f"+{at + 1}")
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as file:
        file.writelines(f"{shown(line)}\n" for line in lines)
        file.flush()
        try:
            subprocess.run([*words, file.name], check=False)
        except OSError as error:
            return f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}"
    return None
