"""The run file that a proposal makes: checked as any other, written where nothing stands."""

from __future__ import annotations

import tomllib
from pathlib import Path

from cockpit.config.build import build
from cockpit.init.proposal import Proposal
from cockpit.init.toml import run_block, run_file
from cockpit.model.run import CockpitFile
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


class ProposalError(Exception):
    """A proposal that makes no usable run file; ``problems`` holds one line for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def text_of(proposal: Proposal, path: Path, *, alone: bool = True, schema: str = "") -> str:
    """Return the text of the run file at ``path``; with ``alone`` False only its ``[[run]]``.

    ``schema`` is where its JSON Schema lies.
    Raises ``ProposalError`` for what the run file would not be read with.
    """
    settled = proposal.settled
    left = [each for each in proposal.questions() if not each.needed]
    block = run_block(settled, left)
    try:
        built = build(tomllib.loads(block), path)
    except tomllib.TOMLDecodeError:
        keys = sorted(".".join(clue.key) for clue in settled)
        text = f"these settings conflict: {clean(scrub(', '.join(keys)), 400)}"
        raise ProposalError((text,)) from None
    if not isinstance(built, CockpitFile):
        faults = {
            ".".join(str(part) for part in each.path if isinstance(part, str)): each.text
            for each in built
        }
        said = (
            f"{clean(scrub(field), 200)}: {clean(scrub(text))}" for field, text in faults.items()
        )
        raise ProposalError(tuple(said))
    return run_file(block, schema) if alone else block


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet: all of it, or none.

    Raises ``OSError``, ``FileExistsError`` among them.
    """
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink(missing_ok=True)
            raise
