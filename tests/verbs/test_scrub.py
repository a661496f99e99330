from __future__ import annotations

import io
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.text.scrub import Scrubber
from cockpit.verbs import scrub
from cockpit.verbs.scrub import copy
from tests.verbs.tiny_run import command, environment

KEY = "0123456789abcdef" * 2 + "01234567"
NAMED = f"WANDB_API_KEY={KEY}".encode()


def masked(data: bytes) -> bytes:
    target = io.BytesIO()
    copy(io.BufferedReader(io.BytesIO(data)), target)
    return target.getvalue()


def test_keys_go_and_every_other_byte_stays() -> None:
    data = b"a " + NAMED + b" b\r\n\xff\xfe raw\x00\n\n" + NAMED
    assert masked(data) == b"a WANDB_API_KEY=**** b\r\n\xff\xfe raw\x00\n\nWANDB_API_KEY=****"


def test_a_private_key_over_several_lines() -> None:
    body = ("MIIEpAIBAAKCAQEA" * 4).encode()
    begin, end = b"-----BEGIN RSA PRIVATE KEY-----", b"-----END RSA PRIVATE KEY-----"
    data = b"\n".join([b"before", begin, body, body, end, b"after " + b"x" * 64, b""])
    out = masked(data)
    assert body not in out
    assert out.startswith(b"before\n" + begin) and out.endswith(b"after " + b"x" * 64 + b"\n")


def test_progress_bars_are_lines_too() -> None:
    assert masked(b"1%\r" + NAMED + b"\r3%\n") == b"1%\rWANDB_API_KEY=****\r3%\n"


@pytest.mark.parametrize(
    ("filler", "shift"),
    [(b"step loss ", shift) for shift in (0, 3, 17, 30, 400, 520, 70_000)]
    + [(b"x" * 10, shift) for shift in (17, 70_000)],
)
def test_a_line_without_an_end_is_masked_in_parts(
    filler: bytes, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 1 << 20
    monkeypatch.setattr(scrub, "LONGEST", longest)
    before = (filler * (longest // len(filler) + 1))[: longest - shift]
    after = filler * 20_000
    out = masked(before + b" " + NAMED + b" " + after)
    assert out == before + b" WANDB_API_KEY=**** " + after


@given(st.binary(max_size=300))
def test_any_bytes_come_out_as_the_scrubber_says(data: bytes) -> None:
    scrubber = Scrubber()
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    expected = "\n".join("\r".join(map(scrubber.line, line.split("\r"))) for line in lines)
    assert masked(data) == expected.encode("utf-8", "surrogateescape")


def test_it_speaks_as_it_hears_and_leaves_when_nobody_reads() -> None:
    process = subprocess.Popen(
        command("scrub"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(NAMED + b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"WANDB_API_KEY=****\n"
    process.stdout.close()
    try:
        for _ in range(1000):
            process.stdin.write(b"more\n" * 100)
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_memory_stays_the_same_however_long_the_text() -> None:
    script = (
        "import io, os, resource, sys\n"
        "from cockpit.verbs import scrub\n"
        "scrub.LONGEST = 1 << 18\n"
        "class Endless(io.RawIOBase):\n"
        "    left = 16_000_000\n"
        "    def readable(self): return True\n"
        "    def readinto(self, into):\n"
        "        n = min(len(into), self.left); self.left -= n\n"
        "        into[:n] = (b'step 1 loss 2.0' * (n // 15 + 1))[:n]; return n\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "scrub.copy(io.BufferedReader(Endless()), open(os.devnull, 'wb'))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [command()[0], "-c", script], env=environment(), capture_output=True, check=True
    )
    assert int(done.stdout) < 12_000
