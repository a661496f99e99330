"""Jobs of kind ``box``: a session or process of an ssh host, known by its files (SPEC S-4)."""

from typing import Final

PRIVATE: Final = ("host", "session")
"""The keys of ``[run.job]`` that ``--present`` masks."""
