"""Work on the main thread that may go on for ever, such as matching a regular expression."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class _OverError(Exception):
    """The time is over."""


class _Clock:
    """The one timer of CPU time there is; when nobody is at work it rings unheard."""

    at_work = False
    heard = False

    def ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self.at_work:
            self.at_work = False
            raise _OverError

    def listen(self) -> None:
        if not self.heard:
            signal.signal(signal.SIGVTALRM, self.ring)
            self.heard = True


_CLOCK = _Clock()


def briefly(work: Callable[[], T], seconds: float) -> T | None:
    """Return what ``work`` returns, or ``None`` once it has taken ``seconds`` of CPU time.

    Only on the main thread work can be stopped; elsewhere it is not begun.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    _CLOCK.listen()
    try:
        _CLOCK.at_work = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        return work()
    except _OverError:
        return None
    finally:
        _CLOCK.at_work = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
