"""Starts a command detached, at most once per launch id, and stops exactly that."""
