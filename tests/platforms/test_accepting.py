"""What an offer that failed says of the job: refused, or nobody knows (SPEC A)."""

from __future__ import annotations

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Accepted, Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.protocol import LaunchingPlatform
from cockpit.runtime.http import HttpError, LostAnswerError
from tests.platforms.stand_in import StandIn


class Offering(StandIn, LaunchingPlatform):
    """Fails an offer as it is told."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """Its id is free."""

    async def check_alone(self, run: RunSpec) -> None:
        """Nothing lives beside it."""

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "raised", "said"),
    [
        (HttpError(ErrorKind.FORBIDDEN, "head: no"), CannotError, "head: no; nothing was started"),
        (LostAnswerError(ErrorKind.TIMEOUT, "head: cut off"), LostError, "head: cut off"),
        (TimeoutError(), LostError, "no answer in time"),
    ],
)
async def test_an_offer_without_an_answer_is_not_told_as_one_that_was_refused(
    failure: Exception, raised: type[Exception], said: str
) -> None:
    submission = Submission(run="toy", launch_id="toy-i001", command=("train",))
    with pytest.raises(raised) as found:
        await LaunchingPlatform.accept(Offering(failure), RunSpec(name="toy"), submission)
    assert str(found.value) == said
