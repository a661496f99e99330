"""Asking the sources: each facet and place at its cadence."""
