"""The command line as it is, but at one named point of an action something befalls it.

``POINT`` names the point (a file named by ``PASSED`` lists those that were passed). What befalls
it is ``FATE``: ``kill`` ends this process with -9, ``halt`` stops it until somebody wakes it, a
number is the process that is stopped there; ``+S`` and ``-S`` set its clock by so many seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from cockpit.__main__ import INTERRUPTED, leave, start


def at(point: str) -> None:
    """Pass a point of an action."""
    if passed := os.environ.get("PASSED"):
        with Path(passed).open("a", encoding="utf-8") as file:
            file.write(f"{point}\n")
    if point != os.environ.get("POINT"):
        return
    fate = os.environ["FATE"]
    if fate == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fate == "halt":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fate[0] in "+-":
        clock, ahead = time.time, float(fate)
        time.time = lambda: clock() + ahead
    else:
        os.kill(int(fate), signal.SIGSTOP)


if __name__ == "__main__":
    try:
        if {"relaunch", "stop", "watch"} & set(sys.argv):
            from cockpit.actions.core.service import ActionService

            former = ActionService.__init__

            def init(self: ActionService, *words: object, **more: object) -> None:
                former(self, *words, **{**more, "at": at})  # type: ignore[arg-type]

            setattr(ActionService, "__init__", init)  # noqa: B010
    except KeyboardInterrupt:
        leave(INTERRUPTED)
    start()
