"""The run's GitHub issue: created, commented on, queued while offline (SPEC S-11)."""
