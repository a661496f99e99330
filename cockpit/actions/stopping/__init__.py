"""Stop and rollback (SPEC A-4, A-5)."""
