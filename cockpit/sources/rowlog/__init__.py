"""Experiment trackers whose files hold rows of metrics: what their readers share (SPEC S-15)."""
