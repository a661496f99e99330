"""Retention clean-up and the teardown gate (SPEC A-6, A-12)."""
