"""Themes as data files."""
