"""State files and event logs of whoever monitors a run (SPEC S-9)."""
