"""Checkpoint roots: listed, judged, and which one a relaunch would take (SPEC S-8, K)."""
