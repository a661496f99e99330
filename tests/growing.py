"""How the cost of a call grows with what it is given, whatever else the machine does."""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 3
LEAST = 0.002


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call, in seconds: the least of some tries."""
    taken = []
    for _ in range(TRIES):
        begun = time.process_time()
        call()
        taken.append(time.process_time() - begun)
    return max(min(taken), LEAST)


def grows_with_its_size(call: Callable[[int], object], size: int, times: int = 8) -> bool:
    """Tell whether eight times as much costs about eight times the time, not its square."""
    little = cpu_seconds(lambda: call(size // times))
    return cpu_seconds(lambda: call(size)) < little * times * 3
