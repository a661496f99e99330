"""Screens: one per file; they compose widgets, bind keys and ask the engine."""
