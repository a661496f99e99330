"""The run file: every bad one gives clear lines, every good one gives resolved values.

A file that the run file names and that hangs keeps nobody waiting (SPEC C-20: unknown).

What is wrong with ``[notify] answers`` is said in one line that tells what was expected.
"""

from __future__ import annotations

import json
import os
import threading
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.config import file as config
from cockpit.config import places, reading
from cockpit.config.file import ConfigError, Reloader, find, load
from cockpit.config.quickstart import annotations_compiled_once
from cockpit.model.place import Place, place_of
from cockpit.model.run import RunSpec

Write = Callable[[str], Path]
MINIMAL = '[[run]]\nname = "a"\n'
FULL = """
[cockpit]
cadence = "20m"
operator = "ada"

[[run]]
name = "big-run_1.0"
goal = "a model"
final_step = 5155
output_root = "gs://bucket/big"
cadence = "10m"
config_file = "launch/config.json"
resubmit = "python train.py --id {launch_id}"

[run.job]
kind = "local"
log = "logs/run.log"
pid_file = "/var/run/x.pid"
cluster = "marin"
auth = { header = "Proxy-Authorization", token_env = "IAP_TOKEN" }

[run.wandb]
dir = "wandb"
metrics = { step = "global_step", loss = "train/loss" }

[run.checkpoints]
path = ["ckpt", "~/temp", "s3://bucket/c", "file:///data/c"]
layout = { custom = { pattern = "c_(\\\\d+)", marker = "DONE" } }
save_every = "15m"
protect = [20, 80]

[run.monitor]
state = "scratch/*_monitoring_state.json"
cadence = "570s"

[run.records]
logbook = "logbook.md"

[run.thresholds]
instability_z = 7
first_step_within = "1h30m"

[run.teardown]
command = ["sky", "down"]
kind = "terminate"

[[run]]
name = "on-box"
[run.job]
kind = "box"
host = "gpu-box"
log = "logs/run.log"
done_marker = "~/done"
[run.wandb]
dir = "wandb/offline-run-1"
[run.checkpoints]
path = "ssh://gpu-box/data/ckpt"
layout = "hf"

[notify]
routes = [{ min = "alert", url_env = "SLACK_URL" }, { command = ["say", "hi"] }]
unacked_after = "5m"
[ui]
ascii = true
[keys]
relaunch = "R"
[hosts.isambard]
remedy = "log in again"
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def put(text: str) -> Path:
        path = tmp_path / "cockpit.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return put


def first_run(path: Path) -> RunSpec:
    return load(path).runs[0]


def test_a_full_file_gives_resolved_values(write: Write, tmp_path: Path) -> None:
    file = load(write(FULL))
    big, box = file.runs
    assert (file.cadence, big.cadence, box.cadence) == (1200.0, 600.0, 1200.0)
    assert (big.final_step, big.final_step_source) == (5155, "run file")
    assert str(big.output_root) == "gs://bucket/big"
    assert big.config_file == str(tmp_path / "launch/config.json")
    assert big.launch == big.resubmit
    assert big.thresholds.first_step_within == 5400.0
    assert big.monitor is not None
    assert big.monitor.state == str(tmp_path / "scratch/*_monitoring_state.json")
    assert big.monitor_cadence == 570.0
    assert big.records.logbook == str(tmp_path / "logbook.md")
    assert file.notify.routes[1].command == ("say", "hi")
    assert file.keys == {"relaunch": "R"}
    assert file.hosts["isambard"].remedy == "log in again"
    assert file.ui.ascii


def test_local_paths_start_at_the_files_folder(write: Write, tmp_path: Path) -> None:
    run = first_run(write(FULL))
    assert run.job is not None
    assert str(run.job.log) == str(tmp_path / "logs/run.log")
    assert str(run.job.pid_file) == "/var/run/x.pid"
    assert run.job.cluster == "marin"
    assert run.workdir == run.job.workdir == place_of(str(tmp_path))
    assert run.wandb is not None
    assert run.wandb.dir == place_of(str(tmp_path / "wandb"))
    assert run.checkpoints is not None
    own = str(Path.home() / "temp")
    assert [str(root) for root in run.checkpoints.path] == [
        *(str(tmp_path / "ckpt"), own, "s3://bucket/c", "/data/c")
    ]
    assert run.checkpoints.layout == "custom"
    assert run.checkpoints.custom is not None
    assert run.checkpoints.custom.marker == "DONE"


def test_what_lies_on_the_host_is_left_as_written(write: Write) -> None:
    run = load(write(FULL)).runs[1]
    assert run.job is not None
    assert run.job.log == Place("ssh", "gpu-box", "logs/run.log")
    assert run.job.done_marker == Place("ssh", "gpu-box", "~/done")
    assert run.job.workdir is None
    assert run.wandb is not None
    assert run.wandb.dir == Place("ssh", "gpu-box", "wandb/offline-run-1")
    assert run.checkpoints is not None
    assert run.checkpoints.path == (Place("ssh", "gpu-box", "/data/ckpt"),)


def test_a_folder_with_glob_characters_stays_literal(tmp_path: Path) -> None:
    folder = tmp_path / "x[1]"
    folder.mkdir()
    path = folder / "cockpit.toml"
    path.write_text(MINIMAL + '[run.monitor]\nstate = "*.json"\nevents = "m.log"\n')
    monitor = first_run(path).monitor
    assert monitor is not None
    assert monitor.state == str(tmp_path / "x[[]1]" / "*.json")
    assert monitor.events == str(folder / "m.log")


@pytest.mark.parametrize(
    ("extra", "tier"),
    [
        ("", "ordinary"),
        ("model_flops = 1e22", "hero"),
        ("model_flops = 9e21", "ordinary"),
        ('records.issue = "https://example.org/1"', "hero"),
        ('records.logbook = "l.md"', "hero"),
        ('records.logbook = "l.md"\ntier = "ordinary"', "ordinary"),
    ],
)
def test_the_tier_follows_from_size_and_records(write: Write, extra: str, tier: str) -> None:
    assert first_run(write(MINIMAL + extra)).tier == tier


def test_the_currency_of_all_prices_stands_once(write: Write) -> None:
    run = 'price_per_hour = 98.32\n[[run]]\nname = "b"\ncurrency = "USD"\nprice_per_hour = 2'
    first, second = load(write(f'[cockpit]\ncurrency = "EUR"\n{MINIMAL}{run}')).runs
    assert (first.price_per_hour, first.currency) == (98.32, "EUR")
    assert (second.price_per_hour, second.currency) == (2.0, "USD")


FINAL = [
    ("config.json", '{"trainer": {"steps": 5155}}', "trainer.steps", 5155, "config.json: trai"),
    ("config.json", '{"a.b": {"c": [1, 700.0]}}', "a.b.c.1", 700, "config.json: a.b.c.1"),
    ("config.toml", "[train]\nsteps = 12\n", "train.steps", 12, "config.toml: train.steps"),
    ("config.json", '{"trainer": {"steps": "5155"}}', "trainer.steps", None, "unknown: config"),
    ("config.json", '{"trainer": 1}', "trainer.steps", None, "unknown: config.json"),
    ("config.json", '{"steps": true}', "steps", None, "unknown: config.json"),
    ("config.json", '{"steps": 3', "steps", None, "unknown: config.json is not valid JSON"),
    ("config.json", "[" * 9000, "steps", None, "unknown: config.json is not valid JSON"),
    (None, "", "steps", None, "unknown: config.json: No such file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "key", "step", "source"), FINAL)
def test_the_final_step_comes_from_the_training_config(
    write: Write, tmp_path: Path, name: str | None, text: str, key: str, step: int, source: str
) -> None:
    if name is not None:
        (tmp_path / name).write_text(text)
    wanted = json.dumps(name or "config.json")
    run = first_run(write(f'{MINIMAL}final_step_from = {{ file = {wanted}, key = "{key}" }}'))
    assert run.final_step == step
    assert str(run.final_step_source).startswith(source)


def test_find_walks_up_and_then_looks_in_the_users_folder(write: Write, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find(deep) is None
    config.config_dir().mkdir(parents=True)
    (config.config_dir() / "cockpit.toml").write_text(MINIMAL)
    assert find(deep) == config.config_dir() / "cockpit.toml"
    assert find(deep) != (path := write(MINIMAL))
    assert find(deep) == path


def test_folders_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert config.store_path().parent == Path("/state/cockpit")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert config.state_dir() == Path.home() / ".local/state/cockpit"


def test_each_machine_has_a_store_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images that were copied share an id, and machines of two places a host name."""

    def name(host: str, own: str | None) -> str:
        told = os.uname_result(("Linux", host, "", "", ""))
        monkeypatch.setattr(os, "uname", lambda: told)
        monkeypatch.setattr(places, "MACHINE_ID", tmp_path / "id")
        (tmp_path / "id").unlink(missing_ok=True)
        if own is not None:
            (tmp_path / "id").write_text(f"{own}\n")
        return config.store_path().name

    assert len({name(*each) for each in (("a", "1"), ("b", "1"), ("a", "2"), ("a", None))}) == 4
    assert name("a.local", "1") == name("a.lan", "1") == name("a", "1")
    assert name("a", None) == "store-a.sqlite"
    assert name("../x y", None) == "store-machine.sqlite"


def test_a_bad_edit_keeps_the_old_file_and_says_so(write: Write) -> None:
    path = write(MINIMAL)
    keeper = Reloader(old := load(path))
    assert not keeper.check()
    write(MINIMAL + "gaol = 1")
    assert keeper.check()
    assert keeper.file is old
    assert 'did you mean "goal"?' in keeper.problems[0]
    assert not keeper.check()
    write(MINIMAL + 'goal = "better"')
    assert keeper.check()
    assert (keeper.file.runs[0].goal, keeper.problems) == ("better", ())
    path.unlink()
    assert keeper.check()
    assert keeper.file.runs[0].goal == "better"
    assert "no such file" in keeper.problems[0]


def test_an_edit_that_changes_nothing_keeps_the_same_object(write: Write) -> None:
    old = load(write(MINIMAL))
    keeper = Reloader(old)
    write("# a comment\n" + MINIMAL)
    assert not keeper.check()
    assert keeper.file is old
    assert keeper.problems == ()


def test_trackers_lie_beside_the_file_or_where_they_say(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(
        '[[run]]\nname = "a"\ntrackio = { db = "t/p.db", run = "r", metrics = { loss = "x" } }\n'
        '[[run]]\nname = "b"\ntensorboard = { dir = "ssh://box/runs/b" }\n'
    )
    one, two = load(path).runs
    assert one.trackio is not None and two.tensorboard is not None
    assert one.trackio.db == place_of(str(tmp_path / "t/p.db"))
    assert (one.trackio.run, one.trackio.metrics.loss) == ("r", "x")
    assert two.tensorboard.dir == Place("ssh", "box", "/runs/b")


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every read waits until the event is set: a mount whose server is gone."""
    answers, really = threading.Event(), reading._read

    def hanging(path: Path, most: int) -> bytes:
        answers.wait()
        return really(path, most)

    monkeypatch.setattr(reading, "_read", hanging)
    monkeypatch.setattr(reading, "PATIENCE", 0.05)
    yield answers
    answers.set()
    _come_back()


def _come_back() -> None:
    for thread in tuple(reading._given_up.values()):
        thread.join(5)


def test_a_config_on_a_hung_mount_is_unknown_and_read_when_it_answers(
    tmp_path: Path, mount: threading.Event
) -> None:
    (tmp_path / "c.json").write_text('{"max_steps": 70}')
    (tmp_path / "d.json").write_text('{"n": 9}')
    file = tmp_path / "cockpit.toml"
    file.write_text(
        '[[run]]\nname = "a"\nconfig_file = "c.json"\n'
        '[[run]]\nname = "b"\nconfig_file = "c.json"\n'
        '[[run]]\nname = "d"\nfinal_step_from = { file = "d.json", key = "n" }\n'
    )
    old = load(file)
    (first,), (second,) = (run.final_step_told for run in old.runs[:2])
    assert (first.step, first.text) == (
        None, f"config file: {tmp_path / 'c.json'} did not respond within 0.05 s",
    )  # fmt: skip
    assert second.why == f"{tmp_path / 'c.json'} still does not respond"
    assert old.runs[2].final_step_source == "unknown: d.json: did not respond within 0.05 s"
    keeper = Reloader(old)
    assert not keeper.check(), "nothing has answered yet"
    mount.set()
    _come_back()
    assert keeper.check()
    assert [run.final_step for run in keeper.file.runs] == [70, 70, 9]
    assert not keeper.check(), "told of once"


def code_of(text: str) -> object:
    return getattr(typing.ForwardRef(text), "__forward_code__")  # noqa: B009 - of typing's own


def test_annotations_that_read_alike_are_compiled_once_and_only_inside() -> None:
    with annotations_compiled_once():
        assert code_of("dict[str, int]") is code_of("dict[str, int]")
        assert code_of("dict[str, int]") is not code_of("dict[str, str]")
        with pytest.raises(SyntaxError):
            typing.ForwardRef("dict[")
    assert "compile" not in vars(typing)
    assert code_of("dict[str, int]") is not code_of("dict[str, int]")


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
