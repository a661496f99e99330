"""Services beside the watch loop: they are started and stopped in one way."""
