"""Processes of ours that begin with everything loaded: ``Warm`` is a ``Popen`` of a module.

To start a Python and load the program takes a second of a core, and tests start thousands. Each is
forked from one process here that has loaded it: of its own number, folder, variables and files, in
a session of its own, to be killed and halted like every other. What a start itself does is what
``tests/house/test_start.py`` and the terminals' tests see, of real ones.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

REPO: Final = Path(__file__).resolve().parents[1]
LOADED: Final = ("cockpit.cli", "cockpit.verbs", "cockpit.actions", "cockpit.platforms")
"""What is loaded at once, a package with all that is in it."""
MOST: Final = 1 << 20
"""Bytes of a request; the kernel takes them as one message."""


class Warm(subprocess.Popen[str]):
    """A process that runs ``module`` as ``python -m`` does; its streams are pipes of text."""

    def __init__(
        self, module: str, *words: str, cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None, stdin: int = subprocess.DEVNULL,
        stderr: int | None = subprocess.PIPE,
    ) -> None:  # fmt: skip
        super().__init__(
            [module, *words], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True,
            cwd=cwd, env=env or os.environ,
        )  # fmt: skip

    def _execute_child(self, *given: Any) -> None:
        """Have the process forked instead of started: what ``Popen`` does once pipes are made."""
        words, cwd, env, pipes = given[0], given[5], given[6], given[10:16]
        theirs = [fd if fd != -1 else number for number, fd in enumerate(pipes[:1] + pipes[3::2])]
        asked = json.dumps({"words": words, "cwd": str(cwd or Path.cwd()), "env": dict(env)})
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
        self._line.connect(_nursery())
        socket.send_fds(self._line, [asked.encode()], theirs)
        self.pid = int(self._line.recv(64))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        self._line.setblocking(not wait_flags & os.WNOHANG)
        try:
            ended = self._line.recv(64)
        except BlockingIOError:
            return 0, 0
        assert ended, "the process that forks for us has gone"
        self._line.close()
        return self.pid, int(ended)

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(blocking=False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


@cache
def _nursery() -> str:
    """Start the process that forks, once; it ends with this one."""
    place = tempfile.mkdtemp(prefix="warm-")
    address = f"{place}/line"
    words = [sys.executable, str(REPO / "run_cockpit.py"), "-m", "tests.warm", address]
    one = subprocess.Popen(
        words, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert one.stdout is not None and one.stdout.readline() == b"ready\n"

    def end() -> None:
        one.kill()
        one.communicate()
        with contextlib.suppress(OSError):
            Path(address).unlink()
            Path(place).rmdir()

    atexit.register(end)
    return address


def _load() -> None:
    from pydantic import BaseModel

    from cockpit.config.quickstart import quick_imports
    from cockpit.model.late_regex import LateRegex

    with quick_imports():
        for name in LOADED:
            module = importlib.import_module(name)
            for each in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
                importlib.import_module(each.name)
    kinds: list[type[BaseModel]] = [BaseModel]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for kind in kinds:
        if kind.__module__.startswith("cockpit."):
            kind.model_rebuild()
    for late in gc.get_objects():
        if type(late) is LateRegex:
            _ = late.search
    gc.collect()
    gc.freeze()


def _be(asked: Mapping[str, Any], fds: list[int]) -> NoReturn:
    """Become the process that is asked for, in the one that was forked."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.closerange(3, max(fds, default=3) + 64)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        time.tzset()
        module, *words = asked["words"]
        sys.argv = [module, *words]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BaseException:  # noqa: BLE001 - the process ends here, and says of what
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _serve(address: str) -> None:
    """Fork what is asked for until nobody can ask any more."""
    _load()
    woken, wakes = os.pipe()
    for fd in (woken, wakes):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    lines: dict[int, socket.socket] = {}
    watch = selectors.DefaultSelector()
    for source in (listener, woken, 0):
        watch.register(source, selectors.EVENT_READ)
    print("ready", flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while True:
        for key, _ in watch.select():
            if key.fileobj is listener:
                line, _ = listener.accept()
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MOST)
                _fork(line, lines)
            elif key.fileobj == woken:
                os.read(woken, 4096)
            else:
                os._exit(0)
        _tell_ended(lines)


def _fork(line: socket.socket, lines: dict[int, socket.socket]) -> None:
    said, fds, _, _ = socket.recv_fds(line, MOST, 3)
    asked = json.loads(said)
    main = asked["words"][0]
    package = hasattr(importlib.import_module(main), "__path__")
    main = f"{main}.__main__" if package else main
    importlib.import_module(main)  # what it needs is loaded once, and it is run as a module is
    del sys.modules[main]
    if pid := os.fork():
        for fd in fds:
            os.close(fd)
        lines[pid] = line
        line.send(b"%d" % pid)
    else:
        _be(asked, fds)


def _tell_ended(lines: dict[int, socket.socket]) -> None:
    while lines:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        line = lines.pop(pid)
        with contextlib.suppress(OSError):
            line.send(b"%d" % status)
        line.close()


if __name__ == "__main__":
    _serve(sys.argv[1])
