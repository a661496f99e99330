"""A first run file from what is there: state files, logbooks, W&B runs, jobs of this user."""
