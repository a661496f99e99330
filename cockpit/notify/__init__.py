"""How a person is reached (SPEC S-13)."""
