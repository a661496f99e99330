"""Entries that nobody types are written once a person has allowed it, and never by log_every."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import ConfigError, load
from tests.records.remotes import LOGBOOK, git, shared
from tests.verbs.tiny_run import TinyRun, environment
from tests.warm import Warm

PATIENCE = 180.0


@pytest.fixture
def book(tiny: TinyRun, tmp_path: Path) -> Path:
    clone = shared(tmp_path)
    text = tiny.config.read_text().replace('"2s"', '"1s"')
    tiny.config.write_text(f'{text}records = {{ logbook = "{clone / LOGBOOK}" }}\n')
    return clone


def subjects(place: Path) -> list[str]:
    return git(place, "log", "--format=%s", "main").splitlines()


def watched(tiny: TinyRun, until: Path | None = None, lines: int = 4) -> str:
    """Watch for some cadences, or until a repository has an automatic entry; return the stderr."""
    watch = Warm("cockpit", "watch", "--config", str(tiny.config), env=environment())
    assert watch.stdout is not None
    end = time.monotonic() + PATIENCE
    while until is not None and "tiny: log check" not in subjects(until):
        assert time.monotonic() < end, "no automatic entry"
        watch.stdout.readline()
    for _ in range(lines if until is None else 1):
        watch.stdout.readline()
    watch.terminate()
    return watch.communicate(timeout=PATIENCE)[1]


def test_nothing_is_committed_before_a_person_has_allowed_it(
    tiny: TinyRun, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = watched(tiny)
    assert subjects(book) == ["start"] and git(book, "status", "--porcelain") == ""
    assert "automatic logbook entries wait for your consent: cockpit autolog tiny" in said
    config = ("--config", str(tiny.config))
    assert main(["autolog", "tiny", *config]) == 0
    assert "every 1s" in capsys.readouterr().out
    assert main(["autolog", "tiny", *config, "--confirm", "autolog tiny"]) == 0
    assert "consent" not in watched(tiny, until=tmp_path / "remote.git")
    assert set(subjects(book)) == {"start", "tiny: log check"}


def test_never_writes_none_and_the_consent_can_be_taken_back(tiny: TinyRun, book: Path) -> None:
    act = ("autolog", "tiny", "--config", str(tiny.config), "--confirm", "autolog tiny")
    assert main([*act]) == 0
    text = tiny.config.read_text()
    tiny.config.write_text(text.replace(" }\n", ', log_every = "never" }\n'))
    assert "consent" not in watched(tiny)
    assert subjects(book) == ["start"]
    tiny.config.write_text(text)
    assert main([*act, "--off", "yes"]) == 0
    assert "consent" in watched(tiny)
    assert subjects(book) == ["start"]


def test_a_period_that_is_none_is_an_error_and_no_default(tiny: TinyRun, book: Path) -> None:
    text = tiny.config.read_text()
    tiny.config.write_text(text.replace(" }\n", ', log_every = "nver" }\n'))
    with pytest.raises(ConfigError, match="never"):
        load(tiny.config)
