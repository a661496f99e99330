"""What a plan checks before anything is launched: one file per concern, all of them pure."""
