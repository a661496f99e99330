"""The trainer's own log: glog-style lines on standard output, flushed one by one."""

from __future__ import annotations

import sys
import threading
from datetime import datetime


def say(logger: str, text: str, level: str = "I") -> None:
    """Write one line: ``I20261121 08:10:43 4211 checkpoint Saved …`` (local time)."""
    stamp = f"{datetime.now():%Y%m%d %H:%M:%S}"
    sys.stdout.write(f"{level}{stamp} {threading.get_native_id()} {logger} {text}\n")
    sys.stdout.flush()
