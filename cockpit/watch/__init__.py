"""The watch loop: polls each facet at its cadence, keeps history, opens and closes alerts."""
