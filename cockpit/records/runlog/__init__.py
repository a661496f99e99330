"""HPC run logs, their timeline and experiments (SPEC S-12)."""
