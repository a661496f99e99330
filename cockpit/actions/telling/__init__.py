"""Handoff, escalation, log entries, acknowledging (SPEC A-8 to A-10, A-14)."""
