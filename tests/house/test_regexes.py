"""Every regular expression of the program is one, also those that are compiled at first use."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import cockpit
from cockpit.model.late_regex import LateRegex

MANY = 200


def test_every_late_regex_compiles() -> None:
    for module in pkgutil.walk_packages(cockpit.__path__, "cockpit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.unfreeze()  # what another test has set apart is not listed
    found = [each for each in gc.get_objects() if isinstance(each, LateRegex)]
    assert len(found) > MANY
    for each in found:
        assert each.pattern is not None
