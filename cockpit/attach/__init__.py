"""One engine, many windows: how a terminal UI is given what the engine of its run file knows."""
