"""What is wrong with ``[notify]`` beyond each value: routes and answers that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.config.check import Trouble
from cockpit.config.reading import KeyPath
from cockpit.model.notify import (
    ANSWER_KINDS,
    ANSWER_SETTINGS,
    ROUTE_KINDS,
    AnswerRow,
    AnswerSpec,
    NotifySpec,
)
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import same_person


def route_troubles(notify: NotifySpec) -> Iterator[Trouble]:
    """Yield the routes that lead nowhere, or to two places."""
    for place, route in enumerate(notify.routes):
        at: KeyPath = ("notify", "routes", place)
        row = ROUTE_KINDS.get(route.kind or "command")
        needs = None if row is None else row.needs
        ways = [needs is None, route.url_env is not None, route.command is not None]
        if sum(ways) != 1 or (route.command is not None and needs != "command"):
            text = (
                'expected exactly one of url_env = "VARIABLE", command = […] or kind = "terminal"'
            )
            yield Trouble(at, text)
        elif route.kind is not None and needs == "command" and route.command is None:
            yield Trouble(at, 'expected the command: command = ["program", "argument"]')


def answer_troubles(notify: NotifySpec, runs: Sequence[RunSpec]) -> Iterator[Trouble]:
    """Yield the answers that nobody could give, and the accounts that are nobody's."""
    owners = {run.dri for run in runs} | {notify.second}
    people = sorted(name for name in owners if name is not None)
    for place, answers in enumerate(notify.answers):
        at: KeyPath = ("notify", "answers", place)
        row = ANSWER_KINDS[answers.kind]
        # Two would each read all comments, and one would ignore the people of the other.
        if answers.kind == "github" and "github" in [each.kind for each in notify.answers[:place]]:
            yield Trouble(at, "answers by github are there already; name all people in one entry")
        yield from _setting_troubles(at, answers, row, notify)
        if row.accounts is None:
            continue
        if not answers.people:
            yield Trouble(at, f'expected people = {{ "{row.example}" = "NAME" }}: whose count')
        seen: set[str] = set()
        for account, person in answers.people.items():
            where: KeyPath = (*at, "people", account)
            if row.accounts.fullmatch(account) is None:
                yield Trouble(where, f'is no account of {row.label}, such as "{row.example}"')
            elif account.casefold() in seen:
                yield Trouble(where, "this account is named twice")
            elif not any(same_person(person, each) for each in people):
                named = ", ".join(people) or "nobody"
                text = f"{person!r} answers for no run; expected a dri or notify.second: {named}"
                yield Trouble(where, text)
            seen.add(account.casefold())
        if answers.kind == "github" and not any(run.records.issue for run in runs):
            yield Trouble(at, "no run has an issue to comment on; expected [run.records] issue")


def _setting_troubles(
    at: KeyPath, answers: AnswerSpec, row: AnswerRow, notify: NotifySpec
) -> Iterator[Trouble]:
    """Yield the settings that are missing, or mean nothing for this kind."""
    for name in ANSWER_SETTINGS:
        value = getattr(answers, name)
        if value is None and name in row.needs:
            yield Trouble(at, f'expected {name} = "{"VARIABLE" if name.endswith("_env") else "…"}"')
        elif value is not None and name not in (*row.needs, *row.takes):
            yield Trouble((*at, name), f"answers of {row.label} have no {name}")
    if row.accounts is None and answers.people:
        yield Trouble((*at, "people"), f'{row.label} names no accounts: write to = "NAME" instead')
    routes = [each for each in notify.routes if each.kind == answers.kind]
    if answers.kind != "github" and not routes:
        yield Trouble(
            at, f'no message can be answered: expected a route of kind = "{answers.kind}"'
        )
    elif row.accounts is None and not any(each.to for each in routes):
        yield Trouble(at, f'expected to = "NAME" in a route of kind = "{answers.kind}"')
