"""Rules: pure functions from a run and its history to alerts (SPEC C, J, T)."""
