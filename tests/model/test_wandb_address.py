"""Every form in which people write down where a W&B run lives."""

import pytest

from cockpit.model.lineage import wandb_key
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.model.wandb_address import (
    DEFAULT,
    FORMER,
    WandbAddress,
    address_of,
    page_of,
    server_of,
)

OWN = "https://w.example.org:8443"


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("acme/hero/abc", None),
        ("acme/hero/runs/abc", None),
        ("/acme/hero/runs/abc", None),
        ("wandb://acme/hero/abc", None),
        ("https://wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://www.wandb.ai/acme/hero/runs/abc/", FORMER),
        ("wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://app.wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://api.wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://wandb.ai/acme/hero/runs/abc/overview?nw=nwuserada#top", FORMER),
        ("https://wandb.ai/acme/hero/runs/abc?workspace=user-ada", FORMER),
        ("https://forge.coreweave.com/wandb/acme/hero/runs/abc", DEFAULT),
        ("forge.coreweave.com/wandb/acme/hero/runs/abc/logs", DEFAULT),
        ("https://ada:pw@w.example.org:8443/acme/hero/runs/abc", OWN),
        (f"{OWN.upper()}/acme/hero/runs/abc", OWN),
        (f"{OWN}/tools/wb/acme/hero/runs/abc/workspace?nw=1", f"{OWN}/tools/wb"),
        ("http://127.0.0.1:8080/acme/hero/runs/abc", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/acme/hero/runs/abc", "http://[::1]:8080"),
        (" https://wandb.ai/ac%6De/hero/runs/abc ", FORMER),
    ],
)
def test_a_runs_address_in_every_form(text: str, base: str | None) -> None:
    assert address_of(text) == WandbAddress(base, "acme", "hero", "abc")
    assert WandbSpec(url=text).online and WandbSpec(url=text).run_id == "abc"


@pytest.mark.parametrize(
    "text",
    [
        "https://wandb.ai/acme/hero", "https://wandb.ai/acme/hero/workspace?nw=x",
        "https://wandb.ai/acme/hero/sweeps/abc", "https://wandb.ai/acme/hero/runs", "acme/hero",
    ],
)  # fmt: skip
def test_a_projects_address_names_no_run(text: str) -> None:
    found = address_of(text)
    assert (found.entity, found.project, found.run) == ("acme", "hero", None)
    assert not WandbSpec(url=text).online


@pytest.mark.parametrize(
    "text", [None, "", "abc", "ftp://w.org/a/b/runs/c", "https://[::1/a/b/runs/c", "https://a b/c"]
)
def test_other_texts_name_nothing(text: str | None) -> None:
    assert address_of(text) == WandbAddress()


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("https://wandb.ai/", FORMER), ("https://api.wandb.ai", FORMER),
        ("https://api.forge.coreweave.com/", DEFAULT),
        ("https://forge.coreweave.com/wandb", DEFAULT),
        ("https://w.example.org:8443/", OWN), (f"{OWN}/a/b/graphql", f"{OWN}/a/b"),
        ("http://localhost:8080", "http://localhost:8080"), ("w.example.org", None), ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_a_setting_names_the_server(text: str | None, server: str | None) -> None:
    assert server_of(text) == server


def test_what_is_recorded_by_itself_comes_before_the_url() -> None:
    spec = WandbSpec(url="https://wandb.ai/acme/hero/runs/abc", id="new", base_url=OWN)
    assert spec.recorded == WandbAddress(OWN, "acme", "hero", "new")


def test_a_folder_is_online_too_only_if_it_is_recorded_whose_it_is() -> None:
    assert not WandbSpec(dir="/x", project="hero", id="abc").online
    assert WandbSpec(dir="/x", project="hero", id="abc", entity="acme").online
    assert not WandbSpec(entity="acme", id="abc").online


def test_one_run_is_one_lineage_however_its_address_is_written() -> None:
    forms = (
        {"url": "https://wandb.ai/acme/hero/runs/abc/overview?x=1"},
        {"url": "acme/hero/abc"},
        {"entity": "acme", "project": "hero", "id": "abc"},
    )
    assert len({wandb_key(RunSpec(name="r", wandb=WandbSpec(**form))) for form in forms}) == 1


def test_the_page_of_a_run() -> None:
    assert page_of(FORMER, "a", "b", "c") == "https://wandb.ai/a/b/runs/c"
    assert page_of(DEFAULT, "a", "b", "c") == "https://forge.coreweave.com/wandb/a/b/runs/c"
    assert page_of(OWN, "a", "b", "c") == f"{OWN}/a/b/runs/c"
