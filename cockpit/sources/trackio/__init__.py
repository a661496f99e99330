"""trackio: one SQLite file for each project (SPEC S-15)."""
