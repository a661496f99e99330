"""git, and the state of a run's code (SPEC S-10)."""
