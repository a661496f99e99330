"""What present mode hides."""

from __future__ import annotations

import pytest
from textual.content import Content

from cockpit.model.alert import Acknowledgement
from cockpit.model.run import CheckpointSpec, CockpitFile, CodeSpec, JobSpec, RunSpec
from screens.mask import Mask
from screens.run_layout import has_room
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, cockpit, text_of
from tests.widgets import reports as made
from widgets.metric_charts import LossChart
from widgets.painting.big import enlarged
from widgets.run_header import BigFigures


def mask() -> Mask:
    return Mask(["gpu-box"], ["ada", "team"], ["ada-run", "grug/ada"])


@pytest.mark.parametrize(
    "secret",
    [
        "/home/ada", "~/runs/x", "runs/a/carol.smith", "https://host.example.org:8080/x",
        "ssh://gpu-box/x", "https://evil.py", "/home/ad…", "scratch/*_x.json", "/data/x.log/",
        "…/lab-secret/ckpt/hero", "…/hero", "ssh://eve@box-9/logs/box-9.out",
        "file:///home/eve/eve.log", "/home/eve/run_eve.log",
    ],
)  # fmt: skip
def test_paths_are_dots(secret: str) -> None:
    shown = mask()(Content(f"saved {secret} now")).plain
    assert shown == f"saved {'•' * len(secret)} now"


@pytest.mark.parametrize(
    ("folders", "kept"),
    [
        ("/home/ada/runs/", "x.log"), ("./scratch/", "state.json"), ("src/", "evaluation.py"),
        ("gs://bucket/run/", "step-9"), ("ssh://gpu-box/data/", "config.yaml"),
        ("/out/", "checkpoint_0012"),
        ("…/lab/", "x.log"),
    ],
)  # fmt: skip
def test_a_file_s_and_a_checkpoint_s_own_name_stay(folders: str, kept: str) -> None:
    shown = mask()(Content(f"fix {folders}{kept}:14 now")).plain
    assert shown == f"fix {'•' * len(folders)}{kept}:14 now"


def test_a_name_in_a_file_s_name_is_masked_there_too() -> None:
    assert mask()(Content("read /logs/ada.log /logs/gpu-box.log now")).plain == (
        "read ••••••u1•.log ••••••host-1•.log now"
    )


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("ada", "u1•"),
        ("gpu-box", "host-1•"),
        ("gpu-b…", "host-1"),
        ("10.0.0.17", "host-1•••"),
        ("ada@gpu-box.example", "u1•@host-1•••••••••"),
        ("carol@login.hpc.uni.de", "u1•••@host-1••••••••••"),
        ("fe80::1ff:fe23:4567:890a", "host-1••••••••••••••••••"),
        ("node[01-04]", "host-1•••••"),
        ("tpu-vm-7", "host-1••"),
    ],
)
def test_names_have_stand_ins_of_their_width(secret: str, shown: str) -> None:
    assert mask()(Content(f"saved {secret} now")).plain == f"saved {shown} now"


@pytest.mark.parametrize(
    "plain",
    [
        "~46,012/119,209  38.6 %", "RUNNING 4/4", "monitor 2m, every 10m", "830k tok/s −31 %",
        "w&b 12s",
        "ada-run", "2.5 it/s", "~8,004/unknown", "C-05 throughput 31% below", "adam optimizer",
        "follow / pause", "grug/ada", "? / filter", "monitor now, every 5s",
        "step  ?/100,000  no step seen", "?/unknown", "?/20.0k", "tokens/s 1200", "samples/sec=3",
        "~88/unknown", "159/unknown", "~88/1.20M", "?/10.0G", "~999/10.0G",
    ],
)  # fmt: skip
def test_figures_and_run_names_stay(plain: str) -> None:
    assert mask()(Content(plain)).plain == plain


def test_colours_stay_where_they_were() -> None:
    line = mask()(Content.assemble("by ", ("ada", "bold"), " now"))
    assert line.plain == "by u1• now"
    assert [tuple(span) for span in line.spans] == [(3, 6, "bold")]


def test_a_path_with_a_run_s_name_in_it_is_masked_around_the_name() -> None:
    shown = mask()(Content("in `/data/gpu-box/ada-run/step-28` now")).plain
    assert shown == f"in `{'•' * 14}ada-run•step-28` now"


def test_a_name_has_the_same_stand_in_throughout() -> None:
    hide = mask()
    said = [
        hide(Content(line)).plain
        for line in (
            "user carol on gpu-a17.cluster.internal: host=node-23 lost",
            "carol waits for node-23, then gpu-a17",
            "retry: node-23 (owner: carol, then dave)",
        )
    ]
    assert said == [
        f"user u1••• on host-1{'•' * 18}: host=host-2• lost",
        "u1••• waits for host-2•, then host-1•",
        "retry: host-2• (owner: u1•••, then dave)",
    ]
    again = Mask(["gpu-box"], ["ada", "erin"], [], hide)
    assert again(Content("node-23 of carol")).plain == "host-2• of u1•••"


def test_a_line_that_was_masked_is_masked_no_further() -> None:
    hide = mask()
    once = hide(Content("user carol on node-23, owner bob@gpu-box, 10.1.2.3 and /a/b"))
    assert hide(once).plain == once.plain


def test_the_hosts_and_buckets_of_every_address_in_the_run_file_are_names() -> None:
    run = RunSpec(
        name="ada-run",
        output_root="ssh://isambard/scratch/a",
        job=JobSpec(kind="box", host="gpu-box", log="ssh://logs-7x/run.log"),
        checkpoints=CheckpointSpec(path=("gs://hero-bucket/a",)),
        code=CodeSpec(repo="ssh://codebox/src"),
    )
    file = CockpitFile(path="/x", runs=(run,))
    hide = Mask.of(file, ())
    for name in ("isambard", "gpu-box", "logs-7x", "hero-bucket", "codebox"):
        assert name not in hide(Content(f"{name}: no answer within 4 s")).plain


@pytest.mark.parametrize("present", [False, True])
async def test_whoever_has_taken_an_alert_has_a_stand_in_on_every_screen(present: bool) -> None:
    (worst, *others) = made.failed().alerts
    taken = Acknowledgement(by="zoë", at=made.NOW - 60, until=made.NOW + 900)
    worst = worst.model_copy(update={"acknowledged": taken})
    report = made.failed().model_copy(update={"alerts": (worst, *others)})
    engine = StandIn(made.failed())
    app = cockpit(engine=engine, run=report.name, present=present)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "zoë" not in text_of(app)
        engine.tell(report)
        shown = "ack u" if present else "ack zoë"
        for key in ("5", "A", "escape", "escape"):  # timeline, form or refusal, fleet
            await pilot.press(key)
            await until(pilot, lambda: shown in text_of(app))
            assert ("zoë" in text_of(app)) is not present


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("present", [False, True])
async def test_figures_are_enlarged_for_those_who_look_on(
    size: tuple[int, int], present: bool
) -> None:
    report = made.fleet()[0]
    app = cockpit(report, run=report.name, present=present)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        big = present and has_room(*size)
        assert app.screen.query_one(BigFigures).display is big
        step = [row.strip() for row in enlarged("8,004", plain=False)]
        assert all(row in text_of(app) for row in step) is big


async def test_the_loss_gets_more_room() -> None:
    report, areas = made.fleet()[0], {}
    for present in (False, True):
        app = cockpit(report, run=report.name, present=present)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            size = app.screen.query_one(LossChart).size
            areas[present] = size.width * size.height
    assert areas[True] > 1.5 * areas[False]


async def test_a_terminal_without_box_lines_has_figures_in_ascii() -> None:
    report = made.fleet()[0]
    app = cockpit(report, run=report.name, present=True, ascii=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert all(row.strip() in text_of(app) for row in enlarged("8,004", plain=True))


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("size", [(159, 50), (160, 47), (160, 48), (200, 50)])
async def test_the_selected_run_of_the_fleet_is_enlarged_above_all_where_there_is_room(
    size: tuple[int, int], present: bool
) -> None:
    runs = (made.failed(), made.report("run-b"))
    app = cockpit(*runs, present=present)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        above = present and size[0] >= 160 and size[1] >= 48
        assert any(each.display for each in app.screen.query(BigFigures)) is above
        for key, name in (("home", "run-failed"), ("end", "run-b")):
            await pilot.press(key)
            await pilot.pause()
            assert (name in text_of(app).partition("cockpit")[0]) is above
        assert "? keys" in text_of(app).splitlines()[-1]  # nothing is pushed off the screen


def test_the_node_of_a_job_is_masked_wherever_it_stands() -> None:
    shown = mask()
    shown.meet([made.report(facets=made.facets(job=made.job(node="pool-a7-xk2")))])
    assert (
        shown(Content("of a7: pool-a7-xk2 is cordoned")).plain == "of a7: host-1••••• is cordoned"
    )
