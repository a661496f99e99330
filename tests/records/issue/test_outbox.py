"""What the queue says of failures, and when it tries again."""

from __future__ import annotations

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.records.issue.outbox import not_sent_text, refused
from cockpit.runtime.http import HttpError, LostAnswerError


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (HttpError(ErrorKind.DNS, "x"), False),
        (HttpError(ErrorKind.RATE_LIMITED, "x", retry_in=5), False),
        (HttpError(ErrorKind.RATE_LIMITED, "x", status=403), False),
        (HttpError(ErrorKind.BAD_ANSWER, "x", status=502), False),
        (HttpError(ErrorKind.BAD_ANSWER, "x"), False),
        (LostAnswerError(ErrorKind.BAD_ANSWER, "x", status=201), False),
        (HttpError(ErrorKind.UNAUTHORIZED, "x", status=401), True),
        (HttpError(ErrorKind.NOT_FOUND, "x", status=410), True),
        (HttpError(ErrorKind.BAD_ANSWER, "x", status=422), True),
        (HttpError(ErrorKind.BAD_ANSWER, "x", status=301), True),
    ],
)
def test_what_a_person_must_settle_is_told_from_what_passes(error: HttpError, final: bool) -> None:
    assert refused(error) is final


def test_a_missing_network_is_said_with_its_beginning() -> None:
    error = HttpError(ErrorKind.REFUSED, "api.github.com: the connection was refused")
    assert not_sent_text(error, 1_800_000_000.0).startswith(
        "no network since 2027-01-15 08:00Z (api."
    )
