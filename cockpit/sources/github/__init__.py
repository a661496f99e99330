"""GitHub's API and the addresses of issues (SPEC S-11)."""
