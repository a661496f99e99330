"""Jobs of kind ``slurm``: squeue, sacct, scontrol; on this machine or over ssh (SPEC S-3)."""

from typing import Final

PRIVATE: Final = ("host",)
"""The keys of ``[run.job]`` that ``--present`` masks."""
