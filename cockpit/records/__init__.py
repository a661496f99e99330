"""Records: the logbook and the other files that people read afterwards."""
