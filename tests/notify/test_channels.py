from __future__ import annotations

import email
import email.policy
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Severity
from cockpit.model.notify import NotifySpec, Route
from cockpit.notify.message import BODY_LIMIT, TITLE_LIMIT, Delivery, Message
from cockpit.notify.routes import (
    AddressError,
    Channels,
    audience,
    kind_of,
    neutral_for_discord,
    routes_of,
    second_audience,
    send,
    service_of,
)
from tests.notify.receivers import mail_server, webhook

SLACK = "https://hooks.slack.com/services/T00000000/B00000000/" + "a1" * 12
DISCORD = "https://discord.com/api/webhooks/123456789012345678/" + "aB3" * 22
KEY = "0123456789abcdef" * 2 + "01234567"


def message(**more: object) -> Message:
    about = {"run": "hero", "event": "alert 1 critical", "title": "C-09 loss is NaN"}
    return Message.model_validate({**about, "severity": Severity.CRITICAL, **more})


async def sent(route: Route, environ: dict[str, str], text: Message | None = None) -> Delivery:
    channels = Channels(NotifySpec(routes=(route,)), environ=environ)
    (delivery,) = await channels.send(text or message())
    return delivery


async def test_a_webhook_gets_json_at_exactly_its_address() -> None:
    with webhook() as server:
        told = await sent(Route(url_env="HOOK"), {"HOOK": server.url}, message(body="a\nb"))
    assert told == Delivery(route="url HOOK", ok=True, note="sent by webhook")
    assert server.paths == ["/hook/s3cr3tpath?sig=a%2Bb"]
    (posted,) = server.posted
    assert (posted["run"], posted["event"]) == ("hero", "alert 1 critical")
    assert (posted["title"], posted["message"]) == ("C-09 loss is NaN", "a\nb")
    assert posted["severity"] == "critical"


@pytest.mark.parametrize(("status", "words"), [(404, "no such address"), (500, "reports an error")])
async def test_a_refusal_is_told_in_our_own_words(status: int, words: str) -> None:
    with webhook() as server:
        server.status = status
        told = await sent(Route(url_env="HOOK"), {"HOOK": server.url})
    assert (told.ok, told.lost) == (False, False)
    assert f"answered {status}" in told.note and words in told.note
    assert "s3cr3t" not in told.note and "127.0.0.1" not in told.note


async def test_an_answer_that_is_lost_is_not_a_refusal() -> None:
    with webhook() as server:
        server.drop = True
        told = await sent(Route(url_env="HOOK"), {"HOOK": server.url})
    assert (told.ok, told.lost) == (False, True)
    assert len(server.posted) == 1


async def test_nobody_there_is_a_refusal() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        told = await sent(Route(url_env="HOOK"), {"HOOK": url})
    assert (told.ok, told.lost, told.note) == (False, False, "connection refused")


async def test_a_variable_that_is_not_set_is_said_and_no_crash() -> None:
    channels = Channels(NotifySpec(routes=(Route(url_env="NOWHERE"),)), environ={})
    assert channels.notices() == (
        "messages cannot go by url NOWHERE: the variable is not set here",
    )
    (told,) = await channels.send(message())
    assert not told.ok


@pytest.mark.parametrize("value", ["hello", "ssh:hello", "ftp://x", "https://[::1", "nosuch://a/b"])
async def test_a_value_that_is_no_address_is_said_without_repeating_it(value: str) -> None:
    told = await sent(Route(url_env="HOOK"), {"HOOK": value})
    assert not told.ok
    assert "its value is no" in told.note and value not in told.note


def test_the_usual_webhooks_are_recognised() -> None:
    kinds = [kind_of(service_of(url, None)) for url in (SLACK, DISCORD, "https://x.example/h")]
    assert kinds == ["slack", "discord", "webhook"]
    assert kind_of(service_of(SLACK, "webhook")) == "webhook"
    assert kind_of(service_of("slack://T00000000/B00000000/" + "a1" * 12, "slack")) == "slack"
    with pytest.raises(AddressError, match="an address of discord, not of slack"):
        service_of(DISCORD, "slack")


LOUD = {"title": "<!channel> @everyone", "body": "<@123> <https://x|y> *a* `@here`\nstep_1_loss"}


def test_slack_is_sent_plain_text_that_calls_nobody() -> None:
    with webhook() as server:
        service = service_of(SLACK, "slack")
        vars(service)["webhook_url"] = server.url.partition("?")[0]
        assert send(service, message(**LOUD), "r").ok
    (posted,) = server.posted
    (part,) = posted["attachments"]
    assert posted["mrkdwn"] is False
    assert part["title"] == "&lt;!channel&gt; @everyone"
    assert part["text"] == "&lt;@123&gt; &lt;https://x|y&gt; *a* `@here`\nstep_1_loss"
    assert server.paths[0].endswith("/T00000000/B00000000/" + "a1" * 12)


def test_discord_is_sent_plain_text_that_calls_nobody() -> None:
    with webhook() as server:
        service = service_of(DISCORD, "discord")
        vars(service)["notify_url"] = server.url.partition("?")[0]
        assert send(service, message(**{**LOUD, "body": LOUD["body"] + "x" * 3000}), "r").ok
    (posted,) = server.posted
    assert "embeds" not in posted and "allow_mentions" not in posted
    assert "@everyone" not in posted["content"] and "@here" not in posted["content"]
    assert "\\<@" in posted["content"] and "step\\_1\\_loss" in posted["content"]
    assert len(posted["content"]) <= 2000


def test_discord_reads_no_mention_and_no_markup() -> None:
    said = neutral_for_discord("@everyone <@123> *bold* `x` @here")
    assert "@everyone" not in said and "@here" not in said
    assert "\\<@" in said and "\\*bold\\*" in said


async def test_mail_arrives_whole_and_its_head_cannot_be_forged() -> None:
    with mail_server() as server:
        text = message(title="x\r\nBcc: eve@example.org", body="<b>loss</b> is NaN\nsecond")
        told = await sent(Route(url_env="MAIL", kind="email"), {"MAIL": server.url}, text)
        assert told.ok, told
    (raw,) = server.mails
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert mail["Bcc"] is None
    assert "Bcc: eve" in mail["Subject"]
    body = mail.get_body(("plain", "html"))
    assert body is not None
    content = body.get_content()
    assert "second" in content
    assert "<b>loss</b>" in content or "&lt;b&gt;loss&lt;/b&gt;" in content
    assert server.to == ["RCPT TO:<ada@example.org>"] or "ada@example.org" in server.to[0]


async def test_a_route_may_name_the_recipient_of_a_mail() -> None:
    with mail_server() as server:
        url = server.url.partition("&to=")[0]
        route = Route(url_env="MAIL", kind="email", to="bob@example.org")
        assert (await sent(route, {"MAIL": url})).ok
    assert "bob@example.org" in server.to[0]


async def test_a_command_gets_the_message_and_its_variables(tmp_path: Path) -> None:
    program = tmp_path / "tell"
    program.write_text('#!/bin/sh\n{ echo "$1 $COCKPIT_RUN $COCKPIT_SEVERITY"; cat; } > told\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    spec = NotifySpec(routes=(Route(command=("./tell", "$WHERE")),))
    channels = Channels(spec, folder=str(tmp_path), environ={"WHERE": "ops; rm -rf x"})
    (told,) = await channels.send(message(body="one\ntwo"))
    assert told == Delivery(route="command tell", ok=True, note="sent")
    assert (tmp_path / "told").read_text() == (
        "ops; rm -rf x hero critical\nC-09 loss is NaN\n\none\ntwo\n"
    )


@pytest.mark.parametrize(
    ("command", "words"), [(("/no/such",), "cannot be run"), (("false",), "exited with 1")]
)
async def test_a_command_that_fails_is_said(command: tuple[str, ...], words: str) -> None:
    told = await sent(Route(command=command), {})
    assert not told.ok and words in told.note


async def test_the_least_severity_of_a_route() -> None:
    rung: list[str] = []
    spec = NotifySpec(routes=(Route(min="critical", kind="terminal"),))
    channels = Channels(spec, ring=rung.append, environ={"TERM": "xterm"})
    assert await channels.send(message(severity=Severity.ALERT)) == ()
    assert len(await channels.send(message())) == 1
    assert len(rung) == 1


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "dumb"}, "\a"),
        ({"TERM": "screen", "STY": "1.x"}, "\a"),
        ({"TERM": "xterm"}, "\a\x1b]9;cockpit: C-09 loss is NaN\x1b\\"),
        (
            {"TERM": "tmux", "TMUX": "/tmp/x"},
            "\a\x1bPtmux;\x1b\x1b]9;cockpit: C-09 loss is NaN\x1b\x1b\\\x1b\\",
        ),
    ],
)
async def test_the_terminal_rings_in_its_own_way(environ: dict[str, str], expected: str) -> None:
    rung: list[str] = []
    spec = NotifySpec(routes=(Route(kind="terminal"),))
    await Channels(spec, ring=rung.append, environ=environ).send(message())
    assert rung == [expected]


@given(st.text(), st.text())
def test_a_message_is_safe_whatever_it_is_made_from(title: str, body: str) -> None:
    made = message(title=title, body=body)
    assert len(made.title) <= TITLE_LIMIT and len(made.body) <= BODY_LIMIT
    assert not any(ord(sign) < 32 for sign in made.title)
    assert not any(ord(sign) < 32 for sign in made.body.replace("\n", ""))


@given(st.integers(0, 4000))
def test_no_key_is_cut_so_that_it_is_not_recognised(before: int) -> None:
    made = message(title="x " * (before // 20) + f"WANDB_API_KEY={KEY}", body="y" * before + " "
                   + f"WANDB_API_KEY={KEY}")  # fmt: skip
    assert KEY[:8] not in made.title and KEY[:8] not in made.body


def test_a_route_is_named_without_its_address_and_twice_the_same_is_one() -> None:
    routes = (
        Route(min="alert", url_env="SLACK_URL"),
        Route(min="info", url_env="SLACK_URL"),
        Route(kind="terminal"),
        Route(command=("notify.sh", "a")),
        Route(command=("/opt/notify.sh", "b")),
    )
    found = routes_of(NotifySpec(routes=routes))
    names = ["url SLACK_URL", "terminal", "command notify.sh", "command notify.sh #2"]
    assert [each.name for each in found] == names
    assert found[0].carries(Severity.INFO)


def test_who_is_told_first_and_second() -> None:
    spec = NotifySpec(
        routes=tuple(Route(url_env=f"R{n}", to=to) for n, to in enumerate(PEOPLE)), second="bob"
    )
    routes, dris = routes_of(spec), frozenset({"ada", "carl"})
    first = [each.route.to for each in audience(routes, spec, "ada", dris)]
    assert first == [None, "ada", "dora", "ops@example.org"]
    assert [each.route.to for each in second_audience(routes, spec, "ada", dris)] == ["bob"]
    alone = NotifySpec(routes=(Route(url_env="R"),), second="bob")
    assert len(second_audience(routes_of(alone), alone, "ada", dris)) == 1


PEOPLE = (None, "ada", "bob", "carl", "dora", "ops@example.org")
