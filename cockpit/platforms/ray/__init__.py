"""Jobs of kind ``ray``: Ray Jobs, over REST on the dashboard port (SPEC S-2)."""

from typing import Final

PRIVATE: Final = ("address",)
"""The keys of ``[run.job]`` that ``--present`` masks."""
