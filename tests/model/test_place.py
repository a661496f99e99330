"""Where something lies: read, written, compared, and seen by the job itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cockpit.model.base import Frozen
from cockpit.model.lineage import related, root_key, tag_of
from cockpit.model.place import HERE, Place, on_host, place_of
from cockpit.model.run import JobSpec, RunSpec

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
