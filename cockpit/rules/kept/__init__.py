"""Rules over what a run leaves behind: checkpoints, artifacts, records, its monitor."""
