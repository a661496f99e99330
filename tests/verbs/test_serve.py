"""What ``cockpit serve`` takes, through the real entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.verbs.common import USAGE

RUN = """
[[run]]
name = "toy"
output_root = "out"
"""


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("0123456789abcdef", 0),
        ("", USAGE),
        ("0123456789abcde", USAGE),
        ("0123456789 abcdef", USAGE),
        ("0123456789abcdef\n", USAGE),
        ("ключ-ключ-ключ-ключ", USAGE),
        ("\udcff" * 16, USAGE),
    ],
)
def test_a_token_that_no_header_can_carry_is_refused(
    token: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A proxy would send it in vain: nobody whom it lets in could look."""
    file = tmp_path / "cockpit.toml"
    file.write_text(RUN)
    monkeypatch.setattr("cockpit.app.browser_app.serve_app", lambda *_, **__: 0)
    monkeypatch.setenv("COCKPIT_TOKEN", token)
    proxy = ("--url", "https://ops.example/", "--token-env", "COCKPIT_TOKEN")
    assert main(["serve", "--config", str(file), *proxy]) == code
    said = capsys.readouterr()
    assert ("has no token of 16 characters" in said.err) is (code == USAGE)
    assert not token.strip() or token not in said.err + said.out
