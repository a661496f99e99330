"""Widgets: one per file; they are given model values and paint them."""
