"""Guarded actions: plan, typed confirmation, journal, do, verify, record (SPEC A)."""
