"""The run file: read, checked, its defaults and places resolved (INTERFACE, "The run file")."""
