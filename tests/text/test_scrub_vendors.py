"""Tokens by the letters their vendors begin them with, wherever they stand, and look-alikes."""

from __future__ import annotations

import random
import re
import string

import pytest

from cockpit.text.scrub import MASK, scrub
from cockpit.text.secret_rows import places, table, tools
from cockpit.text.secret_shapes import holds_any

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + "234567",
    "d": string.digits,
}
_HOLE = re.compile(r"<([ahlud])(\d+)>")


def _filled(form: str) -> str:
    """Return ``form`` with ``<a40>`` and its like as random characters, with one of each size."""
    dice = random.Random(form)
    return _HOLE.sub(lambda hole: _made(dice, hole[1], int(hole[2])), form)


def _made(dice: random.Random, kind: str, length: int) -> str:
    ends = {"a": "x7K", "h": "7a", "l": "x7", "u": "K7", "d": "7"}[kind]
    return "".join(dice.choice(_ALPHABETS[kind]) for _ in range(length - len(ends))) + ends


ROWS = [
    (form, name)
    for name in ("shapes", "places", "tools")
    for row in table(name)["row"]
    for form in row.get("examples", ())
]
NAMELESS = ["M<a24>.<a6>.<a27>", "whoknows_<a36>", "new-v2-<a40>"]
"""What no row has: a bot's token that begins with no word, and what nobody has named yet."""
FORMS = [
    ("echo {} | kinit ada@CORP", "<a14>"),
    ("Your temporary password is: {}", "aEqskzgBGAeg"),
    ("https://hooks.zapier.com/hooks/catch/{}", "5520634/4mnff0n"),
    ("https://maker.ifttt.com/trigger/x/with/key/{}", "<a43>"),
    ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", "<h8>-<h4>-<h4>-<h12>"),
    ("api_key,{}", "<a32>"),
    ("https://mm.corp/hooks/{}", "<l26>"),
    ("PresharedKey = {}", "<a43>="),
    ("wss://x base64url.bearer.authorization.k8s.io.{}", "<a40>"),
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


@pytest.mark.parametrize("form", NAMELESS + [form for form, name in ROWS if name == "shapes"])
def test_a_token_is_masked_without_any_name(form: str) -> None:
    token = _filled(form)
    assert scrub(f"retrying with {token} now") == f"retrying with {MASK} now"


@pytest.mark.parametrize("form", [form for form, name in ROWS if name != "shapes"])
def test_what_the_example_of_a_row_holds_is_masked(form: str) -> None:
    said = scrub(_filled(form))
    dice = random.Random(form)
    made = [_made(dice, kind, int(length)) for kind, length in _HOLE.findall(form)]
    assert MASK in said and not [part for part in made if len(part) > 9 and part in said], said


def test_every_row_has_an_example_and_finds_it_by_itself() -> None:
    """But the shape of a key that stands in a Kubernetes connection alone."""
    for row in table("shapes")["row"]:
        for form in row.get("examples", ()):
            token = _filled(form)
            assert re.fullmatch(row["pattern"], token), row
            assert any(hint in token for hint in row["hints"]), row
        assert row.get("examples") or "k8s" in row["pattern"], row
    for place, row in zip(places(), table("places")["row"], strict=True):
        assert any(place.pattern.search(_filled(form)) for form in row["examples"]), row
        assert not place.near or holds_any(row["examples"][0].lower(), place.near), row
    for row in table("tools")["row"]:
        for form in row["examples"]:
            assert any(rule.search(_filled(form)) for rule in tools()[row["tools"][0]]), row


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
