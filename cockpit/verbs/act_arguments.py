"""The command line of the guarded actions (INTERFACE, "Actions without the UI")."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from cockpit.actions.core.table import ActionEntry
from cockpit.model.plan import Approval
from cockpit.verbs.common import UsageError, add_config, add_json

POSITIONAL: Final = {"ack": ("key",), "adopt": ("job-id",)}
"""Options that are given by their place, in INTERFACE's form of the verb."""
FORMATS: Final = ("md", "svg", "txt")
APPROVALS: Final = "approvals"
PARAMS: Final = "given"


def add_arguments(parser: argparse.ArgumentParser, row: ActionEntry) -> None:
    """Add what one guarded verb takes."""
    parser.description = (
        f"{row.spec}: {row.help}. Prints its plan and stops (exit 0: nothing stands "
        "in the way, 4: blocked); acts only with --confirm and the plan's words "
        f'("{row.asks}"). After acting: 0 done, 4 refused, 5 unknown (look it up), '
        "6 done but not recorded, 1 failed."
    )
    parser.epilog = f"example: cockpit {_example(row)}"
    parser.add_argument("run_name", metavar="RUN", help="the run's name in the run file")
    for name in POSITIONAL.get(row.verb, ()):
        about = next(param.help for param in row.params if param.name == name)
        parser.add_argument(name, metavar=name.upper(), help=about)
    parser.set_defaults(**{APPROVALS: [], PARAMS: {}, "verb": row.verb})
    _add_params(parser, row)
    _add_approvals(parser, row)
    if row.verb == "handoff":
        _add_page(parser)
    parser.add_argument("--confirm", metavar="WORDS", help="act: the words of the plan")
    parser.add_argument(
        "--plan", metavar="ID", help="refuse if anything has changed since that plan"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only print the plan, whatever else is given"
    )
    add_config(parser)
    add_json(parser)


def params_of(args: argparse.Namespace, row: ActionEntry) -> dict[str, str]:
    """Return the verb's own options as they were given."""
    places = {name: getattr(args, name) for name in POSITIONAL.get(row.verb, ())}
    return {**getattr(args, PARAMS), **places}


def approvals_of(args: argparse.Namespace) -> tuple[Approval, ...]:
    """Return the approvals; raises ``UsageError`` for one without a name or a reason."""
    found = []
    for given in getattr(args, APPROVALS):
        for part in ("by", "reason"):
            if not given.get(part, "").strip():
                raise UsageError(
                    f"--approve {given['check']} needs --by NAME and --reason TEXT after it"
                )
        found.append(Approval(**given))
    return tuple(found)


def _add_params(parser: argparse.ArgumentParser, row: ActionEntry) -> None:
    for param in row.params:
        if param.name in POSITIONAL.get(row.verb, ()) or param.name in ("by", "reason"):
            continue
        parser.add_argument(
            f"--{param.name}",
            action=_Given,
            metavar=param.name.upper().replace("-", "_"),
            help=param.help,
            dest=PARAMS,
            default=argparse.SUPPRESS,
        )


def _add_page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--page",
        action="store_true",
        help="only print the page; nothing is handed over, --to is not needed",
    )
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0],
                        help="of --page: Markdown, a picture, or text (default: md)")  # fmt: skip


def _add_approvals(parser: argparse.ArgumentParser, row: ActionEntry) -> None:
    """Add ``--approve CHECK --by NAME --reason TEXT``; elsewhere ``--by`` is the verb's own."""
    parser.add_argument(
        "--approve", action=_Approve, metavar="CHECK", dest=APPROVALS, default=argparse.SUPPRESS,
        help="approve this block (repeatable); --by and --reason after it say who and why",
    )  # fmt: skip
    own = {param.name: param.help for param in row.params}
    for name, what in (("by", "who approves"), ("reason", "why")):
        text = f"{own[name]}; after --approve: {what}" if name in own else f"{what} (--approve)"
        parser.add_argument(
            f"--{name}", action=_OfApproval, metavar=name.upper(), dest=PARAMS,
            default=argparse.SUPPRESS, help=text,
        )  # fmt: skip


class _Given(argparse.Action):
    """Keeps an option of the verb by its long name."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        self.keep(namespace, (option_string or "").lstrip("-"), str(values))

    def keep(self, namespace: argparse.Namespace, name: str, value: str) -> None:
        """Put the value where it belongs."""
        setattr(namespace, PARAMS, {**getattr(namespace, PARAMS), name: value})


class _Approve(_Given):
    """Begins an approval; the ``--by`` and ``--reason`` behind it are its own."""

    def keep(self, namespace: argparse.Namespace, name: str, value: str) -> None:
        setattr(namespace, APPROVALS, [*getattr(namespace, APPROVALS), {"check": value}])


class _OfApproval(_Given):
    """Fills the last approval; without one it is an option of the verb."""

    def keep(self, namespace: argparse.Namespace, name: str, value: str) -> None:
        approvals = getattr(namespace, APPROVALS)
        if approvals and name not in approvals[-1]:
            setattr(namespace, APPROVALS, [*approvals[:-1], {**approvals[-1], name: value}])
        else:
            super().keep(namespace, name, value)


def _example(row: ActionEntry) -> str:
    asked = " ".join(
        param.name.upper() if param.name in POSITIONAL.get(row.verb, ()) else f"--{param.name} …"
        for param in row.params
        if param.required
    )
    words = row.asks.replace("RUN", "my-run").replace("STEP", "5000")
    call = " ".join(filter(None, (row.verb, "my-run", asked)))
    return f'{call} --confirm "{words}"'
