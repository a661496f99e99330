"""A terminal cockpit for babysitting expensive ML training runs."""

__version__ = "0.1.0"
