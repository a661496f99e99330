"""Logbooks that keep in memory what a test looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cockpit.model.records import Opened, Recorded, SaveStage, Unfinished
from cockpit.model.report import RunReport

ENTRY = """### 2026-03-11 08:55 UTC - note
- Status: RUNNING 4/4, ~46,012/119,209, loss 2.314
- Evidence: 0.83M tok/s against 1.20M
- Decision:
- Next: check again 09:05"""
TAIL = ("### 2026-03-10 21:00 UTC - [/] [bold]", "- Status: RUNNING", "- Next: sleep")


class StandInBooks:
    """Stands in for ``cockpit.actions.telling.log_entry.Logbooks``."""

    def __init__(self) -> None:
        self.drafts: dict[str, str] = {}
        self.saved: list[str] = []
        self.savers: list[str] = []
        self.retried = 0
        self.end = Recorded(stage=SaveStage.PUSHED, commit="3fa2c1e9aa")
        self.gate: asyncio.Event | None = None
        self.trouble = ""

    async def open(self, report: RunReport, now: float) -> Opened:
        draft = self.drafts.get(report.name)
        return Opened(
            path=".agents/logbooks/run.md", text=draft or ENTRY, tail=TAIL, note="append",
            draft=draft is not None, trouble=self.trouble,
        )  # fmt: skip

    async def begin(self, report: RunReport, name: str, now: float) -> str:
        return ENTRY.replace("note", name)

    async def diff(self, report: RunReport, text: str) -> tuple[str, ...]:
        return (
            "@@ line 4 of 3: +5 −0 lines",
            " - Next: sleep",
            *(f"+{x}" for x in text.split("\n")),
        )

    async def keep(self, report: RunReport, text: str, by: str = "") -> str:
        self.drafts[report.name] = text
        return ""

    async def unfinished(self, report: RunReport) -> Unfinished | None:
        text = self.drafts.get(report.name)
        lines = 0 if text is None else len(text.splitlines())
        return None if text is None else Unfinished(by="ada", lines=lines, at=1773198720.0)

    def masked(self, text: str) -> str:
        return text.replace("hunter2", "•••••••")

    async def save(
        self,
        report: RunReport,
        text: str,
        on_stage: Callable[[Recorded], None],
        by: str = "",
    ) -> Recorded:
        on_stage(Recorded(stage=SaveStage.SAVED, busy="committing"))
        on_stage(Recorded(stage=SaveStage.COMMITTED, commit="3fa2c1e9aa", busy="pushing"))
        if self.gate is not None:
            await self.gate.wait()
        self.saved.append(text)
        self.savers.append(by)
        if self.end.stage is not SaveStage.NOTHING:
            self.drafts.pop(report.name, None)
        return self.end

    async def retry(self, report: RunReport) -> Recorded:
        self.retried += 1
        return self.end
