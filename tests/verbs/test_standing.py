"""A standing order is armed by typed words, seen by every look at the run, and ended at once.

``cockpit veto``: stops what an agent waits to do, and what then stands in the history.

An escalation that has reached nobody is not done, whatever of it is queued or recorded.

Entries that nobody types are written once a person has allowed it, and never by log_every.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cockpit.actions.core import action
from cockpit.cli import main
from cockpit.config.file import ConfigError, load, store_path
from cockpit.model.acts import Stage
from cockpit.model.base import rfc3339
from cockpit.model.shared_facts import SharedFact, is_agent
from cockpit.store.launches import AgentRecords, Call
from cockpit.store.store import Store, run_key
from cockpit.text.logbook_lines import message_line
from tests.records.remotes import LOGBOOK, git, shared
from tests.verbs.tiny_run import TinyRun, environment
from tests.warm import Warm

RUN_FILE = """
[cockpit]
operator = "{operator}"
[notify]
routes = [{{ min = "info", command = "true" }}]
[[run]]
name = "toy"
dri = "ada"
output_root = "{root}"
resubmit = "true"
job = {{ kind = "local", pid_file = "{root}/pid", log = "{root}/log" }}
"""
STANDING = """
[run.standing]
relaunch = { classes = ["preempted", "walltime"], at_most = 2, within = "6h" }
"""
CONFIRM = ("--confirm", "standing toy")


class Desk:
    """One run file and the commands on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = folder / "out"
        self.root.mkdir()
        (self.root / "log").touch()
        self.path = folder / "cockpit.toml"
        self.capsys = capsys
        self.write()

    def write(self, operator: str = "ada", standing: str = STANDING) -> None:
        self.path.write_text(RUN_FILE.format(operator=operator, root=self.root) + standing)

    def do(self, *words: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main([*words, "--config", str(self.path)])
        return code, self.capsys.readouterr().out

    def blocks(self, *words: str) -> dict[str, str]:
        code, out = self.do("standing", "toy", *words, "--json")
        found = {each["id"]: each["text"] for each in json.loads(out)["checks"]
                 if each["level"] == "block"}  # fmt: skip
        assert (code == 4) == bool(found)
        return found

    def order(self) -> dict[str, Any] | None:
        found: dict[str, Any] = json.loads(self.do("check", "toy", "--json")[1])["runs"][0]
        return found.get("standing")


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


def test_it_is_armed_by_words_and_ended_by_a_veto(desk: Desk) -> None:
    assert desk.order() is None, "what stands in the run file does nothing"
    code, out = desk.do("standing", "toy", "--until", "10h")
    assert code == 0, out
    assert "relaunch after preempted, walltime; at most 2 times within 6h" in out
    assert desk.order() is None, "a plan arms nothing"
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    order = desk.order()
    assert order is not None
    assert (order["by"].partition(" ")[0], order["terms"]["at_most"]) == ("ada", 2)
    assert desk.do("veto", "toy", "--reason", "I am up") == (
        0,
        "the standing order of ada has ended\n"
        "orders on other machines end as soon as they read it\n",
    )
    assert desk.order() is None
    code, out = desk.do("veto", "toy")
    assert (code, "it has no standing order" in out) == (4, True)
    assert "I am up" in desk.do("history", "toy", "--json")[1]


def test_the_verb_ends_it_too_and_a_new_one_may_be_armed(desk: Desk) -> None:
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    code, out = desk.do("standing", "toy", "--off", "yes")
    assert (code, "ends the standing order of ada" in out) == (0, True)
    assert desk.do("standing", "toy", "--off", "yes", *CONFIRM)[0] == 0
    assert desk.order() is None
    assert desk.do("standing", "toy", "--until", "1h", *CONFIRM)[0] == 0
    assert desk.order() is not None


def test_what_a_person_does_to_the_run_ends_it(desk: Desk) -> None:
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    assert desk.do("log", "toy", "--confirm", "log toy")[0] == 4
    assert desk.order() is not None, "what only tells, or was refused, ends nothing"
    code, out = desk.do("handoff", "toy", "--to", "bob", "--confirm", "handoff toy")
    assert code in (0, 6), out
    assert desk.order() is None


@pytest.mark.parametrize(
    ("words", "standing", "operator", "check", "said"),
    [
        (("--until", "10h"), "", "ada", "standing", "[run.standing] of toy is not in the run file"),
        (("--until", "10h"), STANDING, "bob", "by", "who may arm it: ada"),
        (("--until", "10h"), STANDING, "agent:x", "by", "an agent cannot arm it"),
        (("--until", "9d"), STANDING, "ada", "until", "more than 7 days away"),
        (("--until", "2020-01-01T00:00:00Z"), STANDING, "ada", "until", "is over already"),
    ],
)
def test_it_is_not_armed(
    desk: Desk, words: tuple[str, ...], standing: str, operator: str, check: str, said: str
) -> None:
    desk.write(operator, standing)
    assert said in desk.blocks(*words)[check]
    assert desk.do("standing", "toy", *words, *CONFIRM)[0] == 4
    assert desk.order() is None


def test_others_arm_it_where_the_run_file_names_them(desk: Desk) -> None:
    desk.write("bob", STANDING + 'by = ["bob", "eve"]\n')
    assert desk.blocks("--until", "10h") == {}


def test_nothing_can_be_armed_where_no_guard_is_seen_by_other_machines(desk: Desk) -> None:
    text = desk.path.read_text()
    desk.path.write_text(text.replace(f'output_root = "{desk.root}"\n', ""))
    assert "guard" in desk.blocks("--until", "10h")


def test_its_end_must_be_said(desk: Desk) -> None:
    assert desk.do("standing", "toy")[0] == 2
    desk.write(standing=STANDING.replace('"6h" }', '"6h", until = "8h" }'))
    assert desk.blocks() == {}


@pytest.mark.parametrize("cause", ["numeric_instability", "oom_device", "user_stopped", "unknown"])
def test_only_what_a_relaunch_can_mend_is_named_in_a_run_file(desk: Desk, cause: str) -> None:
    desk.write(standing=STANDING.replace("walltime", cause))
    assert desk.do("check", "toy")[0] == 2


def tell(desk: Desk, value: str, by: str, ago: float = 5.0) -> None:
    """Tell under the output root what another account did to its standing order."""
    fact = SharedFact(what="standing", value=value, at=time.time() - ago, typed_by=by)
    place = desk.root / ".cockpit" / "told.md"
    place.parent.mkdir(exist_ok=True)
    with place.open("a") as file:
        file.write(f"- {message_line(fact)}\n")


def test_a_veto_ends_the_orders_of_other_machines_too(desk: Desk) -> None:
    tell(desk, "armed", "bob")
    code, out = desk.do("veto", "toy")
    assert (code, out) == (0, "orders on other machines end as soon as they read it\n")
    assert "standing: `ended`" in (desk.root / ".cockpit" / "told.md").read_text()
    code, out = desk.do("veto", "toy")
    assert (code, "it has no standing order" in out) == (4, True), "it was ended already"


def test_what_a_machine_tells_whose_clock_is_behind_ends_an_order_as_well(desk: Desk) -> None:
    tell(desk, "ended", "bob", ago=60.0)
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    assert desk.order() is not None, "what was known when it was armed is no later word"
    tell(desk, "ended", "eve", ago=600.0)
    assert desk.order() is None


@pytest.mark.parametrize("name", ["standing order of ada", "Standing  Order of\u200b ada"])
def test_nobody_acts_under_the_name_of_a_standing_order(desk: Desk, name: str) -> None:
    assert is_agent(name)
    desk.write(name)
    for verb in ("standing", "relaunch", "log"):
        assert desk.do(verb, "toy", "--confirm", f"{verb} toy")[0] == 2
        assert desk.do("history", "toy", "--json")[1].count('"action"') == 0


def test_arming_says_that_a_kill_by_hand_looks_like_any_other(desk: Desk) -> None:
    desk.write(standing=STANDING.replace('"walltime"', '"killed"'))
    code, out = desk.do("standing", "toy", "--until", "10h")
    assert code == 0
    assert "a kill -9 that a person types looks the same" in out


AGENT = "agent:sonnet"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "cockpit.toml"
    path.write_text('[cockpit]\noperator = "ada"\n[[run]]\nname = "toy"\n')
    store_path().parent.mkdir(parents=True, exist_ok=True)
    return path


def test_it_stops_what_waits_and_the_history_says_who_and_why(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, now = run_key(str(config), "toy"), time.time()
    store = Store(store_path())
    kept = AgentRecords(store)
    kept.planned(key, AGENT, "relaunch", "0" * 12, now)
    act = kept.wait(key, AGENT, "relaunch", "0" * 12, now, now + 600)
    kept.called([Call(key, AGENT, "log", "ok", now), Call(f"{config}#", AGENT, "fleet", "ok", now)])
    assert main(["veto", "toy", "--reason", "not tonight", "--config", str(config)]) == 0
    assert "relaunch by agent:sonnet: vetoed by ada" in capsys.readouterr().out
    assert kept.begin(act.number, now) == kept.act(act.number)
    assert kept.act(act.number).stage is Stage.VETOED
    assert main(["veto", "toy", "--config", str(config)]) == 4
    assert "no agent is waiting to act on toy" in capsys.readouterr().out
    main(["history", "toy", "--config", str(config)])
    told = capsys.readouterr().out
    assert "relaunch by agent:sonnet: vetoed by ada" in told
    assert "(not tonight)" in told
    assert "agent:sonnet used log once" in told
    assert "agent:sonnet used fleet once" in told
    main(["history", "toy", "--json", "--config", str(config)])
    (found,) = json.loads(capsys.readouterr().out)["agents"]["acts"]
    assert (found["stage"], found["said"], found["plan_id"]) == ("vetoed", "not tonight", "0" * 12)
    store.close()


def test_an_agent_gives_no_veto(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace('"ada"', '"agent:x"'))
    assert main(["veto", "toy", "--config", str(config)]) == 2
    assert "a veto is for a person to give" in capsys.readouterr().err


def test_what_an_agent_did_later_is_not_known_at_a_moment(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, now = run_key(str(config), "toy"), time.time()
    store = Store(store_path())
    kept = AgentRecords(store)
    kept.planned(key, AGENT, "relaunch", "0" * 12, now - 300)
    kept.wait(key, AGENT, "relaunch", "0" * 12, now - 100, now + 600)
    kept.stop(key, "ada", "not tonight", now - 90, Stage.VETOED)
    kept.called([Call(key, AGENT, "log", "ok", now)])
    main(["history", "toy", "--at", rfc3339(now - 200), "--config", str(config)])
    told = capsys.readouterr().out
    assert "relaunch by agent:sonnet: planned" in told
    assert "vetoed" not in told
    assert "used log" not in told
    store.close()


def test_a_veto_whose_answer_was_lost_is_not_told_as_none(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(AgentRecords, "stop", lambda *asked: answers.wait())
    monkeypatch.setattr(action, "ANSWER_WITHIN", 0.05)
    try:
        assert main(["veto", "toy", "--config", str(config)]) == 2
    finally:
        answers.set()
    assert "cannot tell whether it was vetoed, veto again" in capsys.readouterr().err


class Limit(NamedTuple):
    """How a GitHub refuses whoever asks too often, and in how many seconds it may be asked."""

    status: int
    headers: dict[str, str]
    message: str


HOURLY = Limit(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4102444800"},
               "API rate limit exceeded for user ID 1.")  # fmt: skip
SECONDARY = Limit(429, {"retry-after": "60"}, "You have exceeded a secondary rate limit.")
GONE = Limit(410, {}, "This issue was deleted")


class Refusing(http.server.BaseHTTPRequestHandler):
    limit = HOURLY

    def do_GET(self) -> None:
        body = json.dumps({"message": self.limit.message}).encode()
        self.send_response(self.limit.status)
        for name, value in {**self.limit.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def escalated(tiny: TinyRun, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("GH_TOKEN", "x" * 40)
    text = tiny.config.read_text().replace("final_step", 'dri = "bob"\nfinal_step')
    tiny.config.write_text(f'{text}records = {{ issue = "https://github.com/o/r/issues/5" }}\n')
    yield ["escalate", "tiny", "--config", str(tiny.config), "--confirm", "escalate tiny"]
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.parametrize("limit", [HOURLY, SECONDARY])
def test_a_comment_that_waits_has_told_nobody_yet(
    escalated: list[str],
    limit: Limit,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Refusing, "limit", limit)
    assert main(escalated) == 5
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("escalate tiny: nobody has been told yet: the comment waits: ")
    assert "next try" in first and "tell bob yourself" in first and "done" not in first
    assert main([*escalated, "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["outcome"] == "unknown"


def test_a_comment_that_is_refused_has_told_nobody(
    escalated: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refusing, "limit", GONE)
    assert main(escalated) == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("escalate tiny: nobody was told: not posted") and "done" not in first


PATIENCE = 180.0


@pytest.fixture
def book(tiny: TinyRun, tmp_path: Path) -> Path:
    clone = shared(tmp_path)
    text = tiny.config.read_text().replace('"2s"', '"1s"')
    tiny.config.write_text(f'{text}records = {{ logbook = "{clone / LOGBOOK}" }}\n')
    return clone


def subjects(place: Path) -> list[str]:
    return git(place, "log", "--format=%s", "main").splitlines()


def watched(tiny: TinyRun, until: Path | None = None, lines: int = 4) -> str:
    """Watch for some cadences, or until a repository has an automatic entry; return the stderr."""
    watch = Warm("cockpit", "watch", "--config", str(tiny.config), env=environment())
    assert watch.stdout is not None
    end = time.monotonic() + PATIENCE
    while until is not None and "tiny: log check" not in subjects(until):
        assert time.monotonic() < end, "no automatic entry"
        watch.stdout.readline()
    for _ in range(lines if until is None else 1):
        watch.stdout.readline()
    watch.terminate()
    return watch.communicate(timeout=PATIENCE)[1]


def test_nothing_is_committed_before_a_person_has_allowed_it(
    tiny: TinyRun, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = watched(tiny)
    assert subjects(book) == ["start"] and git(book, "status", "--porcelain") == ""
    assert "automatic logbook entries wait for your consent: cockpit autolog tiny" in said
    config = ("--config", str(tiny.config))
    assert main(["autolog", "tiny", *config]) == 0
    assert "every 1s" in capsys.readouterr().out
    assert main(["autolog", "tiny", *config, "--confirm", "autolog tiny"]) == 0
    assert "consent" not in watched(tiny, until=tmp_path / "remote.git")
    assert set(subjects(book)) == {"start", "tiny: log check"}


def test_never_writes_none_and_the_consent_can_be_taken_back(tiny: TinyRun, book: Path) -> None:
    act = ("autolog", "tiny", "--config", str(tiny.config), "--confirm", "autolog tiny")
    assert main([*act]) == 0
    text = tiny.config.read_text()
    tiny.config.write_text(text.replace(" }\n", ', log_every = "never" }\n'))
    assert "consent" not in watched(tiny)
    assert subjects(book) == ["start"]
    tiny.config.write_text(text)
    assert main([*act, "--off", "yes"]) == 0
    assert "consent" in watched(tiny)
    assert subjects(book) == ["start"]


def test_a_period_that_is_none_is_an_error_and_no_default(tiny: TinyRun, book: Path) -> None:
    text = tiny.config.read_text()
    tiny.config.write_text(text.replace(" }\n", ', log_every = "nver" }\n'))
    with pytest.raises(ConfigError, match="never"):
        load(tiny.config)
