"""Which message is due to whom, and sending it once."""
