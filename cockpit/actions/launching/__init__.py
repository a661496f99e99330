"""Launch, relaunch, and a new lineage (SPEC A-1 to A-3)."""
