"""Foreign text made safe to show, secrets masked, progress lines read."""
