"""Names of machines and people are found; what only looks a little like one is left alone.

Which metric a name means: z-loss, router and skipped steps, however they are spelled.

Moments as a person types them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from cockpit.model.wording import GLYPHS
from cockpit.text.labels import metric_of, words_of
from cockpit.text.names import names_in
from cockpit.text.safe import Charset, charset_of, drawn
from cockpit.text.times import read_moment
from tests.growing import grows_with_its_size

NAMED = {
    "host=node-23 is lost": ["node-23"],
    "connection to gpu-a17.cluster.internal:29500 refused": ["gpu-a17.cluster.internal"],
    "tpu-vm-7 and t1v-n-1a2b3c4d-w-0 wait": ["tpu-vm-7", "t1v-n-1a2b3c4d-w-0"],
    "NodeList=nid[001234-001237] of gpu-a[1-4]": ["nid[001234-001237]", "gpu-a[1-4]"],
    "user carol pressed stop": ["carol"],
    "user=dave owner: erin": ["dave", "erin"],
    '{"hostname": "trainbox-3", "username": "frank"}': ["trainbox-3", "frank"],
    "ssh -p 22 gpubox": ["gpubox"],
    "scp carol@gpu-box:run.log .": ["carol", "gpu-box"],
    "(raylet, ip=10.0.0.3) died": ["10.0.0.3"],
    "gid ::ffff:10.44.3.17, peer 2001:db8::7": ["::ffff:10.44.3.17", "2001:db8::7"],
    "gpu12:4711:4799 [0] NCCL INFO Bootstrap": ["gpu12"],
    "Nov 22 05:12:11 deepbox kernel: Out of memory": ["deepbox"],
    "slurmstepd: error: *** JOB 17 ON c3 CANCELLED AT 2026": ["c3"],
    "srun: error: influ2: task 0: Out Of Memory": ["influ2"],
    "  host      : gpu12.hpc.uni.de": ["gpu12.hpc.uni.de"],
    "MASTER_ADDR=trainhead MASTER_PORT=29500": ["trainhead"],
    "UserId=grace(1000) GroupId=lab7(100)": ["grace", "lab7"],
    "MailUser=ivan Account=judy": ["ivan", "judy"],
    "submitted by grace, approved by heidi": ["grace", "heidi"],
    "mac aa:bb:cc:dd:ee:ff": ["aa:bb:cc:dd:ee:ff"],
}
PLAIN = """\
stopped by SIGSTOP (state T)
killed by SIGKILL, cancelled by SIGTERM
torch.nn.functional.py train.py:88 v1.2.3 loss=2.31 lr=3e-4 grad_norm=0.41
2026-03-11T08:41:07Z INFO step=8003 loss=2.315 tok/s=830k 12:34:56
File train.py, line 88, in forward: self.net(x) -> torch.Size([4, 128])
RuntimeError: std::bad_alloc at at::Tensor c10::Error torch::autograd
step-100 checkpoint-500 epoch-3 shard-00017 layer-12 head-12 rank-3 worker-3
losses[0] x[1-3] tokens[0,1] params['h.0.attn'] cuda:0 gpu:3 GPU 5 gpu0 gpu-1
NVIDIA A100-SXM4-80GB, H100, TPU v5p-512, tpu-v5p-512, gpu-h100, L40S
cudnn 8.9.2.26, version 1.2.3.4, driver 535.104.05, NCCL version 2.18.5+cuda12.2
node rank 0 of 4, nodes=4, node: 0, host memory 12 GB, server ready
user code failed; user cancelled the run; user=root; killed by signal 9
rdzv at localhost:29500 and 127.0.0.1, 0.0.0.0:8080, ::1
GPU0000:03:00.0: Unknown Error; PCI 0000:3b:00.0
owner died; ownership of objects; Operator: op_type="OneHot"
config.optimizer.lr=3e-4 transformer.h.11.mlp.c_fc.weight threading.local
install it with: pip install name@3fa2c1e90ab
model.safetensors 16.4 GB, adam(0.9, 0.95), bf16, 1e-5, 4600/5155
"""


@pytest.mark.parametrize("line", NAMED)
def test_names_are_found(line: str) -> None:
    assert [line[each.start : each.end] for each in names_in(line)] == NAMED[line]


@pytest.mark.parametrize("line", PLAIN.splitlines())
def test_figures_paths_of_modules_and_devices_are_no_names(line: str) -> None:
    assert [line[each.start : each.end] for each in names_in(line)] == []


@pytest.mark.parametrize("piece", ["a-", "a.", "node", "1:", "a@", "user ", "host=", "gpu-", "ab"])
def test_no_line_takes_long(piece: str) -> None:
    assert grows_with_its_size(lambda size: names_in(piece * size), 8000 // len(piece))


@pytest.mark.parametrize(
    ("variables", "codeset", "charset"),
    [
        ({}, "UTF-8", Charset.ASCII),  # what the interpreter has made of it says nothing
        ({"LANG": "C"}, "UTF-8", Charset.ASCII),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, "ANSI_X3.4-1968", Charset.ASCII),
        ({"LC_ALL": "", "LC_CTYPE": "C", "LANG": "en_US.UTF-8"}, "", Charset.ASCII),
        ({"LC_ALL": "de_DE.ISO-8859-1"}, "UTF-8", Charset.ASCII),
        ({"LANG": "de_DE"}, "ISO-8859-1", Charset.ASCII),
        ({"LANG": "en_IN"}, "UTF-8", Charset.UNICODE),
        ({"LANG": "en_US.UTF-8"}, "ANSI_X3.4-1968", Charset.UNICODE),
        ({"LC_CTYPE": "C.utf8"}, "", Charset.UNICODE),
        ({"LANG": "sr_RS.UTF-8@latin"}, "", Charset.UNICODE),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, "", Charset.CONSOLE),
        ({"TERM": "linux"}, "", Charset.ASCII),
    ],
)
def test_the_locale_as_it_was_given_decides(
    variables: dict[str, str], codeset: str, charset: Charset
) -> None:
    assert charset_of(variables, codeset) is charset


FOREIGN = "Größe 数据 ⠋ 💥 naïve e\u0301 ▸ ½ № ✅"


def test_everything_foreign_is_drawn_in_as_many_cells() -> None:
    shown = drawn(FOREIGN, Charset.ASCII)
    assert shown.isascii()
    assert shown.startswith("Grosse ????") is False  # ß is one cell: two letters would move all
    assert shown.startswith("Gro?e ???? : ?? naive e")


@pytest.mark.parametrize("charset", [Charset.ASCII, Charset.CONSOLE])
def test_every_glyph_of_ours_has_its_twin(charset: Charset) -> None:
    for glyph, _ in GLYPHS.values():
        twin = drawn(glyph, charset)
        assert len(twin) == 1
        assert twin == "?" if glyph == "?" else twin != "?"


def test_what_can_be_shown_stays() -> None:
    assert drawn(FOREIGN, Charset.UNICODE) == FOREIGN
    assert drawn("╭─ ■ Größe ▁▇ ✓ ╯", Charset.CONSOLE) == "┌─ ■ Größe _* v ┘"
    assert drawn("plain", Charset.ASCII) == "plain"


@pytest.mark.parametrize(
    "name, metric",
    [
        ("train/z_loss", "z_loss"),
        ("Z loss", "z_loss"),
        ("router_z_loss", "z_loss"),
        ("eval/z_loss", None),
        ("load_balancing_loss", "router_loss"),
        ("moe/aux_loss", "router_loss"),
        ("router/layer_3/aux_loss", None),
        ("router_aux_loss_coef", None),
        ("aux_loss", None),
        ("moe/max_violation", "router_loss"),
        ("train/router/entropy", "router_entropy"),
        ("policy/entropy", None),
        ("number of skipped iterations", "skipped"),
        ("optim/step skipped", "skipped"),
        ("data/skipped", None),
        ("eval/skipped_steps", None),
        ("max_skipped_steps", None),
        ("skip_rate/step", None),
        ("moe/train_loss", None),
        ("train/moe_loss", "router_loss"),
        ("train/loss", None),
        ("", None),
    ],
)
def test_its_words_tell_the_metric(name: str, metric: str | None) -> None:
    assert metric_of(words_of(name)) == metric


NOW = datetime(2026, 3, 11, 8, 57, tzinfo=UTC).timestamp()
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("03:12", "2026-03-11T03:12Z"),
        (" 08:57:00 ", "2026-03-11T08:57Z"),
        ("09:00", "2026-03-10T09:00Z"),
        ("03:12Z", "2026-03-11T03:12Z"),
        ("03:12 UTC", "2026-03-11T03:12Z"),
        ("-2h", "2026-03-11T06:57Z"),
        ("2h ago", "2026-03-11T06:57Z"),
        ("-1h30m", "2026-03-11T07:27Z"),
        ("2026-03-10 03:12", "2026-03-10T03:12Z"),
        ("2026-03-10T03:12:00+01:00", "2026-03-10T02:12Z"),
    ],
)
def test_a_moment_is_read(typed: str, expected: str) -> None:
    assert read_moment(typed, NOW) == datetime.fromisoformat(expected).timestamp()


def test_a_clock_time_is_the_readers_unless_it_says_utc() -> None:
    assert read_moment("03:12", NOW, EAST) == read_moment("01:12", NOW)
    assert read_moment("03:12Z", NOW, EAST) == read_moment("03:12", NOW)
    assert read_moment("10:58", NOW, EAST) == read_moment("08:58", NOW), "yesterday"


@pytest.mark.parametrize("typed", ["", "-", "soon", "25:00", "-2 parsecs", "\x1b[2J"])
def test_what_is_no_time_says_what_is_expected(typed: str) -> None:
    with pytest.raises(ValueError, match="is not a time; expected 03:12, 2h ago"):
        read_moment(typed, NOW)


def test_a_moment_to_come_is_none_of_the_past() -> None:
    with pytest.raises(ValueError, match="still to come"):
        read_moment("2026-03-12", NOW)
    assert read_moment("2026-03-12", NOW, ahead=True) > NOW


def test_a_clock_time_that_the_clock_left_out_is_that_of_the_day_before() -> None:
    zone = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 29, 8, 0, tzinfo=zone).timestamp()
    shown = datetime(2026, 3, 28, 2, 30, tzinfo=zone).timestamp()
    assert read_moment("02:30", now, zone) == shown
    assert read_moment("03:30", now, zone) == datetime(2026, 3, 29, 3, 30, tzinfo=zone).timestamp()
