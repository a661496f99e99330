from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cockpit.store import store
from cockpit.store.store import Opening, Store, StoreError


def test_a_store_is_opened_while_other_things_are_done(tmp_path: Path) -> None:
    begun = Opening(tmp_path / "new" / "store.db")
    store = begun.store()
    assert store.version() >= 0 and begun.store() is store
    store.close()


def test_what_keeps_it_from_opening_is_told_to_who_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("a file of somebody else's\n" * 40)
    begun = Opening(tmp_path / "store.db")
    with pytest.raises(StoreError, match=r"store\.db"):
        begun.store()


def test_one_that_does_not_come_back_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def hangs(path: Path, *, read_only: bool) -> Store:
        gate.wait()
        return Store(path, read_only=read_only)

    monkeypatch.setattr(store, "Store", hangs)
    begun = Opening(tmp_path / "store.db")
    with pytest.raises(StoreError, match=r"no answer within 0\.01 s"):
        begun.store(0.01)
    gate.set()
    begun.store().close()
