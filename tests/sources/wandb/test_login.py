"""The key and the server are found where the client finds them, and no key is ever shown."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from cockpit.model.place import DEFAULT, FORMER
from cockpit.model.run import WandbSpec
from cockpit.sources.wandb.server import key_for, server_for

KEY = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
OWN = "http://127.0.0.1:18431"


def found(home: Path, base: str = OWN, **env: str) -> tuple[str, str] | None:
    key = key_for(base, {"HOME": str(home), **env}).key
    return None if key is None else (key.value, key.source)


def test_the_environment_comes_first(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1:18431 login user password {OTHER}\n")
    assert found(tmp_path, WANDB_API_KEY=f" {KEY}\n") == (KEY, "WANDB_API_KEY")
    assert found(tmp_path, WANDB_API_KEY="") == (OTHER, "~/.netrc")


def test_netrc_goes_by_host_and_port(tmp_path: Path) -> None:
    bare = f"machine 127.0.0.1\n login user\n password {OTHER}\n"
    (tmp_path / ".netrc").write_text(f"{bare}machine api.wandb.ai login u password {KEY}\n")
    assert found(tmp_path) is None
    assert found(tmp_path, FORMER) == (KEY, "~/.netrc")
    assert found(tmp_path, DEFAULT) == (KEY, "~/.netrc")
    own = tmp_path / "elsewhere"
    own.write_text(f"machine 127.0.0.1:18431 login user password {OTHER}\n")
    assert found(tmp_path, NETRC=str(own)) == (OTHER, str(own))
    assert found(tmp_path, FORMER, NETRC=str(own)) is None


def test_the_clients_settings_then_the_users_own_files(tmp_path: Path) -> None:
    (tmp_path / ".wandb_key").write_text(f'export WANDB_API_KEY="{OTHER}"\n')
    assert found(tmp_path) == (OTHER, "~/.wandb_key")
    (tmp_path / ".wandb_token").write_text(f"{KEY}\n")
    assert found(tmp_path) == (KEY, "~/.wandb_token")
    settings = tmp_path / ".config" / "wandb" / "settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[default]\napi_key = {OTHER}\nbase_url = {OWN}/\n")
    assert found(tmp_path) == (OTHER, "settings")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".netrc", "machine 127.0.0.1:18431 login"), (".netrc", "\x00\xff]["), (".netrc", ""),
        (".wandb_key", "xx-y zz-y"), (".wandb_key", "k\u00e9y-that-is-not-one"),
        (".config/wandb/settings", "[[["),
    ],
)  # fmt: skip
def test_files_that_hold_no_key_are_told_and_never_quoted(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    looked = key_for(OWN, {"HOME": str(tmp_path)})
    assert looked.key is None
    assert all(word not in fault for fault in looked.faults for word in text.split() if word)


def test_a_key_prints_as_where_it_was_found(tmp_path: Path) -> None:
    key = key_for(OWN, {"HOME": str(tmp_path), "WANDB_API_KEY": KEY}).key
    assert key is not None
    assert KEY not in f"{key} {key!r} {[key]}"
    assert base64.b64decode(key.header.removeprefix("Basic ")) == f"api:{KEY}".encode()


def test_the_server_is_the_run_files_else_the_clients_own(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert server_for(WandbSpec(), env) == DEFAULT
    assert server_for(WandbSpec(), {**env, "WANDB_BASE_URL": f"{OWN}/"}) == OWN
    url = WandbSpec(url="https://wandb.ai/a/b/runs/c")
    assert server_for(url, {**env, "WANDB_BASE_URL": OWN}) == FORMER
    assert server_for(WandbSpec(base_url=OWN, url=url.url), env) == OWN
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings").write_text("[default]\nbase_url = https://w.example.org\n")
    named = {**env, "WANDB_CONFIG_DIR": str(folder)}
    assert server_for(WandbSpec(), named) == "https://w.example.org"
