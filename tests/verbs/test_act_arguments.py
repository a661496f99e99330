"""The command line of the guarded verbs: options, approvals, examples that parse."""

from __future__ import annotations

import argparse
import shlex

import pytest

from cockpit.actions.core.table import TABLE, ActionEntry
from cockpit.verbs import act
from cockpit.verbs.common import UsageError


def _parsed(call: str) -> tuple[argparse.Namespace, ActionEntry]:
    words = shlex.split(call)
    row = next(row for row in TABLE if row.verb == words[0])
    parser = argparse.ArgumentParser()
    act.add_row_arguments(parser.add_subparsers().add_parser(row.verb), row)
    return parser.parse_args(words), row


def test_interface_s_forms_are_understood() -> None:
    for call, expected in {
        "rollback hero --to 46000": {"to": "46000"},
        "handoff hero --to bob": {"to": "bob"},
        "ack hero C-05:hero --by ada --until 2026-03-11T09:00:00Z --reason dip": {
            "key": "C-05:hero", "by": "ada", "until": "2026-03-11T09:00:00Z", "reason": "dip",
        },
        "log hero --event drop --status a --evidence b --decision c --next d": {
            "event": "drop", "status": "a", "evidence": "b", "decision": "c", "next": "d",
        },
        "lineage hero --run-id b --wandb-id w --output-root gs://b --from 5 --reason why": {
            "run-id": "b", "wandb-id": "w", "output-root": "gs://b", "from": "5", "reason": "why",
        },
    }.items():  # fmt: skip
        args, row = _parsed(call)
        assert act.params_of(args, row) == expected
        assert act.approvals_of(args) == ()


def test_by_and_reason_belong_to_the_approval_before_them() -> None:
    args, row = _parsed(
        "lineage hero --run-id b --reason 'new data' --approve C-15 --by bob --reason 'only a log' "
        "--approve C-18:lr --reason wanted --by ada"
    )
    assert act.params_of(args, row) == {"run-id": "b", "reason": "new data"}
    given = [(each.check, each.by, each.reason) for each in act.approvals_of(args)]
    assert given == [("C-15", "bob", "only a log"), ("C-18:lr", "ada", "wanted")]


@pytest.mark.parametrize("missing", ["", "--by bob", "--reason because", "--by '' --reason x"])
def test_an_approval_without_a_name_or_a_reason_is_a_usage_error(missing: str) -> None:
    args, _ = _parsed(f"relaunch hero --approve C-15 {missing}")
    with pytest.raises(UsageError, match="--by NAME and --reason TEXT"):
        act.approvals_of(args)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.verb)
def test_every_verb_has_an_example_that_parses(row: ActionEntry) -> None:
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers()
    act.add_row_arguments(verbs.add_parser(row.verb), row)
    epilog = verbs.choices[row.verb].epilog or ""
    words = shlex.split(epilog.partition("cockpit ")[2].replace("…", "x"))
    assert parser.parse_args(words).confirm
