"""W&B's files, read without its client (SPEC S-7)."""
