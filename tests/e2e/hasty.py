"""The command line as it is, only that a job which was started is watched for a moment.

What a relaunch may do wrong it does before: what is left is three seconds of waiting, many times
over. ``SOAK=1`` and the tests of a single action run the program itself.
"""

from __future__ import annotations

import sys
from typing import Final

from cockpit.__main__ import INTERRUPTED, leave, start

LIVES_FOR: Final = 0.3

if __name__ == "__main__":
    try:
        if {"relaunch", "mcp"} & set(sys.argv):
            from cockpit.actions.launching import submitting

            assert submitting.LIVES_FOR > LIVES_FOR
            vars(submitting)["LIVES_FOR"] = LIVES_FOR
    except KeyboardInterrupt:
        leave(INTERRUPTED)
    start()
