"""Seal, and the publish gate (SPEC A-7, A-13)."""
