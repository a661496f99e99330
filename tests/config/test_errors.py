"""What is wrong in a run file is said in clear lines, all of it, without repeating secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.config.file import ConfigError, load
from cockpit.model.run import CockpitFile, RunSpec

Write = Callable[[str], Path]
MINIMAL = '[[run]]\nname = "a"\n'


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def put(text: str) -> Path:
        path = tmp_path / "cockpit.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return put


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return caught.value.problems


def first_run(path: Path) -> RunSpec:
    return load(path).runs[0]


WRONG = [
    ("[run.checkpoints]\nsave_evry = 1", 4, 'save_evry: unknown key; did you mean "save_every"?'),
    ("[run.job]\nsave_every = 1\nkind = 'local'", 4, "it belongs in [run.checkpoints]"),
    ("zzz = 1", 3, "run.zzz: unknown key; the nearest known key is"),
    ("final_step_source = 'x'", 3, "run.final_step_source: unknown key"),
    ("final_step = '12'", 3, "expected a whole number, such as final_step = 119209"),
    ("final_step = true", 3, "run.final_step: expected a whole number"),
    ("final_step = 0", 3, "run.final_step: expected a number of at least 1"),
    ("final_step = 2024-01-01", 3, "run.final_step: expected a whole number"),
    ("goal = 2024-01-01", 3, "run.goal: expected text in quotes"),
    ("price_per_hour = 0", 3, "run.price_per_hour: expected a number above 0"),
    ("price_per_hour = inf", 3, "run.price_per_hour: expected a number of at most 1e+07"),
    ("price_per_hour = nan", 3, "run.price_per_hour: expected a number of at most 1e+07"),
    ("price_per_hour = 1\nprice_per_accelerator_hour = 2", 3, "expected one of the two"),
    ("price_per_hour = 1\ncurrency = 'euro'", 4, 'three capital letters, such as currency = "EUR"'),
    ("cadence = 'soon'", 3, 'run.cadence: "soon" is not a duration; expected "15m"'),
    ("cadence = 0", 3, "run.cadence: expected a duration"),
    ("cadence = inf", 3, "run.cadence: expected a duration"),
    ("tier = 'heroic'", 3, 'run.tier: expected one of hero, ordinary; did you mean "hero"?'),
    ("resubmit = [1]", 3, "run.resubmit: expected text in quotes, or a list"),
    ("job = 3", 3, "run.job: expected a table"),
    ("[run.job]\nid = 'x'", 3, 'run.job.kind: is missing; expected kind = "local"'),
    ("[run.job]\nkind = 'slrm'", 4, "did you mean \"slurm\"?"),
    ("[run.trackio]\nproject = 'p'", 3, 'run.trackio.db: is missing; expected db = "trackio/'),
    ("[run.trackio]\ndb = 'x'\nprojct = 'p'", 5, 'projct: unknown key; did you mean "project"?'),
    ("[run.tensorboard]\ndir = 'x'\ndri = 'y'", 5, 'dri: unknown key; did you mean "dir"?'),
    ("[run.tensorbord]\ndir = 'x'", 3, 'unknown key; did you mean "tensorboard"?'),
    ("[run.checkpoints]\nlayout = 'levnter'", 4, 'did you mean "levanter"?'),
    ("[run.checkpoints]\nlayout = 'custom'", 4, "a custom layout needs custom ="),
    ("[run.checkpoints]\ncustom = {pattern='((',marker=''}", 4, "pattern: expected a regular"),
    ("[run.checkpoints]\nprotect = [1,\n 'x']", 5, "such as protect = [20000]"),
    ("[run.thresholds]\ndisk_frac = 90", 4, "expected a number of at most 1"),
    ("[run.wandb]\nbase_url = 'w.example.org'", 4, 'expected an address such as "https://wandb'),
    ("[[run]]\nname = 'a'", 4, 'run.name: "a" is already the name of run 1'),
    ("[[run]]", 3, "run.name: is missing"),
    ("[[run]]\nname = 'a b'", 4, "run.name: expected letters, digits"),
    ("[[run]]\nname = '-x'", 4, "run.name: expected letters, digits"),
    ("[runs]", 3, 'runs: unknown key; did you mean "run"?'),
    ("[ui]\nmouse = 1", 4, "ui.mouse: expected true or false"),
    ("[keys]\nquit = 3", 4, "keys.quit: expected a key in quotes"),
    ("[hosts]\nx = 3", 4, "hosts.x: expected a table"),
    ("[hosts.x]\nremdy = 'y'", 4, 'hosts.x.remdy: unknown key; did you mean "remedy"?'),
    ("[notify]\nroutes = [\n{min='alert'},\n{mn='alert'}]", 6, 'routes.mn: unknown key; did'),
    ("goal = \"a\\u202eb\"", 3, "run.goal: contains a control or invisible character"),
    ("\"na\\u200bme\" = 1", 3, "contains a control or invisible character"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "said"), WRONG)
def test_one_mistake_gives_one_line_at_its_place(
    write: Write, text: str, line: int, said: str
) -> None:
    (problem,) = problems(write(MINIMAL + text))
    assert problem.startswith(f"cockpit.toml:{line}: ")
    assert said in problem
    assert problem.isprintable()


def test_all_problems_are_told_at_once_in_order(write: Write) -> None:
    text = MINIMAL + "final_step = 'x'\ngaol = 1\n[run.job]\nkind = 'x'\n[[run]]\nname = 'a'\n"
    lines = [int(problem.split(":")[1]) for problem in problems(write(text))]
    assert lines == [3, 4, 6, 8]


BROKEN = [
    ("", "cockpit.toml: has no [[run]]"),
    ("# nothing\n", "cockpit.toml: has no [[run]]"),
    ("[run]\nname = 'a'", "cockpit.toml:1: run: expected [[run]], in double brackets"),
    ("[[run]]\nname = \n", "cockpit.toml:2: not valid TOML, column 8: Invalid value"),
    ("a = 1\na = 2\n", "cockpit.toml:2: not valid TOML, column 6: Cannot overwrite a value"),
    ('x = "abc', "cockpit.toml:1: not valid TOML"),
    ("x = " + "[" * 5000, "cockpit.toml: is nested too deeply"),
    ("x = " + "[" * 40 + "]" * 40, "cockpit.toml: is nested too deeply"),
    ("x = " + "9" * 5000, "cockpit.toml: is not valid TOML"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_a_file_that_is_no_run_file_gives_one_line(write: Write, text: str, said: str) -> None:
    (problem,) = problems(write(text))
    assert problem.startswith(said)


def test_a_file_that_cannot_be_read_gives_one_line(write: Write, tmp_path: Path) -> None:
    path = write("")
    path.write_bytes(b"[[run]]\nname = '\xff\xfe'")
    assert problems(path) == ("cockpit.toml:2: is not UTF-8 text; save it as UTF-8",)
    assert problems(tmp_path) == (
        f"{Path()}: is a directory; expected a file such as cockpit.toml",
    )
    assert "no such file" in problems(tmp_path / "none.toml")[0]
    os.mkfifo(tmp_path / "fifo")
    assert "is not a regular file" in problems(tmp_path / "fifo")[0]
    assert "cannot be read" in problems(Path("nul\0l"))[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_gives_one_line(write: Write) -> None:
    path = write(MINIMAL)
    path.chmod(0)
    assert problems(path) == ("cockpit.toml: is not readable; check its permissions",)


def test_a_byte_order_mark_and_windows_line_ends_are_fine(write: Write) -> None:
    path = write("")
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert first_run(path).name == "a"


FAKE = "FAKE" + "0a1b2c3d4e5f" * 3
SECRETS = [
    f"[run.job]\nkind = 'iris'\nauth = {{ token = '{FAKE}' }}",
    f"[run.wandb]\napi_key = '{FAKE}'",
    f"resubmit = 'run -e WANDB_API_KEY {FAKE}'",
    f"resubmit = ['run', '--token', '{FAKE}']",
    f"output_root = 'https://me:{FAKE}@example.org/x'",
    f"goal = 'hf_{FAKE}'",
    f"password = '{FAKE}'",
    f"[notify]\nheartbeat_url_env = 'https://example.org/{FAKE}'",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_literal_secret_is_an_error_that_does_not_repeat_it(write: Write, text: str) -> None:
    (problem,) = problems(write(MINIMAL + text))
    assert FAKE not in problem
    assert "secret" in problem or "environment variable" in problem


def test_references_to_secrets_are_fine(write: Write) -> None:
    text = "resubmit = 'run -e WANDB_API_KEY $WANDB_API_KEY --token ${HF_TOKEN}'\n"
    text += "[run.job]\nkind = 'ray'\ntoken_env = 'RAY_TOKEN'\ntoken_command = 'pass show ray'\n"
    assert first_run(write(MINIMAL + text)).job is not None


SAMPLE = """
[cockpit]
cadence = "20m"
[[run]]
name = "one"
final_step = 5155
resubmit = ["python", "train.py"]
[run.job]
kind = "local"
auth = { header = "Proxy-Authorization", token_env = "IAP_TOKEN" }
[run.checkpoints]
path = ["ckpt", "~/temp"]
layout = { custom = { pattern = "c_([0-9]+)", marker = "DONE" } }
protect = [20, 80]
[run.teardown]
kind = "terminate"
[notify]
routes = [{ min = "alert", url_env = "SLACK_URL" }, { command = ["say", "hi"] }]
[keys]
relaunch = "R"
[hosts.isambard]
remedy = "log in again"
"""


def assert_loads_or_explains(path: Path) -> None:
    try:
        assert isinstance(load(path), CockpitFile)
    except ConfigError as error:
        assert error.problems
        assert all(problem.isprintable() for problem in error.problems)


@given(st.binary(max_size=400))
def test_any_bytes_load_or_are_explained(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_bytes(raw)
    assert_loads_or_explains(path)


PIECES = st.sampled_from(
    [*SAMPLE.splitlines(keepends=True), "x = 1\n", "[run.x.y]\n", "{", "[[", '"""']
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_shuffled_run_files_load_or_are_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(text, encoding="utf-8")
    assert_loads_or_explains(path)


KEYS = st.sampled_from(["name", "job", "kind", "checkpoints", "path", "layout", "custom", "code"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(RunSpec.model_fields)), VALUES, max_size=6))
def test_any_values_load_or_are_explained(tmp_path: Path, table: dict[str, Any]) -> None:
    path = tmp_path / "cockpit.toml"
    lines = [f"{key} = {toml(value)}" for key, value in table.items()]
    path.write_text("\n".join(["[[run]]", *lines]), encoding="utf-8")
    assert_loads_or_explains(path)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return "'none'" if value is None else json.dumps(value)
