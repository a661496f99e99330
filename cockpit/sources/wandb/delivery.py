"""Rows on their way from a thread that reads files to whoever folds them: each chunk once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from cockpit.runtime.offload import offload
from cockpit.sources.wandb.history import RowChunk


def unreadable(why: str) -> RowChunk:
    """Return that rows could not be read at this time."""
    return RowChunk((), caught_up=False, restarted=False, share=0.0, unread=why)


class Delivery:
    """Gives out the chunks that ``more`` reads, in order.

    A read that is given up goes on in its thread and moves its cursor: what it has read is kept
    and given out by the next call. One caller at a time.
    """

    def __init__(
        self, more: Callable[[], RowChunk], rewind: Callable[[], None] | None = None
    ) -> None:
        """``rewind`` has ``more`` begin at the first row again; both block."""
        self._more = more
        self._rewind = rewind
        self._lock = Lock()
        self._kept: RowChunk | None = None
        self._again = False

    async def next(self, deadline: float) -> RowChunk:
        """Return the next chunk; raises ``TimeoutError`` and what ``more`` raises."""
        chunk = await offload(self._read, deadline=deadline)
        self._kept = None  # no other read is under way: that would wait for this one
        return chunk

    @property
    def waiting(self) -> bool:
        """Whether the next call gives, or may give, what no look at the files can tell of."""
        return self._again or self._lock.locked() or self._kept is not None

    def rewind(self) -> None:
        """Have the next call begin at the first row again; does not wait for one that hangs."""
        self._again = True

    def _read(self) -> RowChunk:
        with self._lock:
            if self._again:
                self._again, self._kept = False, None
                if self._rewind is not None:
                    self._rewind()
            if self._kept is None:
                self._kept = self._more()
            return self._kept
