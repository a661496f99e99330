"""``cockpit doctor``: each trouble has its own remedy, and no contradiction passes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.hosts.link import Answers, Ask, HostLink
from tests.notify.receivers import webhook
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


def written(folder: Path, notify: str) -> Path:
    path = folder / "cockpit.toml"
    path.write_text(f'{notify}\n[[run]]\nname = "r"\n')
    return path


def findings(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, Any]:
    main(["doctor", "--json", "--config", str(path), *words])
    told = json.loads(capsys.readouterr().out)["findings"]
    return {each["name"]: each for each in told}


def test_a_test_message_goes_by_every_route(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        tmp_path,
        '[notify]\nheartbeat_url_env = "DEADMAN"\nroutes = [{ min = "critical", url_env = "HOOK" },'
        '{ url_env = "BAD" }, { url_env = "MISSING" }, { kind = "terminal" },'
        '{ command = ["./no-such"] }]',
    )
    with webhook() as good, webhook() as bad:
        bad.status = 404
        monkeypatch.setenv("HOOK", good.url)
        monkeypatch.setenv("BAD", bad.url)
        found = findings(capsys, path, "--notify")
        assert main(["doctor", "--notify", "--config", str(path)]) == 1
        text = capsys.readouterr().out
        assert good.titles == ["[test] cockpit: this is how an alert reaches you"] * 2
    assert found["notify url HOOK"]["level"] == "ok"
    assert found["notify url HOOK"]["text"] == "a test message was sent: sent by webhook"
    assert found["notify url BAD"]["level"] == "problem"
    assert "answered 404" in found["notify url BAD"]["text"]
    assert found["notify url MISSING"]["text"] == "MISSING is not set"
    assert found["notify url MISSING"]["remedy"].startswith("export MISSING=")
    assert found["notify terminal"]["level"] == "note"
    assert found["notify command no-such"]["level"] == "problem"
    assert found["dead man's switch"]["level"] == "problem"
    assert all(each["remedy"] for each in found.values() if each["level"] != "ok")
    assert "s3cr3t" not in text and "s3cr3t" not in json.dumps(found)


def test_without_the_flag_nothing_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, '[notify]\nroutes = [{ url_env = "HOOK" }]')
    with webhook() as hook:
        monkeypatch.setenv("HOOK", hook.url)
        found = findings(capsys, path)
    assert hook.posted == []
    assert "--notify" in found["notify url HOOK"]["text"]


def test_no_route_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "")
    assert "notify" not in findings(capsys, path)
    assert findings(capsys, path, "--notify")["notify"]["level"] == "problem"


@pytest.mark.parametrize(
    "route",
    ['{ min = "alert" }', '{ url_env = "A", command = "x" }', '{ kind = "command" }',
     '{ kind = "terminal", url_env = "A" }', '{ kind = "pigeon", url_env = "A" }'],
)  # fmt: skip
def test_a_route_that_leads_nowhere_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str
) -> None:
    path = written(tmp_path, f"[notify]\nroutes = [\n{route}]")
    assert main(["check", "--config", str(path)]) == 2
    assert "cockpit.toml:3: notify.routes" in capsys.readouterr().err


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ssh that every host refuses."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    said = "connect to host h port 22: Connection refused"
    program.write_text(f"#!/bin/sh\n[ $1 = -G ] || {{ echo '{said}' >&2; exit 255; }}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def remedies_findings(
    folder: Path, capsys: pytest.CaptureFixture[str], tables: str, code: int = 1
) -> dict[str, dict[str, Any]]:
    path = folder / "cockpit.toml"
    path.write_text(f'[[run]]\nname = "a"\n{tables}')
    assert main(["doctor", "--json", "--config", str(path)]) == code
    found = json.loads(capsys.readouterr().out)["findings"]
    return {each["name"]: each for each in found}


@pytest.mark.usefixtures("ssh")
@pytest.mark.parametrize("kind", ["box", "slurm"])
def test_what_fails_for_its_host_has_the_hosts_remedy(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = f'[run.job]\nkind = "{kind}"\nhost = "h"\nid = "1"\nmatch = "x"\n'
    found = remedies_findings(tmp_path, capsys, job)
    assert found["job"]["remedy"] == found["host"]["remedy"] == "run 'ssh h' by hand"
    (place,) = [each for name, each in found.items() if name in ("h", "slurm h")]
    assert place["remedy"] == "run 'ssh h' by hand" and place["remedy"] not in place["text"]


@pytest.mark.parametrize("kind", ["box", "ray"])
def test_a_job_without_its_system_is_a_problem(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = remedies_findings(tmp_path, capsys, f'[run.job]\nkind = "{kind}"\n')["job"]
    assert job["level"] == "problem" and "is not in cockpit.toml" in job["text"]


@pytest.mark.parametrize("key", ["job.host", "job.address", "wandb.url"])
def test_an_empty_setting_is_told_with_its_line(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = remedies_findings(tmp_path, capsys, f'job.kind = "slurm"\n{key} = ""\n', code=2)
    assert f"cockpit.toml:4: run.{key}: is empty" in found["run file"]["text"]


@pytest.mark.parametrize("url", ["https://wandb.ai/nope", "javascript:alert(1)"])
def test_an_address_that_names_no_run_is_not_a_missing_one(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = remedies_findings(tmp_path, capsys, f'[run.wandb]\nurl = "{url}"\n')["tracker"]
    assert tracker["level"] == "problem" and "wandb.url is not the URL of a run" in tracker["text"]


def test_an_id_and_an_address_of_two_runs_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb = '[run.wandb]\nurl = "http://127.0.0.1:1/e/p/runs/x"\nid = "y"\n'
    told = remedies_findings(tmp_path, capsys, wandb, code=2)["run file"]
    assert told["level"] == "problem" and "wandb.url points to x" in told["text"]


def test_a_command_that_prints_no_token_is_to_be_run_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = 'kind = "ray"\nid = "x"\naddress = "http://127.0.0.1:1"\n'
    found = remedies_findings(tmp_path, capsys, f'[run.job]\n{where}token_command = "false"\n')
    assert "by hand" in found["Ray 127.0.0.1:1"]["remedy"]
    assert found["job"]["remedy"] == found["Ray 127.0.0.1:1"]["remedy"]
