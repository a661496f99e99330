"""Commits that hold one file and nothing else, pushed past other people's (SPEC S-10)."""
