"""Addresses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cockpit.model.base import Frozen
from cockpit.model.lineage import related, root_key, tag_of, wandb_key
from cockpit.model.place import (
    DEFAULT,
    FORMER,
    HERE,
    Place,
    WandbAddress,
    address_of,
    on_host,
    page_of,
    place_of,
    server_of,
)
from cockpit.model.run import JobSpec, RunSpec, WandbSpec

NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


class Holder(Frozen):
    root: Place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/runs/a", Place("file", "", "/runs/a")),
        ("runs/a", Place("file", "", "runs/a")),
        ("file:///runs/a", Place("file", "", "/runs/a")),
        ("ssh://gpu/runs/a", Place("ssh", "gpu", "/runs/a")),
        ("ssh://gpu/~/a", Place("ssh", "gpu", "~/a")),
        ("ssh://gpu/./a", Place("ssh", "gpu", "a")),
        ("gs://bucket/a/b", Place("gs", "bucket", "a/b")),
        ("s3://bucket", Place("s3", "bucket", "")),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, place: Place) -> None:
    assert place_of(text) == place
    assert place_of(str(place)) == place


@given(st.sampled_from(("file", "ssh", "gs", "s3")), NAMES, PATHS, st.booleans())
def test_what_is_written_is_read_again(scheme: str, host: str, path: str, home: bool) -> None:
    place = {
        "file": Place("file", "", f"/{path}"),
        "ssh": Place("ssh", host, f"~/{path}" if home else f"/{path}"),
    }.get(scheme, Place(scheme, host, path))
    assert place_of(str(place)) == place
    assert Holder.model_validate_json(json.dumps(Holder(root=place).to_json())).root == place


def test_a_value_takes_text_and_nothing_else() -> None:
    assert Holder.model_validate({"root": "gs://b/x"}).root == Place("gs", "b", "x")
    for wrong in (3, {"scheme": "gs"}, ["x"]):
        with pytest.raises(ValidationError, match="string"):
            Holder.model_validate_json(json.dumps({"root": wrong}), strict=True)


def test_a_file_address_of_another_machine_is_not_here() -> None:
    other = place_of("file://elsewhere/x")
    assert not other.here and other.local is None and str(other) == "file://elsewhere/x"


def test_all_that_share_a_machine_or_a_bucket_share_an_endpoint() -> None:
    texts = ("/a", "ssh://gpu/a", "ssh://gpu/~/b", "gs://b/x", "gs://b/y", "s3://b/x")
    ends = [place_of(text).endpoint for text in texts]
    assert ends == [HERE, "gpu", "gpu", "gs://b", "gs://b", "s3://b"]


def test_a_job_sees_its_own_host_as_paths_and_the_rest_as_addresses() -> None:
    job = JobSpec(kind="slurm", host="cluster")
    root = place_of("ssh://cluster/scratch/ada/x")
    assert root.seen_from(job) == "/scratch/ada/x"
    assert root.seen_from(JobSpec(kind="slurm", host="other")) == str(root)
    assert place_of("gs://b/x").seen_from(job) == "gs://b/x"
    assert place_of("/x").seen_from(None) == "/x"


def test_one_root_is_one_lineage_from_the_laptop_and_from_the_host() -> None:
    far = RunSpec(
        name="a", output_root="ssh://cluster/scratch/a/", job=JobSpec(kind="slurm", host="cluster")
    )
    near = RunSpec(name="a", output_root="/scratch/a", job=JobSpec(kind="slurm"))
    assert root_key(far) == root_key(near) == "root /scratch/a"
    assert related(tag_of(far), tag_of(near))


def test_inside_is_told_part_by_part() -> None:
    root = place_of("gs://b/runs/a")
    assert root.contains(root.below("c", "d")) and root.contains(place_of("gs://b/runs/a/"))
    assert not root.contains(place_of("gs://b/runs/ab"))
    assert not root.contains(place_of("gs://other/runs/a/c"))
    assert not place_of("/runs/a").contains(on_host("gpu", "/runs/a/c"))
    assert place_of("/runs/a/../b").contains(place_of("/runs//b/c"))


def test_a_path_on_no_host_is_of_this_machine() -> None:
    assert on_host(None, "/x").here and not on_host("gpu", "/x").here


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
