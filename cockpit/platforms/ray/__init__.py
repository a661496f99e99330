"""Jobs of kind ``ray``: Ray Jobs, over REST on the dashboard port (SPEC S-2)."""
