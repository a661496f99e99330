"""What is known of one host's paths is not told of another's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cockpit.model.clock import SystemClock
from cockpit.platforms.box.jobs import BoxJobs, View
from cockpit.platforms.box.probe import Actor, Answers, Piece
from tests.platforms.box.making import spec


class Aliased(Actor):
    """This machine under a host's name; on ``near`` each folder is a link elsewhere."""

    def __init__(self, name: str) -> None:
        super().__init__(None)
        self.name = name

    async def ask(self, pieces: Iterable[Piece]) -> Answers:
        answers = dict(await super().ask(pieces))
        for piece, said in answers.items():
            if piece.name == "its links" and self.name == "near" and isinstance(said, bytes):
                answers[piece] = b"".join(b"/elsewhere" + line for line in said.splitlines(True))
        return answers


async def test_a_path_that_is_a_link_on_one_host_is_none_on_another(tmp_path: Path) -> None:
    actors = {name: Aliased(name) for name in ("near", "far")}
    jobs = BoxJobs(SystemClock(), actors.__getitem__)
    led = {}
    for host in actors:
        view = await jobs.look(host, [spec(host, tmp_path, host)])
        assert isinstance(view, View)
        led[host] = view.sight.real(str(tmp_path))
    assert led == {"near": f"/elsewhere{tmp_path}", "far": str(tmp_path)}
