import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.clock import Moment
from cockpit.runtime.account import login_name
from cockpit.store.store import Store
from cockpit.watch.fleet import ownership_of, same_process, this_process


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    login_name.cache_clear()
    yield
    login_name.cache_clear()


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert login_name() == f"uid {os.getuid()}"


def test_the_account_is_the_machines_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "USERNAME"):
        monkeypatch.setenv(name, "ada")
    assert login_name() == pwd.getpwuid(os.getuid()).pw_name


def test_an_owner_is_known_by_kernel_start_and_boot_and_not_by_the_clock() -> None:
    me = this_process("ada")
    assert me.ticks is not None and same_process(me)
    for step in (-86400.0, -7200.0, 10.0, 7200.0):
        assert me.started_at is not None
        assert same_process(me.model_copy(update={"started_at": me.started_at + step}))
    assert not same_process(me.model_copy(update={"ticks": me.ticks - 1}))
    assert not same_process(me.model_copy(update={"boot": "another"}))


def test_the_owner_that_a_store_gives_back_is_the_same(tmp_path: Path) -> None:
    own = ownership_of(Store(tmp_path / "store.sqlite"))
    me = this_process("ada")
    assert own is not None and own.claim("r", me, Moment(1.0), 60.0) is None
    found = own.owner("r", Moment(1e9))
    assert found is not None and found.owner == me
