"""The logbook: read leniently, appended to in its own style (SPEC L)."""
