"""The terminal UI: the Textual app and how it is put together."""
