"""Which account of this machine this process runs under: the machine's word, not a setting."""

from __future__ import annotations

import functools
import os
import pwd

from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


@functools.cache
def login_name() -> str:
    """Return the account's name, masked, or its number where the system knows no name.

    ``LOGNAME`` and ``USER`` are not asked: they outlive ``su``, ``sudo`` and ``setpriv``.
    """
    try:
        return scrub(clean(pwd.getpwuid(os.getuid()).pw_name, 200)) or f"uid {os.getuid()}"
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
