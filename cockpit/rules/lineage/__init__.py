"""Rules on what a run is: its tracker identity, code, output, checkpoint and config."""
