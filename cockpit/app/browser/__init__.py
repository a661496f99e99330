"""The read-only window in a web browser: who may look, what is painted, which keys count."""
