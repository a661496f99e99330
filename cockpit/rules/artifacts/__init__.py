"""Rules over what a run leaves behind: checkpoints, final artifacts, records."""
