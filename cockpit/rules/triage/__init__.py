"""Log triage: one class, its evidence lines, one action (SPEC T)."""
