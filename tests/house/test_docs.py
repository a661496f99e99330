"""The documents say what the program does."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from cockpit import __version__, cli
from cockpit.config.advice import unread_settings
from cockpit.config.check import keys_of
from cockpit.config.file import load
from cockpit.model.conditions import CONDITIONS
from cockpit.model.run import Thresholds
from cockpit.platforms.command import PLACEHOLDERS, places_in, words_of
from tests.trainers.world import TRAINERS as REAL
from tests.trainers.world import run_file_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
DOCUMENTS = "\n".join((README, *PAGES.values()))
TRAINERS = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
SECTIONS = {
    "Hugging Face Trainer": "hf",
    "Lightning": "lightning",
    "nanoGPT, and loops like it": "nanogpt",
    "JAX with Orbax": "orbax",
    "Levanter": "levanter",
}
"""The sections of ``docs/trainers.md`` with a run file, and the layout that each names."""


def test_what_is_made_of_the_code_is_what_the_code_says() -> None:
    made = dict(runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["made"]())
    assert {path.name for path in made} == {
        "CONDITIONS.md",
        "checks.md",
        "cockpit.1",
        "verbs.md",
        "keys.md",
        "run-file.md",
    }
    stale = [path.name for path, text in made.items() if path.read_text("utf-8") != text]
    assert stale == [], "`make docs` writes them anew"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *(f"docs/{n}" for n in PAGES)])
def test_linked_files_and_headings_exist(name: str) -> None:
    here = ROOT / name
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", here.read_text("utf-8"))
    places = [(here.parent / path if path else here, heading) for path, heading in links]
    assert [str(path) for path, _ in places if not path.exists()] == []
    assert [h for path, h in places if h and h not in headings(path.read_text("utf-8"))] == []


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as they are made of their words."""
    found = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in found}


def test_every_page_is_reached_from_the_first() -> None:
    lists = re.findall(r"```{toctree}\n(.*?)```", PAGES["index.md"], re.DOTALL)
    listed = {line for line in "\n".join(lists).splitlines() if line and line[0] != ":"}
    own = {name.removesuffix(".md") for name in PAGES} - {"index", "package"}
    skills = {f"agents/{path.stem}" for path in (ROOT / "docs" / "agents").glob("*.md")}
    assert listed == own | skills
    assert {name for name in own if f"docs/{name}.md" not in README} == set()


def test_the_page_of_a_package_index_needs_nothing_beside_it() -> None:
    assert "](" not in PAGES["package.md"]


def test_the_run_file_of_the_readme_is_a_run_file(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", README, re.S)
    assert example is not None
    (tmp_path / "cockpit.toml").write_text(example[1], encoding="utf-8")
    file = load(tmp_path / "cockpit.toml")
    assert [run.name for run in file.runs] == ["my-run"]
    assert unread_settings(file) == ()
    assert file.runs[0].job is not None and str(file.runs[0].job.log) == str(
        tmp_path / "logs" / "run.log"
    )


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_trainers_run_file_is_one_that_can_be_acted_on(heading: str, tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(run_file_of(heading), encoding="utf-8")
    file = load(path)
    (run,) = file.runs
    assert unread_settings(file) == ()
    assert run.dri is not None and run.output_root is not None and run.resubmit is not None
    assert run.checkpoints is not None and run.checkpoints.layout == SECTIONS[heading]
    assert all(run.output_root.contains(root) for root in run.checkpoints.path)
    words = words_of(run.resubmit)
    assert words[0] == "python" and places_in(words) <= {*PLACEHOLDERS}
    assert run.job is not None and run.job.pid_file is not None and run.job.exit_file is not None


def test_a_pinned_id_is_recorded_as_the_document_says(tmp_path: Path) -> None:
    (lines,) = re.findall(r"```toml\n(resubmit.*?)```", TRAINERS, re.S)
    (tmp_path / "cockpit.toml").write_text(f'[[run]]\nname = "a"\n{lines}', encoding="utf-8")
    (run,) = load(tmp_path / "cockpit.toml").runs
    assert run.wandb is not None and run.resubmit is not None
    assert f"WANDB_RUN_ID={run.wandb.id}" in words_of(run.resubmit)


def test_every_trainer_that_is_run_has_its_section_and_each_placeholder_exists() -> None:
    assert {trainer.heading for trainer in REAL} < SECTIONS.keys()
    assert TRAINERS.count("```toml\n[cockpit]") == len(SECTIONS)
    told = set(re.findall(r"`\{(\w+)\}`", TRAINERS))
    assert told and told <= {*PLACEHOLDERS}


def test_the_routes_that_are_shown_are_routes(tmp_path: Path) -> None:
    example = re.findall(r"```toml\n(.*?)```", PAGES["babysit.md"], re.S)[0]
    (tmp_path / "cockpit.toml").write_text('[[run]]\nname = "a"\n' + example, encoding="utf-8")
    file = load(tmp_path / "cockpit.toml")
    assert unread_settings(file) == ()
    notify = file.notify
    assert [route.url_env for route in notify.routes] == ["SLACK_URL", "MAIL_URL", None, None]


def test_every_verb_of_the_documents_exists(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = set(re.findall(r"`cockpit ([a-z]\w*)", DOCUMENTS))
    assert len(verbs) >= 5
    for verb in verbs:
        with pytest.raises(SystemExit) as left:
            cli.main([verb, "--help"])
        assert left.value.code == 0
        assert "cockpit " + verb in capsys.readouterr().out


def test_every_variable_and_setting_that_the_documents_name_in_their_text_is_known() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "cockpit").rglob("*.py"))
    told = DOCUMENTS.replace(PAGES["architecture.md"], "")
    variables, tables = map(capitals, (told, PAGES["architecture.md"]))
    assert {"GH_TOKEN", "GITHUB_API_URL"} <= variables
    texts = re.findall(r'(?<!")"([^"\n]+)"(?!")', code)
    texts.append((ROOT / "docs" / "cockpit.1").read_text("utf-8"))  # what options take
    assert variables - set(re.findall(r"\w+", "\n".join(texts))) == set()
    assert "LAYOUTS" in tables
    assert tables - set(re.findall(r"^([A-Z]\w+)\b", code, re.M)) == set()
    written = re.findall(r"`\[(\w+)\] (\w+) = \w+`", DOCUMENTS)
    assert ("ui", "mouse") in written
    assert [pair for pair in written if pair[1] not in keys_of(pair[0])] == []


def capitals(text: str) -> set[str]:
    """Return what stands in a text in capitals and as code: variables, and tables of the code."""
    return set(re.findall(r"`([A-Z][A-Z0-9_]{3,})`", text))


def test_every_threshold_stands_in_the_row_of_a_condition() -> None:
    named = " ".join(each.opens for each in CONDITIONS)
    assert [name for name in Thresholds.model_fields if f"`{name}`" not in named] == []


def test_what_changed_is_sorted_and_the_newest_version_is_ours() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
    kinds = {row["directory"] for row in settings["type"]}
    pieces = [path for path in (ROOT / "changelog.d").iterdir() if path.name != ".gitignore"]
    wrong = [
        path.name for path in pieces if path.name.split(".")[1:] not in [[k, "md"] for k in kinds]
    ]
    assert wrong == [], f"changelog.d/+NAME.KIND.md, KIND one of {sorted(kinds)}"
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (\S+) \(", changelog, re.MULTILINE)[0] == __version__
