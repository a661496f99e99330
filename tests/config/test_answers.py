"""What is wrong with ``[notify] answers`` is said in one line that tells what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config.file import ConfigError, load

RUN_FILE = """
[notify]
second = "bob"
answers = [{{ {entry} }}]
[[run]]
name = "toy"
dri = "ada"
records = {{ issue = "https://github.com/ada/runs/issues/1" }}
"""


def test_who_answers_is_somebody_who_can_be_told(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(RUN_FILE.format(entry='kind = "github", people = { a-l = "Ada", bo = "bob" }'))
    assert load(path).notify.answers[0].people == {"a-l": "Ada", "bo": "bob"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('kind = "githab", people = { a = "ada" }', 'did you mean "github"?'),
        ('kind = "github"', 'expected people = { "ada-lovelace" = "NAME" }'),
        ('kind = "github", people = { a = "carl" }', "'carl' answers for no run; expected"),
        ('kind = "github", people = { a = "agent:x" }', "'agent:x' answers for no run"),
        ('kind = "github", people = { "a@b.org" = "ada" }', "is no account of GitHub"),
        ('kind = "github", people = { Ann = "ada", ann = "bob" }', "this account is named twice"),
        ('kind = "github", people = { a = "ada" }, channel = "C"', "GitHub have no channel"),
        (
            'kind = "github", people = { a = "ada" } }, { kind = "github", people = { b = "bob" }',
            "answers by github are there already",
        ),
        ('kind = "ntfy"', 'expected url_env = "VARIABLE"'),
        ('kind = "ntfy", url_env = "X"', 'expected a route of kind = "ntfy"'),
        ('kind = "ntfy", url_env = "X", people = { a = "ada" }', 'write to = "NAME" instead'),
        ('kind = "slack", token_env = "X", people = { U012ABC = "ada" }', 'expected channel = "…"'),
        ('kind = "slack", token_env = "X", channel = "C", people = { a = "ada" }', "no account of"),
        ('kind = "pagerduty", people = { "a@b.org" = "ada" }', 'expected token_env = "VARIABLE"'),
        ('kind = "github", peeple = { a = "ada" }', 'did you mean "people"?'),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line(tmp_path: Path, entry: str, said: str) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(RUN_FILE.format(entry=entry))
    with pytest.raises(ConfigError) as error:
        load(path)
    (line,) = [each for each in str(error.value).splitlines() if said in each]
    assert "answers" in line


def test_answers_on_github_need_an_issue(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    text = RUN_FILE.format(entry='kind = "github", people = { a = "ada" }')
    path.write_text(text.partition("records")[0])
    with pytest.raises(ConfigError, match="no run has an issue to comment on"):
        load(path)
