"""What every test starts from: no state, no settings and no git identity of the developer's."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "short",
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("long", settings.get_profile("short"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def pytest_configure() -> None:
    """Let what a test starts have the signals of a terminal, also where ``nohup … &`` began it all.

    What is ignored is handed on to every process, and none of them can be interrupted.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            interrupt = signal.default_int_handler
            signal.signal(number, interrupt if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Set the tests themselves aside from what the garbage collector walks through.

    They are half a million objects that stay: each collection of the oldest generation took 0.3 s.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that have slow tests: as the last ones they keep a worker alone busy.

    The demo of the installed program takes 50 s, most of it waiting, and its module came last.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def runtime_folder() -> Iterator[Path]:
    """Give a short path for sockets: a Unix socket's has room for 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_read_once() -> Iterator[None]:
    """Have each process of tests read them once: it is most of what a client costs that asks once.

    No test brings certificates of its own.
    """
    from cockpit.runtime import http

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_trust", cache(http._trust))
        yield


@pytest.fixture(autouse=True)
def _own_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, runtime_folder: Path
) -> Path:
    """Give each test a home and a state folder of its own, and a neutral git identity."""
    home = tmp_path_factory.mktemp("home")
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_folder))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TZ", "UTC")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Test Person\n\temail = test@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in (
        "WANDB_API_KEY",
        "WANDB_BASE_URL",
        "WANDB_MODE",
        "WANDB_DIR",
        "WANDB_CONFIG_DIR",
        "NETRC",
        "NO_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    return home
