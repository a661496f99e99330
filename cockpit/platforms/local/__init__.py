"""Jobs of kind ``local``: processes of this machine (SPEC S-5)."""

from typing import Final

PRIVATE: Final = ("host",)
"""The keys of ``[run.job]`` that ``--present`` masks."""
