"""Screens on which something is planned, typed, confirmed and done."""
