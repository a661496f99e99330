"""Tokens by the letters their vendors begin them with, wherever they stand, and look-alikes."""

from __future__ import annotations

import random
import re
import string

import pytest

from cockpit.text.scrub import MASK, scrub

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + "234567",
}
_HOLE = re.compile(r"<([ahlu])(\d+)>")


def _filled(form: str) -> str:
    """Return ``form`` with ``<a40>`` and its like as random characters, with one of each size."""
    dice = random.Random(form)
    return _HOLE.sub(lambda hole: _made(dice, hole[1], int(hole[2])), form)


def _made(dice: random.Random, kind: str, length: int) -> str:
    ends = {"a": "x7K", "h": "7a", "l": "x7", "u": "K7"}[kind]
    return "".join(dice.choice(_ALPHABETS[kind]) for _ in range(length - len(ends))) + ends


TOKENS = [
    "M<a24>.<a6>.<a27>",
    "GR1348941<a20>",
    "glsa_<a32>_<h8>",
    "NRII-<a32>",
    "hcaik_01<l56>",
    "pat<a14>.<h64>",
    "dckr_oat_<a32>",
    "doo_v1_<h64>",
    "nfp_<a36>",
    "essu_<a60>==",
    "key-<h32>",
    "<h32>-us14",
    "whsec_<a32>",
    "sq0atp-<a22>",
    "GOOG1E<u55>",
    "ABSK<a100>=",
    "jina_<h32><a32>",
    "esecret_<l26>",
    "KGAT_<h32>",
    "sgp_<h16>_<h40>",
    "bkua_<h40>",
    "CCIPAT_<a22>_<h40>",
    "PMAK-<h24>-<h34>",
    "rubygems_<h48>",
    "sess-<a40>",
    "ws-<a22>",
    "glcbt-64_<a20>",
    "<l75>xyzAZDO<a4>",
    "whoknows_<a36>",
    "new-v2-<a40>",
]
FORMS = [
    ("vault kv put secret/train wandb={}", "<h40>"),
    ("aws ssm put-parameter --name /x --type SecureString --value {}", "<h40>"),
    ("aws secretsmanager create-secret --name x --secret-string {}", "<a30>"),
    ("poetry config pypi-token.corp {}", "<a40>"),
    ("echo {} | kinit ada@CORP", "<a14>"),
    ("smtp_auth_password: {}", "wfuj kaxe qoru milt"),
    ("Your temporary password is: {}", "aEqskzgBGAeg"),
    ("license key: {}", "4JHCJ-7KQ2M-4JHCJ-9XQPL"),
    ("https://hooks.zapier.com/hooks/catch/{}", "5520634/4mnff0n"),
    ("https://maker.ifttt.com/trigger/x/with/key/{}", "<a43>"),
    ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", "<h8>-<h4>-<h4>-<h12>"),
    ("api_key,{}", "<a32>"),
    ("Authorization: GenieKey {}", "<h8>-<h4>-<h4>-<h4>-<h12>"),
    ('Authorization: Digest username="ada", response="{}"', "<h32>"),
    ("https://mm.corp/hooks/{}", "<l26>"),
    ("PresharedKey = {}", "<a43>="),
    ('psk="{}"', "<a16>"),
    ("credential MUNGE:{}:", "<a80>"),
]
LOOK_ALIKES = [
    "chatcmpl-<a36>",
    "req_<a34>",
    "run-<a40>",
    "sha256_<h64>",
    "checkpoint_<h40>",
    "raysubmit_<a16>",
    "torchinductor_c<l50>",
    "triton-cache-<u52>",
    "file-<a36>.jsonl",
    "key-value store at 10.0.0.1:29500",
    "the password is wrong",
    "license: Apache-2.0",
    "loss,0.3333333333333333",
    "HF_TOKEN=hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
]


@pytest.mark.parametrize("form", TOKENS)
def test_a_token_is_masked_without_any_name(form: str) -> None:
    token = _filled(form)
    assert scrub(f"retrying with {token} now") == f"retrying with {MASK} now"


@pytest.mark.parametrize(("form", "hole"), FORMS)
def test_what_a_tool_is_given_is_masked(form: str, hole: str) -> None:
    secret = _filled(hole)
    assert secret not in scrub(form.format(secret))


@pytest.mark.parametrize("form", LOOK_ALIKES)
def test_what_a_service_calls_its_things_is_left(form: str) -> None:
    text = _filled(form)
    assert scrub(text) == text


@pytest.mark.parametrize("value", ["QwTzmyfFXngYUVzeqcxn", "hPpZbTqWxRfGkLmNvBcD"])
def test_random_letters_without_a_figure_are_a_secret_where_one_is_spoken_of(value: str) -> None:
    assert scrub(f"generated admin password {value} for grafana").count(value) == 0


@pytest.mark.parametrize("name", ["NCCLWatchdogThread", "LlamaForCausalLMHead"])
def test_words_in_one_are_none(name: str) -> None:
    assert scrub(f"secret {name} and token {name}") == f"secret {name} and token {name}"


SENDERS = [
    "pover://u<a29>@<a30>",
    "slack://T1JJ3T3L2/A1BRTD4JD/<a24>",
    "discord://4174216298/<a40>",
    "tgram://123456789:<a34>/12315544",
    "sendgrid://<a40>:ada@example.org/bob",
    "ntfys://tk_<a29>@ntfy.example.org/topic",
    "gotifys://push.example.org/<a15>",
    "pbul://<a34>",
]


@pytest.mark.parametrize("form", SENDERS)
def test_the_keys_in_an_address_of_a_notification_service(form: str) -> None:
    for before, after in (("", ""), ("url = '", "'"), ("POST ", " -> 401")):
        address = _filled(form)
        said = scrub(f"{before}{address}{after}")
        key = max(re.split(r"[/@:]", address), key=len)
        assert key not in said and MASK in said and said.endswith(after)


def test_an_address_without_a_key_stays() -> None:
    for line in ("slack://a/b/c", "see push://docs", "pover://user@TOKEN", "github://org/repo@v1"):
        assert scrub(line) == line
