"""Secrets go, everything else stays. Every secret here is made at run time and marked FAKE."""

from __future__ import annotations

import json
import os
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.base import SafeText
from cockpit.text.safe import safe_line
from cockpit.text.scrub import MASK, Scrubber, scrub, scrub_line
from cockpit.text.secret_names import is_placeholder
from tests.growing import grows_with_its_size

CORPUS = Path(os.environ.get("COCKPIT_CORPORA", "no-corpora")) / "secrets_neg.jsonl"
_DICE = random.Random(7)


def fake(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "FAKE0a" + "".join(_DICE.choice(letters) for _ in range(length - 6))


WORD, HEX = fake(36), "".join(_DICE.choice("0123456789abcdef") for _ in range(39)) + "7"
BODY = [fake(64, string.ascii_letters + string.digits + "+/") for _ in range(4)]

WITH_SECRET = [
    "-e WANDB_API_KEY {hex}",
    "-e WANDB_API_KEY={hex} --cpu 3",
    "--env-vars HF_TOKEN {word} --cpu 3",
    '["-e", "WANDB_API_KEY", "{hex}", "--", "python"]',
    "wandb login {hex}",
    "wandb login --relogin --host https://w.example.org {hex}",
    'wandb.login(key="{hex}")',
    "W&B API key: {hex}",
    "machine api.wandb.ai login user password {hex}",
    "  password {hex}",
    "--api-key {word} --steps 3",
    "--hf-token={word}",
    "--password '{word} with words'",
    "export AWS_SECRET_ACCESS_KEY='{word}/+x'",
    "PGPASSWORD={word} psql -h db",
    "MYSQL_PWD={word} PWD=/home/x",
    "SLACK_URL=https://hooks.slack.com/services/T000/B000/{word}",
    "posting to https://hooks.slack.com/services/T000/B000/{word}",
    "Authorization: Bearer {word}",
    "authorization: Basic {word}==",
    '{{"Authorization": "token {word}"}}',
    "curl -u bob:{word} https://example.org",
    "sshpass -p {word} ssh box",
    "Cookie: session={word}; other=2",
    "https://user:{word}@host/path",
    "https://user:p@{word}@host/path",
    "https://{word}@git.example.org/x.git",
    "redis://:{word}@cache:6379/0",
    "https://x.example.org/y?X-Amz-Signature={hex}&z=3",
    "GET /api?token={word}&x=1",
    '{{"api_key": "{word}", "steps": 3}}',
    '\\"api_key\\": \\"{word}\\", \\"b\\": 3',
    "env={{'HF_TOKEN': '{word}', 'X': '1'}}",
    "api_key: {word}",
    "INFO: WANDB_API_KEY={hex} given",
    "client_secret = '{word}'",
    "apiKey={word}",
    "AccountKey={word}==;EndpointSuffix=core",
    'password = "{word}\\"more"; next',
    "hf_{word}",
    "key ghp_{word} used",
    "github_pat_{word}",
    "sk-ant-api03-{word}",
    "sk-proj-{word}",
    "AIza{word}",
    "xoxb-123456-{word}",
    "wandb_v1_{word}",
    "local-{hex}",
    "gsk_{word}",
    "glpat-{word}",
    "eyJ{word}.{word}.{word}",
    "ghp_{word}…",
]


@pytest.mark.parametrize("template", WITH_SECRET)
def test_a_secret_is_masked_and_the_rest_stays(template: str) -> None:
    text = template.format(word=WORD, hex=HEX)
    masked = scrub(text)
    assert MASK in masked
    assert WORD not in masked
    assert HEX not in masked
    assert scrub(masked) == masked


AROUND = [
    (f"-e WANDB_API_KEY {HEX} --cpu 3", f"-e WANDB_API_KEY {MASK} --cpu 3"),
    (f"https://me:{WORD}@host/x?y=1", f"https://me:{MASK}@host/x?y=1"),
    (f"token={WORD}, step=5", f"token={MASK}, step=5"),
    (f"?token={WORD}&x=1", f"?token={MASK}&x=1"),
    (f'{{"token": "{WORD}"}}', f'{{"token": "{MASK}"}}'),
    (f"Authorization: Bearer {WORD}", f"Authorization: Bearer {MASK}"),
]


@pytest.mark.parametrize(("text", "masked"), AROUND)
def test_only_the_secret_is_masked(text: str, masked: str) -> None:
    assert scrub(text) == masked


HARMLESS = [
    f"pushed commit {HEX} to main",
    f"wandb: git commit {HEX}",
    f"cache_key={HEX}",
    "WANDB_API_KEY=$WANDB_API_KEY HF_TOKEN=${HF_TOKEN} X_TOKEN=$(cat /run/token)",
    "--token <token> --password **** --api-key YOUR_KEY_HERE --secret xxxx",
    'token_env = "IAP_TOKEN" token_command = "pass show ray"',
    "pad_token_id=50256 eos_token='</s>' bos_token: <s> token: 50256",
    "num_tokens=123456789 tokens_per_second: 8671.794 max_token 2048 time_per_token=0.25",
    "Tokens/s/device: 8671.794, loss: 10.879",
    "step-500/training_key/.zarray key: 3 prng_key=[0 42]",
    "the token indices sequence is longer than 131072",
    "Bearer of bad news: loss is NaN; Basic configuration done",
    "http://127.0.0.1:18100/api/jobs?limit=10 gs://bucket/a@b/c:3",
    "git@github.com:org/repo.git ssh://git@example.org/x",
    "docker run image:22.04@sha256:abcdef -u 1000:1000",
    "kubectl create secret generic wandb-api-key --from-file=key=/etc/key.pem",
    "private_key_path=/etc/ssl/private/key.pem password_file=/run/secrets/pw",
    "hf_hub_download(repo_id='org/m') sk-learn local-run-12",
    "passed 12 tests, pass@1: 0.31, forward_pass: 0.3",
    "wandb: View run at https://wandb.ai/org/proj/runs/6ktyafba",
    "ObjectRef(00ffffffffffffffffffffffffffffffffffffff0100000001000000)",
    "api_key=os.environ['WANDB_API_KEY'] token=args.token",
    "password: None, secret: null, api_key: ''",
    "-----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_survives(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    "value", ["$X", "${X}", "<token>", "****", "••••", "xxxx", "", "{id}", "..."]
)
def test_a_placeholder_is_known(value: str) -> None:
    assert is_placeholder(value)
    assert not is_placeholder(WORD)


BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"


def pem(*lines: str) -> str:
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        pem("before", BEGIN, *BODY, "abcd+/==", END, "after"),
        pem("before", BEGIN, "Proc-Type: 4,ENCRYPTED", "", *BODY, END, "after"),
        pem("before", BEGIN, *BODY, "[after] the key was cut off here", "after"),
        pem("before", *BODY, "abcd+/==", END, "after"),
        pem("before", *BODY, "after"),
        pem("before", *(f"[rank0]: {line}" for line in (BEGIN, *BODY, END)), "after"),
        pem("before", '{"private_key": "' + "\\n".join([BEGIN, *BODY, END]) + '"}', "after"),
    ],
)
def test_a_private_key_is_masked_across_lines_also_when_cut(text: str) -> None:
    masked = scrub(text)
    assert masked.startswith("before\n")
    assert masked.endswith("after")
    assert not any(line[:20] in masked for line in BODY)
    assert masked.count("\n") == text.count("\n")


def test_a_stream_remembers_that_it_is_inside_a_key() -> None:
    scrubber = Scrubber()
    lines = [scrubber.line(line) for line in (BEGIN, *BODY, END, f"commit {HEX}")]
    assert lines == [BEGIN, *[MASK] * len(BODY), END, f"commit {HEX}"]


def test_spans_move_with_the_text() -> None:
    line = safe_line(f"\x1b[31mred\x1b[0m --token {WORD} \x1b[32mgreen\x1b[0m")
    masked = scrub_line(line)
    assert masked.plain == f"red --token {MASK} green"
    assert [masked.plain[span.start : span.end] for span in masked.spans] == ["red", "green"]
    inside = scrub_line(safe_line(f"--token \x1b[31m{WORD[:9]}\x1b[32m{WORD[9:]}\x1b[0m"))
    assert inside.plain == f"--token {MASK}"
    assert all(span.end <= len(inside.plain) for span in inside.spans)


def test_a_line_without_a_secret_is_the_same_object() -> None:
    line = SafeText(plain="step 5 loss 2.3")
    assert scrub_line(line) is line


SIGNS = ["-e", "--token", "=", ":", '"', "'", "{", "}", "@", "://", "\n", "$", "<", ">", " "]
PARTS = st.sampled_from([*SIGNS, "KEY", "password", WORD, MASK])


@given(st.text() | st.lists(PARTS | st.text(max_size=4)).map("".join))
def test_any_text_is_scrubbed_twice_alike_and_line_by_line(text: str) -> None:
    once = scrub(text)
    assert once.count("\n") == text.count("\n")
    assert scrub(once) == once


LONG = [
    "token=",
    "-e KEY ",
    "a@://",
    "wandb ",
    "login ",
    "curl -u ",
    "password ",
    "a.b-",
    "'\"",
    "A" * 64,
]


@pytest.mark.parametrize("part", [*LONG, "A" * 64, "cookie:", "eyJ", "basic "])
def test_long_lines_are_scrubbed_in_bounded_time(part: str) -> None:
    assert grows_with_its_size(lambda size: scrub(part * size), 80_000 // len(part))


@pytest.mark.skipif(not CORPUS.exists(), reason="COCKPIT_CORPORA names no corpus")
def test_the_corpus_of_harmless_lines() -> None:
    for entry in map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines()):
        assert scrub(entry["text"]) == entry["text"], entry["id"]
