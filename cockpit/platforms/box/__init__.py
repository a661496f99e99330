"""Jobs of kind ``box``: a session or process of an ssh host, known by its files (SPEC S-4)."""
