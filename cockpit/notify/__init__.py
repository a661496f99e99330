"""Telling people (SPEC S-13): which message is due, to whom, through which channel."""
