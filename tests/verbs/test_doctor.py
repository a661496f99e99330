import importlib.metadata
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.hosts.link import Answers, Ask, HostLink
from tests.sshd import needs_sshd, serving
from tests.verbs.tiny_run import TinyRun


def test_every_finding_that_is_not_well_has_a_remedy(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json", "--config", str(tiny.config)]) == 0
    document = json.loads(capsys.readouterr().out)
    findings = document["findings"]
    assert document["schema"] == 1
    assert {"python", "git", "store", "TERM", "run file"} <= {each["name"] for each in findings}
    assert all(each["remedy"] for each in findings if each["level"] != "ok")
    (store,) = (each["text"] for each in findings if each["name"] == "store")
    assert "can be written" in store
    assert "journal " in store
    facets = {each["name"]: each["level"] for each in findings if each["run"] == "tiny"}
    assert facets["job"] == "ok"
    assert facets["tracker"] == "note"


def test_a_missing_file_is_a_problem_with_a_remedy(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    (tiny.folder / "run.log").unlink()
    tiny.stop()
    assert main(["doctor", "--config", str(tiny.config)]) == 1
    assert "check the path or id" in capsys.readouterr().out


def test_a_host_that_refuses_us_is_one_note_for_its_runs_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        "#!/bin/sh\n[ $1 = -G ] || { echo 'Permission denied (publickey).' >&2; exit 255; }"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    path = tmp_path / "cockpit.toml"
    job = 'job = { kind = "box", match = "train.py", host = "isambard" }'
    runs = "".join(f'[[run]]\nname = "{name}"\n{job}\n' for name in "ab")
    path.write_text(f"{runs}[hosts.isambard]\nremedy = 'clifton auth'\n")
    assert main(["doctor", "--json", "--config", str(path)]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    (note,) = [each for each in findings if each["name"] == "isambard"]
    assert note["text"] == "isambard: Permission denied (publickey)"
    assert (note["level"], note["remedy"]) == ("note", "clifton auth")
    told = [each["text"] for each in findings if each["name"] in ("job", "host")]
    why = "unauthorized: isambard: Permission denied (publickey); clifton auth"
    assert told == [why] * 4


@needs_sshd
def test_a_host_that_a_check_has_looked_at_is_not_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cockpit.toml"
    with tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as root, serving(Path(root)) as box:
        monkeypatch.setenv("PATH", f"{box.root}/bin:{os.environ['PATH']}")
        looks: list[Ask] = []
        asked = HostLink.ask

        async def counted(
            link: HostLink, asks: Iterable[Ask], deadline: float = 9.0, patience: float = 4.0
        ) -> Answers:
            wanted = list(asks)
            looks.extend(each for each in wanted if each.call == "processes")
            return await asked(link, wanted, deadline, patience)

        monkeypatch.setattr(HostLink, "ask", counted)
        job = f'job = {{ kind = "box", match = "train-[x]", host = "{box.host}" }}'
        path.write_text("".join(f'[[run]]\nname = "{name}"\n{job}\n' for name in "ab"))
        main(["doctor", "--json", "--config", str(path)])
        findings = json.loads(capsys.readouterr().out)["findings"]
    (note,) = [each for each in findings if each["name"] == box.host]
    assert note["level"] == "ok" and note["text"].startswith("answers; ")
    assert len(looks) == 1


def test_a_key_of_another_kind_of_job_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "r"\njob = { kind = "slurm", id = "1", address = "x:1" }\n')
    main(["doctor", "--json", "--config", str(path)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (note,) = [each for each in findings if each["name"] == "setting"]
    assert note["text"] == "run.job.address is set, but not used for slurm jobs"
    assert (note["level"], note["run"]) == ("note", "r")


def test_a_broken_run_file_is_a_finding_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text("[[run]\n")
    assert main(["doctor", "--json", "--config", str(path)]) == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [each["level"] for each in findings if each["name"] == "run file"] == ["problem"]


def test_a_run_that_can_only_be_watched_is_told_what_a_relaunch_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    local = 'job = { kind = "local", log = "a.log" }\n'
    whole = 'output_root = "out"\nresubmit = "python train.py --resume"\n'
    path.write_text(f'[[run]]\nname = "a"\n{local}[[run]]\nname = "b"\n{whole}{local}')
    main(["doctor", "--json", "--config", str(path)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (note,) = [each for each in findings if each["name"] == "relaunch"]
    assert (note["run"], note["level"]) == ("a", "note")
    assert note["text"].startswith("output_root and resubmit not set")
    assert 'resubmit = "python train.py --resume"' in note["remedy"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A tmux server of our own, that we are inside of; returns how to call it."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    monkeypatch.chdir(tmp_path)
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    call = ["tmux", "-f", "/dev/null", "-S", "socket"]
    subprocess.run([*call, "new-session", "-d", "sleep 60"], check=True)
    monkeypatch.setenv("TMUX", "socket,1,0")
    yield call
    subprocess.run([*call, "kill-server"], check=True, env={**os.environ, "TMUX": ""})


def test_inside_tmux_the_wait_behind_esc_is_looked_at(
    tiny: TinyRun, server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    levels = {}
    for wait in ("500", "20"):
        subprocess.run([*server, "set", "-s", "escape-time", wait], check=True)
        main(["doctor", "--json", "--config", str(tiny.config)])
        found = json.loads(capsys.readouterr().out)["findings"]
        (about,) = (each for each in found if each["name"] == "tmux escape-time")
        levels[wait] = about["level"]
        assert f"{wait} ms" in about["text"]
        assert wait == "20" or "set -s escape-time 20" in about["remedy"]
    assert levels == {"500": "note", "20": "ok"}


def test_code_that_is_not_what_was_installed_is_a_problem(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0.1" if "cockpit" in name else known(name)
    )
    main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = (each for each in findings if each["name"] == "cockpit")
    assert found["level"] == "problem" and found["text"].endswith("installed as 0.0.1")
    assert "reinstall it" in found["remedy"]
