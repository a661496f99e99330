"""The last frame of a session, kept, and painted while the next one is still being loaded."""
