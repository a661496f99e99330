"""One run through the real command line: what is lost, who else plans, a store that is new."""

from __future__ import annotations

import shutil

from tests.e2e.lab import PROGRAM, RELAUNCH, SOAK, Lab, Machine, git


def test_a_stop_and_what_follows_it(lab: Lab) -> None:
    here = lab.machine("a")
    here.program = PROGRAM
    lab.prepare(here)
    assert here.do(*RELAUNCH).code == 0
    lab.goes_on(here)
    words = here.words("stop")
    if SOAK:
        here.words("stop")  # somebody else plans meanwhile
        git(here.clone, "config", "protocol.ext.allow", "always")
        git(here.clone, "remote", "set-url", "origin", "ext::sleep 60")  # and the remote hangs
    reason = ("--reason", "a new dataset")
    answer = here.do("stop", *reason, "--confirm", words)
    assert answer.code == 0, str(answer)
    how = "done, recorded here, push pending" if SOAK else "done"
    assert answer.out.startswith(f"stop tiny: {how}\n"), str(answer)
    book = (here.clone / "tiny.md").read_text()
    entry = book[book.rindex("- stop\n") :]
    assert "a new dataset" in entry and "measured when it had ended" in entry, entry
    assert not lab.trainers
    _a_new_store_gives_no_id_out_again(lab, here)


def _a_new_store_gives_no_id_out_again(lab: Lab, here: Machine) -> None:
    """And a place that takes no log is said before anything is stopped or started."""
    shutil.rmtree(here.state)
    shutil.rmtree(here.root / ".cockpit")
    here.config.write_text(here.config.read_text().replace("/run.log", "/run.log/below/run.log"))
    plan = here.do("relaunch", "--json").document
    assert plan["facts"]["launch_id"] == "tiny-i002", "the logbook has tiny-i001"
    blocked = [each["text"] for each in plan["checks"] if each["id"] == "places"]
    assert blocked and "the log's folder is not writable" in blocked[0], plan["checks"]
    assert not lab.trainers
