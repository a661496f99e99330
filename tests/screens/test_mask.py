from __future__ import annotations

import pytest
from textual.content import Content

from screens.mask import Mask

MASK = Mask({"ada", "gpu-box", "team"}, ["ada-run", "grug/ada"])


@pytest.mark.parametrize(
    "secret",
    [
        "/home/ada/runs/x.log", "~/runs/x", "./scratch/state.json", "runs/a/run.log",
        "gs://bucket/run/step-9", "https://host.example.org:8080/x", "ssh://gpu-box/x",
        "ada@gpu-box.example", "10.0.0.17", "ada", "gpu-box", "gpu-b…", "/home/ad…",
        "scratch/*_x.json",
    ],
)  # fmt: skip
def test_hosts_people_and_paths_are_masked(secret: str) -> None:
    shown = MASK(Content(f"saved {secret} now")).plain
    assert shown == f"saved {'•' * len(secret)} now"


@pytest.mark.parametrize(
    "plain",
    [
        "~46,012/119,209  38.6 %", "RUNNING 4/4", "monitor 2m/10m", "830k tok/s −31 %", "w&b 12s",
        "ada-run", "2.5 it/s", "~8,004/unknown", "C-05 throughput 31% below", "adam optimizer",
        "follow / pause", "grug/ada", "? / filter", "monitor now/5s",
    ],
)  # fmt: skip
def test_figures_and_run_names_stay(plain: str) -> None:
    assert MASK(Content(plain)).plain == plain


def test_colours_stay_where_they_were() -> None:
    line = MASK(Content.assemble("by ", ("ada", "bold"), " now"))
    assert line.plain == "by ••• now"
    assert [tuple(span) for span in line.spans] == [(3, 6, "bold")]


def test_a_path_with_a_run_s_name_in_it_is_masked_around_the_name() -> None:
    shown = MASK(Content("in `/data/gpu-box/ada-run/step-28` now")).plain
    assert shown == f"in `{'•' * 14}ada-run{'•' * 8}` now"
