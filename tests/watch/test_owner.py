import os
import pwd
from collections.abc import Iterator

import pytest

from cockpit.runtime.login import login_name


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
