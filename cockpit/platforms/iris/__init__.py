"""Jobs of kind ``iris``: jobs ``/user/job`` of an Iris controller, over its HTTP RPC (SPEC S-1)."""

from typing import Final

PRIVATE: Final = ("controller_url", "cluster")
"""The keys of ``[run.job]`` that ``--present`` masks."""
