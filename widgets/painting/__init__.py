"""Pure functions from model values to painted lines."""
