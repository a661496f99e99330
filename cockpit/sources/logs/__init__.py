"""A run's log: its tail, its pages, what its new lines tell."""
